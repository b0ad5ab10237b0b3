//! Servers on the network behind a login.

use std::os::unix::fs::PermissionsExt;

use ::mcp::testing::{HttpServer, Options, ScriptedTool};
use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Step, call};

use super::*;
use crate::world::completed;

fn ten() -> Script {
    let tools = (0..10).map(|n| ScriptedTool::new(&format!("n{n}"), &format!("result {n}")));
    Script { tools: tools.collect(), ..Script::default() }
}

/// A port nobody listens on.
async fn free_port() -> u16 {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port()
}

/// Returns the entry of a server whose logins come back to a port of their own.
pub async fn entry(server: &HttpServer) -> Value {
    let oauth = json!({ "callbackPort": free_port().await });
    json!({ "type": "remote", "url": server.url(), "timeout": 20_000, "oauth": oauth })
}

/// Opens a page as the person's browser does, and returns the status. Somebody listens there now or soon.
pub async fn browse(page: String) -> String {
    let answer = tokio::task::spawn_blocking(move || {
        let patience = ["--retry", "20", "--retry-connrefused", "--retry-delay", "1"];
        let told = ["-s", "-o", "/dev/null", "-w", "%{http_code}", &page];
        std::process::Command::new("curl").args(patience).args(told).output()
    });
    let answer = answer.await.expect("a task").expect("curl");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

async fn login(world: &World) {
    let (status, begun) = world.wire.post("/mcp/srv/auth", json!({})).await;
    assert_eq!(status, 200, "{begun}");
    assert!(begun["authorizationUrl"].as_str().is_some_and(|url| url.contains("code_challenge_method=S256")));
    let body = json!({ "code": "good", "state": begun["oauthState"] });
    let ended = world.wire.post("/mcp/srv/auth/callback", body).await;
    assert_eq!(ended, (200, json!({ "status": "connected" })));
}

#[tokio::test]
async fn a_person_logs_in_once_and_one_refresh_serves_all_sessions() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let world = world(json!({ "srv": entry(&server).await })).await;
    let mut world = world;
    assert_eq!(world.wire.post("/mcp/srv/connect", json!({})).await, (200, json!(true)));
    assert_eq!(status(&world, "srv").await, "needs_auth");
    login(&world).await;
    server.expire();

    let mut prompts = Vec::new();
    for (number, share) in [0..4, 4..7, 7..10].into_iter().enumerate() {
        let needle = format!("share number {number}");
        let calls = share.map(|n| call(format!("srv_n{n}"), json!({})));
        world.model.script(&needle, [Step::calls(calls), Step::text("done")]);
        prompts.push((world.wire.create_session().await, needle));
    }
    let wire = &world.wire;
    let each = prompts.iter().map(|(session, needle)| async move { wire.prompt(session, needle).await });
    futures::future::join_all(each).await;
    let mut results = Vec::new();
    for (session, _) in &prompts {
        for part in world.tool_parts(session).await {
            results.push(support::wire::text(&completed(&part)["output"]));
        }
    }
    assert_eq!(results, (0..10).map(|n| format!("result {n}")).collect::<Vec<_>>());
    assert_eq!((server.stats().refreshes, server.stats().reused), (1, 0));

    // It is kept, for its owner alone, and holds after a restart.
    let kept = world.service.home().path(".local/share/troupe/mcp-auth.json");
    assert_eq!(kept.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    world.service.terminate().await;
    world.service.restart().await;
    connect(&world, "srv").await;
    completed(&world.call("srv_n1", json!({})).await);
    assert!(!world.service.stderr().contains("access1") && !world.service.stderr().contains("refresh1"));

    assert_eq!(world.wire.delete("/mcp/srv/auth").await, (200, json!({ "success": true })));
    // Answers when it is clear how the server is.
    assert_eq!(world.wire.post("/mcp/srv/connect", json!({})).await, (200, json!(true)));
    assert_eq!(status(&world, "srv").await, "needs_auth");
}

#[tokio::test]
async fn a_browser_that_comes_back_to_this_machine_ends_the_login() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let entry = entry(&server).await;
    let port = entry["oauth"]["callbackPort"].as_u64().expect("a port");
    let world = world(json!({ "srv": entry })).await;
    let mut events = world.events().await;
    let (_, begun) = world.wire.post("/mcp/srv/auth", json!({})).await;
    let state = begun["oauthState"].as_str().expect("a state");
    let page = format!("http://127.0.0.1:{port}/mcp/oauth/callback?code=good&state={state}");
    assert_eq!(browse(page).await, "200");
    events.wait_for("mcp.tools.changed").await;
    assert_eq!(status(&world, "srv").await, "connected");
    completed(&world.call("srv_n1", json!({})).await);
}

#[tokio::test]
async fn a_login_that_is_not_the_one_begun_is_refused() {
    let server = HttpServer::start(ten(), Options { login: true, expires: 600, ..Options::default() }).await;
    let world = world(json!({ "srv": entry(&server).await })).await;
    let callback = async |body: Value| world.wire.post("/mcp/srv/auth/callback", body).await;
    assert_eq!(callback(json!({ "code": "good" })).await.0, 400, "none was begun");
    world.wire.post("/mcp/srv/auth", json!({})).await;
    let (status, said) = callback(json!({ "code": "good", "state": "another" })).await;
    assert!(status == 400 && !said.to_string().contains("good"), "{status} {said}");
    let (status, said) = callback(json!({ "code": "hunter2" })).await;
    assert!(status == 400 && !said.to_string().contains("hunter2"), "{status} {said}");
}
