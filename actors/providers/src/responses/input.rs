//! The conversation as the vendor's items.

use protocol::JsonMap;
use protocol::model::{AssistantContent, File, ModelMessage, ModelRequest, ToolResult, UserContent};
use serde_json::Value;

use super::wire::{Content, Item, Output, Summary, Typed};
use crate::media::{Kind, Media};
use crate::names::{IdRule, Ids, tool_name};

/// How items are written.
pub(super) struct Shape {
    /// Under which name data is kept with parts.
    pub(super) vendor: &'static str,
    /// The vendor keeps what it said, and knows items by their ids.
    pub(super) stores: bool,
    /// Role and system texts.
    pub(super) system: Option<(&'static str, String)>,
}

/// Returns the items.
pub(super) fn input(request: &ModelRequest, shape: Shape) -> Vec<Item<'_>> {
    let ids = Ids::new(&request.messages, IdRule::Short(64));
    let Shape { vendor, stores, system } = shape;
    let mut items: Vec<Item<'_>> = system.map(|(role, content)| Item::System { role, content }).into_iter().collect();
    for message in &request.messages {
        match message {
            ModelMessage::User(parts) => {
                items.push(Item::User { role: "user", content: parts.iter().map(user).collect() })
            }
            ModelMessage::Assistant(parts) => assistant(parts, vendor, stores, &ids, &mut items),
            ModelMessage::Tool(results) => items.extend(results.iter().map(|result| output(result, &ids))),
        }
    }
    items
}

fn user(part: &UserContent) -> Content<'_> {
    match part {
        UserContent::Text(text) => Content::InputText { text: text.into() },
        UserContent::File(sent) => file(sent),
    }
}

fn file(file: &File) -> Content<'_> {
    let media = Media::of(file);
    let is_there = media.base64().is_some() || media.remote().is_some();
    match media.kind {
        Kind::Image if is_there => Content::InputImage { image_url: media.url },
        Kind::Pdf if is_there => match media.remote() {
            Some(url) => Content::InputFile { filename: None, file_data: None, file_url: Some(url) },
            None => {
                let filename = Some(media.name());
                Content::InputFile { filename, file_data: Some(media.url.into()), file_url: None }
            }
        },
        _ => Content::InputText { text: media.note().into() },
    }
}

fn output<'a>(result: &'a ToolResult, ids: &Ids<'_>) -> Item<'a> {
    let call_id = ids.get(result.id.as_str()).to_owned();
    let output = if result.files.is_empty() {
        Output::Text(&result.output)
    } else {
        let said = Content::InputText { text: result.output.as_str().into() };
        Output::Parts(std::iter::once(said).chain(result.files.iter().map(file)).collect())
    };
    Item::Typed(Typed::FunctionCallOutput { call_id, output })
}

fn assistant<'a>(parts: &'a [AssistantContent], vendor: &str, stores: bool, ids: &Ids<'_>, items: &mut Vec<Item<'a>>) {
    // Thinking belongs to what follows it: without that the vendor refuses it.
    let says = |part: &AssistantContent| !matches!(part, AssistantContent::Reasoning { .. });
    let last = parts.iter().rposition(says).map_or(0, |at| at + 1);
    let mut parts = parts.iter().take(last).peekable();
    while let Some(part) = parts.next() {
        match part {
            AssistantContent::Text { text, metadata } => items.push(Item::Assistant {
                role: "assistant",
                content: vec![Content::OutputText { text }],
                phase: kept(metadata.as_ref(), vendor, "phase"),
            }),
            AssistantContent::Call { id, tool, input, .. } => {
                let arguments = if input.is_object() { input.to_string() } else { "{}".into() };
                let call_id = ids.get(id.as_str()).to_owned();
                items.push(Item::Typed(Typed::FunctionCall { call_id, name: tool_name(tool), arguments }));
            }
            AssistantContent::Reasoning { text, metadata } => {
                let (id, mut encrypted) = thought(metadata.as_ref(), vendor);
                let mut summary: Vec<Summary<'a>> = summarised(text);
                // Parts of one item have its id.
                while let Some(AssistantContent::Reasoning { text, metadata }) = parts.peek() {
                    let (other, more) = thought(metadata.as_ref(), vendor);
                    if id.is_none() || other != id {
                        break;
                    }
                    encrypted = encrypted.or(more);
                    summary.extend(summarised(text));
                    parts.next();
                }
                // The vendor reads its own thoughts only: encrypted ones, or those it kept.
                if encrypted.is_some() || stores && id.is_some() {
                    let id = id.filter(|_| stores);
                    items.push(Item::Typed(Typed::Reasoning { id, summary, encrypted_content: encrypted }));
                }
            }
        }
    }
}

fn summarised(text: &str) -> Vec<Summary<'_>> {
    if text.is_empty() { Vec::new() } else { vec![Summary::SummaryText { text }] }
}

/// Returns the id and the encrypted content of thinking.
fn thought<'a>(metadata: Option<&'a JsonMap>, vendor: &str) -> (Option<&'a str>, Option<&'a str>) {
    (kept(metadata, vendor, "itemId"), kept(metadata, vendor, "reasoningEncryptedContent"))
}

fn kept<'a>(metadata: Option<&'a JsonMap>, vendor: &str, name: &str) -> Option<&'a str> {
    metadata?.get(vendor)?.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}
