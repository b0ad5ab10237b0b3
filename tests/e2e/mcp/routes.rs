//! Switching servers, adding them, and what is said of wrong ones.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::world::{completed, failed};

#[tokio::test]
async fn servers_are_switched_off_and_on() {
    let world = connected(json!({ "srv": local(&Script::tools([("ok", "fine")])) })).await;
    assert_eq!(world.wire.post("/mcp/srv/disconnect", json!({})).await, (200, json!(true)));
    assert_eq!(world.wire.get("/mcp").await, (200, json!({ "srv": { "status": "disabled" } })));
    let part = world.call("srv_ok", json!({})).await;
    assert_eq!(part["tool"], "invalid", "it is not offered");
    connect(&world, "srv").await;
    completed(&world.call("srv_ok", json!({})).await);
}

#[tokio::test]
async fn servers_are_added_and_wrong_ones_say_what_is_wrong() {
    let off = with(local(&Script::tools([("ok", "fine")])), json!({ "enabled": false }));
    let world = world(json!({ "off": off, "odd": { "type": "local", "command": [] } })).await;
    let (_, all) = world.wire.get("/mcp").await;
    assert_eq!(all["off"], json!({ "status": "disabled" }));
    assert!(all["odd"]["error"].to_string().contains("command"), "{all}");

    let added = json!({ "name": "new", "config": local(&Script::tools([("ok", "fine")])) });
    let (status, all) = world.wire.post("/mcp", added).await;
    assert_eq!((status, &all["new"]), (200, &json!({ "status": "connected" })));
    completed(&world.call("new_ok", json!({})).await);
    let missing = json!({ "name": "missing", "config": { "type": "local", "command": ["/no/such"] } });
    let (_, all) = world.wire.post("/mcp", missing).await;
    let error = all["missing"]["error"].as_str().expect("an error");
    assert!(error.starts_with("ENOENT") && error.contains("'/no/such'"), "{error}");
    let (status, said) = world.wire.post("/mcp", json!({ "name": "bad", "config": { "type": "odd" } })).await;
    assert!(status == 400 && said.to_string().contains("type"), "{status} {said}");

    for path in ["/mcp/none/connect", "/mcp/none/disconnect", "/mcp/none/auth"] {
        let (status, said) = world.wire.post(path, json!({})).await;
        assert_eq!((status, &said["data"]["message"]), (404, &json!("MCP server not found: none")), "{path}");
    }
    let (status, said) = world.wire.post("/mcp/new/auth", json!({})).await;
    assert!(status == 400 && said.to_string().contains("takes no login"), "{status} {said}");
}

#[tokio::test]
async fn a_changed_entry_starts_its_server_anew_and_leaves_the_others_be() {
    let world = connected(json!({
        "same": local(&Script::tools([("ok", "same")])), "other": local(&Script::tools([("ok", "before")])),
    }))
    .await;
    completed(&world.call("other_ok", json!({})).await);
    world.project.change_config(json!({ "mcp": { "other": local(&Script::tools([("ok", "after")])) } }));
    connect(&world, "other").await;
    assert_eq!(completed(&world.call("other_ok", json!({})).await)["output"], "after");
    assert_eq!(report(&world, "same").await["starts"], 1);
    world.project.change_config(json!({ "mcp": { "other": { "enabled": false } } }));
    assert_eq!(status(&world, "other").await, "disabled");
    assert!(failed_or_invalid(&world.call("other_ok", json!({})).await));
}

fn failed_or_invalid(part: &Value) -> bool {
    part["tool"] == "invalid" || !failed(part).is_empty()
}
