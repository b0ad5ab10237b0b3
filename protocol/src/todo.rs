//! The to-do list a model keeps for a session.

use serde::{Deserialize, Serialize};

/// One item. All three are free text on the wire; tools may demand more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
}
