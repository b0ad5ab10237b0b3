mod answers;
mod network;
mod recorded;
mod requests;

use protocol::model::ModelEvent;
use serde_json::{Value, json};

use super::Decoder;
use crate::ProviderError;
use crate::testing::ids;

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

fn decoder() -> Decoder {
    Decoder::new(ids(), "openrouter")
}

fn decode<S: AsRef<str>>(events: &[S]) -> (Vec<ModelEvent>, Option<ProviderError>) {
    crate::testing::decode(decoder(), events)
}

/// Returns the whole answer in short; fails on an error.
fn whole<S: AsRef<str>>(events: &[S]) -> Vec<String> {
    crate::testing::whole(decoder(), events)
}
