//! Questions of the model to the person, and its list of things to do.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Events;
use support::wire::text;

use crate::world::{World, calling, completed, failed};

fn questions() -> Value {
    let option = |label: &str| json!({ "label": label, "description": format!("take {label}") });
    json!({ "questions": [
        { "question": "Which one?", "header": "Pick", "options": [option("red"), option("blue")] },
        { "question": "And which of these?", "header": "More", "multiple": true, "options": [option("x"), option("y")] },
    ] })
}

/// Has the model ask, and returns the session and the request.
async fn ask(world: &World, events: &mut Events) -> (String, Value) {
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, &calling([("question", questions())])).await;
    let asked = |event: &Value| event["type"] == "question.asked" && event["properties"]["sessionID"] == session;
    let request = events.wait(asked).await["properties"].clone();
    (session, request)
}

async fn reply(world: &World, request: &Value, answers: Value) -> (u16, Value) {
    world.wire.post(&format!("/question/{}/reply", text(&request["id"])), json!({ "answers": answers })).await
}

async fn waiting(world: &World) -> Value {
    world.wire.get("/question").await.1
}

#[tokio::test]
async fn a_question_waits_for_its_answers_which_the_model_reads() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (session, request) = ask(&world, &mut events).await;
    assert_eq!(request["questions"], questions()["questions"]);
    let call = world.tool_parts(&session).await.pop().expect("a call");
    assert_eq!(request["tool"], json!({ "messageID": call["messageID"], "callID": call["callID"] }));
    assert_eq!(waiting(&world).await, json!([request]));
    let mut late = world.events().await;
    assert_eq!(late.wait_for("question.asked").await["properties"], request);

    let answers = json!([["red"], ["x", "something of my own"]]);
    assert_eq!(reply(&world, &request, answers.clone()).await, (200, json!(true)));

    let told = events.wait_for("question.replied").await["properties"].clone();
    assert_eq!(told, json!({ "sessionID": session, "requestID": request["id"], "answers": answers }));
    events.until_idle(&session).await;
    let call = world.tool_parts(&session).await.pop().expect("a call");
    let state = completed(&call);
    assert_eq!((&state["title"], &state["metadata"]["answers"]), (&json!("Asked 2 questions"), &answers));
    let output = text(&state["output"]);
    assert!(output.contains(r#""Which one?"="red""#) && output.contains("x, something of my own"), "{output}");
    assert!(world.model.requests()[1].body.to_string().contains("something of my own"));
    assert_eq!(waiting(&world).await, json!([]));
    let (status, again) = reply(&world, &request, answers).await;
    assert_eq!(status, 409);
    assert!(again.to_string().contains(&text(&request["id"])), "{again}");
}

#[tokio::test]
async fn too_few_answers_leave_the_rest_unanswered() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (session, request) = ask(&world, &mut events).await;
    assert_eq!(reply(&world, &request, json!([["blue"]])).await.0, 200);
    events.until_idle(&session).await;
    let call = world.tool_parts(&session).await.pop().expect("a call");
    assert!(text(&completed(&call)["output"]).contains(r#""And which of these?"="Unanswered""#));
}

#[tokio::test]
async fn a_question_that_is_dismissed_ends_the_turn() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (session, request) = ask(&world, &mut events).await;
    let path = format!("/question/{}/reject", text(&request["id"]));
    assert_eq!(world.wire.post(&path, json!({})).await, (200, json!(true)));
    let told = events.wait_for("question.rejected").await["properties"].clone();
    assert_eq!(told, json!({ "sessionID": session, "requestID": request["id"] }));
    events.until_idle(&session).await;
    failed(&world.tool_parts(&session).await.pop().expect("a call"));
    assert_eq!(world.model.requests().len(), 1, "the model is not asked again");
    assert_eq!(world.wire.post(&path, json!({})).await.0, 409);
}

#[tokio::test]
async fn answers_that_make_no_sense_are_refused_and_the_question_waits_on() {
    let world = World::start().await;
    let mut events = world.events().await;
    let (_, request) = ask(&world, &mut events).await;
    let path = format!("/question/{}/reply", text(&request["id"]));
    for (path, body, status, named) in [
        (&*path, json!({ "answers": "red" }), 400, "answers"),
        (&path, json!({}), 400, "answers"),
        (&path, json!({ "answers": [[5]] }), 400, "answers"),
        ("/question/que_000000000001abcdefghijklmn/reply", json!({ "answers": [] }), 404, "QuestionNotFoundError"),
        ("/question/nonsense/reply", json!({ "answers": [] }), 400, "que"),
    ] {
        let (got, answer) = world.wire.post(path, body.clone()).await;
        assert_eq!(got, status, "{path} {body} {answer}");
        assert!(answer.to_string().contains(named), "{answer}");
    }
    assert_eq!(waiting(&world).await, json!([request]));
}

#[tokio::test]
async fn a_question_waits_through_the_end_of_the_service() {
    let mut world = World::start().await;
    let mut events = world.events().await;
    let (session, request) = ask(&world, &mut events).await;
    world.service.kill9().await;
    world.service.restart().await;
    assert_eq!(waiting(&world).await, json!([request]));
    let mut events = world.events().await;
    assert_eq!(events.wait_for("question.asked").await["properties"], request);
    assert_eq!(reply(&world, &request, json!([["red"], ["y"]])).await.0, 200);
    events.until_idle(&session).await;
    let call = world.tool_parts(&session).await.pop().expect("a call");
    assert_eq!(completed(&call)["metadata"]["answers"], json!([["red"], ["y"]]));
    assert_eq!(world.tool_parts(&session).await.len(), 1);
}

#[tokio::test]
async fn the_list_of_things_to_do_is_replaced_as_a_whole() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let todo = |content: &str, status: &str| json!({ "content": content, "status": status, "priority": "high" });
    for todos in [json!([todo("one", "pending"), todo("two", "pending")]), json!([todo("one", "completed")]), json!([])]
    {
        let part = world.call_in(&session, "todowrite", json!({ "todos": todos })).await;
        assert_eq!(completed(&part)["metadata"]["todos"], todos);
        let told = events.wait_for("todo.updated").await;
        assert_eq!(told["properties"], json!({ "sessionID": session, "todos": todos }));
        assert_eq!(world.wire.get(&format!("/session/{session}/todo")).await, (200, todos));
    }
    let part = world.call_in(&session, "todowrite", json!({ "todos": [{ "content": "half" }] })).await;
    assert!(failed(&part).contains("status"), "{}", failed(&part));
}
