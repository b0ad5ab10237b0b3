//! What answers are decoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::ModelEvent;

use super::*;
use crate::ErrorClass;
use crate::testing::{PINGS, decode, decoder_laws, odd_values, play, quiet, short};

const RECORDED: &str = include_str!("../fixtures/reasoning_and_calls.sse");

fn said(events: &[Value]) -> (Vec<String>, Option<crate::ProviderError>) {
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let (events, error) = decode(decoder(), &events);
    (short(&events), error)
}

#[test]
fn a_recorded_answer_with_reasoning_text_and_calls_is_read_whole() {
    let (events, error) = play(decoder(), RECORDED.as_bytes(), &[RECORDED.len()]);
    assert_eq!(error, None);
    assert_eq!(
        short(&events),
        [
            "thinking",
            "+**Looking** 先",
            r#"thinking end {"openai":{"itemId":"rs_1"}}"#,
            "thinking",
            "+**Saying**",
            r#"thinking end {"openai":{"itemId":"rs_1","reasoningEncryptedContent":"gAAAAABwhole"}}"#,
            r#"text {"openai":{"itemId":"msg_1","phase":"commentary"}}"#,
            "+I read",
            "+ it 😀.",
            "text end",
            "start call_1 read",
            r#"call call_1 read {"filePath":"a.txt"} {"openai":{"itemId":"fc_1"}}"#,
            "start call_2 list",
            r#"call call_2 list {} {"openai":{"itemId":"fc_2"}}"#,
            "finish tool-calls",
        ]
    );
}

#[test]
fn a_call_is_handed_over_at_its_end_and_not_at_that_of_the_answer() {
    let mut decoder = decoder();
    let mut out = Vec::new();
    for event in [added(0, call("f", "a", "read", "")), arguments(0, "f", "{}"), done(0, call("f", "a", "read", "{}"))]
    {
        out = crate::testing::feed(&mut decoder, &event.to_string()).expect("events");
    }
    assert_eq!(short(&out), [r#"call a read {} {"openai":{"itemId":"f"}}"#]);
}

#[test]
fn an_item_with_a_new_id_in_each_event_is_one() {
    let events = [
        added(0, json!({ "type": "message", "id": "m1" })),
        delta("output_text", 0, "m2", "a"),
        delta("output_text", 0, "m3", "b"),
        done(0, json!({ "type": "message", "id": "m4", "content": [{ "type": "output_text", "text": "ab" }] })),
        added(1, call("f1", "c", "read", "")),
        arguments(1, "f2", "{\"p\":"),
        arguments(1, "f3", "1}"),
        done(1, call("f4", "c", "read", "{\"p\":1}")),
        over(),
    ];
    assert_eq!(
        whole(&events),
        [
            r#"text {"openai":{"itemId":"m1"}}"#,
            "+a",
            "+b",
            "text end",
            "start c read",
            r#"call c read {"p":1} {"openai":{"itemId":"f1"}}"#,
            "finish tool-calls",
        ]
    );
}

#[test]
fn events_without_places_go_to_the_open_item() {
    let bare = |kind: &str, delta: &str| json!({ "type": format!("response.{kind}.delta"), "delta": delta });
    let events = [
        bare("reasoning_text", "hm"),
        bare("output_text", "a"),
        json!({ "type": "response.output_item.added", "item": call("", "c", "read", "") }),
        bare("function_call_arguments", "{\"p\":"),
        bare("function_call_arguments", "1}"),
        over(),
    ];
    assert_eq!(
        whole(&events),
        [
            "thinking",
            "+hm",
            "thinking end",
            "text",
            "+a",
            "text end",
            "start c read",
            r#"call c read {"p":1}"#,
            "finish tool-calls"
        ]
    );
}

#[test]
fn items_that_were_not_streamed_are_read_from_their_ends_and_an_answer_from_its_own() {
    let message = json!({ "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "a" },
                                                                    { "type": "refusal", "refusal": "b" }] });
    let reasoning = json!({ "type": "reasoning", "id": "r", "encrypted_content": "E",
                            "summary": [{ "type": "summary_text", "text": "one" }, { "type": "summary_text", "text": "two" }] });
    let items = [reasoning, message, call("f", "c", "read", "{\"p\":1}")];
    let want = [
        "thinking",
        "+one",
        r#"thinking end {"openai":{"itemId":"r"}}"#,
        "thinking",
        "+two",
        r#"thinking end {"openai":{"itemId":"r","reasoningEncryptedContent":"E"}}"#,
        r#"text {"openai":{"itemId":"m"}}"#,
        "+a",
        "+b",
        "text end",
        "start c read",
        r#"call c read {"p":1} {"openai":{"itemId":"f"}}"#,
        "finish tool-calls",
    ];
    let ends: Vec<Value> = items.iter().enumerate().map(|(at, item)| done(at as u64, item.clone())).collect();
    assert_eq!(whole(&[ends.clone(), vec![over()]].concat()), want);
    assert_eq!(whole(&[completed(json!({ "output": items }))]), want);
    // Said twice, heard once.
    let twice = [ends.clone(), ends, vec![completed(json!({ "output": items }))]].concat();
    assert_eq!(whole(&twice), want);
}

#[test]
fn pings_and_pieces_without_anything_are_no_progress() {
    let empty = [
        r#"{"type":"keepalive"}"#,
        r#"{"type":"response.in_progress","response":{}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":""}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":""}"#,
    ];
    let said = [
        added(0, json!({ "type": "message", "id": "m" })),
        text(0, "a"),
        json!({ "type": "response.web_search_call.searching", "output_index": 1 }),
        added(2, call("f", "c", "read", "")),
        arguments(2, "f", "{"),
        over(),
    ];
    let said = said.map(|event| event.to_string());
    quiet(decoder(), &[&PINGS[..], &empty.map(|data| ("message", data))].concat(), &said);
}

#[test]
fn odd_pieces_are_passed_over_and_what_stands_beside_them_is_read() {
    for odd in odd_values() {
        for piece in [
            json!({ "type": "response.in_progress", "response": odd }),
            json!({ "type": "response.output_item.done", "output_index": 7, "item": odd }),
            json!({ "type": "response.output_text.delta", "output_index": 0, "delta": odd.as_array() }),
            json!({ "type": "response.output_text.done", "output_index": 0, "text": odd }),
            json!({ "type": odd }),
        ] {
            let end = completed(json!({ "output": odd, "usage": odd, "incomplete_details": odd }));
            let said = whole(&[text(0, "a"), piece.clone(), text(0, "b"), end]);
            let said: String = said.iter().filter_map(|event| event.strip_prefix('+')).collect();
            assert_eq!(said, "ab", "{piece}");
        }
    }
}

#[test]
fn a_text_that_comes_at_its_end_alone_is_said_once() {
    let ends =
        |kind: &str, field: &str, text: &str| json!({ "type": kind, "output_index": 0, "item_id": "m", field: text });
    let item = || json!({ "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "No" }] });
    for end in [ends("response.output_text.done", "text", "No"), ends("response.refusal.done", "refusal", "No")] {
        for more in [vec![], vec![done(0, item())], vec![done(0, item()), end.clone()]] {
            for before in
                [vec![], vec![added(0, json!({ "type": "message", "id": "m" }))], vec![text(0, "N"), text(0, "o")]]
            {
                let all = completed(json!({ "output": [item()] }));
                let events = [before, vec![end.clone()], more.clone(), vec![all]].concat();
                let said = whole(&events);
                let said: String = said.iter().filter_map(|event| event.strip_prefix('+')).collect();
                assert_eq!(said, "No", "{events:?}");
            }
        }
    }
    let thought = ends("response.reasoning_summary_text.done", "text", "hm");
    assert_eq!(whole(&[thought, text(1, "a"), over()])[..2], ["thinking", "+hm"]);
}

#[test]
fn what_only_the_whole_answer_has_is_taken_from_there() {
    let list = |items: Value| completed(json!({ "status": "completed", "output": items }));
    let message = json!({ "type": "message", "id": "other", "content": [{ "type": "output_text", "text": "a" }] });
    let called = || call("f", "c", "read", "{}");
    let given = r#"call c read {} {"openai":{"itemId":"f"}}"#;
    // The list lacks items of the stream, or has them under other ids and at other places.
    let late = whole(&[text(3, "a"), list(json!([message, called()]))]);
    assert_eq!(late, ["text", "+a", "text end", "start c read", given, "finish tool-calls"]);
    let text_late = whole(&[added(1, called()), done(1, called()), list(json!([called(), message]))]);
    assert_eq!(text_late[..3], ["start c read", given, r#"text {"openai":{"itemId":"other"}}"#]);
    let again = call("other", "other", "read", "{}");
    assert_eq!(whole(&[done(4, called()), list(json!([again]))]), ["start c read", given, "finish tool-calls"]);
}

#[test]
fn a_response_that_failed_is_an_error_under_whichever_name_it_comes() {
    for kind in ["response.completed", "response.done", "response.failed", "response.incomplete"] {
        for status in [json!("failed"), json!(null)] {
            let error = json!({ "code": "server_error", "message": "boom" });
            let event = json!({ "type": kind, "response": { "status": status, "error": error, "output": [] } });
            let error = said(&[text(0, "a"), event]).1.expect("an error");
            assert_eq!((error.class(), error.to_string().as_str()), (ErrorClass::Retryable, "boom"), "{kind} {status}");
        }
    }
    let cut = json!({ "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" } });
    assert_eq!(whole(&[text(0, "a"), completed(cut)]).last().map(String::as_str), Some("finish length"));
}

#[test]
fn thinking_without_a_text_is_kept_for_what_stands_for_it() {
    let bare = |encrypted: Value| {
        let item = json!({ "type": "reasoning", "id": "r", "summary": [], "encrypted_content": encrypted });
        [added(0, json!({ "type": "reasoning", "id": "r" })), done(0, item), text(1, "a"), over()]
    };
    assert_eq!(
        whole(&bare(json!("E")))[..2],
        ["thinking", r#"thinking end {"openai":{"itemId":"r","reasoningEncryptedContent":"E"}}"#]
    );
    assert_eq!(whole(&bare(json!(null))), ["text", "+a", "text end", "finish stop"]);
}

#[test]
fn the_reason_is_that_of_the_response_and_calls_go_before_it() {
    let incomplete = |reason: &str| json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": reason } } });
    for (end, meant) in [
        (over(), "stop"),
        (incomplete("max_output_tokens"), "length"),
        (incomplete("content_filter"), "content-filter"),
        (incomplete("new_reason"), "unknown"),
    ] {
        assert_eq!(whole(&[text(0, "a"), end]), ["text", "+a", "text end", &format!("finish {meant}")]);
    }
    let called = whole(&[added(0, call("f", "c", "list", "")), over()]);
    assert_eq!(called, ["start c list", r#"call c list {} {"openai":{"itemId":"f"}}"#, "finish tool-calls"]);
}

#[test]
fn errors_are_found_in_all_their_places_and_what_came_before_stays_said() {
    let error = json!({ "type": "error", "code": "server_is_overloaded", "message": "busy", "param": null });
    let (events, failed) = said(&[text(0, "a"), error.clone()]);
    let failed = failed.expect("an error");
    assert_eq!((events, failed.class()), (vec!["text".to_owned(), "+a".into()], ErrorClass::Retryable));
    assert_eq!(failed.status_text(), error.to_string());
    let failed_with = |code: &str, message: &str| {
        let error = json!({ "code": code, "message": message });
        said(&[json!({ "type": "response.failed", "response": { "error": error } })]).1.expect("an error")
    };
    assert_eq!(failed_with("server_error", "m").class(), ErrorClass::Retryable);
    assert_eq!(failed_with("rate_limit_exceeded", "m").class(), ErrorClass::Retryable);
    assert_eq!(failed_with("context_length_exceeded", "m").class(), ErrorClass::Overflow);
    assert_eq!(failed_with("invalid_prompt", "m").class(), ErrorClass::BadRequest);
    assert_eq!(failed_with("insufficient_quota", "pay").class(), ErrorClass::Auth);
    let nested = json!({ "error": { "code": "context_length_exceeded", "message": "m" } });
    assert_eq!(said(&[nested]).1.expect("an error").class(), ErrorClass::Overflow);
}

#[test]
fn an_answer_that_is_cut_is_an_error_to_try_again() {
    for cut in [
        vec![],
        vec![json!({ "type": "response.created", "response": {} })],
        vec![text(0, "a")],
        vec![added(0, call("f", "c", "read", ""))],
        vec![added(0, call("f", "c", "read", "")), arguments(0, "f", "{\"p\":")],
    ] {
        let (said, error) = said(&cut);
        assert!(error.is_some_and(|error| error.is_retryable()), "{cut:?}");
        assert!(!said.iter().any(|event| event.starts_with("call") || event.starts_with("broken")), "{said:?}");
    }
    let behind_a_call = [added(0, call("f", "c", "read", "")), arguments(0, "f", "{\"p\":1}")];
    assert_eq!(whole(&behind_a_call).last().map(String::as_str), Some("finish tool-calls"));
}

#[test]
fn counts_are_split_into_what_was_cached_and_what_was_thought() {
    let usage = |usage: Value| {
        let events = [text(0, "a").to_string(), completed(json!({ "usage": usage })).to_string()];
        match decode(decoder(), &events).0.last() {
            Some(ModelEvent::Finish { usage, .. }) => *usage,
            other => panic!("{other:?}"),
        }
    };
    let cache = CacheTokens { read: 60, write: 0 };
    assert_eq!(
        usage(json!({ "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60 }, "output_tokens": 50,
                      "output_tokens_details": { "reasoning_tokens": 30 }, "total_tokens": 150 })),
        Tokens { total: Some(150), input: 40, output: 20, reasoning: 30, cache }
    );
    for odd in [json!(null), json!("x"), json!({ "input_tokens": -1 }), json!([])] {
        assert_eq!(usage(odd), Tokens::default());
    }
}

const KEYS: &[&str] = &[
    "type",
    "item",
    "item_id",
    "output_index",
    "delta",
    "response",
    "output",
    "usage",
    "error",
    "function_call",
    "message",
    "reasoning",
    "content",
    "summary",
    "text",
    "arguments",
    "call_id",
    "id",
    "response.output_item.done",
    "response.output_text.delta",
    "response.completed",
];

/// Anything an answer may hold.
fn event() -> impl Strategy<Value = Value> {
    let item = prop_oneof![
        Just(json!({ "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "t" }] })),
        Just(json!({ "type": "reasoning", "id": "r", "encrypted_content": "E", "summary": [{ "text": "s" }] })),
        ("[fg]{0,1}", "[ab]{0,1}", "[xy]{0,1}", prop_oneof![Just("{}"), Just("{\"p\""), Just("")])
            .prop_map(|(id, call_id, name, arguments)| call(&id, &call_id, &name, arguments)),
        Just(json!({ "type": "web_search_call", "id": "w" })),
    ];
    let at = 0_u64..3;
    prop_oneof![
        3 => (at.clone(), item.clone()).prop_map(|(at, item)| added(at, item)),
        3 => (at.clone(), item).prop_map(|(at, item)| done(at, item)),
        3 => (at.clone(), "[a-z好😀\\\\\"]{0,6}").prop_map(|(at, word)| text(at, &word)),
        2 => (at.clone(), "[a-z]{0,4}").prop_map(|(at, word)| delta("reasoning_summary_text", at, "r", &word)),
        3 => (at, "[fg]{0,1}", prop_oneof![Just("{}"), Just("{\"p\""), Just(":1}"), Just("x")])
            .prop_map(|(at, id, piece)| arguments(at, &id, piece)),
        1 => Just(json!({ "type": "response.reasoning_summary_part.added", "output_index": 0 })),
        1 => Just(over()),
        1 => Just(json!({ "type": "response.failed", "response": { "error": { "message": "m" } } })),
    ]
}

decoder_laws!(decoder, RECORDED, event(), KEYS, |event| format!("data: {event}\n\n"), |value| {
    [added(0, value.clone()), done(0, value.clone()), completed(value.clone())]
});
