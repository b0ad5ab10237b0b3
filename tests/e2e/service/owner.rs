//! One process owns a data directory.

use pretty_assertions::assert_eq;
use support::{Gate, Step};

use crate::world::{World, troupe};

/// What the lock file says.
fn lock(world: &World) -> serde_json::Value {
    let path = world.service.home().path(".local/share/troupe/troupe.lock");
    serde_json::from_str(&std::fs::read_to_string(path).expect("a lock file")).expect("JSON")
}

#[tokio::test]
async fn a_second_service_names_the_first_and_ends() {
    let world = World::start().await;
    let session = world.wire.create_session().await;

    let second = troupe().home(world.service.home()).start_and_end().await;

    assert_eq!(second.status.code(), Some(1));
    let (pid, url) = (world.service.pid().to_string(), world.service.base_url());
    assert!(second.stderr.contains(&pid) && second.stderr.contains(&url), "{}", second.stderr);
    assert!(second.stderr.contains("TROUPE_DATA_DIR"), "it says what to do: {}", second.stderr);
    assert_eq!(lock(&world)["pid"], world.service.pid());
    assert_eq!(world.wire.get(&format!("/session/{session}")).await.0, 200, "the first goes on");
}

#[tokio::test]
async fn another_data_directory_has_another_owner() {
    let world = World::start().await;
    let data = world.service.home().path("elsewhere");
    let second = troupe().home(world.service.home()).env("TROUPE_DATA_DIR", data.display().to_string()).start().await;
    let session = world.wire.create_session().await;
    let other = second.wire(world.project.dir());
    assert_eq!(other.get(&format!("/session/{session}")).await.0, 404);
    assert!(data.join("troupe.db").exists());
}

#[tokio::test]
async fn after_a_kill_the_directory_is_free_at_once() {
    let mut world = World::start().await;
    let session = world.wire.create_session().await;
    let first = world.service.pid();
    world.service.kill9().await;
    assert_eq!(lock(&world)["pid"], first);

    let second = troupe().home(world.service.home()).start().await;

    assert_eq!(lock(&world)["pid"], second.pid());
    assert_eq!(second.wire(world.project.dir()).get(&format!("/session/{session}")).await.0, 200);
}

#[tokio::test]
async fn a_command_joins_the_service_over_its_socket() {
    let world = World::start().await;
    world.model.script("say hi", [Step::text("hi from the model")]);
    let mut events = world.events().await;

    let ran = world.service.home().run(env!("CARGO_BIN_EXE_troupe"), world.project.dir(), &["run", "say hi"]).await;

    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("hi from the model"), "{}", ran.stdout);
    let idle = events.wait_for("session.idle").await;
    let session = idle["properties"]["sessionID"].as_str().expect("an id");
    assert_eq!(world.wire.messages(session).await.len(), 2, "the service did the work");
}

#[tokio::test]
async fn a_service_that_was_told_to_end_leaves_nothing_running_and_frees_the_directory() {
    let mut world = World::start().await;
    let gate = Gate::new();
    world.model.script("wait", [Step::text("at last").gate(&gate)]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "wait").await;
    gate.reached().await;
    let events = world.wire.global_events().await;

    assert_eq!(world.service.terminate().await.code(), Some(0));

    events.until_end().await;
    world.model.wait_for_dropped(1).await;
    gate.open();
    let second = troupe().home(world.service.home()).start().await;
    let wire = second.wire(world.project.dir());
    let mut events = wire.events().await;
    while wire.get("/session/status").await.1 != serde_json::json!({}) {
        events.until_idle(&session).await;
    }
    assert_eq!(crate::world::said(wire.messages(&session).await.last().expect("an answer")), "at last");
}
