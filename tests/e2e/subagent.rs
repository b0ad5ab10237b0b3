//! Subagents that stall, fall, are deleted or stopped; and several clients of one session.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::model::Call;
use support::wire::text;
use support::{At, Events, Gate, Project, ScriptedModel, Step, call, until_alive, until_gone};

use crate::world::{World, failed, said, troupe};

/// Most time after which something that should be quick has been given up; quiet machines need a fraction.
const SOON: Duration = Duration::from_secs(5);

fn task(agent: &str, prompt: &str) -> Call {
    call("task", json!({ "description": "d", "subagent_type": agent, "prompt": prompt }))
}

/// Begins a parent whose only call is a task for a child that is told `child's work`. Returns both sessions.
async fn parent_and_child(world: &World, events: &mut Events) -> (String, String) {
    world.model.script("parent's work", [Step::calls([task("general", "child's work")]), Step::text("parent goes on")]);
    let parent = world.wire.create_session().await;
    world.wire.prompt_async(&parent, "parent's work").await;
    let child_of = |event: &Value| {
        event["type"] == "session.created" && event["properties"]["info"]["parentID"] == parent.as_str()
    };
    let child = text(&events.wait(child_of).await["properties"]["info"]["id"]);
    (parent, child)
}

/// Returns the parent's call when its turn is over and the parent has gone on.
async fn ended_call(world: &World, events: &mut Events, parent: &str) -> Value {
    events.until_idle(parent).await;
    let last = world.wire.messages(parent).await.pop().expect("an answer");
    assert_eq!(said(&last), "parent goes on");
    world.tool_parts(parent).await.pop().expect("a call")
}

#[tokio::test]
async fn one_that_stalls_is_ended_at_its_limit_and_what_it_said_goes_to_the_parent() {
    let world = World::with_config(json!({ "troupe": { "task": { "timeout_ms": 700 } } })).await;
    let mut events = world.events().await;
    world.model.script("child's work", [Step::text("partial words").chunks(2).hang_at(At::End)]);
    let (parent, child) = parent_and_child(&world, &mut events).await;
    let part = ended_call(&world, &mut events, &parent).await;
    let error = failed(&part);
    for told in [child.as_str(), "partial words", "time limit"] {
        assert!(error.contains(told), "{told}: {error}");
    }
    events.rewind();
    events.until_idle(&child).await;
}

#[tokio::test]
async fn a_stop_of_a_parent_stops_all_below_it_and_what_they_started() {
    let lead = json!({ "mode": "subagent", "description": "leads", "permission": { "task": "allow" } });
    let config = json!({ "permission": { "*": "allow" }, "subagent_depth": 4, "agent": { "lead": lead } });
    let world = World::with_config(config).await;
    let mut events = world.events().await;
    let wait = |seconds: &str| call("bash", json!({ "command": format!("sleep {seconds}"), "description": "wait" }));
    let marks = ["6071.31", "6071.32", "6071.33"];
    world.model.script("all", [Step::calls([task("general", "one"), task("general", "two"), task("lead", "three")])]);
    world.model.script("one", [Step::calls([wait(marks[0])])]);
    world.model.script("two", [Step::calls([wait(marks[1])])]);
    world.model.script("three", [Step::calls([task("general", "four")])]);
    world.model.script("four", [Step::calls([wait(marks[2])])]);
    let parent = world.wire.create_session().await;
    world.wire.prompt_async(&parent, "all").await;
    for mark in marks {
        until_alive(&format!("sleep {mark}"), support::PATIENCE).await;
    }
    world.wire.abort(&parent).await;
    for mark in marks {
        until_gone(&format!("sleep {mark}"), SOON).await;
    }
    events.until_idle(&parent).await;
    let (_, sessions) = world.wire.get("/session").await;
    let all: Vec<String> = sessions.as_array().expect("sessions").iter().map(|session| text(&session["id"])).collect();
    assert_eq!(all.len(), 5);
    for session in all {
        events.rewind();
        events.until_idle(&session).await;
        for part in world.tool_parts(&session).await {
            assert!(matches!(part["state"]["status"].as_str(), Some("completed" | "error")), "{part}");
        }
    }
    world.model.assert_legal();
}

#[tokio::test]
async fn one_that_is_deleted_while_its_parent_waits_is_an_error_the_parent_goes_on_with() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("child's work", [Step::text("x").hang_at(At::End)]);
    let (parent, child) = parent_and_child(&world, &mut events).await;
    world.model.wait_for_requests(2).await;
    let since = Instant::now();
    assert_eq!(world.wire.delete(&format!("/session/{child}")).await.0, 200);
    failed(&ended_call(&world, &mut events, &parent).await);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

#[tokio::test]
async fn one_that_falls_each_time_is_an_error_the_parent_goes_on_with() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let service = troupe().env("TROUPE_FAULT", "session.step:panic:9:child's work").start().await;
    let wire = service.wire(project.dir());
    let world = World { model, project, service, wire };
    let mut events = world.events().await;
    let (parent, _) = parent_and_child(&world, &mut events).await;
    failed(&ended_call(&world, &mut events, &parent).await);
}

#[tokio::test]
async fn one_that_is_stopped_may_be_stopped_again_and_the_parent_goes_on() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("child's work", [Step::text("x").hang_at(At::End)]);
    let (parent, child) = parent_and_child(&world, &mut events).await;
    world.model.wait_for_requests(2).await;
    for _ in 0..3 {
        let since = Instant::now();
        world.wire.abort(&child).await;
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
    failed(&ended_call(&world, &mut events, &parent).await);
}

#[tokio::test]
async fn two_clients_see_the_same_and_one_of_two_answers_counts() {
    let world = World::with_config(json!({ "permission": { "bash": "ask" } })).await;
    let mut one = world.events().await;
    let session = world.wire.create_session().await;
    let gate = Gate::new();
    let echo = call("bash", json!({ "command": "echo hi", "description": "x" }));
    world.model.script("first", [Step::calls([echo]), Step::text("tail").gate(&gate)]);
    world.wire.prompt_async(&session, "first").await;
    let asked = one.wait_for("permission.asked").await["properties"].clone();

    let mut two = world.events().await;
    assert_eq!(two.wait_for("permission.asked").await["properties"], asked);
    let path = format!("/permission/{}/reply", text(&asked["id"]));
    let reply = || world.wire.post(&path, json!({ "reply": "once" }));
    let (a, b) = tokio::join!(reply(), reply());
    let mut codes = [a.0, b.0];
    codes.sort_unstable();
    assert!(codes[0] == 200 && matches!(codes[1], 404 | 409), "{codes:?}");

    gate.reached().await;
    world.model.script("steer", [Step::text("steered")]);
    world.wire.prompt_async(&session, "steer").await;
    gate.open();
    for events in [&mut one, &mut two] {
        events.until_idle(&session).await;
    }
    let of_session = |events: &Events| {
        let own = |event: &Value| event["properties"]["sessionID"] == session.as_str();
        let all: Vec<Value> = events.all().into_iter().filter(own).collect();
        let from = all.iter().position(|event| event["type"] == "permission.replied").expect("a reply");
        all[from..].to_vec()
    };
    assert_eq!(of_session(&two), of_session(&one));
    assert_eq!(said(&world.wire.messages(&session).await.pop().expect("an answer")), "steered");
}

#[tokio::test]
async fn the_same_call_again_and_again_is_stopped_and_the_next_prompt_runs() {
    let world = World::with_config(json!({})).await;
    world.project.write("a", "AAA\n");
    let mut events = world.events().await;
    let read = || Step::calls([call("read", json!({ "filePath": "a" }))]);
    world.model.script("loop", (0..9).map(|_| read()));
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "loop").await;
    let asked = events.wait_for("permission.asked").await["properties"].clone();
    assert_eq!(asked["permission"], "doom_loop");
    world.wire.reply(&text(&asked["id"]), "reject").await;
    events.until_idle(&session).await;
    assert!(failed(&world.tool_parts(&session).await.pop().expect("a call")).contains("rejected"));
    assert_eq!(world.model.requests().len(), 3);
    world.model.script("try x", [Step::text("x tried")]);
    assert_eq!(said(&world.wire.prompt(&session, "try x").await), "x tried");
}
