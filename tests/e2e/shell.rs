//! Commands: they end when they should, leave nothing behind, and the model gets a bounded, clean text.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{PATIENCE, alive, until_gone};

use crate::world::{World, calling, completed};

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "test" })
}

fn output(part: &Value) -> &str {
    completed(part)["output"].as_str().expect("an output")
}

/// Returns a number of seconds that no other test sleeps, to know a process by.
fn nap(number: u32) -> String {
    format!("7{:07}.{number}", std::process::id())
}

/// Returns what the model was told last.
fn told(world: &World) -> String {
    let requests = world.model.requests();
    let messages = requests.last().expect("a request").body["messages"].as_array().cloned().unwrap_or_default();
    let result = messages.iter().rev().find(|message| message["role"] == "tool").expect("a tool's result");
    result["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_call_ends_with_its_shell_and_what_it_left_running_ends_with_the_session() {
    let world = World::start().await;
    let (nap, session) = (nap(1), world.wire.create_session().await);
    let part = world.call_in(&session, "bash", bash(&format!("sleep {nap} & echo done"))).await;
    assert!(output(&part).starts_with("done\n"), "{}", output(&part));
    assert!(output(&part).contains("background process"), "{}", output(&part));
    assert_eq!(completed(&part)["metadata"]["exit"], 0);
    assert_eq!(alive(&nap).len(), 1, "it was left running on purpose");
    world.wire.delete(&format!("/session/{session}")).await;
    until_gone(&nap, PATIENCE).await;
}

#[tokio::test]
async fn a_time_limit_ends_the_whole_tree_and_keeps_what_was_printed() {
    let world = World::start().await;
    let nap = nap(2);
    let mut args =
        bash(&format!("(while true; do echo x; sleep {nap}; done) & tail -f /dev/null --pid={}", std::process::id()));
    args["timeout"] = json!(400);
    let part = world.call("bash", args).await;
    assert!(output(&part).starts_with("x\n"), "{}", output(&part));
    assert!(output(&part).contains("time limit") && output(&part).contains("400 ms"), "{}", output(&part));
    assert_eq!(completed(&part)["metadata"]["exit"], Value::Null);
    until_gone(&nap, PATIENCE).await;
    assert!(told(&world).contains("time limit"));
}

#[tokio::test]
async fn a_command_ends_with_the_service_however_that_ends() {
    let mut world = World::start().await;
    for (number, kind) in [(3, "kill"), (4, "term")] {
        let nap = nap(number);
        let mut events = world.events().await;
        let session = world.wire.create_session().await;
        // One in the shell, one in the background, and one that leaves the group.
        let command = format!("setsid sleep {nap} & sleep {nap} & echo started; sleep {nap}");
        world.wire.prompt_async(&session, &calling([("bash", bash(&command))])).await;
        let started = |event: &Value| event["properties"]["part"]["state"]["metadata"]["output"] == "started\n";
        events.wait(started).await;
        assert!(alive(&nap).len() >= 3, "{:?}", alive(&nap));
        match kind {
            "kill" => world.service.kill9().await,
            _ => drop(world.service.terminate().await),
        }
        until_gone(&format!(" {nap}"), PATIENCE).await;
        world.service.restart().await;
    }
}

#[tokio::test]
async fn a_command_has_nothing_to_read_and_no_terminal() {
    let world = World::start().await;
    let command =
        "read -p 'pw: ' x; echo got:$x; readlink /proc/self/fd/0; (exec 3<>/dev/tty) 2>/dev/null || echo no tty";
    let part = world.call("bash", bash(command)).await;
    assert_eq!(output(&part), "got:\n/dev/null\nno tty\n");
}

#[tokio::test]
async fn the_model_is_told_the_exit_code_and_where_a_command_ran() {
    let world = World::start().await;
    world.project.write("sub/x", "");
    let mut args = bash("basename $PWD; echo oops >&2; exit 3");
    args["workdir"] = json!("sub");
    let part = world.call("bash", args).await;
    assert_eq!(completed(&part)["metadata"]["exit"], 3);
    assert!(told(&world).starts_with("sub\noops\n") && told(&world).contains("exit code 3"), "{}", told(&world));
    world.call("bash", bash("true")).await;
    assert_eq!(told(&world), "(no output)");
    let part = world.call("bash", bash("kill -9 $$")).await;
    assert_eq!(completed(&part)["metadata"]["exit"], 137);
    assert!(told(&world).contains("signal 9"), "{}", told(&world));
}

#[tokio::test]
async fn colours_and_overwritten_lines_are_not_for_the_model() {
    let world = World::start().await;
    let command = r"printf '\033[31mred\033[0m\n'; printf '10%%\r50%%\r100%%\n'; printf '\033]0;title\007end\n'";
    world.call("bash", bash(command)).await;
    assert_eq!(told(&world), "red\n100%\nend\n");
    // The limits count what is left: this is 110 KB of colours round 1 KB of text.
    let lines = "for i in $(seq 100); do printf '\\033[38;5;196m%.0s' $(seq 100); echo line$i; done";
    let part = world.call("bash", bash(lines)).await;
    assert_eq!(output(&part), (1..=100).map(|i| format!("line{i}\n")).collect::<String>());
}

#[tokio::test]
async fn a_long_output_is_cut_for_the_model_and_whole_in_a_file_it_may_read() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let part = world.call_in(&session, "bash", bash("seq 1 30000")).await;
    let state = completed(&part);
    assert_eq!(state["metadata"]["truncated"], true);
    assert!(output(&part).len() < 55_000 && output(&part).contains("\n1\n2\n") && output(&part).ends_with("\n30000\n"));
    let path = PathBuf::from(state["metadata"]["outputPath"].as_str().expect("a path"));
    assert!(output(&part).contains(&path.display().to_string()));
    assert_eq!(std::fs::read_to_string(&path).expect("the file").lines().count(), 30_000);
    assert_eq!(path.metadata().expect("the file").permissions().mode() & 0o777, 0o600);
    // Reading it again is never asked about, though it is outside the project.
    let again = world.call_in(&session, "read", json!({ "filePath": path, "offset": 15_000, "limit": 1 })).await;
    assert!(output(&again).contains("15000: 15000"));
}

#[tokio::test]
async fn what_is_overwritten_by_carriage_returns_is_left_out_and_kept_in_the_file() {
    let world = World::start().await;
    let part = world.call("bash", bash("seq 1 200000 | tr '\\n' '\\r'; echo")).await;
    let text = output(&part);
    assert!(text.starts_with("200000\n") && !text.contains("199999") && !text.contains('\r'), "{text:.200}");
    let path = completed(&part)["metadata"]["outputPath"].as_str().expect("a path").to_owned();
    assert!(text.contains(&path), "{text:.300}");
    assert!(std::fs::metadata(path).expect("the file").len() > 1_200_000);
}

#[tokio::test]
async fn a_running_command_shows_what_it_printed_so_far() {
    let world = World::start().await;
    let pipe = world.project.path("pipe");
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let command = format!("mkfifo {0}; echo first; read line < {0}; echo $line", pipe.display());
    world.wire.prompt_async(&session, &calling([("bash", bash(&command))])).await;
    let shown = |text: &'static str| {
        move |event: &Value| {
            let state = &event["properties"]["part"]["state"];
            state["status"] == "running" && state["metadata"]["output"] == text
        }
    };
    events.wait(shown("first\n")).await;
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "second\n")).await.expect("a task").expect("the pipe");
    let done = events.wait(|event| event["properties"]["part"]["state"]["status"] == "completed").await;
    assert_eq!(done["properties"]["part"]["state"]["output"], "first\nsecond\n");
    events.until_idle(&session).await;
}

#[tokio::test]
async fn what_a_command_left_running_is_listed_read_and_ended_by_its_session_alone() {
    let world = World::start().await;
    let (nap, session, other) = (nap(9), world.wire.create_session().await, world.wire.create_session().await);
    let command = format!("echo up; (echo later; exec sleep {nap}) & echo done");
    let part = world.call_in(&session, "bash", bash(&command)).await;
    let (code, listed) = world.wire.get(&format!("/session/{session}/process")).await;
    assert_eq!(code, 200, "{listed}");
    let [process] = listed.as_array().expect("a list").as_slice() else { panic!("{listed}") };
    let id = process["id"].as_str().expect("an id");
    assert_eq!((process["command"].as_str(), process["status"].as_str()), (Some(&*command), Some("running")));
    assert_eq!(process["cwd"], json!(world.project.dir()));
    assert!(process["pid"].is_i64() && process["time"]["created"].is_i64(), "{process}");
    assert_eq!(completed(&part)["metadata"]["process"], id);

    let read = world.wire.get(&format!("/session/{session}/process/{id}")).await.1;
    let text = read["output"].as_str().expect("an output");
    assert!(text.contains("up\n") && text.contains("later\n"), "{read}");
    let from = format!("/session/{session}/process/{id}?from={}", read["end"]);
    assert_eq!(world.wire.get(&from).await.1["output"], "");

    assert_eq!(world.wire.get(&format!("/session/{other}/process")).await.1, json!([]));
    let (code, _) = world.wire.delete(&format!("/session/{other}/process/{id}")).await;
    assert_eq!(code, 404);
    assert_eq!(alive(&nap).len(), 1);
    let (code, stopped) = world.wire.delete(&format!("/session/{session}/process/{id}")).await;
    assert_eq!((code, stopped), (200, json!(true)));
    assert_eq!(alive(&nap).len(), 0, "it is gone when that is answered");
    assert_eq!(world.wire.get(&format!("/session/{session}/process")).await.1, json!([]));
    for (method, path) in [("GET", id), ("DELETE", id), ("GET", "prc_000000000000"), ("DELETE", "1")] {
        let path = format!("/session/{session}/process/{path}");
        let (code, error) = if method == "GET" { world.wire.get(&path).await } else { world.wire.delete(&path).await };
        assert_eq!((code, &error["name"]), (404, &json!("NotFoundError")), "{method} {path}");
    }
}
