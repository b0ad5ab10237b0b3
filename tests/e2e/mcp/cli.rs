//! `troupe mcp add|list|debug|auth|logout`.

use std::process::Stdio;

use ::mcp::testing::{HttpServer, Options};
use pretty_assertions::assert_eq;
use serde_json::json;
use support::process::Ran;
use support::{Home, PATIENCE, Project, ScriptedModel};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::*;

const TROUPE: &str = env!("CARGO_BIN_EXE_troupe");

/// A project and a home; each command is the owner of the data for as long as it runs.
struct Place {
    project: Project,
    home: Home,
    _model: ScriptedModel,
}

impl Place {
    async fn with(servers: Value) -> Self {
        let model = ScriptedModel::start().await;
        let project = Project::new(&model).config(json!({ "mcp": servers })).create();
        Self { project, home: Home::new(), _model: model }
    }

    async fn mcp(&self, args: &[&str]) -> Ran {
        self.home.run(TROUPE, self.project.dir(), &[&["mcp"], args].concat()).await
    }

    /// Runs a command that must succeed, and returns what it prints.
    async fn told(&self, args: &[&str]) -> String {
        let ran = self.mcp(args).await;
        assert_eq!(ran.status.code(), Some(0), "{args:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    async fn refused(&self, args: &[&str]) -> String {
        let ran = self.mcp(args).await;
        assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(1), ""), "{args:?}: {}", ran.stderr);
        ran.stderr
    }

    fn settings(&self) -> Value {
        serde_json::from_str(&self.project.read("opencode.json")).expect("JSON")
    }
}

/// The words after `--`, and what goes before them.
fn child(script: &Script) -> (Vec<String>, String) {
    let entry = script.local(CHILD);
    let words = entry["command"].as_array().expect("words").iter().map(support::wire::text).collect();
    let (name, value) = entry["environment"].as_object().expect("variables").iter().next().expect("one");
    (words, format!("{name}={}", value.as_str().expect("a text")))
}

#[tokio::test]
async fn a_server_is_added_listed_and_looked_into() {
    let place = Place::with(json!({})).await;
    assert_eq!(place.told(&["list"]).await, "No MCP servers here; `troupe mcp add` adds one.\n");
    let (words, variable) = child(&Script::tools([("get/it", "got"), ("ok", "fine")]));
    let mut args = vec!["add", "demo", "--timeout", "20000", "--env", &variable, "--"];
    args.extend(words.iter().map(String::as_str));
    assert_eq!(place.told(&args).await, "demo: connected\n");
    let entry = &place.settings()["mcp"]["demo"];
    assert_eq!(
        (&entry["type"], &entry["command"], &entry["timeout"]),
        (&json!("local"), &json!(words), &json!(20_000))
    );

    assert_eq!(place.told(&["list"]).await, "demo  local   connected, 2 tools\n");
    let known = place.told(&["debug", "demo"]).await;
    for line in
        ["demo (local)", "status: connected", "starts: 1", "tools: 2", "demo_get_it (the server calls it \"get/it\")"]
    {
        assert!(known.contains(line), "{line}: {known}");
    }
    let said = place.refused(&["debug", "none"]).await;
    assert!(said.contains("none") && said.contains("demo"), "{said}");

    // One that can't be started stands in the settings all the same, and says what is wrong.
    let told = place.told(&["add", "broken", "--global", "--", "/no/such/program"]).await;
    assert!(told.starts_with("broken: failed: ") && told.contains("/no/such/program"), "{told}");
    let global = std::fs::read_to_string(place.home.path(".config/opencode/opencode.jsonc"));
    let global: Value = serde_json::from_str(&global.expect("the global settings")).expect("JSON");
    assert_eq!(global["mcp"]["broken"]["command"], json!(["/no/such/program"]));
    let listed = place.told(&["ls"]).await;
    assert!(listed.contains("demo    local   connected") && listed.contains("broken  local   failed"), "{listed}");
    // A secret that was meant for a variable is not repeated.
    let said = place.refused(&["add", "x", "--env", "hunter2", "--", "true"]).await;
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn commands_speak_of_the_servers_of_a_running_service() {
    let world = connected(json!({ "srv": local(&Script::tools([("ok", "fine")])) })).await;
    let ran = world.service.home().run(TROUPE, world.project.dir(), &["mcp", "list"]).await;
    assert_eq!(ran.stdout, "srv  local   connected, 1 tool\n", "{}", ran.stderr);
    assert_eq!(report(&world, "srv").await["starts"], 1, "it is not started once more");
}

/// Begins `mcp auth`, does `come_back` with the address a person opens, and returns what is printed then.
async fn log_in(place: &Place, come_back: impl AsyncFnOnce(url::Url, &mut tokio::process::ChildStdin)) -> String {
    let mut command = Command::from(place.home.command(TROUPE));
    command.args(["mcp", "auth", "srv", "--no-browser"]).current_dir(place.project.dir()).kill_on_drop(true);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("troupe");
    let mut input = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let rest = async {
        let address = loop {
            let line = lines.next_line().await.expect("its output").expect("an address");
            if let Ok(url) = line.trim().parse::<url::Url>() {
                break url;
            }
        };
        come_back(address, &mut input).await;
        let mut rest = String::new();
        while let Some(line) = lines.next_line().await.expect("its output") {
            rest.push_str(line.trim());
        }
        assert!(child.wait().await.expect("a status").success());
        rest
    };
    tokio::time::timeout(2 * PATIENCE, rest).await.expect("it ends")
}

#[tokio::test]
async fn a_login_is_made_with_a_pasted_code_or_by_the_browser_and_forgotten() {
    let options = Options { login: true, expires: 600, ..Options::default() };
    let server = HttpServer::start(Script::tools([("ok", "fine")]), options).await;
    let place = Place::with(json!({ "srv": super::login::entry(&server).await })).await;
    let wanted = "srv  remote  needs a login: troupe mcp auth NAME\n";
    assert_eq!(place.told(&["list"]).await, wanted);

    let told = log_in(&place, async |_, input| input.write_all(b"good\n").await.expect("it reads")).await;
    assert_eq!(told, "srv: connected");
    // The login holds for the next process.
    assert_eq!(place.told(&["list"]).await, "srv  remote  connected, 1 tool\n");
    assert_eq!(place.told(&["logout", "srv"]).await, "The login at srv is forgotten.\n");
    assert_eq!(place.told(&["list"]).await, wanted);

    let browser = async |address: url::Url, _: &mut tokio::process::ChildStdin| {
        let query = |name: &str| address.query_pairs().find(|(key, _)| key == name).expect("a query").1.into_owned();
        let page = format!("{}?code=good&state={}", query("redirect_uri"), query("state"));
        assert_eq!(super::login::browse(page).await, "200");
    };
    assert_eq!(log_in(&place, browser).await, "srv: connected");
    assert_eq!(place.told(&["list"]).await, "srv  remote  connected, 1 tool\n");
}
