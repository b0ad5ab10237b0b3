//! Asks vendors for codes and tokens.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sse::Client;

use super::AuthError;

/// Most time for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest answer that is read.
const MOST: usize = 256 * 1024;

/// How a body is written.
#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    Json(&'a Value),
    Form(&'a [(&'a str, &'a str)]),
}

/// The client, made when it is first needed.
#[derive(Clone)]
pub(super) struct Http(Arc<dyn Fn() -> Client + Send + Sync>);

impl Http {
    pub(super) fn new(client: impl Fn() -> Client + Send + Sync + 'static) -> Self {
        Self(Arc::new(client))
    }

    /// Posts, and returns the status and the JSON of the answer; `null` where it is none.
    pub(super) async fn post(&self, url: &str, body: Body<'_>) -> Result<(u16, Value), AuthError> {
        let host = || url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let lost = |error: reqwest::Error| AuthError::Unreachable {
            host: host(),
            reason: if error.is_timeout() { "it took too long".into() } else { error.without_url().to_string() },
        };
        let (kind, bytes) = match body {
            Body::Json(value) => ("application/json", value.to_string()),
            Body::Form(fields) => {
                let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
                ("application/x-www-form-urlencoded", form)
            }
        };
        let request = (self.0)().post(url).timeout(PATIENCE).header("content-type", kind);
        let mut answer = request.header("accept", "application/json").body(bytes).send().await.map_err(lost)?;
        let status = answer.status().as_u16();
        let mut read = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(lost)? {
            read.extend_from_slice(&piece);
            if read.len() > MOST {
                return Err(AuthError::Unreachable { host: host(), reason: "its answer is too large".into() });
            }
        }
        Ok((status, serde_json::from_slice(&read).unwrap_or(Value::Null)))
    }
}

/// Returns a text of an answer that isn't empty.
pub(super) fn text<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns a number of an answer, also one in a string.
pub(super) fn number(answer: &Value, name: &str) -> Option<u64> {
    let value = answer.get(name)?;
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).or_else(|| value.as_str()?.parse().ok())
}

/// Returns why a vendor said no, in its words: the code and the text, which hold no secret.
pub(super) fn refusal(status: u16, answer: &Value) -> AuthError {
    let error = answer.get("error");
    let code = error.and_then(|error| error.as_str().or_else(|| error.get("code")?.as_str()));
    let said = text(answer, "error_description").or_else(|| text(error?, "message"));
    let words: Vec<&str> = [code, said].into_iter().flatten().collect();
    AuthError::Refused(if words.is_empty() { format!("the vendor answered {status}") } else { words.join(": ") })
}
