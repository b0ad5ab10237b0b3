//! A directory with plugins, a sidecar for it, and a desk for calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use protocol::question::{Answers, Question};
use protocol::{CallId, JsonMap, MessageId, SessionId, Todo};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tools::process::{ProcessGroup, Processes};
use tools::{
    AnyTool, Ask, Delegated, Delegation, Desk, Effects, Place, Progress, Refusal, ToolContext, ToolError, ToolOutput,
};

use crate::found::{Found, Places};
use crate::plugins::{self, Loaded, Notice, Notices, Plugins, State};
use crate::runtime::Runtime;
use crate::sidecar::{Limits, Sidecar, Start, StartError};

/// Long enough for anything that ends at all.
pub const LONG: Duration = Duration::from_secs(30);

/// A directory whose plugins are loaded.
pub struct World {
    pub root: tempfile::TempDir,
    pub entries: Vec<Value>,
    pub roots: Vec<PathBuf>,
    pub limits: Limits,
    pub notices: Notices,
    told: mpsc::Receiver<Notice>,
    state: watch::Sender<State>,
    pub plugins: Plugins,
    pub socket: Option<PathBuf>,
}

impl World {
    pub fn new() -> Self {
        let (notices, told) = Notices::new();
        let (state, following) = watch::channel(State::Starting);
        let plugins = Plugins::new(following, notices.clone());
        let root = tempfile::tempdir().expect("a directory");
        let limits = Limits { hook: Duration::from_millis(400), load: Duration::from_secs(10) };
        Self { root, entries: Vec::new(), roots: Vec::new(), limits, notices, told, state, plugins, socket: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file below the directory.
    pub fn with(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        self
    }

    /// Writes a program below the directory.
    pub fn with_program(self, name: &str, text: &str) -> Self {
        support::write_program(self.path(name), text);
        self
    }

    pub fn found(&self) -> Found {
        Found::look(&Places {
            directories: vec![self.path(".opencode")],
            roots: [self.root.path().to_owned()].into_iter().chain(self.roots.clone()).collect(),
            entries: self.entries.clone(),
        })
    }

    pub async fn start(&self) -> Result<Sidecar, StartError> {
        let path = std::env::var("PATH").unwrap_or_default();
        let start = Start {
            runtime: Runtime::find(None, &path).await.expect("Node or Bun"),
            scripts: self.path(".scripts"),
            directory: self.root.path().to_owned(),
            worktree: self.root.path().to_owned(),
            project: json!({ "id": "prj", "worktree": self.root.path() }),
            server_url: "http://localhost:4096".into(),
            socket: self.socket.clone(),
            found: self.found(),
            limits: self.limits,
        };
        plugins::start(start, &Processes::none(), &self.notices).await
    }

    /// Loads everything, and lets [`World::plugins`] use it.
    pub async fn load(&self) -> Sidecar {
        let sidecar = self.start().await.expect("started");
        let mut tools =
            crate::program::tools(&self.found().programs, self.root.path(), &Processes::none(), &self.notices).await;
        tools.extend(self.plugins.tools_of(&sidecar));
        self.state.send_replace(State::Ready(Loaded { tools: Arc::new(tools), sidecar: Some(sidecar.clone()) }));
        sidecar
    }

    pub fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Returns what was told so far.
    pub fn told(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }

    /// Waits for the next thing told.
    pub async fn next_told(&mut self) -> Notice {
        tokio::time::timeout(LONG, self.told.recv()).await.expect("in time").expect("told")
    }

    pub fn tool(&self, id: &str) -> Arc<dyn AnyTool> {
        let tools = self.plugins.tools();
        tools.iter().find(|tool| tool.id() == id).cloned().unwrap_or_else(|| {
            panic!("no tool {id} among {:?}", tools.iter().map(|tool| tool.id()).collect::<Vec<_>>())
        })
    }

    pub fn context(&self) -> (ToolContext, Arc<TestDesk>) {
        context(self.root.path())
    }

    /// Calls a tool with a desk that allows everything.
    pub async fn call(&self, id: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let (cx, _) = self.context();
        self.tool(id).run(map(input), &cx).await
    }
}

pub fn map(value: Value) -> JsonMap {
    let Value::Object(map) = value else { panic!("no object: {value}") };
    map
}

/// A desk that allows what its closure allows and notes what it hears.
pub struct TestDesk {
    pub asks: Mutex<Vec<Ask>>,
    pub shown: Mutex<Vec<Progress>>,
    pub refuses: Mutex<Option<(String, Refusal)>>,
}

impl Desk for TestDesk {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        let refused =
            self.refuses.lock().expect("a lock").clone().filter(|(permission, _)| *permission == ask.permission);
        self.asks.lock().expect("a lock").push(ask);
        Box::pin(async move { refused.map_or(Ok(()), |(_, refusal)| Err(refusal)) })
    }

    fn question(&self, _: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        Box::pin(async { Err(Refusal::Dismissed) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        Box::pin(async { Ok(Effects::stored()) })
    }

    fn progress(&self, progress: Progress) {
        self.shown.lock().expect("a lock").push(progress);
    }

    fn todos(&self, _: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn file_edited(&self, _: &Path) {}

    fn delegate(&self, _: Delegation) -> BoxFuture<'_, Result<Delegated, ToolError>> {
        Box::pin(async { Err(ToolError::failed("nobody is there")) })
    }

    fn process_started(&self, _: ProcessGroup) {}

    fn process_ended(&self, _: ProcessGroup) {}
}

pub fn context(directory: &Path) -> (ToolContext, Arc<TestDesk>) {
    let desk = Arc::new(TestDesk { asks: Mutex::default(), shown: Mutex::default(), refuses: Mutex::default() });
    let place = Place {
        directory: directory.to_owned(),
        worktree: directory.to_owned(),
        is_repository: true,
        spill: directory.join(".spill"),
        config: Arc::default(),
    };
    // Fails when another test was faster, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let n = (u64::from(std::process::id()) << 20) + NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let cx = ToolContext {
        session_id: SessionId::parse("ses_test").expect("an id"),
        message_id: MessageId::parse(&format!("msg_{n}")).expect("an id"),
        call_id: CallId::new(format!("call_{n}")),
        plan: directory.join(".opencode/plans/plan.md"),
        agent: "build".into(),
        place: Arc::new(place),
        desk: desk.clone(),
        cancel: CancellationToken::new(),
        files: Default::default(),
        processes: Processes::none(),
        http: reqwest::Client::new(),
    };
    (cx, desk)
}
