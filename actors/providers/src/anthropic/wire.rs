//! The vendor's JSON.
//!
//! What is sent: <https://docs.anthropic.com/en/api/messages>. What comes:
//! <https://docs.anthropic.com/en/api/messages-streaming>, read leniently: a field may be missing, null, or of another
//! type.

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Block<'a>>,
    pub messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool<'a>>,
    pub stream: bool,
}

/// A message of a request.
#[derive(Serialize)]
pub(crate) struct Message<'a> {
    pub role: Role,
    pub content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    User,
    Assistant,
}

/// A block of content.
#[derive(Serialize)]
pub(crate) struct Block<'a> {
    #[serde(flatten)]
    pub kind: Kind<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// Ends what the vendor's cache keeps.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum CacheControl {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Kind<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: String,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: Content<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Content of a tool's result.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Kind<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Source<'a> {
    Base64 { media_type: &'a str, data: Cow<'a, str> },
    Text { media_type: &'static str, data: String },
    Url { url: &'a str },
}

/// A tool on offer.
#[derive(Serialize)]
pub(super) struct Tool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub input_schema: Cow<'a, Value>,
}

/// An event of an answer.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// The message an answer begins with.
#[derive(Default, Deserialize)]
pub(super) struct Start<'a> {
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
}

/// How a block begins.
#[derive(Default, Deserialize)]
pub(super) struct BlockStart<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub data: Option<&'a RawValue>,
}

/// More of a block, or of the message.
#[derive(Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub partial_json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub stop_reason: Option<&'a RawValue>,
}

/// Token counts, of the whole answer so far.
#[derive(Default, Deserialize)]
pub(super) struct Usage<'a> {
    #[serde(borrow, default)]
    pub input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_creation_input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_read_input_tokens: Option<&'a RawValue>,
}
