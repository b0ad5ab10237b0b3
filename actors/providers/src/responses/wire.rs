//! The vendor's JSON.
//!
//! What is sent: <https://platform.openai.com/docs/api-reference/responses/create>. What comes:
//! <https://platform.openai.com/docs/api-reference/responses-streaming>, read leniently.

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
    pub input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<&'static str>,
    pub stream: bool,
}

/// An item of the conversation.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Item<'a> {
    /// A system text.
    System {
        role: &'static str,
        content: String,
    },
    User {
        role: &'static str,
        content: Vec<Content<'a>>,
    },
    Assistant {
        role: &'static str,
        content: Vec<Content<'a>>,
        /// `commentary` or `final_answer`: newer models want it back.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    Typed(Typed<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Typed<'a> {
    Reasoning {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        summary: Vec<Summary<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<&'a str>,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: Output<'a>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Summary<'a> {
    SummaryText { text: &'a str },
}

/// What a tool gave.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Output<'a> {
    Text(&'a str),
    Parts(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    InputText {
        text: Cow<'a, str>,
    },
    OutputText {
        text: &'a str,
    },
    InputImage {
        image_url: &'a str,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
}

/// A tool on offer.
#[derive(Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub name: &'a str,
    pub description: &'a str,
    pub parameters: Value,
    /// The vendor's default would be yes, with other rules for schemas.
    pub strict: bool,
}

/// An event of an answer.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub item_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// An item of an answer.
#[derive(Default, Deserialize)]
pub(super) struct AnswerItem<'a> {
    #[serde(borrow, default, rename = "type")]
    pub kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub phase: Option<&'a RawValue>,
}

/// A part of an item's content or summary.
#[derive(Default, Deserialize)]
pub(super) struct AnswerPart<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub refusal: Option<&'a RawValue>,
}

/// The answer as a whole, at its beginning and end.
#[derive(Default, Deserialize)]
pub(super) struct Whole<'a> {
    #[serde(borrow, default)]
    pub status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow, default)]
    pub reason: Option<&'a RawValue>,
}

/// Token counts. Those of the input hold the cached ones, those of the output the thinking.
#[derive(Default, Deserialize)]
pub(super) struct Usage<'a> {
    #[serde(borrow, default)]
    pub input_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub total_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input_tokens_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub output_tokens_details: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct UsageDetails<'a> {
    #[serde(borrow, default)]
    pub cached_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cache_write_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub reasoning_tokens: Option<&'a RawValue>,
}
