//! Ids in paths.

use protocol::id::IdError;
use protocol::{MessageId, PartId, PermissionId, QuestionId, SessionId};

use crate::error::{ApiError, at};

/// Reads a session's id.
pub fn session(text: &str) -> Result<SessionId, ApiError> {
    read(SessionId::parse(text), "sessionID")
}

/// Reads a message's id.
pub fn message(text: &str) -> Result<MessageId, ApiError> {
    read(MessageId::parse(text), "messageID")
}

/// Reads a part's id.
pub fn part(text: &str) -> Result<PartId, ApiError> {
    read(PartId::parse(text), "partID")
}

/// Reads a permission request's id.
pub fn permission(text: &str) -> Result<PermissionId, ApiError> {
    read(PermissionId::parse(text), "requestID")
}

/// Reads a question's id.
pub fn question(text: &str) -> Result<QuestionId, ApiError> {
    read(QuestionId::parse(text), "requestID")
}

fn read<T>(id: Result<T, IdError>, name: &str) -> Result<T, ApiError> {
    id.map_err(|error| ApiError::params(at(&error.to_string(), name)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_wrong_id_is_told_with_the_prefix_it_needs() {
        let error = session("abc").expect_err("an error").to_string();
        assert_eq!(error, "Expected a string starting with \"ses\", got \"abc\"\n  at [\"sessionID\"]");
        assert!(permission("que_1").is_err() && question("per_1").is_err() && part("msg_1").is_err());
        assert!(message("msg_1").is_ok());
    }
}
