use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::Hook;
use crate::testing::World;

#[tokio::test]
async fn hooks_of_all_plugins_run_in_order_and_change_the_output() {
    let world = World::new()
        .with(".opencode/plugin/a.js", r#"export const A = async () => ({ "chat.params": async (i, o) => { o.temperature = 1; o.options.a = i.agent } })"#)
        .with(".opencode/plugin/b.js", r#"export const B = async () => ({ "chat.params": async (i, o) => { o.temperature += 1 } })"#);
    world.load().await;
    assert!(world.plugins.has(Hook::ChatParams));
    assert!(!world.plugins.has(Hook::ChatHeaders));
    let changed: Value = world
        .plugins
        .change(Hook::ChatParams, json!({ "agent": "build" }), json!({ "temperature": 0, "options": {} }))
        .await;
    assert_eq!(changed, json!({ "temperature": 2, "options": { "a": "build" } }));
}

#[tokio::test]
async fn several_outputs_go_in_one_request_each_with_its_input() {
    let world = World::new().with(
        ".opencode/plugin/a.js",
        r#"export const A = async () => ({ "tool.definition": (i, o) => { o.description += ` (${i.toolID})` } })"#,
    );
    world.load().await;
    let calls = ["x", "y"].map(|id| (json!({ "toolID": id }), json!({ "description": "d" }))).to_vec();
    let changed: Vec<Value> = world.plugins.change_each(Hook::ToolDefinition, calls).await;
    assert_eq!(changed, [json!({ "description": "d (x)" }), json!({ "description": "d (y)" })]);
}

#[tokio::test]
async fn a_hook_that_throws_is_named_and_what_it_changed_is_taken_back() {
    let mut world = World::new()
        .with(".opencode/plugin/a.js", r#"export const A = async () => ({ "shell.env": async (i, o) => { o.env.BAD = "1"; throw new Error("oh no") } })"#)
        .with(".opencode/plugin/b.js", r#"export const B = async () => ({ "shell.env": async (i, o) => { o.env.GOOD = "1" } })"#);
    world.load().await;
    let changed: Value = world.plugins.change(Hook::ShellEnv, json!({ "cwd": "/" }), json!({ "env": {} })).await;
    assert_eq!(changed, json!({ "env": { "GOOD": "1" } }));
    let told = world.told();
    assert!(told.len() == 1 && told[0].source.ends_with("a.js") && told[0].message.contains("oh no"), "{told:?}");
}

#[tokio::test]
async fn an_error_before_a_call_refuses_it() {
    let world = World::new().with(
        ".opencode/plugin/guard.js",
        r#"export const Guard = async () => ({ "tool.execute.before": async (input, output) => {
             if (output.args.filePath?.endsWith(".env")) throw new Error("Do not read .env files")
             output.args.filePath += ".txt"
           } })"#,
    );
    world.load().await;
    let input = json!({ "tool": "read", "sessionID": "s", "callID": "c" });
    let changed = world.plugins.before_call(&input, json!({ "filePath": "a" })).await;
    assert_eq!(changed, Ok(json!({ "filePath": "a.txt" })));
    let refused = world.plugins.before_call(&input, json!({ "filePath": ".env" })).await.expect_err("refused");
    assert_eq!(refused.message, "Do not read .env files");
}

#[tokio::test]
async fn events_reach_plugins_and_one_that_fails_with_them_is_named() {
    let mut world = World::new().with(
        ".opencode/plugin/e.js",
        r#"import fs from "node:fs"
           export const E = async ({ directory }) => ({ event: async ({ event }) => {
             fs.appendFileSync(directory + "/seen", event.type + "\n")
             throw new Error("after " + event.type)
           } })"#,
    );
    world.load().await;
    world.plugins.event(&json!({ "type": "session.idle", "properties": {} }));
    let told = world.next_told().await;
    assert!(told.message.contains("after session.idle"), "{told:?}");
    assert_eq!(std::fs::read_to_string(world.path("seen")).expect("a file"), "session.idle\n");
}

#[tokio::test]
async fn an_output_that_makes_no_sense_is_not_taken() {
    let mut world = World::new().with(
        ".opencode/plugin/a.js",
        r#"export const A = async () => ({ "chat.headers": (i, o) => { o.headers = 7 } })"#,
    );
    world.load().await;
    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct Headers {
        headers: std::collections::BTreeMap<String, String>,
    }
    let own = || Headers { headers: [("a".to_owned(), "b".to_owned())].into() };
    assert_eq!(world.plugins.change(Hook::ChatHeaders, json!({}), own()).await, own());
    assert_eq!(world.told().len(), 1);
}

#[tokio::test]
async fn without_plugins_nothing_is_asked_of_anybody() {
    let none = crate::Plugins::none();
    assert!(!none.has(Hook::Event) && none.tools().is_empty());
    assert_eq!(none.change(Hook::ShellEnv, json!({}), json!({ "env": {} })).await, json!({ "env": {} }));
    none.ready(std::time::Duration::MAX).await;
}
