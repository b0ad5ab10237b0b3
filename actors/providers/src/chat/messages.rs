//! The conversation as the vendor's messages.
//!
//! Source: OpenCode 1.18 on the wire: one system message, one text as a plain string, the model's text and calls in one
//! message, its thinking as `reasoning_content`.

use std::borrow::Cow;

use protocol::JsonMap;
use protocol::model::{AssistantContent, File, ModelMessage, ModelRequest, ToolResult, UserContent};
use serde_json::{Value, json};

use super::dialect::{Cache, Dialect, Documents, Order, Thinking};
use super::vendor_data;
use super::wire::{Audio, Content, ContentPart, FileData, FunctionCall, ImageUrl, Message, PartKind, Said, ToolCall};
use crate::media::{ATTACHED, Kind, Media};
use crate::names::{Ids, tool_name};

/// Stands between results and the person where a server lets none follow the other.
const BETWEEN: &str = "I have read the results.";
/// Stands first where a server wants the person first.
const BEFORE: &str = "(The beginning of this conversation was left out.)";

/// Returns the messages, system texts first.
pub(super) fn messages<'a>(request: &'a ModelRequest, dialect: &Dialect) -> Vec<Message<'a>> {
    let ids = Ids::new(&request.messages, dialect.ids);
    let write = Write { dialect, ids: &ids, field: request.reasoning.as_ref().and_then(|r| r.field.as_deref()) };
    let system: Vec<&str> = request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let system =
        (!system.is_empty()).then(|| Said::System { content: Content::Text(system.join("\n").into()) }).map(plain);
    let mut messages: Vec<Message<'a>> = system.into_iter().collect();
    messages.iter_mut().for_each(|message| mark(message, dialect.cache));
    // The vendor's cache ends behind the last two.
    let newest = request.messages.len().saturating_sub(2);
    for (at, message) in request.messages.iter().enumerate() {
        let mut written = write.message(message);
        if at >= newest
            && let Some(last) = written.last_mut()
        {
            mark(last, dialect.cache);
        }
        messages.extend(written);
    }
    order(messages, dialect.order)
}

struct Write<'w> {
    dialect: &'w Dialect,
    ids: &'w Ids<'w>,
    /// The field for thinking that the model's config names.
    field: Option<&'w str>,
}

impl Write<'_> {
    fn message<'a>(&self, message: &'a ModelMessage) -> Vec<Message<'a>> {
        match message {
            ModelMessage::User(parts) => self.user(parts).into_iter().collect(),
            ModelMessage::Assistant(parts) => self.assistant(parts).into_iter().collect(),
            ModelMessage::Tool(results) => self.results(results),
        }
    }

    fn user<'a>(&self, parts: &'a [UserContent]) -> Option<Message<'a>> {
        let content = match parts {
            [] => return None,
            [UserContent::Text(text)] => Content::Text(text.into()),
            parts => Content::Parts(
                parts
                    .iter()
                    .map(|part| match part {
                        UserContent::Text(text) => PartKind::Text { text: text.into() },
                        UserContent::File(file) => self.file(file),
                    })
                    .map(unmarked)
                    .collect(),
            ),
        };
        Some(plain(Said::User { content }))
    }

    fn results<'a>(&self, results: &'a [ToolResult]) -> Vec<Message<'a>> {
        let tools = results.iter().map(|result| {
            let tool_call_id = Cow::Owned(self.ids.get(result.id.as_str()).to_owned());
            plain(Said::Tool { tool_call_id, content: &result.output })
        });
        let files: Vec<PartKind<'a>> =
            results.iter().flat_map(|result| &result.files).map(|file| self.file(file)).collect();
        let attached = (!files.is_empty()).then(|| {
            let text = PartKind::Text { text: ATTACHED.into() };
            let parts = std::iter::once(text).chain(files).map(unmarked).collect();
            plain(Said::User { content: Content::Parts(parts) })
        });
        tools.chain(attached).collect()
    }

    fn file<'a>(&self, file: &'a File) -> PartKind<'a> {
        let media = Media::of(file);
        let note = || PartKind::Text { text: media.note().into() };
        if media.base64().is_none() && media.remote().is_none() {
            return note();
        }
        let format = match media.mime {
            "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
            "audio/mp3" | "audio/mpeg" => Some("mp3"),
            _ => None,
        };
        match (media.kind, self.dialect.documents) {
            (Kind::Image, _) => PartKind::ImageUrl { image_url: ImageUrl { url: media.url } },
            (Kind::Audio, _) if self.dialect.sound && format.is_some() => match (media.base64(), format) {
                (Some(data), Some(format)) => PartKind::InputAudio { input_audio: Audio { data, format } },
                _ => note(),
            },
            (Kind::Text, _) if media.text().is_some() => note(),
            (Kind::Pdf, Documents::Url) => PartKind::DocumentUrl { document_url: media.url },
            (_, Documents::File) => PartKind::File { file: FileData { filename: media.name(), file_data: media.url } },
            _ => note(),
        }
    }

    /// Returns none where only thinking is left: a message without content is refused by many servers.
    fn assistant<'a>(&self, parts: &'a [AssistantContent]) -> Option<Message<'a>> {
        let (mut text, mut thinking, mut tool_calls) = (String::new(), String::new(), Vec::new());
        for part in parts {
            match part {
                AssistantContent::Text { text: more, .. } => text.push_str(more),
                AssistantContent::Reasoning { text: more, .. } => thinking.push_str(more),
                AssistantContent::Call { id, tool, input, metadata } => tool_calls.push(ToolCall {
                    id: Cow::Owned(self.ids.get(id.as_str()).to_owned()),
                    kind: "function",
                    function: FunctionCall { name: tool_name(tool), arguments: arguments(input) },
                    extra_content: metadata.as_ref().and_then(|metadata| metadata.get("extra_content")),
                }),
            }
        }
        if text.is_empty() && tool_calls.is_empty() {
            return None;
        }
        let more = self.thinking(parts, &thinking);
        let content = match self.dialect.thinking {
            Thinking::Parts if !thinking.is_empty() => {
                let thought = PartKind::Thinking { thinking: vec![PartKind::Text { text: thinking.into() }] };
                let text = (!text.is_empty()).then(|| PartKind::Text { text: text.into() });
                Content::Parts(std::iter::once(thought).chain(text).map(unmarked).collect())
            }
            _ => Content::Text(text.into()),
        };
        Some(Message { said: Said::Assistant { content, tool_calls }, more })
    }

    /// Returns the fields that hold the thinking.
    fn thinking(&self, parts: &[AssistantContent], thinking: &str) -> JsonMap {
        let mut more = JsonMap::new();
        let mut put = |name: &str, value: Value| drop(more.insert(name.to_owned(), value));
        match (self.dialect.thinking, self.field) {
            (Thinking::Details, _) => {
                let details = vendor_data::details(parts);
                if !details.is_empty() {
                    put("reasoning_details", json!(details));
                } else if !thinking.is_empty() {
                    put("reasoning", json!(thinking));
                }
            }
            (Thinking::Opaque, _) => {
                if !thinking.is_empty() {
                    put("reasoning_text", json!(thinking));
                }
                if let Some(opaque) = vendor_data::opaque(parts) {
                    put("reasoning_opaque", json!(opaque));
                }
            }
            (Thinking::Parts | Thinking::Not, None) => {}
            // A field that was named is there even if it is empty: some servers want to see that.
            (_, Some(field)) => put(field, json!(thinking)),
            (Thinking::Field(field), None) => {
                if self.dialect.always_thinks || !thinking.is_empty() {
                    put(field, json!(thinking));
                }
            }
        }
        more
    }
}

fn plain(said: Said<'_>) -> Message<'_> {
    Message { said, more: JsonMap::new() }
}

fn unmarked(kind: PartKind<'_>) -> ContentPart<'_> {
    ContentPart { kind, cache_control: None }
}

fn arguments(input: &Value) -> String {
    if input.is_object() { input.to_string() } else { "{}".into() }
}

/// Marks a message to be kept in the vendor's cache.
fn mark(message: &mut Message<'_>, cache: Cache) {
    let ephemeral = json!({ "type": "ephemeral" });
    match (cache, &mut message.said) {
        (Cache::Not, _) => {}
        (Cache::Part, Said::User { content } | Said::System { content }) => {
            if let Content::Text(text) = content {
                *content = Content::Parts(vec![unmarked(PartKind::Text { text: std::mem::take(text) })]);
            }
            if let Content::Parts(parts) = content
                && let Some(part) = parts.iter_mut().rfind(|part| matches!(part.kind, PartKind::Text { .. }))
            {
                part.cache_control = Some(ephemeral);
            }
        }
        (Cache::Part, _) => drop(message.more.insert("cache_control".into(), ephemeral)),
        (Cache::Message(name), _) => drop(message.more.insert(name.into(), ephemeral)),
    }
}

/// Brings messages into an order the server takes.
fn order(messages: Vec<Message<'_>>, order: Order) -> Vec<Message<'_>> {
    if order == Order::Free {
        return messages;
    }
    let mut ordered: Vec<Message<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        let is_first = ordered.last().is_none_or(|last| matches!(last.said, Said::System { .. }));
        match (ordered.last_mut(), message) {
            (
                Some(Message { said: Said::User { content: before }, more: known }),
                Message { said: Said::User { content }, more },
            ) => {
                join(before, content);
                known.extend(more);
            }
            (
                Some(Message { said: Said::Assistant { content: before, tool_calls }, .. }),
                Message { said: Said::Assistant { content, tool_calls: calls }, .. },
            ) if order == Order::Turns => {
                join(before, content);
                tool_calls.extend(calls);
            }
            (Some(Message { said: Said::Tool { .. }, .. }), message @ Message { said: Said::User { .. }, .. })
                if order == Order::Mistral =>
            {
                let between = Said::Assistant { content: Content::Text(BETWEEN.into()), tool_calls: Vec::new() };
                ordered.extend([plain(between), message]);
            }
            (_, message) => {
                if order == Order::Turns && is_first && matches!(message.said, Said::Assistant { .. }) {
                    ordered.push(plain(Said::User { content: Content::Text(BEFORE.into()) }));
                }
                ordered.push(message);
            }
        }
    }
    ordered
}

fn join<'a>(before: &mut Content<'a>, after: Content<'a>) {
    match (before, after) {
        (Content::Text(text), Content::Text(more)) if text.is_empty() => *text = more,
        (Content::Text(text), Content::Text(more)) => {
            if !more.is_empty() {
                text.to_mut().push_str(&format!("\n\n{more}"));
            }
        }
        (before, after) => {
            let parts = |content| match content {
                Content::Parts(parts) => parts,
                Content::Text(text) if text.is_empty() => Vec::new(),
                Content::Text(text) => vec![unmarked(PartKind::Text { text })],
            };
            let mut all = parts(std::mem::replace(before, Content::Parts(Vec::new())));
            all.extend(parts(after));
            *before = Content::Parts(all);
        }
    }
}
