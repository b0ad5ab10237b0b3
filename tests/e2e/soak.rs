//! Many sessions at work in one directory: what is reported done is done, and nothing is left over.

use serde_json::{Value, json};
use support::{PATIENCE, alive, until_gone};

use crate::world::{World, calling, completed};

const SESSIONS: usize = 20;
const ROUNDS: usize = 3;

/// What a session adds to the shared file in a round.
fn token(session: usize, round: usize) -> String {
    format!("[{session}-{round}]")
}

/// The calls of one session in one round: all at once, two of them on the same file.
fn round(world: &World, session: usize, round: usize, nap: &str) -> String {
    let path = |file: &str| world.project.path(file);
    let own = format!("own/{session}.txt");
    let line = format!("<{session}>");
    let shared = json!({ "filePath": path("shared.txt"), "oldString": line, "newString": line.clone() + &token(session, round) });
    let first =
        json!({ "filePath": path(&own), "oldString": format!("a{round}."), "newString": format!("a{}.", round + 1) });
    let second =
        json!({ "filePath": path(&own), "oldString": format!("b{round}."), "newString": format!("b{}.", round + 1) });
    // Something in the background, something that is cut off, something that ends.
    let command = match round {
        0 => json!({ "command": format!("sleep {nap} & echo started") }),
        1 => json!({ "command": format!("sleep {nap} & sleep {nap}"), "timeout": 200 }),
        _ => json!({ "command": format!("cat own/{session}.txt | tr a-z A-Z | wc -l; exit {session}") }),
    };
    calling([
        ("edit", shared),
        ("bash", command),
        ("edit", first),
        ("edit", second),
        ("read", json!({ "filePath": path(if round == 0 { "static.txt" } else { "shared.txt" }) })),
        ("grep", json!({ "pattern": "needle", "path": path("static.txt") })),
        ("glob", json!({ "pattern": "own/*.txt" })),
    ])
}

#[tokio::test]
async fn twenty_sessions_at_work_in_one_directory_lose_nothing_and_leave_nothing() {
    let world = World::start().await;
    let nap = format!("8{:07}.5", std::process::id());
    world.project.write("static.txt", "hay\nneedle\nhay\n");
    world.project.write("shared.txt", (0..SESSIONS).map(|n| format!("<{n}>\n")).collect::<String>());
    for session in 0..SESSIONS {
        world.project.write(format!("own/{session}.txt"), "a0.\nb0.\n");
    }
    let work = (0..SESSIONS).map(|number| {
        let prompts: Vec<String> = (0..ROUNDS).map(|n| round(&world, number, n, &nap)).collect();
        let wire = world.wire.clone();
        tokio::spawn(async move {
            let session = wire.create_session().await;
            for prompt in prompts {
                wire.prompt(&session, &prompt).await;
            }
            session
        })
    });
    let mut sessions = Vec::new();
    for work in work.collect::<Vec<_>>() {
        sessions.push(work.await.expect("a session's work"));
    }

    let shared = world.project.read("shared.txt");
    for (number, session) in sessions.iter().enumerate() {
        let parts = world.tool_parts(session).await;
        assert_eq!(parts.len(), ROUNDS * 7, "{session}");
        let mut exits = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            let state = &part["state"];
            if n % 7 == 0 {
                // What another session wrote since one looked is not written over: that is said, and true.
                let is_done = state["status"] == "completed";
                assert!(
                    is_done || state["error"].as_str().is_some_and(|error| error.contains("Read it again")),
                    "{state}"
                );
                assert_eq!(shared.matches(&token(number, n / 7)).count(), usize::from(is_done), "{state}\n{shared}");
                assert!(is_done || n > 0, "nobody had looked before the first round: {state}");
                continue;
            }
            completed(part);
            exits.extend((part["tool"] == "bash").then(|| &state["metadata"]["exit"]));
        }
        assert_eq!(exits, [&json!(0), &Value::Null, &json!(number)]);
        let done = format!("a{ROUNDS}.\nb{ROUNDS}.\n");
        assert_eq!(world.project.read(format!("own/{number}.txt")), done);
    }

    // One each was left running on purpose; all else is gone, and these go with their sessions.
    assert_eq!(alive(&nap).len(), SESSIONS);
    for session in &sessions {
        world.wire.delete(&format!("/session/{session}")).await;
    }
    until_gone(&nap, PATIENCE).await;
    // No lock is held: each file can still be written.
    let last = json!({ "filePath": world.project.path("shared.txt"), "content": "free\n" });
    completed(&world.call("write", last).await);
    assert_eq!(world.project.read("shared.txt"), "free\n");
}
