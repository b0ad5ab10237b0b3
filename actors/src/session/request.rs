//! Stored history to a request that is always legal, however broken the history is. Pure.
//!
//! - Each call has exactly one result, directly after its message, in order; a call without a result gets one that
//!   says that it was interrupted.
//! - Nothing is empty; arguments are JSON objects; call ids are unique.
//! - Thinking goes back only to the model it came from.
//! - After a compaction its summary stands for what came before it.
//! - The request never ends in a message of the model: one that was interrupted is left out.

use std::collections::{HashMap, HashSet};

use protocol::message::UserMessage;
use protocol::model::{AssistantContent, File, ModelMessage, ToolResult, UserContent};
use protocol::part::{FilePart, ToolPart};
use protocol::provider::Model;
use protocol::{AssistantMessage, CallId, Message, MessageId, Part, PartKind, SessionError, ToolState};
use serde_json::Value;

use super::compaction::view::View;
use super::history::Entry;

/// What the model reads where a call has no result.
const INTERRUPTED: &str = "[the call was interrupted before it had a result; its effects are unknown]";
/// What the model reads where a result is empty.
const NO_OUTPUT: &str = "(no output)";
/// What stands for a result that was taken out for want of room.
const CLEARED: &str = "[the output of this call was cleared to make room; call again if it is needed]";
/// What the model reads before files that a tool gave.
const ATTACHED: &str = "Files from the tool results above:";
/// What stands for the history that a summary follows.
const SO_FAR: &str = "Tell in notes what happened in this conversation so far.";
/// What stands between a summary and an answer whose beginning is in it.
const FROM_HERE: &str = "Go on from where these notes end.";
/// What stands for a prompt that was given to a subagent.
const DELEGATED: &str = "The person gave work to a subagent; the call that follows is theirs.";

/// What decides how history is told to a model.
pub struct Target<'a> {
    /// The model the request goes to.
    pub model: &'a Model,
    /// User messages that are stored and not yet to be answered.
    pub unseen: &'a HashSet<MessageId>,
    /// Appended to the last user message, for this request only.
    pub reminder: Option<&'a str>,
}

/// Returns the conversation of a request.
pub fn compile(history: &[Entry], target: &Target<'_>) -> Vec<ModelMessage> {
    let mut messages = Vec::new();
    let mut used = HashSet::new();
    let view = View::of(history);
    if let Some((request, summary)) = view.summary {
        let mut content = vec![UserContent::Text(SO_FAR.to_owned())];
        content.extend(request.parts.iter().filter_map(|part| user_content(part, target.model)));
        messages.push(ModelMessage::User(content));
        messages.push(ModelMessage::Assistant(vec![AssistantContent::Text { text: summary.text(), metadata: None }]));
        if view.tail.first().is_some_and(|entry| entry.info.as_user().is_none()) {
            messages.push(ModelMessage::User(vec![UserContent::Text(FROM_HERE.to_owned())]));
        }
    }
    let seen: Vec<&Entry> = view.tail.into_iter().chain(view.since).collect();
    for entry in conversation(&seen, target.unseen) {
        match &*entry.info {
            Message::User(user) => push_user(&mut messages, user, &entry.parts, target),
            Message::Assistant(assistant) => push_assistant(&mut messages, assistant, &entry.parts, target, &mut used),
        }
    }
    while matches!(messages.last(), Some(ModelMessage::Assistant(_))) {
        messages.pop();
    }
    if let Some(reminder) = target.reminder
        && let Some(ModelMessage::User(content)) =
            messages.iter_mut().rev().find(|message| matches!(message, ModelMessage::User(_)))
    {
        content.push(UserContent::Text(reminder.to_owned()));
    }
    messages
}

/// The messages in the order of the talk: an answer comes after the prompt it answers and before the next, also when
/// the next prompt was stored while the answer was being written.
fn conversation<'a>(history: &[&'a Entry], unseen: &HashSet<MessageId>) -> Vec<&'a Entry> {
    let places: HashMap<&MessageId, usize> =
        history.iter().enumerate().map(|(place, entry)| (entry.info.id(), place)).collect();
    let mut told: Vec<(usize, usize, &Entry)> = history
        .iter()
        .enumerate()
        .filter(|(_, entry)| !unseen.contains(entry.info.id()))
        .map(|(own, &entry)| match &*entry.info {
            Message::User(_) => (own, own, entry),
            // An answer whose prompt is gone, or that comes before it, stays where it is.
            Message::Assistant(m) => (places.get(&m.parent_id).map_or(own, |place| (*place).min(own)), own, entry),
        })
        .collect();
    told.sort_by_key(|(place, own, _)| (*place, *own));
    told.into_iter().map(|(.., entry)| entry).collect()
}

fn push_user(messages: &mut Vec<ModelMessage>, _: &UserMessage, parts: &[std::sync::Arc<Part>], target: &Target<'_>) {
    let content: Vec<UserContent> = parts.iter().filter_map(|part| user_content(part, target.model)).collect();
    if !content.is_empty() {
        messages.push(ModelMessage::User(content));
    }
}

fn user_content(part: &Part, model: &Model) -> Option<UserContent> {
    match &part.kind {
        PartKind::Text(text) if !text.ignored && !text.text.is_empty() => Some(UserContent::Text(text.text.clone())),
        PartKind::File(file) => file_content(file, model),
        PartKind::Subtask(_) => Some(UserContent::Text(DELEGATED.to_owned())),
        _ => None,
    }
}

/// A file as the model takes it. Text files are told by the synthetic text beside them.
fn file_content(file: &FilePart, model: &Model) -> Option<UserContent> {
    let reads = &model.capabilities.input;
    let (kind, able) = match file.mime.split_once('/') {
        _ if file.mime == "application/pdf" => ("PDF files", reads.pdf),
        Some(("image", _)) => ("images", reads.image),
        Some(("audio", _)) => ("audio", reads.audio),
        Some(("video", _)) => ("video", reads.video),
        _ => return None,
    };
    if !able {
        let name = file.filename.as_deref().unwrap_or("a file");
        return Some(UserContent::Text(format!(
            "ERROR: {name:?} can't be shown: this model reads no {kind}. Tell the person."
        )));
    }
    file.url.starts_with("data:").then(|| {
        UserContent::File(File { mime: file.mime.clone(), filename: file.filename.clone(), url: file.url.clone() })
    })
}

fn push_assistant(
    messages: &mut Vec<ModelMessage>,
    assistant: &AssistantMessage,
    parts: &[std::sync::Arc<Part>],
    target: &Target<'_>,
    used: &mut HashSet<CallId>,
) {
    // A step that failed says nothing the model would say again; one that was stopped did say what it said.
    if assistant.error.as_ref().is_some_and(|e| !matches!(e, SessionError::MessageAbortedError { .. }))
        && !parts.iter().any(|part| part.as_tool().is_some())
    {
        return;
    }
    let is_own = assistant.provider_id == target.model.provider_id && assistant.model_id == target.model.id;
    let mut content = Vec::new();
    let mut results = Vec::new();
    let mut files = Vec::new();
    for part in parts {
        match &part.kind {
            PartKind::Text(text) if !text.text.is_empty() => {
                let metadata = text.metadata.clone().filter(|_| is_own);
                content.push(AssistantContent::Text { text: text.text.clone(), metadata });
            }
            PartKind::Reasoning(thought) if is_own && !(thought.text.is_empty() && thought.metadata.is_none()) => {
                content.push(AssistantContent::Reasoning {
                    text: thought.text.clone(),
                    metadata: thought.metadata.clone(),
                });
            }
            PartKind::Tool(tool) => {
                let id = unique(&tool.call_id, used);
                content.push(AssistantContent::Call {
                    id: id.clone(),
                    tool: tool.tool.clone(),
                    input: object(tool.state.input()),
                    metadata: tool.metadata.clone().filter(|_| is_own),
                });
                results.push(result(id, tool));
                files.extend(attachments(tool).filter_map(|file| file_content(file, target.model)));
            }
            _ => {}
        }
    }
    // Thinking alone is no answer.
    if content.iter().all(|c| matches!(c, AssistantContent::Reasoning { .. })) {
        return;
    }
    messages.push(ModelMessage::Assistant(content));
    if !results.is_empty() {
        messages.push(ModelMessage::Tool(results));
    }
    if !files.is_empty() {
        files.insert(0, UserContent::Text(ATTACHED.to_owned()));
        messages.push(ModelMessage::User(files));
    }
}

fn result(id: CallId, tool: &ToolPart) -> ToolResult {
    let (output, is_error) = match &tool.state {
        ToolState::Completed { time, .. } if time.compacted.is_some() => (CLEARED, false),
        ToolState::Completed { output, .. } => (output.as_str(), false),
        ToolState::Error { error, .. } => (error.as_str(), true),
        ToolState::Pending { .. } | ToolState::Running { .. } => (INTERRUPTED, true),
    };
    let output = if output.is_empty() { NO_OUTPUT } else { output };
    ToolResult { id, tool: tool.tool.clone(), output: output.to_owned(), is_error, files: Vec::new() }
}

fn attachments(tool: &ToolPart) -> impl Iterator<Item = &FilePart> {
    let parts = match &tool.state {
        ToolState::Completed { attachments: Some(parts), time, .. } if time.compacted.is_none() => parts.as_slice(),
        _ => &[],
    };
    parts.iter().filter_map(|part| match &part.kind {
        PartKind::File(file) => Some(file),
        _ => None,
    })
}

/// Vendors demand an object, whatever was stored.
fn object(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { Value::Object(serde_json::Map::new()) }
}

/// A call id that no earlier call of the request has.
fn unique(id: &CallId, used: &mut HashSet<CallId>) -> CallId {
    let base = if id.as_str().is_empty() { "call" } else { id.as_str() };
    let mut candidate = CallId::new(base);
    let mut number = 1;
    while !used.insert(candidate.clone()) {
        number += 1;
        candidate = CallId::new(format!("{base}_{number}"));
    }
    candidate
}

#[cfg(test)]
mod tests;
