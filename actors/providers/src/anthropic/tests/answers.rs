//! What answers are decoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::ModelEvent;

use super::*;
use crate::ErrorClass;
use crate::decode::Decode;
use crate::testing::{PINGS, decode, decoder_laws, odd_values, play, quiet, short};

const RECORDED: &str = include_str!("../fixtures/thinking_and_tools.sse");

fn said(events: &[Value]) -> (Vec<String>, Option<crate::ProviderError>) {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let (events, error) = decode(decoder(), &events);
    (short(&events), error)
}

fn usage(events: &[Value]) -> Tokens {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    match decode(decoder(), &events).0.last() {
        Some(ModelEvent::Finish { usage, .. }) => *usage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_recorded_answer_with_thinking_text_and_calls_is_read_whole() {
    let (events, error) = play(decoder(), RECORDED.as_bytes(), &[RECORDED.len()]);
    assert_eq!(error, None);
    assert_eq!(
        short(&events),
        [
            "thinking",
            "+First I look, 先看",
            "+ then I say.",
            r#"thinking end {"anthropic":{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h=="}}"#,
            "thinking",
            r#"thinking end {"anthropic":{"redactedData":"EmwKAhgBEgy3va3pzix/LafPsn4="}}"#,
            "text",
            "+Let me read both files 😀.",
            "text end",
            "start toolu_01A read",
            r#"call toolu_01A read {"filePath":"a.txt"}"#,
            "start toolu_01B list",
            "call toolu_01B list {}",
            "finish tool-calls",
        ]
    );
    let Some(ModelEvent::Finish { usage, .. }) = events.last() else { panic!("{events:?}") };
    let cache = CacheTokens { read: 400, write: 30 };
    assert_eq!(*usage, Tokens { total: Some(531), input: 12, output: 89, reasoning: 0, cache });
}

#[test]
fn a_call_is_handed_over_at_its_end_and_not_at_that_of_the_answer() {
    let mut decoder = decoder();
    let mut out = Vec::new();
    for event in [start(0, json!({ "type": "tool_use", "id": "a", "name": "read", "input": {} })), stop(0)] {
        out = crate::testing::feed(&mut decoder, &event.to_string()).expect("events");
    }
    assert_eq!(short(&out), ["call a read {}"]);
}

#[test]
fn blocks_without_an_index_a_start_or_an_end_are_told_apart_by_what_they_hold() {
    let bare = |delta: Value| json!({ "type": "content_block_delta", "delta": delta });
    let thinking = |text: &str| json!({ "type": "thinking_delta", "thinking": text });
    let events = [
        bare(thinking("hm")),
        bare(json!({ "type": "signature_delta", "signature": "S" })),
        bare(text("a")),
        json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "id": "c", "name": "read" } }),
        bare(arguments("{\"p\":")),
        bare(arguments("1}")),
        reason("tool_use"),
    ];
    assert_eq!(
        whole(&events),
        [
            "thinking",
            "+hm",
            r#"thinking end {"anthropic":{"signature":"S"}}"#,
            "text",
            "+a",
            "text end",
            "start c read",
            r#"call c read {"p":1}"#,
            "finish tool-calls",
        ]
    );
}

#[test]
fn blocks_that_are_written_in_turn_keep_their_own_pieces() {
    let tool = |id: &str| json!({ "type": "tool_use", "id": id, "name": "read", "input": {} });
    let events = [
        start(0, tool("a")),
        start(1, tool("b")),
        delta(0, arguments("{\"p\":")),
        delta(1, arguments("{\"p\":2")),
        delta(0, arguments("1}")),
        delta(1, arguments("}")),
        stop(0),
        stop(1),
        reason("tool_use"),
        over(),
    ];
    assert_eq!(
        whole(&events),
        ["start a read", "start b read", r#"call a read {"p":1}"#, r#"call b read {"p":2}"#, "finish tool-calls"]
    );
}

#[test]
fn arguments_that_came_with_the_start_count_unless_pieces_follow() {
    let tool = |input: Value| json!({ "type": "tool_use", "id": "c", "name": "read", "input": input });
    let given = [start(0, tool(json!({ "p": 1 }))), stop(0), reason("tool_use")];
    assert_eq!(whole(&given), ["start c read", r#"call c read {"p":1}"#, "finish tool-calls"]);
    let pieces = [
        start(0, tool(json!({ "p": 1 }))),
        delta(0, arguments("{\"p\"")),
        delta(0, arguments(":2}")),
        stop(0),
        reason("tool_use"),
    ];
    assert_eq!(whole(&pieces), ["start c read", r#"call c read {"p":2}"#, "finish tool-calls"]);
}

#[test]
fn ids_that_are_missing_or_taken_are_made_and_a_call_without_a_name_breaks() {
    let tool = |id: &str, name: &str| json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
    let events =
        [start(0, tool("", "read")), start(1, tool("a", "read")), start(2, tool("a", "list")), start(3, tool("b", ""))];
    let events: Vec<Value> = events.into_iter().chain([reason("tool_use"), over()]).collect();
    assert_eq!(
        whole(&events),
        [
            "start made-0 read",
            "start a read",
            "start made-1 list",
            "call made-0 read {}",
            "call a read {}",
            "call made-1 list {}",
            "start b unknown",
            "broken b unknown ",
            "finish tool-calls",
        ]
    );
}

#[test]
fn each_reason_has_its_meaning_and_calls_go_before_it() {
    for (given, meant) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("new_reason", "unknown"),
    ] {
        let events = [start(0, json!({ "type": "text", "text": "a" })), stop(0), reason(given), over()];
        assert_eq!(whole(&events), ["text", "+a", "text end", &format!("finish {meant}")]);
    }
    let tool = json!({ "type": "tool_use", "id": "c", "name": "list", "input": {} });
    let contradicts = [start(0, tool), stop(0), reason("end_turn"), over()];
    assert_eq!(whole(&contradicts), ["start c list", "call c list {}", "finish tool-calls"]);
}

#[test]
fn an_error_in_the_stream_is_classed_and_what_came_before_it_stays_said() {
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let (events, failed) = said(&[start(0, json!({ "type": "text", "text": "" })), delta(0, text("a")), error]);
    let failed = failed.expect("an error");
    assert_eq!((events, failed.class()), (vec!["text".to_owned(), "+a".into()], ErrorClass::Retryable));
    assert_eq!(failed.status_text(), r#"{"type":"overloaded_error","message":"Overloaded"}"#);
    let too_long = json!({ "type": "error", "error": { "type": "invalid_request_error",
                           "message": "prompt is too long: 210000 tokens > 200000 maximum" } });
    let failed = said(&[too_long]).1.expect("an error");
    assert_eq!((failed.class(), failed.context_limit()), (ErrorClass::Overflow, Some(200_000)));
}

#[test]
fn an_answer_that_is_cut_is_an_error_to_try_again() {
    let tool = || start(0, json!({ "type": "tool_use", "id": "c", "name": "read", "input": {} }));
    for cut in [
        vec![],
        vec![json!({ "type": "message_start", "message": { "content": [] } })],
        vec![start(0, json!({ "type": "text", "text": "a" }))],
        vec![tool(), delta(0, arguments("{\"p\":"))],
        vec![tool()],
        vec![tool(), delta(0, arguments("{\"p\":")), over()],
    ] {
        let (said, error) = said(&cut);
        assert!(error.is_some_and(|error| error.is_retryable()), "{cut:?}");
        assert!(!said.iter().any(|event| event.starts_with("call") || event.starts_with("broken")), "{said:?}");
    }
    let whole_call = [tool(), delta(0, arguments("{\"p\":1}"))];
    assert_eq!(whole(&whole_call).last().map(String::as_str), Some("finish tool-calls"));
}

#[test]
fn pings_and_pieces_without_anything_are_no_progress() {
    let empty = [
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}"#,
        r#"{"type":"message_delta","delta":{}}"#,
        r#"{"type":"of_tomorrow"}"#,
    ];
    let said = [
        start(0, json!({ "type": "text", "text": "" })),
        delta(0, text("a")),
        start(0, json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} })),
        delta(0, arguments("{\"query\":")),
        start(0, json!({ "type": "thinking", "thinking": "" })),
        delta(0, json!({ "type": "signature_delta", "signature": "S" })),
        start(0, json!({ "type": "tool_use", "id": "c", "name": "read", "input": {} })),
        delta(0, arguments("{")),
        reason("tool_use"),
    ];
    let said = said.map(|event| event.to_string());
    quiet(decoder(), &[&PINGS[..], &empty.map(|data| ("message", data))].concat(), &said);
}

#[test]
fn odd_pieces_are_passed_over_and_what_stands_beside_them_is_read() {
    for odd in odd_values() {
        for piece in [
            json!({ "type": "message_start", "message": odd }),
            json!({ "type": "message_start", "message": { "content": odd, "usage": odd } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": odd }),
            json!({ "type": "content_block_delta", "index": 0, "delta": { "text": odd.as_array() } }),
            json!({ "type": "message_delta", "delta": odd, "usage": odd }),
            json!({ "type": odd }),
        ] {
            let begin = [start(0, json!({ "type": "text", "text": "" })), delta(0, text("a"))];
            let end = [delta(0, text("b")), stop(0), reason("end_turn"), over()];
            let events = [&begin[..], std::slice::from_ref(&piece), &end].concat();
            assert_eq!(whole(&events), ["text", "+a", "+b", "text end", "finish stop"], "{piece}");
        }
    }
}

#[test]
fn an_error_event_is_one_to_try_again_json_or_not() {
    for data in ["oops", "{\"message\":\"oops\"}", "{\"type\":\"error\"}"] {
        let event = sse::SseEvent { id: None, event: "error".into(), data: data.into() };
        let error = decoder().feed(&event, &mut Vec::new()).expect_err("an error");
        assert!(error.is_retryable(), "{data}: {error:?}");
    }
}

#[test]
fn blocks_and_events_of_other_kinds_say_nothing() {
    let events = [
        json!({ "type": "ping" }),
        start(0, json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} })),
        delta(0, arguments("{\"query\":\"x\"}")),
        stop(0),
        start(1, json!({ "type": "web_search_tool_result", "content": [] })),
        stop(1),
        start(2, json!({ "type": "text", "text": "a" })),
        delta(2, json!({ "type": "citations_delta", "citation": {} })),
        json!({ "type": "of_tomorrow" }),
        stop(2),
        reason("end_turn"),
        over(),
        delta(3, text("late")),
    ];
    assert_eq!(whole(&events), ["text", "+a", "text end", "finish stop"]);
}

#[test]
fn counts_are_those_of_the_whole_answer_and_never_fall() {
    let begin = |usage: Value| json!({ "type": "message_start", "message": { "content": [], "usage": usage } });
    let end = |usage: Value| json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage });
    let cache = |read, write| CacheTokens { read, write };
    let whole = usage(&[
        begin(json!({ "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7 })),
        end(json!({ "output_tokens": 20, "input_tokens": 0 })),
    ]);
    assert_eq!(whole, Tokens { total: Some(37), input: 10, output: 20, reasoning: 0, cache: cache(7, 0) });
    // Some servers count at the end alone.
    let late = usage(&[
        begin(json!({ "input_tokens": 0, "output_tokens": 0 })),
        end(json!({ "input_tokens": 9, "output_tokens": 2, "cache_creation_input_tokens": 3 })),
    ]);
    assert_eq!(late, Tokens { total: Some(14), input: 9, output: 2, reasoning: 0, cache: cache(0, 3) });
    for odd in [json!(null), json!("x"), json!({ "input_tokens": -1 })] {
        assert_eq!(usage(&[begin(odd.clone()), end(odd)]), Tokens::default());
    }
}

#[test]
fn characters_cut_in_halves_are_whole_again_in_text_and_arguments() {
    let piece = |kind: &str, half: &str| {
        format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"x","{kind}":"{half}"}}}}"#)
    };
    let text = [piece("text", r"x\ud83d"), piece("text", r"\ude00y"), reason("end_turn").to_string()];
    assert_eq!(crate::testing::whole(decoder(), &text), ["text", "+x", "+😀y", "text end", "finish stop"]);
    let call = [
        start(0, json!({ "type": "tool_use", "id": "c", "name": "f" })).to_string(),
        piece("partial_json", r#"{\"p\":\"\ud83d"#),
        piece("partial_json", r#"\ude00\"}"#),
        reason("tool_use").to_string(),
    ];
    assert_eq!(crate::testing::whole(decoder(), &call), ["start c f", "call c f {\"p\":\"😀\"}", "finish tool-calls"]);
}

const KEYS: &[&str] = &[
    "type",
    "index",
    "message",
    "content",
    "content_block",
    "delta",
    "text",
    "thinking",
    "signature",
    "partial_json",
    "stop_reason",
    "usage",
    "input",
    "id",
    "name",
    "tool_use",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "input_tokens",
];

/// Anything an answer may hold.
fn event() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        Just(json!({ "type": "text", "text": "" })),
        Just(json!({ "type": "thinking", "thinking": "" })),
        Just(json!({ "type": "redacted_thinking", "data": "R" })),
        ("[ab]{0,1}", "[fg]{0,1}")
            .prop_map(|(id, name)| json!({ "type": "tool_use", "id": id, "name": name, "input": {} })),
        Just(json!({ "type": "server_tool_use", "id": "s" })),
    ];
    let piece = prop_oneof![
        "[a-z好😀\\\\\"]{0,6}".prop_map(|word| text(&word)),
        "[a-z]{0,4}".prop_map(|word| json!({ "type": "thinking_delta", "thinking": word })),
        Just(json!({ "type": "signature_delta", "signature": "S" })),
        prop_oneof![Just("{}"), Just("{\"p\""), Just(":1}"), Just(""), Just("x")].prop_map(arguments),
    ];
    let index = 0_u64..3;
    prop_oneof![
        4 => (index.clone(), block).prop_map(|(index, block)| start(index, block)),
        6 => (index.clone(), piece).prop_map(|(index, piece)| delta(index, piece)),
        3 => index.prop_map(stop),
        1 => prop_oneof![Just("end_turn"), Just("tool_use"), Just("")].prop_map(reason),
        1 => Just(over()),
        1 => Just(json!({ "type": "ping" })),
        1 => Just(json!({ "type": "error", "error": { "type": "api_error", "message": "m" } })),
    ]
}

decoder_laws!(decoder, RECORDED, event(), KEYS, |event| format!("event: x\ndata: {event}\n\n"), |value| {
    [start(0, value.clone()), delta(0, value.clone()), json!({ "type": "message_delta", "delta": value })]
});
