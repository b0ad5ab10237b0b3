mod answers;
mod frames;
mod network;
mod requests;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

use super::Decoder;
use crate::testing::ids;

fn decoder() -> Decoder {
    Decoder::new(ids())
}

fn begin(index: u64, id: &str, name: &str) -> Value {
    let start = json!({ "toolUse": { "toolUseId": id, "name": name } });
    json!({ "contentBlockStart": { "contentBlockIndex": index, "start": start } })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "contentBlockDelta": { "contentBlockIndex": index, "delta": delta, "p": "abc" } })
}

fn text(text: &str) -> Value {
    delta(0, json!({ "text": text }))
}

fn arguments(index: u64, piece: &str) -> Value {
    delta(index, json!({ "toolUse": { "input": piece } }))
}

fn end(index: u64) -> Value {
    json!({ "contentBlockStop": { "contentBlockIndex": index } })
}

fn stop(reason: &str) -> Value {
    json!({ "messageStop": { "stopReason": reason } })
}

/// A frame as the vendor sends it.
fn frame(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
    let mut message = Message::new(payload.as_bytes().to_vec());
    for (name, value) in headers {
        message = message.add_header(Header::new(*name, HeaderValue::String((*value).to_owned().into())));
    }
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).expect("a frame");
    bytes
}

/// The frame of an event.
fn framed(event: &Value) -> Vec<u8> {
    let (kind, payload) = event.as_object().expect("an object").iter().next().expect("an event");
    let headers = [(":event-type", kind.as_str()), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, &payload.to_string())
}

fn exception(kind: &str, message: &str) -> Vec<u8> {
    let headers = [(":exception-type", kind), (":message-type", "exception")];
    frame(&headers, &json!({ "message": message }).to_string())
}

/// An answer with thoughts, text and a call.
fn answer() -> Vec<Value> {
    vec![
        json!({ "messageStart": { "role": "assistant" } }),
        delta(0, json!({ "reasoningContent": { "text": "hm 看" } })),
        delta(0, json!({ "reasoningContent": { "signature": "S" } })),
        end(0),
        delta(1, json!({ "text": "I read " })),
        delta(1, json!({ "text": "it 😀" })),
        end(1),
        begin(2, "tooluse_1", "read"),
        arguments(2, ""),
        arguments(2, "{\"filePath\":"),
        arguments(2, "\"a.txt\"}"),
        end(2),
        stop("tool_use"),
        json!({ "metadata": { "usage": { "inputTokens": 20, "outputTokens": 7, "totalTokens": 157,
                "cacheReadInputTokens": 100, "cacheWriteInputTokens": 30 }, "metrics": { "latencyMs": 5 } } }),
    ]
}

const ANSWER: [&str; 10] = [
    "thinking",
    "+hm 看",
    r#"thinking end {"bedrock":{"signature":"S"}}"#,
    "text",
    "+I read ",
    "+it 😀",
    "text end",
    "start tooluse_1 read",
    r#"call tooluse_1 read {"filePath":"a.txt"}"#,
    "finish tool-calls",
];
