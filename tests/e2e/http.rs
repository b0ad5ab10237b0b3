//! What clients find over HTTP, beyond prompts: sessions, messages, files, settings, and what wrong requests get.

mod errors;
mod files;
mod session;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, Project, Step};

use crate::world::World;

async fn get(world: &World, path: &str) -> Value {
    let (status, body) = world.wire.get(path).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

#[tokio::test]
async fn a_request_names_its_directory_by_query_or_header_and_else_means_where_the_service_started() {
    let world = World::start().await;
    let other = Project::new(&world.model).file("sub dir/x", "").create();
    let sub = other.path("sub dir");
    let path = |path: &std::path::Path| path.display().to_string();
    let places = |named: &str, query: String| {
        let wire = world.service.wire(named);
        async move {
            let (_, body) = wire.get(&format!("/path{query}")).await;
            (text(&body["directory"]), text(&body["worktree"]))
        }
    };
    let here = path(world.project.dir());
    let encoded = path(&sub).replace('/', "%2F").replace(' ', "%20");
    let there = (path(&sub), path(other.dir()));
    assert_eq!(places("", String::new()).await.0, path(world.service.home().dir()));
    assert_eq!(places(&here, String::new()).await, (here.clone(), here.clone()));
    assert_eq!(places(&here, format!("?directory={encoded}")).await, there, "the query beats the header");
    assert_eq!(places(&encoded, String::new()).await, there);

    // A session is in the directory it was made in, whatever a request about it names.
    let session = world.wire.create_session().await;
    let elsewhere = world.service.wire(other.dir());
    assert_eq!(elsewhere.session(&session).await["directory"], json!(world.project.dir()));
    assert_eq!(elsewhere.get("/session").await, (200, json!([])));
}

#[tokio::test]
async fn a_directory_that_is_not_there_has_no_sessions_and_is_no_error() {
    let world = World::start().await;
    assert_eq!(world.wire.get("/session?directory=/no/such/dir").await, (200, json!([])));
}

#[tokio::test]
async fn the_project_its_agents_models_and_settings_are_listed() {
    let world = World::start().await;
    let project = get(&world, "/project/current").await;
    assert_eq!(project["worktree"], json!(world.project.dir()));
    assert_eq!(text(&project["id"]), world.project.git(&["rev-parse", "HEAD"]).trim());
    world.wire.create_session().await;
    assert_eq!(get(&world, "/project").await[0]["id"], project["id"]);

    let agents = get(&world, "/agent").await;
    let by_mode = |mode: &str| -> Vec<String> {
        let agents = agents.as_array().expect("a list").iter();
        agents
            .filter(|agent| agent["mode"] == mode && agent["hidden"] != true)
            .map(|agent| text(&agent["name"]))
            .collect()
    };
    assert_eq!(
        (by_mode("primary"), by_mode("subagent")),
        (vec!["build".into(), "plan".into()], vec!["explore".into(), "general".into()])
    );

    let config = get(&world, "/config").await;
    assert_eq!((&config["model"], &config["share"]), (&json!("mock/mock"), &json!("disabled")));
    assert_ne!(config["provider"]["mock"]["options"]["apiKey"], "x", "keys stay in the service");
    let providers = get(&world, "/config/providers").await;
    assert_eq!(providers["providers"][0]["id"], "mock");
    assert!(providers["providers"][0]["models"]["vision"]["capabilities"]["input"]["image"] == true);
    assert_eq!(providers["default"]["mock"].as_str().map(str::is_empty), Some(false));
    assert!(!get(&world, "/config/providers").await.to_string().contains("\"key\":\"x\""));
    let commands = get(&world, "/command").await;
    assert!(commands.as_array().expect("a list").iter().any(|command| command["name"] == "init"));
    assert_eq!(get(&world, "/global/health").await["healthy"], true);
    let log = json!({ "service": "test", "level": "info", "message": "hello" });
    assert_eq!(world.wire.post("/log", log).await, (200, json!(true)));
}

#[tokio::test]
async fn the_status_lists_who_is_at_work() {
    let world = World::start().await;
    let mut events = world.events().await;
    let gate = Gate::new();
    world.model.script("hold on", [Step::text("done").gate(&gate)]);
    let (busy, idle) = (world.wire.create_session().await, world.wire.create_session().await);
    assert_eq!(get(&world, "/session/status").await, json!({}));
    world.wire.prompt_async(&busy, "hold on").await;
    gate.reached().await;
    assert_eq!(get(&world, "/session/status").await, json!({ busy.as_str(): { "type": "busy" } }));
    // What changes history has to wait, and what only reads or makes a copy does not.
    let (status, body) =
        world.wire.post(&format!("/session/{busy}/shell"), json!({ "agent": "build", "command": "ls" })).await;
    assert_eq!((status, &body["_tag"], &body["sessionID"]), (409, &json!("SessionBusyError"), &json!(busy)));
    let prompt = text(&world.wire.messages(&busy).await[0]["info"]["id"]);
    assert_eq!(world.wire.delete(&format!("/session/{busy}/message/{prompt}")).await.0, 409);
    assert_eq!(world.wire.post(&format!("/session/{busy}/fork"), json!({})).await.0, 200);
    gate.open();
    events.until_idle(&busy).await;
    assert_eq!(get(&world, "/session/status").await, json!({}));
    assert!(events.types(&idle).iter().all(|kind| kind == "session.created"));
}
