//! Many sessions and servers at once, one of which is killed again and again.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Step, alive, call, until_alive};

use super::*;

const SESSIONS: usize = 12;
const ROUNDS: usize = 6;
const KILLS: usize = 4;

/// Returns the entry of a server, and the text that finds its process.
fn marked(name: &str) -> (Value, String) {
    let mark = format!("crowd-{name}-{}", std::process::id());
    let mut entry = local(&Script::tools([("ok", "fine")]));
    // A filter of the test harness that matches nothing more.
    let words = entry["command"].as_array_mut().expect("words");
    words.push("--skip".into());
    words.push(mark.clone().into());
    (entry, mark)
}

#[tokio::test]
async fn no_turn_fails_for_another_servers_fault_and_each_server_has_one_child() {
    let (names, marks): (Vec<_>, Vec<_>) = ["one", "two", "shaky"].map(|name| (name, marked(name))).into_iter().unzip();
    let servers: serde_json::Map<String, Value> =
        names.iter().zip(&marks).map(|(name, (entry, _))| ((*name).to_owned(), entry.clone())).collect();
    let world = connected(servers.into()).await;
    let round = || Step::calls(["one_ok", "two_ok", "shaky_ok"].map(|name| call(name, json!({}))));
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let needle = format!("session number {number}.");
        let steps = (0..ROUNDS).map(|_| round()).chain([Step::text("all done")]);
        world.model.script(&needle, steps);
        sessions.push((world.wire.create_session().await, needle));
    }
    let mut events = world.events().await;
    let wire = &world.wire;
    let prompts = sessions.iter().map(|(session, needle)| async move { wire.prompt(session, needle).await });
    let prompts = futures::future::join_all(prompts);
    let killing = async {
        let all = SESSIONS * ROUNDS;
        for _ in 0..KILLS {
            // So many calls later, and when it is there again.
            for _ in 0..all / (KILLS + 1) {
                let is_end = |event: &Value| {
                    let part = &event["properties"]["part"];
                    part["tool"] == "one_ok" && part["state"]["status"] == "completed"
                };
                events.wait(is_end).await;
            }
            until_alive(&marks[2].1, LIMIT).await;
            for pid in alive(&marks[2].1) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    };
    let (answers, ()) = tokio::join!(prompts, killing);
    assert!(answers.iter().all(|answer| crate::world::said(answer) == "all done"));
    let (mut fine, mut lost) = (0, 0);
    for (session, _) in &sessions {
        for part in world.tool_parts(session).await {
            let state = &part["state"];
            match state["status"] == "completed" {
                true => fine += 1,
                false => {
                    assert_eq!(part["tool"], "shaky_ok", "{state}");
                    lost += 1;
                }
            }
        }
    }
    assert_eq!(fine + lost, SESSIONS * ROUNDS * 3);
    connect(&world, "shaky").await;
    let children: Vec<usize> = marks.iter().map(|(_, mark)| alive(mark).len()).collect();
    assert_eq!(children, [1, 1, 1]);
    assert_eq!(report(&world, "one").await["starts"], 1);
    assert_eq!(report(&world, "shaky").await["starts"], 1 + KILLS);
}
