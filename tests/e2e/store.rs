//! What is stored: under foreign locks, damaged, kept small, and found again.

mod snapshot;

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sqlx::Connection;
use support::{Gate, Home, Project, ScriptedModel, Step, call};

use crate::crash::database;
use crate::world::{World, completed, said, troupe};

/// Returns the database files that were put aside.
fn put_aside(home: &Home) -> Vec<PathBuf> {
    let files = std::fs::read_dir(home.path(".local/share/troupe")).expect("the data directory").flatten();
    let mut kept: Vec<_> = files.map(|file| file.path()).collect();
    let is_copy = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.contains(".damaged-") && !name.ends_with("-shm") && !name.ends_with("-wal")
    };
    kept.retain(is_copy);
    kept.sort();
    kept
}

/// Stops the service, does this to its database, and returns what the file then holds.
async fn hurt(world: &mut World, how: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    world.service.terminate().await;
    let path = world.service.home().path(".local/share/troupe/troupe.db");
    let mut bytes = std::fs::read(&path).expect("the database");
    how(&mut bytes);
    std::fs::write(&path, &bytes).expect("written");
    bytes
}

async fn works(world: &World) {
    let session = world.wire.create_session().await;
    world.model.script("does it work", [Step::text("it works")]);
    assert_eq!(said(&world.wire.prompt(&session, "does it work").await), "it works");
}

#[tokio::test]
async fn a_foreign_lock_holds_prompts_up_and_fails_none() {
    const SESSIONS: usize = 6;
    const CALLS: usize = 8;
    let world = World::start().await;
    world.project.write("a", "alpha\n");
    let reads =
        |from: usize| (0..CALLS).map(move |at| call("read", json!({ "filePath": "a", "limit": from + at + 1 })));
    let gate = Gate::new();
    world.model.script(
        "go",
        [
            Step::calls(reads(0)).gate(&gate),
            Step::calls(reads(CALLS)),
            Step::calls(reads(2 * CALLS)),
            Step::text("done"),
        ],
    );
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(world.wire.create_session().await);
    }
    let prompts = sessions.iter().map(|session| {
        let (wire, session) = (world.wire.clone(), session.clone());
        tokio::spawn(async move { wire.prompt(&session, "go").await })
    });
    let prompts: Vec<_> = prompts.collect();
    gate.reached_by(SESSIONS).await;
    let mut reader = database(&world).await;
    sqlx::query("begin").execute(&mut reader).await.expect("begun");
    sqlx::query("select count(*) from message").execute(&mut reader).await.expect("read");
    let mut locker = database(&world).await;
    sqlx::query("begin immediate").execute(&mut locker).await.expect("the lock");
    gate.open();
    // While the lock is held, reads are answered, and what is written waits.
    let (wire, session) = (world.wire.clone(), sessions[0].clone());
    let held =
        tokio::spawn(async move { wire.patch(&format!("/session/{session}"), json!({ "title": "held" })).await });
    world.model.wait_for_requests(SESSIONS).await;
    assert_eq!(world.wire.get(&format!("/session/{}", sessions[0])).await.0, 200);
    assert!(!held.is_finished());
    sqlx::query("rollback").execute(&mut locker).await.expect("given back");

    assert_eq!(held.await.expect("an answer").0, 200);
    for (session, prompt) in sessions.iter().zip(prompts) {
        assert_eq!(said(&prompt.await.expect("an answer")), "done");
        let parts = world.tool_parts(session).await;
        assert_eq!(parts.len(), 3 * CALLS);
        for part in &parts {
            completed(part);
        }
    }
    sqlx::query("rollback").execute(&mut reader).await.expect("ended");
    reader.close().await.expect("closed");
    locker.close().await.expect("closed");
    let metrics = world.wire.get("/metrics").await.1;
    assert!(metrics.as_str().is_some_and(|text| text.contains("troupe_journal_commit_slowest")), "{metrics}");
}

#[tokio::test]
async fn a_damaged_database_is_kept_and_what_is_left_of_it_goes_on() {
    let mut world = World::start().await;
    let session = world.wire.create_session().await;
    world.model.script("long", [Step::text("x".repeat(3000))]);
    world.wire.prompt(&session, "long").await;

    let broken = hurt(&mut world, |bytes| bytes[4096..8192].fill(0xFF)).await;
    world.service.restart().await;

    let kept = put_aside(world.service.home());
    assert!(std::fs::read(&kept[0]).expect("the copy") == broken, "the copy is the damaged file");
    let log = world.service.stderr();
    assert!(log.contains("troupe.db") && log.contains(&kept[0].display().to_string()), "{log}");
    assert_eq!(said(world.wire.messages(&session).await.last().expect("an answer")), "x".repeat(3000));
    works(&world).await;
}

#[tokio::test]
async fn what_is_no_database_is_kept_and_a_new_one_begun() {
    for (what, is_kept) in [("hello", true), ("", false), ("SQLite format 3\0 and then nothing that makes sense", true)]
    {
        let mut world = World::start().await;
        world.wire.create_session().await;

        hurt(&mut world, |bytes| *bytes = what.as_bytes().to_vec()).await;
        world.service.restart().await;

        let kept = put_aside(world.service.home());
        assert_eq!(!kept.is_empty(), is_kept, "{what:?}");
        for path in &kept {
            assert_eq!(std::fs::read_to_string(path).expect("the copy"), what);
        }
        assert_eq!(world.wire.get("/session").await, (200, json!([])));
        works(&world).await;
    }
}

#[tokio::test]
async fn told_to_begin_anew_it_carries_nothing_over() {
    let mut world = World::start().await;
    world.wire.create_session().await;
    let settings = world.service.home().path(".config/opencode");
    std::fs::create_dir_all(&settings).expect("made");
    let config = json!({ "troupe": { "damaged": "replace" } });
    std::fs::write(settings.join("opencode.json"), config.to_string()).expect("written");

    hurt(&mut world, |bytes| bytes[4096..8192].fill(0xFF)).await;
    world.service.restart().await;

    assert_eq!(put_aside(world.service.home()).len(), 1);
    assert_eq!(world.wire.get("/session").await, (200, json!([])));
    works(&world).await;
}

#[tokio::test]
async fn a_bad_page_found_while_it_runs_is_named_and_mended_by_the_next_start() {
    let mut world = World::start().await;
    let (bad, good) = (world.wire.create_session().await, world.wire.create_session().await);
    world.model.script("long", [Step::text("needle".repeat(4000))]);
    world.wire.prompt(&bad, "long").await;
    hurt(&mut world, |bytes| {
        let at = bytes.windows(60).rposition(|part| part == "needle".repeat(10).as_bytes()).expect("its text");
        let page = at / 4096 * 4096;
        bytes[page..page + 4096].fill(0xFF);
    })
    .await;
    world.service.restart().await;
    assert_eq!(put_aside(world.service.home()).len(), 0, "not seen at the start");

    let (status, error) = world.wire.get(&format!("/session/{bad}/message")).await;
    if status == 200 {
        // A page in the middle of a text holds nothing but text: only the text is wrong, and nothing can know.
        return;
    }

    let message = error["data"]["message"].as_str().expect("a message");
    assert!(message.contains("troupe.db is damaged") && message.contains("start troupe again"), "{error}");
    world.model.script("other", [Step::text("fine")]);
    assert_eq!(said(&world.wire.prompt(&good, "other").await), "fine", "others go on");
    world.service.restart().await;
    assert_eq!(put_aside(world.service.home()).len(), 1);
    assert_eq!(world.wire.get(&format!("/session/{bad}/message")).await.0, 200);
    assert_eq!(world.wire.get(&format!("/session/{good}/message")).await.1.as_array().map(Vec::len), Some(2));
    works(&world).await;
}

#[tokio::test]
async fn a_session_is_found_though_its_directory_becomes_a_repository_or_is_renamed() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).without_git().create();
    let mut service = troupe().start().await;
    let plain = project.path("plain");
    std::fs::create_dir(&plain).expect("made");
    std::fs::copy(project.path("opencode.json"), plain.join("opencode.json")).expect("copied");
    let wire = service.wire(&plain);
    let session = wire.create_session().await;
    wire.prompt(&session, "hello").await;
    let lists = async |wire: &support::Wire, query: &str| {
        let list = wire.get(&format!("/session{query}")).await.1;
        list.as_array().into_iter().flatten().any(|info| info["id"] == *session)
    };
    assert!(lists(&wire, "").await);

    for args in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "first"]] {
        let directory = plain.display().to_string();
        project.git(&[&["-C", directory.as_str()][..], args].concat());
    }
    assert!(lists(&wire, "").await, "after git init");
    let newer = wire.create_session().await;
    service.restart().await;
    assert!(lists(&wire, "").await, "after git init and a restart");
    let all = wire.get("/session").await.1;
    assert!(all.as_array().is_some_and(|list| list.iter().any(|info| info["id"] == *newer)), "{all}");
    model.script("again", [Step::text("still here")]);
    assert_eq!(said(&wire.prompt(&session, "again").await), "still here");

    let renamed = project.path("renamed");
    std::fs::rename(&plain, &renamed).expect("renamed");
    let moved = service.wire(&renamed);
    let found = lists(&wire, "").await || lists(&moved, "").await || lists(&moved, "?scope=project").await;
    assert!(found, "after the directory was renamed");
    assert_eq!(moved.get(&format!("/session/{session}")).await.0, 200);
    assert!(matches!(moved.get(&format!("/session/{session}/message")).await, (200, Value::Array(_))));
}
