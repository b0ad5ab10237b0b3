//! The vendor's JSON.
//!
//! What is sent: <https://platform.openai.com/docs/api-reference/chat/create>. What comes:
//! <https://platform.openai.com/docs/api-reference/chat-streaming/streaming>, read leniently, for few servers keep to
//! it: a field may be missing, null, or of another type.

use std::borrow::Cow;

use protocol::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::lenient::lenient;

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
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub choices: Vec<Choice<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub usage: Option<Usage<'a>>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    /// `error` where the piece itself is the error (vLLM).
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// Groq's counts and errors.
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub x_groq: Option<Groq<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Groq<'a> {
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub usage: Option<Usage<'a>>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub delta: Option<Delta<'a>>,
    /// In place of `delta` where a server sends an answer whole.
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub message: Option<Delta<'a>>,
    /// In place of `delta` where a server answers as the older completions do.
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    /// Moonshot's counts.
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub usage: Option<Usage<'a>>,
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
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub tool_calls: Vec<CallDelta<'a>>,
    /// What calls were before there could be several.
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub function_call: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    pub extra_content: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
}

/// Token counts, by this vendor's names or by those of its newer format.
#[derive(Default, Deserialize)]
pub(super) struct Usage<'a> {
    #[serde(borrow, default)]
    pub prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub completion_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub total_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub prompt_tokens_details: Option<Details<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub input_tokens_details: Option<Details<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub completion_tokens_details: Option<Details<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    pub output_tokens_details: Option<Details<'a>>,
    /// DeepSeek's name for cached tokens.
    #[serde(borrow, default)]
    pub prompt_cache_hit_tokens: Option<&'a RawValue>,
    /// Moonshot's.
    #[serde(borrow, default)]
    pub cached_tokens: Option<&'a RawValue>,
}

/// What is counted among others.
#[derive(Default, Deserialize)]
pub(super) struct Details<'a> {
    #[serde(borrow, default)]
    pub cached_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_write_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning_tokens: Option<&'a RawValue>,
}
