//! A terminal that is closed while a command works in it.

use pretty_assertions::assert_eq;
use support::{Gate, Home, Project, ScriptedModel, Step, Terminal};

use super::answered;
use crate::world::{World, troupe};

const TROUPE: &str = env!("CARGO_BIN_EXE_troupe");
/// The exit code of who was hung up.
const HUNG_UP: i32 = 129;

/// A model that says something and then waits, a project, and a command in a terminal that waits for it.
async fn at_work(home: &Home) -> (ScriptedModel, Project, Gate, Terminal) {
    let model = ScriptedModel::start().await;
    let gate = Gate::new();
    model.script("tick", [Step::text("tick tock").chunks(2).gate_at(support::At::Text(1), &gate)]);
    let project = Project::new(&model).create();
    let terminal = home.run_in_terminal(TROUPE, project.dir(), &["run", "tick"]);
    gate.reached().await;
    (model, project, gate, terminal)
}

#[tokio::test]
async fn a_command_ends_with_its_terminal_and_its_turn_goes_on_at_the_next_start() {
    let home = Home::new();
    let (model, project, gate, terminal) = at_work(&home).await;

    let status = terminal.hang_up().await;

    assert_eq!(status.code(), Some(HUNG_UP), "{status}");
    model.wait_for_dropped(1).await;
    gate.open();
    let service = troupe().home(&home).start().await;
    let wire = service.wire(project.dir());
    let session = wire.get("/session").await.1[0]["id"].as_str().expect("a session").to_owned();
    let world = World { model, project, service, wire };
    answered(&world, &session, "tick tock").await;
}

#[tokio::test]
async fn a_command_that_has_joined_a_service_ends_with_its_terminal_and_its_turn_goes_on() {
    let home = Home::new();
    let service = troupe().home(&home).start().await;
    let (model, project, gate, terminal) = at_work(&home).await;

    assert_eq!(terminal.hang_up().await.code(), Some(HUNG_UP));

    gate.open();
    let wire = service.wire(project.dir());
    let session = wire.get("/session").await.1[0]["id"].as_str().expect("a session").to_owned();
    let world = World { model, project, service, wire };
    answered(&world, &session, "tick tock").await;
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn the_terminal_client_ends_with_its_terminal_and_leaves_no_server() {
    let home = Home::new();
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).create();
    let terminal = home.run_in_terminal(TROUPE, project.dir(), &[]);
    terminal.until(|shown| shown.len() > 1000).await;

    let status = terminal.hang_up().await;

    assert_eq!(status.code(), Some(HUNG_UP), "{status}");
    // The directory is free at once, so nobody is left who owns it.
    let service = troupe().home(&home).start().await;
    assert_eq!(service.wire(project.dir()).get("/global/health").await.0, 200);
}
