//! Settings: which files count, what is said of wrong ones, how they are changed, and what is shown of them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::process::Home;
use support::{Project, ScriptedModel};

use crate::world::{World, said, troupe};

async fn shown(world: &World) -> Value {
    let (status, shown) = world.wire.get("/config").await;
    assert_eq!(status, 200, "{shown}");
    shown
}

#[tokio::test]
async fn files_variables_and_directories_are_merged_and_a_change_counts_at_the_next_use() {
    let model = ScriptedModel::start().await;
    let home = Home::new();
    std::fs::create_dir_all(home.path(".config/opencode")).expect("made");
    std::fs::write(
        home.path(".config/opencode/opencode.jsonc"),
        r#"{ /* mine */ "username": "{env:WHO}", "share": "auto", }"#,
    )
    .expect("written");
    let project = Project::new(&model)
        .config(json!({ "instructions": ["a.md"] }))
        .file("sub/opencode.json", r#"{"instructions":["b.md"],"default_agent":"plan"}"#)
        .file("sub/.opencode/agent/rev.md", "---\nmode: subagent\ndescription: reviews\n---\nYou review.")
        .create();
    let service = troupe()
        .home(&home)
        .env("WHO", "grace")
        .env("OPENCODE_CONFIG_CONTENT", r#"{"subagent_depth":3}"#)
        .env("OPENCODE_PERMISSION", r#"{"bash":"deny"}"#)
        .start()
        .await;
    let wire = service.wire(project.path("sub"));
    let (_, shown) = wire.get("/config").await;
    assert_eq!(shown["username"], "grace");
    assert_eq!(shown["share"], "disabled", "the project is stronger than the global file");
    assert_eq!(shown["instructions"], json!(["a.md", "b.md"]));
    assert_eq!((&shown["subagent_depth"], &shown["permission"]["bash"]), (&json!(3), &json!("deny")));
    assert_eq!(shown["agent"]["rev"]["name"], "rev");
    assert_eq!(wire.get("/global/config").await.1["username"], "grace");
    let (_, agents) = wire.get("/agent").await;
    assert_eq!(agents[0]["name"], "plan", "the default agent comes first");

    project.write("sub/.opencode/agent/new.md", "New.");
    project.write("sub/opencode.json", r#"{"default_agent":"build"}"#);
    let (_, agents) = wire.get("/agent").await;
    let names: Vec<&str> = agents.as_array().expect("agents").iter().filter_map(|a| a["name"].as_str()).collect();
    assert_eq!(names[0], "build");
    assert!(names.contains(&"new") && names.contains(&"rev"), "{names:?}");
}

#[tokio::test]
async fn wrong_settings_are_named_with_file_line_and_what_was_expected_and_heal() {
    let world = World::start().await;
    world.project.write("opencode.jsonc", "{\n  \"share\": \"zzz\",\n  \"snapshot\": 1\n}");
    let (status, error) = world.wire.get("/config").await;
    assert_eq!((status, &error["name"]), (400, &json!("ConfigInvalidError")));
    let data = &error["data"];
    assert_eq!(data["path"], json!(world.project.path("opencode.jsonc")));
    let wanted = json!([
        { "path": ["share"], "message": "Expected \"manual\" | \"auto\" | \"disabled\", got \"zzz\"", "line": 2 },
        { "path": ["snapshot"], "message": "Expected boolean, got 1", "line": 3 },
    ]);
    assert_eq!(data["issues"], wanted);
    assert_eq!(world.wire.post("/session", json!({})).await.0, 400);

    world.project.write("opencode.jsonc", "{ \"shre\": \"auto\" }");
    assert_eq!(world.wire.get("/config").await.0, 200);
    let (_, told) = world.wire.get("/troupe/config").await;
    let warning = told["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("opencode.jsonc:1: shre") && warning.contains("did you mean \"share\"?"), "{warning}");
}

#[tokio::test]
async fn a_change_by_the_wire_is_written_with_comments_kept_counts_at_once_and_is_told() {
    let world = World::start().await;
    world.project.write(".opencode/opencode.jsonc", "{\n  // mine\n  \"username\": \"ada\"\n}\n");
    let mut events = world.events().await;
    let change = json!({ "username": "bob", "agent": { "build": { "steps": 7 } } });
    assert_eq!(world.wire.patch("/config", change.clone()).await, (200, change));
    let text = world.project.read(".opencode/opencode.jsonc");
    assert!(text.contains("// mine") && text.contains("\"bob\""), "{text}");
    assert_eq!(shown(&world).await["username"], "bob");
    let (_, agents) = world.wire.get("/agent").await;
    assert_eq!(agents[0]["steps"], 7);
    events.wait_for("server.instance.disposed").await;

    let (status, error) = world.wire.patch("/config", json!({ "share": "zzz" })).await;
    let message = "Expected \"manual\" | \"auto\" | \"disabled\", got \"zzz\"\n  at [\"share\"]";
    assert_eq!(
        (status, error),
        (400, json!({ "name": "BadRequest", "data": { "message": message, "kind": "Payload" } }))
    );
    assert_eq!(world.wire.patch("/config", json!([1])).await.0, 400);
    assert!(!world.project.exists("config.json"));
}

#[tokio::test]
async fn a_change_of_the_global_settings_counts_everywhere_and_is_told_of_each_directory() {
    let world = World::start().await;
    shown(&world).await;
    let mut events = world.wire.global_events().await;
    let (status, answer) =
        world.wire.patch("/global/config", json!({ "username": "bob", "default_agent": "plan" })).await;
    assert_eq!((status, &answer["username"]), (200, &json!("bob")));
    let disposed = events.wait_for("server.instance.disposed").await;
    assert_eq!(disposed["properties"]["directory"], json!(world.project.dir()));
    events.wait_for("global.disposed").await;
    assert_eq!(shown(&world).await["username"], "bob");
    let text = std::fs::read_to_string(world.service.home().path(".config/opencode/opencode.jsonc")).expect("written");
    assert!(text.contains("\"$schema\"") && text.contains("\"bob\""), "{text}");

    world.wire.patch("/global/config", json!({ "default_agent": null })).await;
    assert_eq!(shown(&world).await.get("default_agent"), None);
}

#[tokio::test]
async fn secrets_are_neither_shown_nor_written_back_nor_logged() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).create();
    let service = troupe().env("HUSH_KEY", "hush-hush").start().await;
    let wire = service.wire(project.dir());
    project.change_config(json!({
        "provider": { "mock": { "options": { "apiKey": "{env:HUSH_KEY}", "headers": { "x-more": "{env:HUSH_KEY}" } } } },
        "mcp": { "off": { "type": "remote", "url": "https://h/x?t={env:HUSH_KEY}", "enabled": false } },
        "instructions": ["gone-{env:HUSH_KEY}.md"],
    }));
    let before = project.read("opencode.json");
    for path in ["/config", "/config/providers", "/provider", "/agent", "/command"] {
        let (status, shown) = wire.get(path).await;
        assert_eq!(status, 200, "{path}: {shown}");
        assert!(!shown.to_string().contains("hush-hush"), "{path}: {shown}");
    }
    // A client that sends back what it was shown changes nothing.
    let (_, shown) = wire.get("/config").await;
    let back =
        json!({ "provider": shown["provider"], "mcp": shown["mcp"]["off"]["enabled"].is_boolean().then(|| json!({})) });
    assert_eq!(wire.patch("/config", back).await.0, 200);
    assert!(project.read("opencode.json").contains("{env:HUSH_KEY}"));
    assert_eq!(
        serde_json::from_str::<Value>(&project.read("opencode.json")).expect("JSON")["provider"]["mock"]["options"],
        serde_json::from_str::<Value>(&before).expect("JSON")["provider"]["mock"]["options"],
    );
    project.change_config(json!({ "share": "{env:HUSH_KEY}" }));
    let (status, error) = wire.get("/config").await;
    assert_eq!(status, 400);
    assert!(!error.to_string().contains("hush-hush"), "{error}");
    assert!(!service.stderr().contains("hush-hush"), "{}", service.stderr());
}

#[tokio::test]
async fn an_agent_file_decides_its_model_prompt_rules_and_options() {
    let world = World::start().await;
    world.project.write(
        ".opencode/agents/careful.md",
        "---\ndescription: careful\nmode: primary\nmodel: mock/vision\nvariant: high\ntop_p: 0.4\npermission:\n  bash: deny\ntools:\n  write: false\nseed: 7\n---\nYou are CAREFUL-MARKER.\n",
    );
    let session = world.wire.create_session().await;
    let parts = json!([{ "type": "text", "text": "hello" }]);
    let answer = world.wire.prompt_with(&session, json!({ "agent": "careful", "parts": parts })).await;
    assert_eq!((&answer["info"]["agent"], &answer["info"]["modelID"]), (&json!("careful"), &json!("vision")));
    assert_eq!(answer["info"]["variant"], "high");
    let request = world.model.requests().into_iter().find(|request| request.has_tools()).expect("a request");
    assert!(request.texts("system")[0].starts_with("You are CAREFUL-MARKER."), "{:?}", request.texts("system"));
    assert_eq!((&request.body["top_p"], &request.body["seed"]), (&json!(0.4), &json!(7)));
    assert_eq!(request.body["reasoning_effort"], "high");
    let tools = request.tool_names();
    for gone in ["bash", "edit", "write"] {
        assert!(!tools.iter().any(|tool| tool == gone), "{tools:?}");
    }

    // An agent's variant is no matter of models that have none.
    let body = json!({ "agent": "careful", "model": { "providerID": "mock", "modelID": "mock" }, "parts": parts });
    let answer = world.wire.prompt_with(&session, body).await;
    assert_eq!(answer["info"].get("variant"), None);
}

#[tokio::test]
async fn a_directory_that_is_idle_as_long_as_its_settings_say_is_given_back() {
    let world = World::with_config(json!({ "troupe": { "workspace": { "idle_ms": 300 } } })).await;
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "hello").await;
    let gauge = |text: &Value, name: &str| {
        let text = text.as_str().unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    let given_back = async {
        loop {
            let (_, figures) = world.wire.get("/metrics").await;
            if gauge(&figures, "troupe_workspaces") == "0" && gauge(&figures, "troupe_sessions_live") == "0" {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::PATIENCE, given_back).await.expect("the directory is given back");
    assert_eq!(said(&world.wire.prompt(&session, "again").await), said(&world.wire.prompt(&session, "again").await));
}
