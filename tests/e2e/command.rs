//! Commands: templates with arguments, shell and files; agents, models and subagents that run them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::world::{World, said};

async fn run(world: &World, session: &str, body: Value) -> (u16, Value) {
    world.wire.post(&format!("/session/{session}/command"), body).await
}

/// Returns the texts of a session's first user message.
async fn told(world: &World, session: &str) -> Vec<String> {
    let messages = world.wire.messages(session).await;
    let user = messages.iter().find(|message| message["info"]["role"] == "user").expect("a prompt");
    let parts = user["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_template_is_filled_with_arguments_shell_and_files_and_its_end_is_told() {
    let world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    world.project.write(
        ".opencode/command/greet.md",
        "---\ndescription: greets\n---\nHello $2 of $1, !`echo $1; echo @b.txt` and @a.txt\n",
    );
    world.project.write("b.txt", "never\n");
    let session = world.wire.create_session().await;
    let mut events = world.events().await;
    let body = json!({ "command": "greet", "arguments": "'York' Bob Smith" });
    let (status, answer) = run(&world, &session, body).await;
    assert_eq!(status, 200, "{answer}");
    let told = told(&world, &session).await;
    assert_eq!(told[0], "Hello Bob Smith of York, York\n@b.txt\n and @a.txt");
    assert_eq!(told.len(), 3, "the file's call and its text, and none of what shell printed: {told:?}");
    assert!(told[2].contains("1: alpha"), "{}", told[2]);
    let executed = events.wait_for("command.executed").await;
    let wanted = json!({
        "name": "greet", "sessionID": session, "arguments": "'York' Bob Smith",
        "messageID": answer["info"]["id"],
    });
    assert_eq!(executed["properties"], wanted);
    let (_, commands) = world.wire.get("/command").await;
    let greet = commands.as_array().expect("a list").iter().find(|c| c["name"] == "greet").expect("greet").clone();
    assert_eq!((&greet["hints"], &greet["agent"]), (&json!(["$1", "$2"]), &Value::Null));
}

#[tokio::test]
async fn arguments_run_no_shell_and_a_strangers_template_reaches_no_files_outside() {
    let world = World::start().await;
    let outside = world.service.home().path("secret.txt");
    std::fs::write(&outside, "SECRET-MARKER").expect("written");
    world
        .project
        .write(".opencode/command/t.md", format!("Do $ARGUMENTS and @{} and @~/secret.txt", outside.display()));
    let session = world.wire.create_session().await;
    run(&world, &session, json!({ "command": "t", "arguments": "!`echo ran > ran.txt`" })).await;
    let first = told(&world, &session).await;
    assert!(first.len() == 1 && first[0].starts_with("Do !`echo ran > ran.txt` and @"), "{first:?}");
    assert!(!world.project.exists("ran.txt"));

    let other = world.wire.create_session().await;
    run(&world, &other, json!({ "command": "t", "arguments": "@~/secret.txt" })).await;
    let typed = told(&world, &other).await;
    assert!(typed.iter().any(|text| text.contains("SECRET-MARKER")), "what the person typed is theirs: {typed:?}");
}

#[tokio::test]
async fn a_command_names_its_agent_and_model_and_a_subtask_goes_to_a_subagent() {
    let world = World::with_config(json!({
        "permission": { "*": "allow" },
        "command": {
            "as": { "template": "hi", "agent": "plan", "model": "mock/small" },
            "sub": { "template": "look SCRIPT:[{\"text\":\"child says\"}]", "subtask": true, "description": "looks" },
            "deep": { "template": "look", "agent": "explore", "subtask": false },
            "bad": { "template": "x", "agent": "nobody" },
            "off": { "template": "x", "model": "mock/none" },
        },
    }))
    .await;
    let session = world.wire.create_session().await;
    let (_, answer) = run(&world, &session, json!({ "command": "as", "arguments": "" })).await;
    assert_eq!((&answer["info"]["agent"], &answer["info"]["modelID"]), (&json!("plan"), &json!("small")));

    let session = world.wire.create_session().await;
    let (_, answer) = run(&world, &session, json!({ "command": "sub", "arguments": "", "agent": "build" })).await;
    assert_eq!(answer["info"]["agent"], "build");
    let parts = world.wire.parts(&session).await;
    let subtask = parts.iter().find(|part| part["type"] == "subtask").expect("a subtask");
    assert_eq!((&subtask["command"], &subtask["description"]), (&json!("sub"), &json!("looks")));
    let task = parts.iter().find(|part| part["tool"] == "task").expect("a task");
    assert!(task["state"]["output"].as_str().is_some_and(|output| output.contains("child says")), "{task}");

    let (_, answer) =
        run(&world, &world.wire.create_session().await, json!({ "command": "deep", "arguments": "" })).await;
    assert_eq!(answer["info"]["agent"], "explore");

    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    for (command, status, message) in [
        ("bad", 400, "nobody"),
        ("off", 400, "none"),
        ("zzz", 404, "Command not found: \"zzz\". Available commands: init, review, as, sub, deep, bad, off"),
    ] {
        let (got, error) = run(&world, &session, json!({ "command": command, "arguments": "" })).await;
        let told = error["data"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(got == status && told.contains(message), "{got} {error}");
        let event = events.wait_for("session.error").await;
        assert_eq!(event["properties"]["error"]["data"]["message"], json!(told));
    }
    assert_eq!(world.wire.messages(&session).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_command_that_is_sent_again_under_its_id_runs_once() {
    let world = World::start().await;
    world.project.write(".opencode/command/count.md", "!`echo x >> ran.txt; date +%N`");
    let session = world.wire.create_session().await;
    let body = json!({ "command": "count", "arguments": "", "messageID": "msg_00000000000100000000000000" });
    let (_, first) = run(&world, &session, body.clone()).await;
    let (status, second) = run(&world, &session, body).await;
    assert_eq!((status, &second["info"]["id"]), (200, &first["info"]["id"]));
    assert_eq!(world.project.read("ran.txt"), "x\n");
}

#[tokio::test]
async fn init_and_skills_are_commands() {
    let world = World::start().await;
    world
        .project
        .write(".claude/skills/demo/SKILL.md", "---\nname: demo\ndescription: a demo\n---\nDEMO-MARKER body.\n");
    let session = world.wire.create_session().await;
    let mut events = world.events().await;
    let body = json!({ "providerID": "mock", "modelID": "mock", "messageID": "msg_00000000000200000000000000" });
    let (status, done) = world.wire.post(&format!("/session/{session}/init"), body).await;
    assert_eq!((status, done), (200, json!(true)));
    assert!(told(&world, &session).await[0].contains("AGENTS.md"));
    assert_eq!(events.wait_for("command.executed").await["properties"]["name"], "init");

    let session = world.wire.create_session().await;
    let (_, answer) = run(&world, &session, json!({ "command": "demo", "arguments": "now" })).await;
    assert!(!said(&answer).is_empty());
    let told = told(&world, &session).await;
    assert!(told[0].contains("DEMO-MARKER") && told[0].ends_with("\n\nnow"), "{told:?}");
    assert!(told[0].contains(&world.project.path(".claude/skills/demo").display().to_string()), "{told:?}");
}
