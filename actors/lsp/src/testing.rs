//! A server that does as files tell it, for tests: this test program itself, run again. What the test runner prints
//! around it is junk on the pipe, which is as it should be.

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tools::process::Processes;

use crate::config::Settings;
use crate::servers::{Place, Servers};

const IS_SERVER: &str = "LSP_TEST_SERVER";

/// Returns the setting of a server `scripted` for files `.s`. `mode`: `push`, `pull`, or `mute` (never ready).
pub(crate) fn settings(mode: &str) -> Value {
    let program = std::env::current_exe().unwrap();
    let command = [program.to_str().unwrap(), "--exact", "testing::as_a_server", "--nocapture"];
    let initialization = json!({ "mode": mode, "scripted": { "depth": { "value": 7 } } });
    json!({ "scripted": {
        "command": command, "extensions": [".s"], "env": { IS_SERVER: "1" }, "initialization": initialization,
    } })
}

/// A project with such a server, and a sign for whenever servers come or go.
pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) servers: Servers,
    pub(crate) changed: Arc<tokio::sync::Notify>,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(mode: &str) -> Self {
        Self::with(&settings(mode))
    }

    pub(crate) fn with(settings: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let changed = Arc::new(tokio::sync::Notify::new());
        let sign = changed.clone();
        let on_change = Arc::new(move || sign.notify_one());
        let place = Place { directory: root.clone(), top: root.clone() };
        let servers = Servers::new(place, Settings::of(Some(settings)), Processes::none(), on_change);
        Self { root, servers, changed, _dir: dir }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a file and returns what is told of it: `path: message` for each error, and the notes.
    pub(crate) async fn told(&self, name: &str, text: &str) -> Vec<String> {
        let path = self.write(name, text);
        self.told_of(&[path]).await
    }

    pub(crate) async fn told_of(&self, paths: &[PathBuf]) -> Vec<String> {
        let diagnosed = self.servers.diagnose(paths).await;
        let name = |path: &Path| path.strip_prefix(&self.root).unwrap().display().to_string();
        let errors = diagnosed.files.iter().flat_map(|file| {
            file.remarks.iter().map(|error| format!("{}:{}: {}", name(&file.path), error.line, error.message))
        });
        errors.chain(diagnosed.notes.iter().cloned()).collect()
    }
}

#[test]
fn as_a_server() {
    if std::env::var_os(IS_SERVER).is_some() {
        Script::default().serve();
        std::process::exit(0);
    }
}

#[derive(Default)]
struct Script {
    mode: String,
    texts: std::collections::BTreeMap<String, String>,
}

impl Script {
    fn serve(&mut self) {
        let mut input = std::io::stdin().lock();
        loop {
            let mut length = 0;
            loop {
                let mut line = String::new();
                if input.read_line(&mut line).unwrap() == 0 {
                    return;
                }
                match line.trim().strip_prefix("Content-Length: ") {
                    Some(number) => length = number.parse().unwrap(),
                    None => break,
                }
            }
            let mut message = vec![0; length];
            input.read_exact(&mut message).unwrap();
            self.take(serde_json::from_slice(&message).unwrap());
        }
    }

    fn take(&mut self, message: Value) {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = |result: Value| say(json!({ "id": message["id"], "result": result }));
        match method {
            "initialize" => {
                self.mode = params["initializationOptions"]["mode"].as_str().unwrap().to_owned();
                let provider = if self.mode == "pull" { json!({}) } else { Value::Null };
                if self.mode != "mute" {
                    answer(json!({ "capabilities": { "diagnosticProvider": provider } }));
                }
            }
            "initialized" => {
                let items = json!({ "items": [{ "section": "scripted.depth" }, {}] });
                say(json!({ "id": "s1", "method": "workspace/configuration", "params": items }));
                say(json!({ "id": "s2", "method": "no/such/thing" }));
            }
            "textDocument/didOpen" => {
                self.put(uri, params["textDocument"]["text"].as_str().unwrap());
            }
            "textDocument/didChange" => {
                self.put(uri, params["contentChanges"][0]["text"].as_str().unwrap());
            }
            "textDocument/didClose" => {
                self.texts.remove(&uri);
            }
            "textDocument/diagnostic" => answer(json!({ "kind": "full", "items": self.remarks(&uri) })),
            "textDocument/hover" => answer(json!({ "contents": self.texts[&uri] })),
            "textDocument/definition" => {
                let error = json!({ "code": -32601, "message": "not here" });
                say(json!({ "id": message["id"], "error": error }));
            }
            "textDocument/prepareCallHierarchy" => answer(json!([{ "name": "f" }, { "name": "g" }])),
            "callHierarchy/incomingCalls" => answer(json!([{ "from": params["item"] }])),
            "workspace/symbol" => answer(json!([{ "kind": 12, "name": "f" }, { "kind": 15, "name": "text" }])),
            "shutdown" => answer(Value::Null),
            "exit" => std::process::exit(0),
            _ => {}
        }
    }

    fn put(&mut self, uri: String, text: &str) {
        if text.contains("DIE") {
            eprintln!("I was told to");
            std::process::exit(3);
        }
        if text.contains("JUNK") {
            print!("junk\r\n\r\nContent-Length: 4\r\n\r\n]]{{{{");
            say(json!({ "id": 4711, "result": 1 }));
            say(json!([1]));
            say(json!({ "method": "textDocument/publishDiagnostics", "params": 7 }));
        }
        self.texts.insert(uri, text.to_owned());
        if self.mode != "pull" && !text.contains("SILENT") {
            // Of all that is open: what one file says may break another.
            for uri in self.texts.keys() {
                let params = json!({ "uri": uri, "diagnostics": self.remarks(uri) });
                say(json!({ "method": "textDocument/publishDiagnostics", "params": params }));
            }
        }
    }

    /// A line with BAD is wrong; one with USES too, where no file says DEFINES.
    fn remarks(&self, uri: &str) -> Value {
        let is_defined = self.texts.values().any(|text| text.contains("DEFINES"));
        let lines = self.texts.get(uri).map(String::as_str).unwrap_or_default().lines().enumerate();
        let wrong = lines.filter(|(_, line)| line.contains("BAD") || line.contains("USES") && !is_defined);
        let remark = |(at, line)| {
            let start = json!({ "line": at, "character": 0 });
            json!({ "range": { "start": start, "end": start }, "severity": 1, "message": line })
        };
        wrong.map(remark).collect()
    }
}

fn say(mut message: Value) {
    if let Some(message) = message.as_object_mut() {
        message.insert("jsonrpc".into(), "2.0".into());
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&crate::frame::framed(message.to_string().as_bytes())).unwrap();
    out.flush().unwrap();
}
