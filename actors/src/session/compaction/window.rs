//! How full the model's window is. Pure. Sizes are in tokens, estimated at four bytes each where nobody counted.
//! Source of the limits: OpenCode `session/overflow.ts`, `session/compaction.ts`.

use std::sync::Arc;

use protocol::config::CompactionConfig;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, UserContent};
use protocol::part::{FilePart, PartKind};
use protocol::provider::Model;
use protocol::{Part, ToolState};

use crate::session::history::Entry;

/// What a picture or another file takes, where nobody counted.
const FILE: u64 = 1_600;
/// Bytes of a token.
const BYTES: u64 = 4;
/// What is kept free of a window whose input has a limit of its own.
const RESERVED: u64 = 20_000;

/// Returns how much a request may take, its answer's room left out; none where the window's size is unknown.
pub fn usable(model: &Model, config: &CompactionConfig, max_output: u64) -> Option<u64> {
    let limit = &model.limit;
    if limit.context == 0 {
        return None;
    }
    Some(match limit.input {
        Some(input) => input.saturating_sub(config.reserved.unwrap_or(RESERVED.min(max_output))),
        None => limit.context.saturating_sub(max_output.max(config.reserved.unwrap_or(0))),
    })
}

/// Returns about how much the next request takes: what the last answer's request and answer took, by its vendor's
/// count, and what came after it. `None` where no answer of this model is in sight: the request itself must be
/// looked at.
pub fn next_request(seen: &[&Entry]) -> Option<u64> {
    let counted = |entry: &Entry| entry.info.as_assistant().filter(|m| !m.summary).map(|m| m.tokens.all());
    let at = seen.iter().rposition(|entry| counted(entry).is_some_and(|tokens| tokens > 0))?;
    let (last, after) = (seen.get(at)?, seen.get(at + 1..)?);
    // The answer's own words are counted already, the results of its calls are not.
    let results: u64 = last.parts.iter().map(|part| result_size(part)).sum();
    Some(counted(last)? + results + after.iter().map(|entry| size(entry)).sum::<u64>())
}

/// Returns about how much a message takes.
pub fn size(entry: &Entry) -> u64 {
    entry.parts.iter().map(part_size).sum()
}

fn part_size(part: &Arc<Part>) -> u64 {
    match &part.kind {
        PartKind::Text(text) if !text.ignored => tokens(&text.text),
        PartKind::Reasoning(thought) => tokens(&thought.text),
        PartKind::File(file) => file_size(file),
        PartKind::Subtask(task) => tokens(&task.prompt),
        PartKind::Tool(tool) => json_tokens(tool.state.input()) + result_size(part),
        _ => 0,
    }
}

fn result_size(part: &Part) -> u64 {
    match part.as_tool().map(|tool| &tool.state) {
        Some(ToolState::Completed { time, .. }) if time.compacted.is_some() => 20,
        Some(ToolState::Completed { output, attachments, .. }) => {
            tokens(output) + attachments.iter().flatten().count() as u64 * FILE
        }
        Some(ToolState::Error { error, .. }) => tokens(error),
        _ => 0,
    }
}

/// Text files are told by the text beside them.
fn file_size(file: &FilePart) -> u64 {
    if file.mime.starts_with("text/") { 0 } else { FILE }
}

/// Returns about how many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES)
}

fn json_tokens(value: &serde_json::Value) -> u64 {
    tokens(&value.to_string())
}

/// What fills a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// System prompt and instructions.
    pub system: u64,
    /// Definitions of tools.
    pub tools: u64,
    /// The conversation.
    pub messages: u64,
}

impl Filling {
    /// Looks at a request.
    pub fn of(request: &ModelRequest) -> Self {
        Self {
            system: request.system.iter().map(|text| tokens(text)).sum(),
            tools: request.tools.iter().map(|tool| serde_json::to_string(tool).map_or(0, |t| tokens(&t))).sum(),
            messages: request.messages.iter().map(message).sum(),
        }
    }

    /// Returns all of it.
    pub fn total(self) -> u64 {
        self.system + self.tools + self.messages
    }
}

fn message(message: &ModelMessage) -> u64 {
    match message {
        ModelMessage::User(content) => content.iter().map(said).sum(),
        ModelMessage::Assistant(content) => content
            .iter()
            .map(|content| match content {
                AssistantContent::Text { text, .. } | AssistantContent::Reasoning { text, .. } => tokens(text),
                AssistantContent::Call { input, .. } => json_tokens(input),
            })
            .sum(),
        ModelMessage::Tool(results) => results.iter().map(|result| tokens(&result.output)).sum(),
    }
}

fn said(content: &UserContent) -> u64 {
    match content {
        UserContent::Text(text) => tokens(text),
        UserContent::File { .. } => FILE,
    }
}
