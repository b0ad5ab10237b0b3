//! What answers are decoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::ModelEvent;

use super::*;
use crate::ErrorClass;
use crate::testing::{PINGS, decode, decoder_laws, odd_values, quiet, short};

/// Made by the documents, each frame as an event.
const RECORDED: &str = include_str!("../fixtures/thoughts_and_call.sse");

fn said(events: &[Value]) -> (Vec<String>, Option<crate::ProviderError>) {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let (events, error) = decode(decoder(), &events);
    (short(&events), error)
}

#[test]
fn thoughts_text_calls_and_counts_are_read_whole() {
    let events: Vec<String> = answer().iter().map(Value::to_string).collect();
    let (events, error) = decode(decoder(), &events);
    assert!(error.is_none(), "{error:?}");
    let Some(ModelEvent::Finish { usage, .. }) = events.last() else { panic!("{events:?}") };
    let cache = CacheTokens { read: 100, write: 30 };
    assert_eq!(*usage, Tokens { total: Some(157), input: 20, output: 7, reasoning: 0, cache });
}

#[test]
fn thoughts_that_are_sealed_are_kept_and_calls_stand_side_by_side() {
    let events = [
        delta(0, json!({ "reasoningContent": { "redactedContent": "UiE=" } })),
        end(0),
        begin(1, "a", "read"),
        arguments(1, "{\"p\":1}"),
        begin(2, "b", "list"),
        end(2),
        end(1),
        stop("tool_use"),
    ];
    let want = [
        "thinking",
        r#"thinking end {"bedrock":{"redactedData":"UiE="}}"#,
        "start a read",
        r#"call a read {"p":1}"#,
        "start b list",
        "call b list {}",
        "finish tool-calls",
    ];
    let (events, error) = said(&events);
    assert_eq!((events, error.is_none()), (want.map(str::to_owned).to_vec(), true));
}

#[test]
fn each_reason_is_known() {
    for (reason, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filtered", "content-filter"),
        ("guardrail_intervened", "content-filter"),
        ("something_new", "unknown"),
    ] {
        let (events, error) = said(&[text("hi"), end(0), stop(reason)]);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, ["text", "+hi", "text end", &format!("finish {finish}")], "{reason}");
    }
    let (_, error) = said(&[text("hi"), stop("malformed_tool_use")]);
    assert!(error.is_some_and(|error| error.is_retryable() && error.to_string().contains("malformed_tool_use")));
}

#[test]
fn pings_and_pieces_without_anything_are_no_progress() {
    let empty = [
        r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":""}}}"#,
        r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{}}}"#,
        r#"{"messageStart":{"role":"assistant"}}"#,
        r#"{"ping":null}"#,
    ];
    let said = [text("a"), delta(0, json!({ "reasoningContent": { "signature": "S" } })), begin(1, "a", "read")];
    let said = [&said[..], &[arguments(1, "{"), stop("tool_use")]].concat();
    let said: Vec<String> = said.iter().map(Value::to_string).collect();
    quiet(decoder(), &[&PINGS[..], &empty.map(|data| ("message", data))].concat(), &said);
}

#[test]
fn odd_pieces_are_passed_over_and_what_stands_beside_them_is_read() {
    for odd in odd_values() {
        for piece in [
            json!({ "contentBlockStart": odd }),
            json!({ "contentBlockDelta": odd, "metadata": odd }),
            delta(0, odd.clone()),
            delta(0, json!({ "text": odd.as_array(), "reasoningContent": odd })),
        ] {
            let (said, error) = said(&[text("a"), piece.clone(), text("b"), stop("end_turn")]);
            assert!(error.is_none(), "{piece}: {error:?}");
            let said: String = said.iter().filter_map(|event| event.strip_prefix('+')).collect();
            assert_eq!(said, "ab", "{piece}");
        }
    }
}

#[test]
fn an_answer_that_breaks_off_is_an_error_to_try_again() {
    for events in [vec![], vec![text("hi")], vec![text("hi"), end(0), begin(1, "a", "read"), arguments(1, "{\"p\":")]] {
        assert_eq!(said(&events).1.map(|error| error.class()), Some(ErrorClass::Retryable), "{events:?}");
    }
}

const KEYS: &[&str] = &[
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "contentBlockIndex",
    "messageStop",
    "metadata",
    "error",
    "start",
    "delta",
    "text",
    "toolUse",
    "reasoningContent",
    "toolUseId",
    "name",
    "input",
    "signature",
    "stopReason",
    "redactedContent",
    "usage",
    "inputTokens",
    "totalTokens",
];

fn event() -> impl Strategy<Value = Value> {
    let id = proptest::sample::select(&["a", "b", ""][..]);
    let name = proptest::sample::select(&["read", ""][..]);
    let piece = proptest::sample::select(&["", "{", "{}", "{\"p\":", "1}", "x"][..]);
    let reason = proptest::sample::select(&["end_turn", "tool_use", "max_tokens", "malformed_tool_use", ""][..]);
    prop_oneof![
        (0_u64..3, id, name).prop_map(|(index, id, name)| begin(index, id, name)),
        (0_u64..3, ".{0,4}").prop_map(|(index, text)| delta(index, json!({ "text": text }))),
        (0_u64..3, ".{0,4}").prop_map(|(index, text)| delta(index, json!({ "reasoningContent": { "text": text } }))),
        (0_u64..3).prop_map(|index| delta(index, json!({ "reasoningContent": { "signature": "S" } }))),
        (0_u64..3, piece).prop_map(|(index, piece)| arguments(index, piece)),
        (0_u64..3).prop_map(end),
        reason.prop_map(stop),
        Just(json!({ "metadata": { "usage": { "inputTokens": 1 } } })),
    ]
}

decoder_laws!(decoder, RECORDED, event(), KEYS, |event| format!("event: x\ndata: {event}\n\n"), |value| {
    [delta(0, value.clone()), json!({ "contentBlockStart": value }), json!({ "metadata": { "usage": value } })]
});
