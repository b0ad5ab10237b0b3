//! The parts a message is made of.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::error::ApiError;
use crate::id::{CallId, MessageId, PartId, SessionId};
use crate::is_false;
use crate::message::{ModelRef, Tokens};

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its id.
    pub id: PartId,
    /// The session it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message it belongs to.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// What it is.
    #[serde(flatten)]
    pub kind: PartKind,
}

/// What a part is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PartKind {
    /// Text, of the person or the model.
    Text(TextPart),
    /// The model's thinking.
    Reasoning(ReasoningPart),
    /// A file given with a prompt, or by a tool.
    File(FilePart),
    /// A tool call and its result.
    Tool(ToolPart),
    /// A model request begins.
    StepStart {
        /// The tree hash of the project's files at that moment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    },
    /// A model request has ended.
    StepFinish {
        /// Why: `stop`, `tool-calls`, `length`, `content-filter`, `error`, `unknown`.
        reason: String,
        /// The tree hash at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
        /// In US dollars.
        cost: f64,
        /// What it used.
        tokens: Tokens,
    },
    /// A tree hash. Declared on the wire; not written by this version.
    Snapshot {
        /// The hash.
        snapshot: String,
    },
    /// The files a step changed.
    Patch {
        /// The tree before the step.
        hash: String,
        /// Absolute paths.
        files: Vec<String>,
    },
    /// The person named an agent.
    Agent(AgentPart),
    /// A request was tried again. Declared on the wire; not written by this version.
    Retry {
        /// Which try.
        attempt: u32,
        /// What failed.
        error: ApiError,
        /// When.
        time: Created,
    },
    /// The history before it is summarised.
    Compaction {
        /// By the loop itself, not by request.
        auto: bool,
        /// Because a request was too large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overflow: Option<bool>,
        /// First message that is kept as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail_start_id: Option<MessageId>,
    },
    /// Work for a subagent, given by the person.
    Subtask(SubtaskPart),
}

/// Text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// Made by the runtime, not by the person.
    #[serde(default, skip_serializing_if = "is_false")]
    pub synthetic: bool,
    /// Not shown to the model.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ignored: bool,
    /// When it was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// The vendor's data, and marks of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
}

/// Thinking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The text.
    pub text: String,
    /// The vendor's data (signatures), under the vendor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
    /// When it was streamed.
    pub time: Span,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePart {
    /// Media type.
    pub mime: String,
    /// The name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// `file:` or `data:` url.
    pub url: String,
    /// Where in the prompt's text it was named, and what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPart {
    /// The vendor's id of the call.
    #[serde(rename = "callID")]
    pub call_id: CallId,
    /// The tool's name.
    pub tool: String,
    /// How far it is.
    pub state: ToolState,
    /// The vendor's data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonMap>,
}

/// How far a tool call is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// Its arguments still stream.
    Pending {
        /// Empty as yet.
        input: Value,
        /// Always empty on the wire.
        raw: String,
    },
    /// It runs, or waits for a person.
    Running {
        /// Its arguments.
        input: Value,
        /// Set by tools that say so early (task).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it shows while it runs (bash: `output`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<JsonMap>,
        /// When it began.
        time: Started,
    },
    /// It has a result.
    Completed {
        /// Its arguments.
        input: Value,
        /// What the model reads.
        output: String,
        /// What a person reads.
        title: String,
        /// What clients draw from.
        metadata: JsonMap,
        /// When it ran.
        time: Ran,
        /// Files for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachments: Option<Vec<Part>>,
    },
    /// It failed, or was not run.
    Error {
        /// Its arguments, as far as they are known.
        input: Value,
        /// What the model reads.
        error: String,
        /// What clients draw from (`interrupted: true` after an abort).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<JsonMap>,
        /// When it ran.
        time: Ran,
    },
}

impl ToolState {
    /// Returns whether the call still has no result.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Running { .. })
    }

    /// Returns the call's arguments.
    pub fn input(&self) -> &Value {
        match self {
            Self::Pending { input, .. }
            | Self::Running { input, .. }
            | Self::Completed { input, .. }
            | Self::Error { input, .. } => input,
        }
    }

    /// Returns when the call began; none while its arguments stream.
    pub fn start(&self) -> Option<u64> {
        match self {
            Self::Pending { .. } => None,
            Self::Running { time, .. } => Some(time.start),
            Self::Completed { time, .. } | Self::Error { time, .. } => Some(time.start),
        }
    }
}

/// The person named an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The agent.
    pub name: String,
    /// Where in the prompt's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
}

/// Work for a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtaskPart {
    /// What it is told.
    pub prompt: String,
    /// A few words for a person.
    pub description: String,
    /// Which agent does it.
    pub agent: String,
    /// Which model, when not the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The command it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A stretch of time in ms since the Unix epoch; open as long as `end` is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// First.
    pub start: u64,
    /// Last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
}

/// A beginning in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// When.
    pub start: u64,
}

/// A beginning and an end in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ran {
    /// First.
    pub start: u64,
    /// Last.
    pub end: u64,
    /// When the output was taken out of the history for want of room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<u64>,
}

/// A moment in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// When.
    pub created: u64,
}

impl Part {
    /// Returns the tool call, if it is one.
    pub fn as_tool(&self) -> Option<&ToolPart> {
        match &self.kind {
            PartKind::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns the text, if it is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match &self.kind {
            PartKind::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}
