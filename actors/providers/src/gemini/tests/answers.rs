//! What answers are decoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::ModelEvent;

use super::*;
use crate::ErrorClass;
use crate::testing::{PINGS, decode, decoder_laws, odd_values, play, quiet, short};

const RECORDED: &str = include_str!("../fixtures/thoughts_and_calls.sse");

fn said(events: &[Value]) -> (Vec<String>, Option<crate::ProviderError>) {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let (events, error) = decode(decoder(), &events);
    (short(&events), error)
}

#[test]
fn a_recorded_answer_with_thoughts_text_and_calls_is_read_whole() {
    let (events, error) = play(decoder(), RECORDED.as_bytes(), &[RECORDED.len()]);
    assert_eq!(error, None);
    assert_eq!(
        short(&events),
        [
            "thinking",
            "+**Looking**\n\nI 看 the file",
            "+ first.",
            "thinking end",
            "text",
            "+I read it 😀.",
            "text end",
            "start fc-1 read",
            r#"call fc-1 read {"filePath":"a.txt"} {"google":{"thoughtSignature":"CtUBAdHtim9","callId":"fc-1"}}"#,
            "start fc-2 list",
            r#"call fc-2 list {} {"google":{"callId":"fc-2"}}"#,
            "finish tool-calls",
        ]
    );
    let Some(ModelEvent::Finish { usage, .. }) = events.last() else { panic!("{events:?}") };
    let cache = CacheTokens { read: 100, write: 0 };
    assert_eq!(*usage, Tokens { total: Some(181), input: 20, output: 21, reasoning: 40, cache });
}

#[test]
fn the_signature_of_text_and_thoughts_is_kept_also_where_it_comes_behind_them() {
    let events = [
        piece(json!([{ "text": "hm", "thought": true }])),
        piece(json!([{ "text": "", "thought": true, "thoughtSignature": "S1" }])),
        text("a"),
        piece(json!([{ "text": "", "thoughtSignature": "S2" }])),
        finish("STOP"),
    ];
    assert_eq!(
        whole(&events),
        [
            "thinking",
            "+hm",
            r#"thinking end {"google":{"thoughtSignature":"S1"}}"#,
            "text",
            "+a",
            r#"text end {"google":{"thoughtSignature":"S2"}}"#,
            "finish stop",
        ]
    );
}

#[test]
fn calls_without_ids_get_them_equal_ones_are_two_and_one_that_is_sent_again_is_one() {
    let call = |id: &str, name: &str| json!([{ "functionCall": { "id": id, "name": name, "args": { "p": 1 } } }]);
    let bare = json!([{ "functionCall": { "name": "read", "args": { "p": 1 } } }]);
    assert_eq!(
        whole(&[piece(bare.clone()), piece(bare), finish("STOP")]),
        [
            "start made-0 read",
            r#"call made-0 read {"p":1}"#,
            "start made-1 read",
            r#"call made-1 read {"p":1}"#,
            "finish tool-calls",
        ]
    );
    let (a, b) = (piece(call("a", "read")), piece(call("a", "list")));
    let events = whole(&[a.clone(), a, b, finish("STOP")]);
    let starts: Vec<&String> = events.iter().filter(|event| event.starts_with("start")).collect();
    assert_eq!(starts, ["start a read", "start made-0 list"]);
}

#[test]
fn arguments_that_are_no_object_and_a_call_without_a_name_break() {
    let events = piece(json!([{ "functionCall": { "id": "a", "name": "read", "args": [1] } },
                              { "functionCall": { "id": "b", "args": {} } },
                              { "functionCall": { "id": "c", "name": "list" } }]));
    assert_eq!(
        whole(&[events, finish("STOP")]),
        [
            "start a read",
            "broken a read [1]",
            "start b unknown",
            "broken b unknown {}",
            "start c list",
            r#"call c list {} {"google":{"callId":"c"}}"#,
            "finish tool-calls",
        ]
    );
}

#[test]
fn each_reason_has_its_meaning_and_a_broken_answer_is_tried_again_unless_it_has_calls() {
    for (given, meant) in [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("PROHIBITED_CONTENT", "content-filter"),
        ("OTHER", "unknown"),
        ("NEW_REASON", "unknown"),
    ] {
        assert_eq!(whole(&[text("a"), finish(given)]), ["text", "+a", "text end", &format!("finish {meant}")]);
    }
    let broken = finish("MALFORMED_FUNCTION_CALL");
    let error = said(&[text("a"), broken.clone()]).1.expect("an error");
    assert!(error.is_retryable() && error.to_string().contains("MALFORMED_FUNCTION_CALL"), "{error}");
    let called = piece(json!([{ "functionCall": { "name": "list" } }]));
    assert_eq!(whole(&[called, broken]).last().map(String::as_str), Some("finish tool-calls"));
}

#[test]
fn a_prompt_the_filter_refuses_and_an_error_in_the_stream_are_classed() {
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": { "promptTokenCount": 1 } });
    let error = said(&[blocked]).1.expect("an error");
    assert!(error.class() == ErrorClass::ContentFilter && error.to_string().contains("SAFETY"), "{error}");
    for (code, status, class) in [
        (503, "UNAVAILABLE", ErrorClass::Retryable),
        (429, "RESOURCE_EXHAUSTED", ErrorClass::Retryable),
        (403, "PERMISSION_DENIED", ErrorClass::Auth),
        (400, "INVALID_ARGUMENT", ErrorClass::BadRequest),
    ] {
        let error = json!({ "error": { "code": code, "message": "odd", "status": status } });
        assert_eq!(said(&[text("a"), error]).1.expect("an error").class(), class, "{status}");
    }
    let long = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    let error = json!({ "error": { "code": 400, "message": long, "status": "INVALID_ARGUMENT" } });
    let error = said(&[error]).1.expect("an error");
    assert_eq!((error.class(), error.context_limit()), (ErrorClass::Overflow, Some(1_048_576)));
}

#[test]
fn an_answer_without_a_reason_is_an_error_to_try_again_unless_calls_came() {
    for cut in [vec![], vec![text("a")], vec![piece(json!([{ "text": "hm", "thought": true }]))]] {
        assert!(said(&cut).1.is_some_and(|error| error.is_retryable()), "{cut:?}");
    }
    let called = piece(json!([{ "functionCall": { "name": "list", "args": {} } }]));
    assert_eq!(whole(&[called]).last().map(String::as_str), Some("finish tool-calls"));
}

#[test]
fn pings_and_pieces_without_anything_are_no_progress() {
    let empty = [
        r#"{"candidates":[]}"#,
        r#"{"candidates":[{"index":0,"content":{"parts":[]}}]}"#,
        r#"{"candidates":[{"index":0,"content":{"parts":[{"text":""}]},"finishReason":""}]}"#,
        r#"{"usageMetadata":{"promptTokenCount":7}}"#,
    ];
    let said = [
        piece(json!([{ "text": "hm", "thought": true }])),
        piece(json!([{ "text": "", "thoughtSignature": "S" }])),
        text("a"),
        piece(json!([{ "executableCode": { "code": "x" } }])),
        piece(json!([{ "functionCall": { "name": "list" } }])),
        finish("STOP"),
    ];
    let said = said.map(|event| event.to_string());
    quiet(decoder(), &[&PINGS[..], &empty.map(|data| ("message", data))].concat(), &said);
}

#[test]
fn odd_pieces_are_passed_over_and_what_stands_beside_them_is_read() {
    for odd in odd_values() {
        for event in [
            json!({ "candidates": odd, "usageMetadata": odd, "promptFeedback": odd }),
            json!({ "candidates": [{ "content": odd, "finishReason": odd.as_array() }] }),
            json!({ "candidates": [{ "content": { "parts": odd }, "index": odd }] }),
            json!({ "response": odd }),
            piece(json!([{ "text": odd.as_array() }, odd])),
        ] {
            let events = [text("a"), event.clone(), text("b"), finish("STOP")];
            assert_eq!(whole(&events), ["text", "+a", "+b", "text end", "finish stop"], "{event}");
        }
    }
}

#[test]
fn one_of_several_candidates_is_read_and_pieces_may_be_inside_an_object() {
    let candidate = |index: Value, text: &str| json!({ "index": index, "content": { "parts": [{ "text": text }] } });
    let events = [
        json!({ "response": { "candidates": [candidate(json!(1), "x"), candidate(json!(null), "a")] } }),
        json!({ "candidates": [candidate(json!(1), "y")] }),
        json!({ "response": { "candidates": [candidate(json!(0), "b")] }, "traceId": "t" }),
        json!({ "response": finish("STOP") }),
    ];
    assert_eq!(whole(&events), ["text", "+a", "+b", "text end", "finish stop"]);
    let failed = json!({ "response": { "error": { "code": 503, "message": "odd", "status": "UNAVAILABLE" } } });
    let error = said(&[failed]).1.expect("an error");
    assert!(error.is_retryable() && error.to_string() == "odd", "{error}");
}

#[test]
fn an_answer_in_a_list_is_read_and_parts_of_other_kinds_say_nothing() {
    let events = [
        json!([text("a")]),
        piece(json!([{ "executableCode": { "code": "x" } }, { "inlineData": {} }, null, 7])),
        piece(json!("odd")),
        finish("STOP"),
    ];
    assert_eq!(whole(&events), ["text", "+a", "text end", "finish stop"]);
}

const KEYS: &[&str] = &[
    "candidates",
    "content",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "name",
    "args",
    "id",
    "finishReason",
    "STOP",
    "usageMetadata",
    "promptTokenCount",
    "promptFeedback",
    "blockReason",
    "error",
];

/// Anything an answer may hold.
fn event() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        3 => "[a-z好😀\\\\\"]{0,6}".prop_map(|word| json!({ "text": word })),
        2 => "[a-z]{0,4}".prop_map(|word| json!({ "text": word, "thought": true })),
        1 => "[a-z]{0,2}".prop_map(|word| json!({ "text": word, "thoughtSignature": "S" })),
        3 => ("[ab]{0,1}", "[fg]{0,1}", prop_oneof![Just(json!({})), Just(json!({ "p": 1 })), Just(json!("x"))])
            .prop_map(|(id, name, args)| json!({ "functionCall": { "id": id, "name": name, "args": args } })),
    ];
    prop_oneof![
        6 => proptest::collection::vec(part, 0..3).prop_map(|parts| piece(parts.into())),
        1 => prop_oneof![Just("STOP"), Just("OTHER"), Just(""), Just("MALFORMED_FUNCTION_CALL")].prop_map(finish),
        1 => Just(json!({ "usageMetadata": { "promptTokenCount": 7 } })),
        1 => Just(json!({ "error": { "message": "m" } })),
    ]
}

decoder_laws!(decoder, RECORDED, event(), KEYS, |event| format!("data: {event}\r\n\r\n"), |value| {
    [piece(json!([value]))]
});
