//! Reads the error object of an answer, in the many shapes vendors and the proxies before them use.

use std::time::Duration;

use serde_json::{Map, Value};

use super::retry_after;

/// What a vendor says went wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VendorError {
    /// There is an error object.
    pub(crate) is_error: bool,
    /// The text for a person.
    pub(crate) message: Option<String>,
    /// `code`, `type`, `status` and the like, in lower case; numbers but HTTP statuses too.
    pub(crate) codes: Vec<String>,
    /// A number among them that is an HTTP status.
    pub(crate) status: Option<u16>,
    /// All texts, in lower case and without backquotes; where the message only says that something went wrong upstream, the rest tells what.
    pub(crate) text: String,
    /// Size of the model's window, in tokens.
    pub(crate) context_limit: Option<u64>,
    /// How long to wait before the next try.
    pub(crate) retry_after: Option<Duration>,
}

impl VendorError {
    /// Returns what `body` says: `{error: {…}}`, `{error: "text"}`, `{message}`, `{detail}`, a list of one of those,
    /// or any text.
    pub(crate) fn read(body: &str) -> Self {
        let mut error = Self::default();
        match serde_json::from_str(body) {
            Ok(value) => error.find(&value),
            Err(_) => error.add(body),
        }
        error.context_limit = error.context_limit.or_else(|| window(&error.text));
        error.retry_after = error.retry_after.or_else(|| retry_after::said(&error.text));
        error
    }

    fn find(&mut self, value: &Value) {
        match value {
            Value::Array(values) => values.iter().take(1).for_each(|value| self.find(value)),
            Value::Object(object) => match (object.get("error"), object.get("errors")) {
                (Some(error), _) if !error.is_null() => self.take(error, object),
                (_, Some(Value::Array(errors))) => errors.iter().take(1).for_each(|error| self.take(error, object)),
                _ if ["message", "detail"].iter().any(|name| object.contains_key(*name)) => self.take(value, object),
                _ => {}
            },
            _ => {}
        }
    }

    /// Takes the error object, then what stands around it.
    fn take(&mut self, error: &Value, around: &Map<String, Value>) {
        self.is_error = true;
        match error {
            Value::String(text) => self.say(text),
            Value::Object(object) => self.take_object(object),
            _ => {}
        }
        self.take_object(around);
    }

    fn take_object(&mut self, object: &Map<String, Value>) {
        for name in ["message", "detail", "msg", "error_description"] {
            match object.get(name) {
                Some(Value::String(text)) => self.say(text),
                Some(Value::Array(list)) => {
                    list.iter().filter_map(|item| item.get("msg")?.as_str()).take(3).for_each(|text| self.say(text));
                }
                _ => {}
            }
        }
        for name in ["code", "type", "status", "statusCode", "status_code"] {
            match object.get(name) {
                Some(Value::Number(number)) => number.as_u64().into_iter().for_each(|number| self.number(number)),
                Some(Value::String(text)) => match text.parse() {
                    Ok(number) => self.number(number),
                    Err(_) => self.codes.push(text.to_lowercase()),
                },
                _ => {}
            }
        }
        // llama.cpp: how large the window is.
        self.context_limit = self.context_limit.or_else(|| object.get("n_ctx")?.as_u64());
        // Azure: why its filter refused. OpenRouter: what the vendor behind it said.
        if let Some(inner) = object.get("innererror").and_then(|inner| inner.get("code")).and_then(Value::as_str) {
            self.codes.push(inner.to_lowercase());
        }
        if let Some(raw) = object.get("metadata").and_then(|metadata| metadata.get("raw")).and_then(Value::as_str) {
            self.add(raw);
        }
        // Google: how long to wait.
        let details = object.get("details").and_then(Value::as_array).into_iter().flatten();
        let delay = |detail: &Value| retry_after::duration(detail.get("retryDelay")?.as_str()?);
        self.retry_after = self.retry_after.or_else(|| details.filter_map(delay).next());
    }

    fn say(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message.get_or_insert_with(|| text.to_owned());
            self.add(text);
        }
    }

    fn add(&mut self, text: &str) {
        self.text.push('\n');
        self.text.extend(text.to_lowercase().chars().filter(|c| *c != '`'));
    }

    /// Takes a status, or a code that is a number of the vendor's own.
    fn number(&mut self, number: u64) {
        match u16::try_from(number).ok().filter(|status| (400..600).contains(status)) {
            Some(status) => self.status = self.status.or(Some(status)),
            None => self.codes.push(number.to_string()),
        }
    }
}

/// Returns the error object inside `{error: {…}}`, as it is written.
pub(super) fn object(body: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        error: &'a serde_json::value::RawValue,
    }
    let outer: Outer<'_> = serde_json::from_str(body).ok()?;
    Some(outer.error.get()).filter(|error| error.starts_with('{'))
}

/// What stands before the size of the window in the vendors' texts, more telling ones first.
const BEFORE_WINDOW: [&str; 16] = [
    "maximum context length",
    "available context size",
    "context window of",
    "context length of",
    "context length is only",
    "model token limit",
    "range of input length should be",
    "max_new_tokens must be",
    "inputs must have less than",
    "tokens in the prompt cannot exceed",
    "max_seq_len",
    "maximum prompt length",
    "maximum number of tokens allowed",
    "context limit:",
    "tokens >",
    "limit of",
];

/// Returns the size of the window that a text in lower case names.
fn window(text: &str) -> Option<u64> {
    BEFORE_WINDOW.iter().find_map(|before| {
        let (_, after) = text.split_once(before)?;
        let near = after.char_indices().nth(32).map_or(after, |(end, _)| after.get(..end).unwrap_or(after));
        // A range begins with a small number.
        let numbers = near.split(|c: char| !c.is_ascii_digit() && c != ',').map(|digits| digits.replace(',', ""));
        numbers.filter_map(|digits| digits.parse().ok()).find(|size| *size >= 256)
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_message_is_found_in_all_shapes() {
        for body in [
            r#"{"error":{"message":"no","type":"x"}}"#,
            r#"{"error":"no"}"#,
            r#"[{"error":{"message":"no"}}]"#,
            r#"{"message":"no"}"#,
            r#"{"detail":"no"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"no"}]}"#,
            r#"{"errors":[{"message":"no"}]}"#,
            r#"{"object":"error","message":"no","type":"BadRequestError","code":400}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"no"}}"#,
        ] {
            let error = VendorError::read(body);
            assert_eq!((error.message.as_deref(), error.is_error), (Some("no"), true), "{body}");
        }
        assert_eq!(VendorError::read(r#"{"choices":[]}"#), VendorError::default());
        assert_eq!(VendorError::read("<html>").message, None);
    }

    #[test]
    fn codes_are_names_or_numbers() {
        let error = VendorError::read(r#"{"error":{"code":"429","type":"Rate_Limit","status":"RESOURCE_EXHAUSTED"}}"#);
        assert_eq!((error.status, error.codes), (Some(429), vec!["rate_limit".into(), "resource_exhausted".into()]));
    }

    #[test]
    fn the_window_is_found_in_the_vendors_texts() {
        for (text, size) in [
            ("This model's maximum context length is 128000 tokens. However, you requested 130000", Some(128_000)),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            ("the request exceeds the available context size (4096 tokens), try increasing it", Some(4_096)),
            (
                "input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).",
                Some(1_048_576),
            ),
            ("too long", None),
        ] {
            let body = serde_json::json!({ "error": { "message": text } }).to_string();
            assert_eq!(VendorError::read(&body).context_limit, size, "{text}");
        }
        assert_eq!(VendorError::read(r#"{"error":{"message":"x","n_ctx":4096}}"#).context_limit, Some(4_096));
    }

    proptest! {
        #[test]
        fn any_body_is_read(body in ".{0,200}", size in ".{0,60}") {
            VendorError::read(&body);
            window(&format!("limit of {size}").to_lowercase());
        }
    }
}
