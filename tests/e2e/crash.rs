//! What a `kill -9` or a crash of an actor may cost, and what it may not.

mod faults;
mod rig;
mod store;
mod terminal;

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{At, Events, Gate, PATIENCE, Step, alive, call, until_gone};

use crate::world::{World, completed, failed, said};

pub use store::database;

/// How long what a killed service started may live.
const LINGER: Duration = Duration::from_secs(5);

/// Returns a shell command that begins with this one, says `ready` and never ends; and the text that finds it.
fn endless(first: &str) -> (String, String) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mark = format!("sleep 7{:07}{:03}", std::process::id() % 10_000_000, NEXT.fetch_add(1, Ordering::Relaxed));
    (format!("{first}echo ready; {mark}"), mark)
}

/// Waits until the call of a session has printed `ready`.
async fn ready(events: &mut Events, session: &str) {
    events
        .wait(|event| {
            let part = &event["properties"]["part"];
            let output = part["state"]["metadata"]["output"].as_str().unwrap_or_default();
            part["sessionID"] == session && part["state"]["status"] == "running" && output.contains("ready")
        })
        .await;
}

/// Returns a step that says something and makes this call.
fn saying(words: &str, tool: &str, args: Value) -> Step {
    Step::text(words).with_calls([call(tool, args)])
}

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "test" })
}

/// Returns a world whose turns are closed, not gone on with, after a crash.
async fn interrupting() -> World {
    World::with_config(json!({ "permission": { "*": "allow" }, "troupe": { "recovery": "interrupt" } })).await
}

/// Fails where a message or a call of a session is still open.
async fn assert_settled(world: &World, session: &str) {
    for message in world.wire.messages(session).await {
        let info = &message["info"];
        assert!(info["role"] == "user" || info["time"]["completed"].is_u64(), "a message without an end: {info}");
        for part in message["parts"].as_array().into_iter().flatten().filter(|part| part["type"] == "tool") {
            let state = &part["state"];
            assert!(state["status"] == "completed" || state["status"] == "error", "an open call: {part}");
            assert!(state["time"]["end"].is_u64(), "a call without an end: {part}");
        }
    }
}

/// Fails where a call is not one whose outcome nobody knows.
#[track_caller]
fn assert_unknown(part: &Value) {
    let error = failed(part);
    assert!(error.contains("interrupted") && error.contains("unknown"), "{error}");
}

#[tokio::test]
async fn a_turn_goes_on_by_itself_after_the_service_was_killed_in_a_command() {
    let mut world = World::start().await;
    let mut events = world.events().await;
    let (command, mark) = endless("");
    world.model.script("long", [saying("I will run it. ", "bash", bash(&command)), Step::text("went on")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "long").await;
    ready(&mut events, &session).await;
    assert_ne!(alive(&mark), [0; 0]);

    world.service.kill9().await;
    until_gone(&mark, LINGER).await;
    let gate = Gate::new();
    world.model.script("long", [Step::text("never asked for"), Step::text("went on").gate(&gate)]);
    world.service.restart().await;

    assert_unknown(&world.tool_parts(&session).await[0]);
    let mut events = world.events().await;
    gate.reached().await;
    gate.open();
    events.until_idle(&session).await;
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!(said(&answer), "went on");
    let told = world.model.requests_for("long").pop().expect("a request").calls();
    assert!(told[0].2.as_ref().is_some_and(|result| result.contains("unknown")), "the model is told: {told:?}");
    assert_settled(&world, &session).await;
    world.model.script("hi", [Step::text("hi there")]);
    assert_eq!(said(&world.wire.prompt(&session, "hi").await), "hi there");
}

#[tokio::test]
async fn told_to_interrupt_it_closes_the_turn_and_keeps_text_and_call() {
    let mut world = interrupting().await;
    let mut events = world.wire.global_events().await;
    let (command, mark) = endless("");
    world.model.script("long", [saying("I will run it. ", "bash", bash(&command)), Step::text("went on")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "long").await;
    ready(&mut events, &session).await;
    let last = events.last_id().expect("an id");

    world.service.kill9().await;
    world.service.restart().await;

    assert_eq!(world.wire.get("/session/status").await, (200, json!({})), "nothing is busy");
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!(said(&answer), "I will run it. ");
    assert!(answer["info"]["error"]["name"].is_string(), "{answer}");
    let part = world.tool_parts(&session).await.remove(0);
    assert_unknown(&part);
    assert_eq!(part["state"]["input"], bash(&command));
    assert_settled(&world, &session).await;
    let mut again = world.wire.events_after("/global/event", &last).await;
    again.wait(|event| event["properties"]["part"] == part).await;
    assert_eq!(world.model.requests().len(), 1, "it did not go on");
    world.model.script("hi", [Step::text("hi there")]);
    assert_eq!(said(&world.wire.prompt(&session, "hi").await), "hi there");
    until_gone(&mark, LINGER).await;
}

#[tokio::test]
async fn text_that_a_client_could_read_survives_a_kill() {
    let mut world = interrupting().await;
    let gate = Gate::new();
    world.model.script("story", [Step::text("once upon a time").chunks(2).gate_at(At::Text(1), &gate)]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "story").await;
    gate.reached().await;
    // It is stored every second; a read shows what is stored.
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let seen = loop {
        ticks.tick().await;
        let messages = world.wire.messages(&session).await;
        match messages.last().filter(|message| message["info"]["role"] == "assistant").map(said) {
            Some(text) if !text.is_empty() => break text,
            _ => {}
        }
    };
    assert!("once upon a time".starts_with(&seen), "{seen}");

    world.service.kill9().await;
    world.service.restart().await;

    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert!(said(&answer).starts_with(&seen), "{answer}");
    assert!(answer["info"]["error"]["name"].is_string() && answer["info"]["time"]["completed"].is_u64(), "{answer}");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let mut world = World::start().await;
    let gate = Gate::new();
    world.model.script("keep me", [Step::text("kept").gate(&gate)]);
    let empty = world.wire.create_session().await;
    world.service.kill9().await;
    world.service.restart().await;
    assert_eq!(text(&world.wire.session(&empty).await["id"]), empty);

    let renamed = world.wire.create_session().await;
    world.wire.patch(&format!("/session/{renamed}"), json!({ "title": "a new name" })).await;
    let gone = world.wire.create_session().await;
    assert_eq!(world.wire.delete(&format!("/session/{gone}")).await.0, 200);
    let mut prompted = Vec::new();
    for _ in 0..6 {
        let session = world.wire.create_session().await;
        world.wire.prompt_async(&session, "keep me").await;
        prompted.push(session);
    }
    world.service.kill9().await;
    gate.open();
    world.service.restart().await;

    assert_eq!(world.wire.session(&renamed).await["title"], "a new name");
    assert_eq!(world.wire.get(&format!("/session/{gone}")).await.0, 404);
    for session in prompted {
        let messages = world.wire.messages(&session).await;
        assert_eq!(messages[0]["parts"][0]["text"], "keep me", "{session}");
        answered(&world, &session, "kept").await;
    }
}

/// Waits until the last message of a session says this.
async fn answered(world: &World, session: &str, text: &str) {
    let mut events = world.wire.events().await;
    loop {
        let messages = world.wire.messages(session).await;
        let last = messages.last().expect("a message");
        if last["info"]["time"]["completed"].is_u64() && said(last) == text {
            return;
        }
        events.until_idle(session).await;
    }
}

#[tokio::test]
async fn a_command_whose_effect_is_there_is_not_run_again() {
    let mut world = World::start().await;
    let mut events = world.events().await;
    let (command, mark) = endless("echo line >> f; ");
    world.model.script("append", [Step::calls([call("bash", bash(&command))]), Step::text("went on")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "append").await;
    ready(&mut events, &session).await;

    world.service.kill9().await;
    world.service.restart().await;

    answered(&world, &session, "went on").await;
    assert_eq!(world.project.read("f"), "line\n");
    assert_unknown(&world.tool_parts(&session).await[0]);
    until_gone(&mark, LINGER).await;
}

#[tokio::test]
async fn a_call_that_changes_nothing_runs_again_and_one_that_has_ended_stays() {
    let mut world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    let gate = Gate::new();
    let page = Step::raw(["slow page"]).header("content-type", "text/plain").gate_at(At::Head, &gate);
    world.model.page("/slow", page);
    world.model.script(
        "look",
        [
            Step::calls([
                call("read", json!({ "filePath": "a.txt" })),
                call("webfetch", json!({ "url": world.model.url("/slow"), "format": "text" })),
            ]),
            Step::text("looked"),
        ],
    );
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "look").await;
    events.wait(|event| event["properties"]["part"]["state"]["status"] == "completed").await;
    gate.reached().await;

    world.service.kill9().await;
    world.project.write("a.txt", "changed\n");
    world.service.restart().await;
    gate.reached_by(2).await;
    gate.open();

    answered(&world, &session, "looked").await;
    let parts = world.tool_parts(&session).await;
    assert!(text(&completed(&parts[0])["output"]).contains("alpha"), "its result was stored: {}", parts[0]);
    assert!(text(&completed(&parts[1])["output"]).contains("slow page"), "{}", parts[1]);
}

#[tokio::test]
async fn a_call_whose_arguments_never_came_is_not_run() {
    let mut world = World::start().await;
    let gate = Gate::new();
    let write = json!({ "filePath": "f", "content": "x" });
    world.model.script(
        "write",
        [Step::calls([call("write", write)]).gate_at(At::CallName(0), &gate), Step::text("never asked for")],
    );
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "write").await;
    gate.reached().await;
    events.wait(|event| event["properties"]["part"]["state"]["status"] == "pending").await;

    world.service.kill9().await;
    world.model.script("write", [Step::text("did without")]);
    world.service.restart().await;

    answered(&world, &session, "did without").await;
    let parts = world.tool_parts(&session).await;
    assert!(failed(&parts[0]).contains("not run"), "{}", parts[0]);
    assert!(!world.project.exists("f"));
    assert_settled(&world, &session).await;
}

#[tokio::test]
async fn told_to_end_it_leaves_turns_open_and_goes_on_with_them() {
    let mut world = World::start().await;
    let mut events = world.events().await;
    let (command, mark) = endless("");
    world.model.script("long", [Step::calls([call("bash", bash(&command))]), Step::text("went on")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "long").await;
    ready(&mut events, &session).await;

    let status = world.service.terminate().await;

    assert_eq!(status.code(), Some(0), "{status}");
    events.until_end().await;
    until_gone(&mark, PATIENCE).await;
    world.service.restart().await;
    answered(&world, &session, "went on").await;
    assert_unknown(&world.tool_parts(&session).await[0]);
}

#[tokio::test]
async fn while_a_model_fails_the_service_can_be_told_to_end_and_marks_the_turn() {
    let retry = json!({ "max_attempts": 100, "base_ms": 60_000 });
    let config = json!({ "permission": { "*": "allow" }, "troupe": { "recovery": "interrupt", "retry": retry } });
    let mut world = World::with_config(config).await;
    let mut events = world.events().await;
    world.model.script("down", [Step::status(503)]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "down").await;
    events.wait(|event| event["properties"]["status"]["type"] == "retry").await;

    assert_eq!(world.service.terminate().await.code(), Some(0));
    world.service.restart().await;

    assert_eq!(world.wire.get("/session/status").await, (200, json!({})));
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert!(answer["info"]["error"]["name"].is_string() && answer["info"]["time"]["completed"].is_u64(), "{answer}");
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn a_command_whose_turn_fails_says_why_and_ends_with_an_error() {
    let world = World::start().await;
    let refused =
        json!({ "error": { "message": "no such thing", "type": "invalid_request_error", "code": "refused" } });
    let in_the_stream =
        Step::events([json!({ "choices": [{ "index": 0, "delta": { "content": "some " } }] }), refused.clone()]);
    for (step, said) in [(in_the_stream, "no such thing"), (Step::status(400).body(refused), "no such thing")] {
        world.model.script("fail", [step]);
        let run = &["run", "--format", "json", "fail"];
        let ran = world.service.home().run(env!("CARGO_BIN_EXE_troupe"), world.project.dir(), run).await;

        assert_eq!(ran.status.code(), Some(1), "{}", ran.stdout);
        let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let error = lines.iter().find(|line| line["type"] == "error").unwrap_or_else(|| panic!("no error: {lines:?}"));
        assert!(error.to_string().contains(said), "{error}");
    }
}
