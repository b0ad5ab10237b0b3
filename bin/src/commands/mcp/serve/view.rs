//! What agents are told of a session: little, bounded, and all that has to be decided. Pure.

use std::sync::Arc;

use client::describe;
use protocol::message::{AssistantMessage, MessageWithParts};
use protocol::part::ToolPart;
use protocol::question::QuestionRequest;
use protocol::{Message, Part, PartKind, PermissionRequest, Session, SessionStatus, ToolState};
use serde_json::{Map, Value, json};

/// Most bytes of an answer.
const ANSWER: usize = 50_000;
/// Most bytes of any other text: of a message, a tool's output, a diff.
const TEXT: usize = 4_000;

/// How a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing runs.
    Idle,
    /// A turn runs.
    Working,
    /// A turn waits for an answer.
    Waiting,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
        }
    }
}

/// What is known of a session at one moment.
pub struct Known<'a> {
    /// The session.
    pub session: &'a Session,
    /// What it does; none: nothing.
    pub status: Option<&'a SessionStatus>,
    /// Its newest messages, oldest first.
    pub messages: &'a [MessageWithParts],
    /// What it and its subagents ask leave for.
    pub permissions: &'a [PermissionRequest],
    /// What it and its subagents ask.
    pub questions: &'a [QuestionRequest],
}

impl Known<'_> {
    /// Returns how the session is.
    pub fn state(&self) -> State {
        match self.status {
            _ if !self.permissions.is_empty() || !self.questions.is_empty() => State::Waiting,
            None | Some(SessionStatus::Idle { .. }) => State::Idle,
            Some(_) => State::Working,
        }
    }

    /// Returns what an agent is told: the state, what waits for it, and what the newest prompt was answered.
    pub fn told(&self) -> Value {
        let state = self.state();
        let mut told = Map::new();
        let mut put = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
        put("session_id", json!(self.session.id));
        put("title", json!(self.session.title));
        put("state", json!(state.name()));
        match self.status {
            Some(SessionStatus::Retry { message, .. }) => {
                put("note", json!(format!("a model request failed and is tried again: {message}")));
            }
            Some(SessionStatus::Idle { failed: Some(why) }) => put("error", json!(why)),
            _ => {}
        }
        let answers = answers(self.messages);
        if let Some(text) = answers.iter().rev().map(|(_, parts)| text(parts)).find(|text| !text.is_empty()) {
            put("answer", json!(cut(&text, ANSWER)));
        }
        if let Some((newest, parts)) = answers.last() {
            if let Some(error) = &newest.error {
                put("error", json!(describe::error(error)));
            }
            let doing: Vec<String> = calls(parts).filter(|call| call.state.is_open()).map(describe::tool).collect();
            if state != State::Idle && !doing.is_empty() {
                put("doing", json!(doing));
            }
        } else if state == State::Idle && !self.messages.is_empty() {
            put("note", json!("the newest prompt has no answer"));
        }
        if !self.permissions.is_empty() {
            put("permissions", self.permissions.iter().map(permission).collect());
        }
        if !self.questions.is_empty() {
            let question = |asked: &QuestionRequest| json!({ "question_id": asked.id, "questions": asked.questions });
            put("questions", self.questions.iter().map(question).collect());
        }
        Value::Object(told)
    }
}

/// Returns messages as an agent reads them.
pub fn messages(messages: &[MessageWithParts]) -> Value {
    messages.iter().map(message).collect()
}

/// Returns a session as a line of a list.
pub fn listed(session: &Session, status: Option<&SessionStatus>) -> Value {
    let state = match status {
        None | Some(SessionStatus::Idle { .. }) => State::Idle,
        Some(_) => State::Working,
    };
    json!({
        "session_id": session.id, "title": session.title, "directory": session.directory,
        "state": state.name(), "updated_ms": session.time.updated,
    })
}

/// The answers to the newest prompt, oldest first: a message a step.
fn answers(messages: &[MessageWithParts]) -> Vec<(&AssistantMessage, &[Arc<Part>])> {
    let is_prompt = |message: &MessageWithParts| {
        let is_own = |part: &Arc<Part>| !matches!(part.kind, PartKind::Compaction { .. });
        message.info.as_user().is_some() && message.parts.iter().any(is_own)
    };
    let after = messages.iter().rposition(is_prompt).map_or(0, |at| at + 1);
    let answer = |message: &'_ MessageWithParts| message.info.as_assistant().is_some_and(|answer| !answer.summary);
    let messages = messages.iter().skip(after).filter(|message| answer(message));
    messages.filter_map(|message| Some((message.info.as_assistant()?, message.parts.as_slice()))).collect()
}

fn text(parts: &[Arc<Part>]) -> String {
    let text = |part: &Arc<Part>| match &part.kind {
        PartKind::Text(text) if !text.ignored && !text.synthetic => Some(text.text.trim().to_owned()),
        _ => None,
    };
    let texts: Vec<String> = parts.iter().filter_map(text).filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

fn calls(parts: &[Arc<Part>]) -> impl Iterator<Item = &ToolPart> {
    parts.iter().filter_map(|part| match &part.kind {
        PartKind::Tool(tool) => Some(tool),
        _ => None,
    })
}

fn message(message: &MessageWithParts) -> Value {
    let mut told = Map::new();
    let mut put = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
    let (role, limit) = match &*message.info {
        Message::User(_) => ("user", TEXT),
        Message::Assistant(_) => ("assistant", ANSWER),
    };
    put("role", json!(role));
    put("time_ms", json!(message.info.created()));
    let said = text(&message.parts);
    if !said.is_empty() {
        put("text", json!(cut(&said, limit)));
    }
    let called: Vec<Value> = calls(&message.parts).map(call).collect();
    if !called.is_empty() {
        put("calls", json!(called));
    }
    if let Some(error) = message.info.as_assistant().and_then(|answer| answer.error.as_ref()) {
        put("error", json!(describe::error(error)));
    }
    Value::Object(told)
}

fn call(part: &ToolPart) -> Value {
    let does = describe::tool(part);
    match &part.state {
        ToolState::Pending { .. } => json!({ "does": does, "status": "pending" }),
        ToolState::Running { .. } => json!({ "does": does, "status": "running" }),
        ToolState::Completed { output, .. } => {
            json!({ "does": does, "status": "completed", "output": cut(output, TEXT) })
        }
        ToolState::Error { error, .. } => json!({ "does": does, "status": "error", "error": cut(error, TEXT) }),
    }
}

fn permission(request: &PermissionRequest) -> Value {
    let details: Map<String, Value> =
        request.metadata.iter().map(|(key, value)| (key.clone(), bounded(value))).collect();
    json!({
        "permission_id": request.id, "permission": request.permission, "patterns": request.patterns,
        "always_allows": request.always, "details": details,
    })
}

/// Returns a value whose texts are no longer than agents need to decide.
fn bounded(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(cut(text, TEXT)),
        // Diffs of many files: what they are stands in the patterns.
        Value::Array(_) | Value::Object(_) if value.to_string().len() > TEXT => json!(cut(&value.to_string(), TEXT)),
        other => other.clone(),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.get(..text.floor_char_boundary(most)) {
        Some(head) if head.len() < text.len() => {
            format!("{head}\n[cut here: {} bytes in all]", text.len())
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
