//! What a server does, and the server that does it over pipes.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

/// Holds the script of a child.
const VARIABLE: &str = "TROUPE_MCP_SCRIPT";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Script {
    /// Before it answers `initialize`.
    pub init_ms: u64,
    pub tools: Vec<ScriptedTool>,
    /// Tools that come later, with a notice.
    pub later: Option<Later>,
    /// Lines that are no messages, before, between and after them.
    pub junk: bool,
    /// Megabytes on its standard error.
    pub stderr_mb: usize,
    /// The last words on its standard error.
    pub last_words: String,
    /// Ends at once.
    pub crash: bool,
    /// Answers so many calls, then ends, the first time this file is not there.
    pub die_after: Option<(usize, PathBuf)>,
    /// Lives on when its input is closed.
    pub stay: bool,
    /// The [`Log`](super::Log) that gets a line for each message it gets, and `start` for each start.
    pub log: Option<PathBuf>,
    pub prompts: Vec<Value>,
    /// As they are listed; `contents` is what reading one gives, `refusal` why it can't be read.
    pub resources: Vec<Value>,
    /// Entries of the tool list besides the tools: broken ones.
    pub broken_tools: Vec<Value>,
    /// One tool a page.
    pub paged: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScriptedTool {
    pub name: String,
    pub description: String,
    pub schema: Option<Value>,
    /// Its answer; else its arguments.
    pub text: Option<String>,
    /// The whole result.
    pub result: Option<Value>,
    /// The bytes of its answer, all on one line.
    pub text_bytes: usize,
    /// An image of so many bytes beside its answer.
    pub image_bytes: usize,
    pub sleep_ms: u64,
    /// Answers only when it is cancelled: never.
    pub hangs: bool,
    /// Ends the server, the first time this file is not there.
    pub exit_once: Option<PathBuf>,
    /// Sends these first: `(progress, message)`, each after `every_ms`.
    pub progress: Vec<(f64, String)>,
    pub every_ms: u64,
    /// Asks this first; what comes back is its answer.
    pub elicit: Option<Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Later {
    /// After the call of this tool.
    pub after: String,
    pub tools: Vec<ScriptedTool>,
}

impl ScriptedTool {
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: Some(text.into()), ..Self::default() }
    }
}

impl Script {
    /// Returns a script with one tool for each `(name, text)`.
    pub fn tools<const N: usize>(tools: [(&str, &str); N]) -> Self {
        Self { tools: tools.into_iter().map(|(name, text)| ScriptedTool::new(name, text)).collect(), ..Self::default() }
    }

    /// Returns the config entry of a child that follows this script. `test` is the path of the test that calls
    /// [`run_if_child`], as `cargo test` names it.
    pub fn local(&self, test: &str) -> Value {
        let program = std::env::current_exe().expect("the test binary").to_string_lossy().into_owned();
        json!({
            "type": "local",
            "command": [program, "--exact", test, "--nocapture", "--test-threads=1"],
            "environment": { VARIABLE: serde_json::to_string(self).expect("a script") },
        })
    }

    /// The same behind a shell that waits for it.
    pub fn wrapped(&self, test: &str) -> Value {
        let mut entry = self.local(test);
        let quote = |text: &Value| format!("'{}'", text.as_str().unwrap_or_default());
        let words: Vec<String> = entry["command"].as_array().into_iter().flatten().map(quote).collect();
        entry["command"] = json!(["sh", "-c", format!("{}; true", words.join(" "))]);
        entry
    }
}

/// Is a scripted server, where this process was started as one; else does nothing.
pub fn run_if_child() {
    let Ok(script) = std::env::var(VARIABLE) else { return };
    let script: Script = serde_json::from_str(&script).expect("a script");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(run(script));
    std::process::exit(0);
}

async fn run(script: Script) {
    let server = Arc::new(Server::new(script));
    server.log("start");
    if server.script.stderr_mb > 0 {
        let mut errors = tokio::io::stderr();
        let line = format!("{}\n", "e".repeat(99_999));
        for _ in 0..server.script.stderr_mb * 10 {
            errors.write_all(line.as_bytes()).await.expect("stderr");
        }
    }
    if !server.script.last_words.is_empty() {
        eprintln!("{}\n", server.script.last_words);
    }
    if server.script.crash {
        std::process::exit(3);
    }
    let (sender, mut outgoing) = mpsc::unbounded_channel::<Value>();
    let junk = server.script.junk;
    tokio::spawn(async move {
        let mut output = tokio::io::stdout();
        // The test harness has begun a line with the test's name.
        output.write_all(b"\n").await.expect("stdout");
        while let Some(message) = outgoing.recv().await {
            let text = if junk { format!("\nStarting...\n{message}\nnot json {{\n") } else { format!("{message}\n") };
            output.write_all(text.as_bytes()).await.expect("stdout");
            output.flush().await.expect("stdout");
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let (server, sender) = (server.clone(), sender.clone());
        tokio::spawn(async move { server.take(message, &sender).await });
    }
    if server.script.stay {
        std::future::pending::<()>().await;
    }
}

/// A PNG of one pixel with so many bytes behind it, as base64.
fn image(bytes: usize) -> String {
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut image = STANDARD.decode(pixel).expect("an image");
    image.resize(bytes.max(image.len()), 7);
    STANDARD.encode(image)
}

/// A server that follows a script, over whatever brings it messages.
pub struct Server {
    pub script: Script,
    tools: Mutex<Vec<ScriptedTool>>,
    calls: AtomicUsize,
    asked: AtomicUsize,
    answers: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    log: Mutex<Option<UnixStream>>,
}

impl Server {
    pub fn new(script: Script) -> Self {
        let tools = Mutex::new(script.tools.clone());
        Self {
            script,
            tools,
            calls: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            answers: Mutex::default(),
            log: Mutex::default(),
        }
    }

    fn log(&self, line: &str) {
        use std::io::Write;
        if let Some(path) = &self.script.log {
            let mut log = self.log.lock().expect("a lock");
            if log.is_none() {
                *log = UnixStream::connect(path).ok();
            }
            // The test may have ended.
            let _ = log.as_mut().map(|log| log.write_all(format!("{line}\n").as_bytes()));
        }
    }

    /// Takes a message; what it makes the server say goes to `out`.
    pub async fn take(&self, message: Value, out: &mpsc::UnboundedSender<Value>) {
        let send = |message: Value| drop(out.send(message));
        let id = message["id"].clone();
        let ok = |result: Value| send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        let params = &message["params"];
        let Some(method) = message["method"].as_str() else {
            if let Some(waiting) = id.as_str().and_then(|id| self.answers.lock().expect("a lock").remove(id)) {
                let _ = waiting.send(message["result"].clone());
            }
            return;
        };
        self.log(&format!("{method} {params}"));
        match method {
            "initialize" => {
                tokio::time::sleep(Duration::from_millis(self.script.init_ms)).await;
                let capabilities = json!({ "tools": { "listChanged": true }, "prompts": {}, "resources": {} });
                let info = json!({ "name": "scripted", "version": "1" });
                let version = &params["protocolVersion"];
                ok(json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": info }));
            }
            "tools/list" => ok(self.tool_list(params["cursor"].as_str())),
            "tools/call" => self.call(&id, params, out).await,
            "prompts/list" => ok(json!({ "prompts": self.script.prompts })),
            "prompts/get" => {
                let text = format!("{} {}", params["name"].as_str().unwrap_or_default(), params["arguments"]);
                ok(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] }));
            }
            "resources/list" => ok(json!({ "resources": self.script.resources })),
            "resources/templates/list" => ok(json!({ "resourceTemplates": [] })),
            "resources/read" => {
                let known = self.script.resources.iter().find(|resource| resource["uri"] == params["uri"]);
                let own = known.map(|resource| resource["contents"].clone()).filter(Value::is_array);
                let text = json!([{ "uri": params["uri"], "text": "resource text" }]);
                match known.and_then(|resource| resource["refusal"].as_str()) {
                    Some(why) => {
                        let error = json!({ "code": -32002, "message": why });
                        send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                    }
                    None => ok(json!({ "contents": own.unwrap_or(text) })),
                }
            }
            _ if id.is_null() => {}
            _ => ok(json!({})),
        }
    }

    fn tool_list(&self, cursor: Option<&str>) -> Value {
        let tools = self.tools.lock().expect("a lock").clone();
        let tool = |tool: &ScriptedTool| {
            let schema = tool.schema.clone().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
            json!({ "name": tool.name, "description": tool.description, "inputSchema": schema })
        };
        let mut listed: Vec<Value> = tools.iter().map(tool).collect();
        listed.extend(self.script.broken_tools.clone());
        if !self.script.paged {
            return json!({ "tools": listed });
        }
        let at: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let next = (at + 1 < listed.len()).then(|| (at + 1).to_string());
        json!({ "tools": listed.get(at).into_iter().collect::<Vec<_>>(), "nextCursor": next })
    }

    async fn call(&self, id: &Value, params: &Value, out: &mpsc::UnboundedSender<Value>) {
        let send = |message: Value| drop(out.send(message));
        let name = params["name"].as_str().unwrap_or_default();
        let found = self.tools.lock().expect("a lock").iter().find(|tool| tool.name == name).cloned();
        let Some(tool) = found else {
            let error = json!({ "code": -32602, "message": "no such tool" });
            return send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        };
        if let Some(file) = &tool.exit_once
            && !file.exists()
        {
            std::fs::write(file, "x").expect("a file");
            std::process::exit(0);
        }
        for (progress, text) in &tool.progress {
            tokio::time::sleep(Duration::from_millis(tool.every_ms)).await;
            let told = json!({ "progressToken": params["_meta"]["progressToken"], "progress": progress, "total": 2, "message": text });
            send(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": told }));
        }
        tokio::time::sleep(Duration::from_millis(tool.sleep_ms)).await;
        if tool.hangs {
            return std::future::pending().await;
        }
        let mut text = tool.text.clone().unwrap_or_else(|| params["arguments"].to_string());
        if let Some(form) = &tool.elicit {
            let asked = format!("ask{}", self.asked.fetch_add(1, Ordering::SeqCst));
            let (answer, answered) = oneshot::channel();
            self.answers.lock().expect("a lock").insert(asked.clone(), answer);
            send(json!({ "jsonrpc": "2.0", "id": asked, "method": "elicitation/create", "params": form }));
            text = answered.await.unwrap_or_default().to_string();
        }
        if tool.text_bytes > 0 {
            text = "word ".repeat(tool.text_bytes / 5);
        }
        let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some((most, file)) = &self.script.die_after
            && calls > *most
            && !file.exists()
        {
            std::fs::write(file, "x").expect("a file");
            tokio::time::sleep(Duration::from_millis(50)).await;
            std::process::exit(0);
        }
        let mut content = vec![json!({ "type": "text", "text": text })];
        if tool.image_bytes > 0 {
            content.push(json!({ "type": "image", "mimeType": "image/png", "data": image(tool.image_bytes) }));
        }
        let result = tool.result.clone().unwrap_or_else(|| json!({ "content": content }));
        send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        if let Some(later) = self.script.later.as_ref().filter(|later| later.after == name) {
            self.tools.lock().expect("a lock").extend(later.tools.clone());
            send(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
        }
    }
}
