//! Between the loop and a provider adapter: a request that is always legal, and the events its stream is decoded to.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::id::{CallId, SessionId};
use crate::message::Tokens;
use crate::provider::Capabilities;

/// One request to a model. Made from stored facts; each call in it has exactly one result, nothing in it is empty,
/// and it never ends in an assistant message.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRequest {
    /// The session, for the vendor's cache and logs.
    pub session_id: SessionId,
    /// The parent session of a subagent.
    pub parent_id: Option<SessionId>,
    /// The model's name on the wire.
    pub model: String,
    /// System texts, in order.
    pub system: Vec<String>,
    /// The conversation.
    pub messages: Vec<ModelMessage>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Whether the model must call a tool.
    pub tool_choice: ToolChoice,
    /// Most tokens of the answer; 0: the vendor's default.
    pub max_output_tokens: u64,
    /// Sampling.
    pub temperature: Option<f64>,
    /// Sampling.
    pub top_p: Option<f64>,
    /// Set for models that think.
    pub reasoning: Option<Reasoning>,
    /// The vendor's own options, from model, agent and variant.
    pub options: JsonMap,
    /// Sent with the request.
    pub headers: IndexMap<String, String>,
}

/// How a model thinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// The field in which a server of chat completions wants thinking back; none: the adapter knows.
    pub field: Option<String>,
}

impl Reasoning {
    /// Returns it for a model with these capabilities; none if it doesn't think.
    pub fn of(capabilities: &Capabilities) -> Option<Self> {
        let field = capabilities.interleaved.get("field").and_then(Value::as_str).map(str::to_owned);
        (capabilities.reasoning || field.is_some()).then_some(Self { field })
    }
}

/// Whether the model must call a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must.
    Required,
}

/// A message of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelMessage {
    /// Of the person. Never empty.
    User(Vec<UserContent>),
    /// Of the model. Never empty.
    Assistant(Vec<AssistantContent>),
    /// The results of the calls of the assistant message before it, in the order of the calls.
    Tool(Vec<ToolResult>),
}

/// Content of a user message.
#[derive(Clone, Debug, PartialEq)]
pub enum UserContent {
    /// Text, not empty.
    Text(String),
    /// A file.
    File(File),
}

/// A file in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Media type.
    pub mime: String,
    /// Its name.
    pub filename: Option<String>,
    /// `data:` url.
    pub url: String,
}

/// Content of an assistant message.
#[derive(Clone, Debug, PartialEq)]
pub enum AssistantContent {
    /// Text, not empty.
    Text {
        /// The text.
        text: String,
        /// The vendor's data as the adapter gave it.
        metadata: Option<JsonMap>,
    },
    /// Thinking of the very model the request goes to.
    Reasoning {
        /// The text; may be empty where the vendor's data stands for it.
        text: String,
        /// The vendor's data as the adapter gave it.
        metadata: Option<JsonMap>,
    },
    /// A tool call.
    Call {
        /// The call.
        id: CallId,
        /// The tool.
        tool: String,
        /// A JSON object.
        input: Value,
        /// The vendor's data as the adapter gave it.
        metadata: Option<JsonMap>,
    },
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub tool: String,
    /// What the model reads, not empty.
    pub output: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// Files beside the text, of kinds the model reads. Where the vendor takes none in a result, the adapter sends them
    /// in a message of the person behind the results.
    pub files: Vec<File>,
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// JSON schema of its arguments: an object.
    pub parameters: Value,
}

/// What a model's stream says, in order. Text and thinking come in blocks: a start, deltas, an end.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A text block begins.
    TextStart {
        /// The vendor's data, under the vendor's name.
        metadata: Option<JsonMap>,
    },
    /// More of it.
    TextDelta(String),
    /// It ends.
    TextEnd {
        /// The vendor's data to send back with it, where it came behind the text; it goes before that of the start.
        metadata: Option<JsonMap>,
    },
    /// A thinking block begins.
    ReasoningStart,
    /// More of it.
    ReasoningDelta(String),
    /// It ends, with the vendor's data to send back with it (signatures).
    ReasoningEnd {
        /// Under the vendor's name.
        metadata: Option<JsonMap>,
    },
    /// A tool call's name is known; its arguments follow.
    CallStart {
        /// The call.
        id: CallId,
        /// The tool, as the model spelt it.
        tool: String,
    },
    /// A tool call's arguments are complete. Each started call gets this or [`ModelEvent::CallBroken`].
    Call {
        /// The call.
        id: CallId,
        /// The tool, as the model spelt it.
        tool: String,
        /// A JSON object.
        input: JsonMap,
        /// The vendor's data to send back with it.
        metadata: Option<JsonMap>,
    },
    /// A tool call's arguments are complete and no JSON object.
    CallBroken {
        /// The call.
        id: CallId,
        /// The tool, as the model spelt it.
        tool: String,
        /// What came.
        raw: String,
        /// What is wrong with it.
        error: String,
    },
    /// The answer has ended.
    Finish {
        /// Why.
        reason: FinishReason,
        /// What it used; zeros where the vendor doesn't say.
        usage: Tokens,
    },
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// It is whole.
    Stop,
    /// The model waits for results.
    ToolCalls,
    /// It was cut at a limit.
    Length,
    /// The vendor's filter stopped it.
    ContentFilter,
    /// The vendor gave a reason of its own, or none.
    Unknown,
}

impl FinishReason {
    /// Returns the reason's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool-calls",
            Self::Length => "length",
            Self::ContentFilter => "content-filter",
            Self::Unknown => "unknown",
        }
    }
}
