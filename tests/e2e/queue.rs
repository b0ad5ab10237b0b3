//! Prompts that come while a turn runs, or just as it ends: each is answered, in order, and none twice.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, Step, Wire, call};
use tokio::task::JoinHandle;

use crate::world::{World, said};

/// Prompts in a task of its own, which ends with the turn.
fn ask(wire: &Wire, session: &str, body: Value) -> JoinHandle<Value> {
    let (wire, session) = (wire.clone(), session.to_owned());
    tokio::spawn(async move { wire.prompt_with(&session, body).await })
}

fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// Returns a prompt that goes to this model.
fn to_model(text: &str, model: &str) -> Value {
    let mut body = prompt(text);
    body["model"] = json!({ "providerID": "mock", "modelID": model });
    body
}

/// Returns the texts of the user messages, in order.
async fn prompts(wire: &Wire, session: &str) -> Vec<String> {
    wire.messages(session).await.iter().filter(|m| m["info"]["role"] == "user").map(said).collect()
}

/// Returns the answers to the prompt with this text.
async fn answers(wire: &Wire, session: &str, prompt: &str) -> Vec<Value> {
    let messages = wire.messages(session).await;
    let asked = messages.iter().find(|m| m["info"]["role"] == "user" && said(m) == prompt);
    let id = asked.unwrap_or_else(|| panic!("no prompt {prompt:?}"))["info"]["id"].clone();
    messages.into_iter().filter(|m| m["info"]["parentID"] == id).collect()
}

#[tokio::test]
async fn prompts_during_a_turn_are_answered_behind_it_in_their_order() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("P0", [Step::text("reply 0").gate(&gate)]);
    for number in 1..=3 {
        world.model.script(format!("P{number}"), [Step::text(format!("reply {number}"))]);
    }
    let session = world.wire.create_session().await;
    let first = ask(&world.wire, &session, prompt("P0"));
    gate.reached().await;
    let mut later = Vec::new();
    for number in 1..=3 {
        // One by one: they are told apart by the order in which they were acknowledged.
        world.wire.prompt_async(&session, &format!("P{number}")).await;
        later.push(number);
    }
    assert_eq!(world.model.requests().len(), 1, "one loop at a time");
    gate.open();
    events.until_idle(&session).await;

    assert_eq!(said(&first.await.expect("an answer")), "reply 0", "the first caller gets its own answer");
    assert_eq!(prompts(&world.wire, &session).await, ["P0", "P1", "P2", "P3"]);
    let requests = world.model.requests();
    let seen = requests.last().expect("a request").texts("user").join("\n");
    let places: Vec<_> =
        (0..=3).map(|n| seen.find(&format!("P{n}")).unwrap_or_else(|| panic!("P{n} in {seen}"))).collect();
    assert!(places.is_sorted(), "{seen}");
    assert_eq!(said(&answers(&world.wire, &session, "P3").await[0]), "reply 3");
    // Idle is told once, when all is done.
    assert_eq!(events.types(&session).iter().filter(|kind| *kind == "session.idle").count(), 1);
    world.model.assert_legal();
}

#[tokio::test]
async fn a_prompt_in_the_middle_of_a_turn_is_seen_by_its_next_step() {
    let world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    let gate = Gate::new();
    let calls = Step::calls([call("read", json!({ "filePath": "a.txt" }))]).gate(&gate);
    world.model.script("look at it", [calls, Step::text("it says alpha")]);
    world.model.script("and be short", [Step::text("alpha.")]);
    let session = world.wire.create_session().await;
    let first = ask(&world.wire, &session, prompt("look at it"));
    gate.reached().await;
    world.wire.prompt_async(&session, "and be short").await;
    gate.open();

    let first = first.await.expect("an answer");

    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "the second prompt needs no turn of its own");
    let last = requests[1].messages().last().map(Value::to_string).unwrap_or_default();
    assert!(last.contains("and be short"), "{last}");
    assert_eq!(requests[1].calls().len(), 1);
    assert_eq!(said(&first), "alpha.");
    let answer = &answers(&world.wire, &session, "and be short").await[0];
    assert_eq!(answer["info"]["id"], first["info"]["id"], "both have the last answer of the turn");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_prompt_at_the_very_end_of_a_turn_is_answered_like_any_other() {
    const ROUNDS: usize = 25;
    let world = World::start().await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let wire = world.wire.clone();
        let mut events = world.events().await;
        sessions.push(tokio::spawn(async move {
            let session = wire.create_session().await;
            for round in 0..ROUNDS {
                wire.prompt_async(&session, &inline(round)).await;
                let mine = |event: &Value| event["properties"]["sessionID"] == *session;
                let answered = |event: &Value| {
                    let info = &event["properties"]["info"];
                    event["type"] == "message.updated"
                        && info["role"] == "assistant"
                        && !info["time"]["completed"].is_null()
                };
                events.wait(|event| mine(event) && answered(event)).await;
                // The next prompt comes at another moment of the end each time.
                match round % 3 {
                    0 => {}
                    1 => drop(events.wait(|event| mine(event) && event["type"] == "session.diff").await),
                    _ => drop(events.wait(|event| mine(event) && event["type"] == "session.idle").await),
                }
            }
            (session, wire)
        }));
    }
    for task in sessions {
        let (session, wire) = task.await.expect("a session");
        wire.prompt(&session, &inline(ROUNDS)).await;
        let asked = prompts(&wire, &session).await;
        assert_eq!(asked, (0..=ROUNDS).map(inline).collect::<Vec<_>>());
        for round in 0..=ROUNDS {
            let own = answers(&wire, &session, &inline(round)).await;
            assert_eq!(own.iter().map(said).collect::<Vec<_>>(), [format!("R{round}")], "round {round}");
        }
    }
    world.model.assert_legal();
}

/// A prompt that brings its answer with it.
fn inline(round: usize) -> String {
    format!("Q{round} SCRIPT:[{{\"text\":\"R{round}\"}}]")
}

#[tokio::test]
async fn a_crowd_of_prompts_at_once_loses_none() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("hold", [Step::text("held").gate(&gate)]);
    world.model.script("one of many", [Step::text("answered")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "hold").await;
    gate.reached().await;
    // More than there are places at the edge.
    let crowd: Vec<_> = (0..150).map(|n| ask(&world.wire, &session, prompt(&format!("one of many: {n}.")))).collect();
    events.wait(|_| true).await;
    gate.open();
    for caller in crowd {
        let answer = caller.await.expect("a caller");
        assert_eq!(said(&answer), "answered");
    }
    let asked = prompts(&world.wire, &session).await;
    assert_eq!(asked.len(), 151);
    let shown = world.model.requests().last().expect("a request").texts("user").join("\n");
    assert!((0..150).all(|n| shown.contains(&format!("one of many: {n}."))), "a prompt was never shown to the model");
    world.model.assert_legal();
}

#[tokio::test]
async fn two_prompts_for_two_models_run_one_after_the_other_each_by_its_own() {
    let world = World::start().await;
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    for model in ["mock", "small"] {
        world.model.script(format!("for {model}"), [Step::text(format!("from {model}"))]);
    }
    for _ in 0..5 {
        let callers =
            ["mock", "small"].map(|model| ask(&world.wire, &session, to_model(&format!("for {model}"), model)));
        let mut spans = Vec::new();
        for (caller, model) in callers.into_iter().zip(["mock", "small"]) {
            let answer = caller.await.expect("an answer");
            assert_eq!((said(&answer), &answer["info"]["modelID"]), (format!("from {model}"), &json!(model)));
            let time = &answer["info"]["time"];
            spans.push((time["created"].as_u64(), time["completed"].as_u64()));
            let prompt = text(&answer["info"]["parentID"]);
            let (_, asked) = world.wire.get(&format!("/session/{session}/message/{prompt}")).await;
            assert_eq!(said(&asked), format!("for {model}"), "the answer belongs to the caller's own prompt");
        }
        spans.sort();
        assert!(spans[0].1 <= spans[1].0, "both ran at once: {spans:?}");
    }
    assert_eq!(world.model.most_open_requests(), 1);
    let models: Vec<_> = world.model.requests().iter().map(|request| text(&request.body["model"])).collect();
    assert_eq!(models.iter().filter(|model| *model == "small").count(), 5, "{models:?}");
    world.model.assert_legal();
}

#[tokio::test]
async fn a_queued_prompt_for_another_agent_has_a_turn_of_its_own() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("build it", [Step::text("built").gate(&gate)]);
    world.model.script("plan it", [Step::text("planned")]);
    world.model.script("build more", [Step::text("built more")]);
    let session = world.wire.create_session().await;
    let mut callers = vec![ask(&world.wire, &session, prompt("build it"))];
    gate.reached().await;
    for (text, agent) in [("plan it", "plan"), ("build more", "build")] {
        let mut body = prompt(text);
        body["agent"] = json!(agent);
        world.wire.prompt_async_with(&session, body).await;
    }
    gate.open();
    callers.push(ask(&world.wire, &session, prompt("build more")));
    for caller in callers {
        caller.await.expect("an answer");
    }
    let done = world.wire.messages(&session).await;
    let agents: Vec<_> = done
        .iter()
        .filter(|m| m["info"]["role"] == "assistant")
        .map(|m| (said(m), text(&m["info"]["agent"])))
        .collect();
    let of = |text: &str, agent: &str| (text.to_owned(), agent.to_owned());
    assert_eq!(agents, [of("built", "build"), of("planned", "plan"), of("built more", "build")]);
}

#[tokio::test]
async fn an_abort_ends_the_running_prompt_and_the_queued_ones_run_next() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (one, two) = (Gate::new(), Gate::new());
    world.model.script("one", [Step::text("late").gate(&one)]);
    world.model.script("two", [Step::text("second").gate(&two)]);
    let session = world.wire.create_session().await;
    let first = ask(&world.wire, &session, prompt("one"));
    one.reached().await;
    let second = ask(&world.wire, &session, prompt("two"));
    let stored = |event: &Value| event["properties"]["part"]["text"] == "two";
    events.wait(stored).await;

    world.wire.abort(&session).await;

    let first = first.await.expect("the first caller");
    assert_eq!(first["info"]["error"]["name"], "MessageAbortedError");
    two.reached().await;
    two.open();
    let second = second.await.expect("the second caller");
    assert_eq!((said(&second).as_str(), &second["info"]["error"]), ("second", &Value::Null));
    events.until_idle(&session).await;
    assert_eq!(events.types(&session).iter().filter(|kind| *kind == "session.idle").count(), 1);
    world.model.assert_legal();
}

#[tokio::test]
async fn aborts_in_a_row_settle_every_waiter() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("wait", [Step::hang()]);
    let session = world.wire.create_session().await;
    let mut callers = Vec::new();
    for (number, model) in ["mock", "small", "mock", "small"].into_iter().enumerate() {
        let body = to_model(&format!("wait {number}"), model);
        callers.push(ask(&world.wire, &session, body));
        let stored = |event: &Value| event["properties"]["part"]["text"] == format!("wait {number}").as_str();
        events.wait(stored).await;
    }
    for (number, caller) in callers.into_iter().enumerate() {
        world.model.wait_for_requests(number + 1).await;
        world.wire.abort(&session).await;
        let answer = caller.await.expect("a caller");
        assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
        let own = answers(&world.wire, &session, &format!("wait {number}")).await;
        assert_eq!(own.last().map(|m| m["info"]["id"].clone()), Some(answer["info"]["id"].clone()));
    }
    assert_eq!(world.wire.get("/session/status").await.1, json!({}));
}

#[tokio::test]
async fn deleting_a_session_settles_every_waiter() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("wait", [Step::text("late").gate(&gate)]);
    let session = world.wire.create_session().await;
    let mut callers = Vec::new();
    for number in 0..3 {
        let (wire, path) = (world.wire.clone(), format!("/session/{session}/message"));
        callers.push(tokio::spawn(async move { wire.post(&path, prompt(&format!("wait {number}"))).await }));
    }
    gate.reached().await;
    assert_eq!(world.wire.delete(&format!("/session/{session}")).await, (200, json!(true)));
    for caller in callers {
        let (status, body) = caller.await.expect("a caller");
        assert_eq!((status, &body["name"]), (404, &json!("NotFoundError")), "{body}");
    }
    world.model.wait_for_dropped(1).await;
    assert_eq!(world.wire.get(&format!("/session/{session}")).await.0, 404);
}

#[tokio::test]
async fn the_same_prompt_sent_twice_is_one_prompt_and_its_id_with_other_words_is_refused() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("once", [Step::text("only once").gate(&gate)]);
    let session = world.wire.create_session().await;
    let mut body = prompt("once");
    body["messageID"] = json!("msg_0123456789abABCDEFGHIJKLMN");
    let first = ask(&world.wire, &session, body.clone());
    gate.reached().await;
    let second = ask(&world.wire, &session, body.clone());
    let mut other = prompt("something else");
    other["messageID"] = body["messageID"].clone();
    let path = format!("/session/{session}/prompt_async");
    assert_eq!(world.wire.post(&path, other.clone()).await.0, 409);
    gate.open();
    let (first, second) = (first.await.expect("an answer"), second.await.expect("an answer"));
    assert_eq!(first, second);
    assert_eq!(world.wire.prompt_with(&session, body).await, first, "also when it is long answered");
    assert_eq!(world.wire.post(&path, other).await.0, 409);
    assert_eq!((world.model.requests().len(), world.wire.messages(&session).await.len()), (1, 2));
}

#[tokio::test]
async fn ids_that_another_session_or_message_has_are_refused_and_change_nothing() {
    let world = World::start().await;
    world.model.script("mine", [Step::text("done")]);
    let (mine, theirs) = (world.wire.create_session().await, world.wire.create_session().await);
    let mut body = prompt("mine");
    body["messageID"] = json!("msg_0123456789abABCDEFGHIJKLMN");
    body["parts"][0]["id"] = json!("prt_0123456789abABCDEFGHIJKLMN");
    world.wire.prompt_with(&mine, body.clone()).await;
    let stored = world.wire.messages(&mine).await;

    let shell = json!({ "messageID": body["messageID"], "command": "true", "agent": "build" });
    let mut other_message = body.clone();
    other_message["messageID"] = json!("msg_ffff456789abABCDEFGHIJKLMN");
    let mut no_message = body.clone();
    no_message.as_object_mut().expect("an object").remove("messageID");
    for (session, route, body) in [
        (&theirs, "message", &body),
        (&theirs, "prompt_async", &body),
        (&theirs, "shell", &shell),
        (&theirs, "prompt_async", &other_message),
        (&mine, "prompt_async", &other_message),
        (&mine, "prompt_async", &no_message),
    ] {
        let (status, answer) = world.wire.post(&format!("/session/{session}/{route}"), body.clone()).await;
        assert_eq!(status, 409, "{route}: {answer}");
        assert!(answer.to_string().contains("0123456789abABCDEFGHIJKLMN"), "{answer}");
    }
    assert_eq!(world.wire.messages(&mine).await, stored);
    assert_eq!(world.wire.messages(&theirs).await, Vec::<Value>::new());
    assert_eq!(world.model.requests().len(), 1);
    world.wire.prompt(&theirs, "still alive").await;
}

#[tokio::test]
async fn messages_cannot_be_taken_out_while_prompts_wait() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("first", [Step::text("done").gate(&gate)]);
    let session = world.wire.create_session().await;
    let first = ask(&world.wire, &session, prompt("first"));
    gate.reached().await;
    let mut queued = prompt("second");
    queued["messageID"] = json!("msg_ffff456789abABCDEFGHIJKLMN");
    world.wire.prompt_async_with(&session, queued).await;
    let path = format!("/session/{session}/message/msg_ffff456789abABCDEFGHIJKLMN");
    let (status, answer) = world.wire.delete(&path).await;
    assert_eq!((status, &answer["_tag"]), (409, &json!("SessionBusyError")));
    gate.open();
    assert_eq!(said(&first.await.expect("an answer")), "done");
}
