//! Requests that are larger than the model's window: in whatever way a vendor says so, the session is compacted once and
//! the turn goes on, or ends with an error that names the limits.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, Request, Step, call};

use crate::world::{World, said};

/// In any message.
const ANY: &str = "";

/// The ways vendors say it.
fn refusals() -> [(&'static str, Step); 5] {
    let code = json!({ "code": "context_length_exceeded", "message": "odd text", "type": "invalid_request_error" });
    let long =
        json!({ "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum" });
    let kimi = json!({ "type": "invalid_request_error",
                       "message": "Invalid request: Your request exceeded model token limit: 131072" });
    [
        ("by a code", Step::status(400).body(json!({ "error": code }))),
        ("by a text", Step::status(400).body(json!({ "type": "error", "error": long }))),
        ("by a text of its own", Step::status(400).body(json!({ "error": kimi }))),
        ("by the status", Step::status(413).body(json!({ "error": { "message": "Payload too large" } }))),
        ("in the stream", Step::events([json!({ "error": code })])),
    ]
}

#[tokio::test]
async fn an_overflow_said_in_any_way_is_compacted_once_and_asked_again() {
    for (how, refusal) in refusals() {
        let world = World::start().await;
        let mut events = world.events().await;
        let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
        world.model.script("first", [Step::text("first answer")]);
        world.model.script("second", [Step::text("after compaction").fail_with(1, refusal)]);
        world.model.script_side("first", [Step::text("summary of it all")]);
        world.wire.prompt(&session, "first").await;

        let answer = world.wire.prompt(&session, "second").await;

        events.wait_for("session.compacted").await;
        assert_eq!((said(&answer).as_str(), &answer["info"]["error"]), ("after compaction", &Value::Null), "{how}");
        assert_eq!((world.model.requests().len(), world.model.side_requests().len()), (3, 1), "{how}");
    }
}

#[tokio::test]
async fn an_overflow_that_stays_ends_the_turn_with_its_error() {
    let world = World::start().await;
    let [(_, refusal), ..] = refusals();
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    world.model.script("first", [Step::text("first answer")]);
    world.model.script_side("first", [Step::text("summary of it all")]);
    world.wire.prompt(&session, "first").await;
    world.model.script(ANY, [refusal]);

    let answer = world.wire.prompt(&session, "second").await;

    assert_eq!(answer["info"]["error"]["name"], "ContextOverflowError", "{answer}");
    let (turns, sides) = (world.model.requests().len(), world.model.side_requests().len());
    assert!(turns <= 4 && sides <= 2, "{turns} requests, {sides} compactions");
}

/// A model that sees pictures, with these limits.
async fn seeing(limit: Value) -> World {
    let model = json!({ "limit": limit, "attachment": true, "modalities": { "input": ["text", "image"] } });
    World::with_config(json!({
        "permission": { "*": "allow" },
        "provider": { "mock": { "models": { "mock": model } } },
    }))
    .await
}

/// A prompt with a picture.
fn with_picture(text: &str) -> Value {
    let url = "data:image/png;base64,iVBORw0KGgo=";
    json!({ "parts": [
        { "type": "file", "mime": "image/png", "filename": "x.png", "url": url },
        { "type": "text", "text": text },
    ] })
}

fn holds_picture(request: &Request) -> bool {
    request.body.to_string().contains("image_url")
}

#[tokio::test]
async fn a_first_prompt_is_asked_whole_whatever_the_limits_say() {
    let limits = [
        json!({ "context": 32_768, "output": 32_768 }),
        json!({ "context": 32_768, "output": 0 }),
        json!({ "context": 8_192, "output": 16_384 }),
        json!({ "context": 32_768, "output": 32_768, "input": 100 }),
    ];
    for limit in limits {
        let context = limit["context"].as_u64().expect("a limit");
        let world = seeing(limit.clone()).await;
        world.project.write("f", "x");
        let read = || Step::calls([call("read", json!({ "filePath": "f" }))]);
        world.model.script("picture", [read(), read(), Step::text("a dog")]);
        let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);

        let answer = world.wire.prompt_with(&session, with_picture("a picture")).await;

        assert_eq!(said(&answer), "a dog", "{limit}");
        let requests = world.model.requests();
        assert_eq!((requests.len(), world.model.side_requests().len()), (3, 0), "{limit}");
        assert!(requests.iter().all(holds_picture), "{limit}");
        let most = |request: &Request| request.body["max_tokens"].as_u64();
        assert!(requests.iter().all(|r| most(r).is_some_and(|most| most > 0 && most <= context / 2)), "{limit}");
    }
}

#[tokio::test]
async fn a_first_prompt_that_does_not_fit_ends_with_an_error_that_says_what_is_too_large() {
    for (how, refusal) in refusals() {
        let world = seeing(json!({ "context": 100_000, "output": 8_000 })).await;
        let mut events = world.events().await;
        world.model.script("picture", [Step::text("never").fail_with(9, refusal)]);
        let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);

        let answer = world.wire.prompt_with(&session, with_picture("a picture")).await;

        events.until_idle(&session).await;
        let error = &answer["info"]["error"];
        assert_eq!(error["name"], "ContextOverflowError", "{how}: {answer}");
        let told = text(&error["data"]["message"]);
        assert!(told.contains("files in it: 1") && told.contains("100000"), "{how}: {told}");
        assert_eq!((world.model.requests().len(), world.model.side_requests().len()), (1, 0), "{how}");
    }
}

#[tokio::test]
async fn the_prompt_and_its_files_are_kept_over_an_overflow() {
    // Before its first step it is given once more, after it the turn goes on with its files.
    for (begun, text_of_it) in [(false, "a picture"), (true, "The earlier part")] {
        let world = seeing(json!({ "context": 100_000, "output": 8_000 })).await;
        world.project.write("f", "x");
        let [(_, refusal), ..] = refusals();
        let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
        world.model.script("first", [Step::text("first answer")]);
        world.model.script_side("", [Step::text("the notes")]);
        let read = Step::calls([call("read", json!({ "filePath": "f" }))]);
        let answer = Step::text("a dog").fail_with(1, refusal);
        world.model.script("picture", if begun { vec![read, answer] } else { vec![answer] });
        world.model.script("The earlier part", [Step::text("a dog")]);
        world.wire.prompt(&session, "first").await;

        let answer = world.wire.prompt_with(&session, with_picture("a picture")).await;

        assert_eq!(said(&answer), "a dog", "{answer}");
        let last = world.model.requests().pop().expect("a request");
        assert!(holds_picture(&last), "{}", last.body);
        let messages = last.body["messages"].as_array().expect("messages");
        let told = messages.iter().filter(|message| message["role"] == "user");
        assert_eq!(told.filter(|message| message.to_string().contains(text_of_it)).count(), 1, "{}", last.body);
        assert_eq!(world.model.side_requests().len(), 1);
        world.model.assert_legal();
    }
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_behind_a_summary_is_summarised_too_and_still_told_with_its_files() {
    let world = seeing(json!({ "context": 100_000, "output": 8_000 })).await;
    let [(_, refusal), ..] = refusals();
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    world.model.script("first", [Step::text("first answer")]);
    world.model.script_side("", [Step::text("the notes")]);
    world.model.script("WORD-MARK", [Step::text("never").fail_with(9, refusal)]);
    world.model.script("The earlier part", [Step::text("a dog")]);
    world.wire.prompt(&session, "first").await;

    let answer = world.wire.prompt_with(&session, with_picture("WORD-MARK")).await;

    assert_eq!(said(&answer), "a dog", "{answer}");
    assert_eq!((world.model.requests().len(), world.model.side_requests().len()), (4, 2));
    let last = world.model.requests().pop().expect("a request");
    assert!(holds_picture(&last), "{}", last.body);
    assert_eq!(last.body.to_string().matches("WORD-MARK").count(), 1, "{}", last.body);
    world.model.assert_legal();
}

#[tokio::test]
async fn prompts_that_are_answered_together_are_all_given_once_more() {
    let world = World::start().await;
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    let [(_, refusal), ..] = refusals();
    let gate = Gate::new();
    world.model.script("opening", [Step::text("begun").gate(&gate)]);
    world.model.script("two", [Step::text("both").fail_with(1, refusal)]);
    world.model.script_side("", [Step::text("the notes")]);
    let mut events = world.events().await;
    world.wire.prompt_async(&session, "opening").await;
    gate.reached().await;
    world.wire.prompt_async(&session, "one").await;
    world.wire.prompt_async(&session, "two").await;
    gate.open();

    events.wait_for("session.compacted").await;
    events.until_idle(&session).await;

    let last = world.model.requests().pop().expect("a request").body["messages"].to_string();
    for prompt in ["one", "two"] {
        assert_eq!(last.matches(&format!("\"{prompt}\"")).count(), 1, "{prompt}: {last}");
    }
    world.model.assert_legal();
}

#[tokio::test]
async fn a_window_that_is_smaller_than_configured_is_learned_and_both_are_named() {
    let models = json!({ "mock": { "limit": { "context": 32_768, "output": 2_048 } } });
    let world = World::with_config(json!({ "provider": { "mock": { "models": models } } })).await;
    let error = json!({ "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9_000, "n_ctx": 4_096,
                        "message": "the request exceeds the available context size (4096 tokens), try increasing it" });
    world.model.script(ANY, [Step::status(400).body(json!({ "error": error }))]);
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);

    let answer = world.wire.prompt(&session, "hello").await;

    let told = answer["info"]["error"].to_string();
    assert!(told.contains("4096") && told.contains("32768"), "{told}");
    assert!(world.model.requests().len() <= 3 && world.model.side_requests().len() <= 1);
    let (_, providers) = world.wire.get("/config/providers").await;
    let limit = |providers: &Value| providers["providers"][0]["models"]["mock"]["limit"]["context"].clone();
    assert_eq!(limit(&providers), 4_096, "{providers}");
}
