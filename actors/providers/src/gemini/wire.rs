//! The vendor's JSON.
//!
//! What is sent and what comes: <https://ai.google.dev/api/generate-content>; what comes is read leniently.

use std::borrow::Cow;

use protocol::JsonMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(flatten)]
    pub settings: JsonMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_instruction: Option<System<'a>>,
    pub contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tools<'a>>,
}

#[derive(Serialize)]
pub(super) struct System<'a> {
    pub parts: Vec<Part<'a>>,
}

/// A message of a request.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    pub role: Role,
    pub parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Model,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(flatten)]
    pub data: Data<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the vendor's names")]
pub(super) enum Data<'a> {
    Text(Cow<'a, str>),
    InlineData(Blob<'a>),
    FileData(FileUri<'a>),
    FunctionCall(FunctionCall<'a>),
    FunctionResponse(FunctionResponse<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    pub mime_type: &'a str,
    pub data: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileUri<'a> {
    pub mime_type: &'a str,
    pub file_uri: &'a str,
}

#[derive(Serialize)]
pub(super) struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    pub name: String,
    pub args: Cow<'a, Value>,
}

#[derive(Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    pub name: String,
    pub response: Response<'a>,
    /// Files, which models before Gemini 3 don't take here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part<'a>>,
}

/// The vendor looks for these two names.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response<'a> {
    Output(&'a str),
    Error(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tools<'a> {
    pub function_declarations: Vec<Declaration<'a>>,
}

/// A tool on offer.
#[derive(Serialize)]
pub(super) struct Declaration<'a> {
    pub name: &'a str,
    pub description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
}

/// A piece of an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub candidates: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub prompt_feedback: Option<&'a RawValue>,
    /// In place of all else.
    #[serde(borrow, default)]
    pub response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(borrow, default)]
    pub index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub finish_message: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow, default)]
    pub parts: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow, default)]
    pub block_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub block_reason_message: Option<&'a RawValue>,
}

/// A part of an answer.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerPart<'a> {
    #[serde(borrow, default)]
    pub text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thought: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub function_call: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Called<'a> {
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub args: Option<&'a RawValue>,
}

/// Token counts. Those of the prompt hold the cached ones; thoughts stand beside what is written.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Usage<'a> {
    #[serde(borrow, default)]
    pub prompt_token_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub candidates_token_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub thoughts_token_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cached_content_token_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tool_use_prompt_token_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub total_token_count: Option<&'a RawValue>,
}
