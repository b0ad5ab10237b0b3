//! `troupe run`: one prompt from the command line, in a process of its own or through a running service.

use std::io::Write;
use std::process::{Output, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::process::Ran;
use support::wire::text;
use support::{Home, PATIENCE, Project, ScriptedModel, Step, call, until_alive, until_gone};

use crate::world::{World, calling, troupe};

const TROUPE: &str = env!("CARGO_BIN_EXE_troupe");

/// A model, a project and a home, and no service.
struct Place {
    model: ScriptedModel,
    project: Project,
    home: Home,
}

impl Place {
    async fn new() -> Self {
        Self::with_config(json!({ "permission": { "*": "allow" } })).await
    }

    async fn with_config(config: Value) -> Self {
        let model = ScriptedModel::start().await;
        let project = Project::new(&model).config(config).create();
        Self { model, project, home: Home::new() }
    }

    /// Runs `troupe run` with these arguments.
    async fn run(&self, args: &[&str]) -> Ran {
        let args: Vec<_> = ["run"].iter().chain(args).copied().collect();
        self.home.run(TROUPE, self.project.dir(), &args).await
    }

    /// The same with something to read.
    async fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.home.command(TROUPE);
        command.arg("run").args(args).current_dir(self.project.dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_vec();
        let running = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("the process");
            child.stdin.take().expect("a pipe").write_all(&input).expect("its input");
            child.wait_with_output().expect("its end")
        });
        running.await.expect("a task")
    }

    /// Looks at what was stored, through a service with the same home.
    async fn sessions(&self) -> Value {
        let service = troupe().home(&self.home).start().await;
        service.wire(self.project.dir()).get("/session").await.1
    }
}

fn code(ran: &Ran) -> Option<i32> {
    ran.status.code()
}

/// Returns the JSON objects a run printed, one a line.
fn objects(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn types(objects: &[Value]) -> Vec<String> {
    objects.iter().map(|object| text(&object["type"])).collect()
}

#[tokio::test]
async fn in_an_empty_home_the_demo_answers_from_the_project() {
    let home = Home::new();
    let dir = Home::new();
    std::fs::write(dir.path("README.md"), "# Lantern\nA lamp for ships.\n").expect("a file");
    let ran = home.run(TROUPE, dir.dir(), &["run", "What is in this project?"]).await;
    assert_eq!(code(&ran), Some(0), "{ran:?}");
    assert!(ran.stdout.contains("Lantern") && ran.stdout.to_lowercase().contains("demo"), "{}", ran.stdout);
    assert!(ran.stderr.contains("README.md"), "the tools it used: {}", ran.stderr);
}

#[tokio::test]
async fn the_answer_is_on_standard_output_and_all_else_beside_it() {
    let place = Place::new().await;
    place.project.write("a.txt", "alpha\n");
    let read = call("read", json!({ "filePath": "a.txt" }));
    place.model.script("look at it", [Step::calls([read]).with_text("I look."), Step::text("It says alpha.")]);
    let ran = place.run(&["look", "at it"]).await;
    assert_eq!((code(&ran), &*ran.stdout), (Some(0), "I look.\nIt says alpha.\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("> build · mock") && ran.stderr.contains("→ Read a.txt"), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "no colours into a pipe");
    let sessions = place.sessions().await;
    assert_eq!(sessions.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn json_is_one_object_a_line() {
    let place = Place::new().await;
    place.project.write("a.txt", "alpha\n");
    let read = call("read", json!({ "filePath": "a.txt" }));
    place.model.script("look", [Step::calls([read]), Step::text("It says\nalpha.").chunks(4)]);
    let ran = place.run(&["--format", "json", "look"]).await;
    assert_eq!(code(&ran), Some(0), "{ran:?}");
    let objects = objects(&ran.stdout);
    assert_eq!(types(&objects), ["step_start", "tool_use", "step_finish", "step_start", "text", "step_finish"]);
    assert_eq!(objects[1]["part"]["state"]["status"], "completed");
    assert_eq!(
        (&objects[4]["part"]["text"], &objects[5]["part"]["reason"]),
        (&json!("It says\nalpha."), &json!("stop"))
    );
    for object in &objects {
        assert!(object["timestamp"].is_u64());
        assert_eq!(object["sessionID"], objects[0]["sessionID"]);
    }
}

#[tokio::test]
async fn the_message_may_come_on_standard_input() {
    let place = Place::new().await;
    place.model.script("from the pipe", [Step::text("read")]);
    let ran = place.run_with_input(&[], "from the pipe, ünïcödé\nsecond line\n".as_bytes()).await;
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "read\n");
    assert_eq!(place.model.requests()[0].texts("user"), ["from the pipe, ünïcödé\nsecond line\n"]);
    let ran = place.run_with_input(&["explain"], b"from the pipe\n").await;
    assert!(ran.status.success());
    assert_eq!(place.model.requests()[1].texts("user"), ["explain\nfrom the pipe\n"]);
    let ran = place.run_with_input(&[], b"\xff\xfe").await;
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("UTF-8"));
}

#[tokio::test]
async fn what_cannot_be_begun_says_why_and_fails() {
    let place = Place::new().await;
    for (args, expected, named) in [
        (&[][..], 1, "no message"),
        (&["  "], 1, "no message"),
        (&["--session", "ses_000000000001abcdefghijklmn", "x"], 1, "Session not found"),
        (&["--session", "nonsense", "x"], 1, "Session not found"),
        (&["--model", "mock/nope", "x"], 1, "nope"),
        (&["--model", "nonsense", "x"], 1, "nonsense"),
        (&["--agent", "nobody", "x"], 1, "nobody"),
        (&["--file", "absent.txt", "x"], 1, "absent.txt"),
        (&["--dir", "no/such/dir", "x"], 1, "no/such/dir"),
        (&["--attach", "http://127.0.0.1:1", "x"], 1, "127.0.0.1:1"),
        (&["--fork", "x"], 1, "--fork"),
        (&["--format", "yaml", "x"], 2, "yaml"),
        (&["--no-such-option", "x"], 2, "--no-such-option"),
    ] {
        let ran = place.run(args).await;
        assert_eq!((code(&ran), &*ran.stdout), (Some(expected), ""), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(named), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(place.model.requests().len(), 0);
}

#[tokio::test]
async fn a_turn_that_fails_is_told_and_so_is_the_exit_code() {
    let place = Place::new().await;
    let refused = || Step::status(400).body(json!({ "error": { "message": "the vendor says no" } }));
    place.model.script("fail", [refused()]);
    let ran = place.run(&["fail"]).await;
    assert_eq!((code(&ran), &*ran.stdout), (Some(1), ""));
    assert!(ran.stderr.contains("Error: ") && ran.stderr.contains("the vendor says no"), "{}", ran.stderr);
    let ran = place.run(&["--format", "json", "fail"]).await;
    assert_eq!(code(&ran), Some(1));
    let objects = objects(&ran.stdout);
    let error = objects.iter().find(|object| object["type"] == "error").expect("an error");
    assert_eq!(error["error"]["name"], "APIError");
}

/// A call of a subagent that makes this call.
fn task(tool: &str, args: &Value) -> (&'static str, Value) {
    ("task", json!({ "description": "d", "subagent_type": "general", "prompt": calling([(tool, args.clone())]) }))
}

#[tokio::test]
async fn nobody_is_asked_so_what_would_ask_is_refused_in_the_whole_tree() {
    let place = Place::with_config(json!({ "permission": { "external_directory": "ask" } })).await;
    let secret = place.home.path("outside.txt");
    std::fs::write(&secret, "the needle\n").expect("a file");
    let args = json!({ "filePath": secret });
    for prompt in [calling([("read", args.clone())]), calling([task("read", &args)])] {
        let ran = place.run_with_input(&["--format", "json"], prompt.as_bytes()).await;
        let stdout = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(ran.status.code(), Some(3), "{stdout}");
        let objects = objects(&stdout);
        let refused = objects.iter().find(|object| object["type"] == "permission").expect("the refusal");
        assert_eq!(refused["permission"]["permission"], "external_directory");
        let ran = place.run_with_input(&[], prompt.as_bytes()).await;
        assert_eq!(ran.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&ran.stderr).contains("external_directory"));
    }
    let read =
        |place: &Place| place.model.requests().iter().any(|request| request.body.to_string().contains("the needle"));
    assert!(!read(&place));
    // With --auto it is let through, once each time.
    let ran = place.run_with_input(&["--auto"], calling([task("read", &args)]).as_bytes()).await;
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(read(&place));
    let ran = place.run_with_input(&[], calling([("read", args)]).as_bytes()).await;
    assert_eq!(ran.status.code(), Some(3), "an earlier --auto approved nothing");
}

#[tokio::test]
async fn questions_and_denied_work_do_not_hold_it_up() {
    let place = Place::with_config(json!({ "permission": { "bash": { "*": "allow", "rm *": "deny" } } })).await;
    let question = json!({ "questions": [{ "question": "Which?", "header": "W", "options": [{ "label": "a", "description": "a" }] }] });
    let ran = place.run_with_input(&[], calling([("question", question)]).as_bytes()).await;
    assert_eq!(ran.status.code(), Some(0), "the tool isn't offered: {}", String::from_utf8_lossy(&ran.stderr));
    let ran = place.run_with_input(&[], calling([("bash", json!({ "command": "rm x" }))]).as_bytes()).await;
    assert!(String::from_utf8_lossy(&ran.stderr).contains("rm x"));
}

#[tokio::test]
async fn it_goes_on_with_a_session_or_a_copy_of_it() {
    let place = Place::new().await;
    place.model.script("one", [Step::text("1")]).script("two", [Step::text("2")]).script("three", [Step::text("3")]);
    let first = objects(&place.run(&["--format", "json", "--title", "the first", "one"]).await.stdout);
    let id = text(&first[0]["sessionID"]);
    let second = objects(&place.run(&["--format", "json", "--title", "the second", "one"]).await.stdout);
    assert_ne!(second[0]["sessionID"], first[0]["sessionID"]);
    let heard = |place: &Place| place.model.requests().last().expect("a request").texts("user").concat();

    let named = objects(&place.run(&["--format", "json", "--session", &id, "two"]).await.stdout);
    assert_eq!(text(&named[0]["sessionID"]), id);
    assert_eq!(heard(&place), "onetwo");
    let newest = objects(&place.run(&["--format", "json", "--continue", "three"]).await.stdout);
    assert_eq!(text(&newest[0]["sessionID"]), id, "what was used last");
    assert_eq!(heard(&place), "onetwothree");
    let fork = objects(&place.run(&["--format", "json", "--continue", "--fork", "three"]).await.stdout);
    assert_ne!(text(&fork[0]["sessionID"]), id);
    assert_eq!(heard(&place), "onetwothreethree");
    let sessions = place.sessions().await;
    let mut titles: Vec<_> =
        sessions.as_array().expect("a list").iter().map(|session| text(&session["title"])).collect();
    titles.sort();
    assert_eq!(titles, ["the first", "the first (fork #1)", "the second"]);
}

#[tokio::test]
async fn agent_model_file_and_directory_can_be_named() {
    let place = Place::with_config(
        json!({ "agent": { "poet": { "prompt": "You rhyme.", "description": "d", "mode": "primary" } } }),
    )
    .await;
    place.project.write("notes.txt", "remember the milk\n");
    let elsewhere = Home::new();
    let dir = place.project.dir().display().to_string();
    let args = ["run", "--dir", &dir, "--agent", "poet", "--model", "mock/small", "--file", "notes.txt", "hello"];
    let ran = place.home.run(TROUPE, elsewhere.dir(), &args).await;
    assert_eq!(code(&ran), Some(0), "{}", ran.stderr);
    let request = &place.model.requests()[0];
    assert_eq!(request.body["model"], "small");
    assert!(request.texts("system").concat().contains("You rhyme."));
    assert!(request.texts("user").concat().contains("remember the milk"));
}

#[tokio::test]
async fn it_works_through_a_service_that_was_named_or_owns_the_data() {
    let world = World::start().await;
    world.model.script("through it", [Step::text("by the service")]);
    let mut events = world.events().await;
    let owner = world.service.home().clone();
    let url = world.service.base_url();
    for (home, args) in [(owner, vec!["run", "through it"]), (Home::new(), vec!["run", "--attach", &url, "through it"])]
    {
        let ran = home.run(TROUPE, world.project.dir(), &args).await;
        assert_eq!((code(&ran), &*ran.stdout), (Some(0), "by the service\n"), "{}", ran.stderr);
        events.wait_for("session.idle").await;
    }
    assert_eq!(world.wire.get("/session").await.1.as_array().map(Vec::len), Some(2), "both are in the service's data");
}

#[tokio::test]
async fn a_service_with_a_password_wants_it() {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).create();
    let service = troupe().env("OPENCODE_SERVER_PASSWORD", "sesame").start().await;
    model.script("open", [Step::text("opened")]);
    let url = service.base_url();
    let ran = Home::new().run(TROUPE, project.dir(), &["run", "--attach", &url, "open"]).await;
    assert_eq!((code(&ran), &*ran.stdout), (Some(1), ""));
    assert!(ran.stderr.contains("password") || ran.stderr.contains("401"), "{}", ran.stderr);
    let ran = Home::new().run(TROUPE, project.dir(), &["run", "--attach", &url, "-p", "sesame", "open"]).await;
    assert_eq!((code(&ran), &*ran.stdout), (Some(0), "opened\n"), "{}", ran.stderr);
}

#[tokio::test]
async fn an_interrupt_stops_the_turn_and_what_it_started() {
    let place = Place::new().await;
    let nap = format!("6{:07}.5", std::process::id());
    let sleep = call("bash", json!({ "command": format!("sleep {nap}"), "description": "x" }));
    place.model.script("sleep now", [Step::calls([sleep]), Step::text("never")]);
    let mut command = place.home.command(TROUPE);
    command.args(["run", "sleep now"]).current_dir(place.project.dir()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the process");
    until_alive(&nap, PATIENCE).await;
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("a task").expect("its end");
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    until_gone(&nap, PATIENCE).await;
}

#[tokio::test]
async fn a_run_ends_when_its_subagents_in_the_background_have_and_says_what_came_of_them() {
    let place = Place::new().await;
    let task = json!({ "description": "d", "subagent_type": "general", "prompt": "child's work", "background": true });
    place.model.script("parent's work", [Step::calls([call("task", task)]), Step::text("parent goes on")]);
    place.model.script("child's work", [Step::text("result 4711").after(std::time::Duration::from_millis(700))]);
    place.model.script("result 4711", [Step::text("parent has it")]);

    let ran = place.run(&["parent's work"]).await;

    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    let (goes_on, has_it) = (ran.stdout.find("parent goes on"), ran.stdout.find("parent has it"));
    assert!(goes_on.is_some() && goes_on < has_it, "{}", ran.stdout);
}
