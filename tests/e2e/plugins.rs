//! Plugins: what they change of a turn, what is done when they fail, and ones from npm as they are.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::process::ServiceBuilder;
use support::wire::text;
use support::{PATIENCE, Project, ScriptedModel};

use crate::world::{World, calling, completed, failed, troupe};

/// A world whose project has these files.
async fn world(config: Value, files: &[(&str, &str)]) -> World {
    world_of(troupe(), config, files).await
}

async fn world_of(service: ServiceBuilder, config: Value, files: &[(&str, &str)]) -> World {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).config(config);
    let project = files.iter().fold(project, |project, (path, text)| project.file(*path, *text)).create();
    let service = service.start().await;
    let wire = service.wire(project.dir());
    World { model, project, service, wire }
}

/// Returns the warnings, newest first.
async fn warnings(world: &World) -> Vec<String> {
    let (_, report) = world.wire.get("/troupe/supervision").await;
    let warnings = report["warnings"].as_array().expect("warnings");
    warnings.iter().filter_map(|warning| warning["reason"].as_str()).map(str::to_owned).collect()
}

/// Waits until a warning says all this.
async fn until_warned(world: &World, words: &[&str]) {
    let warned = async {
        while !warnings(world).await.iter().any(|warning| words.iter().all(|word| warning.contains(word))) {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(PATIENCE, warned).await.is_err() {
        panic!("no warning with {words:?} among {:#?}", warnings(world).await);
    }
}

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "test" })
}

/// Has hooks at all the places of a turn.
const EVERYWHERE: &str = r#"
export const Everywhere = async () => ({
  "chat.message": async (input, output) => {
    output.parts.push({ type: "text", text: "ADDED for " + input.agent, synthetic: true })
  },
  "chat.params": async (input, output) => {
    output.temperature = 0.25
    output.options.marker = [input.provider.info.id, input.model.id, input.message.role].join("/")
  },
  "chat.headers": async (input, output) => { output.headers["x-plugin"] = input.agent },
  "experimental.chat.system.transform": async (input, output) => { output.system.push("SYSTEM by " + input.model.id) },
  "experimental.chat.messages.transform": async (input, output) => {
    for (const { parts } of output.messages)
      for (const part of parts) if (part.type === "text") part.text = part.text.replaceAll("hunter2", "[hidden]")
  },
  "tool.definition": async (input, output) => { output.description = "SEEN " + input.toolID + ". " + output.description },
  "tool.execute.before": async (input, output) => {
    if (input.tool === "bash") output.args.command = output.args.command.replace("original", "changed")
  },
  "tool.execute.after": async (input, output) => {
    output.title = "by plugin"
    output.output += "AFTER " + input.args.command
  },
  "shell.env": async (input, output) => { output.env.FROM_PLUGIN = "from " + typeof input.cwd },
})
"#;

#[tokio::test]
async fn plugins_change_what_the_model_is_asked_and_what_it_is_told() {
    let world = world(json!({}), &[(".opencode/plugin/everywhere.js", EVERYWHERE)]).await;
    let session = world.wire.create_session().await;
    let prompt = calling([("bash", bash("echo original $FROM_PLUGIN"))]);
    world.wire.prompt(&session, &format!("my password is hunter2 {prompt}")).await;
    let part = world.tool_parts(&session).await.pop().expect("a call");
    assert_eq!(completed(&part)["title"], "by plugin");
    assert_eq!(completed(&part)["output"], "changed from string\nAFTER echo changed $FROM_PLUGIN");

    let requests: Vec<_> = world.model.requests().into_iter().filter(|request| request.has_tools()).collect();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.body["temperature"], 0.25);
        assert_eq!(request.body["marker"], "mock/mock/user");
        assert_eq!(request.headers.get("x-plugin").map(String::as_str), Some("build"));
        assert!(request.texts("system").concat().contains("SYSTEM by mock"), "{:?}", request.texts("system"));
        let said = request.texts("user").concat();
        assert!(said.contains("ADDED for build") && said.contains("[hidden]") && !said.contains("hunter2"), "{said}");
        let described = request.body["tools"][0]["function"]["description"].as_str().expect("a description");
        assert!(described.starts_with("SEEN "), "{described}");
    }
    let result = requests[1].calls().pop().and_then(|(_, _, result)| result).expect("a result");
    assert!(result.contains("AFTER echo changed"), "{result}");
    let stored = world.wire.parts(&session).await;
    assert!(stored.iter().any(|part| part["text"].as_str().is_some_and(|text| text.contains("hunter2"))));
}

#[tokio::test]
async fn plugins_decide_in_a_persons_place_and_leave_the_rest_to_them() {
    let judge = r#"export const Judge = async () => ({ "permission.ask": async (input, output) => {
      const [pattern] = input.pattern
      if (pattern.includes("yes")) output.status = "allow"
      if (pattern.includes("no")) output.status = "deny"
    } })"#;
    let config = json!({ "permission": { "bash": "ask" } });
    let world = world(config, &[(".opencode/plugins/judge.js", judge)]).await;
    let session = world.wire.create_session().await;
    assert_eq!(completed(&world.call_in(&session, "bash", bash("echo yes")).await)["output"], "yes\n");
    let refused = world.call_in(&session, "bash", bash("echo no")).await;
    assert!(failed(&refused).contains("plugin forbids"), "{}", failed(&refused));
    let mut events = world.events().await;
    world.wire.prompt_async(&session, &calling([("bash", bash("echo maybe"))])).await;
    let asked = events.wait_for("permission.asked").await;
    assert_eq!(asked["properties"]["patterns"], json!(["echo maybe"]));
    world.wire.reply(asked["properties"]["id"].as_str().expect("an id"), "once").await;
    events.until_idle(&session).await;
}

#[tokio::test]
async fn a_plugin_may_refuse_a_call_and_the_model_is_told_why() {
    let guard = r#"export const Guard = async () => ({ "tool.execute.before": async (input, output) => {
      if (input.tool === "read" && output.args.filePath.includes(".env")) throw new Error("Do not read .env files")
    } })"#;
    let world = world(json!({}), &[(".opencode/plugin/guard.js", guard), (".env", "KEY=1"), ("a.txt", "alpha")]).await;
    let refused = world.call("read", json!({ "filePath": ".env" })).await;
    assert_eq!(failed(&refused), "Do not read .env files");
    completed(&world.call("read", json!({ "filePath": "a.txt" })).await);
}

/// A plugin whose hooks do this.
fn bad(what: &str) -> String {
    let names = [
        "chat.message",
        "chat.params",
        "chat.headers",
        "experimental.chat.system.transform",
        "experimental.chat.messages.transform",
        "tool.definition",
        "tool.execute.after",
        "shell.env",
        "event",
    ];
    let hooks = names.map(|name| format!("\"{name}\": async () => {{ {what} }}"));
    format!("export const Bad = async () => ({{ {} }})", hooks.join(",\n"))
}

const GOOD: &str = r#"export const Good = async () => ({ "shell.env": async (i, o) => { o.env.GOOD = "good" } })"#;

#[tokio::test]
async fn hooks_that_throw_are_named_and_the_turn_goes_on() {
    let bad = bad("throw new Error('broken on purpose')");
    let files = [(".opencode/plugin/bad.js", bad.as_str()), (".opencode/plugin/good.js", GOOD)];
    let world = world(json!({}), &files).await;
    let part = world.call("bash", bash("echo it is $GOOD")).await;
    assert_eq!(completed(&part)["output"], "it is good\n");
    until_warned(&world, &["bad.js", "chat.params", "broken on purpose"]).await;
}

#[tokio::test]
async fn hooks_that_hang_are_named_and_skipped_after_their_limit() {
    let bad = bad("await new Promise(() => {})");
    let files = [(".opencode/plugin/bad.js", bad.as_str()), (".opencode/plugin/good.js", GOOD)];
    let world = world(json!({ "troupe": { "plugins": { "hook_ms": 100 } } }), &files).await;
    let part = world.call("bash", bash("echo it is $GOOD")).await;
    assert_eq!(completed(&part)["output"], "it is good\n");
    until_warned(&world, &["bad.js", "shell.env", "longer than 100 ms"]).await;
}

#[tokio::test]
async fn a_hook_that_blocks_its_process_costs_no_turn() {
    let bad = r#"export const Bad = async () => ({ "shell.env": async () => { for (;;); } })"#;
    let world =
        world(json!({ "troupe": { "plugins": { "hook_ms": 100 } } }), &[(".opencode/plugin/bad.js", bad)]).await;
    completed(&world.call("bash", bash("echo one")).await);
    until_warned(&world, &["bad.js", "stuck"]).await;
}

/// Gives commands until a warning says all this and one sees the good plugin; returns the warnings.
async fn until_good(world: &World, session: &str, words: &[&str]) -> Vec<String> {
    let calls = async {
        loop {
            let part = world.call_in(session, "bash", bash("echo it is $GOOD")).await;
            let warned = warnings(world).await;
            let is_warned = warned.iter().any(|warning| words.iter().all(|word| warning.contains(word)));
            if is_warned && completed(&part)["output"] == "it is good\n" {
                return warned;
            }
        }
    };
    match tokio::time::timeout(PATIENCE, calls).await {
        Ok(warned) => warned,
        Err(_) => panic!("no good plugin after {words:?}: {:#?}", warnings(world).await),
    }
}

#[tokio::test]
async fn a_plugin_that_never_lets_its_process_go_on_is_left_out_and_the_others_run() {
    let limits = json!({ "troupe": { "plugins": { "hook_ms": 100, "load_ms": 2000 } } });
    for endless in [
        r#"export const Bad = async () => ({ "shell.env": async () => { for (;;); } })"#,
        r#"export const Bad = async () => ({ "event": async () => { for (;;); } })"#,
        "for (;;);",
    ] {
        let files = [(".opencode/plugin/bad.js", endless), (".opencode/plugin/good.js", GOOD)];
        let world = world(limits.clone(), &files).await;
        let session = world.wire.create_session().await;
        let warned = until_good(&world, &session, &["bad.js", "left out"]).await;
        let left_out = warned.iter().filter(|w| w.contains("bad.js") && w.contains("left out")).count();
        assert_eq!(left_out, 1, "{endless}: {warned:#?}");
        assert!(!warned.iter().any(|warning| warning.contains("good.js")), "{endless}: {warned:#?}");
    }
}

#[tokio::test]
async fn a_custom_tool_that_never_ends_is_ended_by_an_abort_and_its_process_comes_again() {
    let spin = r#"export default { description: "Spins", args: {}, execute: (_, context) => {
        context.metadata({ title: "spinning" })
        for (;;);
    } }"#;
    let files = [(".opencode/tool/spin.js", spin), (".opencode/plugin/good.js", GOOD)];
    let world = world(json!({}), &files).await;
    let session = world.wire.create_session().await;
    let mut events = world.events().await;
    world.wire.prompt_async(&session, &calling([("spin", json!({}))])).await;
    events.wait(|event| event["properties"]["part"]["state"]["title"] == "spinning").await;
    world.wire.abort(&session).await;
    events.until_idle(&session).await;
    until_good(&world, &session, &["spin"]).await;
}

#[tokio::test]
async fn a_hook_that_kills_its_process_costs_no_turn_and_is_left_out_in_the_end() {
    let bad = r#"export const Bad = async () => ({ "shell.env": async () => process.kill(process.pid, "SIGKILL") })"#;
    let good = r#"export const Good = async () => ({ "tool.execute.after": async (i, o) => { o.output += "good" } })"#;
    let files = [(".opencode/plugin/bad.js", bad), (".opencode/plugin/good.js", good)];
    let world = world(json!({}), &files).await;
    let session = world.wire.create_session().await;
    let calls = async {
        loop {
            let part = world.call_in(&session, "bash", bash("echo one")).await;
            let output = completed(&part)["output"].as_str().expect("an output").to_owned();
            assert!(output.starts_with("one"), "{output}");
            if warnings(&world).await.iter().any(|w| w.contains("bad.js") && w.contains("left out"))
                && output.contains("good")
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, calls).await.expect("left out in time");
}

#[tokio::test]
async fn a_changed_plugin_is_loaded_again_and_one_that_is_taken_out_is_gone() {
    let plugin = |word: &str| {
        format!(r#"export const P = async () => ({{ "shell.env": async (i, o) => {{ o.env.WORD = "{word}" }} }})"#)
    };
    let world = world(json!({}), &[(".opencode/plugin/p.js", &plugin("first"))]).await;
    let session = world.wire.create_session().await;
    let said = async || {
        let part = world.call_in(&session, "bash", bash("echo word $WORD")).await;
        completed(&part)["output"].as_str().expect("an output").to_owned()
    };
    assert_eq!(said().await, "word first\n");
    world.project.write(".opencode/plugin/p.js", plugin("the second"));
    assert_eq!(said().await, "word the second\n");
    std::fs::remove_file(world.project.path(".opencode/plugin/p.js")).expect("removed");
    assert_eq!(said().await, "word\n");
}

#[tokio::test]
async fn without_node_the_person_is_told_once_and_all_else_works() {
    let service = troupe().env("PATH", "/nowhere");
    let files = [(".opencode/plugin/good.js", GOOD), ("a.txt", "alpha")];
    let world = world_of(service, json!({}), &files).await;
    completed(&world.call("read", json!({ "filePath": "a.txt" })).await);
    completed(&world.call("read", json!({ "filePath": "a.txt" })).await);
    let warnings = warnings(&world).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("neither Node nor Bun"), "{warnings:?}");
}

/// `opencode-wakatime` tells a time keeper's program of the files that a session changes.
#[tokio::test]
async fn a_plugin_from_npm_that_listens_to_events_runs_as_it_is() {
    let packages = tokio::task::spawn_blocking(|| support::npm::installed("plugins")).await.expect("packages");
    let programs = tempfile::tempdir().expect("a directory");
    let (keeper, kept) = (programs.path().join("wakatime-cli"), programs.path().join("kept"));
    let script = format!("#!/bin/sh\nfor arg in \"$@\"; do echo \"$arg\"; done >> {}\n", kept.display());
    support::write_program(&keeper, &script);
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap_or_default());

    let service = troupe().env("PATH", path).env("WAKATIME_HOME", programs.path().to_string_lossy());
    let plugin = packages.join("node_modules/opencode-wakatime").to_string_lossy().into_owned();
    let world = world_of(service, json!({ "plugin": [plugin] }), &[("a.txt", "alpha\n")]).await;
    let part = world.call("write", json!({ "filePath": world.project.path("b.txt"), "content": "beta\n" })).await;
    completed(&part);
    let file = world.project.path("b.txt").to_string_lossy().into_owned();
    let told = async {
        loop {
            let told = std::fs::read_to_string(&kept).unwrap_or_default();
            if told.contains(&file) && told.contains("opencode-wakatime/1.3.9") {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("the time keeper was told");
    // It asked our server for its version, by the client it was given.
    let (_, health) = world.wire.get("/global/health").await;
    assert!(told.contains(&format!("opencode-cli/{}", health["version"].as_str().expect("a version"))), "{told}");
}

/// `opencode-skills` makes each skill a tool, which puts the skill's text into the conversation by the client it is
/// given.
#[tokio::test]
async fn a_custom_tool_from_npm_is_offered_and_runs_as_it_is() {
    let packages = tokio::task::spawn_blocking(|| support::npm::installed("plugins")).await.expect("packages");
    let plugin = packages.join("node_modules/opencode-skills").to_string_lossy().into_owned();
    let description = "How this house greets its guests";
    let skill = format!("---\nname: greeting\ndescription: {description}\n---\nSay hello in a low voice.\n");
    let files = [(".opencode/skills/greeting/SKILL.md", skill.as_str())];
    let world = world_of(troupe(), json!({ "plugin": [plugin] }), &files).await;

    let part = world.call("skills_greeting", json!({})).await;

    assert!(completed(&part)["output"].as_str().is_some_and(|told| told.contains("Launching skill: greeting")));
    let offered = world.model.requests()[0].body["tools"].to_string();
    assert!(offered.contains("skills_greeting") && offered.contains(description), "{offered}");
    let session = text(&part["sessionID"]);
    let said: Vec<String> =
        world.wire.parts(&session).await.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect();
    assert!(said.iter().any(|text| text.contains("Say hello in a low voice.")), "{said:?}");
}

#[tokio::test]
async fn own_tools_are_programs_and_modules_and_stand_in_for_built_in_ones() {
    let shout = r#"#!/bin/sh
if [ "$1" = --schema ]; then
  echo '{"description":"Shouts","parameters":{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}}'
else
  tr '[:lower:]' '[:upper:]' | sed 's/.*"WORD":"\([^"]*\)".*/\1!/'
fi
"#;
    let webfetch = r#"export default {
  description: "Knows one page", args: {}, execute: async () => "the page of this house",
}"#;
    let world = world(json!({}), &[(".opencode/tool/webfetch.js", webfetch)]).await;
    support::write_program(world.project.path(".opencode/tool/shout"), shout);

    let part = world.call("shout", json!({ "word": "hello" })).await;
    assert!(completed(&part)["output"].as_str().is_some_and(|told| told.contains("HELLO!")), "{part}");
    let part = world.call("webfetch", json!({})).await;
    assert_eq!(completed(&part)["output"], "the page of this house");
}

#[tokio::test]
async fn a_command_is_changed_before_it_is_given() {
    let plugin = r#"export const Before = async () => ({
  "command.execute.before": async (input, output) => {
    output.parts.push({ type: "text", text: "HOOKED " + input.command + " " + input.arguments })
  },
})"#;
    let files = [(".opencode/plugin/before.js", plugin), (".opencode/command/greet.md", "Greet $1.")];
    let world = world(json!({}), &files).await;
    let session = world.wire.create_session().await;
    // The first prompt waits for the plugins.
    world.wire.prompt(&session, "hello").await;
    let command = json!({ "command": "greet", "arguments": "Ada" });
    let (status, answer) = world.wire.post(&format!("/session/{session}/command"), command).await;
    assert_eq!(status, 200, "{answer}");
    let asked = world.model.requests().pop().expect("a request").body.to_string();
    assert!(asked.contains("Greet Ada.") && asked.contains("HOOKED greet Ada"), "{asked}");
}
