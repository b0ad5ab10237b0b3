//! What [`crate::open`] is asked for.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

/// Default of [`SseRequest::header_timeout`].
const HEADER_TIMEOUT: Duration = Duration::from_secs(300);
/// Default of [`SseRequest::event_timeout`].
const EVENT_TIMEOUT: Duration = Duration::from_secs(120);
/// Default of [`SseRequest::max_event_bytes`].
const MAX_EVENT_BYTES: usize = 64 << 20;

/// A request whose answer is an event stream.
#[derive(Clone)]
pub struct SseRequest {
    /// `GET`, or `POST` for a vendor's model.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// Sent with it; they go before `accept` and `cache-control`, which are set anyway.
    pub headers: HeaderMap,
    /// Sent with it.
    pub body: Option<Bytes>,
    /// Most time until the answer's headers, connecting included.
    pub header_timeout: Duration,
    /// Most time from the headers to the first event and between two events. Comments don't count.
    pub event_timeout: Duration,
    /// Most bytes between two blank lines.
    pub max_event_bytes: usize,
    /// The newest event a former stream gave; the server goes on after it.
    pub last_event_id: Option<String>,
    /// Opens the stream again after a loss. For requests that may be sent twice, so never for a `POST`.
    pub reconnect: Option<Reconnect>,
}

/// How a lost stream is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The first wait; it doubles with each try that brings no event. The server's `retry:` goes before it.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(5) }
    }
}

impl SseRequest {
    /// Returns a request for the stream at `url`.
    pub fn get(url: Url) -> Self {
        Self {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            header_timeout: HEADER_TIMEOUT,
            event_timeout: EVENT_TIMEOUT,
            max_event_bytes: MAX_EVENT_BYTES,
            last_event_id: None,
            reconnect: None,
        }
    }

    /// Returns a request that sends `body` to `url`.
    pub fn post(url: Url, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, body: Some(body.into()), ..Self::get(url) }
    }
}

impl fmt::Debug for SseRequest {
    /// Leaves out header values, query and body: they may hold keys and prompts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseRequest")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.as_ref().map_or(0, Bytes::len))
            .finish_non_exhaustive()
    }
}
