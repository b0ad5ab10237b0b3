use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::testing::{LONG, World};
use crate::{Hook, StartError};

const GOOD: &str = r#"export const G = async () => ({ "shell.env": async (i, o) => { o.env.GOOD = "1" } })"#;

async fn environment(world: &World) -> Value {
    let change = world.plugins.change(Hook::ShellEnv, json!({ "cwd": "/" }), json!({ "env": {} }));
    tokio::time::timeout(LONG, change).await.expect("in time")
}

#[tokio::test]
async fn a_hook_that_never_ends_is_skipped_and_later_not_tried() {
    let mut world = World::new()
        .with(".opencode/plugin/a.js", r#"export const A = async () => ({ "shell.env": () => new Promise(() => {}) })"#)
        .with(".opencode/plugin/b.js", GOOD);
    world.limits.hook = Duration::from_millis(150);
    world.load().await;
    for _ in 0..3 {
        assert_eq!(environment(&world).await, json!({ "env": { "GOOD": "1" } }));
    }
    let told = world.told();
    assert!(told.iter().all(|notice| notice.source.ends_with("a.js")), "{told:?}");
    assert_eq!(told.len(), 4, "three times out of time, and that it is not tried again: {told:?}");
    environment(&world).await;
    assert_eq!(world.told(), []);
}

#[tokio::test]
async fn a_hook_that_blocks_the_process_is_named_and_ends_it() {
    let mut world = World::new()
        .with(".opencode/plugin/a.js", r#"export const A = async () => ({ "shell.env": () => { for (;;); } })"#)
        .with(".opencode/plugin/b.js", GOOD);
    world.limits.hook = Duration::from_millis(150);
    let sidecar = world.load().await;
    let ended = sidecar.ended();
    assert_eq!(environment(&world).await, json!({ "env": {} }), "the turn goes on without");
    let ending = tokio::time::timeout(LONG, ended).await.expect("in time");
    assert!(ending.how.contains("stuck"), "{ending}");
    assert!(ending.blocker().is_some_and(|plugin| plugin.ends_with("a.js")), "{ending:?}");
    assert_eq!(world.told().len(), 1);
}

#[tokio::test]
async fn a_plugin_that_blocks_the_process_while_it_loads_is_named_and_ends_it() {
    for endless in ["for (;;);", "export const A = async () => { for (;;); }"] {
        let mut world = World::new().with(".opencode/plugin/a.js", endless).with(".opencode/plugin/b.js", GOOD);
        world.limits.load = Duration::from_millis(1000);
        let started = tokio::time::timeout(LONG, world.start()).await.expect("in time");
        let Err(StartError::Ended(ending)) = started else { panic!("it started") };
        assert!(ending.blocker().is_some_and(|plugin| plugin.ends_with("a.js")), "{ending:?}");
    }
}

#[tokio::test]
async fn an_event_that_blocks_the_process_is_the_fault_of_whom_it_was_told() {
    let mut world = World::new()
        .with(".opencode/plugin/a.js", r#"export const A = async () => ({ event: () => { for (;;); } })"#)
        .with(".opencode/plugin/b.js", GOOD);
    world.limits.hook = Duration::from_millis(150);
    let sidecar = world.load().await;
    sidecar.event(&json!({ "type": "session.idle", "properties": {} }));
    assert_eq!(environment(&world).await, json!({ "env": {} }), "the turn goes on without");
    let ending = tokio::time::timeout(LONG, sidecar.ended()).await.expect("in time");
    assert!(ending.blocker().is_some_and(|plugin| plugin.ends_with("a.js")), "{ending:?}");
}

#[tokio::test]
async fn a_call_that_is_given_up_and_blocks_the_process_ends_it() {
    let world = World::new().with(
        ".opencode/tool/spin.js",
        r#"export default { description: "Spins", args: {}, execute: () => { for (;;); } }"#,
    );
    let sidecar = world.load().await;
    let ended = sidecar.ended();
    let (line, _said) = tokio::sync::mpsc::channel(8);
    let call = sidecar.call(json!({ "tool": "spin", "args": {}, "context": {} }), line).await;
    drop(call.unwrap_or_else(|error| panic!("{error}")));
    let ending = tokio::time::timeout(LONG, ended).await.expect("in time");
    assert!(ending.was_stuck && ending.blocker().is_none(), "a tool is not left out for it: {ending:?}");
    assert_eq!(ending.at.map(|at| at.name).as_deref(), Some("spin"));
}

#[tokio::test]
async fn a_hook_that_kills_the_process_is_named() {
    let mut world = World::new().with(
        ".opencode/plugin/a.js",
        r#"export const A = async () => ({ "shell.env": () => process.kill(process.pid, "SIGKILL") })"#,
    );
    let sidecar = world.load().await;
    assert_eq!(environment(&world).await, json!({ "env": {} }));
    let ending = tokio::time::timeout(LONG, sidecar.ended()).await.expect("in time");
    assert_eq!(ending.how, "signal 9");
    let told = world.told();
    assert!(told.len() == 1 && told[0].source.ends_with("a.js"), "{told:?}");
}

#[tokio::test]
async fn errors_nobody_waits_for_do_not_end_the_process() {
    let world = World::new()
        .with(
            ".opencode/plugin/a.js",
            r#"export const A = async () => ({ "shell.env": () => { setTimeout(() => { throw new Error("late") }); Promise.reject(new Error("lost")) } })"#,
        )
        .with(".opencode/plugin/b.js", GOOD);
    world.load().await;
    for _ in 0..3 {
        assert_eq!(environment(&world).await, json!({ "env": { "GOOD": "1" } }));
    }
}

#[tokio::test]
async fn what_can_not_be_loaded_is_named_and_the_rest_is_loaded() {
    let mut world = World::new()
        .with(".opencode/plugin/a.js", "export const A = (")
        .with(".opencode/plugin/b.js", GOOD)
        .with(".opencode/plugin/c.js", "export const C = async () => { throw new Error('not today') }")
        .with(".opencode/plugin/d.js", "export const D = () => new Promise(() => {})")
        .with(".opencode/tool/e.js", "throw new Error('at the top')")
        .with(".opencode/plugin/f.js", "export const x = 1");
    world.limits.load = Duration::from_millis(1000);
    world.load().await;
    let told = world.told();
    let ends: Vec<&str> = told.iter().filter_map(|notice| notice.source.rsplit('/').next()).collect();
    assert_eq!(ends, ["e.js", "a.js", "c.js", "d.js", "f.js"]);
    assert_eq!(environment(&world).await, json!({ "env": { "GOOD": "1" } }));
}

#[tokio::test]
async fn a_module_that_ends_the_process_while_it_loads_is_named() {
    let world = World::new().with(".opencode/plugin/a.js", "process.exit(7)");
    let Err(StartError::Ended(ending)) = world.start().await else { panic!("it started") };
    assert_eq!(ending.how, "exit code 7");
    assert_eq!(ending.at.map(|at| at.name).as_deref(), Some("load"));
}

#[tokio::test]
async fn when_the_last_handle_goes_the_process_goes_and_plugins_put_things_away() {
    let world = World::new().with(
        ".opencode/plugin/a.js",
        r#"import fs from "node:fs"
           export const A = async ({ directory }) => ({ dispose: async () => fs.writeFileSync(directory + "/gone", "x") })"#,
    );
    let sidecar = world.load().await;
    world.set(crate::State::Starting);
    drop(sidecar);
    let gone = async {
        while !world.path("gone").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("in time");
}
