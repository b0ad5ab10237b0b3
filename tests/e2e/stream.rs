//! What a model's stream may look like, and what may go wrong in it. The many shapes of a call's pieces are tested
//! beside the decoder; here is what becomes of them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, Piece, Step, call};

use crate::world::{World, said};

const DONE: &str = "data: [DONE]\n\n";

/// Returns a piece of an answer as it is on the wire.
fn chunk(delta: Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    let chunk =
        json!({ "id": "r", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [choice] });
    format!("data: {chunk}\n\n")
}

fn calls(pieces: Value) -> String {
    chunk(json!({ "tool_calls": pieces }), None)
}

fn finish(reason: &str) -> String {
    chunk(json!({}), Some(reason))
}

/// A project with two files to read, and a session.
async fn reader() -> (World, String) {
    let world = World::start().await;
    world.project.write("a", "AAA\n");
    world.project.write("b", "BBB\n");
    let session = world.wire.create_session_with(json!({ "title": "named" })).await;
    (world, text(&session["id"]))
}

/// Prompts; the model first sends this body, then says `done`. Returns the tool parts.
async fn turn(world: &World, session: &str, name: &str, body: Vec<String>) -> Vec<Value> {
    world.model.script(name, [Step::raw(body), Step::text("done")]);
    let known = world.wire.parts(session).await.len();
    let answer = world.wire.prompt(session, name).await;
    assert_eq!(said(&answer), "done", "{name}: {answer}");
    let parts = world.wire.parts(session).await.into_iter().skip(known);
    parts.filter(|part| part["type"] == "tool").collect()
}

#[tokio::test]
async fn a_character_cut_between_chunks_is_whole_everywhere() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let body: String = ["x好y", "好", "🦀z"].map(|text| chunk(json!({ "content": text }), None)).concat();
    let bytes = Piece::from((body + &finish("stop") + DONE).into_bytes());
    world.model.script("cut", [Step::raw([bytes]).bytewise()]);

    let answer = world.wire.prompt(&session, "cut").await;

    events.until_idle(&session).await;
    let deltas: String =
        events.all().iter().filter_map(|event| event["properties"]["delta"].as_str().map(str::to_owned)).collect();
    assert_eq!((said(&answer).as_str(), deltas.as_str()), ("x好y好🦀z", "x好y好🦀z"));
    assert!(!json!(world.wire.messages(&session).await).to_string().contains('\u{fffd}'));
}

#[tokio::test]
async fn calls_in_any_shape_run_and_their_results_go_back_under_their_ids() {
    let (world, session) = reader().await;
    let whole = |index: Option<u32>, id: Option<&str>, path: &str| {
        let mut piece = json!({ "function": { "name": "read", "arguments": json!({ "filePath": path }).to_string() } });
        piece["index"] = json!(index);
        piece["id"] = json!(id);
        piece.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        piece
    };
    let split = |id: Option<&str>| {
        let mut first = json!({ "index": 0, "function": { "name": "read", "arguments": "{\"filePath\":" } });
        first["id"] = json!(id);
        [calls(json!([first])), calls(json!([{ "index": 0, "function": { "arguments": "\"a\"}" } }]))]
    };
    let end = || finish("tool_calls") + DONE;
    let one = |id| calls(json!([whole(Some(0), id, "a")]));
    let shapes: Vec<(&str, Vec<String>, &[&str])> = vec![
        ("the id comes once", [split(Some("c1")).to_vec(), vec![end()]].concat(), &["a"]),
        ("there is no id", [split(None).to_vec(), vec![end()]].concat(), &["a"]),
        (
            "there is no index",
            vec![calls(json!([whole(None, Some("n1"), "a"), whole(None, Some("n2"), "b")])), end()],
            &["a", "b"],
        ),
        (
            "one index for two",
            vec![
                calls(json!([whole(Some(0), Some("i1"), "a")])),
                calls(json!([whole(Some(0), Some("i2"), "b")])),
                end(),
            ],
            &["a", "b"],
        ),
        (
            "empty ids",
            vec![calls(json!([whole(Some(0), Some(""), "a")])), calls(json!([whole(Some(1), Some(""), "b")])), end()],
            &["a", "b"],
        ),
        ("an id of an earlier turn", vec![one(Some("c1")), end()], &["a"]),
        (
            "empty finish reasons",
            split(Some("e1")).map(|piece| piece.replace("\"finish_reason\":null", "\"finish_reason\":\"\"")).to_vec(),
            &["a"],
        ),
        ("stop behind calls", vec![one(Some("s1")), finish("stop") + DONE], &["a"]),
        ("no finish reason", vec![one(Some("s2")), DONE.to_owned()], &["a"]),
        ("no end at all", vec![one(Some("s3"))], &["a"]),
        ("null content", vec![chunk(json!({ "content": null }), None), one(Some("s4")), end()], &["a"]),
    ];
    let mut ids = 0;
    for (name, body, paths) in shapes {
        let parts = turn(&world, &session, name, body).await;
        let ran: Vec<_> =
            parts.iter().map(|part| (part["state"]["status"].clone(), part["state"]["input"].clone())).collect();
        let wanted: Vec<_> = paths.iter().map(|path| (json!("completed"), json!({ "filePath": path }))).collect();
        assert_eq!(ran, wanted, "{name}");
        // The script's second request is told what each call gave; that ids pair up is checked of every request.
        let told = world.model.requests_for(name).pop().expect("a request").calls();
        ids += paths.len();
        assert_eq!(told.len(), ids, "{name}");
        for ((_, input, result), path) in told.iter().rev().zip(paths.iter().rev()) {
            let content = if *path == "a" { "AAA" } else { "BBB" };
            assert_eq!(input, &json!({ "filePath": path }));
            assert!(result.as_ref().is_some_and(|result| result.contains(content)), "{name}: {result:?}");
        }
    }
    world.model.assert_legal();
}

#[tokio::test]
async fn arguments_that_are_no_object_come_back_to_the_model_as_an_error() {
    let (world, session) = reader().await;
    for (number, arguments) in
        [r#"{"filePath":"a"}{"filePath":"b"}"#, "[1]", "nonsense", r#"{"filePath":"#].iter().enumerate()
    {
        let name = format!("bad {number}");
        let piece =
            json!([{ "index": 0, "id": format!("b{number}"), "function": { "name": "read", "arguments": arguments } }]);
        let parts = turn(&world, &session, &name, vec![calls(piece), finish("tool_calls") + DONE]).await;
        assert_eq!(parts.len(), 1);
        assert_eq!(
            (parts[0]["tool"].as_str(), parts[0]["state"]["input"]["tool"].as_str()),
            (Some("invalid"), Some("read"))
        );
        let told = world.model.requests_for(&name).pop().expect("a request").calls().pop().expect("a call");
        assert!(told.2.as_ref().is_some_and(|result| result.contains("JSON")), "{told:?}");
    }
    world.model.assert_legal();
}

#[tokio::test]
async fn a_call_for_a_tool_there_is_not_and_one_without_what_it_needs_are_told_to_the_model() {
    let (world, session) = reader().await;
    let steps = [
        Step::calls([
            call("fly", json!({ "to": "the moon" })),
            call("Read", json!({ "filePath": "a" })),
            call("read", json!({ "path": "a" })),
            call("read", json!({ "filePath": "b" })).raw_arguments(""),
        ]),
        Step::text("done"),
    ];
    world.model.script("strange", steps);
    assert_eq!(said(&world.wire.prompt(&session, "strange").await), "done");
    let told = world.model.requests_for("strange").pop().expect("a request").calls();
    let results: Vec<_> = told.iter().map(|(_, _, result)| result.clone().unwrap_or_default()).collect();
    assert!(results[0].contains("fly"), "{results:?}");
    assert!(results[1].contains("AAA"), "a name in other letters is known: {results:?}");
    assert!(results[2].contains("filePath") && results[3].contains("filePath"), "{results:?}");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_call_in_a_models_own_words_runs() {
    let (world, session) = reader().await;
    let names = [" read ", "functions.read:0", "read<|channel|>commentary"];
    let made = names.iter().zip(["1", "2", "3"]);
    let made = made.map(|(name, limit)| call(*name, json!({ "filePath": "a", "limit": limit })));
    world.model.script("own words", [Step::calls(made), Step::text("done")]);
    assert_eq!(said(&world.wire.prompt(&session, "own words").await), "done");
    let told = world.model.requests_for("own words").pop().expect("a request").calls();
    assert_eq!(told.len(), 3);
    for (_, _, result) in told {
        assert!(result.as_ref().is_some_and(|result| result.contains("AAA")), "{result:?}");
    }

    // Its name comes in two pieces.
    let piece = |name: Option<&str>, arguments: &str| {
        let mut piece = json!({ "index": 0, "function": { "arguments": arguments } });
        if let Some(name) = name {
            piece["function"]["name"] = name.into();
        }
        piece
    };
    let mut first = piece(Some("re"), "");
    first["id"] = "c".into();
    let pieces = [first, piece(Some("ad"), ""), piece(None, r#"{"filePath":"b"}"#)];
    let body = pieces.into_iter().map(|piece| calls(json!([piece]))).chain([finish("tool_calls"), DONE.into()]);
    let parts = turn(&world, &session, "pieces", body.collect()).await;
    assert_eq!((&parts[0]["tool"], &parts[0]["state"]["status"]), (&json!("read"), &json!("completed")), "{parts:?}");
    world.model.assert_legal();
}

#[tokio::test]
async fn odd_pieces_in_an_answer_cost_no_word_of_it() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let word = |text: &str| chunk(json!({ "content": text }), None).into_bytes();
    let odd = ["ping", "null", "{\"choices\":[null]}", "{\"choices\":[{\"delta\":\"\",\"index\":1}]}"];
    let odd = odd.iter().map(|data| format!("data: {data}\n\n").into_bytes());
    let mut spoilt = word("b?");
    spoilt.iter_mut().filter(|byte| **byte == b'?').for_each(|byte| *byte = 0xff);
    let body: Vec<u8> = [word("a")].into_iter().chain(odd).chain([spoilt]).flatten().collect();
    let end = (finish("stop") + DONE).into_bytes();
    world.model.script("odd", [Step::raw([Piece::from(body), Piece::from(end)])]);

    let answer = world.wire.prompt(&session, "odd").await;

    assert_eq!((said(&answer).as_str(), world.model.requests().len()), ("ab\u{fffd}", 1));
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_arguments_is_tried_again_and_half_a_call_is_not_kept() {
    let (world, session) = reader().await;
    let mut events = world.events().await;
    let half =
        calls(json!([{ "index": 0, "id": "c1", "function": { "name": "read", "arguments": "{\"filePath\":" } }]));
    let whole = Step::calls([call("read", json!({ "filePath": "a" })).id("c2")]);
    world.model.script("half", [whole.fail_with(1, Step::raw([half])), Step::text("done")]);

    assert_eq!(said(&world.wire.prompt(&session, "half").await), "done");

    events.until_idle(&session).await;
    let parts: Vec<_> = world.wire.parts(&session).await.into_iter().filter(|part| part["type"] == "tool").collect();
    assert_eq!(parts.iter().map(|part| part["callID"].as_str()).collect::<Vec<_>>(), [Some("c2")]);
    assert_eq!(world.model.requests_for("half").len(), 3);
    assert!(events.types(&session).contains(&"message.part.removed".to_owned()), "clients are told that it is gone");
    world.model.assert_legal();
}

#[tokio::test]
async fn text_and_thinking_of_a_stream_that_broke_off_are_not_said_twice() {
    let (world, session) = reader().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    let pieces = [
        Piece::from(chunk(json!({ "reasoning_content": "hm" }), None)),
        Piece::from(chunk(json!({ "content": "Hello " }), None)),
        Piece::from(&gate),
        Piece::from(
            "data: {\"error\":{\"message\":\"Our servers are overloaded\",\"code\":\"server_is_overloaded\"}}\n\n",
        ),
    ];
    world.model.script("greet", [Step::text("Hello world").with_reasoning("hm").fail_with(1, Step::raw(pieces))]);
    world.wire.prompt_async(&session, "greet").await;
    gate.reached().await;
    events.wait(|event| event["properties"]["delta"] == "Hello ").await;
    gate.open();
    let told = events.wait(|event| event["properties"]["status"]["type"] == "retry").await;
    events.until_idle(&session).await;

    let status = &told["properties"]["status"];
    let as_it_came = r#"{"message":"Our servers are overloaded","code":"server_is_overloaded"}"#;
    assert_eq!((status["attempt"].as_u64(), status["message"].as_str()), (Some(1), Some(as_it_came)));
    assert!(status["next"].as_u64().is_some());
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!(answer["info"]["error"], Value::Null);
    let kinds: Vec<_> = answer["parts"].as_array().expect("parts").iter().map(|part| text(&part["type"])).collect();
    assert_eq!(kinds, ["step-start", "reasoning", "text", "step-finish"]);
    assert_eq!(said(&answer), "Hello world");
    assert_eq!(events.types(&session).iter().filter(|kind| *kind == "message.part.removed").count(), 2);
}

#[tokio::test]
async fn an_answer_that_breaks_off_behind_a_call_is_not_asked_for_again() {
    let (world, session) = reader().await;
    let mut events = world.events().await;
    let broken = Step::calls([call("read", json!({ "filePath": "a" })), call("read", json!({ "filePath": "b" }))]);
    world.model.script("broken", [broken.cut_at(support::At::CallName(1)), Step::text("done")]);

    let answer = world.wire.prompt(&session, "broken").await;

    assert_eq!(said(&answer), "done");
    events.until_idle(&session).await;
    let requests = world.model.requests_for("broken");
    assert_eq!(requests.len(), 2, "the call ran once");
    let told = requests[1].calls();
    assert!(told[0].2.as_ref().is_some_and(|result| result.contains("AAA")), "{told:?}");
    let parts: Vec<_> = world.wire.parts(&session).await.into_iter().filter(|part| part["type"] == "tool").collect();
    let ends: Vec<_> = parts.iter().map(|part| part["state"]["status"].as_str()).collect();
    assert_eq!(ends, [Some("completed"), Some("error")], "the half call is closed as not run");
    world.model.assert_legal();
}
