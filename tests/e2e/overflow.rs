//! Requests that are larger than the model's window: in whatever way a vendor says so, the session is compacted once and
//! the turn goes on, or ends with an error that names the limits.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Step;
use support::wire::text;

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
