//! Events and shapes for tests.

use protocol::Event;
use serde_json::{Value, json};

/// The session of all samples.
pub const SESSION: &str = "ses_1";

pub fn event(kind: &str, properties: Value) -> Event {
    serde_json::from_value(json!({ "type": kind, "properties": properties })).expect("an event")
}

fn with(mut value: Value, more: Value) -> Value {
    let more = more.as_object().expect("an object").clone();
    value.as_object_mut().expect("an object").extend(more);
    value
}

pub fn user(id: &str, created: u64) -> Event {
    let info = json!({
        "id": id, "sessionID": SESSION, "role": "user", "time": { "created": created }, "agent": "build",
        "model": { "providerID": "mock", "modelID": "mock" },
    });
    event("message.updated", json!({ "sessionID": SESSION, "info": info }))
}

pub fn answer(id: &str, parent: &str, created: u64) -> Event {
    answer_with(id, parent, created, json!({}))
}

pub fn answer_with(id: &str, parent: &str, created: u64, more: Value) -> Event {
    let info = json!({
        "id": id, "sessionID": SESSION, "role": "assistant", "parentID": parent, "time": { "created": created },
        "modelID": "mock", "providerID": "mock", "mode": "build", "agent": "build",
        "path": { "cwd": "/p", "root": "/p" }, "cost": 0.0,
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    event("message.updated", json!({ "sessionID": SESSION, "info": with(info, more) }))
}

pub fn part(id: &str, message: &str, more: Value) -> Event {
    let part = with(json!({ "id": id, "sessionID": SESSION, "messageID": message }), more);
    event("message.part.updated", json!({ "sessionID": SESSION, "part": part, "time": 1 }))
}

pub fn text(id: &str, message: &str, text: &str, is_whole: bool) -> Event {
    let time = if is_whole { json!({ "start": 1, "end": 2 }) } else { json!({ "start": 1 }) };
    part(id, message, json!({ "type": "text", "text": text, "time": time }))
}

pub fn delta(id: &str, message: &str, delta: &str) -> Event {
    let properties = json!({
        "sessionID": SESSION, "messageID": message, "partID": id, "field": "text", "delta": delta,
    });
    event("message.part.delta", properties)
}

pub fn tool(id: &str, message: &str, tool: &str, state: Value) -> Event {
    part(id, message, json!({ "type": "tool", "tool": tool, "callID": format!("call_{id}"), "state": state }))
}

pub fn status(status: Value) -> Event {
    event("session.status", json!({ "sessionID": SESSION, "status": status }))
}

pub fn session(id: &str, title: &str, more: Value) -> protocol::Session {
    let session = json!({
        "id": id, "slug": "a-b", "projectID": "global", "directory": "/p", "title": title, "version": "0",
        "time": { "created": 1_000_000, "updated": 1_000_000 },
    });
    serde_json::from_value(with(session, more)).expect("a session")
}

pub fn permission(id: &str, session: &str, more: Value) -> Event {
    let request = json!({
        "id": id, "sessionID": session, "permission": "bash", "patterns": ["cargo test"],
        "metadata": { "command": "cargo test" }, "always": ["cargo test *"],
    });
    event("permission.asked", with(request, more))
}

pub fn agent(name: &str, mode: &str) -> protocol::agent::Agent {
    let agent = json!({ "name": name, "mode": mode, "native": true, "permission": [], "options": {} });
    serde_json::from_value(agent).expect("an agent")
}
