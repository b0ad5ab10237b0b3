//! `troupe mcp serve`: sessions as tools of another agent.

use std::process::{ExitStatus, Stdio};

use pretty_assertions::assert_eq;
use serde_json::json;
use support::{Gate, Home, PATIENCE, Project, ScriptedModel, Step, call};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::*;

const TROUPE: &str = env!("CARGO_BIN_EXE_troupe");

/// An agent with Troupe as one of its servers.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    sent: u64,
}

impl Agent {
    async fn start(home: &Home, project: &Project) -> Self {
        let mut command = Command::from(home.command(TROUPE));
        command.args(["mcp", "serve"]).current_dir(project.dir()).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("troupe");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut agent = Self { child, input, output, sent: 0 };
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        agent.request("initialize", params).await;
        agent.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        agent
    }

    async fn send(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.expect("it reads");
    }

    /// Sends a request and returns its result. Whatever comes meanwhile must be in the protocol.
    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": self.sent, "method": method, "params": params })).await;
        loop {
            let line = tokio::time::timeout(2 * PATIENCE, self.output.next_line()).await.expect("an answer in time");
            let line = line.expect("its output").expect("an answer");
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{line}");
                return message["result"].clone();
            }
        }
    }

    /// Calls a tool that must succeed.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert!(result["isError"] != true, "{result}");
        result["structuredContent"].clone()
    }

    async fn create(&mut self) -> String {
        support::wire::text(&self.call("create_session", json!({})).await["session_id"])
    }

    /// Hangs up, and returns how it ended.
    async fn hang_up(self) -> ExitStatus {
        let Self { mut child, input, mut output, .. } = self;
        drop(input);
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends").expect("a status");
        assert_eq!(output.next_line().await.expect("its output"), None, "something else on standard output");
        ended
    }
}

async fn place() -> (ScriptedModel, Project, Home) {
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).config(json!({ "permission": { "*": "allow", "bash": "ask" } })).create();
    (model, project, Home::new())
}

#[tokio::test]
async fn the_official_client_drives_sessions() {
    let (model, project, home) = place().await;
    model.script("run it", [Step::calls([bash("echo allowed")]), Step::text("it ran")]);
    model.script("run what is refused", [Step::calls([bash("echo refused")]), Step::text("then not")]);
    let question = json!({ "questions": [{ "question": "Which colour?", "header": "Colour", "options": [
        { "label": "red", "description": "warm" }, { "label": "blue", "description": "cold" },
    ] }] });
    model.script("ask me something", [Step::calls([call("question", question)]), Step::text("red it is")]);
    model.script("never end", [Step::hang()]);
    model.script("say hi", (0..9).map(|_| Step::text("hi from the model")));
    let run = move || {
        let script = support::npm::installed("mcp").join("serve.mjs");
        let mut command = home.command("node");
        command.arg(script).arg(TROUPE).current_dir(project.dir()).output().expect("node")
    };
    let ran = tokio::task::spawn_blocking(run).await.expect("a task");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // As many lines as there are checks, so that a script that ends early is seen.
    assert_eq!(out.lines().filter(|line| line.starts_with("PASS ")).count(), 8, "{out}");
}

fn bash(command: &str) -> support::Call {
    call("bash", json!({ "command": command, "description": "test" }))
}

#[tokio::test]
async fn it_works_through_a_running_service_and_ends_without_it() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("take your time", [Step::text("at last").gate(&gate)]);
    let mut agent = Agent::start(world.service.home(), &world.project).await;
    let session = agent.create().await;
    let mut events = world.events().await;
    let prompt = json!({ "session_id": session, "text": "take your time", "wait_seconds": 0 });
    assert_eq!(agent.call("prompt", prompt).await["state"], "working");
    gate.reached().await;
    assert_eq!(world.wire.get(&format!("/session/{session}")).await.0, 200);

    assert!(agent.hang_up().await.success());
    gate.open();
    events.until_idle(&session).await;
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!(crate::world::said(&answer), "at last");
}

#[tokio::test]
async fn it_takes_the_place_of_a_service_that_ends_and_its_turns_go_on() {
    let mut world = World::start().await;
    let gate = Gate::new();
    world.model.script("take your time", [Step::text("at last").gate(&gate)]);
    let mut agent = Agent::start(world.service.home(), &world.project).await;
    let session = agent.create().await;
    let prompt = json!({ "session_id": session, "text": "take your time" });
    let ending = async {
        gate.reached().await;
        world.service.terminate().await;
        // The successor asks again.
        gate.reached_by(2).await;
        gate.open();
    };
    let (told, ()) = tokio::join!(agent.call("prompt", prompt), ending);
    assert_eq!((&told["state"], &told["answer"]), (&json!("idle"), &json!("at last")));
    assert!(agent.hang_up().await.success());
    world.service.restart().await;
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!(crate::world::said(&answer), "at last", "it is stored");
}

#[tokio::test]
async fn as_the_owner_it_stays_until_nobody_else_needs_it() {
    let (model, project, home) = place().await;
    let gate = Gate::new();
    model.script("take your time", [Step::text("at last").gate(&gate)]);
    let mut agent = Agent::start(&home, &project).await;
    agent.create().await;
    let others = home.run(TROUPE, project.dir(), &["run", "take your time"]);
    let hanging_up = async {
        gate.reached().await;
        // Its end of input is seen while the other's turn runs.
        let ended = agent.hang_up();
        tokio::pin!(ended);
        assert!(futures::poll!(&mut ended).is_pending());
        gate.open();
        ended.await
    };
    let (ran, ended) = tokio::join!(others, hanging_up);
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(0), "at last\n"), "{}", ran.stderr);
    assert!(ended.success());
    assert_eq!(model.requests_for("take your time").len(), 1, "the turn was never begun again");
}
