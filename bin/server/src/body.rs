//! JSON bodies: read within a limit, and wrong ones told as the wire does.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use bytes::BytesMut;
use futures::StreamExt;
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// Largest body, in bytes: prompts may carry images.
const LIMIT: usize = 64 * 1024 * 1024;

/// A JSON body. An empty one is read as `{}` where the type allows that.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = ApiError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, ApiError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let content_type = request.content_type().to_owned();
        let is_named = request.headers().contains_key(CONTENT_TYPE);
        let mut payload = payload.take();
        Box::pin(async move {
            let mut body = BytesMut::new();
            while let Some(chunk) = payload.next().await {
                let chunk = chunk.map_err(|error| ApiError::payload(format!("the body broke off: {error}")))?;
                if body.len() + chunk.len() > LIMIT {
                    return Err(ApiError::payload("the body is larger than 64 MiB"));
                }
                body.extend_from_slice(&chunk);
            }
            // Browsers may send other types across origins without asking first, so only JSON is taken.
            if is_named && !body.is_empty() && content_type != "application/json" {
                return Err(ApiError::ContentType(content_type));
            }
            read(&body).map(Json)
        })
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body = if body.is_empty() { b"{}" } else { body };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let at = if path == "." { String::new() } else { format!("\n  at {path}") };
            ApiError::payload(format!("{}{at}", without_place(&inner.to_string())))
        } else {
            ApiError::payload(format!("the body is no JSON: {inner}"))
        }
    })?;
    reader.end().map_err(|error| ApiError::payload(format!("the body is no JSON: {error}")))?;
    Ok(value)
}

/// The path says where; line and column of a body nobody sees don't help.
fn without_place(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::prompt::PromptBody;
    use protocol::session::CreateSession;

    use super::*;

    fn error<T: DeserializeOwned>(body: &str) -> String {
        read::<T>(body.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        assert!(error::<PromptBody>("{bad").starts_with("the body is no JSON"));
        assert_eq!(error::<PromptBody>("{}"), "missing field `parts`");
        assert!(error::<PromptBody>(r#"{"parts":"x"}"#).contains("at parts"));
        assert!(error::<PromptBody>(r#"{"messageID":"abc","parts":[]}"#).contains("starting with \"msg\""));
        assert!(error::<CreateSession>(r#"{"title":5}"#).contains("at title"));
        assert!(error::<CreateSession>(r#"{} {}"#).contains("no JSON"));
        assert_eq!(error::<CreateSession>(""), "");
    }
}
