//! What clients see: one event for each thing that happened, after it is stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::error::SessionError;
use crate::id::{EventId, MessageId, PartId, PermissionId, QuestionId, SessionId};
use crate::message::Message;
use crate::part::Part;
use crate::permission::{PermissionRequest, Reply};
use crate::project::Project;
use crate::question::{Answers, QuestionRequest};
use crate::session::{FileDiff, Session, SessionStatus};
use crate::todo::Todo;

/// An event: `{type, properties}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "properties")]
#[expect(missing_docs, reason = "the wire's own field names, each said in the variant's line")]
pub enum Event {
    /// First on each stream.
    #[serde(rename = "server.connected")]
    Connected {},
    /// Every ten seconds.
    #[serde(rename = "server.heartbeat")]
    Heartbeat {},
    /// Deltas since the client's last event are gone; durable events follow. Troupe's own.
    #[serde(rename = "server.resync")]
    Resync {},
    /// A directory's settings were read anew; its streams end.
    #[serde(rename = "server.instance.disposed")]
    InstanceDisposed { directory: String },
    /// The tools of an MCP server are not what they were.
    #[serde(rename = "mcp.tools.changed")]
    McpToolsChanged { server: String },
    /// A person has to open this address to log in at an MCP server, and no browser could be started.
    #[serde(rename = "mcp.browser.open.failed")]
    McpBrowserOpenFailed {
        #[serde(rename = "mcpName")]
        mcp_name: String,
        url: String,
    },
    /// The settings of all directories were read anew.
    #[serde(rename = "global.disposed")]
    GlobalDisposed {},
    /// A session is there.
    #[serde(rename = "session.created")]
    SessionCreated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Arc<Session>,
    },
    /// A session changed.
    #[serde(rename = "session.updated")]
    SessionUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Arc<Session>,
    },
    /// A session is gone.
    #[serde(rename = "session.deleted")]
    SessionDeleted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Arc<Session>,
    },
    /// A session begins, waits, or ends its work.
    #[serde(rename = "session.status")]
    SessionStatus {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        status: SessionStatus,
    },
    /// A session has nothing to do (follows the status `idle`).
    #[serde(rename = "session.idle")]
    SessionIdle {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    },
    /// A turn failed or was stopped.
    #[serde(rename = "session.error")]
    SessionError {
        #[serde(default, rename = "sessionID", skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        error: SessionError,
    },
    /// What the session's turn changed so far.
    #[serde(rename = "session.diff")]
    SessionDiff {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        diff: Vec<FileDiff>,
    },
    /// A session's history was summarised.
    #[serde(rename = "session.compacted")]
    SessionCompacted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    },
    /// A message is there, or changed.
    #[serde(rename = "message.updated")]
    MessageUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Arc<Message>,
    },
    /// A message is gone.
    #[serde(rename = "message.removed")]
    MessageRemoved {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
    },
    /// A part is there, or changed.
    #[serde(rename = "message.part.updated")]
    PartUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        part: Arc<Part>,
        time: u64,
    },
    /// A part's text grew.
    #[serde(rename = "message.part.delta")]
    PartDelta {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
        field: String,
        delta: String,
    },
    /// A part is gone.
    #[serde(rename = "message.part.removed")]
    PartRemoved {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
    },
    /// A person must decide.
    #[serde(rename = "permission.asked")]
    PermissionAsked(Arc<PermissionRequest>),
    /// It is decided.
    #[serde(rename = "permission.replied")]
    PermissionReplied {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: PermissionId,
        reply: Reply,
    },
    /// A person must answer.
    #[serde(rename = "question.asked")]
    QuestionAsked(Arc<QuestionRequest>),
    /// It is answered.
    #[serde(rename = "question.replied")]
    QuestionReplied {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        answers: Answers,
    },
    /// It will not be answered.
    #[serde(rename = "question.rejected")]
    QuestionRejected {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
    },
    /// The to-do list changed.
    #[serde(rename = "todo.updated")]
    TodoUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        todos: Vec<Todo>,
    },
    /// A tool wrote a file (absolute path).
    #[serde(rename = "file.edited")]
    FileEdited { file: String },
    /// Language servers came or went: `GET /lsp` says which there are.
    #[serde(rename = "lsp.updated")]
    LspUpdated {},
    /// A file changed on disk.
    #[serde(rename = "file.watcher.updated")]
    FileChanged { file: String, event: String },
    /// A command's turn has ended.
    #[serde(rename = "command.executed")]
    CommandExecuted {
        name: String,
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        arguments: String,
        #[serde(rename = "messageID")]
        message_id: MessageId,
    },
    /// A project is used for the first time, or changed.
    #[serde(rename = "project.updated")]
    ProjectUpdated(Project),
    /// The repository is on another branch.
    #[serde(rename = "vcs.branch.updated")]
    BranchUpdated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
}

impl Event {
    /// Returns the event's type on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connected {} => "server.connected",
            Self::Heartbeat {} => "server.heartbeat",
            Self::Resync {} => "server.resync",
            Self::InstanceDisposed { .. } => "server.instance.disposed",
            Self::McpToolsChanged { .. } => "mcp.tools.changed",
            Self::McpBrowserOpenFailed { .. } => "mcp.browser.open.failed",
            Self::GlobalDisposed {} => "global.disposed",
            Self::SessionCreated { .. } => "session.created",
            Self::SessionUpdated { .. } => "session.updated",
            Self::SessionDeleted { .. } => "session.deleted",
            Self::SessionStatus { .. } => "session.status",
            Self::SessionIdle { .. } => "session.idle",
            Self::SessionError { .. } => "session.error",
            Self::SessionDiff { .. } => "session.diff",
            Self::SessionCompacted { .. } => "session.compacted",
            Self::MessageUpdated { .. } => "message.updated",
            Self::MessageRemoved { .. } => "message.removed",
            Self::PartUpdated { .. } => "message.part.updated",
            Self::PartDelta { .. } => "message.part.delta",
            Self::PartRemoved { .. } => "message.part.removed",
            Self::PermissionAsked(_) => "permission.asked",
            Self::PermissionReplied { .. } => "permission.replied",
            Self::QuestionAsked(_) => "question.asked",
            Self::QuestionReplied { .. } => "question.replied",
            Self::QuestionRejected { .. } => "question.rejected",
            Self::TodoUpdated { .. } => "todo.updated",
            Self::FileEdited { .. } => "file.edited",
            Self::LspUpdated {} => "lsp.updated",
            Self::FileChanged { .. } => "file.watcher.updated",
            Self::CommandExecuted { .. } => "command.executed",
            Self::ProjectUpdated(_) => "project.updated",
            Self::BranchUpdated { .. } => "vcs.branch.updated",
        }
    }

    /// Returns the event's session, if it has one.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::SessionCreated { session_id, .. }
            | Self::SessionUpdated { session_id, .. }
            | Self::SessionDeleted { session_id, .. }
            | Self::SessionStatus { session_id, .. }
            | Self::SessionIdle { session_id }
            | Self::SessionDiff { session_id, .. }
            | Self::SessionCompacted { session_id }
            | Self::MessageUpdated { session_id, .. }
            | Self::MessageRemoved { session_id, .. }
            | Self::PartUpdated { session_id, .. }
            | Self::PartDelta { session_id, .. }
            | Self::PartRemoved { session_id, .. }
            | Self::PermissionReplied { session_id, .. }
            | Self::QuestionReplied { session_id, .. }
            | Self::QuestionRejected { session_id, .. }
            | Self::TodoUpdated { session_id, .. }
            | Self::CommandExecuted { session_id, .. } => Some(session_id),
            Self::SessionError { session_id, .. } => session_id.as_ref(),
            Self::PermissionAsked(request) => Some(&request.session_id),
            Self::QuestionAsked(request) => Some(&request.session_id),
            Self::Connected {}
            | Self::Heartbeat {}
            | Self::Resync {}
            | Self::InstanceDisposed { .. }
            | Self::McpToolsChanged { .. }
            | Self::McpBrowserOpenFailed { .. }
            | Self::GlobalDisposed {}
            | Self::FileEdited { .. }
            | Self::LspUpdated {}
            | Self::FileChanged { .. }
            | Self::ProjectUpdated(_)
            | Self::BranchUpdated { .. } => None,
        }
    }
}

/// An event on `/event`: `{id, type, properties}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventFrame {
    /// Ascending.
    pub id: EventId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// An event on `/global/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GlobalFrame {
    /// Where it happened; `global` for what belongs to no directory; none for the stream's own frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The directory's project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The event.
    pub payload: EventFrame,
}

/// A numbered copy of a durable event on `/global/event`: `{type: "sync", id, syncEvent}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncEvent {
    /// The event's id.
    pub id: EventId,
    /// The event's type and `.1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// From 0, without gaps, for each session.
    pub seq: u64,
    /// The session.
    #[serde(rename = "aggregateID")]
    pub aggregate_id: SessionId,
    /// The event's properties.
    pub data: Value,
}

/// A tool part's metadata that marks a call which was cut off.
pub fn interrupted() -> JsonMap {
    JsonMap::from_iter([("interrupted".to_owned(), Value::Bool(true))])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_events_kind_is_the_type_it_is_written_with() {
        let session_id = SessionId::parse("ses_1").expect("an id");
        let events = [
            Event::Heartbeat {},
            Event::SessionIdle { session_id: session_id.clone() },
            Event::SessionStatus { session_id, status: SessionStatus::idle() },
            Event::BranchUpdated { branch: None },
        ];
        for event in events {
            assert_eq!(serde_json::to_value(&event).expect("JSON")["type"], event.kind());
        }
    }
}
