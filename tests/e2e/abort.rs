//! An abort in each phase of a turn: what is left is closed, what was said is kept, and the session goes on.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{At, Events, Gate, PATIENCE, Step, alive, call, until_gone};

use crate::world::{World, said};

/// Aborts, and returns the answer that was stopped when the session is idle. Checks what holds for every abort.
async fn abort(world: &World, events: &mut Events, session: &str) -> Value {
    events.skip();
    world.wire.abort(session).await;
    // What the abort stored is there when it is answered.
    let answer = world.wire.messages(session).await.pop().expect("a message");
    assert_eq!(answer["info"]["role"], "assistant");
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    assert!(answer["info"]["time"]["completed"].is_u64(), "{answer}");
    for part in answer["parts"].as_array().expect("parts") {
        let status = part["state"]["status"].as_str().unwrap_or("completed");
        assert!(matches!(status, "completed" | "error"), "a part is left open: {part}");
        assert!(part["type"] != "text" || part["time"]["end"].is_u64(), "a text is left open: {part}");
    }
    events.wait(|event| event["type"] == "session.error" && event["properties"]["sessionID"] == session).await;
    events.until_idle(session).await;
    assert_eq!(world.wire.get("/session/status").await.1, json!({}));
    assert_eq!(world.wire.permissions().await, [Value::Null; 0]);
    answer
}

/// Prompts again, and checks that the model is asked in a legal way and heard.
async fn goes_on(world: &World, session: &str) {
    world.model.script("again", [Step::text("answered")]);
    assert_eq!(said(&world.wire.prompt(session, "again").await), "answered");
    world.model.assert_legal();
}

fn tool(answer: &Value, number: usize) -> Value {
    let parts = answer["parts"].as_array().expect("parts");
    parts.iter().filter(|part| part["type"] == "tool").nth(number).expect("a call").clone()
}

#[tokio::test]
async fn before_the_first_word_nothing_was_said_and_nothing_is_sent_back() {
    for step in [Step::silent(), Step::hang()] {
        let world = World::start().await;
        let mut events = world.events().await;
        world.model.script("late", [step]);
        let session = world.wire.create_session().await;
        world.wire.prompt_async(&session, "late").await;
        world.model.wait_for_requests(1).await;

        let answer = abort(&world, &mut events, &session).await;

        assert_eq!(said(&answer), "");
        world.model.wait_for_dropped(1).await;
        goes_on(&world, &session).await;
        assert_eq!(world.model.requests().len(), 2);
    }
}

#[tokio::test]
async fn in_the_middle_of_a_text_what_was_shown_is_kept_and_sent_back() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("long", [Step::text("one two ").repeat(2).hang_at(At::Text(2))]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "long").await;
    let mut shown = String::new();
    while shown != "one two one two " {
        let delta = events.wait_for("message.part.delta").await;
        shown += delta["properties"]["delta"].as_str().unwrap_or_default();
    }

    let answer = abort(&world, &mut events, &session).await;

    assert_eq!(said(&answer), shown);
    assert_eq!(answer["info"]["finish"], Value::Null);
    goes_on(&world, &session).await;
    let told = world.model.requests_for("again").pop().expect("a request");
    assert!(told.texts("assistant").join("").contains("one two"), "{:?}", told.texts("assistant"));
}

#[tokio::test]
async fn in_the_middle_of_a_calls_arguments_the_call_is_closed_as_not_run() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("half", [Step::calls([call("read", json!({ "filePath": "a" }))]).hang_at(At::CallName(0))]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "half").await;
    events.wait(|event| event["properties"]["part"]["state"]["status"] == "pending").await;

    let answer = abort(&world, &mut events, &session).await;

    let state = &tool(&answer, 0)["state"];
    assert_eq!((&state["status"], &state["metadata"]["interrupted"]), (&json!("error"), &json!(true)));
    goes_on(&world, &session).await;
}

#[tokio::test]
async fn while_tools_run_they_are_ended_and_each_call_has_a_result() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.project.write("a", "AAA\n");
    let command = format!("echo begun; sleep 30{}; echo never", world.service.pid());
    let calls = [
        call("bash", json!({ "command": command, "description": "wait" })),
        call("read", json!({ "filePath": "a" })),
        call("webfetch", json!({ "url": world.model.url("/slow"), "format": "text" })),
    ];
    let gate = Gate::new();
    world.model.page("/slow", Step::raw(["late"]).header("content-type", "text/plain").gate(&gate));
    world.model.script("work", [Step::calls(calls), Step::text("never")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "work").await;
    gate.reached().await;
    events.wait(|event| event["properties"]["part"]["state"]["metadata"]["output"] == "begun\n").await;
    events.rewind();
    events.wait(|event| event["properties"]["part"]["state"]["title"].is_string()).await;
    let sleeping = format!("sleep 30{}", world.service.pid());
    assert_eq!(alive(&sleeping).len(), 2, "the shell and its command");

    let answer = abort(&world, &mut events, &session).await;

    until_gone(&sleeping, PATIENCE).await;
    let bash = tool(&answer, 0);
    assert_eq!(bash["state"]["status"], "completed", "it gave what it had printed");
    let output = text(&bash["state"]["output"]);
    assert!(output.starts_with("begun") && output.to_lowercase().contains("abort"), "{output}");
    assert_eq!(tool(&answer, 1)["state"]["status"], "completed");
    let fetch = tool(&answer, 2);
    assert_eq!(
        (&fetch["state"]["status"], &fetch["state"]["metadata"]["interrupted"]),
        (&json!("error"), &json!(true))
    );
    goes_on(&world, &session).await;
    let told = world.model.requests_for("again").pop().expect("a request").calls();
    assert_eq!(told.iter().filter(|(_, _, result)| result.is_some()).count(), 3);
}

#[tokio::test]
async fn while_a_permission_is_asked_for_the_request_is_withdrawn() {
    let world = World::with_config(json!({ "permission": { "bash": "ask" } })).await;
    let mut events = world.events().await;
    let calls = ["echo one", "echo two"].map(|line| call("bash", json!({ "command": line, "description": "x" })));
    world.model.script("ask me", [Step::calls(calls), Step::text("never")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "ask me").await;
    let first = text(&events.wait_for("permission.asked").await["properties"]["id"]);
    let second = text(&events.wait_for("permission.asked").await["properties"]["id"]);

    let answer = abort(&world, &mut events, &session).await;

    events.rewind();
    for asked in [&first, &second] {
        let told = events.wait(|e| e["type"] == "permission.replied" && e["properties"]["requestID"] == **asked).await;
        assert_eq!(told["properties"]["reply"], "reject");
        let (status, _) = world.wire.post(&format!("/permission/{asked}/reply"), json!({ "reply": "once" })).await;
        assert!(matches!(status, 404 | 409), "a reply to what was withdrawn is refused: {status}");
    }
    for number in 0..2 {
        assert_eq!(tool(&answer, number)["state"]["status"], "error");
    }
    goes_on(&world, &session).await;
}

#[tokio::test]
async fn while_a_question_waits_it_is_withdrawn() {
    let world = World::start().await;
    let mut events = world.events().await;
    let question =
        json!({ "question": "which?", "header": "Which", "options": [{ "label": "a", "description": "A" }] });
    world.model.script("ask me", [Step::calls([call("question", json!({ "questions": [question] }))])]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "ask me").await;
    let asked = text(&events.wait_for("question.asked").await["properties"]["id"]);

    let answer = abort(&world, &mut events, &session).await;

    events.rewind();
    events.wait(|e| e["type"] == "question.rejected" && e["properties"]["requestID"] == *asked).await;
    assert_eq!(world.wire.get("/question").await.1, json!([]));
    assert_eq!(tool(&answer, 0)["state"]["status"], "error");
    goes_on(&world, &session).await;
}

#[tokio::test]
async fn in_the_wait_for_another_try_there_is_no_other_try() {
    let world = World::with_config(json!({ "troupe": { "retry": { "base_ms": 60_000 } } })).await;
    let mut events = world.events().await;
    world.model.script("broken", [Step::status(500)]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "broken").await;
    events.wait(|event| event["properties"]["status"]["type"] == "retry").await;
    assert_eq!(world.wire.get("/session/status").await.1[&session]["type"], "retry");

    abort(&world, &mut events, &session).await;

    goes_on(&world, &session).await;
    assert_eq!(world.model.requests_for("broken").len(), 1);
}

#[tokio::test]
async fn at_any_moment_the_stored_turn_is_whole() {
    let world = World::start().await;
    let session = world.wire.create_session_with(json!({ "title": "named" })).await;
    let session = text(&session["id"]);
    let mine = |event: &Value| event["properties"]["sessionID"] == *session;
    for round in 0..40 {
        let mut events = world.events().await;
        let name = format!("round {round}.");
        let write = call("write", json!({ "filePath": format!("{round}.txt"), "content": "x\n" }));
        world.model.script(&name, [Step::calls([write]), Step::text("done")]);
        let (wire, id, body) = (world.wire.clone(), session.clone(), name.clone());
        let caller = tokio::spawn(async move { wire.prompt(&id, &body).await });
        // It comes behind the first event of the turn, behind the second, and so on.
        for _ in 0..=round {
            if events.wait(mine).await["type"] == "session.idle" {
                break;
            }
        }

        world.wire.abort(&session).await;

        let answer = caller.await.expect("a caller");
        let messages = world.wire.messages(&session).await;
        let last = messages.last().expect("a message");
        assert_eq!(last["info"]["id"], answer["info"]["id"], "{name}");
        match answer["info"]["error"]["name"].as_str() {
            None => assert_eq!(said(&answer), "done", "{name}"),
            Some(error) => assert_eq!(error, "MessageAbortedError", "{name}"),
        }
        for message in messages.iter().filter(|message| message["info"]["role"] == "assistant") {
            assert!(message["info"]["time"]["completed"].is_u64(), "{name} leaves this open: {message}");
            let calls = message["parts"].as_array().expect("parts").iter().filter(|part| part["type"] == "tool");
            let is_open = |part: &Value| matches!(part["state"]["status"].as_str(), Some("pending" | "running"));
            assert!(!calls.into_iter().any(is_open), "{name} leaves a call open: {message}");
        }
    }
    goes_on(&world, &session).await;
}

#[tokio::test]
async fn of_a_session_that_does_nothing_or_is_not_there_it_is_an_answer() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    for _ in 0..2 {
        assert_eq!(world.wire.post(&format!("/session/{session}/abort"), json!({})).await, (200, json!(true)));
    }
    assert_eq!(world.wire.messages(&session).await, [Value::Null; 0]);
    let (status, _) = world.wire.post("/session/ses_0123456789abABCDEFGHIJKLMN/abort", json!({})).await;
    assert!(matches!(status, 200 | 404), "{status}");
    goes_on(&world, &session).await;
}

#[tokio::test]
async fn of_a_command_the_person_runs_themself_it_ends_the_command_and_prompts_behind_it_run() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("after it", [Step::text("answered")]);
    let session = world.wire.create_session().await;
    let sleeping = format!("sleep 50{}", world.service.pid());
    let body = json!({ "agent": "build", "command": format!("echo begun; {sleeping}") });
    let (wire, path) = (world.wire.clone(), format!("/session/{session}/shell"));
    let command = tokio::spawn(async move { wire.post(&path, body).await });
    events.wait(|event| event["properties"]["part"]["state"]["metadata"]["output"] == "begun\n").await;
    world.wire.prompt_async(&session, "after it").await;
    assert_eq!(world.model.requests().len(), 0, "one thing at a time");

    world.wire.abort(&session).await;

    let (status, message) = command.await.expect("the caller");
    assert_eq!(status, 200, "{message}");
    let bash = tool(&message, 0);
    assert_eq!(bash["state"]["status"], "completed");
    assert!(text(&bash["state"]["output"]).starts_with("begun"), "{bash}");
    until_gone(&sleeping, PATIENCE).await;
    events.until_idle(&session).await;
    assert_eq!(said(&world.wire.messages(&session).await.pop().expect("an answer")), "answered");
    let told = world.model.requests_for("after it").pop().expect("a request").calls();
    assert!(told[0].2.as_ref().is_some_and(|result| result.starts_with("begun")), "{told:?}");
    world.model.assert_legal();
}
