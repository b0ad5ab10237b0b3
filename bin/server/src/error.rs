//! Errors as clients get them: the status, and the wire's shape `{name, data: {message}}`. All status codes are
//! chosen here.

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};
use actors::permission_broker::ReplyError;
use actors::session::CommandError;
use actors::workspace::SetupError;
use protocol::SessionId;
use serde_json::{Value, json};
use storage::config::ConfigError;
use storage::{JournalError, StorageError};

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
    /// The body is of a type that isn't taken.
    #[error("Unsupported content-type: {0}")]
    ContentType(String),
    /// The settings can't be used.
    #[error(transparent)]
    Config(#[from] SetupError),
    /// Too busy: nothing was done.
    #[error("{0}")]
    Unavailable(String),
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
            Self::ContentType(_) => named("UnsupportedMediaType", &self.to_string()),
            Self::Config(SetupError(error)) => config_body(error),
            Self::Unavailable(message) => named("UnavailableError", message),
            Self::Internal(message) => named("UnknownError", message),
        }
    }
}

fn named(name: &str, message: &str) -> Value {
    json!({ "name": name, "data": { "message": message } })
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
            Self::BadRequest { .. } | Self::BadRequestTag(_) | Self::Config(_) => StatusCode::BAD_REQUEST,
            Self::Busy(_) | Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
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
        response.json(self.body())
    }
}

impl From<CommandError> for ApiError {
    fn from(error: CommandError) -> Self {
        let message = error.to_string();
        match error {
            CommandError::NotFound(_) | CommandError::NoMessage(_) | CommandError::NoPart(_) => Self::NotFound(message),
            CommandError::Busy(id) => Self::Busy(id),
            CommandError::Taken(_) => Self::Conflict(message),
            CommandError::Invalid(_) | CommandError::Choice(_) => Self::payload(message),
            CommandError::Late | CommandError::Unknown => Self::Unavailable(message),
            CommandError::Setup(error) => Self::Config(error),
            CommandError::Broken(_) => Self::Internal(message),
            CommandError::Journal(error) => error.into(),
        }
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        match error {
            // Of an epoch that ended meanwhile: the same request finds the next one.
            JournalError::Stale | JournalError::Poisoned | JournalError::Closed => Self::Unavailable(error.to_string()),
            JournalError::Refused(_) | JournalError::Unwritable(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<actix::MailboxError> for ApiError {
    fn from(_: actix::MailboxError) -> Self {
        Self::Unavailable("the runtime was restarted while it took the request; send it again".into())
    }
}

/// Returns the error of a reply that was not taken.
pub fn reply_error(error: ReplyError, tag: &'static str) -> ApiError {
    match error {
        ReplyError::NotFound(id) => {
            let message = format!("Request not found: {id}");
            ApiError::NoRequest { tag, id, message }
        }
        ReplyError::Answered(_) => ApiError::Conflict(error.to_string()),
        ReplyError::Journal(error) => error.into(),
    }
}
