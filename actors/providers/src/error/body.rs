//! Reads the error object of an answer, in the many shapes vendors and the proxies before them use.

use serde_json::{Map, Value};

/// What a vendor says went wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VendorError {
    /// There is an error object.
    pub(crate) is_error: bool,
    /// The text for a person.
    pub(crate) message: Option<String>,
    /// `code`, `type`, `status` and the like, in lower case.
    pub(crate) codes: Vec<String>,
    /// A number among them that is an HTTP status.
    pub(crate) status: Option<u16>,
    /// All texts, in lower case; where the message only says that something went wrong upstream, the rest tells what.
    pub(crate) text: String,
    /// Size of the model's window, in tokens.
    pub(crate) context_limit: Option<u64>,
}

impl VendorError {
    /// Returns what `body` says: `{error: {…}}`, `{error: "text"}`, `{message}`, `{detail}`, a list of one of those,
    /// or any text.
    pub(crate) fn read(body: &str) -> Self {
        let mut error = Self::default();
        match serde_json::from_str(body) {
            Ok(value) => error.find(&value),
            Err(_) => error.text = body.to_lowercase(),
        }
        error.context_limit = error.context_limit.or_else(|| window(&error.text));
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
                Some(Value::Number(number)) => self.number(number.as_u64()),
                Some(Value::String(text)) => match text.parse() {
                    Ok(number) => self.number(Some(number)),
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
            self.text.push('\n');
            self.text.push_str(&raw.to_lowercase());
        }
    }

    fn say(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message.get_or_insert_with(|| text.to_owned());
            self.text.push('\n');
            self.text.push_str(&text.to_lowercase());
        }
    }

    fn number(&mut self, number: Option<u64>) {
        let status = number.and_then(|number| u16::try_from(number).ok()).filter(|status| (400..600).contains(status));
        self.status = self.status.or(status);
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
const BEFORE_WINDOW: [&str; 9] = [
    "maximum context length",
    "available context size",
    "context window of",
    "context length of",
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
        let digits = near.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits: String =
            digits.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit).collect();
        digits.parse().ok().filter(|size| *size >= 256)
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
