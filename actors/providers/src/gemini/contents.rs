//! The conversation as the vendor's contents: user and model in turn, the user first, responses directly behind their
//! calls.

use std::borrow::Cow;
use std::collections::HashMap;

use protocol::model::{AssistantContent, File, ModelMessage, ModelRequest, ToolResult, UserContent};
use protocol::{CallId, JsonMap};
use serde_json::{Value, json};

use super::wire::{Blob, Content, Data, FileUri, FunctionCall, FunctionResponse, Part, Response, Role};
use crate::media::{ATTACHED, Kind, Media};
use crate::names::tool_name;

/// Under which name data is kept with parts.
pub(super) const VENDOR: &str = "google";
/// Stands for the signature of a call that another model made; without one Gemini 3 refuses the history.
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const NOT_SIGNED: &str = "skip_thought_signature_validator";
const BEFORE: &str = "(The beginning of this conversation was left out.)";
const AFTER: &str = "Go on.";

/// Returns the contents.
pub(super) fn contents(request: &ModelRequest) -> Vec<Content<'_>> {
    let is_3 = request.model.to_ascii_lowercase().contains("gemini-3");
    let ids = vendor_ids(&request.messages);
    let mut all: Vec<Content<'_>> = Vec::new();
    for message in &request.messages {
        match message {
            ModelMessage::User(parts) => add(&mut all, Role::User, parts.iter().map(user).collect()),
            ModelMessage::Assistant(parts) => add(&mut all, Role::Model, model(parts, is_3)),
            ModelMessage::Tool(results) => add(&mut all, Role::User, responses(results, &ids, is_3)),
        }
    }
    if all.last().is_none_or(|last| last.role == Role::Model) {
        add(&mut all, Role::User, vec![text(AFTER)]);
    }
    all
}

/// Adds a content, or its parts to the last one of the same side. What a person says behind responses is a content of
/// its own: the vendor counts responses against calls.
fn add<'a>(all: &mut Vec<Content<'a>>, role: Role, parts: Vec<Part<'a>>) {
    if parts.is_empty() {
        return;
    }
    let answers = |parts: &[Part<'_>]| parts.iter().any(|part| matches!(part.data, Data::FunctionResponse(_)));
    match all.last_mut() {
        Some(last) if last.role == role && answers(&last.parts) == answers(&parts) => last.parts.extend(parts),
        before => {
            if before.is_none() && role == Role::Model {
                all.push(Content { role: Role::User, parts: vec![text(BEFORE)] });
            }
            all.push(Content { role, parts });
        }
    }
}

/// A part of text.
pub(super) fn text<'a>(text: impl Into<Cow<'a, str>>) -> Part<'a> {
    plain(Data::Text(text.into()))
}

fn plain(data: Data<'_>) -> Part<'_> {
    Part { data, thought: false, thought_signature: None }
}

fn user(part: &UserContent) -> Part<'_> {
    match part {
        UserContent::Text(said) => text(said.as_str()),
        UserContent::File(file) => plain(data(file)),
    }
}

fn data(file: &File) -> Data<'_> {
    let media = Media::of(file);
    match (media.kind, media.base64(), media.remote()) {
        (Kind::Text, _, None) => Data::Text(media.note().into()),
        (Kind::Other, ..) => Data::Text(media.note().into()),
        (_, Some(data), _) => Data::InlineData(Blob { mime_type: media.mime, data }),
        (_, None, Some(file_uri)) => Data::FileData(FileUri { mime_type: media.mime, file_uri }),
        (_, None, None) => Data::Text(media.note().into()),
    }
}

fn model(parts: &[AssistantContent], is_3: bool) -> Vec<Part<'_>> {
    // Of calls made together the first alone is signed.
    let mut is_signed = false;
    let mut written = Vec::new();
    for part in parts {
        match part {
            AssistantContent::Text { text, metadata } if !text.is_empty() => {
                let thought_signature = signature(metadata.as_ref());
                written.push(Part { data: Data::Text(text.into()), thought: false, thought_signature });
            }
            AssistantContent::Reasoning { text, metadata } if !text.is_empty() => {
                let thought_signature = signature(metadata.as_ref());
                written.push(Part { data: Data::Text(text.into()), thought: true, thought_signature });
            }
            AssistantContent::Call { tool, input, metadata, .. } => {
                let own = signature(metadata.as_ref());
                let made_up = (is_3 && !is_signed).then_some(NOT_SIGNED);
                is_signed = is_signed || own.is_some();
                written.push(Part {
                    data: Data::FunctionCall(FunctionCall {
                        id: call_id(metadata.as_ref()),
                        name: tool_name(tool),
                        args: if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(json!({})) },
                    }),
                    thought: false,
                    thought_signature: own.or(made_up),
                });
                continue;
            }
            AssistantContent::Text { .. } | AssistantContent::Reasoning { .. } => continue,
        }
        is_signed = false;
    }
    // Thoughts alone are no message.
    if written.iter().all(|part| part.thought) { Vec::new() } else { written }
}

/// Returns the responses, then the files the model takes in none.
fn responses<'a>(results: &'a [ToolResult], ids: &HashMap<&CallId, &'a str>, is_3: bool) -> Vec<Part<'a>> {
    let inline = |file: &&File| is_3 && matches!(data(file), Data::InlineData(_));
    let mut parts: Vec<Part<'a>> = results
        .iter()
        .map(|result| {
            let said = result.output.as_str();
            plain(Data::FunctionResponse(FunctionResponse {
                id: ids.get(&result.id).copied(),
                name: tool_name(&result.tool),
                response: if result.is_error { Response::Error(said) } else { Response::Output(said) },
                parts: result.files.iter().filter(inline).map(|file| plain(data(file))).collect(),
            }))
        })
        .collect();
    let beside: Vec<&File> = results.iter().flat_map(|result| &result.files).filter(|file| !inline(file)).collect();
    if !beside.is_empty() {
        parts.push(text(ATTACHED));
        parts.extend(beside.into_iter().map(|file| plain(data(file))));
    }
    parts
}

fn kept<'a>(metadata: Option<&'a JsonMap>, name: &str) -> Option<&'a str> {
    // Vertex has its own name in sessions of OpenCode.
    let metadata = metadata?;
    let data = metadata.get(VENDOR).or_else(|| metadata.get("vertex"))?;
    data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn signature(metadata: Option<&JsonMap>) -> Option<&str> {
    kept(metadata, "thoughtSignature")
}

/// Returns the ids the vendor gave to calls, which their responses name too. Not all calls have one, and an id of ours
/// or of another vendor's is refused by some.
fn vendor_ids(messages: &[ModelMessage]) -> HashMap<&CallId, &str> {
    let parts = messages.iter().filter_map(|message| match message {
        ModelMessage::Assistant(parts) => Some(parts),
        _ => None,
    });
    let calls = parts.flatten().filter_map(|part| match part {
        AssistantContent::Call { id, metadata, .. } => Some((id, call_id(metadata.as_ref())?)),
        _ => None,
    });
    calls.collect()
}

fn call_id(metadata: Option<&JsonMap>) -> Option<&str> {
    kept(metadata, "callId")
}
