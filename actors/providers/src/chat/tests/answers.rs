//! What answers are decoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};

use super::*;
use crate::ErrorClass;
use crate::decode::Decode;
use crate::testing::{PINGS, any_json, feed, odd_values, quiet, same_however_cut, short, well_formed};

#[test]
fn text_and_thinking_come_in_blocks() {
    let events = [
        chunk(json!({ "role": "assistant", "content": "" }), None),
        chunk(json!({ "content": null, "reasoning_content": "let me " }), None),
        chunk(json!({ "reasoning": "think" }), None),
        chunk(json!({ "reasoning_text": "!" }), None),
        text("an"),
        text("swer"),
        finish("stop"),
        DONE.into(),
        text("late"),
    ];
    assert_eq!(
        whole(&events),
        ["thinking", "+let me ", "+think", "+!", "thinking end", "text", "+an", "+swer", "text end", "finish stop"]
    );
}

#[test]
fn content_in_parts_is_text_and_thinking() {
    let parts = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }, { "type": "text", "text": "a" }]);
    let events = [chunk(json!({ "content": parts }), None), finish("stop")];
    assert_eq!(whole(&events), ["thinking", "+hm", "thinking end", "text", "+a", "text end", "finish stop"]);
}

#[test]
fn the_answer_of_a_server_that_sends_it_whole_is_read() {
    let event = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }] }).to_string();
    assert_eq!(whole(&[event]), ["text", "+hi", "text end", "finish stop"]);
}

#[test]
fn pings_and_pieces_without_anything_are_no_progress() {
    let empty = [
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":0,"delta":{}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[]},"finish_reason":""}]}"#,
        r#"{"choices":[],"usage":null}"#,
    ];
    let empty = empty.map(|data| ("message", data));
    let said = [
        chunk(json!({ "reasoning_content": "hm" }), None),
        chunk(json!({ "reasoning_opaque": "E" }), None),
        text("a"),
        text("a"),
        calls(&[entry(Some(0), Some("c"), Some("read"), None)]),
        calls(&[entry(Some(0), None, None, Some("{\"p\":"))]),
        calls(&[entry(Some(0), None, None, Some(" "))]),
        finish("tool_calls"),
        DONE.into(),
    ];
    quiet(decoder(), &[&PINGS[..], &empty].concat(), &said);
}

#[test]
fn odd_pieces_are_passed_over_and_what_stands_beside_them_is_read() {
    let want = ["text", "+a", "+b", "text end", "finish stop"];
    for odd in odd_values() {
        let pieces = [
            json!({ "choices": odd }),
            json!({ "choices": [{ "delta": odd }] }),
            json!({ "choices": [{ "delta": { "tool_calls": odd } }] }),
            json!({ "choices": [{ "delta": { "reasoning_details": odd, "reasoning": odd.as_array() } }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": odd.as_array(), "usage": odd, "index": odd }] }),
            json!({ "choices": [], "usage": odd, "x_groq": odd }),
            json!({ "choices": [{ "delta": { "content": [odd.as_array(), 7] } }] }),
        ];
        for piece in pieces {
            let events = [text("a"), piece.to_string(), text("b"), finish("stop")];
            assert_eq!(whole(&events), want, "{piece}");
        }
        // A call is begun all the same.
        let piece = calls(&[json!({ "index": 0, "id": "c", "function": odd })]);
        let named = calls(&[entry(Some(0), None, Some("read"), Some("{}"))]);
        assert_eq!(whole(&[piece, named, finish("stop")])[1], "call c read {}", "{odd}");
    }
}

#[test]
fn an_error_event_is_one_to_try_again_json_or_not() {
    for data in ["oops", "{\"message\":\"oops\"}"] {
        let event = sse::SseEvent { id: None, event: "error".into(), data: data.into() };
        let error = decoder().feed(&event, &mut Vec::new()).expect_err("an error");
        assert!(error.is_retryable(), "{data}: {error:?}");
    }
}

#[test]
fn text_is_found_wherever_a_server_puts_it() {
    for delta in [
        json!({ "content": "No" }),
        json!({ "content": "", "refusal": "No" }),
        json!({ "content": null, "refusal": "No" }),
        json!({ "content": ["No"] }),
        json!({ "content": [null, { "type": "text", "text": "No" }, 7] }),
        json!({ "content": { "type": "text", "text": "No" } }),
    ] {
        assert_eq!(whole(&[chunk(delta.clone(), None), finish("stop")])[..2], ["text", "+No"], "{delta}");
    }
    let older = json!({ "choices": [{ "text": "No", "index": 0, "finish_reason": null }] }).to_string();
    assert_eq!(whole(&[older, finish("stop")])[..2], ["text", "+No"]);
}

#[test]
fn one_of_several_answers_is_read() {
    let piece = |index: Value, text: &str| json!({ "index": index, "delta": { "content": text } });
    let both = json!({ "choices": [piece(json!(1), "x"), piece(json!(0), "a")] }).to_string();
    let other = json!({ "choices": [piece(json!(1), "y")] }).to_string();
    let other_end = json!({ "choices": [{ "index": 1, "delta": {}, "finish_reason": "length" }] }).to_string();
    let unnumbered = json!({ "choices": [piece(json!(null), "b")] }).to_string();
    let split = json!({ "choices": [piece(json!(0), "c"), { "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let want = ["text", "+a", "+b", "+c", "text end", "finish stop"];
    let rest = [unnumbered, other.clone(), other_end.clone(), split.to_string(), other_end];
    assert_eq!(whole(&[&[both][..], &rest].concat()), want);
    let alone = json!({ "choices": [piece(json!(0), "a")] }).to_string();
    assert_eq!(whole(&[&[other.clone(), alone.clone()][..], &rest].concat()), want);
    assert_eq!(whole(&[&[alone, other][..], &rest].concat()), want);
}

#[test]
fn an_answer_whose_choices_are_numbered_in_another_way_is_read() {
    let piece = |index: u64, delta: Value| json!({ "choices": [{ "index": index, "delta": delta }] }).to_string();
    let by_block = [
        piece(0, json!({ "role": "assistant", "reasoning_content": "hm" })),
        piece(1, json!({ "content": "a" })),
        piece(2, json!({ "tool_calls": [entry(Some(0), Some("c"), Some("read"), Some("{}"))] })),
        finish("tool_calls"),
    ];
    let want = ["thinking", "+hm", "thinking end", "text", "+a", "text end", "start c read", "call c read {}"];
    assert_eq!(whole(&by_block)[..8], want);
    let from_one = [
        piece(1, json!({ "content": "a" })),
        json!({ "choices": [{ "index": 1, "delta": { "content": "b" }, "finish_reason": "stop" }] }).to_string(),
    ];
    for end in [&[][..], &[DONE.to_owned()]] {
        assert_eq!(whole(&[&from_one[..], end].concat()), ["text", "+a", "+b", "text end", "finish stop"]);
    }
}

#[test]
fn a_call_in_the_older_form_is_one() {
    let piece = |function: Value| chunk(json!({ "content": null, "function_call": function }), None);
    let events = [
        piece(json!({ "name": "read", "arguments": "" })),
        piece(json!({ "arguments": "{\"p\":" })),
        piece(json!({ "arguments": "1}" })),
        finish("function_call"),
    ];
    assert_eq!(whole(&events), ["start made-0 read", "call made-0 read {\"p\":1}", "finish tool-calls"]);
}

#[test]
fn a_name_in_pieces_is_whole_before_the_arguments_begin() {
    for (second_id, second) in [(None, "ad"), (Some("c"), "ad"), (None, "read"), (Some("c"), "read")] {
        let events = [
            calls(&[entry(Some(0), Some("c"), Some("re"), None)]),
            calls(&[entry(Some(0), second_id, Some(second), None)]),
            calls(&[entry(Some(0), second_id, None, Some("{}"))]),
            finish("tool_calls"),
        ];
        assert_eq!(whole(&events)[1], "call c read {}", "{second_id:?} {second}");
    }
    // Behind arguments another name is another call.
    let events = [
        calls(&[entry(Some(0), Some("c"), Some("re"), Some("{}"))]),
        calls(&[entry(Some(0), None, Some("read"), Some("{}"))]),
        finish("tool_calls"),
    ];
    assert_eq!(whole(&events)[1..], ["call c re {}", "start made-0 read", "call made-0 read {}", "finish tool-calls"]);
}

#[test]
fn a_call_is_put_together_from_its_pieces() {
    let events = [
        calls(&[entry(Some(0), Some("c1"), Some("read"), Some(""))]),
        calls(&[entry(Some(0), None, None, Some("{\"fi"))]),
        calls(&[entry(Some(0), None, None, Some("lePath\":\"a\"}"))]),
        finish("tool_calls"),
        DONE.into(),
    ];
    assert_eq!(whole(&events), ["start c1 read", "call c1 read {\"filePath\":\"a\"}", "finish tool-calls"]);
}

#[test]
fn a_call_without_an_id_gets_one() {
    for id in [None, Some("")] {
        let events = [
            calls(&[entry(Some(0), id, Some("read"), Some("{\"p\":"))]),
            calls(&[entry(Some(0), id, None, Some("1}"))]),
            finish("tool_calls"),
        ];
        assert_eq!(whole(&events), ["start made-0 read", "call made-0 read {\"p\":1}", "finish tool-calls"]);
    }
}

#[test]
fn calls_without_an_index_are_told_apart() {
    let one = entry(None, Some("a"), Some("read"), Some("{}"));
    let two = entry(None, Some("b"), Some("glob"), Some("{}"));
    let want = ["start a read", "call a read {}", "start b glob", "call b glob {}", "finish tool-calls"];
    assert_eq!(whole(&[calls(&[one.clone(), two.clone()]), finish("tool_calls")]), want);
    assert_eq!(whole(&[calls(&[one]), calls(&[two]), finish("tool_calls")]), want);
}

#[test]
fn one_index_with_a_new_id_is_a_new_call() {
    let events = [
        calls(&[entry(Some(0), Some("a"), Some("read"), Some("{\"p\":1}"))]),
        calls(&[entry(Some(0), Some("b"), Some("read"), Some("{\"p\":2}"))]),
        finish("tool_calls"),
    ];
    assert_eq!(
        whole(&events),
        ["start a read", "call a read {\"p\":1}", "start b read", "call b read {\"p\":2}", "finish tool-calls"]
    );
}

#[test]
fn empty_and_equal_ids_are_made_unique() {
    let two = |id: &str| {
        let entry = |index, arguments| entry(Some(index), Some(id), Some("read"), Some(arguments));
        whole(&[calls(&[entry(0, "{\"p\":1}"), entry(1, "{\"p\":2}")]), finish("tool_calls")])
    };
    let calls = |first: &str, second: &str| {
        [
            format!("start {first} read"),
            format!("call {first} read {{\"p\":1}}"),
            format!("start {second} read"),
            format!("call {second} read {{\"p\":2}}"),
            "finish tool-calls".into(),
        ]
    };
    assert_eq!(two(""), calls("made-0", "made-1"));
    assert_eq!(two("x"), calls("x", "made-0"));
    let entry = |arguments| entry(None, Some("x"), Some("read"), Some(arguments));
    let unindexed = [super::calls(&[entry("{\"p\":1}"), entry("{\"p\":2}")]), finish("tool_calls")];
    assert_eq!(whole(&unindexed), calls("x", "made-0"));
}

#[test]
fn a_server_that_repeats_id_and_name_or_makes_a_new_id_for_each_piece_makes_one_call() {
    let pieces = ["{\"p\"", ":", "1}"];
    let want =
        |id: &str| [format!("start {id} read"), format!("call {id} read {{\"p\":1}}"), "finish tool-calls".into()];
    for index in [Some(0), None] {
        let repeated = |id: Option<&str>| {
            let pieces = pieces.map(|piece| calls(&[entry(index, id, Some("read"), Some(piece))]));
            whole(&[&pieces[..], &[finish("tool_calls")]].concat())
        };
        assert_eq!(repeated(Some("c")), want("c"));
        assert_eq!(repeated(None), want("made-0"));
        let fresh = [
            calls(&[entry(index, Some("c1"), Some("read"), Some(pieces[0]))]),
            calls(&[entry(index, Some("c2"), None, Some(pieces[1]))]),
            calls(&[entry(index, Some("c3"), Some(""), Some(pieces[2]))]),
            finish("tool_calls"),
        ];
        assert_eq!(whole(&fresh), want("c1"));
    }
}

#[test]
fn a_whole_call_that_is_sent_again_runs_once() {
    for index in [Some(0), None] {
        let call = calls(&[entry(index, Some("c"), Some("read"), Some("{\"p\":1}"))]);
        let last = calls(&[entry(index, Some("c"), Some("read"), Some(""))]);
        let events = [call.clone(), call, last, finish("tool_calls")];
        assert_eq!(whole(&events), ["start c read", "call c read {\"p\":1}", "finish tool-calls"]);
    }
}

#[test]
fn calls_whose_pieces_are_mixed_are_told_apart_by_index() {
    let events = [
        calls(&[entry(Some(0), Some("a"), Some("read"), Some("")), entry(Some(1), Some("b"), Some("glob"), Some(""))]),
        calls(&[entry(Some(1), None, None, Some("{\"q\":"))]),
        calls(&[entry(Some(0), None, None, Some("{\"p\":1}"))]),
        calls(&[entry(Some(1), None, None, Some("2}"))]),
        finish("tool_calls"),
    ];
    assert_eq!(
        whole(&events),
        ["start a read", "start b glob", "call a read {\"p\":1}", "call b glob {\"q\":2}", "finish tool-calls"]
    );
}

#[test]
fn a_name_that_comes_late_starts_the_call_late_and_one_that_never_comes_breaks_it() {
    let late = [
        calls(&[entry(Some(0), Some("c"), Some(""), Some(""))]),
        calls(&[entry(Some(0), None, Some("read"), Some("{}"))]),
        finish("tool_calls"),
    ];
    assert_eq!(whole(&late), ["start c read", "call c read {}", "finish tool-calls"]);
    let never = [calls(&[entry(Some(0), Some("c"), None, Some("{}"))]), finish("tool_calls")];
    assert_eq!(whole(&never), ["start c unknown", "broken c unknown {}", "finish tool-calls"]);
    let nothing = [calls(&[entry(Some(0), None, None, Some(""))]), text("a"), finish("stop")];
    assert_eq!(whole(&nothing), ["text", "+a", "text end", "finish stop"]);
}

#[test]
fn a_call_is_given_as_soon_as_the_next_begins() {
    let mut decoder = decoder();
    let first = calls(&[entry(Some(0), Some("a"), Some("read"), Some("{}"))]);
    assert_eq!(short(&feed(&mut decoder, &first).expect("events")), ["start a read"]);
    let second = calls(&[entry(Some(1), Some("b"), Some("read"), Some(""))]);
    assert_eq!(short(&feed(&mut decoder, &second).expect("events")), ["call a read {}", "start b read"]);
}

#[test]
fn no_arguments_are_an_empty_object_and_objects_are_arguments() {
    for arguments in [json!(""), json!("  "), json!("null"), json!(null), json!({}), json!("{}"), json!("\"{}\"")] {
        let call = json!({ "index": 0, "id": "c", "function": { "name": "list", "arguments": arguments } });
        let events = [calls(&[call]), finish("tool_calls"), DONE.into()];
        assert_eq!(whole(&events), ["start c list", "call c list {}", "finish tool-calls"], "{arguments}");
    }
    let call = json!({ "index": 0, "id": "c", "function": { "name": "read", "arguments": { "p": [1] } } });
    assert_eq!(whole(&[calls(&[call])]), ["start c read", "call c read {\"p\":[1]}", "finish tool-calls"]);
    let bare = json!({ "index": 0, "id": "c", "function": { "name": "list" } });
    assert_eq!(whole(&[calls(&[bare]), finish("tool_calls")]).len(), 3);
}

#[test]
fn arguments_that_are_no_object_break_the_call() {
    for arguments in ["{\"p\":1}{\"p\":2}", "[1]", "7", "\"x\"", "{\"p\":", "{p:1}"] {
        let events = [calls(&[entry(Some(0), Some("a"), Some("read"), Some(arguments))]), finish("tool_calls")];
        assert_eq!(whole(&events), ["start a read", &format!("broken a read {arguments}"), "finish tool-calls"]);
        let (events, _) = decode(&events);
        assert!(matches!(&events[1], ModelEvent::CallBroken { error, .. } if error.contains("JSON")), "{events:?}");
    }
}

#[test]
fn an_empty_finish_reason_is_none() {
    let events = [
        chunk(json!({ "tool_calls": [entry(Some(0), Some("c"), Some("read"), Some(""))] }), Some("")),
        chunk(json!({ "tool_calls": [entry(Some(0), None, None, Some("{\"p\""))] }), Some("")),
        chunk(json!({ "tool_calls": [entry(Some(0), None, None, Some(":1}"))] }), Some("")),
        finish("tool_calls"),
    ];
    assert_eq!(whole(&events), ["start c read", "call c read {\"p\":1}", "finish tool-calls"]);
}

#[test]
fn calls_count_whatever_the_reason_and_the_end() {
    let call = calls(&[entry(Some(0), Some("c"), Some("read"), Some("{}"))]);
    for end in [&[finish("stop")][..], &[finish("odd")], &[finish("stop"), DONE.into()], &[DONE.into()], &[]] {
        let events = [&[call.clone()][..], end].concat();
        assert_eq!(whole(&events), ["start c read", "call c read {}", "finish tool-calls"], "{end:?}");
    }
    assert_eq!(whole(&[call, finish("length")]).last().map(String::as_str), Some("finish length"));
}

#[test]
fn reasons_have_their_names() {
    for (reason, want) in [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("eos", "unknown"),
    ] {
        assert_eq!(whole(&[text("a"), finish(reason)]).last(), Some(&format!("finish {want}")));
    }
    assert_eq!(whole(&[text("a"), DONE.into()]), ["text", "+a", "text end", "finish unknown"]);
}

#[test]
fn an_answer_that_is_not_whole_is_an_error_to_try_again() {
    let partial = || calls(&[entry(Some(0), Some("c"), Some("read"), Some("{\"p\":"))]);
    let named = || calls(&[entry(Some(0), Some("c"), Some("read"), Some(""))]);
    for (events, gave) in [
        (vec![], vec![]),
        (vec![DONE.into()], vec![]),
        (vec![chunk(json!({ "role": "assistant", "content": "" }), None)], vec![]),
        (vec![text("a")], vec!["text", "+a"]),
        (vec![partial()], vec!["start c read"]),
        (vec![partial(), DONE.into()], vec!["start c read"]),
        (vec![named()], vec!["start c read"]),
        (vec![text("a"), finish("error")], vec!["text", "+a", "text end"]),
    ] {
        let (said, error) = decode(&events);
        let error = error.unwrap_or_else(|| panic!("no error: {events:?}"));
        assert_eq!(
            (short(&said), error.class()),
            (gave.into_iter().map(str::to_owned).collect(), ErrorClass::Retryable)
        );
    }
}

#[test]
fn a_whole_answer_stays_one_when_the_connection_is_lost_behind_it() {
    for event in [finish("stop"), calls(&[entry(Some(0), Some("c"), Some("read"), Some("{}"))])] {
        let mut decoder = decoder();
        feed(&mut decoder, &event).expect("events");
        let mut out = Vec::new();
        decoder.end(false, &mut out).expect("events");
        assert!(matches!(out.last(), Some(ModelEvent::Finish { .. })));
        let said = out.len();
        decoder.end(true, &mut out).expect("nothing more");
        assert_eq!(out.len(), said);
    }
}

#[test]
fn an_error_in_the_stream_is_classed() {
    for (event, class) in [
        (r#"{"error":{"message":"busy","code":"server_is_overloaded"}}"#, ErrorClass::Retryable),
        (r#"{"error":{"message":"odd","code":"context_length_exceeded"},"choices":[]}"#, ErrorClass::Overflow),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"message":"odd","code":401}}]}"#,
            ErrorClass::Auth,
        ),
        (r#"{"object":"error","message":"odd","type":"BadRequestError","code":400}"#, ErrorClass::BadRequest),
    ] {
        let (_, error) = decode(&[text("a").as_str(), event]);
        assert_eq!(error.map(|error| error.class()), Some(class), "{event}");
    }
    let harmless = r#"{"error":null,"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    assert_eq!(whole(&[harmless]).len(), 4);
}

#[test]
fn data_that_is_no_json_is_an_error_not_to_be_tried_again() {
    let (_, error) = decode(&["{\"choices\":[{"]);
    let error = error.expect("an error");
    assert_eq!(error.class(), ErrorClass::Unknown);
    assert!(error.to_string().starts_with("JSON parsing failed"), "{error}");
}

fn usage(events: &[String]) -> Tokens {
    match decode(events).0.last() {
        Some(ModelEvent::Finish { usage, .. }) => *usage,
        other => panic!("no finish: {other:?}"),
    }
}

#[test]
fn counts_do_not_overlap() {
    let with = |usage: Value| usage_of(&[json!({ "choices": [], "usage": usage })]);
    let tokens = |total, input, output, reasoning, read, write| Tokens {
        total,
        input,
        output,
        reasoning,
        cache: CacheTokens { read, write },
    };
    let plain = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120 });
    assert_eq!(with(plain), tokens(Some(120), 100, 20, 0, 0, 0));
    let cached = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 10 },
        "completion_tokens_details": { "reasoning_tokens": 5 } });
    assert_eq!(with(cached), tokens(Some(120), 30, 15, 5, 60, 10));
    let beside = json!({ "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 125,
        "completion_tokens_details": { "reasoning_tokens": 5 } });
    assert_eq!(with(beside), tokens(Some(125), 100, 20, 5, 0, 0));
    assert_eq!(with(json!({ "prompt_tokens": 9, "prompt_cache_hit_tokens": 4 })), tokens(None, 5, 0, 0, 4, 0));
    for odd in [json!(null), json!([]), json!("x"), json!({ "prompt_tokens": -5, "completion_tokens": "many" })] {
        assert_eq!(with(odd), Tokens::default());
    }
    // One odd count spoils no other.
    let mixed = json!({ "prompt_tokens": "12", "completion_tokens": 5, "prompt_tokens_details": { "cached_tokens": "4" },
        "completion_tokens_details": [] });
    assert_eq!(with(mixed), tokens(None, 8, 5, 0, 4, 0));
    let newer = json!({ "input_tokens": 9, "output_tokens": 3, "input_tokens_details": { "cached_tokens": 4 } });
    assert_eq!(with(newer.clone()), tokens(None, 5, 3, 0, 4, 0));
    let in_choice = json!({ "choices": [{ "index": 0, "delta": {}, "usage": newer }] });
    assert_eq!(usage_of(&[in_choice]), tokens(None, 5, 3, 0, 4, 0));
}

fn usage_of(chunks: &[Value]) -> Tokens {
    let mut events = vec![text("a"), finish("stop")];
    events.extend(chunks.iter().map(Value::to_string));
    events.push(DONE.into());
    usage(&events)
}

#[test]
fn the_last_counts_that_say_something_count() {
    let counts = |prompt: u64| json!({ "choices": [], "usage": { "prompt_tokens": prompt, "total_tokens": prompt } });
    assert_eq!(usage_of(&[counts(5), counts(9), counts(0), json!({ "choices": [], "usage": null })]).input, 9);
    assert_eq!(usage_of(&[]), Tokens::default());
}

#[test]
fn a_signature_beside_a_call_is_kept_with_it() {
    let mut call = entry(Some(0), Some("c"), Some("read"), Some("{}"));
    call["extra_content"] = json!({ "google": { "thought_signature": "S" } });
    let (events, _) = decode(&[calls(&[call]), finish("tool_calls")]);
    let Some(ModelEvent::Call { metadata: Some(metadata), .. }) = events.get(1) else { panic!("{events:?}") };
    assert_eq!(Value::from(metadata.clone()), json!({ "extra_content": { "google": { "thought_signature": "S" } } }));
}

#[test]
fn characters_cut_in_halves_are_whole_again_in_text_and_arguments() {
    let piece = |half: &str| format!(r#"{{"choices":[{{"delta":{{"content":"{half}"}}}}]}}"#);
    let (one, two) = (r"x\ud83d", r"\ude00y");
    assert_eq!(whole(&[piece(one), piece(two), finish("stop")]), ["text", "+x", "+😀y", "text end", "finish stop"]);
    let call = |half: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"f","arguments":"{half}"}}}}]}}}}]}}"#
        )
    };
    let events = [call(r#"{\"p\":\"\ud83d"#), call(r#"\ude00\"}"#), finish("tool_calls")];
    assert_eq!(whole(&events), ["start c f", "call c f {\"p\":\"😀\"}", "finish tool-calls"]);
}

/// Anything an answer may hold.
fn event() -> impl Strategy<Value = String> {
    let word = "[a-z好😀\\\\\"{}]{0,6}";
    let index = proptest::option::of(0_u32..3);
    let id = proptest::option::of("[ab]{0,1}");
    let name = proptest::option::of("[fg]{0,1}");
    let arguments = proptest::option::of(prop_oneof![
        Just("{}".to_owned()),
        Just("{\"p\":1}".into()),
        Just("{\"p\"".into()),
        Just(":1}".into()),
        Just(String::new()),
        word.prop_map(String::from),
    ]);
    let entry = (index, id, name, arguments)
        .prop_map(|(index, id, name, arguments)| entry(index, id.as_deref(), name.as_deref(), arguments.as_deref()));
    prop_oneof![
        4 => word.prop_map(|word| text(&word)),
        2 => word.prop_map(|word| chunk(json!({ "reasoning_content": word }), None)),
        4 => proptest::collection::vec(entry, 1..4).prop_map(|entries| calls(&entries)),
        1 => prop_oneof![Just("stop"), Just(""), Just("tool_calls"), Just("error")].prop_map(finish),
        1 => Just(DONE.to_owned()),
        1 => Just(json!({ "choices": [], "usage": { "prompt_tokens": 7 } }).to_string()),
        1 => Just(json!({ "error": { "message": "m" } }).to_string()),
        1 => Just("{\"choices\":".to_owned()),
    ]
}

const KEYS: &[&str] = &[
    "choices",
    "delta",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "id",
    "index",
    "finish_reason",
    "usage",
    "error",
    "reasoning_details",
    "type",
    "text",
    "x_groq",
    "x",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_decodes_the_same_however_it_is_cut(
        events in proptest::collection::vec(event(), 0..12),
        sizes in proptest::collection::vec(1_usize..40, 1..20),
    ) {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        same_however_cut(decoder, &body, &sizes);
    }

    #[test]
    fn each_call_starts_once_and_ends_once_with_an_id_of_its_own(events in proptest::collection::vec(event(), 0..16)) {
        let (said, error) = decode(&events);
        well_formed(&said, error.as_ref())?;
    }

    #[test]
    fn any_json_is_read_or_refused(values in proptest::collection::vec(any_json(KEYS), 0..4), data in ".{0,80}") {
        let wrapped = |value: &Value| json!({ "choices": [{ "delta": { "tool_calls": [value], "content": value } }] });
        let mut events: Vec<String> = values.iter().map(Value::to_string).collect();
        events.extend(values.iter().map(|value| wrapped(value).to_string()));
        for event in &events {
            decode(&[event]);
        }
        decode(&events);
        decode(&[data]);
    }
}
