//! What bounds a turn: an agent's steps, budgets, and how many requests may run at once.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{Gate, Step, call};

use crate::world::{World, calling, completed, failed, said};

/// A world where everything is allowed, with these settings.
async fn world(mut settings: Value) -> World {
    settings["permission"] = json!({ "*": "allow" });
    World::with_config(settings).await
}

fn read() -> Step {
    Step::calls([call("read", json!({ "filePath": "f" }))])
}

/// Returns why a turn ended before its time.
#[track_caller]
fn reason(answer: &Value) -> &str {
    answer["info"]["error"]["data"]["message"].as_str().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[tokio::test]
async fn at_the_step_limit_the_model_is_told_and_its_calls_are_not_run() {
    let world = world(json!({ "agent": { "build": { "steps": 2 } } })).await;
    world.project.write("f", "x");
    world.model.script("stubborn", [read(), read(), Step::text("never")]);
    world.model.script("sensible", [read(), Step::text("half done")]);
    let session = world.wire.create_session().await;

    let answer = world.wire.prompt(&session, "stubborn").await;

    assert!(reason(&answer).contains("2 steps"), "{answer}");
    let parts = world.tool_parts(&session).await;
    completed(&parts[0]);
    assert!(failed(&parts[1]).contains("not run"));
    assert_eq!(said(&world.wire.prompt(&session, "sensible").await), "half done");
    let told: Vec<bool> =
        world.model.requests_for("sensible").iter().map(|r| r.body.to_string().contains("last step")).collect();
    assert_eq!(told, [false, true]);
}

#[tokio::test]
async fn a_budget_that_is_used_up_ends_the_turn_and_a_prompt_that_raises_it_goes_on() {
    for scope in ["turn", "session", "tree", "day"] {
        let world = world(json!({ "troupe": { "budget": { (scope): { "steps": 2 } } } })).await;
        world.project.write("f", "x");
        world.model.script("long", [read(), read(), Step::text("never")]);
        world.model.script("more", [Step::text("went on")]);
        let session = world.wire.create_session().await;

        let answer = world.wire.prompt(&session, "long").await;

        assert!(reason(&answer).contains(&format!("troupe.budget.{scope}.steps")), "{answer}");
        assert_eq!(world.wire.get("/session/status").await, (200, json!({})));
        if scope != "turn" {
            assert!(reason(&world.wire.prompt(&session, "more").await).contains("2 of 2"));
        }
        let raised = json!({
            "parts": [{ "type": "text", "text": "more" }],
            "troupe": { "budget": { (scope): { "steps": 100 } } },
        });
        assert_eq!(said(&world.wire.prompt_with(&session, raised).await), "went on");
    }
}

#[tokio::test]
async fn what_subagents_spend_counts_for_the_tree_and_not_for_their_parent() {
    let task =
        || Step::calls([call("task", json!({ "description": "d", "prompt": "child", "subagent_type": "general" }))]);
    for (scope, ends) in [("tree", true), ("session", false)] {
        let world = world(json!({ "troupe": { "budget": { (scope): { "steps": 4 } } } })).await;
        world.project.write("f", "x");
        world.model.script("child", [read(), read(), Step::text("found")]);
        world.model.script("parent", [task(), Step::text("done")]);
        let session = world.wire.create_session().await;
        let answer = world.wire.prompt(&session, "parent").await;
        assert_eq!(answer["info"]["error"].is_object(), ends, "{scope}: {answer}");
    }
}

#[tokio::test]
async fn no_more_requests_run_at_once_than_allowed_and_who_waits_sees_its_position() {
    let world = world(json!({ "troupe": { "limits": { "requests": 1 } } })).await;
    let gate = Gate::new();
    world.model.script("first", [Step::text("one").gate(&gate)]);
    world.model.script("second", [Step::text("two")]);
    let mut events = world.events().await;
    let body = json!({ "title": "named" });
    let first = world.wire.create_session_with(body.clone()).await["id"].as_str().expect("an id").to_owned();
    let second = world.wire.create_session_with(body).await["id"].as_str().expect("an id").to_owned();
    world.wire.prompt_async(&first, "first").await;
    gate.reached().await;
    world.wire.prompt_async(&second, "second").await;

    let waits = events
        .wait(|e| e["properties"]["sessionID"] == *second && e["properties"]["status"]["position"].is_u64())
        .await;

    assert_eq!(waits["properties"]["status"], json!({ "type": "busy", "position": 1 }));
    assert_eq!(world.model.requests_for("second").len(), 0);
    gate.open();
    events.until_idle(&second).await;
    assert_eq!(world.model.most_open_requests(), 1);
}

#[tokio::test]
async fn results_of_old_turns_are_cleared_for_models_and_kept_for_people() {
    let world = world(json!({})).await;
    world.project.write("big", "a line of forty characters, more or less\n".repeat(1_200));
    let session = world.wire.create_session().await;
    for _ in 0..8 {
        world.wire.prompt(&session, &calling([("read", json!({ "filePath": "big" }))])).await;
    }

    let parts = world.tool_parts(&session).await;
    let is_cleared = |part: &Value| part["state"]["time"]["compacted"].is_u64();
    assert!(is_cleared(&parts[0]) && !is_cleared(&parts[7]) && !is_cleared(&parts[6]));
    assert!(parts[0]["state"]["output"].as_str().is_some_and(|output| output.len() > 40_000));
    world.model.script("what is left", [Step::text("little")]);
    world.wire.prompt(&session, "what is left").await;
    let asked = world.model.requests_for("what is left").pop().expect("a request").body.to_string();
    assert!(asked.contains("was cleared to make room"));
}
