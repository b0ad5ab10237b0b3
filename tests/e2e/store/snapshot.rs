//! Snapshots of a project's files: small, never of a home, and never in the way.

use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Project, ScriptedModel, Step, call};

use crate::world::{World, calling, completed, said, troupe};

/// Returns how many bytes the files below a directory have.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Returns bytes that can't be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn edits(count: usize) -> Vec<Step> {
    let edit = |at: usize| {
        let (old, new) = (format!("v{at}"), format!("v{}", at + 1));
        Step::calls([call("edit", json!({ "filePath": "f", "oldString": old, "newString": new }))])
    };
    (0..count).map(edit).chain([Step::text("done")]).collect()
}

#[tokio::test]
async fn ignored_and_large_files_are_not_in_them_and_small_edits_take_little() {
    let world = World::with_config(json!({
        "permission": { "*": "allow" }, "troupe": { "snapshot": { "max_file_bytes": 1_000_000 } },
    }))
    .await;
    world.project.write(".gitignore", "ignored.bin\n");
    world.project.write("ignored.bin", noise(8 << 20));
    world.project.write("untracked.bin", noise(8 << 20));
    world.project.write("f", "v0\n");
    world.model.script("edit it", edits(6));
    let session = world.wire.create_session().await;

    world.wire.prompt(&session, "edit it").await;

    assert_eq!(world.project.read("f"), "v6\n");
    let patches = world.wire.parts(&session).await.into_iter().filter(|part| part["type"] == "patch").count();
    assert_eq!(patches, 6, "each edit is seen");
    let snapshots = size(&world.service.home().path(".local/share/troupe/snapshot"));
    assert!((1..1_000_000).contains(&snapshots), "{snapshots} bytes");
}

#[tokio::test]
async fn a_home_directory_has_none_and_the_log_says_so() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let home = support::Home::new();
    for file in ["opencode.json", ".git"] {
        std::fs::rename(project.path(file), home.path(file)).expect("moved");
    }
    std::fs::write(home.path("big.bin"), noise(4 << 20)).expect("written");
    let service = troupe().home(&home).start().await;
    let wire = service.wire(home.dir());
    let session = wire.create_session().await;

    let answer = wire.prompt(&session, &calling([("write", json!({ "filePath": "x.txt", "content": "x" }))])).await;

    assert_eq!(said(&answer), "done");
    assert!(home.path("x.txt").exists());
    assert_eq!(size(&home.path(".local/share/troupe/snapshot")), 0);
    let log = service.stderr();
    assert_eq!(log.matches("no snapshots are taken").count(), 1, "{log}");
    assert!(log.contains(&home.dir().display().to_string()), "{log}");
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_stops_snapshots_and_not_the_session() {
    let world = World::with_config(json!({
        "permission": { "*": "allow" }, "troupe": { "snapshot": { "min_free_bytes": u64::MAX } },
    }))
    .await;
    world.project.write("f", "v0\n");
    world.model.script("edit it", edits(2));
    let session = world.wire.create_session().await;

    assert_eq!(said(&world.wire.prompt(&session, "edit it").await), "done");

    assert_eq!(world.project.read("f"), "v2\n");
    let log = world.service.stderr();
    assert!(log.contains("min_free_bytes") && log.contains("no snapshot could be taken"), "{log}");
}

#[tokio::test]
async fn a_service_killed_while_it_takes_one_takes_the_next_as_if_nothing_was() {
    // A git that waits at its second half: behind the lock of the index, a file half-written.
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let home = support::Home::new();
    let git = which("git");
    let script = format!(
        "#!/bin/sh\nif [ -e {0}/stall ]; then case \"$*\" in *update-index*)\n  dir=\"${{1#--git-dir=}}\"\n  \
         echo half > \"$dir/index.lock\"; mkdir -p \"$dir/objects/ab\"; echo half > \"$dir/objects/ab/tmp_obj_x\"\n  \
         echo here > {0}/pipe; exec sleep 600;;\nesac; fi\nexec {git} \"$@\"\n",
        home.dir().display()
    );
    support::write_program(home.path("bin/git"), &script);
    let made = home.run("mkfifo", home.dir(), &["pipe"]).await;
    assert!(made.status.success());
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").expect("a path"));
    let mut service = troupe().home(&home).env("PATH", path).start().await;
    let wire = service.wire(project.dir());
    project.write("f", "v0\n");
    let session = wire.create_session().await;
    wire.prompt(&session, &calling([("bash", json!({ "command": "echo v1 > f", "description": "x" }))])).await;
    for round in 0..3 {
        std::fs::write(home.path("stall"), "").expect("written");
        project.write(format!("new{round}"), noise(1000));
        let command = json!({ "command": format!("echo {round} >> f"), "description": "x" });
        wire.prompt_async(&session, &calling([("bash", command)])).await;
        let reached = home.run("cat", home.dir(), &["pipe"]).await;
        assert_eq!(reached.stdout, "here\n");
        service.kill9().await;
        std::fs::remove_file(home.path("stall")).expect("removed");
        service.restart().await;
        let mut events = wire.events().await;
        while wire.get("/session/status").await.1 != json!({}) {
            events.until_idle(&session).await;
        }
    }
    model.script(
        "edit it",
        [Step::calls([call("write", json!({ "filePath": "g", "content": "x" }))]), Step::text("done")],
    );
    let session = wire.create_session().await;
    wire.prompt(&session, "edit it").await;
    let parts = wire.parts(&session).await;
    completed(parts.iter().find(|part| part["type"] == "tool").expect("a call"));
    let patch = parts.iter().find(|part| part["type"] == "patch").expect("a patch");
    assert_eq!(patch["files"], json!([project.path("g").display().to_string()]), "and nothing else");
    let locks = size_of_locks(&home.path(".local/share/troupe/snapshot"));
    assert_eq!(locks, 0);
}

/// Returns how many lock files are below a directory.
fn size_of_locks(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => size_of_locks(&path),
            path => usize::from(path.extension().is_some_and(|extension| extension == "lock")),
        })
        .sum()
}

/// Returns where a program is.
fn which(program: &str) -> String {
    let path = std::env::var("PATH").expect("a path");
    let found = path.split(':').map(|dir| Path::new(dir).join(program)).find(|path| path.is_file());
    found.expect("the program").display().to_string()
}
