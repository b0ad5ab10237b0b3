//! Subagents in the background: their parent goes on at once, and hears of their end, whatever falls in between.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Events, Gate, Step, call, until_alive, until_gone};

use crate::world::{World, completed, said};

/// What the subagent answers with.
const RESULT: &str = "result 4711";

/// Begins a parent that gives work away, and goes on without waiting; returns parent and child when the parent is idle.
async fn begin(world: &World, events: &mut Events) -> (String, String) {
    let task = call(
        "task",
        json!({ "description": "d", "subagent_type": "general", "prompt": "child's work", "background": true }),
    );
    world.model.script("parent's work", [Step::calls([task]), Step::text("parent goes on")]);
    world.model.script(RESULT, [Step::text("parent has it")]);
    let parent = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&parent, "parent's work").await), "parent goes on");
    events.until_idle(&parent).await;
    let part = world.tool_parts(&parent).await.remove(0);
    let state = completed(&part);
    let child = text(&state["metadata"]["sessionId"]);
    assert!(text(&state["output"]).contains(&format!("<task id=\"{child}\" state=\"running\">")), "{state}");
    (parent, child)
}

/// Waits until the parent has answered what it was told of its subagent, and returns that.
async fn heard(world: &World, events: &mut Events, parent: &str) -> Value {
    let is_answer = |event: &Value| {
        event["properties"]["part"]["sessionID"] == parent && event["properties"]["part"]["text"] == "parent has it"
    };
    events.wait(is_answer).await;
    events.until_idle(parent).await;
    let messages = world.wire.messages(parent).await;
    let told: Vec<&Value> =
        messages.iter().filter(|m| m["info"]["role"] == "user" && said(m).contains("<task ")).collect();
    assert_eq!(told.len(), 1, "it is told once: {messages:?}");
    assert_eq!(told[0]["parts"][0]["synthetic"], true);
    assert_eq!(said(messages.last().expect("an answer")), "parent has it");
    world.model.assert_legal();
    told[0].clone()
}

#[tokio::test]
async fn the_parent_goes_on_and_is_asked_again_with_the_result() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("child's work", [Step::text(RESULT).gate(&gate)]);
    let (parent, child) = begin(&world, &mut events).await;
    gate.reached().await;

    gate.open();

    let told = heard(&world, &mut events, &parent).await;
    assert!(said(&told).contains(&format!("<task id=\"{child}\" state=\"completed\">")), "{told}");
    let info = world.wire.session(&child).await;
    assert_eq!(info["parentID"], parent.as_str());
}

#[tokio::test]
async fn a_parent_that_is_at_work_is_told_at_its_next_step() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (child, other) = (Gate::new(), Gate::new());
    world.model.script("child's work", [Step::text(RESULT).gate(&child)]);
    let (parent, _) = begin(&world, &mut events).await;
    let glob = call("glob", json!({ "pattern": "*" }));
    world.model.script("more", [Step::calls([glob]).gate(&other), Step::text("never asked for")]);
    world.wire.prompt_async(&parent, "more").await;
    other.reached().await;

    child.open();
    let is_told = |event: &Value| {
        event["properties"]["part"]["sessionID"] == parent.as_str()
            && event["properties"]["part"]["text"].as_str().is_some_and(|text| text.contains(RESULT))
    };
    events.wait(is_told).await;
    other.open();

    heard(&world, &mut events, &parent).await;
    assert_eq!(world.model.requests_for("more").len(), 1);
}

#[tokio::test]
async fn it_goes_on_after_a_kill_and_its_parent_hears_of_it() {
    let mut world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("child's work", [Step::text(RESULT).gate(&gate)]);
    let (parent, _) = begin(&world, &mut events).await;
    gate.reached().await;

    world.service.kill9().await;
    let after = Gate::new();
    world.model.script("child's work", [Step::text(RESULT).gate(&after)]);
    world.service.restart().await;

    after.reached().await;
    let mut events = world.events().await;
    after.open();
    heard(&world, &mut events, &parent).await;
}

#[tokio::test]
async fn one_that_takes_too_long_is_stopped_with_what_it_started_and_its_parent_hears_what_it_had_said() {
    let world = World::with_config(json!({ "troupe": { "task": { "timeout_ms": 1500 } } })).await;
    let mut events = world.events().await;
    let wait = call("bash", json!({ "command": "sleep 6072.42", "description": "wait" }));
    world.model.script("child's work", [Step::text(RESULT).with_calls([wait])]);

    let (parent, child) = begin(&world, &mut events).await;

    let told = heard(&world, &mut events, &parent).await;
    for words in [&format!("<task id=\"{child}\" state=\"failed\">"), "time limit of 1.5 s", RESULT] {
        assert!(said(&told).contains(words), "{words}: {told}");
    }
    until_gone("sleep 6072.42", support::PATIENCE).await;
    let last = world.wire.messages(&child).await.pop().expect("an answer");
    assert_eq!(last["info"]["error"]["name"], "MessageAbortedError");
}

#[tokio::test]
async fn a_stop_of_its_parent_stops_it_and_wakes_nobody() {
    let world = World::start().await;
    let mut events = world.events().await;
    let wait = call("bash", json!({ "command": "sleep 6072.41", "description": "wait" }));
    world.model.script("child's work", [Step::calls([wait])]);
    let (parent, child) = begin(&world, &mut events).await;
    until_alive("sleep 6072.41", support::PATIENCE).await;

    world.wire.abort(&parent).await;

    until_gone("sleep 6072.41", support::PATIENCE).await;
    events.until_idle(&child).await;
    let is_told = |event: &Value| {
        event["properties"]["part"]["sessionID"] == parent.as_str()
            && event["properties"]["part"]["text"].as_str().is_some_and(|text| text.contains("state=\"failed\""))
    };
    events.rewind();
    events.wait(is_told).await;
    assert_eq!(world.wire.get("/session/status").await, (200, json!({})));
    let asked = world.model.requests().len();
    world.model.script("next", [Step::text("well")]);
    world.wire.prompt(&parent, "next").await;
    let requests = world.model.requests();
    assert_eq!(requests.len(), asked + 1);
    assert!(
        requests.last().expect("a request").body.to_string().contains("state=\\\"failed\\\""),
        "it hears of it now"
    );
}

#[tokio::test]
async fn one_that_fails_says_so() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    let refusal = json!({ "type": "invalid_request_error", "message": format!("no {RESULT}") });
    world.model.script("child's work", [Step::status(400).body(json!({ "error": refusal })).gate(&gate)]);
    let (parent, _) = begin(&world, &mut events).await;
    gate.open();
    let told = heard(&world, &mut events, &parent).await;
    assert!(said(&told).contains("state=\"failed\""), "{told}");
}
