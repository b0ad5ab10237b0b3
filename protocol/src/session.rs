//! Sessions and their status.

use serde::{Deserialize, Serialize};

use crate::JsonMap;
use crate::id::{MessageId, PartId, SessionId};
use crate::message::Tokens;
use crate::permission::Ruleset;

/// A session, without its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Two random words.
    pub slug: String,
    /// The project: the hash of the repository's first commit, or `global`.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Set by clients that group sessions.
    #[serde(default, rename = "workspaceID", skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The directory it works in.
    pub directory: String,
    /// That directory, relative to the project's worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The session whose subagent it is.
    #[serde(default, rename = "parentID", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// What it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SessionSummary>,
    /// In US dollars, over all messages.
    #[serde(default)]
    pub cost: f64,
    /// Over all messages.
    #[serde(default)]
    pub tokens: Tokens,
    /// Where it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Its title.
    pub title: String,
    /// The agent of the last prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model of the last prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// The version that created it.
    pub version: String,
    /// The client's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
    /// When.
    pub time: SessionTime,
    /// Rules of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Ruleset>,
    /// What was undone and can be redone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
}

/// Names a session's model (other spelling than [`crate::message::ModelRef`], as on the wire).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionModel {
    /// The model's key below the provider.
    pub id: String,
    /// The provider's key.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The variant; `default` where none was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Times of a session in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTime {
    /// Made.
    pub created: u64,
    /// Last prompted.
    pub updated: u64,
    /// A compaction began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<u64>,
    /// Put away by the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<u64>,
}

/// Sums of a session's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Added lines.
    pub additions: u64,
    /// Removed lines.
    pub deletions: u64,
    /// Changed files.
    pub files: u64,
    /// The changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diffs: Option<Vec<FileDiff>>,
}

/// Where a session is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The address.
    pub url: String,
}

/// What was undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revert {
    /// The first message that is hidden.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The first part that is hidden.
    #[serde(default, rename = "partID", skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// The tree before the undoing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What was undone, as git shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Added lines.
    pub additions: u64,
    /// Removed lines.
    pub deletions: u64,
    /// What became of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FileStatus>,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It is changed.
    Modified,
}

/// What a session is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionStatus {
    /// Nothing. A session that was parked after too many crashes is idle too and says why.
    Idle {
        /// Why it is parked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// A turn runs, or waits for a person.
    Busy,
    /// A turn runs, and its model request waits for its turn. To clients that don't know it, busy.
    #[serde(rename = "busy", skip_deserializing)]
    Queued {
        /// How many go before it, and itself.
        position: usize,
    },
    /// A model request failed and waits to be tried again.
    Retry {
        /// Which try failed, from 1.
        attempt: u32,
        /// What failed.
        message: String,
        /// When it is tried again, in ms since the Unix epoch.
        next: u64,
    },
}

impl SessionStatus {
    /// Returns the status of a session that does nothing.
    pub const fn idle() -> Self {
        Self::Idle { failed: None }
    }
}

/// The body of `POST /session`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CreateSession {
    /// The session whose subagent it is.
    #[serde(default, rename = "parentID", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Its title; made of the time where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The agent of prompts that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model of prompts that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// The client's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
    /// Rules of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Ruleset>,
    /// Set by clients that group sessions.
    #[serde(default, rename = "workspaceID", skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
}

/// The body of `PATCH /session/:id`; each field is one change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateSession {
    /// A new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Replaces the client's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
    /// Rules to append.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Ruleset>,
    /// Times to set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<UpdateTime>,
}

/// Times of an [`UpdateSession`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateTime {
    /// Puts the session away (ms since the Unix epoch).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<u64>,
}
