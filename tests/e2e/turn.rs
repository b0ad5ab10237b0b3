//! A prompt, its steps and its answer.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{At, Events, Gate, Project, ScriptedModel, Step, call};

use crate::world::{World, said, troupe};

/// Returns a call that reads this file.
fn read(path: &str) -> support::Call {
    call("read", json!({ "filePath": path }))
}

/// Returns the types of a session's statuses so far, in order.
fn statuses(events: &Events, session: &str) -> Vec<String> {
    let of = |event: &&Value| event["type"] == "session.status" && event["properties"]["sessionID"] == session;
    events.all().iter().filter(of).map(|event| text(&event["properties"]["status"]["type"])).collect()
}

#[tokio::test]
async fn a_prompt_is_answered_with_what_a_tool_read() {
    let world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    world.model.script("read the file", [Step::calls([read("a.txt")]), Step::text("it says alpha")]);
    let session = world.wire.create_session().await;

    let answer = world.wire.prompt(&session, "read the file").await;

    assert_eq!(said(&answer), "it says alpha");
    let requests = world.model.requests_for("read the file");
    assert!(requests[1].body.to_string().contains("alpha"), "the second request has what was read: {:?}", requests[1]);
    world.model.assert_legal();
}

#[tokio::test]
async fn the_events_of_a_turn_come_in_the_order_clients_know() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script("go", [Step::text("hello there").chunks(2)]);
    let session = world.wire.create_session_with(json!({ "title": "named" })).await;
    let session = text(&session["id"]);
    world.wire.prompt(&session, "go").await;
    events.until_idle(&session).await;

    let types = events.types(&session);
    let at = |kind: &str| types.iter().position(|other| other == kind).unwrap_or_else(|| panic!("{kind} in {types:?}"));
    let last = |kind: &str| types.iter().rposition(|other| other == kind).unwrap_or(usize::MAX);
    assert!(at("message.updated") < at("message.part.updated"), "{types:?}");
    assert!(at("message.part.updated") < at("session.status"), "the prompt is there before it is worked on: {types:?}");
    assert!(at("session.status") < at("message.part.delta"), "{types:?}");
    assert!(last("message.updated") < last("session.status"), "nothing of the answer comes after idle: {types:?}");
    assert_eq!(types.last().map(String::as_str), Some("session.idle"));
    assert_eq!(types.iter().filter(|kind| *kind == "session.idle").count(), 1);
    assert_eq!(statuses(&events, &session).last().map(String::as_str), Some("idle"));

    // Deltas are appended to the part as it was told before, and give what it is in the end.
    let deltas: String = events
        .all()
        .iter()
        .filter(|event| event["type"] == "message.part.delta")
        .map(|event| text(&event["properties"]["delta"]))
        .collect();
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!((deltas.as_str(), said(&answer).as_str()), ("hello there", "hello there"));
    assert_eq!(answer["info"]["finish"], "stop");
    assert_eq!(
        answer["parts"].as_array().expect("parts").iter().map(|part| text(&part["type"])).collect::<Vec<_>>(),
        ["step-start", "text", "step-finish"]
    );
}

#[tokio::test]
async fn prompt_async_answers_when_the_prompt_is_stored_and_the_turn_goes_on() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("later", [Step::text("done").gate(&gate)]);
    let session = world.wire.create_session().await;

    world.wire.prompt_async(&session, "later").await;

    let stored = world.wire.messages(&session).await;
    assert_eq!(stored[0]["parts"][0]["text"], "later");
    gate.reached().await;
    let (_, busy) = world.wire.get("/session/status").await;
    assert_eq!(busy[&session]["type"], "busy");
    gate.open();
    events.until_idle(&session).await;
    assert_eq!(said(&world.wire.messages(&session).await[1]), "done");
    assert_eq!(world.wire.get("/session/status").await.1, json!({}));
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_the_turn_running() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("stay", [Step::text("stayed").gate(&gate)]);
    let session = world.wire.create_session().await;
    let (wire, id) = (world.wire.clone(), session.clone());
    let caller = tokio::spawn(async move { wire.prompt(&id, "stay").await });
    gate.reached().await;
    caller.abort();
    let _ = caller.await;
    gate.open();
    events.until_idle(&session).await;
    assert_eq!(said(&world.wire.messages(&session).await[1]), "stayed");
}

#[tokio::test]
async fn a_prompt_without_reply_is_stored_and_told_with_the_next_one() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let note = json!({ "noReply": true, "parts": [{ "type": "text", "text": "keep in mind: 4711" }] });

    let stored = world.wire.prompt_with(&session, note).await;

    assert_eq!((stored["info"]["role"].as_str(), said(&stored).as_str()), (Some("user"), "keep in mind: 4711"));
    world.model.script("what was it", [Step::text("4711")]);
    world.wire.prompt(&session, "what was it").await;
    events.until_idle(&session).await;
    let requests = world.model.requests();
    assert_eq!(requests.len(), 1, "the note alone asks no model");
    let users = requests[0].texts("user").join("\n");
    assert!(users.find("4711").expect("the note") < users.find("what was it").expect("the prompt"), "{users}");
    let roles: Vec<_> = world.wire.messages(&session).await.iter().map(|m| text(&m["info"]["role"])).collect();
    assert_eq!(roles, ["user", "user", "assistant"]);
}

#[tokio::test]
async fn a_prompt_that_cannot_be_taken_is_refused_and_leaves_nothing() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let parts = json!([{ "type": "text", "text": "hi" }]);
    let blank = |text: &str, is_ignored: bool| json!([{ "type": "text", "text": text, "ignored": is_ignored }]);
    let bad = [
        json!({ "parts": [] }),
        json!({ "parts": blank("", false) }),
        json!({ "parts": blank(" \n", false) }),
        json!({ "parts": blank("for clients only", true) }),
        json!({ "parts": parts, "agent": "nobody" }),
        json!({ "parts": parts, "model": { "providerID": "mock", "modelID": "nope" } }),
        json!({ "parts": parts, "model": { "providerID": "nope", "modelID": "mock" } }),
        json!({ "parts": [{ "type": "poem", "text": "hi" }] }),
        json!({ "parts": "hi" }),
    ];
    for body in bad {
        for route in ["message", "prompt_async"] {
            let (status, answer) = world.wire.post(&format!("/session/{session}/{route}"), body.clone()).await;
            assert_eq!(status, 400, "{route} {body}: {answer}");
            assert!(answer["data"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        }
    }
    assert_eq!(world.wire.messages(&session).await, [Value::Null; 0]);
    assert_eq!(said(&world.wire.prompt(&session, "hi").await), "hello from the scripted model");
}

#[tokio::test]
async fn calls_of_one_step_run_side_by_side_and_their_results_go_back_in_order() {
    let world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    make_pipe(&world, "first");
    // The first call ends only after the second has run: it waits for what that writes.
    let wait = call("bash", json!({ "command": "cat first", "description": "wait" }));
    let open = call("bash", json!({ "command": "echo opened > first; echo wrote", "description": "open" }));
    world.model.script("both", [Step::calls([wait, open, read("a.txt")]), Step::text("all done")]);
    let session = world.wire.create_session().await;

    assert_eq!(said(&world.wire.prompt(&session, "both").await), "all done");

    let requests = world.model.requests_for("both");
    let results: Vec<_> = requests[1].calls().into_iter().map(|(_, _, result)| result.unwrap_or_default()).collect();
    assert_eq!(results.len(), 3);
    assert!(
        results[0].contains("opened") && results[1].contains("wrote") && results[2].contains("alpha"),
        "{results:?}"
    );
    world.model.assert_legal();
}

/// Makes a named pipe in the project: who reads it waits for who writes it.
fn make_pipe(world: &World, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(world.project.dir().join(name)).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo {name}");
}

#[tokio::test]
async fn a_call_runs_as_soon_as_its_arguments_are_complete() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.project.write("a.txt", "alpha\n");
    let gate = Gate::new();
    world.model.script(
        "early",
        [Step::calls([read("a.txt"), read("b.txt")]).gate_at(At::CallName(1), &gate), Step::text("ok")],
    );
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "early").await;
    let done = |event: &Value| event["properties"]["part"]["state"]["status"] == "completed";
    events.wait(done).await;
    assert_eq!(world.model.requests().len(), 1, "the model still streams while the first call has its result");
    gate.open();
    events.until_idle(&session).await;
}

#[tokio::test]
async fn the_model_names_a_session_once_and_a_name_that_was_given_stays() {
    let world = World::start().await;
    let mut events = world.events().await;
    world.model.script_side("please sort", [Step::text("\"Sorting the list\"\n")]);
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "please sort").await;
    let named =
        events.wait(|e| e["type"] == "session.updated" && e["properties"]["info"]["title"] == "Sorting the list");
    named.await;
    world.wire.prompt(&session, "and again").await;
    assert_eq!(world.wire.session(&session).await["title"], "Sorting the list");

    let own = text(&world.wire.create_session_with(json!({ "title": "mine" })).await["id"]);
    world.wire.prompt(&own, "please sort").await;
    assert_eq!(world.wire.session(&own).await["title"], "mine");
    assert_eq!(world.model.side_requests().len(), 1);
}

#[tokio::test]
async fn a_title_that_fails_leaves_the_default_and_the_turn_alone() {
    let world = World::start().await;
    world.model.script_side("name me", [Step::status(500)]);
    let session = world.wire.create_session().await;
    let answer = world.wire.prompt(&session, "name me").await;
    world.model.wait_for_side_requests(1).await;
    assert_eq!(said(&answer), "hello from the scripted model");
    assert!(text(&world.wire.session(&session).await["title"]).starts_with("New session - "));
}

#[tokio::test]
async fn the_same_call_again_and_again_asks_and_a_no_stops_the_turn() {
    let world = World::with_config(json!({})).await;
    let mut events = world.events().await;
    world.project.write("a.txt", "alpha\n");
    world.model.script("loop", [Step::calls([read("a.txt")])]);
    world.model.script("try x", [Step::text("x tried")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "loop").await;

    let asked = events.wait_for("permission.asked").await;

    assert_eq!(asked["properties"]["permission"], "doom_loop");
    assert_eq!(asked["properties"]["patterns"], json!(["read"]));
    assert_eq!(world.model.requests_for("loop").len(), 3, "the third equal call asks");
    world.wire.reply(&text(&asked["properties"]["id"]), "reject").await;
    events.until_idle(&session).await;
    let last = world.wire.messages(&session).await.pop().expect("an answer");
    let state = &last["parts"].as_array().and_then(|parts| parts.iter().find(|p| p["type"] == "tool")).expect("a call")
        ["state"];
    assert_eq!(state["status"], "error");
    assert_eq!(said(&world.wire.prompt(&session, "try x").await), "x tried");
}

#[tokio::test]
async fn a_yes_to_the_same_call_lets_it_run_and_another_call_in_between_does_not_ask() {
    let world = World::with_config(json!({})).await;
    let mut events = world.events().await;
    world.project.write("a.txt", "alpha\n");
    world.project.write("b.txt", "beta\n");
    let (a, b) = (|| Step::calls([read("a.txt")]), || Step::calls([read("b.txt")]));
    world.model.script("twice", [a(), a(), b(), a(), a(), Step::text("fine")]);
    let session = world.wire.create_session().await;
    assert_eq!(said(&world.wire.prompt(&session, "twice").await), "fine");
    assert_eq!(events.types(&session).iter().filter(|kind| *kind == "permission.asked").count(), 0);

    // Three equal calls in one answer count just so.
    world.model.script("thrice", [Step::calls([read("a.txt"), read("a.txt"), read("a.txt")]), Step::text("fine too")]);
    world.wire.prompt_async(&session, "thrice").await;
    let asked = events.wait_for("permission.asked").await;
    world.wire.reply(&text(&asked["properties"]["id"]), "once").await;
    events.until_idle(&session).await;
    assert_eq!(said(&world.wire.messages(&session).await.pop().expect("an answer")), "fine too");
}

#[tokio::test]
async fn a_limit_ends_the_turn_without_an_error_and_a_filter_with_one() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    world.model.script("long", [Step::text("as far as it").finish("length")]);
    let cut = world.wire.prompt(&session, "long").await;
    assert_eq!((said(&cut).as_str(), cut["info"]["finish"].as_str()), ("as far as it", Some("length")));
    assert_eq!(cut["info"]["error"], Value::Null);

    world.model.script("bad words", [Step::text("no").finish("content_filter")]);
    let mut events = world.events().await;
    let refused = world.wire.prompt(&session, "bad words").await;
    assert_eq!(refused["info"]["error"]["name"], "ContentFilterError");
    let told = events.wait_for("session.error").await;
    assert_eq!(told["properties"]["error"]["name"], "ContentFilterError");
    world.model.script("go on", [Step::text("gone on")]);
    assert_eq!(said(&world.wire.prompt(&session, "go on").await), "gone on");
}

#[tokio::test]
async fn without_a_provider_the_demo_answers_and_reads_the_project_with_real_tools() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).file("README.md", "# The heron project\n").create();
    project.write("opencode.json", "{}");
    let service = troupe().start().await;
    let wire = service.wire(project.dir());
    let session = wire.create_session().await;

    let answer = wire.prompt(&session, "show me around").await;

    assert_eq!(answer["info"]["error"], Value::Null);
    assert_eq!(
        (answer["info"]["providerID"].as_str(), answer["info"]["modelID"].as_str()),
        (Some("demo"), Some("tour"))
    );
    let parts = wire.parts(&session).await;
    let calls: Vec<_> = parts.iter().filter(|part| part["type"] == "tool").collect();
    assert!(!calls.is_empty() && calls.iter().all(|part| part["state"]["status"] == "completed"), "{calls:?}");
    assert!(!said(&answer).is_empty());
    assert_eq!(model.requests().len() + model.side_requests().len(), 0);
}

#[tokio::test]
async fn an_answer_without_words_ends_the_turn_and_is_not_sent_back() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    for (name, step) in [("empty", Step::empty()), ("thinks only", Step::reasoning("hm")), ("blank", Step::text(""))] {
        world.model.script(name, [step]);
        let answer = world.wire.prompt(&session, name).await;
        assert_eq!((said(&answer).as_str(), &answer["info"]["error"]), ("", &Value::Null), "{name}");
        assert_eq!(world.model.requests_for(name).len(), 1, "{name}: it is not asked again without end");
    }
    world.model.script("and now", [Step::text("here I am")]);
    assert_eq!(said(&world.wire.prompt(&session, "and now").await), "here I am");
    world.model.assert_legal();
}
