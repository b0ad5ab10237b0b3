mod answers;
mod requests;

use serde_json::{Value, json};

use super::Decoder;
use crate::testing::ids;

fn decoder() -> Decoder {
    Decoder::new(ids())
}

/// Returns the whole answer in short; fails on an error.
fn whole(events: &[Value]) -> Vec<String> {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    crate::testing::whole(decoder(), &events)
}

fn start(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn text(text: &str) -> Value {
    json!({ "type": "text_delta", "text": text })
}

fn arguments(piece: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": piece })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn reason(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 5 } })
}

fn over() -> Value {
    json!({ "type": "message_stop" })
}
