//! Permission rules, requests and replies.

use serde::{Deserialize, Serialize};

use crate::JsonMap;
use crate::id::{CallId, MessageId, PermissionId, SessionId};

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Runs without asking.
    Allow,
    /// A person decides.
    Ask,
    /// Never runs.
    Deny,
}

/// One rule. `permission` and `pattern` are wildcards: `*` stands for any text (also across `/`), `?` for one
/// character.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// The permission it speaks of: `bash`, `edit`, `external_directory`, an MCP tool's name…
    pub permission: String,
    /// What it speaks of within that permission: a command, a path, a url…
    pub pattern: String,
    /// What it says.
    pub action: Action,
}

impl Rule {
    /// Returns a rule.
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Self {
        Self { permission: permission.into(), pattern: pattern.into(), action }
    }
}

/// Rules from weak to strong: the last that matches wins.
pub type Ruleset = Vec<Rule>;

/// The tool call that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolRef {
    /// The assistant message that holds the call.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
}

/// A request that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    /// What replies name.
    pub id: PermissionId,
    /// The session whose tool asks.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The permission asked for.
    pub permission: String,
    /// What it is asked for; all must be allowed.
    pub patterns: Vec<String>,
    /// What a person wants to see: the command, the diff, the url…
    pub metadata: JsonMap,
    /// The patterns that a reply `always` allows from then on.
    pub always: Vec<String>,
    /// The tool call that asks; none for `doom_loop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// This call may run.
    Once,
    /// This call and later ones that match [`PermissionRequest::always`] may run.
    Always,
    /// It may not; all that the session has asked for is rejected with it.
    Reject,
}

/// How far a reply `always` reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The session that asked and its subagents, as long as the session lives.
    #[default]
    Session,
    /// All sessions of the project, also after a restart.
    Project,
}

/// The body of `POST /permission/:id/reply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyBody {
    /// The answer.
    pub reply: Reply,
    /// Feedback for the model; with it a rejected turn goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far `always` reaches. Troupe's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}
