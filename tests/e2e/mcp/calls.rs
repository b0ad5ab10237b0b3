//! Calls of servers' tools.

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Step, call};

use super::*;
use crate::world::{completed, failed};
use ::mcp::testing::{Log, ScriptedTool};

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_that_call_alone_and_the_next_one_works() {
    let dir = tempfile::tempdir().expect("a directory");
    let die = ScriptedTool { exit_once: Some(dir.path().join("died")), ..ScriptedTool::new("die", "alive again") };
    let script = Script { tools: vec![die, ScriptedTool::new("ok", "fine")], ..Script::default() };
    let world = connected(json!({ "srv": local(&script) })).await;
    let session = world.wire.create_session().await;
    let part = world.call_in(&session, "srv_die", json!({})).await;
    assert!(failed(&part).contains("went away"), "{part}");
    let time = &part["state"]["time"];
    assert!(time["end"].as_u64() < time["start"].as_u64().map(|start| start + 5_000), "{time}");
    // It is started again meanwhile; a call waits for it.
    assert_eq!(completed(&world.call_in(&session, "srv_die", json!({})).await)["output"], "alive again");
    assert_eq!(report(&world, "srv").await["starts"], 2);
}

#[tokio::test]
async fn of_calls_side_by_side_those_that_were_answered_keep_their_answers() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = Script {
        die_after: Some((2, dir.path().join("died"))),
        ..Script::tools([("one", "1"), ("two", "2"), ("three", "3")])
    };
    let world = connected(json!({ "srv": local(&script) })).await;
    let session = world.wire.create_session().await;
    let calls = ["srv_one", "srv_two", "srv_three"].map(|name| call(name, json!({})));
    world.model.script("all of them", [Step::calls(calls), Step::text("went on")]);
    assert_eq!(crate::world::said(&world.wire.prompt(&session, "all of them").await), "went on");
    let parts = world.tool_parts(&session).await;
    let mut ended: Vec<_> = parts.iter().map(|part| support::wire::text(&part["state"]["status"])).collect();
    ended.sort();
    assert_eq!(ended, ["completed", "completed", "error"]);
    completed(&world.call_in(&session, "srv_three", json!({})).await);
}

#[tokio::test]
async fn no_arguments_at_all_are_an_empty_object() {
    let world = connected(json!({ "srv": local(&Script::tools([("list", "listed")])) })).await;
    world.model.script("list", [Step::calls([call("srv_list", json!({})).raw_arguments("")]), Step::text("done")]);
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "list").await;
    let parts = world.tool_parts(&session).await;
    let state = completed(&parts[0]);
    assert_eq!((&state["input"], &state["output"]), (&json!({}), &json!("listed")));
}

#[tokio::test]
async fn huge_results_are_cut_and_kept_in_a_file_and_images_are_bounded() {
    let script = Script {
        tools: vec![
            ScriptedTool { text_bytes: 5_000_000, ..ScriptedTool::new("text", "") },
            ScriptedTool { image_bytes: 1, ..ScriptedTool::new("small", "see") },
            ScriptedTool { image_bytes: 8_000_000, ..ScriptedTool::new("huge", "see") },
        ],
        ..Script::default()
    };
    let world = connected(json!({ "srv": local(&script) })).await;

    let part = world.call("srv_text", json!({})).await;
    let state = completed(&part);
    assert_eq!(state["metadata"]["truncated"], true);
    let file = state["metadata"]["outputPath"].as_str().expect("a file");
    assert!(std::fs::metadata(file).is_ok_and(|file| file.len() == 5_000_000));
    assert!(state["output"].as_str().is_some_and(|text| text.len() < 100_000 && text.contains(file)));

    let part = world.call("srv_small", json!({})).await;
    let attached = &completed(&part)["attachments"];
    assert_eq!(attached[0]["mime"], "image/png");
    let part = world.call("srv_huge", json!({})).await;
    let state = completed(&part);
    assert!(state["attachments"].is_null(), "the image is too large");
    let told = state["output"].as_str().unwrap_or_default();
    assert!(told.starts_with("see") && told.contains("image"), "{told}");
}

#[tokio::test]
async fn what_a_server_asks_in_a_call_is_asked_of_the_person() {
    let form = json!({ "message": "Which size?", "requestedSchema": {
        "type": "object", "properties": { "size": { "type": "string", "enum": ["s", "l"] } }, "required": ["size"],
    } });
    let order = ScriptedTool { elicit: Some(form), ..ScriptedTool::new("order", "") };
    let script = Script { tools: vec![order], ..Script::default() };
    let world = connected(json!({ "srv": local(&script) })).await;
    let mut events = world.events().await;
    world.model.script("order it", [Step::calls([call("srv_order", json!({}))]), Step::text("done")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "order it").await;
    let asked = events.wait_for("question.asked").await["properties"].clone();
    assert_eq!(asked["sessionID"], session.as_str());
    assert!(asked["questions"][0]["question"].to_string().contains("Which size?"), "{asked}");
    let path = format!("/question/{}/reply", asked["id"].as_str().expect("an id"));
    assert_eq!(world.wire.post(&path, json!({ "answers": [["l"]] })).await, (200, json!(true)));
    events.until_idle(&session).await;
    let parts = world.tool_parts(&session).await;
    let answer: Value = serde_json::from_str(completed(&parts[0])["output"].as_str().expect("text")).expect("JSON");
    assert_eq!(answer, json!({ "action": "accept", "content": { "size": "l" } }));
}

#[tokio::test]
async fn progress_is_shown_and_a_stopped_call_is_told_to_its_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = Log::new(dir.path());
    let slow =
        ScriptedTool { hangs: true, progress: vec![(1.0, "half of it".into())], ..ScriptedTool::new("slow", "") };
    let script = Script { tools: vec![slow], log: Some(log.path()), ..Script::default() };
    let world = connected(json!({ "srv": local(&script) })).await;
    let mut events = world.events().await;
    world.model.script("go slowly", [Step::calls([call("srv_slow", json!({}))]), Step::text("never")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "go slowly").await;
    let shown = events.wait(|event| event["properties"]["part"]["state"]["metadata"]["progress"] == 1.0).await;
    let state = &shown["properties"]["part"]["state"];
    assert_eq!((&state["title"], &state["metadata"]["total"]), (&json!("half of it"), &json!(2.0)));
    world.wire.abort(&session).await;
    events.until_idle(&session).await;
    failed(&world.tool_parts(&session).await[0]);
    log.until(1, "notifications/cancelled").await;
}

#[tokio::test]
async fn a_call_that_was_begun_is_not_made_again_after_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = Log::new(dir.path());
    let act = ScriptedTool { hangs: true, ..ScriptedTool::new("act", "") };
    let script = Script { tools: vec![act], log: Some(log.path()), ..Script::default() };
    let mut world = connected(json!({ "srv": local(&script) })).await;
    world.model.script("act", [Step::calls([call("srv_act", json!({}))]), Step::text("went on")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "act").await;
    log.until(1, "tools/call").await;
    world.service.kill9().await;
    world.service.restart().await;
    let mut events = world.events().await;
    if world.wire.get("/session/status").await.1 != json!({}) {
        events.until_idle(&session).await;
    }
    assert!(failed(&world.tool_parts(&session).await[0]).contains("unknown"));
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!((crate::world::said(&answer).as_str(), log.count("tools/call")), ("went on", 1));
}

#[tokio::test]
async fn a_call_nothing_is_heard_of_is_given_up_after_the_time_of_the_settings() {
    let hang = ScriptedTool { hangs: true, ..ScriptedTool::new("hang", "") };
    let script = Script { tools: vec![hang, ScriptedTool::new("ok", "fine")], ..Script::default() };
    let own = with(local(&script), json!({ "timeout": 15_000 }));
    let mut common = local(&script);
    common.as_object_mut().expect("an object").remove("timeout");
    let config = json!({
        "permission": { "*": "allow" }, "experimental": { "mcp_timeout": 700 }, "mcp": { "own": own, "common": common },
    });
    let world = World::with_config(config).await;
    connect(&world, "own").await;
    connect(&world, "common").await;
    let error = failed(&world.call("common_hang", json!({})).await).to_owned();
    assert!(error.contains("for 700 ms"), "{error}");
    completed(&world.call("own_ok", json!({})).await);

    world.project.change_config(json!({ "experimental": { "mcp_timeout": "soon" } }));
    let (status, told) = world.wire.get("/config").await;
    assert!(status == 400 && told.to_string().contains("mcp_timeout"), "{status} {told}");
}
