//! Sessions whose history is summarised: what a summary stands for leaves memory, and stays what it was for clients.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Step, call};

use crate::world::{World, completed, said};

/// In any request.
const ANY: &str = "";

/// Begins a session with a call and its answer, a second prompt, and a summary after each. Nothing is kept as it is.
async fn summarised_twice() -> (World, String) {
    let config = json!({ "permission": { "*": "allow" }, "compaction": { "preserve_recent_tokens": 0 } });
    let world = World::with_config(config).await;
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    let echo = call("bash", json!({ "command": "echo old-output-$((6*7))", "description": "d" }));
    world.model.script("first", [Step::calls([echo]), Step::text("first answer")]);
    world.model.script("second", [Step::text("second answer")]);
    world.model.script("third", [Step::text("third answer")]);
    world.model.script_side(ANY, [Step::text("the notes")]);
    world.wire.prompt_with(&session, first()).await;
    summarise(&world, &session).await;
    world.wire.prompt(&session, "second").await;
    summarise(&world, &session).await;
    (world, session)
}

fn first() -> Value {
    json!({ "messageID": "msg_first", "parts": [{ "type": "text", "text": "first" }] })
}

async fn summarise(world: &World, session: &str) {
    let model = json!({ "providerID": "mock", "modelID": "mock" });
    assert_eq!(world.wire.post(&format!("/session/{session}/summarize"), model).await.0, 200);
}

fn holds(value: &Value, needle: &str) -> bool {
    value.to_string().contains(needle)
}

#[tokio::test]
async fn what_is_summarised_is_read_and_copied_as_before_and_its_prompts_are_known() {
    let (world, session) = summarised_twice().await;
    world.wire.prompt(&session, "third").await;
    let request = world.model.requests().pop().expect("a request");
    assert!(!holds(&request.body, "old-output-42"), "the model is told what is summarised");

    let call = world.tool_parts(&session).await.remove(0);
    assert_eq!(completed(&call)["output"], "old-output-42\n");
    let (status, copy) = world.wire.post(&format!("/session/{session}/fork"), json!({})).await;
    assert_eq!(status, 200, "{copy}");
    let copied = world.wire.parts(&text(&copy["id"])).await;
    assert_eq!(copied.len(), world.wire.parts(&session).await.len());
    assert!(holds(&json!(copied), "old-output-42"));

    let asked = world.model.requests().len();
    let again = world.wire.prompt_with(&session, first()).await;
    assert_eq!((said(&again).as_str(), world.model.requests().len()), ("first answer", asked));
    let other = json!({ "messageID": "msg_first", "parts": [{ "type": "text", "text": "something else" }] });
    assert_eq!(world.wire.post(&format!("/session/{session}/message"), other).await.0, 409);
}

#[tokio::test]
async fn a_summary_that_was_cut_off_is_tried_once_more_and_then_changes_nothing() {
    for (reason, error) in [("content_filter", "ContentFilterError"), ("length", "UnknownError")] {
        let cut = || Step::text("The goal of the user was to").finish(reason);
        for (summaries, is_whole) in [(vec![cut(), Step::text("the notes")], true), (vec![cut(), cut()], false)] {
            let world = World::start().await;
            let mut events = world.events().await;
            let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
            world.model.script("OLD-MARK", [Step::text("ok")]);
            world.model.script_side(ANY, summaries);
            world.wire.prompt(&session, "OLD-MARK").await;

            let model = json!({ "providerID": "mock", "modelID": "mock" });
            let (status, answer) = world.wire.post(&format!("/session/{session}/summarize"), model).await;

            assert_eq!(world.model.side_requests().len(), 2, "{reason}: {status} {answer}");
            let end = events.wait(|e| e["type"] == "session.error" || e["type"] == "session.compacted").await;
            let wanted = if is_whole { Value::Null } else { json!(error) };
            assert_eq!(end["properties"]["error"]["name"], wanted, "{reason}: {end}");
            world.model.script("next", [Step::text("on")]);
            assert_eq!(said(&world.wire.prompt(&session, "next").await), "on");
            let last = world.model.requests().pop().expect("a request").body["messages"].to_string();
            assert_eq!(last.contains("the notes"), is_whole, "{reason}: {last}");
            assert!(!last.contains("The goal of the user was to"), "{reason}: {last}");
            assert!(last.contains("OLD-MARK"), "{reason}: {last}");
        }
    }
}

#[tokio::test]
async fn a_session_without_messages_is_not_summarised() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let model = json!({ "providerID": "mock", "modelID": "mock" });
    let (status, answer) = world.wire.post(&format!("/session/{session}/summarize"), model).await;
    assert!(status == 400 && holds(&answer, "nothing to summarise"), "{status} {answer}");
    assert_eq!(world.model.side_requests().len(), 0);
    assert_eq!(world.wire.messages(&session).await.len(), 0);
}

#[tokio::test]
async fn what_is_summarised_can_be_changed_and_taken_out_and_comes_back_with_its_summaries_gone() {
    let (world, session) = summarised_twice().await;
    let messages = world.wire.messages(&session).await;
    let at = |message: &Value| format!("/session/{session}/message/{}", text(&message["info"]["id"]));
    let part_at =
        |part: &Value| format!("/session/{session}/message/{}/part/{}", text(&part["messageID"]), text(&part["id"]));
    let find = |needle: &str| messages.iter().find(|m| said(m) == needle).expect("a message").clone();

    let mut part =
        find("first answer")["parts"].as_array().expect("parts").iter().find(|p| p["type"] == "text").cloned();
    let part = part.as_mut().expect("a text");
    part["text"] = json!("another answer");
    assert_eq!(world.wire.patch(&part_at(part), part.clone()).await.0, 200);
    let start = find("first answer")["parts"][0].clone();
    assert_eq!(start["type"], "step-start");
    assert_eq!(world.wire.delete(&part_at(&start)).await.0, 200);
    assert_eq!(world.wire.delete(&part_at(&start)).await.0, 404);
    assert_eq!(world.wire.delete(&at(&find("second answer"))).await.0, 200);
    for message in messages.iter().filter(|message| said(message) == "the notes") {
        assert_eq!(world.wire.delete(&at(message)).await.0, 200);
    }
    let left: Vec<String> = world.wire.messages(&session).await.iter().map(said).filter(|t| !t.is_empty()).collect();
    assert_eq!(left, ["first", "another answer", "second"]);

    world.wire.prompt(&session, "third").await;
    let request = world.model.requests().pop().expect("a request");
    for told in ["old-output-42", "another answer"] {
        assert!(holds(&request.body, told), "{told}: {}", request.body);
    }
    world.model.assert_legal();
}
