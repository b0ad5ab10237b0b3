//! Requests that fail: which are tried again, how often and when, and what is told meanwhile.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{At, Events, Gate, Piece, Step, call};

use crate::world::{World, said};

/// A world with these settings of `troupe.retry` and of the provider.
async fn world(retry: Value, options: Value) -> World {
    let provider = json!({ "mock": { "options": options } });
    World::with_config(json!({ "permission": { "*": "allow" }, "troupe": { "retry": retry }, "provider": provider }))
        .await
}

/// Returns the statuses `retry` of a session so far.
fn retries(events: &Events, session: &str) -> Vec<Value> {
    let of = |event: &&Value| {
        event["properties"]["sessionID"] == session && event["properties"]["status"]["type"] == "retry"
    };
    events.all().iter().filter(of).map(|event| event["properties"]["status"].clone()).collect()
}

/// Prompts and returns the answer, an error, when the session is idle.
async fn fails(world: &World, events: &mut Events, prompt: &str) -> (String, Value) {
    let session = world.wire.create_session().await;
    let answer = world.wire.prompt(&session, prompt).await;
    let told = events.wait(|e| e["type"] == "session.error" && e["properties"]["sessionID"] == *session).await;
    events.until_idle(&session).await;
    assert_eq!(told["properties"]["error"], answer["info"]["error"], "what is told is what is stored");
    assert_eq!(world.wire.messages(&session).await.pop(), Some(answer.clone()));
    (session, answer)
}

#[tokio::test]
async fn a_failure_that_passes_is_tried_again_and_clients_see_when() {
    for status in [408, 409, 429, 500, 502, 503, 529] {
        let world = World::start().await;
        let mut events = world.events().await;
        world.model.script("shaky", [Step::text("hello").fail(2, status)]);
        let session = world.wire.create_session().await;

        let answer = world.wire.prompt(&session, "shaky").await;

        events.until_idle(&session).await;
        assert_eq!((said(&answer).as_str(), &answer["info"]["error"]), ("hello", &Value::Null), "{status}");
        assert_eq!(world.model.requests().len(), 3, "{status}");
        let told = retries(&events, &session);
        assert_eq!(told.iter().map(|status| status["attempt"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(told.iter().all(|status| status["message"] == "scripted failure"), "{told:?}");
        let next: Vec<_> = told.iter().map(|status| status["next"].as_u64()).collect();
        assert!(next.is_sorted() && next[0] > answer["info"]["time"]["created"].as_u64(), "{next:?}");
        assert_eq!(world.wire.messages(&session).await.len(), 2, "all tries are one answer");
    }
}

#[tokio::test]
async fn a_failure_that_stays_ends_the_turn_after_the_configured_tries() {
    let world = world(json!({ "max_attempts": 3 }), json!({})).await;
    let mut events = world.events().await;
    world.model.script("broken", [Step::status(500)]);

    let (session, answer) = fails(&world, &mut events, "broken").await;

    let error = &answer["info"]["error"];
    assert_eq!((error["name"].as_str(), error["data"]["statusCode"].as_u64()), (Some("APIError"), Some(500)));
    assert!(text(&error["data"]["message"]).contains("3 tries"), "{error}");
    assert_eq!((world.model.requests().len(), retries(&events, &session).len()), (3, 2));
    world.model.script("again", [Step::text("well")]);
    assert_eq!(said(&world.wire.prompt(&session, "again").await), "well");
    world.model.assert_legal();
}

#[tokio::test]
async fn the_default_is_five_tries() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("broken", [Step::status(503)]);
    fails(&world, &mut events, "broken").await;
    assert_eq!(world.model.requests().len(), 5);
}

#[tokio::test]
async fn a_refusal_is_not_tried_again() {
    for (status, kind) in [(400, "invalid_request_error"), (401, "x"), (403, "x"), (404, "x"), (422, "x")] {
        let world = World::start().await;
        let mut events = world.events().await;
        let body = json!({ "error": { "message": "not like this", "type": kind } });
        world.model.script("wrong", [Step::status(status).body(body)]);

        let (_, answer) = fails(&world, &mut events, "wrong").await;

        let error = &answer["info"]["error"];
        assert_eq!((error["name"].as_str(), error["data"]["isRetryable"].as_bool()), (Some("APIError"), Some(false)));
        assert_eq!((text(&error["data"]["message"]), world.model.requests().len()), ("not like this".into(), 1));
    }
}

#[tokio::test]
async fn a_wait_the_vendor_asks_for_is_kept_up_to_the_limit() {
    let world = world(json!({ "max_delay_ms": 10_000 }), json!({})).await;
    let mut events = world.events().await;
    let busy = |name: &str, value: &str| Step::status(429).header(name, value);
    world.model.script("soon", [Step::text("ok").fail_with(1, busy("retry-after-ms", "300"))]);
    let session = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&session, "soon").await), "ok");
    let requests = world.model.requests();
    assert!(requests[1].at - requests[0].at >= Duration::from_millis(300));

    world.model.script("tomorrow", [Step::text("never").fail_with(9, busy("retry-after", "86400"))]);
    let (_, answer) = fails(&world, &mut events, "tomorrow").await;
    let message = text(&answer["info"]["error"]["data"]["message"]);
    assert!(message.contains("86400 s") && message.contains("troupe.retry.max_delay_ms"), "{message}");
    assert_eq!(world.model.requests_for("tomorrow").len(), 1);
}

/// A model of the world's provider.
fn prompt_to(model: &str, prompt: &str) -> Value {
    let parts = json!([{ "type": "text", "text": prompt }]);
    json!({ "parts": parts, "model": { "providerID": "mock", "modelID": model } })
}

/// A world of two models, whose sessions have titles of their own.
async fn two_models(retry: Value) -> (World, String, String) {
    let model = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    let models = json!({ "one": model, "two": model });
    let config = json!({ "troupe": { "retry": retry }, "provider": { "mock": { "models": models } } });
    let world = World::with_config(config).await;
    let named = || world.wire.create_session_with(json!({ "title": "named" }));
    let (first, second) = (text(&named().await["id"]), text(&named().await["id"]));
    (world, first, second)
}

#[tokio::test]
async fn a_pause_longer_than_the_limit_ends_the_turns_of_all_sessions_of_its_model_at_once() {
    let (world, first, second) = two_models(json!({ "max_delay_ms": 500 })).await;
    let busy = Step::status(429).header("retry-after", "1000");
    world.model.script("refused", [Step::text("never").fail_with(9, busy)]);
    world.model.script("hello", [Step::text("well")]);
    let refused = world.wire.prompt_with(&first, prompt_to("one", "refused")).await;

    let begun = std::time::Instant::now();
    let same = world.wire.prompt_with(&second, prompt_to("one", "hello")).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited");

    let told = |answer: &Value| answer["info"]["error"]["data"]["message"].clone();
    assert_eq!(told(&same), told(&refused));
    assert!(text(&told(&same)).contains("1000 s, longer than troupe.retry.max_delay_ms"), "{same}");
    assert_eq!((world.model.requests_for("hello").len(), world.model.requests_for("refused").len()), (0, 1));
    let other = world.wire.prompt_with(&second, prompt_to("two", "hello")).await;
    assert_eq!(said(&other), "well", "another model of the account goes on");
}

#[tokio::test]
async fn who_waits_for_the_pause_of_another_session_shows_why_and_until_when() {
    let (world, first, second) = two_models(json!({})).await;
    let busy = Step::status(429).header("retry-after-ms", "5000");
    world.model.script("refused", [Step::text("at last").fail_with(1, busy)]);
    world.model.script("hello", [Step::text("well")]);
    let mut events = world.events().await;
    world.wire.prompt_async_with(&first, prompt_to("one", "refused")).await;
    let is_retry = |session: &str| {
        let session = session.to_owned();
        move |e: &Value| e["properties"]["sessionID"] == *session && e["properties"]["status"]["type"] == "retry"
    };
    let failed = events.wait(is_retry(&first)).await;

    let answer = world.wire.prompt_with(&second, prompt_to("one", "hello")).await;

    assert_eq!(said(&answer), "well");
    let waited = events.wait(is_retry(&second)).await;
    let (failed, waited) = (&failed["properties"]["status"], &waited["properties"]["status"]);
    assert_eq!((&waited["message"], &waited["attempt"]), (&failed["message"], &json!(1)));
    let (failed, waited) = (failed["next"].as_u64().expect("a time"), waited["next"].as_u64().expect("a time"));
    assert!(failed.abs_diff(waited) < 1_500, "{failed} {waited}");
    events.until_idle(&second).await;
    assert_eq!(retries(&events, &second).len(), 1, "told once");
    let statuses = |e: &&Value| e["type"] == "session.status" && e["properties"]["sessionID"] == *second;
    let mut told: Vec<Value> =
        events.all().iter().filter(statuses).map(|e| e["properties"]["status"]["type"].clone()).collect();
    told.dedup();
    assert_eq!(told, ["busy", "retry", "busy", "idle"]);
    assert_eq!(world.model.requests_for("hello").len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_lost_or_never_answers_whole_is_tried_again() {
    let ends = [
        Step::text("half").reset_at(At::Text(1)),
        Step::text("half").cut_at(At::Text(1)),
        Step::text("half").no_finish().cut_at(At::End),
        Step::raw([""; 0]),
        Step::empty().reset_at(At::Head),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let world = World::start().await;
        let mut events = world.events().await;
        world.model.script("lost", [Step::text("whole").fail_with(1, end)]);
        let session = world.wire.create_session().await;
        let answer = world.wire.prompt(&session, "lost").await;
        events.until_idle(&session).await;
        assert_eq!((said(&answer).as_str(), world.model.requests().len()), ("whole", 2), "end {number}");
        assert_eq!(retries(&events, &session).len(), 1, "end {number}");
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_fails_as_timed_out() {
    let world = world(json!({ "max_attempts": 2 }), json!({ "chunkTimeout": 300 })).await;
    let mut events = world.events().await;
    world.model.script("silent", [Step::text("one two").chunks(2).hang_at(At::Text(2))]);

    let (session, answer) = fails(&world, &mut events, "silent").await;

    let error = &answer["info"]["error"];
    assert_eq!(error["name"], "APIError");
    let message = text(&error["data"]["message"]);
    assert!(message.contains("timed out") && message.contains("chunkTimeout"), "{message}");
    assert_eq!((world.model.requests().len(), retries(&events, &session).len()), (2, 1));
    world.model.wait_for_dropped(2).await;
}

#[tokio::test]
async fn comments_and_empty_events_in_a_stream_are_no_progress_and_slow_words_are() {
    let world = world(json!({ "max_attempts": 1 }), json!({ "chunkTimeout": 1_500 })).await;
    let mut events = world.events().await;
    let word = |text: &str| {
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] });
        Piece::from(format!("data: {chunk}\n\n"))
    };
    for (name, empty) in [
        ("comments", ": keepalive\n\n"),
        ("pings", "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        ("empty deltas", "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"),
    ] {
        let alive = (0..100).map(|_| Piece::from(empty));
        let alive = Step::raw([word("one ")].into_iter().chain(alive)).every(Duration::from_millis(200));
        world.model.script(name, [alive]);
        let (_, answer) = fails(&world, &mut events, name).await;
        assert!(text(&answer["info"]["error"]["data"]["message"]).contains("timed out"), "{name}");
    }

    // Twice the limit in all, each pause well below it.
    let slow = Step::text("tick ").repeat(6).every(Duration::from_millis(500));
    world.model.script("slow", [slow]);
    let session = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&session, "slow").await), "tick ".repeat(6));
}

#[tokio::test]
async fn an_answer_that_does_not_begin_fails_as_timed_out() {
    let world = world(json!({ "max_attempts": 2 }), json!({ "headerTimeout": 300 })).await;
    let mut events = world.events().await;
    world.model.script("mute", [Step::silent()]);
    let (_, answer) = fails(&world, &mut events, "mute").await;
    let message = text(&answer["info"]["error"]["data"]["message"]);
    assert!(message.contains("timed out") && message.contains("headerTimeout"), "{message}");
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test]
async fn answers_in_a_row_that_break_off_behind_their_calls_end_the_turn() {
    let world = world(json!({ "max_attempts": 3 }), json!({})).await;
    let mut events = world.events().await;
    world.project.write("a", "AAA\n");
    let broken =
        || Step::calls([call("glob", json!({ "pattern": "*" })), call("read", json!({}))]).cut_at(At::CallName(1));
    world.model.script("forever", [broken()]);
    let (_, answer) = fails(&world, &mut events, "forever").await;
    assert_eq!(world.model.requests().len(), 3);
    assert!(text(&answer["info"]["error"]["data"]["message"]).contains("broke off"), "{answer}");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_step_in_the_middle_of_a_turn_is_tried_again_without_running_its_calls_twice() {
    let world = World::start().await;
    let append = call("bash", json!({ "command": "echo line >> log", "description": "append" }));
    world.model.script("append", [Step::calls([append]), Step::text("done").fail(3, 500)]);
    let session = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&session, "append").await), "done");
    assert_eq!(world.project.read("log"), "line\n");
    assert_eq!(world.model.requests().len(), 5);
}

#[tokio::test]
async fn one_session_that_waits_does_not_hold_up_another() {
    let world = world(json!({ "base_ms": 60_000 }), json!({})).await;
    let mut events = world.events().await;
    world.model.script("broken", [Step::status(500)]);
    let gate = Gate::new();
    world.model.script("fine", [Step::text("fine").gate(&gate)]);
    let waits = world.wire.create_session().await;
    world.wire.prompt_async(&waits, "broken").await;
    events.wait(|event| event["properties"]["status"]["type"] == "retry").await;
    gate.open();
    let other = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&other, "fine").await), "fine");
    assert_eq!(world.wire.get("/session/status").await.1[&waits]["type"], "retry");
    // A prompt that comes in the wait is kept.
    world.wire.prompt_async(&waits, "fine").await;
    world.wire.abort(&waits).await;
    events.until_idle(&waits).await;
    assert_eq!(said(&world.wire.messages(&waits).await.pop().expect("an answer")), "fine");
}

/// A world where these models answer when `mock/mock` fails.
async fn world_with_fallback(fallback: Value) -> World {
    let troupe = json!({ "retry": { "max_attempts": 2 }, "fallback": fallback });
    let dead = json!({
        "npm": "@ai-sdk/openai-compatible", "options": { "baseURL": "http://127.0.0.1:9/v1", "apiKey": "x" },
        "models": { "gone": {} },
    });
    let config = json!({ "permission": { "*": "allow" }, "troupe": troupe, "provider": { "dead": dead } });
    World::with_config(config).await
}

/// Returns the models of the requests so far.
fn asked(world: &World) -> Vec<String> {
    world.model.requests().iter().map(|request| text(&request.body["model"])).collect()
}

#[tokio::test]
async fn a_model_that_fails_for_good_is_replaced_for_the_rest_of_the_turn_and_clients_are_told() {
    for (how, refusal, times) in [("overloaded", Step::status(503), 2), ("the key", Step::status(401), 1)] {
        let world =
            world_with_fallback(json!(["mock/mock", "no/such", "dead/gone", "mock/small", "mock/vision"])).await;
        let mut events = world.events().await;
        let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
        let glob = call("glob", json!({ "pattern": "*" }));
        world.model.script("go", [Step::calls([glob]).fail_with(times, refusal), Step::text("done")]);

        let answer = world.wire.prompt(&session, "go").await;

        events.until_idle(&session).await;
        assert_eq!((said(&answer).as_str(), &answer["info"]["error"]), ("done", &Value::Null), "{how}");
        let mut expected = vec!["mock"; times as usize];
        expected.extend(["small", "small"]);
        assert_eq!(asked(&world), expected, "{how}");
        let messages = world.wire.messages(&session).await;
        let models: Vec<_> = messages.iter().map(|m| m["info"]["modelID"].as_str().unwrap_or_default()).collect();
        assert_eq!(models, ["", "small", "small"], "{how}");
        let starts = |message: &Value| {
            let parts = message["parts"].as_array().expect("parts");
            parts.iter().filter(|part| part["type"] == "step-start").count()
        };
        assert_eq!(messages.iter().map(starts).collect::<Vec<_>>(), [0, 1, 1], "{how}");
        let told = retries(&events, &session);
        let is_told = |next: &str| told.iter().any(|status| text(&status["message"]).contains(next));
        assert!(is_told("going on with dead/gone") && is_told("going on with mock/small"), "{how}: {told:?}");
        assert!(!events.all().iter().any(|event| event["type"] == "session.error"), "{how}");
        world.wire.prompt(&session, "again").await;
        assert_eq!(asked(&world).pop().as_deref(), Some("mock"), "{how}: the next turn asks who was asked");
    }
}

#[tokio::test]
async fn what_another_model_would_refuse_as_well_or_what_was_begun_is_not_given_to_one() {
    let bad = json!({ "type": "invalid_request_error", "message": "no" });
    let filter = json!({ "code": "content_filter", "message": "no" });
    for (how, step) in [
        ("a bad request", Step::status(400).body(json!({ "error": bad }))),
        ("a filter", Step::status(400).body(json!({ "error": filter }))),
        ("begun", Step::text("some words").chunks(2).cut_at(At::Text(1))),
    ] {
        let world = world_with_fallback(json!(["mock/small"])).await;
        world.model.script("go", [step]);
        let answer = world.wire.prompt(&world.wire.create_session().await, "go").await;
        assert!(!answer["info"]["error"].is_null(), "{how}");
        assert!(asked(&world).iter().all(|model| model == "mock"), "{how}: {:?}", asked(&world));
    }
}

#[tokio::test]
async fn when_all_models_fail_the_turn_ends_with_the_error_of_the_last() {
    let world = world_with_fallback(json!(["mock/small", "mock/vision"])).await;
    world.model.script("go", [Step::status(500)]);
    let session = world.wire.create_session().await;
    let answer = world.wire.prompt(&session, "go").await;
    assert_eq!(asked(&world), ["mock", "mock", "small", "small", "vision", "vision"]);
    assert_eq!((&answer["info"]["error"]["name"], &answer["info"]["modelID"]), (&json!("APIError"), &json!("vision")));
    assert_eq!(world.wire.messages(&session).await.len(), 2);
}
