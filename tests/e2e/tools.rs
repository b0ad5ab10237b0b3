//! What the model is offered, and the tools that are not everybody's: patches, plans, searching, batches.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Project, ScriptedModel};

use crate::world::{World, calling, completed, failed, troupe};

/// A config with a model that is trained on patches.
fn with_gpt() -> Value {
    let model = json!({ "name": "gpt", "limit": { "context": 128_000, "output": 8_192 } });
    json!({ "permission": { "*": "allow" }, "provider": { "mock": { "models": { "gpt-5-mock": model } } } })
}

/// Returns a prompt to that model.
fn to_gpt(prompt: &str) -> Value {
    json!({
        "model": { "providerID": "mock", "modelID": "gpt-5-mock" },
        "parts": [{ "type": "text", "text": prompt }],
    })
}

async fn patch(world: &World, body: &str) -> Value {
    let session = world.wire.create_session().await;
    let patch = format!("*** Begin Patch\n{body}\n*** End Patch");
    world.wire.prompt_with(&session, to_gpt(&calling([("apply_patch", json!({ "patchText": patch }))]))).await;
    world.tool_parts(&session).await.pop().expect("a tool's part")
}

async fn flagged(flags: &[(&str, &str)], config: Value) -> World {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(config).create();
    let service = flags.iter().fold(troupe(), |service, (name, value)| service.env(*name, *value)).start().await;
    let wire = service.wire(project.dir());
    World { model, project, service, wire }
}

/// Returns the names of the tools that a first prompt offers.
async fn offered(world: &World) -> Vec<String> {
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "what do you have?").await;
    world.model.requests().pop().expect("a request").tool_names()
}

#[tokio::test]
async fn a_patch_changes_several_files_at_once_and_one_that_does_not_fit_changes_none() {
    let world = World::with_config(with_gpt()).await;
    world.project.write("u.txt", "one\ntwo\n");
    world.project.write("del.txt", "x\n");
    let body =
        "*** Add File: added.txt\n+hello\n*** Update File: u.txt\n@@\n one\n-two\n+TWO\n*** Delete File: del.txt";
    let mut events = world.events().await;
    let part = patch(&world, body).await;
    let state = completed(&part);
    assert_eq!(state["output"], "Success. Updated the following files:\nA added.txt\nM u.txt\nD del.txt");
    assert_eq!(world.project.read("u.txt"), "one\nTWO\n");
    assert!(world.project.exists("added.txt") && !world.project.exists("del.txt"));
    let edited = events.wait_for("file.edited").await;
    assert_eq!(edited["properties"]["file"], json!(world.project.path("added.txt")));

    let part = patch(&world, "*** Update File: u.txt\n@@\n-TWO\n+two\n*** Update File: added.txt\n@@\n-gone\n+x").await;
    assert!(failed(&part).starts_with("apply_patch verification failed"), "{part}");
    assert_eq!(world.project.read("u.txt"), "one\nTWO\n");
}

#[tokio::test]
async fn a_patch_keeps_the_byte_order_mark_and_the_lines_around_a_change() {
    let world = World::with_config(with_gpt()).await;
    world.project.write("f.js", "\u{FEFF}const v = 1;\nkeep  \nold\ntail\n");
    let part =
        patch(&world, "*** Update File: f.js\n@@\n-const v = 1;\n+const v = 2;\n@@\n keep\n-old\n+new\n tail").await;
    assert!(!completed(&part).to_string().contains('\u{FEFF}'));
    assert_eq!(world.project.read("f.js"), "\u{FEFF}const v = 2;\nkeep  \nnew\ntail\n");
    let read = world.call("read", json!({ "filePath": "f.js" })).await;
    assert!(!text(&completed(&read)["output"]).contains('\u{FEFF}'));
}

#[tokio::test]
async fn lines_go_right_after_their_context_or_nowhere() {
    let world = World::with_config(with_gpt()).await;
    world.project.write("f.txt", "a\nb\nc\n");
    completed(&patch(&world, "*** Update File: f.txt\n@@ a\n+X").await);
    assert_eq!(world.project.read("f.txt"), "a\nX\nb\nc\n");
    let part = patch(&world, "*** Update File: f.txt\n@@ nowhere\n+Y").await;
    assert!(failed(&part).contains("nowhere"));
    assert_eq!(world.project.read("f.txt"), "a\nX\nb\nc\n");
}

#[tokio::test]
async fn a_model_gets_the_tools_it_is_trained_on_and_no_more() {
    let world = World::with_config(with_gpt()).await;
    let usual = "bash edit glob grep question read skill task todowrite webfetch write";
    assert_eq!(offered(&world).await.join(" "), usual);
    let session = world.wire.create_session().await;
    world.wire.prompt_with(&session, to_gpt("and you?")).await;
    let names = world.model.requests().pop().expect("a request").tool_names();
    assert_eq!(names.join(" "), "apply_patch bash glob grep question read skill task todowrite webfetch");
    // A call of the other kind is one that isn't there.
    let edit = calling([("edit", json!({ "filePath": "x", "oldString": "", "newString": "x" }))]);
    world.wire.prompt_with(&session, to_gpt(&edit)).await;
    assert_eq!(world.tool_parts(&session).await.pop().expect("a call")["tool"], "invalid");
    assert!(!world.project.exists("x"));
}

#[tokio::test]
async fn flags_and_the_config_switch_more_tools_on() {
    let flags = [("OPENCODE_EXPERIMENTAL", "1"), ("OPENCODE_ENABLE_EXA", "1")];
    let world = flagged(&flags, json!({ "experimental": { "batch_tool": true } })).await;
    let names = offered(&world).await;
    for name in ["batch", "codesearch", "plan_enter", "repo_clone", "repo_overview", "websearch"] {
        assert!(names.iter().any(|offered| offered == name), "{name}: {names:?}");
    }
}

#[tokio::test]
async fn a_prompts_tools_map_and_rules_take_tools_and_subagents_out_of_the_offer() {
    let rules = json!({ "permission": { "*": "allow", "task": { "*": "allow", "explore": "deny" } } });
    let world = World::with_config(rules).await;
    let session = world.wire.create_session().await;
    let prompt = json!({ "tools": { "bash": false }, "parts": [{ "type": "text", "text": "go" }] });
    world.wire.prompt_with(&session, prompt).await;
    let request = world.model.requests().pop().expect("a request");
    assert!(!request.tool_names().contains(&"bash".to_owned()));
    let tools = request.body["tools"].as_array().expect("tools");
    let task = tools.iter().find(|tool| tool["function"]["name"] == "task").expect("task");
    let description = text(&task["function"]["description"]);
    assert!(description.contains("- general:") && !description.contains("- explore:"), "{description}");
}

#[tokio::test]
async fn skills_that_may_be_used_are_named_in_the_offer() {
    let rules = json!({ "permission": { "*": "allow", "skill": { "*": "allow", "secret": "deny" } } });
    let world = World::with_config(rules).await;
    for name in ["open", "secret"] {
        let skill = format!("---\nname: {name}\ndescription: for {name} things\n---\nDo it.\n");
        world.project.write(format!(".opencode/skill/{name}/SKILL.md"), skill);
    }
    offered(&world).await;
    let request = world.model.requests().pop().expect("a request");
    let tools = request.body["tools"].as_array().expect("tools").clone();
    let skill = tools.iter().find(|tool| tool["function"]["name"] == "skill").expect("skill");
    let description = text(&skill["function"]["description"]);
    assert!(description.contains("- open: for open things") && !description.contains("secret"), "{description}");
}

#[tokio::test]
async fn a_plan_that_the_person_approves_is_carried_out_by_the_build_agent() {
    let world = flagged(&[("OPENCODE_EXPERIMENTAL_PLAN_MODE", "1")], json!({ "permission": { "*": "allow" } })).await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let write = json!({ "filePath": "done.txt", "content": "x" });
    let script = json!([
        { "tools": [{ "name": "plan_exit", "args": {} }] },
        { "tools": [{ "name": "write", "args": write }] },
        { "text": "done" },
    ]);
    let prompt = json!({ "agent": "plan", "parts": [{ "type": "text", "text": format!("go SCRIPT:{script}") }] });
    world.wire.prompt_async_with(&session, prompt).await;
    let request = events.wait_for("question.asked").await["properties"].clone();
    assert_eq!(request["questions"][0]["custom"], false);
    let reply = format!("/question/{}/reply", text(&request["id"]));
    assert_eq!(world.wire.post(&reply, json!({ "answers": [["Yes"]] })).await.0, 200);
    events.until_idle(&session).await;
    let messages = world.wire.messages(&session).await;
    let agents: Vec<String> = messages.iter().map(|message| text(&message["info"]["agent"])).collect();
    assert_eq!(agents[..4].join(" "), "plan plan build build", "{agents:?}");
    assert_eq!(messages[2]["parts"][0]["synthetic"], true);
    assert_eq!(world.project.read("done.txt"), "x");
}

#[tokio::test]
async fn a_plan_that_the_person_turns_down_ends_the_turn() {
    let world = flagged(&[("OPENCODE_EXPERIMENTAL_PLAN_MODE", "1")], json!({})).await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let prompt = json!({ "agent": "plan", "parts": [{ "type": "text", "text": calling([("plan_exit", json!({}))]) }] });
    world.wire.prompt_async_with(&session, prompt).await;
    let request = events.wait_for("question.asked").await["properties"].clone();
    let reply = format!("/question/{}/reply", text(&request["id"]));
    world.wire.post(&reply, json!({ "answers": [["No"]] })).await;
    events.until_idle(&session).await;
    failed(&world.tool_parts(&session).await.pop().expect("a call"));
    assert_eq!(world.model.requests().len(), 1);
    assert_eq!(world.wire.messages(&session).await.len(), 2);
}

#[tokio::test]
async fn the_list_of_things_to_do_can_be_read_again() {
    let world = World::with_config(json!({ "permission": { "*": "allow" }, "tools": { "todoread": true } })).await;
    let session = world.wire.create_session().await;
    let todos = json!([{ "content": "a", "status": "pending", "priority": "high" }]);
    let written = world.call_in(&session, "todowrite", json!({ "todos": todos })).await;
    let read = world.call_in(&session, "todoread", json!({})).await;
    assert_eq!(completed(&read)["output"], completed(&written)["output"]);
}

#[tokio::test]
async fn the_web_is_searched_where_the_config_says() {
    let world = World::start().await;
    let answer =
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "content": [{ "type": "text", "text": "found it" }] } });
    world.model.page("/exa", support::Step::raw([format!("data: {answer}\n\n")]));
    let search = json!({ "provider": "exa", "exa_url": world.model.url("/exa") });
    world.project.change_config(json!({ "troupe": { "search": search } }));
    let part = world.call("websearch", json!({ "query": "rust" })).await;
    let state = completed(&part);
    assert_eq!((&state["output"], &state["title"]), (&json!("found it"), &json!("Exa Web Search: rust")));
    assert_eq!(state["metadata"]["provider"], "exa");
}

#[tokio::test]
async fn a_batch_is_one_call_with_all_results() {
    let world =
        World::with_config(json!({ "permission": { "*": "allow" }, "experimental": { "batch_tool": true } })).await;
    world.project.write("a.txt", "hello\n");
    let calls = json!([
        { "tool": "read", "parameters": { "filePath": "a.txt" } },
        { "tool": "write", "parameters": { "filePath": "b.txt", "content": "new" } },
    ]);
    let part = world.call("batch", json!({ "tool_calls": calls })).await;
    let state = completed(&part);
    assert_eq!(state["title"], "Batch execution (2/2 successful)");
    assert!(text(&state["output"]).contains("1: hello"));
    assert_eq!(world.project.read("b.txt"), "new");
}
