//! Why a request, or the event stream, failed.

use serde::Deserialize;
use sse::SseError;

/// Most characters of an answer that is no error of the protocol's that are shown.
const SHOWN: usize = 200;

/// Why a request, or the event stream, failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none.
    #[error("{url:?} is no server's address ({reason}); it looks like http://127.0.0.1:4096")]
    Address {
        /// What was given, without user name and password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Http(String),
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] ApiError),
    /// There is no connection: nothing was done.
    #[error("the server at {server} can't be reached: {reason}")]
    Unreachable {
        /// Its address or socket.
        server: String,
        /// What broke.
        reason: String,
    },
    /// The connection broke off, or no answer came in time: whether something was done is unknown.
    #[error("the connection to {server} was lost: {reason}")]
    Lost {
        /// Its address or socket.
        server: String,
        /// What broke.
        reason: String,
    },
    /// The answer is not in the protocol.
    #[error("the answer to {request} can't be read: {reason}")]
    Unreadable {
        /// Method and path.
        request: String,
        /// What is wrong.
        reason: String,
    },
}

/// What a server says that refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// `NotFoundError`, `BadRequest`, `SessionBusyError`…; empty where the answer names none.
    pub name: String,
    /// For a person.
    pub message: String,
}

impl ClientError {
    /// Returns what the server said, if it was the server that refused.
    pub fn refusal(&self) -> Option<&ApiError> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the HTTP status, if the server refused.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|error| error.status)
    }

    /// Returns whether there is no connection to a server: it isn't there, or it went away.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Lost { .. })
    }

    pub(crate) fn of_request(server: &str, error: reqwest::Error) -> Self {
        let is_unsent = error.is_connect();
        let (server, reason) = (server.to_owned(), causes(error));
        if is_unsent { Self::Unreachable { server, reason } } else { Self::Lost { server, reason } }
    }

    pub(crate) fn of_stream(server: &str, error: &SseError) -> Self {
        match error {
            SseError::Http(answer) => Self::Refused(ApiError::read(answer.status, &answer.body)),
            SseError::Connect(reason) => Self::Unreachable { server: server.to_owned(), reason: reason.clone() },
            SseError::NotAStream(_) | SseError::Malformed(_) | SseError::TooBig { .. } => {
                Self::Unreadable { request: "GET /event".into(), reason: error.to_string() }
            }
            _ => Self::Lost { server: server.to_owned(), reason: error.to_string() },
        }
    }
}

impl ApiError {
    /// Reads an error's body: `{name, data: {message}}`, `{_tag, message}`, or whatever else came.
    pub(crate) fn read(status: u16, body: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            name: Option<String>,
            #[serde(rename = "_tag")]
            tag: Option<String>,
            message: Option<String>,
            data: Data,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Data {
            message: Option<String>,
        }
        let read: Body = serde_json::from_str(body).unwrap_or_default();
        let message = read.data.message.or(read.message).filter(|message| !message.is_empty());
        let message = message.unwrap_or_else(|| match body.trim() {
            _ if status == 401 => "the server wants another user name or password".into(),
            "" => format!("the server answered {status}"),
            text => format!("the server answered {status}: {}", text.chars().take(SHOWN).collect::<String>()),
        });
        Self { status, name: read.name.or(read.tag).unwrap_or_default(), message }
    }
}

/// Returns what an error says together with its causes; reqwest keeps the interesting part at the end. The url is
/// left out, for it may hold a password.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut last: &dyn std::error::Error = &error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn read(status: u16, body: &str) -> (String, String) {
        let ApiError { name, message, .. } = ApiError::read(status, body);
        (name, message)
    }

    #[test]
    fn both_shapes_of_errors_are_read_and_any_other_answer_is_told() {
        let named = r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}"#;
        assert_eq!(read(404, named), ("NotFoundError".into(), "Session not found: ses_1".into()));
        let tagged = r#"{"_tag":"SessionBusyError","sessionID":"ses_1","message":"Session is busy: ses_1"}"#;
        assert_eq!(read(409, tagged), ("SessionBusyError".into(), "Session is busy: ses_1".into()));
        assert_eq!(read(502, "<html>bad gateway").1, "the server answered 502: <html>bad gateway");
        assert_eq!(read(500, "").1, "the server answered 500");
        assert!(read(401, "").1.contains("password"));
        assert_eq!(read(400, "[1]").1, "the server answered 400: [1]");
    }
}
