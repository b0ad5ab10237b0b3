mod answers;
mod network;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::CallId;
use protocol::model::ModelEvent;
use serde_json::{Value, json};

use super::Decoder;
use crate::{IdSource, ProviderError};

/// Ids `made-0`, `made-1`…
fn ids() -> IdSource {
    let count = AtomicU32::new(0);
    Arc::new(move || CallId::new(format!("made-{}", count.fetch_add(1, Ordering::Relaxed))))
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    json!({ "id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    .to_string()
}

fn text(text: &str) -> String {
    chunk(json!({ "content": text }), None)
}

/// A piece of the answer with pieces of calls.
fn calls(entries: &[Value]) -> String {
    chunk(json!({ "tool_calls": entries }), None)
}

/// A piece of a call; what is `None` is left out.
fn entry(index: Option<u32>, id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> Value {
    let mut entry = json!({ "function": {} });
    if let Some(index) = index {
        entry["index"] = index.into();
    }
    if let Some(id) = id {
        entry["id"] = id.into();
    }
    if let Some(name) = name {
        entry["type"] = "function".into();
        entry["function"]["name"] = name.into();
    }
    if let Some(arguments) = arguments {
        entry["function"]["arguments"] = arguments.into();
    }
    entry
}

fn finish(reason: &str) -> String {
    chunk(json!({}), Some(reason))
}

const DONE: &str = "[DONE]";

/// Decodes the data of these events and a clean end after them: what was said, and the error if there was one.
fn decode<S: AsRef<str>>(events: &[S]) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let mut decoder = Decoder::new(ids());
    let mut all = Vec::new();
    for event in events {
        match decoder.feed(event.as_ref()) {
            Ok(said) => all.extend(said),
            Err(error) => return (all, Some(error)),
        }
    }
    match decoder.end(true) {
        Ok(said) => all.extend(said),
        Err(error) => return (all, Some(error)),
    }
    (all, None)
}

/// Returns the events in short: `+text`, `call a read {"p":1}`, `finish stop`…
fn short(events: &[ModelEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            ModelEvent::TextStart => "text".into(),
            ModelEvent::TextDelta(text) => format!("+{text}"),
            ModelEvent::TextEnd => "text end".into(),
            ModelEvent::ReasoningStart => "thinking".into(),
            ModelEvent::ReasoningDelta(text) => format!("+{text}"),
            ModelEvent::ReasoningEnd { .. } => "thinking end".into(),
            ModelEvent::CallStart { id, tool } => format!("start {id} {tool}"),
            ModelEvent::Call { id, tool, input, .. } => format!("call {id} {tool} {}", Value::from(input.clone())),
            ModelEvent::CallBroken { id, tool, raw, .. } => format!("broken {id} {tool} {raw}"),
            ModelEvent::Finish { reason, .. } => format!("finish {}", reason.as_str()),
        })
        .collect()
}

/// Returns the whole answer in short; fails on an error.
fn whole<S: AsRef<str>>(events: &[S]) -> Vec<String> {
    let (events, error) = decode(events);
    assert!(error.is_none(), "{error:?} after {:?}", short(&events));
    short(&events)
}
