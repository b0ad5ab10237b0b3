//! Prompts of servers, called as commands.

use mcp::testing::Script;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{connected, local};

#[tokio::test]
async fn a_servers_prompt_is_called_with_its_arguments_and_runs_nothing_here() {
    let argument = |name: &str| json!({ "name": name, "required": true });
    let prompts = vec![json!({ "name": "hey", "arguments": [argument("who"), argument("what")] })];
    let world = connected(json!({ "demo": local(&Script { prompts, ..Script::default() }) })).await;
    world.project.write("a.txt", "alpha\n");
    let session = world.wire.create_session().await;
    let path = format!("/session/{session}/command");
    let mut events = world.events().await;
    let body = json!({ "command": "demo:hey", "arguments": "'Ada L' !`touch ran.txt` @a.txt" });
    let (status, answer) = world.wire.post(&path, body).await;
    assert_eq!(status, 200, "{answer}");
    let messages = world.wire.messages(&session).await;
    let parts = messages[0]["parts"].as_array().expect("parts");
    let said: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(said, [r#"hey {"who":"Ada L","what":"!`touch ran.txt` @a.txt"}"#]);
    assert!(!world.project.exists("ran.txt"));
    assert_eq!(events.wait_for("command.executed").await["properties"]["name"], "demo:hey");

    let (status, error) = world.wire.post(&path, json!({ "command": "demo:hey", "arguments": "Ada" })).await;
    let told = error["data"]["message"].as_str().unwrap_or_default();
    assert_eq!((status, told), (400, r#"the prompt "demo:hey" needs "what"; it takes, in this order: who, what"#));

    let (_, error) = world.wire.post(&path, json!({ "command": "demo:gone", "arguments": "" })).await;
    let told = error["data"]["message"].as_str().unwrap_or_default();
    assert!(told.ends_with("init, review, demo:hey, customize-opencode"), "{told}");
    let (_, listed) = world.wire.get("/command").await;
    let names: Vec<&Value> = listed.as_array().expect("a list").iter().map(|command| &command["name"]).collect();
    assert_eq!(json!(names), json!(["init", "review", "demo:hey", "customize-opencode"]));
}
