//! What a client sends to start work in a session.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::id::{MessageId, PartId};
use crate::message::{ModelRef, OutputFormat, PromptSettings};
use crate::part::{AgentPart, FilePart, Span, SubtaskPart};

/// The body of `POST /session/:id/message` and `prompt_async`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptBody {
    /// The user message's id; made where none is given. The same id with the same content is one prompt.
    #[serde(default, rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The model; else the session's last, the agent's, the config's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The agent; else the session's last, the config's, `build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Stores the message and asks nobody.
    #[serde(default, rename = "noReply", skip_serializing_if = "Option::is_none")]
    pub no_reply: Option<bool>,
    /// Tools switched on or off from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<IndexMap<String, bool>>,
    /// The shape of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// More text for the system prompt of this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// What only Troupe knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub troupe: Option<Box<PromptSettings>>,
    /// What is said.
    pub parts: Vec<PartInput>,
}

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartInput {
    /// The part's id; made where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<PartId>,
    /// What it is.
    #[serde(flatten)]
    pub kind: PartInputKind,
}

/// What a part of a prompt is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PartInputKind {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Not the person's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        synthetic: Option<bool>,
        /// Not for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ignored: Option<bool>,
        /// When it was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time: Option<Span>,
        /// The client's own data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<JsonMap>,
    },
    /// A file, or an image.
    File(FilePart),
    /// Names an agent.
    Agent(AgentPart),
    /// Work for a subagent.
    Subtask(SubtaskPart),
}

/// The body of `POST /session/:id/shell`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShellBody {
    /// The user message's id; made where none is given.
    #[serde(default, rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The agent it is noted under.
    pub agent: String,
    /// The model it is noted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The command line.
    pub command: String,
}

/// The body of `POST /session/:id/summarize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarizeBody {
    /// The model's provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The model that writes the summary, unless the config says otherwise.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// The loop goes on afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
}

/// The body of `POST /session/:id/command`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandBody {
    /// The user message's id; made where none is given.
    #[serde(default, rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The agent; else the command's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// `provider/model`; else the command's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What follows the command's name.
    pub arguments: String,
    /// The command's name.
    pub command: String,
    /// The model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Files to go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartInput>,
}

/// The body of `POST /session/:id/init`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitBody {
    /// The model.
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// The model's provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The user message's id.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
}

/// A line a client writes to the server's log: the body of `POST /log`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogBody {
    /// Who writes.
    pub service: String,
    /// How grave it is.
    pub level: LogLevel,
    /// The line.
    pub message: String,
    /// More data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For developers.
    Debug,
    /// For the record.
    Info,
    /// Something failed.
    Error,
    /// Something is odd.
    Warn,
}
