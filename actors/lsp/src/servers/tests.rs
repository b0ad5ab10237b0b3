use pretty_assertions::assert_eq;
use serde_json::json;
use tools::lsp::Operation;

use super::*;
use crate::testing::{World, settings};

const NOTHING: [&str; 0] = [];

fn question(path: &Path, operation: Operation) -> LanguageQuestion {
    LanguageQuestion { operation, path: path.to_owned(), line: 0, character: 0, query: String::new() }
}

#[tokio::test]
async fn errors_are_told_after_the_change_that_makes_them_and_gone_after_the_one_that_mends_them() {
    for mode in ["push", "pull"] {
        let world = World::new(mode);
        assert_eq!(world.told("a.s", "fine\nBAD one\n").await, ["a.s:2: BAD one"], "{mode}");
        assert_eq!(world.told("a.s", "BAD one\nBAD two\n").await, ["a.s:1: BAD one", "a.s:2: BAD two"], "{mode}");
        assert_eq!(world.told("a.s", "fine\n").await, NOTHING, "{mode}");
        let status =
            ServerStatus { id: "scripted".into(), name: "scripted".into(), root: "".into(), status: "connected" };
        assert_eq!(world.servers.status(), [status]);
    }
}

#[tokio::test]
async fn new_errors_of_other_files_are_told_and_old_ones_are_not_again() {
    for mode in ["push", "pull"] {
        let world = World::new(mode);
        assert_eq!(world.told("a.s", "DEFINES it\n").await, NOTHING);
        assert_eq!(world.told("b.s", "USES it\n").await, NOTHING);
        assert_eq!(world.told("a.s", "nothing\n").await, ["b.s:1: USES it"], "{mode}");
        assert_eq!(world.told("a.s", "nothing still\n").await, NOTHING, "{mode}");
    }
}

#[tokio::test]
async fn a_file_that_changed_otherwise_or_is_gone_is_seen_with_the_next_change() {
    let world = World::new("pull");
    assert_eq!(world.told("a.s", "DEFINES it\n").await, NOTHING);
    assert_eq!(world.told("b.s", "BAD\n").await, ["b.s:1: BAD"]);
    std::fs::remove_file(world.root.join("a.s")).unwrap();
    std::fs::write(world.root.join("b.s"), "fine, and longer\n").unwrap();
    assert_eq!(world.told("c.s", "USES it\n").await, ["c.s:1: USES it"]);
    let removed = [world.root.join("c.s")];
    std::fs::remove_file(&removed[0]).unwrap();
    assert_eq!(world.told_of(&removed).await, NOTHING);
}

#[tokio::test]
async fn files_of_no_server_cost_nothing() {
    let world = World::new("push");
    assert_eq!(world.told("a.txt", "BAD").await, NOTHING);
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("x.s");
    std::fs::write(&path, "BAD").unwrap();
    assert!(!world.servers.cover(&path));
    assert_eq!(world.servers.diagnose(&[path]).await, Diagnosed::default());
    assert_eq!(world.servers.status(), []);
}

#[tokio::test]
async fn junk_on_the_pipe_is_survived() {
    let world = World::new("push");
    assert_eq!(world.told("a.s", "JUNK and BAD\n").await, ["a.s:1: JUNK and BAD"]);
    assert_eq!(world.told("a.s", "fine\n").await, NOTHING);
}

#[tokio::test]
async fn one_that_ends_is_told_of_once_and_started_again() {
    let world = World::new("push");
    assert_eq!(world.told("a.s", "BAD\n").await, ["a.s:1: BAD"]);
    let told = world.told("a.s", "DIE\n").await;
    assert!(matches!(&*told, [note] if note.contains("scripted") && note.contains("started again")), "{told:?}");
    assert_eq!(world.servers.status()[0].status, "error");
    assert_eq!(world.told("a.s", "BAD again\n").await, ["a.s:1: BAD again"]);
    assert_eq!(world.told("a.s", "fine\n").await, NOTHING);
}

#[tokio::test]
async fn one_that_ends_again_and_again_is_given_up() {
    let world = World::new("push");
    world.told("a.s", "fine\n").await;
    let entry = lock(&world.servers.inner.entries).values().next().unwrap().clone();
    for _ in AGAIN {
        entry.fell("a test", false);
    }
    assert!(lock(&entry.falls).next.is_some());
    entry.fell("a test", false);
    let told = world.told("a.s", "BAD\n").await;
    assert!(matches!(&*told, [note] if note.contains("not started again")), "{told:?}");
    assert_eq!(world.told("a.s", "BAD\n").await, NOTHING);
    entry.fell("a test", true);
    assert!(lock(&entry.falls).next.is_some());
}

#[tokio::test]
async fn silence_and_a_start_without_end_hold_nobody_up_for_long() {
    let world = World::new("push");
    world.told("a.s", "BAD\n").await;
    let (since, mute) = (std::time::Instant::now(), World::new("mute"));
    // What it said of the old content is not told of the new one.
    let (silent, unready) = tokio::join!(world.told("a.s", "BAD but SILENT\n"), mute.told("a.s", "BAD\n"));
    assert_eq!((&*silent, &*unready), (&NOTHING.map(str::to_owned)[..], &NOTHING.map(str::to_owned)[..]));
    let most = START_WAIT + DIAGNOSTICS_WAIT;
    assert!(since.elapsed() < most, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_program_that_is_no_server_is_tried_seldom_and_told_to_nobody() {
    let world = World::with(&json!({ "x": { "command": ["true"], "extensions": [".s"] } }));
    assert_eq!(world.told("a.s", "BAD\n").await, NOTHING);
    assert_eq!(world.servers.status()[0].status, "error");
    let entry = lock(&world.servers.inner.entries).values().next().unwrap().clone();
    assert_eq!(world.told("a.s", "BAD\n").await, NOTHING);
    assert_eq!(lock(&entry.falls).count, 1);
}

#[tokio::test]
async fn questions_are_answered_and_what_a_server_cant_do_is_said() {
    let world = World::new("push");
    let path = world.write("a.s", "text of it");
    let ask = async |operation| world.servers.ask(&question(&path, operation)).await;
    assert_eq!(ask(Operation::Hover).await.unwrap(), [json!({ "contents": "text of it" })]);
    assert_eq!(ask(Operation::IncomingCalls).await.unwrap(), [json!({ "from": { "name": "f" } })]);
    assert_eq!(ask(Operation::WorkspaceSymbol).await.unwrap(), [json!({ "kind": 12, "name": "f" })]);
    let refused = ask(Operation::GoToDefinition).await.unwrap_err().to_string();
    assert!(refused.contains("scripted") && refused.contains("not here"), "{refused}");
    let none = world.servers.ask(&question(&world.write("a.txt", ""), Operation::Hover)).await.unwrap_err();
    assert!(matches!(none, LspError::NoServer { .. }), "{none}");
}

#[tokio::test]
async fn a_touched_file_starts_its_server_and_all_end_with_the_last_handle() {
    let world = World::new("push");
    let path = world.write("a.s", "BAD");
    world.servers.touch(&path).await;
    world.changed.notified().await;
    assert_eq!(world.servers.status()[0].status, "connected");
    let entry = lock(&world.servers.inner.entries).values().next().unwrap().clone();
    let State::Running(client) = entry.state.borrow().clone() else { panic!("it runs") };
    drop(world);
    client.closed().cancelled().await;
}

#[test]
fn config_of_a_server_is_what_it_is_asked_for() {
    let settings = Settings::of(Some(&settings("push")));
    assert!(settings.cover(Path::new("/a.s")));
    assert_eq!(relative(Path::new("/p/a/b"), Path::new("/p")), "../..");
    assert_eq!(relative(Path::new("/p"), Path::new("/p/web")), "web");
}
