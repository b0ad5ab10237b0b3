//! Why a request failed, and what that means for the turn.
//!
//! | what came | class |
//! |---|---|
//! | 413; codes such as `context_length_exceeded`; texts such as "prompt is too long" (not with 401, 402, 403, 429) | overflow |
//! | codes such as `content_filter`; texts such as "content management policy" | content filter |
//! | 401, 402, 403; codes such as `invalid_api_key`, `insufficient_quota` (also with 429: waiting won't help) | auth |
//! | 408, 409, 425, 429, 5xx; codes such as `server_error`, `overloaded_error`, `rate_limit_exceeded`, with any status | retryable |
//! | other 4xx; codes such as `invalid_request_error` in a stream; 200 with a page or other JSON | bad request |
//! | an error object in a stream whose code says nothing | retryable |
//! | no connection, a cut, nothing for too long, an answer that isn't whole | retryable |
//! | a stream that can't be read (no JSON, an event over the limit), other statuses | unknown |
//!
//! The first row that fits decides. A code is the `code`, `type` or `status` of the vendor's error object; a number
//! there (`{"code": 502}`) stands beside the HTTP status. Sources: OpenCode 1.18 on the wire, and the vendors' lists.

mod body;
mod classify;
mod retry_after;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::error::ApiError;
use protocol::{Clock, SessionError, SystemClock};
use sse::{Answer, SseError};

use self::body::VendorError;

/// Most characters of a vendor's body and message that are kept.
const KEPT: usize = 8_192;

/// What an error means for the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same request may succeed later.
    Retryable,
    /// The request is larger than the model's window.
    Overflow,
    /// The vendor refuses the key or the account.
    Auth,
    /// The request is wrong and stays so.
    BadRequest,
    /// The vendor's filter refused it.
    ContentFilter,
    /// We stopped it ourselves.
    Cancelled,
    /// Anything else. The same request may not succeed.
    Unknown,
}

/// Why a request failed. Its texts hold neither keys nor cookies.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    class: ErrorClass,
    message: String,
    retry_after: Option<Duration>,
    context_limit: Option<u64>,
    status: Option<u16>,
    url: Option<String>,
    /// The error object of a stream, as it came.
    raw: Option<String>,
    answer: Option<Box<Kept>>,
}

/// What is kept of the vendor's answer.
#[derive(Clone, Debug)]
struct Kept {
    headers: BTreeMap<String, String>,
    body: String,
}

impl ProviderError {
    /// Returns an error without an answer behind it.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
            context_limit: None,
            status: None,
            url: None,
            raw: None,
            answer: None,
        }
    }

    /// Returns what a request has failed with that we stopped.
    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "the request was cancelled")
    }

    /// Returns what the error means for the turn.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// Returns whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.class == ErrorClass::Retryable
    }

    /// Returns whether a request that is given up may be answered by another model: it is the vendor, the key or the
    /// model that fails, not what was asked.
    pub fn may_go_elsewhere(&self) -> bool {
        match self.class {
            ErrorClass::Retryable | ErrorClass::Auth | ErrorClass::Unknown => true,
            // There is no such model; or a proxy's page came in place of an answer.
            ErrorClass::BadRequest => matches!(self.status, Some(200 | 404)),
            ErrorClass::Overflow | ErrorClass::ContentFilter | ErrorClass::Cancelled => false,
        }
    }

    /// Returns how long the vendor asks to wait, uncapped: from `retry-after-ms`, `retry-after` in seconds or as a date,
    /// or what its error object says.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the vendor's HTTP status.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns the size of the model's window in tokens, where an overflow named it. It may be smaller than the
    /// configured one.
    pub fn context_limit(&self) -> Option<u64> {
        self.context_limit
    }

    /// Returns what is said of it while the request waits to be tried again: an error object in a stream as it came,
    /// JSON, else the message. As on the wire.
    pub fn status_text(&self) -> &str {
        self.raw.as_deref().unwrap_or(&self.message)
    }

    /// Returns the error as clients see it.
    pub fn to_session_error(&self, provider_id: &str) -> SessionError {
        let message = self.message.clone();
        match (self.class, self.status) {
            (ErrorClass::Cancelled, _) => SessionError::aborted(),
            (ErrorClass::ContentFilter, _) => SessionError::ContentFilterError { message },
            (ErrorClass::Overflow, _) => {
                let response_body = self.answer.as_ref().map(|answer| answer.body.clone());
                SessionError::ContextOverflowError { message, response_body }
            }
            // With a status it stays an `APIError`, as on the wire.
            (ErrorClass::Auth, None) => {
                SessionError::ProviderAuthError { provider_id: provider_id.to_owned(), message }
            }
            (ErrorClass::Unknown, None) => SessionError::UnknownError { message },
            _ => SessionError::ApiError(ApiError {
                message,
                status_code: self.status,
                is_retryable: self.is_retryable(),
                response_headers: self.answer.as_ref().map(|answer| answer.headers.clone()).filter(|h| !h.is_empty()),
                response_body: self.answer.as_ref().map(|answer| answer.body.clone()),
                metadata: self.url.as_ref().map(|url| BTreeMap::from([("url".to_owned(), url.clone())])),
            }),
        }
    }

    /// Returns what a lost or refused stream means. `now_ms` is for dates in `retry-after`.
    pub(crate) fn from_sse(error: SseError, now_ms: u64) -> Self {
        match error {
            SseError::Http(answer) => Self::from_answer(&answer, Some(answer.status), now_ms),
            SseError::NotAStream(answer) => Self::from_page(&answer, now_ms),
            SseError::Idle { limit_ms } => Self::new(
                ErrorClass::Retryable,
                format!("timed out: the model's stream was idle for {limit_ms} ms (`options.chunkTimeout`)"),
            ),
            SseError::HeaderTimeout { limit_ms } => Self::new(
                ErrorClass::Retryable,
                format!("timed out: no answer began within {limit_ms} ms (`options.headerTimeout`)"),
            ),
            error @ (SseError::Cut(_) | SseError::Connect(_)) => Self::new(ErrorClass::Retryable, error.to_string()),
            error @ (SseError::TooBig { .. } | SseError::Malformed(_)) => {
                Self::new(ErrorClass::Unknown, error.to_string())
            }
        }
    }

    /// Returns what an error object inside a stream means.
    pub(crate) fn in_stream(data: &str) -> Self {
        let vendor = VendorError::read(data);
        let class = classify::class(None, &vendor);
        let message = vendor.message.clone().unwrap_or_else(|| "the vendor sent an error in its stream".into());
        Self {
            retry_after: vendor.retry_after,
            context_limit: vendor.context_limit.filter(|_| class == ErrorClass::Overflow),
            raw: Some(body::object(data).unwrap_or(data).to_owned()),
            answer: Some(Box::new(Kept { headers: BTreeMap::new(), body: data.to_owned() })),
            ..Self::new(class, message)
        }
    }

    /// `status` is what the class is judged by; none: as an error in a stream.
    fn from_answer(answer: &Answer, status: Option<u16>, now_ms: u64) -> Self {
        let vendor = VendorError::read(&answer.body);
        let class = classify::class(status, &vendor);
        let message = vendor.message.clone().unwrap_or_else(|| plain(answer));
        Self {
            retry_after: retry_after::read(&answer.headers, now_ms).or(vendor.retry_after),
            context_limit: vendor.context_limit.filter(|_| class == ErrorClass::Overflow),
            status: Some(answer.status),
            answer: Some(Box::new(Kept { headers: headers(answer), body: answer.body.clone() })),
            ..Self::new(class, message)
        }
    }

    /// A success that is no stream: an error object that was announced as something else, or a server that speaks
    /// something else.
    fn from_page(answer: &Answer, now_ms: u64) -> Self {
        if VendorError::read(&answer.body).is_error {
            let announced = answer.content_type() == Some("text/event-stream");
            return Self::from_answer(answer, (!announced).then_some(400), now_ms);
        }
        let kind = answer.content_type().unwrap_or("no content type");
        let message = format!(
            "the server answered {} with {kind}, not with an event stream; check that `options.baseURL` is the address \
             of a model API that can stream",
            answer.status_line()
        );
        let error = Self::from_answer(answer, Some(answer.status), now_ms);
        Self { class: ErrorClass::BadRequest, message, ..error }
    }
}

/// Returns what a body without an error object says: its text where a person can read it, else the status.
fn plain(answer: &Answer) -> String {
    let text = answer.body.trim();
    let readable = !text.is_empty() && text.len() <= 300 && !text.starts_with(['<', '{', '[']);
    if readable { text.to_owned() } else { format!("the server answered {}", answer.status_line()) }
}

fn headers(answer: &Answer) -> BTreeMap<String, String> {
    let text = |value: &sse::HeaderValue| String::from_utf8_lossy(value.as_bytes()).chars().take(1_024).collect();
    answer.headers.iter().take(64).map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// What an adapter knows of the request and puts into each error: where it went, and what must not be repeated.
pub(crate) struct Blame {
    url: String,
    secrets: Vec<String>,
}

impl Blame {
    /// Returns it for a url; its query and user are left out.
    pub(crate) fn new(mut url: sse::Url, secrets: Vec<String>) -> Self {
        url.set_query(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self { url: url.into(), secrets }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    /// Returns the error with its url, texts cut to a readable length, and stars for the secrets: vendors repeat a
    /// wrong key in their answer.
    pub(crate) fn put(&self, mut error: ProviderError) -> ProviderError {
        error.url = Some(self.url.clone());
        self.clean(&mut error.message);
        if let Some(raw) = &mut error.raw {
            self.clean(raw);
        }
        if let Some(answer) = &mut error.answer {
            self.clean(&mut answer.body);
            answer.headers.values_mut().for_each(|value| self.clean(value));
        }
        error
    }

    fn clean(&self, text: &mut String) {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), "***");
            }
        }
        if let Some((end, _)) = text.char_indices().nth(KEPT) {
            text.truncate(end);
        }
    }
}
