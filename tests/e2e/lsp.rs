//! Language servers: a real one, TypeScript's from npm, and what the model is told of its errors.

use std::process::Command;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::process::{alive, until_gone};
use support::{Project, ScriptedModel};

use crate::world::{World, completed, failed, troupe};
use support::npm::installed;

const FINE: &str = "export const count: number = 1;\n";
const FRAME: &str = "LSP errors detected in this file, please fix:";

/// A project in TypeScript with its server installed, and the tool that asks it.
async fn typescript(config: Value) -> World {
    let packages = tokio::task::spawn_blocking(|| installed("lsp")).await.expect("a task").join("node_modules");
    let model = ScriptedModel::start().await;
    let mut settings = json!({ "permission": { "*": "allow" } });
    settings.as_object_mut().expect("an object").extend(config.as_object().cloned().unwrap_or_default());
    let options = json!({ "compilerOptions": { "strict": true, "types": [], "lib": ["es5"] } });
    let project = Project::new(&model)
        .config(settings)
        .file("tsconfig.json", options.to_string())
        .file(".gitignore", "node_modules\n")
        .file("a.ts", FINE)
        .create();
    std::os::unix::fs::symlink(packages, project.path("node_modules")).expect("a link");
    let service = troupe().env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1").start().await;
    let wire = service.wire(project.dir());
    World { model, project, service, wire }
}

async fn edit(world: &World, session: &str, old: &str, new: &str) -> Value {
    let args = json!({ "filePath": world.project.path("a.ts"), "oldString": old, "newString": new });
    completed(&world.call_in(session, "edit", args).await).clone()
}

/// Waits until the server has read the whole project: it answers a question about it then.
async fn hover(world: &World, session: &str) -> String {
    let args = json!({ "operation": "hover", "filePath": "a.ts", "line": 1, "character": 14 });
    completed(&world.call_in(session, "lsp", args).await)["output"].as_str().expect("a text").to_owned()
}

fn remarks(world: &World, state: &Value) -> usize {
    let all = &state["metadata"]["diagnostics"];
    all[world.project.path("a.ts").to_str().expect("a path")].as_array().map_or(0, Vec::len)
}

fn server(world: &World) -> String {
    world.project.path("node_modules/.bin/typescript-language-server").display().to_string()
}

#[tokio::test]
async fn errors_of_a_real_server_reach_the_model_and_its_end_costs_one_warning() {
    let world = typescript(json!({})).await;
    let session = world.wire.create_session().await;
    let mut events = world.events().await;
    assert_eq!(world.wire.get("/lsp").await, (200, json!([])));

    // Reading a file is enough to start its server.
    world.call_in(&session, "read", json!({ "filePath": "a.ts" })).await;
    events.wait_for("lsp.updated").await;
    let status = json!([{ "id": "typescript", "name": "typescript", "root": "", "status": "connected" }]);
    assert_eq!(world.wire.get("/lsp").await, (200, status));
    assert!(hover(&world, &session).await.contains("count: number"));

    let broken = edit(&world, &session, "= 1", "= \"one\"").await;
    let told = broken["output"].as_str().expect("a text");
    let path = world.project.path("a.ts");
    let frame =
        format!("Edit applied successfully.\n\n{FRAME}\n<diagnostics file=\"{}\">\nERROR [1:14] ", path.display());
    assert!(told.starts_with(&frame) && told.ends_with("\n</diagnostics>"), "{told}");
    assert_eq!(remarks(&world, &broken), 1, "{broken}");
    let seen = world.model.requests().pop().expect("a request").texts("tool").pop().expect("a result");
    assert_eq!(seen, told);

    events.skip();
    let pids = alive(&server(&world));
    assert_eq!(pids.len(), 1, "{pids:?}");
    let killed = Command::new("kill").args(["-KILL", &pids[0].to_string()]).status().expect("kill");
    assert!(killed.success());
    events.wait_for("lsp.updated").await;
    let mended = edit(&world, &session, "= \"one\"", "= 1").await;
    let told = mended["output"].as_str().expect("a text");
    assert!(told.contains("language server typescript has ended") && !told.contains(FRAME), "{told}");
    assert_eq!(remarks(&world, &mended), 0, "{mended}");

    // It is started again, and said no more of.
    assert!(hover(&world, &session).await.contains("count: number"));
    let broken = edit(&world, &session, "= 1", "= true").await;
    let told = broken["output"].as_str().expect("a text");
    assert!(told.contains(FRAME) && !told.contains("has ended"), "{told}");
    let mended = edit(&world, &session, "= true", "= 2").await;
    assert_eq!(mended["output"], "Edit applied successfully.");
    assert_eq!(mended["metadata"]["diagnostics"], json!({}));

    let World { service, project, .. } = world;
    drop(service);
    until_gone(&project.dir().display().to_string(), Duration::from_secs(10)).await;
}

#[tokio::test]
async fn what_breaks_in_other_files_is_told_with_a_write() {
    let world = typescript(json!({})).await;
    let session = world.wire.create_session().await;
    let content = "import { count } from \"./a\";\nexport const twice: number = count * 2;\n";
    world.call_in(&session, "write", json!({ "filePath": "b.ts", "content": content })).await;
    assert!(hover(&world, &session).await.contains("count: number"));
    world.call_in(&session, "write", json!({ "filePath": "b.ts", "content": format!("{content}\n") })).await;

    let args = json!({ "filePath": "a.ts", "content": "export const count = \"x\";\n" });
    let part = world.call_in(&session, "write", args).await;
    let told = completed(&part)["output"].as_str().expect("a text");
    let frame = format!(
        "LSP errors detected in other files:\n<diagnostics file=\"{}\">\nERROR [2:30]",
        world.project.path("b.ts").display()
    );
    assert!(told.starts_with("Wrote file successfully.\n\n") && told.contains(&frame), "{told}");
}

#[tokio::test]
async fn switched_off_nothing_is_started() {
    let world = typescript(json!({ "lsp": false })).await;
    let session = world.wire.create_session().await;
    let broken = edit(&world, &session, "= 1", "= \"one\"").await;
    assert_eq!(
        (&broken["output"], &broken["metadata"]["diagnostics"]),
        (&json!("Edit applied successfully."), &json!({}))
    );
    let args = json!({ "operation": "hover", "filePath": "a.ts", "line": 1, "character": 14 });
    let part = world.call_in(&session, "lsp", args).await;
    assert!(failed(&part).contains("no language server is there"), "{part}");
    assert_eq!(world.wire.get("/lsp").await, (200, json!([])));
    assert_eq!(alive(&server(&world)), Vec::<i32>::new());
}
