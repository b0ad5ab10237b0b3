//! What clients are told of a server.

use serde::{Deserialize, Serialize};

/// How a server is, as `GET /mcp` tells it. `connecting` is Troupe's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// Its tools can be used.
    Connected,
    /// It is being started, or started again.
    Connecting,
    /// It is switched off, by config or by a person.
    Disabled,
    /// It could not be started, or died too often.
    Failed {
        /// Why, for a person.
        error: String,
    },
    /// It wants a person to log in.
    NeedsAuth,
    /// It wants a login, and takes only clients that were registered by hand.
    NeedsClientRegistration {
        /// What to do about it.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_reads_as_on_the_wire() {
        let wire = |status: Status| serde_json::to_value(status).unwrap();
        assert_eq!(wire(Status::Connected), json!({ "status": "connected" }));
        assert_eq!(wire(Status::NeedsAuth), json!({ "status": "needs_auth" }));
        let error = "x".to_owned();
        assert_eq!(wire(Status::Failed { error: error.clone() }), json!({ "status": "failed", "error": "x" }));
        let wanted = json!({ "status": "needs_client_registration", "error": "x" });
        assert_eq!(wire(Status::NeedsClientRegistration { error }), wanted);
    }
}
