//! The vendor's JSON.
//!
//! What is sent: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html>, made of
//! Anthropic's blocks. What comes:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html>, read leniently.

use std::borrow::Cow;

use protocol::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::anthropic::messages::BLANK;
use crate::anthropic::wire as anthropic;

/// Most documents in a message.
const DOCUMENTS: usize = 5;

/// A request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    pub settings: JsonMap,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<Block<'a>>,
    pub messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_config: Option<ToolConfig<'a>>,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub role: anthropic::Role,
    pub content: Vec<Block<'a>>,
}

/// A block of content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image { format: &'a str, source: Data<'a> },
    Document { format: &'static str, name: String, source: Data<'a> },
    ReasoningContent(Reasoning<'a>),
    ToolUse { tool_use_id: String, name: String, input: Cow<'a, Value> },
    ToolResult { tool_use_id: String, content: Vec<Block<'a>>, status: &'static str },
    CachePoint { r#type: &'static str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

/// In base64.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    pub bytes: Cow<'a, str>,
}

/// The tools on offer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    pub tools: Vec<Tool<'a>>,
    pub tool_choice: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Tool<'a> {
    ToolSpec {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        input_schema: Schema<'a>,
    },
}

#[derive(Serialize)]
pub(super) struct Schema<'a> {
    pub json: Cow<'a, Value>,
}

/// Returns Anthropic's messages in this vendor's words.
pub(super) fn messages<'a>(theirs: Vec<anthropic::Message<'a>>) -> Vec<Message<'a>> {
    let message = |message: anthropic::Message<'a>| {
        // A document goes by its name, which must be unlike the others in the message.
        let mut documents = 0;
        Message { role: message.role, content: blocks(message.content, &mut documents) }
    };
    theirs.into_iter().map(message).collect()
}

/// Returns blocks, their marks behind them.
pub(super) fn blocks<'a>(theirs: Vec<anthropic::Block<'a>>, documents: &mut usize) -> Vec<Block<'a>> {
    let mut content = Vec::with_capacity(theirs.len() + 1);
    for block in theirs {
        content.push(one(block.kind, documents));
        if block.cache_control.is_some() {
            content.push(Block::CachePoint { r#type: "default" });
        }
    }
    // A document is refused without a word beside it.
    if *documents > 0 && !content.iter().any(|block| matches!(block, Block::Text(_) | Block::ToolResult { .. })) {
        content.insert(0, Block::Text(BLANK.into()));
    }
    content
}

fn one<'a>(kind: anthropic::Kind<'a>, documents: &mut usize) -> Block<'a> {
    use anthropic::{Content, Kind, Source};
    match kind {
        Kind::Text { text } => text_block(text),
        Kind::Image { source: Source::Base64 { media_type, data } } => Block::Image {
            format: media_type.strip_prefix("image/").unwrap_or(media_type),
            source: Data { bytes: data },
        },
        Kind::Document { source: Source::Text { data, .. }, .. } => text_block(data.into()),
        Kind::Document { source: Source::Base64 { data, .. }, .. } if *documents < DOCUMENTS => {
            *documents += 1;
            Block::Document { format: "pdf", name: format!("document-{documents}"), source: Data { bytes: data } }
        }
        Kind::Image { .. } | Kind::Document { .. } => {
            Block::Text("[A file was left out: it can't be sent to this model.]".into())
        }
        Kind::Thinking { thinking, signature } => {
            Block::ReasoningContent(Reasoning::ReasoningText { text: thinking, signature })
        }
        Kind::RedactedThinking { data } => Block::ReasoningContent(Reasoning::RedactedContent(data)),
        Kind::ToolUse { id, name, input } => Block::ToolUse { tool_use_id: id, name, input },
        Kind::ToolResult { tool_use_id, content, is_error } => {
            let content = match content {
                Content::Text(text) => vec![text_block(text.into())],
                Content::Blocks(kinds) => kinds.into_iter().map(|kind| one(kind, documents)).collect(),
            };
            Block::ToolResult { tool_use_id, content, status: if is_error { "error" } else { "success" } }
        }
    }
}

/// Blank text is refused.
fn text_block(text: Cow<'_, str>) -> Block<'_> {
    Block::Text(if text.trim().is_empty() { BLANK.into() } else { text })
}

/// An event of an answer: one of these.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub content_block_start: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content_block_delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content_block_stop: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub message_stop: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// What happens to a block.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfBlock<'a> {
    #[serde(borrow, default)]
    pub content_block_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub start: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delta: Option<&'a RawValue>,
}

/// A start, or more.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Piece<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_use: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    #[serde(borrow, default)]
    pub tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thought<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub signature: Option<&'a RawValue>,
    /// As some clients call it: `data`.
    #[serde(borrow, default, alias = "data")]
    pub redacted_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stop<'a> {
    #[serde(borrow, default)]
    pub stop_reason: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
}

/// Token counts; those of the cache are not among `inputTokens`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage<'a> {
    #[serde(borrow, default)]
    pub input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub total_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_write_input_tokens: Option<&'a RawValue>,
}
