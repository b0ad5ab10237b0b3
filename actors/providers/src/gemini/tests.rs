mod answers;
mod requests;

use serde_json::{Value, json};

use super::Decoder;
use crate::testing::ids;

fn decoder() -> Decoder {
    Decoder::new(ids())
}

/// A piece of an answer with these parts.
fn piece(parts: Value) -> Value {
    json!({ "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }] })
}

fn text(text: &str) -> Value {
    piece(json!([{ "text": text }]))
}

fn finish(reason: &str) -> Value {
    json!({ "candidates": [{ "finishReason": reason, "index": 0 }] })
}

/// Returns the whole answer in short; fails on an error.
fn whole(events: &[Value]) -> Vec<String> {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    crate::testing::whole(decoder(), &events)
}
