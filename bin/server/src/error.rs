//! Errors as clients get them: the status, and the wire's shape `{name, data: {message}}`. All status codes are
//! chosen here.

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};
use actors::mcp_host::McpError;
use actors::permission_broker::ReplyError;
use actors::session::CommandError;
use actors::workspace::auth::AuthError;
use actors::workspace::{ChoiceError, SetupError};
use protocol::SessionId;
use serde_json::{Value, json};
use storage::config::ConfigError;
use storage::{JournalError, StorageError};
use tools::search::SearchError;

/// Seconds after which a client may try again what the server was too busy for.
const RETRY_SECONDS: u64 = 1;

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// There is nothing of this name.
    #[error("{0}")]
    NotFound(String),
    /// There is no such permission request or question; the wire has a shape of its own for it.
    #[error("{message}")]
    NoRequest {
        /// `PermissionNotFoundError` or `QuestionNotFoundError`.
        tag: &'static str,
        /// The id.
        id: String,
        /// For a person.
        message: String,
    },
    /// The body, a query or a path is wrong.
    #[error("{message}")]
    BadRequest {
        /// `Payload`, `Query`, `Params` or `Body`.
        kind: &'static str,
        /// What is wrong, where, and what is expected.
        message: String,
    },
    /// The same in the older shape without a text, which some routes have; the text goes along.
    #[error("{0}")]
    BadRequestTag(String),
    /// A turn runs.
    #[error("Session is busy: {0}")]
    Busy(SessionId),
    /// It contradicts what is there.
    #[error("{0}")]
    Conflict(String),
    /// It may not be.
    #[error("{0}")]
    Forbidden(String),
    /// A login at a provider's failed.
    #[error("{0}")]
    LoginFailed(String),
    /// The body is of a type that isn't taken. The wire says so in plain text.
    #[error("Unsupported content-type: {0}")]
    ContentType(String),
    /// The settings can't be used.
    #[error(transparent)]
    Config(#[from] SetupError),
    /// Too busy: nothing was done.
    #[error("{0}")]
    Unavailable(String),
    /// Whether it was done is not known.
    #[error("{0}")]
    Unknown(String),
    /// The server's own fault. The log has more.
    #[error("{0}")]
    Internal(String),
}

impl ApiError {
    /// Returns the error of a wrong query.
    pub fn query(message: impl Into<String>) -> Self {
        Self::BadRequest { kind: "Query", message: message.into() }
    }

    /// Returns the error of a wrong path.
    pub fn params(message: impl Into<String>) -> Self {
        Self::BadRequest { kind: "Params", message: message.into() }
    }

    /// Returns the error of a wrong body.
    pub fn payload(message: impl Into<String>) -> Self {
        Self::BadRequest { kind: "Payload", message: message.into() }
    }

    /// Returns the error of a wrong body in the older shape.
    pub fn tagged(self) -> Self {
        match self {
            Self::BadRequest { message, .. } => Self::BadRequestTag(message),
            other => other,
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::NotFound(message) => json!({ "name": "NotFoundError", "data": { "message": message } }),
            Self::NoRequest { tag, id, message } => json!({ "_tag": tag, "requestID": id, "message": message }),
            Self::BadRequest { kind, message } => {
                json!({ "name": "BadRequest", "data": { "message": message, "kind": kind } })
            }
            Self::BadRequestTag(message) => {
                json!({ "_tag": "BadRequest", "name": "BadRequest", "message": message, "data": { "message": message } })
            }
            Self::Busy(id) => {
                json!({ "_tag": "SessionBusyError", "sessionID": id, "message": self.to_string() })
            }
            Self::Conflict(message) => named("ConflictError", message),
            Self::Forbidden(message) => named("ForbiddenError", message),
            Self::LoginFailed(message) => named("ProviderAuthOauthCallbackFailed", message),
            Self::ContentType(_) => named("UnsupportedMediaType", &self.to_string()),
            Self::Config(SetupError(error)) => config_body(error),
            Self::Unavailable(message) => named("UnavailableError", message),
            Self::Unknown(message) | Self::Internal(message) => named("UnknownError", message),
        }
    }
}

/// Returns a message with the place it speaks of, as the wire has it.
pub fn at(message: &str, key: &str) -> String {
    format!("{message}\n  at [{}]", Value::from(key))
}

fn named(name: &str, message: &str) -> Value {
    json!({ "name": name, "data": { "message": message } })
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::NoMethod { .. } | AuthError::BadInput(_) | AuthError::NotBegun { .. } => Self::payload(message),
            AuthError::Refused(_) | AuthError::Late { .. } | AuthError::LoginNeeded { .. } => {
                Self::LoginFailed(message)
            }
            AuthError::Unreachable { .. } => Self::Unavailable(message),
            AuthError::File(_) => Self::Internal(message),
        }
    }
}

fn config_body(error: &ConfigError) -> Value {
    let message = error.to_string();
    match error {
        ConfigError::Json { path, .. } | ConfigError::Unreadable { path, .. } => {
            json!({ "name": "ConfigJsonError", "data": { "path": path, "message": message } })
        }
        ConfigError::Invalid { path, issues } => {
            json!({ "name": "ConfigInvalidError", "data": { "path": path, "issues": issues, "message": message } })
        }
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::NotFound(_) | Self::NoRequest { .. } => StatusCode::NOT_FOUND,
            Self::BadRequest { .. } | Self::BadRequestTag(_) | Self::Config(_) | Self::LoginFailed(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Busy(_) | Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unknown(_) | Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        if let Self::Internal(message) = self {
            tracing::error!(message, "a request failed");
        }
        let mut response = HttpResponse::build(self.status_code());
        if matches!(self, Self::Unavailable(_)) {
            response.insert_header((RETRY_AFTER, RETRY_SECONDS));
        }
        match self {
            Self::ContentType(_) => response.content_type("text/plain").body(self.to_string()),
            _ => response.json(self.body()),
        }
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let message = error.to_string();
        match error {
            CommandError::NotFound(_) | CommandError::NoMessage(_) | CommandError::NoPart(_) => Self::NotFound(message),
            CommandError::Choice(ChoiceError::NoCommand { .. }) => Self::NotFound(message),
            CommandError::Busy(id) => Self::Busy(id),
            CommandError::Taken(_) | CommandError::TakenPart(_) => Self::Conflict(message),
            CommandError::Invalid(_) | CommandError::Choice(_) => Self::payload(message),
            CommandError::Late => Self::Unavailable(message),
            CommandError::Unknown => Self::Unknown(message),
            CommandError::Setup(error) => Self::Config(error),
            CommandError::Broken(_) => Self::Internal(message),
            CommandError::Journal(error) => error.into(),
        }
    }
}

impl From<McpError> for ApiError {
    fn from(error: McpError) -> Self {
        let message = error.to_string();
        match error {
            McpError::NotFound(_) => Self::NotFound(message),
            McpError::Config(_) => Self::payload(message),
            McpError::NoLogin(_) | McpError::Login(_) => Self::BadRequestTag(message),
        }
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        match error {
            // Of an epoch that ended meanwhile: the same request finds the next one.
            JournalError::Stale | JournalError::Poisoned(_) | JournalError::Closed => {
                Self::Unavailable(error.to_string())
            }
            JournalError::Refused(_) | JournalError::Unwritable(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        match error.is_closed() {
            // Whoever owns the data next answers.
            true => Self::Unavailable("the service is stopping".into()),
            false => Self::Internal(error.to_string()),
        }
    }
}

impl From<actix::MailboxError> for ApiError {
    fn from(_: actix::MailboxError) -> Self {
        Self::Unknown("the runtime was restarted while it took the request; look whether it was done".into())
    }
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        let message = error.to_string();
        match error {
            SearchError::Outside(_) => Self::Forbidden(message),
            SearchError::NotFound(_) => Self::NotFound(message),
            SearchError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Self::NotFound(message),
            SearchError::Pattern(_) => Self::query(at(&message, "pattern")),
            // What can't be read, or is no file: the client asked for the wrong thing.
            SearchError::Io { .. } => Self::query(at(&message, "path")),
            SearchError::Broken => Self::Internal(message),
        }
    }
}

/// What a reply is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A permission request.
    Permission,
    /// A question.
    Question,
}

impl Asked {
    /// Returns the error of a reply that was not taken.
    pub fn error(self, error: ReplyError) -> ApiError {
        match error {
            ReplyError::NotFound(id) => {
                let (tag, name) = match self {
                    Self::Permission => ("PermissionNotFoundError", "Permission"),
                    Self::Question => ("QuestionNotFoundError", "Question"),
                };
                let message = format!("{name} request not found: {id}");
                ApiError::NoRequest { tag, id, message }
            }
            ReplyError::Answered(_) => ApiError::Conflict(error.to_string()),
            ReplyError::Journal(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::body::to_bytes;
    use pretty_assertions::assert_eq;

    use super::*;

    async fn sent(error: ApiError) -> (u16, Option<String>, String) {
        let response = error.error_response();
        let retry = response.headers().get(RETRY_AFTER).and_then(|value| Some(value.to_str().ok()?.to_owned()));
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body()).await.expect("a body");
        (status, retry, String::from_utf8_lossy(&body).into_owned())
    }

    #[actix_web::test]
    async fn a_refusal_says_when_to_come_again_and_a_reply_that_comes_too_late_is_told_so() {
        let (status, retry, _) = sent(CommandError::Late.into()).await;
        assert_eq!((status, retry.as_deref()), (503, Some("1")));
        // Perhaps it was done: then it must not look like a refusal.
        assert_eq!(sent(CommandError::Unknown.into()).await.0, 500);
        let (status, _, body) = sent(Asked::Permission.error(ReplyError::NotFound("per_1".into()))).await;
        let wanted =
            r#"{"_tag":"PermissionNotFoundError","requestID":"per_1","message":"Permission request not found: per_1"}"#;
        assert_eq!((status, body.as_str()), (404, wanted));
        assert_eq!(sent(Asked::Question.error(ReplyError::Answered("que_1".into()))).await.0, 409);
        assert_eq!(sent(ApiError::ContentType("text/plain".into())).await.2, "Unsupported content-type: text/plain");
    }
}
