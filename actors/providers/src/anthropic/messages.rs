//! The conversation as the vendor's messages: user and assistant in turn, the user first and last, results directly
//! behind their calls, and before anything else the user says.

use std::borrow::Cow;

use protocol::JsonMap;
use protocol::model::{AssistantContent, File, ModelMessage, ModelRequest, ToolResult, UserContent};
use serde_json::{Value, json};

use super::cache::mark;
use super::wire::{Block, Content, Kind, Message, Role, Source};
use crate::media::{self, ATTACHED, Media};
use crate::names::{IdRule, Ids, tool_name};

/// Under which name data is kept with parts.
pub(crate) const VENDOR: &str = "anthropic";
/// Stands first where the history begins with the model.
const BEFORE: &str = "(The beginning of this conversation was left out.)";
/// Stands last where the history ends with the model: newer ones refuse to go on with their own words.
const AFTER: &str = "Go on.";
/// Stands for a message that is blank: the vendor refuses blank text.
pub(crate) const BLANK: &str = "(blank)";

/// Returns the messages. `vendor`: under which name signatures are kept; `sends_thinking`: that goes back; `marks`:
/// their ends are marked for the cache.
pub(crate) fn messages<'a>(
    request: &'a ModelRequest,
    vendor: &str,
    sends_thinking: bool,
    marks: bool,
) -> Vec<Message<'a>> {
    let ids = Ids::new(&request.messages, IdRule::Word(64));
    let newest = request.messages.len().saturating_sub(2);
    let mut all: Vec<Message<'_>> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        let (role, mut content) = match message {
            ModelMessage::User(parts) => (Role::User, user(parts)),
            ModelMessage::Assistant(parts) => (Role::Assistant, assistant(parts, &ids, vendor, sends_thinking)),
            ModelMessage::Tool(list) => (Role::User, results(list, &ids)),
        };
        if marks && at >= newest {
            mark(&mut content);
        }
        add(&mut all, role, content);
    }
    if all.last().is_none_or(|last| last.role == Role::Assistant) {
        add(&mut all, Role::User, vec![text(AFTER)]);
    }
    all
}

/// Adds a message, or its content to the last one of the same side.
fn add<'a>(all: &mut Vec<Message<'a>>, role: Role, content: Vec<Block<'a>>) {
    if content.is_empty() {
        return;
    }
    match all.last_mut() {
        Some(last) if last.role == role => {
            last.content.extend(content);
            calls_last(&mut last.content);
        }
        before => {
            if before.is_none() && role == Role::Assistant {
                all.push(Message { role: Role::User, content: vec![text(BEFORE)] });
            }
            all.push(Message { role, content });
        }
    }
}

/// Puts calls behind all else of a message: the results follow them directly.
fn calls_last(content: &mut [Block<'_>]) {
    content.sort_by_key(|block| matches!(block.kind, Kind::ToolUse { .. }));
}

fn plain(kind: Kind<'_>) -> Block<'_> {
    Block { kind, cache_control: None }
}

fn text<'a>(text: impl Into<Cow<'a, str>>) -> Block<'a> {
    plain(Kind::Text { text: text.into() })
}

fn user(parts: &[UserContent]) -> Vec<Block<'_>> {
    let mut content: Vec<Block<'_>> = parts
        .iter()
        .filter_map(|part| match part {
            UserContent::Text(blank) if blank.trim().is_empty() => None,
            UserContent::Text(said) => Some(text(said.as_str())),
            UserContent::File(sent) => Some(plain(file(sent))),
        })
        .collect();
    if content.is_empty() {
        content.push(text(BLANK));
    }
    content
}

/// A file as a picture, a document, or a note that it is missing.
fn file(file: &File) -> Kind<'_> {
    let media = Media::of(file);
    let source = match (media.base64(), media.remote()) {
        (Some(data), _) => Some(Source::Base64 { media_type: media.mime, data }),
        (None, Some(url)) => Some(Source::Url { url }),
        (None, None) => None,
    };
    let is_known = matches!(media.mime, "image/jpeg" | "image/png" | "image/gif" | "image/webp");
    match (media.kind, source) {
        (media::Kind::Image, Some(source)) if is_known => Kind::Image { source },
        (media::Kind::Pdf, Some(source)) => Kind::Document { source, title: media.filename },
        (media::Kind::Text, _) => match media.text().filter(|text| !text.trim().is_empty()) {
            Some(data) => {
                Kind::Document { source: Source::Text { media_type: "text/plain", data }, title: media.filename }
            }
            None => Kind::Text { text: media.note().into() }.or_blank(),
        },
        _ => Kind::Text { text: media.note().into() }.or_blank(),
    }
}

impl Kind<'_> {
    /// Returns it, or a word for blank text.
    fn or_blank(self) -> Self {
        match self {
            Self::Text { text } if text.trim().is_empty() => Self::Text { text: BLANK.into() },
            other => other,
        }
    }
}

/// Results first, then the files the vendor takes in none: those of errors.
fn results<'a>(results: &'a [ToolResult], ids: &Ids<'_>) -> Vec<Block<'a>> {
    let mut content: Vec<Block<'a>> = results
        .iter()
        .map(|result| {
            let files = result.files.iter().filter(|_| !result.is_error).map(file);
            let said =
                Some(Kind::Text { text: result.output.as_str().into() }).filter(|_| !result.output.trim().is_empty());
            let content = match result.files.is_empty() || result.is_error {
                // The vendor refuses an error that says nothing.
                true if result.is_error && result.output.trim().is_empty() => Content::Text(BLANK),
                true => Content::Text(&result.output),
                false => Content::Blocks(said.into_iter().chain(files).collect()),
            };
            let tool_use_id = ids.get(result.id.as_str()).to_owned();
            plain(Kind::ToolResult { tool_use_id, content, is_error: result.is_error })
        })
        .collect();
    let of_errors: Vec<&File> =
        results.iter().filter(|result| result.is_error).flat_map(|result| &result.files).collect();
    if !of_errors.is_empty() {
        content.push(text(ATTACHED));
        content.extend(of_errors.into_iter().map(|sent| plain(file(sent))));
    }
    content
}

fn assistant<'a>(parts: &'a [AssistantContent], ids: &Ids<'_>, vendor: &str, sends_thinking: bool) -> Vec<Block<'a>> {
    let mut content: Vec<Block<'a>> = parts
        .iter()
        .filter_map(|part| match part {
            AssistantContent::Text { text: said, .. } => (!said.trim().is_empty()).then(|| text(said.as_str())),
            AssistantContent::Reasoning { text, metadata } => match signed(metadata.as_ref(), vendor)? {
                _ if !sends_thinking => None,
                Signed::Thinking(signature) => Some(plain(Kind::Thinking { thinking: text, signature })),
                Signed::Redacted(data) => Some(plain(Kind::RedactedThinking { data })),
            },
            AssistantContent::Call { id, tool, input, .. } => Some(plain(Kind::ToolUse {
                id: ids.get(id.as_str()).to_owned(),
                name: tool_name(tool),
                input: if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(json!({})) },
            })),
        })
        .collect();
    calls_last(&mut content);
    // Thinking may not end a message, nor be all of one.
    while content.pop_if(|block| matches!(block.kind, Kind::Thinking { .. } | Kind::RedactedThinking { .. })).is_some()
    {
    }
    content
}

/// What makes thinking valid.
pub(super) enum Signed<'a> {
    Thinking(&'a str),
    Redacted(&'a str),
}

/// Returns the signature of thinking, or the data that stands for it; thinking without either is refused.
pub(super) fn signed<'a>(metadata: Option<&'a JsonMap>, vendor: &str) -> Option<Signed<'a>> {
    let data = metadata?.get(vendor)?;
    let text = |name: &str| data.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    text("signature").map(Signed::Thinking).or_else(|| text("redactedData").map(Signed::Redacted))
}
