//! Servers from npm, as they are.

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Project, ScriptedModel, Step, call};

use super::*;
use crate::world::{completed, failed, troupe};

/// A world with these servers connected; each is a package's main file and its arguments.
async fn with_servers(servers: &[(&str, &str, &[&str])]) -> World {
    let packages = tokio::task::spawn_blocking(|| support::npm::installed("mcp")).await.expect("a task");
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow" } })).create();
    let entry = |(name, package, args): &(&str, &str, &[&str])| {
        let main = packages.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
        let command: Vec<String> = ["node".into(), main.to_string_lossy().into_owned()]
            .into_iter()
            .chain(args.iter().map(|arg| (*arg).to_owned()))
            .collect();
        // Node takes its time on a busy machine.
        ((*name).to_owned(), json!({ "type": "local", "command": command, "timeout": 60_000 }))
    };
    let servers: serde_json::Map<String, Value> = servers.iter().map(entry).collect();
    project.change_config(json!({ "mcp": servers }));
    let service = troupe().start().await;
    let wire = service.wire(project.dir());
    let world = World { model, project, service, wire };
    for name in servers.keys() {
        connect(&world, name).await;
    }
    world
}

#[tokio::test]
async fn the_file_server_reads_and_writes_below_its_directory_alone() {
    let world = with_servers(&[("files", "server-filesystem", &["."])]).await;
    world.project.write("a.txt", "alpha\n");
    let session = world.wire.create_session().await;
    let part = world.call_in(&session, "files_read_text_file", json!({ "path": world.project.path("a.txt") })).await;
    assert_eq!(completed(&part)["output"], "alpha\n");
    let args = json!({ "path": world.project.path("b.txt"), "content": "beta\n" });
    completed(&world.call_in(&session, "files_write_file", args).await);
    assert_eq!(world.project.read("b.txt"), "beta\n");
    let part = world.call_in(&session, "files_list_directory", json!({ "path": world.project.dir() })).await;
    let listed = completed(&part)["output"].as_str().expect("a text").to_owned();
    assert!(listed.contains("[FILE] a.txt") && listed.contains("[FILE] b.txt"), "{listed}");
    let part = world.call_in(&session, "files_read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert!(failed(&part).to_lowercase().contains("denied"), "{part}");
}

#[tokio::test]
async fn the_reference_server_works_with_all_it_has() {
    let world = with_servers(&[("all", "server-everything", &["stdio"])]).await;
    let session = world.wire.create_session().await;
    let output = |part: &Value| completed(part)["output"].as_str().expect("a text").to_owned();

    let part = world.call_in(&session, "all_echo", json!({ "message": "hi" })).await;
    assert_eq!(output(&part), "Echo: hi");
    let part = world.call_in(&session, "all_get-sum", json!({ "a": 2, "b": 3 })).await;
    assert!(output(&part).contains('5'), "{part}");
    let part = world.call_in(&session, "all_get-structured-content", json!({ "location": "Chicago" })).await;
    assert!(output(&part).contains("drizzle"), "{part}");
    let part = world.call_in(&session, "all_get-tiny-image", json!({})).await;
    assert_eq!(completed(&part)["attachments"][0]["mime"], "image/png");

    let part = world.call_in(&session, "list_mcp_resources", json!({})).await;
    assert!(output(&part).contains("architecture.md"), "{part}");
    let uri = "demo://resource/dynamic/text/1";
    let part = world.call_in(&session, "read_mcp_resource", json!({ "server": "all", "uri": uri })).await;
    assert!(output(&part).starts_with("Resource 1: "), "{part}");

    world.model.script("weather in Rome, Italy", [Step::text("sunny")]);
    let body = json!({ "command": "all:args-prompt", "arguments": "Rome Italy" });
    let (status, answer) = world.wire.post(&format!("/session/{session}/command"), body).await;
    assert_eq!((status, crate::world::said(&answer).as_str()), (200, "sunny"));
}

#[tokio::test]
async fn the_reference_servers_progress_is_shown() {
    let world = with_servers(&[("all", "server-everything", &["stdio"])]).await;
    let mut events = world.events().await;
    let args = json!({ "duration": 0.5, "steps": 5 });
    world
        .model
        .script("take long", [Step::calls([call("all_trigger-long-running-operation", args)]), Step::text("done")]);
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "take long").await;
    let shown = events.wait(|event| event["properties"]["part"]["state"]["metadata"]["progress"].is_number()).await;
    let metadata = &shown["properties"]["part"]["state"]["metadata"];
    assert_eq!(metadata["total"].as_f64(), Some(5.0), "{metadata}");
    events.until_idle(&session).await;
    let part = world.tool_parts(&session).await.pop().expect("a call");
    assert!(completed(&part)["output"].to_string().contains("Steps: 5"), "{part}");
}
