//! MCP servers as sessions and clients meet them.

mod calls;
mod cli;
mod command;
mod crowd;
mod lifecycle;
mod login;
mod npm;
mod offer;
mod resources;
mod routes;
mod serve;

use std::time::Duration;

use ::mcp::testing::{Script, run_if_child};
use serde_json::{Value, json};

use crate::world::World;

/// Children are this test.
const CHILD: &str = "mcp::scripted_server";
/// How long what nobody tells may take to be seen.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn scripted_server() {
    run_if_child();
}

/// Returns the entry of a server that follows a script, and that tests may wait for on a busy machine.
fn local(script: &Script) -> Value {
    with(script.local(CHILD), json!({ "timeout": 20_000 }))
}

/// Returns an entry with more in it.
fn with(mut entry: Value, more: Value) -> Value {
    entry.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    entry
}

/// Starts a world with these servers. Everything is allowed.
async fn world(servers: Value) -> World {
    World::with_config(json!({ "permission": { "*": "allow" }, "mcp": servers })).await
}

/// Starts a world with these servers, and waits until they are connected.
async fn connected(servers: Value) -> World {
    let world = world(servers.clone()).await;
    for name in servers.as_object().into_iter().flat_map(|servers| servers.keys()) {
        connect(&world, name).await;
    }
    world
}

/// Waits until a server is connected.
async fn connect(world: &World, name: &str) {
    assert_eq!(world.wire.post(&format!("/mcp/{name}/connect"), json!({})).await, (200, json!(true)));
    assert_eq!(status(world, name).await, "connected");
}

async fn status(world: &World, name: &str) -> String {
    let (_, all) = world.wire.get("/mcp").await;
    all[name]["status"].as_str().unwrap_or_else(|| panic!("no server {name}: {all}")).to_owned()
}

/// Returns what is known of a server.
async fn report(world: &World, name: &str) -> Value {
    let (_, all) = world.wire.get("/troupe/mcp").await;
    let found = all.as_array().into_iter().flatten().find(|server| server["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no server {name}: {all}"))
}
