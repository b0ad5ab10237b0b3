//! What goes wrong in one session stays there: crashes, stops, and waits of one leave the others and the queue alone.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, PATIENCE, Project, ScriptedModel, Step, Wire, alive, call, until_gone};

use crate::world::{World, said, troupe};

const QUEUED: usize = 10;

/// A world whose service is started with these fault points.
async fn faulty(faults: &str) -> World {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let service = troupe().env("TROUPE_FAULT", faults).start().await;
    let wire = service.wire(project.dir());
    let (_, report) = wire.get("/troupe/supervision").await;
    assert!(
        report["faults"].as_array().is_some_and(|points| !points.is_empty()),
        "built with --all-features: {report}"
    );
    World { model, project, service, wire }
}

/// Gives a session a prompt that runs and ten behind it.
async fn give_eleven(world: &World, session: &str, running: &Gate) {
    world.model.script("N0", [Step::text("reply 0").gate(running)]);
    world.wire.prompt_async(session, "N0.").await;
    for number in 1..=QUEUED {
        world.model.script(format!("N{number}."), [Step::text(format!("reply {number}"))]);
    }
    for number in 1..=QUEUED {
        world.wire.prompt_async(session, &format!("N{number}.")).await;
    }
}

/// All eleven are there, in order, each once, and the model was shown each.
async fn are_answered(world: &World, wire: &Wire, session: &str) {
    let messages = wire.messages(session).await;
    let asked: Vec<_> = messages.iter().filter(|m| m["info"]["role"] == "user").map(said).collect();
    assert_eq!(asked, (0..=QUEUED).map(|number| format!("N{number}.")).collect::<Vec<_>>());
    let last = messages.last().expect("an answer");
    assert_eq!((said(last), &last["info"]["error"]), (format!("reply {QUEUED}"), &Value::Null));
    let shown: String = world.model.requests().iter().map(|request| request.texts("user").join("\n")).collect();
    assert!((0..=QUEUED).all(|number| shown.contains(&format!("N{number}."))), "{shown}");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_session_that_panics_is_started_again_and_answers_all_that_was_accepted() {
    let world = faulty("session.step:panic:1:N0").await;
    let mut events = world.events().await;
    let other = world.wire.create_session().await;
    let (held, running) = (Gate::new(), Gate::new());
    world.model.script("other", [Step::text("untouched").gate(&held)]);
    world.wire.prompt_async(&other, "other").await;
    held.reached().await;
    let session = world.wire.create_session().await;

    give_eleven(&world, &session, &running).await;

    let told = events.wait(|e| e["type"] == "session.error" && e["properties"]["sessionID"] == *session).await;
    assert!(text(&told["properties"]["error"]["data"]["message"]).contains("crashed"), "{told}");
    running.open();
    events.until_idle(&session).await;
    are_answered(&world, &world.wire, &session).await;
    let (_, report) = world.wire.get("/troupe/supervision").await;
    assert_eq!(report["restarts"], 1, "{report}");
    assert_eq!(report["actors"][0]["name"], format!("session {session}"));
    // The other one did not notice.
    held.open();
    events.rewind();
    events.until_idle(&other).await;
    assert_eq!(said(&world.wire.messages(&other).await.pop().expect("an answer")), "untouched");
}

#[tokio::test]
async fn callers_of_a_session_that_panics_get_their_answers() {
    let world = faulty("session.step:panic:2:fragile").await;
    world.model.script("fragile", [Step::text("held")]);
    let session = world.wire.create_session().await;
    let (status, answer) = world.wire.post(&format!("/session/{session}/message"), prompt("fragile")).await;
    assert_eq!((status, said(&answer).as_str()), (200, "held"));
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn a_turn_that_panics_each_time_is_given_up_and_the_session_lives() {
    let world = faulty("session.step:panic:99:poison").await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;

    let answer = world.wire.prompt(&session, "poison").await;

    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    events.until_idle(&session).await;
    assert_eq!(said(&world.wire.prompt(&session, "harmless").await), "hello from the scripted model");
    let (_, report) = world.wire.get("/troupe/supervision").await;
    assert!((1..=5).contains(&report["restarts"].as_u64().unwrap_or_default()), "{report}");
}

fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

#[tokio::test]
async fn a_killed_service_answers_all_that_was_accepted_when_it_is_back() {
    let mut world = World::start().await;
    let running = Gate::new();
    let session = world.wire.create_session().await;
    give_eleven(&world, &session, &running).await;
    running.reached().await;

    world.service.kill9().await;
    running.open();
    world.service.restart().await;

    let wire = world.service.wire(world.project.dir());
    // The last of them waits for the end of all, also when it comes too late to see it.
    wire.prompt(&session, "N10.").await;
    let mut messages = wire.messages(&session).await;
    messages.truncate(messages.len() - 2);
    let asked: Vec<_> = messages.iter().filter(|m| m["info"]["role"] == "user").map(said).collect();
    assert_eq!(asked, (0..=QUEUED).map(|number| format!("N{number}.")).collect::<Vec<_>>());
    assert_eq!(said(messages.last().expect("an answer")), "reply 10");
    let first = messages.iter().find(|m| m["info"]["role"] == "assistant").expect("an answer");
    assert_eq!(first["info"]["error"]["name"], "MessageAbortedError", "the one that was being written is closed");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_stop_of_a_parent_withdraws_what_its_child_asks() {
    let world = World::with_config(json!({ "permission": { "bash": "ask" } })).await;
    let mut events = world.events().await;
    let task = json!({ "description": "d", "prompt": "child's work", "subagent_type": "general" });
    world.model.script("parent's work", [Step::calls([call("task", task)]), Step::text("never")]);
    let echo = call("bash", json!({ "command": "echo hi", "description": "x" }));
    world.model.script("child's work", [Step::calls([echo]), Step::text("never")]);
    let parent = world.wire.create_session().await;
    world.wire.prompt_async(&parent, "parent's work").await;
    let asked = events.wait_for("permission.asked").await["properties"].clone();
    let child = text(&asked["sessionID"]);
    assert_ne!(child, parent);

    let since = Instant::now();
    world.wire.abort(&parent).await;
    assert!(since.elapsed() < Duration::from_secs(5), "a stop has a limit: {:?}", since.elapsed());

    events.until_idle(&parent).await;
    events.rewind();
    events.until_idle(&child).await;
    assert_eq!(world.wire.permissions().await, [Value::Null; 0]);
    let path = format!("/permission/{}/reply", text(&asked["id"]));
    let (status, _) = world.wire.post(&path, json!({ "reply": "once" })).await;
    assert!(matches!(status, 404 | 409), "{status}");
    for session in [&parent, &child] {
        let last = world.wire.messages(session).await.pop().expect("a message");
        assert_eq!(last["info"]["error"]["name"], "MessageAbortedError");
        world.model.script("again", [Step::text("answered")]);
        assert_eq!(said(&world.wire.prompt(session, "again").await), "answered");
    }
    world.model.assert_legal();
}

#[tokio::test]
async fn a_stop_of_one_session_is_quick_and_does_not_disturb_the_stream_of_another() {
    let world = World::start().await;
    let mut events = world.events().await;
    let sleeping = format!("sleep 40{}", world.service.pid());
    world.model.script("sleeps", [Step::calls([call("bash", json!({ "command": sleeping, "description": "wait" }))])]);
    let stopped = world.wire.create_session().await;
    world.wire.prompt_async(&stopped, "sleeps").await;
    events.wait(|event| event["properties"]["part"]["state"]["status"] == "running").await;
    world.model.script("ticks", [Step::text("tick ").repeat(100).every(Duration::from_millis(20))]);
    let other = world.wire.create_session().await;
    let watch = tokio::spawn(watch(world.wire.clone(), other.clone()));
    world.wire.prompt_async(&other, "ticks").await;
    let of_other = |event: &Value| event["type"] == "message.part.delta" && event["properties"]["sessionID"] == *other;
    for _ in 0..10 {
        events.wait(of_other).await;
    }

    let since = Instant::now();
    world.wire.abort(&stopped).await;
    let took = since.elapsed();

    assert!(took < Duration::from_secs(3), "the stop took {took:?}");
    until_gone(&sleeping, PATIENCE).await;
    assert_eq!(alive(&sleeping), [0; 0]);
    let longest = watch.await.expect("the other's stream");
    assert!(longest < Duration::from_secs(1), "the other's stream paused for {longest:?}");
    assert_eq!(said(&world.wire.messages(&other).await.pop().expect("an answer")), "tick ".repeat(100));
}

/// Returns the longest time between two deltas of a session, until it is idle.
async fn watch(wire: Wire, session: String) -> Duration {
    let mut events = wire.events().await;
    let mut last: Option<Instant> = None;
    let mut longest = Duration::ZERO;
    loop {
        let event = events.wait(|event| event["properties"]["sessionID"] == *session).await;
        if event["type"] == "message.part.delta" {
            longest = longest.max(last.map_or(Duration::ZERO, |last| last.elapsed()));
            last = Some(Instant::now());
        }
        if event["type"] == "session.idle" {
            return longest;
        }
    }
}

#[tokio::test]
async fn many_sessions_work_at_once_and_each_gets_its_own_answer() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("all of you", [Step::text("here").gate(&gate)]);
    let mut callers = Vec::new();
    for _ in 0..40 {
        let wire = world.wire.clone();
        callers.push(tokio::spawn(async move {
            let session = wire.create_session().await;
            (wire.prompt(&session, "all of you").await, session)
        }));
    }
    // They are all in the model at once: nothing waits for a free place.
    gate.reached_by(40).await;
    gate.open();
    for caller in callers {
        let (answer, session) = caller.await.expect("a caller");
        assert_eq!((said(&answer).as_str(), text(&answer["info"]["sessionID"])), ("here", session));
    }
}
