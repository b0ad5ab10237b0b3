mod answers;
mod requests;

use serde_json::{Value, json};

use super::Decoder;
use crate::testing::ids;

fn decoder() -> Decoder {
    Decoder::new(ids(), "openai")
}

/// Returns the whole answer in short; fails on an error.
fn whole(events: &[Value]) -> Vec<String> {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    crate::testing::whole(decoder(), &events)
}

fn added(at: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": at, "item": item })
}

fn done(at: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": at, "item": item })
}

/// More of the item at a place.
fn delta(kind: &str, at: u64, id: &str, delta: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": at, "item_id": id, "delta": delta })
}

fn text(at: u64, text: &str) -> Value {
    delta("output_text", at, "m", text)
}

fn arguments(at: u64, id: &str, piece: &str) -> Value {
    delta("function_call_arguments", at, id, piece)
}

fn call(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({ "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments })
}

fn completed(response: Value) -> Value {
    json!({ "type": "response.completed", "response": response })
}

fn over() -> Value {
    completed(json!({}))
}
