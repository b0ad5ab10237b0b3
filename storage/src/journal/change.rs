//! What a command stores and tells. A durable event has no other way out than with its row.

use std::sync::Arc;

use protocol::permission::{PermissionRequest, Reply, Scope, ToolRef};
use protocol::project::Project;
use protocol::question::{Answers, QuestionRequest};
use protocol::{
    CallId, Event, Message, MessageId, Part, PartId, PartKind, PermissionId, QuestionId, Rule, Session, SessionId, Todo,
};
use serde::{Deserialize, Serialize};

use crate::frame::Delta;

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new session. Tells `session.created`.
    SessionCreated(Arc<Session>),
    /// Tells `session.updated`.
    SessionUpdated(Arc<Session>),
    /// Takes the session and all that belongs to it out. Tells `session.deleted`.
    SessionDeleted(Arc<Session>),
    /// A new or changed message. Tells `message.updated`.
    MessageUpdated(Arc<Message>),
    /// Takes the message and its parts out. Tells `message.removed`.
    MessageRemoved(SessionId, MessageId),
    /// A new or changed part. Tells `message.part.updated`.
    PartUpdated(Arc<Part>),
    /// Stores how far a part has come and tells nothing: deltas have told it already.
    PartStored(Arc<Part>),
    /// Tells `message.part.removed`.
    PartRemoved(SessionId, MessageId, PartId),
    /// The effects of a tool call begin. Tells nothing.
    CallStarted(SessionId, PartId),
    /// What a session has seen of files: each with the hash of its content, or none where it knows of it no more. Tells
    /// nothing.
    FilesSeen(SessionId, Vec<(String, Option<String>)>),
    /// Tells `todo.updated`.
    Todos(SessionId, Vec<Todo>),
    /// A prompt is accepted, or its attempt is counted. Tells nothing.
    Turn(TurnRow),
    /// A prompt is answered. Tells nothing.
    TurnClosed(SessionId, MessageId),
    /// Tells `permission.asked`.
    PermissionAsked {
        /// What is asked.
        request: Arc<PermissionRequest>,
        /// Who asks, also where the request doesn't name it.
        by: AskedBy,
    },
    /// Keeps the answer for the call that asked. Tells `permission.replied`.
    PermissionReplied {
        /// What was asked.
        request: Arc<PermissionRequest>,
        /// Who asked.
        by: AskedBy,
        /// The answer.
        reply: Reply,
        /// Feedback for the model.
        message: Option<String>,
    },
    /// Tells `question.asked`.
    QuestionAsked(Arc<QuestionRequest>),
    /// Keeps the answers for the call that asked. Tells `question.replied`.
    QuestionReplied(Arc<QuestionRequest>, Answers),
    /// Tells `question.rejected`.
    QuestionRejected(Arc<QuestionRequest>),
    /// Forgets a permission request. Tells `permission.replied` with `reject` when it was still open.
    PermissionWithdrawn(SessionId, PermissionId),
    /// Forgets a question. Tells `question.rejected`.
    QuestionWithdrawn(SessionId, QuestionId),
    /// Forgets what a call asked: it has its result. Tells nothing.
    AsksForgotten(SessionId, CallId),
    /// Tells nothing.
    Approved(Approval),
    /// Tells nothing.
    ApprovalRemoved(String),
    /// Tells nothing.
    ProcessStarted(ProcessRow),
    /// Tells nothing.
    ProcessEnded(ProcessRow),
    /// Tells `project.updated`.
    Project(Project),
    /// Stores nothing and tells this.
    Notice(Event),
    /// Stores nothing and tells `message.part.delta`.
    Delta(Arc<Delta>),
}

/// A prompt that is accepted and not yet answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Its session.
    pub session_id: SessionId,
    /// The user message.
    pub message_id: MessageId,
    /// What answers it.
    pub kind: TurnKind,
    /// How often it was begun again after a crash, since the last progress.
    pub attempt: u32,
    /// How often progress has reset `attempt`.
    pub resets: u32,
    /// When it was accepted, in ms since the Unix epoch.
    pub time: u64,
}

/// What answers a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnKind {
    /// The model.
    Prompt,
    /// A command of the person's, no model.
    Shell,
    /// A summary.
    Compact,
}

impl TurnKind {
    /// Returns the kind's name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Shell => "shell",
            Self::Compact => "compact",
        }
    }
}

/// What waits for a person, or was answered while its call has no result yet.
#[derive(Clone, Debug, PartialEq)]
pub enum AskRow {
    /// A permission request.
    Permission {
        /// What was asked.
        request: Arc<PermissionRequest>,
        /// Who asks.
        by: AskedBy,
        /// The answer and the feedback.
        reply: Option<(Reply, Option<String>)>,
    },
    /// A question.
    Question {
        /// What was asked.
        request: Arc<QuestionRequest>,
        /// The answers; none inside: it was dismissed.
        reply: Option<Option<Answers>>,
    },
}

impl AskRow {
    /// Returns the session that asks.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Permission { request, .. } => &request.session_id,
            Self::Question { request, .. } => &request.session_id,
        }
    }

    /// Returns the call that asks.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::Permission { by, .. } => Some(&by.call.call_id),
            Self::Question { request, .. } => request.tool.as_ref().map(|t| &t.call_id),
        }
    }
}

/// Who asks for a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedBy {
    /// The call.
    pub call: ToolRef,
    /// The agent that calls.
    pub agent: String,
}

/// The `reply` column of an answered permission request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredReply {
    pub reply: Reply,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The `reply` column of an answered question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredAnswers {
    pub answers: Option<Answers>,
}

/// What a person allowed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The id of the request it came from, and a number within it.
    pub id: String,
    /// How far it reaches.
    pub scope: Scope,
    /// The project it was given in.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// The session it was given in.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The agent it was given to.
    pub agent: String,
    /// What it allows.
    pub rule: Rule,
    /// When, in ms since the Unix epoch.
    pub time: u64,
}

/// A process group that was started and not yet seen to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Its number: its leader's process id.
    pub pgid: i32,
    /// The kernel's boot it was started in.
    pub boot_id: String,
    /// The session that owns it.
    pub session_id: SessionId,
    /// When its leader started, as the kernel counts it.
    pub started: u64,
}

impl Change {
    /// Returns the session whose durable log the change appends to.
    pub fn logs_to(&self) -> Option<&SessionId> {
        match self {
            Self::SessionCreated(session) | Self::SessionUpdated(session) | Self::SessionDeleted(session) => {
                Some(&session.id)
            }
            Self::MessageUpdated(message) => Some(message.session_id()),
            Self::PartUpdated(part) => Some(&part.session_id),
            Self::MessageRemoved(session, _) | Self::PartRemoved(session, ..) => Some(session),
            _ => None,
        }
    }

    /// Returns whether the change writes to the database.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::Notice(_) | Self::Delta(_))
    }

    /// Returns about how many bytes it writes. What tools say is bounded, what models say is not.
    pub fn size(&self) -> usize {
        let text = match self {
            Self::PartUpdated(part) | Self::PartStored(part) => match &part.kind {
                PartKind::Text(part) => part.text.len(),
                PartKind::Reasoning(part) => part.text.len(),
                PartKind::File(part) => part.url.len(),
                _ => 0,
            },
            _ => 0,
        };
        text + 2048
    }
}
