//! The process of Node or Bun that runs a directory's modules: started with what was found, spoken to in lines of JSON,
//! and gone when the last [`Sidecar`] is dropped, when it is stuck, or when it ends by itself.
//!
//! Its standard input is one end of a socket pair, on which both speak, so that nothing plugins print can get between
//! messages; what they print goes to the log. Requests have ids and limits. Which plugin's code ran last is known at
//! any time, so that one which takes the process along, or never comes back, can be named.

mod script;
mod talk;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::process::Processes;

use crate::found::{Found, PluginSpec};
use crate::hook::{Hook, Outcome, Problem};
use crate::runtime::{Kind, Runtime};

pub(crate) use talk::FromCall;

/// Bytes of the longest message that is sent.
const LONGEST: usize = 64 * 1024 * 1024;
/// Messages that wait to be written.
const QUEUE: usize = 256;
/// What a hook may take longer than its limit before the process counts as stuck; and how long a process whose call was
/// given up may say nothing.
const SLACK: Duration = Duration::from_secs(2);
/// What the sidecar says it is at while it loads something.
const LOADING: &str = "load";
/// Largest event that plugins are told of, in bytes.
const LARGEST_EVENT: usize = 1024 * 1024;

/// What a sidecar is started with.
#[derive(Clone, Debug)]
pub struct Start {
    /// What runs it.
    pub runtime: Runtime,
    /// Where its own modules are kept; made if need be.
    pub scripts: PathBuf,
    /// The directory it is for.
    pub directory: PathBuf,
    /// The top of its repository.
    pub worktree: PathBuf,
    /// The project, as plugins are given it.
    pub project: Value,
    /// The server, for plugins that speak HTTP themselves.
    pub server_url: String,
    /// The server's unix socket, by which the plugins' client reaches it without a password.
    pub socket: Option<PathBuf>,
    /// What is loaded.
    pub found: Found,
    /// How long things may take.
    pub limits: Limits,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One hook of one plugin.
    pub hook: Duration,
    /// Loading one module.
    pub load: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { hook: Duration::from_secs(10), load: Duration::from_secs(20) }
    }
}

/// What a sidecar has loaded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Contents {
    /// What runs it, for people: `node 22.18.0`.
    pub runtime: String,
    /// Its tools.
    pub tools: Vec<ToolDefinition>,
    /// Which plugins have which hooks.
    pub hooks: BTreeMap<String, Vec<String>>,
    /// What could not be loaded.
    pub failed: Vec<Failed>,
}

/// A tool of a sidecar.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ToolDefinition {
    /// Its name.
    pub id: String,
    /// What a model reads of it.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Value,
    /// The file or plugin it comes from.
    pub source: String,
}

/// Something that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Failed {
    /// The file or plugin.
    pub source: String,
    /// Why not.
    pub message: String,
}

/// Whose code ran last.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct At {
    /// The file or plugin.
    pub plugin: String,
    /// The hook or the tool; `load` while it is loaded.
    pub name: String,
}

/// How a sidecar ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What is seen from outside: an exit code, a signal, or that it was stuck.
    pub how: String,
    /// Nothing was heard from it, so it was killed.
    pub was_stuck: bool,
    /// Whose code ran last.
    pub at: Option<At>,
    /// The last line it wrote to its standard error.
    pub said: Option<String>,
}

impl Ending {
    /// Returns the plugin that held its process up in a hook, or while it was loaded: it would again.
    pub fn blocker(&self) -> Option<&str> {
        let At { plugin, name } = self.at.as_ref().filter(|_| self.was_stuck)?;
        (name == LOADING || Hook::is_name(name)).then_some(plugin)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the plugin process ended ({})", self.how)?;
        if let Some(At { plugin, name }) = &self.at {
            write!(f, " while {name} of {plugin} ran")?;
        }
        if let Some(said) = &self.said {
            write!(f, "; it said: {said}")?;
        }
        Ok(())
    }
}

/// Why a sidecar did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Its own modules can't be written.
    #[error("the plugin process's modules can't be written to {}: {message}", path.display())]
    Script {
        /// Where.
        path: PathBuf,
        /// Why not.
        message: String,
    },
    /// The process can't be started.
    #[error("{} can't be started: {message}", program.display())]
    Spawn {
        /// What.
        program: PathBuf,
        /// Why not.
        message: String,
    },
    /// It ended, or was stuck, while it loaded.
    #[error("{0}")]
    Ended(Ending),
    /// It said no.
    #[error("the plugin process could not load anything: {0}")]
    Refused(String),
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{0}")]
    Ended(Ending),
    #[error("{0}")]
    Failed(String),
    #[error("it took longer than {} ms", .0.as_millis())]
    OutOfTime(Duration),
}

/// A running sidecar. Clones share it; it ends with the last one.
#[derive(Clone)]
pub struct Sidecar {
    shared: Arc<Shared>,
    contents: Arc<Contents>,
    limits: Limits,
    /// Ends the process when the last clone is dropped.
    _ends: Arc<DropGuard>,
}

/// What the handles and the tasks share.
struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    pending: Mutex<HashMap<u64, Pending>>,
    next_id: AtomicU64,
    at: watch::Sender<Option<At>>,
    problems: mpsc::Sender<Problem>,
    ended: watch::Receiver<Option<Ending>>,
    /// Cancelled: nothing is heard from it, so it is killed.
    stuck: CancellationToken,
}

/// A request without an answer yet.
struct Pending {
    answer: oneshot::Sender<Result<Value, String>>,
    /// Hears what a running call says.
    call: Option<mpsc::Sender<FromCall>>,
}

impl Sidecar {
    /// Starts a sidecar and loads everything. Must be called within a tokio runtime. `problems` hears of hooks nobody
    /// waits for.
    pub(crate) async fn start(
        start: Start,
        processes: &Processes,
        problems: mpsc::Sender<Problem>,
    ) -> Result<Self, StartError> {
        let script = script::write(&start.scripts)
            .map_err(|e| StartError::Script { path: start.scripts.clone(), message: e.to_string() })?;
        let failed =
            |e: std::io::Error| StartError::Spawn { program: start.runtime.program.clone(), message: e.to_string() };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let ours = UnixStream::from_std(ours).map_err(failed)?;
        let mut command = Command::new(&start.runtime.program);
        match start.runtime.kind {
            Kind::Node(_) => command.arg("--no-warnings"),
            // It would fetch packages that are missing.
            Kind::Bun => command.arg("--no-install"),
        };
        command
            .arg(script)
            .current_dir(&start.directory)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let call = format!("plugins_{:016x}", rand::random::<u64>());
        processes.prepare(&mut command, None, &call);
        let process = command.spawn().map_err(failed)?;
        // The command holds the child's end of the pair; with it open the line would never end.
        drop(command);
        let child = processes.adopt(process, &call).map_err(failed)?;

        let (outgoing, to_write) = mpsc::channel(QUEUE);
        let (end, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            outgoing,
            pending: Mutex::default(),
            next_id: AtomicU64::new(1),
            at: watch::Sender::default(),
            problems,
            ended,
            stuck: CancellationToken::new(),
        });
        talk::begin(child, ours, to_write, &shared, stop.clone(), end);
        let ends = Arc::new(stop.drop_guard());
        let contents = load(&shared, &start).await?;
        Ok(Self { shared, contents: Arc::new(contents), limits: start.limits, _ends: ends })
    }

    /// Returns what it has loaded.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Waits for its end.
    pub fn ended(&self) -> impl Future<Output = Ending> + Send + use<> {
        let shared = Arc::downgrade(&self.shared);
        let mut ended = self.shared.ended.clone();
        async move {
            let gone = Ending { how: "it is gone".into(), was_stuck: false, at: None, said: None };
            let ending = ended.wait_for(Option::is_some).await.map(|ending| ending.clone());
            drop(shared);
            ending.ok().flatten().unwrap_or(gone)
        }
    }

    /// Returns how many plugins have a hook.
    pub(crate) fn count(&self, hook: Hook) -> usize {
        self.contents.hooks.get(hook.as_str()).map_or(0, Vec::len)
    }

    /// Runs a hook for each of `calls` (input, output): of all plugins that have it, in order.
    pub(crate) async fn hook(&self, hook: Hook, calls: &[(Value, Value)]) -> Result<Outcome, RequestError> {
        let params = json!({
            "name": hook.as_str(),
            "calls": calls,
            "limit": self.limits.hook.as_millis() as u64,
            "refuses": hook.refuses(),
        });
        let request = self.shared.request("hook", params, None).await?;
        // One that never comes back is skipped by the sidecar itself; this one is for a process that is stuck.
        let value = match request.while_it_goes_on(self.limits.hook + SLACK).await {
            Err(RequestError::OutOfTime(_)) => {
                self.shared.stuck.cancel();
                return Err(RequestError::Ended(self.shared.ending().await));
            }
            answer => answer?,
        };
        serde_json::from_value(value).map_err(|e| RequestError::Failed(format!("its answer can't be read: {e}")))
    }

    /// Tells the plugins of an event. Nobody waits for them; where they don't keep up, events are lost to them.
    pub(crate) fn event(&self, event: &Value) {
        let params = json!({ "events": [event], "limit": self.limits.hook.as_millis() as u64 });
        match line(&json!({ "method": "event", "params": params })) {
            Some(line) if line.len() <= LARGEST_EVENT => {
                if self.shared.outgoing.try_send(line).is_err() {
                    tracing::debug!("plugins do not keep up with events; one is not told to them");
                }
            }
            _ => tracing::debug!("an event is too large to tell plugins of"),
        }
    }

    /// Begins a call of a tool. `from` hears what it says meanwhile.
    pub(crate) async fn call(&self, params: Value, from: mpsc::Sender<FromCall>) -> Result<Request, RequestError> {
        self.shared.request("tool", params, Some(from)).await
    }

    /// Answers what a call asked.
    pub(crate) async fn reply(&self, id: &str, verdict: Result<(), String>) {
        let message = match verdict {
            Ok(()) => json!({ "id": id, "result": null }),
            Err(message) => json!({ "id": id, "error": { "message": message } }),
        };
        if let Some(line) = line(&message) {
            let _ = self.shared.outgoing.send(line).await;
        }
    }
}

async fn load(shared: &Arc<Shared>, start: &Start) -> Result<Contents, StartError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Settings<'a> {
        directory: &'a PathBuf,
        worktree: &'a PathBuf,
        project: &'a Value,
        server_url: &'a str,
        socket: &'a Option<PathBuf>,
        roots: &'a [PathBuf],
        tools: &'a [PathBuf],
        plugins: &'a [PluginSpec],
        limit: u64,
    }
    let settings = Settings {
        directory: &start.directory,
        worktree: &start.worktree,
        project: &start.project,
        server_url: &start.server_url,
        socket: &start.socket,
        roots: &start.found.roots,
        tools: &start.found.tools,
        plugins: &start.found.plugins,
        limit: start.limits.load.as_millis() as u64,
    };
    let params = serde_json::to_value(settings).map_err(|e| StartError::Refused(e.to_string()))?;
    let limit = start.limits.load + SLACK;
    let answer = async { shared.request("load", params, None).await?.while_it_goes_on(limit).await };
    match answer.await {
        Ok(contents) => serde_json::from_value(contents).map_err(|e| StartError::Refused(e.to_string())),
        Err(RequestError::Ended(ending)) => Err(StartError::Ended(ending)),
        Err(RequestError::Failed(message)) => Err(StartError::Refused(message)),
        Err(RequestError::OutOfTime(_)) => {
            let how = format!("stuck for {} ms", limit.as_millis());
            let at = shared.at.borrow().clone();
            Err(StartError::Ended(Ending { how, was_stuck: true, at, said: None }))
        }
    }
}

/// A request that is on its way. Dropped without an answer, it is cancelled.
pub(crate) struct Request {
    shared: Arc<Shared>,
    id: u64,
    answer: oneshot::Receiver<Result<Value, String>>,
    is_answered: bool,
}

impl Request {
    /// Waits for the answer; with no answer in time the request stays open. Can be dropped and called again.
    pub async fn wait(&mut self) -> Result<Value, RequestError> {
        let answer = (&mut self.answer).await;
        self.is_answered = true;
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(message)) => Err(RequestError::Failed(message)),
            Err(_) => Err(RequestError::Ended(self.shared.ending().await)),
        }
    }

    /// Waits for the answer, for at most so long after each sign that the process goes from one thing to the next.
    pub async fn while_it_goes_on(mut self, limit: Duration) -> Result<Value, RequestError> {
        let mut at = self.shared.at.subscribe();
        loop {
            tokio::select! {
                biased;
                answer = self.wait() => return answer,
                Ok(()) = at.changed() => {}
                () = tokio::time::sleep(limit) => return Err(RequestError::OutOfTime(limit)),
            }
        }
    }

    /// Tells the sidecar that the answer is not wanted any more; it is still given.
    pub fn cancel(&self) {
        if let Some(line) = line(&json!({ "method": "cancel", "params": { "id": self.id } })) {
            let _ = self.shared.outgoing.try_send(line);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let given_up = lock(&self.shared.pending).remove(&self.id);
        if self.is_answered {
            return;
        }
        self.cancel();
        // A call may never let anything else run in its process.
        if given_up.is_some_and(|pending| pending.call.is_some())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = self.shared.clone();
            runtime.spawn(async move { shared.look_after().await });
        }
    }
}

impl Shared {
    async fn request(
        self: &Arc<Self>,
        method: &str,
        params: Value,
        call: Option<mpsc::Sender<FromCall>>,
    ) -> Result<Request, RequestError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let too_long = || RequestError::Failed("the request is too long for plugins".to_owned());
        let line = line(&json!({ "id": id, "method": method, "params": params })).ok_or_else(too_long)?;
        let (answer, answered) = oneshot::channel();
        lock(&self.pending).insert(id, Pending { answer, call });
        let request = Request { shared: self.clone(), id, answer: answered, is_answered: false };
        if self.ended.borrow().is_some() || self.outgoing.send(line).await.is_err() {
            return Err(RequestError::Ended(self.ending().await));
        }
        Ok(request)
    }

    /// Ends the process if nothing is heard from it.
    async fn look_after(self: &Arc<Self>) {
        let Ok(mut ping) = self.request("ping", Value::Null, None).await else { return };
        if tokio::time::timeout(SLACK, ping.wait()).await.is_err() {
            self.stuck.cancel();
        }
    }

    /// How it ended, for one who knows that it does.
    async fn ending(&self) -> Ending {
        let mut ended = self.ended.clone();
        let known = tokio::time::timeout(SLACK, ended.wait_for(Option::is_some)).await;
        let known = known.ok().and_then(|ending| ending.ok().and_then(|ending| ending.clone()));
        known.unwrap_or_else(|| {
            let (at, was_stuck) = (self.at.borrow().clone(), self.stuck.is_cancelled());
            Ending { how: "it does not answer".into(), was_stuck, at, said: None }
        })
    }
}

/// A message as it is sent; none if it is too long.
fn line(message: &Value) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(message).ok()?;
    line.push(b'\n');
    (line.len() <= LONGEST).then_some(line)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
