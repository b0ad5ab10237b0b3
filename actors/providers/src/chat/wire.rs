//! The vendor's JSON.
//!
//! What is sent: <https://platform.openai.com/docs/api-reference/chat/create>. What comes:
//! <https://platform.openai.com/docs/api-reference/chat-streaming/streaming>, read leniently, for few servers keep to
//! it: a field may be missing, null, or of another type; the fields whose type varies are kept raw.

use std::borrow::Cow;

use protocol::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A request.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    pub settings: JsonMap,
    pub messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<&'static str>,
    pub stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
pub(super) struct StreamOptions {
    pub include_usage: bool,
}

/// A message of a request.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    #[serde(flatten)]
    pub said: Said<'a>,
    /// Thinking, and marks of the cache, by the names of the server's dialect.
    #[serde(flatten)]
    pub more: JsonMap,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Said<'a> {
    System {
        content: Content<'a>,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// Empty, never null, beside calls.
        content: Content<'a>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Serialize)]
pub(super) struct ContentPart<'a> {
    #[serde(flatten)]
    pub kind: PartKind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PartKind<'a> {
    Text {
        text: Cow<'a, str>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    InputAudio {
        input_audio: Audio<'a>,
    },
    File {
        file: FileData<'a>,
    },
    /// Mistral's.
    DocumentUrl {
        document_url: &'a str,
    },
    /// Mistral's.
    Thinking {
        thinking: Vec<PartKind<'a>>,
    },
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    pub url: &'a str,
}

#[derive(Serialize)]
pub(super) struct Audio<'a> {
    pub data: Cow<'a, str>,
    pub format: &'static str,
}

#[derive(Serialize)]
pub(super) struct FileData<'a> {
    pub filename: &'a str,
    pub file_data: &'a str,
}

/// A call the model made.
#[derive(Serialize)]
pub(super) struct ToolCall<'a> {
    pub id: Cow<'a, str>,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub function: FunctionCall,
    /// Google's thought signature; without it their models refuse their own calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
pub(super) struct FunctionCall {
    pub name: String,
    pub arguments: String,
}

/// A tool on offer.
#[derive(Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub function: FunctionSpec<'a>,
}

#[derive(Serialize)]
pub(super) struct FunctionSpec<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub parameters: Cow<'a, Value>,
}

/// A piece of an answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    /// None in the piece with the counts, else one.
    #[serde(borrow, default)]
    pub choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    /// `error` where the piece itself is the error (vLLM).
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// Groq's counts and errors.
    #[serde(borrow, default)]
    pub x_groq: Option<Groq<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub delta: Option<Delta<'a>>,
    /// In place of `delta` where a server sends an answer whole.
    #[serde(borrow, default)]
    pub message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub refusal: Option<&'a RawValue>,
    /// DeepSeek's name for thinking, and that of most.
    #[serde(borrow, default)]
    pub reasoning_content: Option<&'a RawValue>,
    /// OpenRouter's, Ollama's.
    #[serde(borrow, default)]
    pub reasoning: Option<&'a RawValue>,
    /// GitHub Copilot's.
    #[serde(borrow, default)]
    pub reasoning_text: Option<&'a RawValue>,
    /// GitHub Copilot's seal of it.
    #[serde(borrow, default)]
    pub reasoning_opaque: Option<&'a RawValue>,
    /// OpenRouter's list: texts, signatures, encrypted thinking.
    #[serde(borrow, default)]
    pub reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    pub extra_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// Token counts.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub prompt_tokens: Option<f64>,
    pub completion_tokens: Option<f64>,
    pub total_tokens: Option<f64>,
    pub prompt_tokens_details: Option<PromptDetails>,
    pub completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    pub prompt_cache_hit_tokens: Option<f64>,
    /// Moonshot's.
    pub cached_tokens: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PromptDetails {
    pub cached_tokens: Option<f64>,
    pub cache_write_tokens: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CompletionDetails {
    pub reasoning_tokens: Option<f64>,
}
