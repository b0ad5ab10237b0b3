//! Crashes at chosen points: builds with the feature `faults` only.
#![cfg(feature = "faults")]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::{Method, text};
use support::{Gate, Project, ScriptedModel, Step, call};

use super::{answered, assert_settled, assert_unknown, bash};
use crate::world::{World, completed, said, troupe};

/// Returns a world whose service does this at its fault points.
async fn faulty(fault: &str) -> World {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let service = troupe().env("TROUPE_FAULT", fault).start().await;
    let wire = service.wire(project.dir());
    World { model, project, service, wire }
}

/// Gives a prompt that ends the service, and waits for that: the prompt is accepted, its answer may be lost.
async fn end_with(world: &World, session: &str) {
    let (wire, session) = (world.wire.clone(), session.to_owned());
    let sent = tokio::spawn(async move { wire.prompt_async(&session, "FAULT").await });
    world.service.end().await;
    let _ = sent.await;
}

async fn restarts(world: &World) -> u64 {
    world.wire.get("/troupe/supervision").await.1["restarts"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_crash_of_one_session_is_told_and_touches_no_other() {
    let world = faulty("session.step:panic:1:FAULT").await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("other", [Step::text("b ").repeat(20).gate_at(support::At::Text(10), &gate)]);
    world.model.script("FAULT", [Step::text("survived")]);
    let (other, session) = (world.wire.create_session().await, world.wire.create_session().await);
    world.wire.prompt_async(&other, "other").await;
    gate.reached().await;

    let answer = world.wire.prompt(&session, "FAULT").await;

    let of_session = |event: &Value| event["properties"]["sessionID"] == *session;
    events.wait(|event| event["type"] == "session.error" && of_session(event)).await;
    assert_eq!(said(&answer), "survived");
    assert_eq!(restarts(&world).await, 1);
    world.model.script("next", [Step::text("fine")]);
    assert_eq!(said(&world.wire.prompt(&session, "next").await), "fine");
    gate.open();
    events.rewind();
    events.until_idle(&other).await;
    let streamed: String = world.wire.parts(&other).await.iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(streamed, format!("other{}", "b ".repeat(20)));
}

#[tokio::test]
async fn a_turn_that_crashes_each_time_is_given_up_and_the_next_one_runs() {
    let world = faulty("session.step:panic:100:FAULT").await;
    let session = world.wire.create_session().await;

    let answer = world.wire.prompt(&session, "FAULT").await;

    assert!(answer["info"]["error"]["name"].is_string(), "{answer}");
    assert!(restarts(&world).await <= 3, "it is given up soon");
    assert_eq!(world.wire.get("/session/status").await, (200, json!({})));
    assert_settled(&world, &session).await;
    world.model.script("next", [Step::text("fine")]);
    assert_eq!(said(&world.wire.prompt(&session, "next").await), "fine");
}

#[tokio::test]
async fn a_turn_that_kills_the_service_each_time_is_given_up_and_others_finish() {
    for order in [["calm", "FAULT"], ["FAULT", "calm"]] {
        let mut world = faulty("").await;
        let gates = order.map(|prompt| {
            let gate = Gate::new();
            world.model.script(prompt, [Step::text(format!("{prompt} answered")).gate(&gate)]);
            gate
        });
        let sessions = [world.wire.create_session().await, world.wire.create_session().await];
        let of = |prompt| sessions[usize::from(order[1] == prompt)].clone();
        let (calm, deadly) = (of("calm"), of("FAULT"));
        for (session, (prompt, gate)) in sessions.iter().zip(order.iter().zip(&gates)) {
            world.wire.prompt_async(session, prompt).await;
            gate.reached().await;
        }
        world.service.kill9().await;
        gates.iter().for_each(Gate::open);
        world.service.set_env("TROUPE_FAULT", "session.step:kill:1:FAULT");
        for _ in 0..2 {
            world.service.restart_and_end().await;
        }
        world.service.restart().await;

        answered(&world, &calm, "calm answered").await;
        let given_up = world.wire.messages(&deadly).await.pop().expect("a message");
        assert!(given_up["info"]["error"]["name"].is_string(), "{given_up}");
        assert_settled(&world, &deadly).await;
    }
}

#[tokio::test]
async fn what_took_effect_before_the_service_was_killed_is_not_done_again() {
    let cases = [
        ("bash", bash("echo line >> f"), "old\nline\n"),
        ("edit", json!({ "filePath": "f", "oldString": "old", "newString": "old old" }), "old old\n"),
        ("write", json!({ "filePath": "f", "content": "new" }), "new"),
    ];
    for (tool, args, left) in cases {
        let mut world = faulty("tool.commit:kill:1:FAULT").await;
        world.project.write("f", "old\n");
        world.model.script("FAULT", [Step::calls([call(tool, args)]), Step::text("went on")]);
        let session = world.wire.create_session().await;
        world
            .wire
            .prompt(
                &session,
                "read it SCRIPT:[{\"tools\":[{\"name\":\"read\",\"args\":{\"filePath\":\"f\"}}]},{\"text\":\"read\"}]",
            )
            .await;
        let first = world.tool_parts(&session).await.len();
        end_with(&world, &session).await;
        world.service.set_env("TROUPE_FAULT", "");
        world.service.restart().await;

        answered(&world, &session, "went on").await;
        assert_eq!(world.project.read("f"), left, "{tool}");
        assert_unknown(&world.tool_parts(&session).await[first]);
    }
}

#[tokio::test]
async fn what_changes_nothing_is_done_again_without_asking_again() {
    let mut world = faulty("tool.commit:kill:1:FAULT").await;
    world.project.write("f", "alpha\n");
    world.model.script("FAULT", [Step::calls([call("read", json!({ "filePath": "f" }))]), Step::text("went on")]);
    let rules = json!([{ "permission": "read", "pattern": "*", "action": "ask" }]);
    let session = world.wire.create_session_with(json!({ "permission": rules })).await["id"].clone();
    let session = text(&session);
    let mut events = world.events().await;
    world.wire.prompt_async(&session, "FAULT").await;
    let asked = events.wait_for("permission.asked").await["properties"]["id"].clone();
    let path = format!("/permission/{}/reply", text(&asked));
    let _ = world.wire.send(Method::POST, &path, Some(&json!({ "reply": "once" }))).await;
    world.service.end().await;
    world.service.set_env("TROUPE_FAULT", "");
    world.service.restart().await;

    answered(&world, &session, "went on").await;
    assert!(completed(&world.tool_parts(&session).await[0])["output"].to_string().contains("alpha"));
}
