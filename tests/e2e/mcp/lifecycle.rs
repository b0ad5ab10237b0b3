//! Servers as children: shared, watched, let go.

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{alive, until_alive, until_gone};

use super::*;
use crate::world::completed;
use ::mcp::testing::Log;

/// Returns the entry of a server behind a shell that lives on when its input is closed, and the text that finds both.
fn marked() -> (Value, String) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mark = format!("mcp-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let script = Script { stay: true, ..Script::tools([("ok", "fine")]) };
    let mut entry = with(script.wrapped(CHILD), json!({ "timeout": 20_000 }));
    let command = entry["command"][2].as_str().expect("a command").replace("; true", &format!(" {mark}; true"));
    entry["command"][2] = json!(command);
    (entry, mark)
}

#[tokio::test]
async fn one_child_serves_all_sessions_and_nothing_of_it_is_left_after_a_stop_or_a_kill() {
    let (entry, mark) = marked();
    let mut world = connected(json!({ "srv": entry })).await;
    for _ in 0..5 {
        completed(&world.call("srv_ok", json!({})).await);
    }
    assert_eq!(alive(&mark).len(), 2, "the shell and the server");
    world.service.terminate().await;
    until_gone(&mark, LIMIT).await;
    world.service.restart().await;
    connect(&world, "srv").await;
    until_alive(&mark, LIMIT).await;
    world.service.kill9().await;
    until_gone(&mark, LIMIT).await;
    world.service.restart().await;
    assert_eq!(alive(&mark), [0; 0]);
}

#[tokio::test]
async fn a_directory_nobody_works_in_lets_its_servers_go_and_the_next_prompt_brings_them_back() {
    let (entry, mark) = marked();
    let config = json!({
        "permission": { "*": "allow" }, "mcp": { "srv": entry }, "troupe": { "workspace": { "idle_ms": 300 } },
    });
    let world = World::with_config(config).await;
    connect(&world, "srv").await;
    let session = world.wire.create_session().await;
    completed(&world.call_in(&session, "srv_ok", json!({})).await);
    until_gone(&mark, LIMIT).await;
    connect(&world, "srv").await;
    completed(&world.call_in(&session, "srv_ok", json!({})).await);
}

#[tokio::test]
async fn a_server_that_dies_at_once_is_left_after_some_tries_and_shown_as_failed() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = Log::new(dir.path());
    let script = Script {
        crash: true,
        last_words: "the key hunter2 is wrong".into(),
        log: Some(log.path()),
        ..Script::default()
    };
    let mut entry = local(&script);
    entry["environment"]["KEY"] = json!("hunter2");
    let world = connected(json!({ "ok": local(&Script::tools([("ok", "fine")])) })).await;
    let added = world.wire.post("/mcp", json!({ "name": "loop", "config": entry })).await;
    let told = &added.1["loop"];
    assert_eq!(told["status"], "failed", "{told}");
    let error = told["error"].as_str().expect("an error");
    assert!(error.contains("exit code 3") && error.contains("the key *** is wrong"), "{error}");
    log.until(5, "start").await;
    assert_eq!((log.count("start"), report(&world, "loop").await["starts"].as_u64()), (5, Some(5)));
    completed(&world.call("ok_ok", json!({})).await);
    // A person may have mended it.
    assert_eq!(world.wire.post("/mcp/loop/connect", json!({})).await, (200, json!(true)));
    assert_eq!(report(&world, "loop").await["starts"], 10);
}

#[tokio::test]
async fn what_a_server_prints_besides_its_messages_is_counted_and_told_once() {
    let script = Script { junk: true, stderr_mb: 5, ..Script::tools([("ok", "fine")]) };
    let world = connected(json!({ "noisy": local(&script) })).await;
    for _ in 0..3 {
        assert_eq!(completed(&world.call("noisy_ok", json!({})).await)["output"], "fine");
    }
    let (_, metrics) = world.wire.get("/metrics").await;
    let line = metrics.as_str().into_iter().flat_map(str::lines).find(|line| line.starts_with("troupe_mcp_junk_total"));
    let count = line.and_then(|line| line.split(' ').next_back()?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 5), "{line:?}");
    assert_eq!(report(&world, "noisy").await["junk"].as_u64(), count);
    let said = world.service.stderr();
    assert_eq!(said.lines().filter(|line| line.contains("noisy") && line.contains("junk")).count(), 1, "{said}");
    assert!(said.len() < 100_000, "its standard error is not ours");
}
