//! Why a stream could not be opened, or broke.

use reqwest::header::{HeaderMap, HeaderName};

/// Most bytes kept of an answer's body.
pub(crate) const MAX_BODY: usize = 64 << 10;

/// Headers of an answer that may hold secrets; they are dropped as soon as it is read.
const SECRET: [&str; 8] = [
    "authorization",
    "authentication-info",
    "cookie",
    "proxy-authorization",
    "proxy-authentication-info",
    "set-cookie",
    "set-cookie2",
    "x-api-key",
];

/// Why a stream could not be opened, or broke.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SseError {
    /// The server refused, or was broken.
    #[error("the server answered {}", .0.status_line())]
    Http(Box<Answer>),
    /// The server answered well, but with something else than events.
    #[error("the answer is no event stream ({}, {})", .0.status_line(), .0.content_type().unwrap_or("no content type"))]
    NotAStream(Box<Answer>),
    /// No event came for too long.
    #[error("no event came for {limit_ms} ms")]
    Idle {
        /// The limit, in ms.
        limit_ms: u64,
    },
    /// The answer didn't begin in time.
    #[error("no answer came within {limit_ms} ms")]
    HeaderTimeout {
        /// The limit, in ms.
        limit_ms: u64,
    },
    /// The connection broke, before the answer or in it. The text says how.
    #[error("the connection was cut: {0}")]
    Cut(String),
    /// An event is larger than the limit.
    #[error("an event is larger than {limit} bytes")]
    TooBig {
        /// The limit, in bytes.
        limit: usize,
    },
    /// What came is no text that can be read as events.
    #[error("the event stream is malformed: {0}")]
    Malformed(String),
    /// No connection could be made. The text says why.
    #[error("could not connect: {0}")]
    Connect(String),
}

/// An answer that is no event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its headers, those that may hold secrets left out.
    pub headers: HeaderMap,
    /// Its first 64 KiB, as text.
    pub body: String,
}

impl SseError {
    /// Returns the answer, where there was one.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Http(answer) | Self::NotAStream(answer) => Some(answer),
            _ => None,
        }
    }

    /// Returns the answer's HTTP status, where there was one.
    pub fn status(&self) -> Option<u16> {
        self.answer().map(|answer| answer.status)
    }

    /// Returns whether opening the stream again may help: the network, time or the server's state was at fault.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Http(answer) => answer.status >= 500 || matches!(answer.status, 408 | 425 | 429),
            Self::Idle { .. } | Self::HeaderTimeout { .. } | Self::Cut(_) | Self::Connect(_) => true,
            Self::NotAStream(_) | Self::TooBig { .. } | Self::Malformed(_) => false,
        }
    }
}

impl Answer {
    /// Returns the answer without what may hold secrets.
    pub(crate) fn new(status: u16, mut headers: HeaderMap, body: String) -> Self {
        for name in SECRET {
            headers.remove(HeaderName::from_static(name));
        }
        Self { status, headers, body }
    }

    /// Returns the status and its usual name: `502 Bad Gateway`.
    pub fn status_line(&self) -> String {
        match reqwest::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason()) {
            Some(reason) => format!("{} {reason}", self.status),
            None => self.status.to_string(),
        }
    }

    /// Returns the media type, without parameters.
    pub fn content_type(&self) -> Option<&str> {
        content_type(&self.headers)
    }

    /// Returns a header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Returns the media type, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(reqwest::header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim())
}

/// Returns what an error says together with its causes. reqwest keeps the interesting part ("connection refused")
/// three causes down; its url is left out, for it may hold a key.
pub(crate) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
