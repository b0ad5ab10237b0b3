//! JSON bodies: read within a limit, and wrong ones told as the wire does.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::error::ApiError;

/// Largest body, in bytes: prompts may carry images.
const LIMIT: usize = 64 * 1024 * 1024;
/// How long nothing of a body may come.
const IDLE: Duration = Duration::from_secs(30);
/// How much of a wrong value is shown, in characters.
const SHOWN: usize = 200;

/// A JSON body. An empty one is read as `{}` where the type allows that.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = ApiError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, ApiError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let content_type = request.content_type().to_owned();
        let is_named = request.headers().contains_key(CONTENT_TYPE);
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut payload = payload.take();
        Box::pin(async move {
            if announced.is_some_and(|length: u64| length > LIMIT as u64) {
                return Err(too_large(LIMIT));
            }
            let body = collect(&mut payload, IDLE, LIMIT).await?;
            // Browsers may send other types across origins without asking first, so only JSON is taken.
            if is_named && !body.is_empty() && !content_type.eq_ignore_ascii_case("application/json") {
                return Err(ApiError::ContentType(content_type));
            }
            read(&body).map(Json)
        })
    }
}

/// Takes a body of at most `limit` bytes, of which a part comes at least each `idle`.
async fn collect<E: std::fmt::Display>(
    payload: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    idle: Duration,
    limit: usize,
) -> Result<BytesMut, ApiError> {
    let mut body = BytesMut::new();
    loop {
        let stalled = |_| ApiError::payload(format!("the body did not come: nothing for {} s", idle.as_secs()));
        let Some(chunk) = tokio::time::timeout(idle, payload.next()).await.map_err(stalled)? else { return Ok(body) };
        let chunk = chunk.map_err(|error| ApiError::payload(format!("the body broke off: {error}")))?;
        if body.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&chunk);
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::payload(format!("the body is larger than {} MiB", limit / 1024 / 1024))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let body = if body.is_empty() { b"{}" } else { body };
    must_be_object(body)?;
    let no_json = |error: &serde_json::Error| ApiError::payload(format!("the body is no JSON: {error}"));
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| match error.inner() {
        // A value of a kind that an enumeration can't have counts as bad syntax there.
        inner if inner.is_data() || serde_json::from_slice::<IgnoredAny>(body).is_ok() => {
            ApiError::payload(explain(body, error.path(), &inner.to_string()))
        }
        inner => no_json(inner),
    })?;
    reader.end().map_err(|error| no_json(&error))?;
    Ok(value)
}

/// Returns an error for JSON that is no object: a list would be read as an object's values in their order.
fn must_be_object(body: &[u8]) -> Result<(), ApiError> {
    if body.trim_ascii_start().first() == Some(&b'{') {
        return Ok(());
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => Err(ApiError::payload(format!("Expected object, got {}", cut(&value.to_string())))),
        // What is wrong with it is said by who reads it.
        Err(_) => Ok(()),
    }
}

/// What is wrong with a body, and where, in the form clients of the wire know.
fn explain(body: &[u8], path: &Path, said: &str) -> String {
    // The path says where; line and column of a body nobody sees don't help.
    let said = said.rsplit_once(" at line ").map_or(said, |(before, _)| before);
    let place = place(path);
    if let Some(types) = part_types(path, said) {
        return format!("Expected {types}, got {}{}", value_at(body, path), named(&place));
    }
    if let Some(key) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("Missing key{}", named(&format!("{place}[{}]", Value::from(key))));
    }
    if let Some((got, allowed)) = unknown_variant(said) {
        return format!("Expected {allowed}, got {}{}", Value::from(got), named(&place));
    }
    if said == "expected value" {
        return format!("Unexpected {}{}", value_at(body, path), named(&place));
    }
    format!("{said}{}", named(&place))
}

fn named(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("\n  at {place}") }
}

/// `["parts"][0]["text"]`.
fn place(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Map { key } => format!("[{}]", Value::from(key.as_str())),
            Segment::Seq { index } => format!("[{index}]"),
            Segment::Enum { .. } | Segment::Unknown => String::new(),
        })
        .collect()
}

/// The value that is wrong and the ones that are allowed, of serde's words for it.
fn unknown_variant(said: &str) -> Option<(&str, String)> {
    let (got, allowed) = said.strip_prefix("unknown variant `")?.split_once("`, expected ")?;
    let names: Vec<String> = allowed.split('`').skip(1).step_by(2).map(|name| Value::from(name).to_string()).collect();
    (!names.is_empty()).then(|| (got, names.join(" | ")))
}

/// The kinds of parts a prompt may have, where the fault is that one is of none of them.
fn part_types(path: &Path, said: &str) -> Option<String> {
    let segments: Vec<&Segment> = path.iter().collect();
    match segments.as_slice() {
        [Segment::Map { key }, Segment::Seq { .. }] if key == "parts" => {}
        _ => return None,
    }
    let is_about_type = said == "missing field `type`" || said.starts_with("unknown variant `");
    let types = ["text", "file", "agent", "subtask"].map(|kind| format!("{{ readonly \"type\": \"{kind}\", ... }}"));
    is_about_type.then(|| types.join(" | "))
}

/// The JSON at a place of the body, cut to a readable length.
fn value_at(body: &[u8], path: &Path) -> String {
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    let found = path.iter().try_fold(&whole, |value, segment| match segment {
        Segment::Map { key } => value.get(key),
        Segment::Seq { index } => value.get(*index),
        Segment::Enum { .. } | Segment::Unknown => Some(value),
    });
    cut(&found.map(Value::to_string).unwrap_or_default())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use protocol::permission::ReplyBody;
    use protocol::prompt::PromptBody;
    use protocol::session::CreateSession;

    use super::*;

    fn error<T: DeserializeOwned>(body: &str) -> String {
        read::<T>(body.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        assert!(error::<PromptBody>("{bad").starts_with("the body is no JSON"));
        assert_eq!(error::<PromptBody>("{}"), "Missing key\n  at [\"parts\"]");
        assert!(error::<PromptBody>(r#"{"parts":"x"}"#).ends_with("\n  at [\"parts\"]"));
        assert_eq!(error::<PromptBody>(r#"{"parts":[{"type":"text"}]}"#), "Missing key\n  at [\"parts\"][0][\"text\"]");
        assert_eq!(
            error::<PromptBody>(r#"{"messageID":"abc","parts":[]}"#),
            "Expected a string starting with \"msg\", got \"abc\"\n  at [\"messageID\"]"
        );
        assert!(error::<CreateSession>(r#"{"title":5}"#).ends_with("at [\"title\"]"));
        assert!(error::<CreateSession>(r#"{} {}"#).contains("no JSON"));
        assert_eq!(error::<CreateSession>(r#" ["x"]"#), r#"Expected object, got ["x"]"#);
        assert_eq!(error::<CreateSession>("null"), "Expected object, got null");
        assert_eq!(error::<CreateSession>(""), "");
    }

    #[test]
    fn a_wrong_choice_is_told_with_those_there_are() {
        assert_eq!(
            error::<ReplyBody>(r#"{"reply":"maybe"}"#),
            "Expected \"once\" | \"always\" | \"reject\", got \"maybe\"\n  at [\"reply\"]"
        );
        let of_none = error::<PromptBody>(r#"{"parts":[{"type":"zzz","text":"x"}]}"#);
        assert!(of_none.starts_with("Expected { readonly \"type\": \"text\", ... } | "), "{of_none}");
        assert!(of_none.ends_with("got {\"type\":\"zzz\",\"text\":\"x\"}\n  at [\"parts\"][0]"), "{of_none}");
        assert_eq!(error::<PromptBody>(r#"{"parts":[{"text":"x"}]}"#), of_none.replace(r#""type":"zzz","#, ""));
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_no_fault_of_the_json() {
        assert_eq!(error::<ReplyBody>(r#"{"reply":5}"#), "Unexpected 5\n  at [\"reply\"]");
        assert_eq!(error::<CreateSession>("\u{feff}{}"), "");
    }

    #[actix_web::test]
    async fn a_body_that_stalls_breaks_off_or_grows_too_large_is_refused() {
        type Chunk = Result<Bytes, &'static str>;
        let sent = |chunks: &[Chunk]| futures::stream::iter(chunks.to_vec());
        let chunks: [Chunk; 2] = [Ok(Bytes::from_static(b"{\"a\":")), Ok(Bytes::from_static(b"1}"))];
        let collected = collect(&mut sent(&chunks), IDLE, 7).await.expect("a body");
        assert_eq!(&*collected, b"{\"a\":1}");

        let refused = |result: Result<BytesMut, ApiError>| result.expect_err("refused").to_string();
        let mut stalled = sent(&chunks[..1]).chain(futures::stream::pending());
        assert!(refused(collect(&mut stalled, Duration::ZERO, LIMIT).await).contains("did not come"));
        let mut broken = sent(&[chunks[0].clone(), Err("reset")]);
        assert_eq!(refused(collect(&mut broken, IDLE, LIMIT).await), "the body broke off: reset");
        assert!(refused(collect(&mut sent(&chunks), IDLE, 6).await).contains("larger than"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_body_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read::<PromptBody>(&body);
        }
    }
}
