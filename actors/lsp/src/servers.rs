//! All language servers of a directory: which is there for a file, started when it is first needed, started again when
//! it ended, given up when it ends too often.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::diagnostics::{Diagnosed, Diagnostic, FileDiagnostics, errors};
use tools::lsp::LanguageQuestion;
use tools::process::Processes;

use crate::client::Client;
use crate::config::{Server, Settings};
use crate::error::LspError;
use crate::query;
use crate::root::{Launch, launch};
use crate::start::{Started, start};

/// How long a written file waits for a server that is just starting.
const START_WAIT: Duration = Duration::from_secs(5);
/// How long a written file waits for what a server says of it.
const DIAGNOSTICS_WAIT: Duration = Duration::from_secs(3);
/// How long a question waits for a server that is just starting.
const QUESTION_WAIT: Duration = Duration::from_secs(20);
/// Most written files that are waited for at once.
const MAX_FILES: usize = 20;
/// Most servers of a directory.
const MAX_SERVERS: usize = 32;
/// How long what was found on disk is believed.
const FOUND_FOR: Duration = Duration::from_secs(30);
/// Most places of which it is remembered.
const MAX_FOUND: usize = 1000;
/// Files that are made known to servers at once without anybody waiting for it.
const TOUCHES: usize = 8;
/// Waits before a server that had been running is started again; then it is given up.
const AGAIN: [u64; 4] = [0, 1, 4, 16];
/// Waits, in seconds, before one is tried again that never got ready.
const TRY_AGAIN: [u64; 3] = [10, 60, 300];
/// Who ran this long is forgiven earlier falls.
const FORGIVEN: Duration = Duration::from_secs(300);
/// How long a server's processes have to end.
const GRACE: Duration = Duration::from_millis(500);

/// Where servers work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub directory: PathBuf,
    /// The highest directory whose files are its own: the top of the repository.
    pub top: PathBuf,
}

/// A server as `GET /lsp` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its root, relative to the directory.
    pub root: String,
    /// `connected`, or `error` when it is gone.
    pub status: &'static str,
}

/// Called whenever servers come or go.
pub type OnChange = Arc<dyn Fn() + Send + Sync>;

/// All language servers of a directory. Clones share everything; with the last one all servers end.
#[derive(Clone)]
pub struct Servers {
    inner: Arc<Inner>,
    _end: Arc<DropGuard>,
}

struct Inner {
    place: Place,
    settings: Settings,
    processes: Processes,
    on_change: OnChange,
    entries: Mutex<HashMap<(String, PathBuf), Arc<Entry>>>,
    found: Mutex<HashMap<(PathBuf, String), Found>>,
    touches: Arc<Semaphore>,
    stop: CancellationToken,
}

/// How a server is run for the files of a directory, and when that was found out.
type Found = (Instant, Option<Launch>);

struct Entry {
    server: Server,
    launch: Launch,
    state: watch::Sender<State>,
    falls: Mutex<Falls>,
}

#[derive(Clone, Default)]
enum State {
    #[default]
    Idle,
    Starting,
    Running(Arc<Client>),
    Failed,
}

#[derive(Default)]
struct Falls {
    count: usize,
    /// Not again before; none: never.
    next: Option<Instant>,
    /// What the model is still to be told.
    note: Option<String>,
}

impl Servers {
    /// Returns the servers of a directory; none runs yet.
    pub fn new(place: Place, settings: Settings, processes: Processes, on_change: OnChange) -> Self {
        let stop = CancellationToken::new();
        let inner = Inner {
            place,
            settings,
            processes,
            on_change,
            entries: Mutex::default(),
            found: Mutex::default(),
            touches: Arc::new(Semaphore::new(TOUCHES)),
            stop: stop.clone(),
        };
        Self { inner: Arc::new(inner), _end: Arc::new(stop.drop_guard()) }
    }

    /// Returns whether there may be a server for a file, by its name and place alone.
    pub fn cover(&self, path: &Path) -> bool {
        self.inner.covers(path)
    }

    /// Makes a file known to its servers, started where they don't run. Nobody needs to wait for it.
    pub async fn touch(&self, path: &Path) {
        let inner = &self.inner;
        let Ok(_place) = inner.touches.clone().try_acquire_owned() else { return };
        for entry in inner.entries(path).await {
            inner.start_if_due(&entry);
            if let Some(client) = entry.ready(QUESTION_WAIT).await
                && let Ok(Err(error)) = timeout(DIAGNOSTICS_WAIT, client.open(path)).await
            {
                tracing::debug!(server = entry.server.name, %error, "a file was not made known");
            }
        }
    }

    /// Tells servers of files that were just written or removed, and returns what they say, in bounded time.
    pub async fn diagnose(&self, written: &[PathBuf]) -> Diagnosed {
        let inner = &self.inner;
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in written.iter().filter(|path| inner.covers(path)) {
            if !paths.contains(path) && paths.len() < MAX_FILES {
                paths.push(path.clone());
            }
        }
        let mut groups: Vec<(Arc<Entry>, Vec<PathBuf>)> = Vec::new();
        for path in &paths {
            for entry in inner.entries(path).await {
                match groups.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &entry)) {
                    Some((_, paths)) => paths.push(path.clone()),
                    None => groups.push((entry, vec![path.clone()])),
                }
            }
        }
        if groups.is_empty() {
            return Diagnosed::default();
        }
        let before = errors(&inner.remarks(&[]));
        join_all(groups.iter().map(|(entry, paths)| async move {
            inner.start_if_due(entry);
            if let Some(client) = entry.ready(START_WAIT).await {
                client.diagnose(paths, DIAGNOSTICS_WAIT).await;
                if client.closed().is_cancelled() {
                    entry.settled(&client).await;
                }
            }
        }))
        .await;
        let mut files = inner.remarks(&paths);
        let now = errors(&files);
        let is_new = |file: &FileDiagnostics| {
            let errors = now.get(&file.path);
            errors.is_some() && errors != before.get(&file.path) && inner.is_inside(&file.path)
        };
        files.retain(|file| file.is_written || is_new(file));
        let notes = groups.iter().filter_map(|(entry, _)| lock(&entry.falls).note.take()).collect();
        Diagnosed { files, notes }
    }

    /// Puts a question to the servers of a file. What those that can answer it say.
    pub async fn ask(&self, question: &LanguageQuestion) -> Result<Vec<Value>, LspError> {
        let inner = &self.inner;
        let none = || LspError::NoServer { path: question.path.clone() };
        let entries = inner.entries(&question.path).await;
        let answers = join_all(entries.iter().map(|entry| async move {
            inner.start_if_due(entry);
            match entry.ready(QUESTION_WAIT).await {
                Some(client) => query::ask(&client, question).await,
                None if matches!(*entry.state.borrow(), State::Starting) => {
                    Err(LspError::Starting { server: entry.server.name.clone() })
                }
                None => Err(LspError::Ended { server: entry.server.name.clone() }),
            }
        }))
        .await;
        let mut found = None;
        let mut failed = None;
        for answer in answers {
            match answer {
                Ok(list) => found.get_or_insert_with(Vec::new).extend(list),
                Err(error) => failed = Some(error),
            }
        }
        found.ok_or_else(|| failed.unwrap_or_else(none))
    }

    /// Returns the servers that run, and those that ended.
    pub fn status(&self) -> Vec<ServerStatus> {
        let directory = &self.inner.place.directory;
        let status = |entry: &Arc<Entry>| {
            let status = match &*entry.state.borrow() {
                State::Running(_) => "connected",
                State::Failed => "error",
                State::Idle | State::Starting => return None,
            };
            let name = entry.server.name.clone();
            let root = relative(directory, &entry.launch.root);
            Some(ServerStatus { id: name.clone(), name, root, status })
        };
        let mut all: Vec<_> = lock(&self.inner.entries).values().filter_map(status).collect();
        all.sort_by(|a, b| (&a.id, &a.root).cmp(&(&b.id, &b.root)));
        all
    }
}

impl Inner {
    fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.place.directory) || path.starts_with(&self.place.top)
    }

    fn covers(&self, path: &Path) -> bool {
        self.is_inside(path) && self.settings.cover(path)
    }

    /// Returns the servers of a file, whether they run or not.
    async fn entries(&self, path: &Path) -> Vec<Arc<Entry>> {
        let mut entries = Vec::new();
        if !self.covers(path) {
            return entries;
        }
        for server in self.settings.fitting(path) {
            let Some(launch) = self.launch(server, path).await else { continue };
            let mut all = lock(&self.entries);
            let count = all.len();
            let key = (server.name.clone(), launch.root.clone());
            match all.get(&key) {
                Some(entry) => entries.push(entry.clone()),
                None if count >= MAX_SERVERS => {
                    tracing::debug!(server = server.name, "there are too many language servers in this directory");
                }
                None => {
                    let (state, falls) = (watch::Sender::default(), Mutex::default());
                    let entry = Arc::new(Entry { server: server.clone(), launch, state, falls });
                    all.insert(key, entry.clone());
                    entries.push(entry);
                }
            }
        }
        entries
    }

    async fn launch(&self, server: &Server, path: &Path) -> Option<Launch> {
        let key = (path.parent()?.to_owned(), server.name.clone());
        if let Some((since, launch)) = lock(&self.found).get(&key)
            && since.elapsed() < FOUND_FOR
        {
            return launch.clone();
        }
        let (server, path, place) = (server.clone(), path.to_owned(), self.place.clone());
        let top = if place.directory.starts_with(&place.top) { place.top } else { place.directory.clone() };
        let look = move || launch(&server, &path, &place.directory, &top);
        let launch = tokio::task::spawn_blocking(look).await.ok().flatten();
        let mut found = lock(&self.found);
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert(key, (Instant::now(), launch.clone()));
        launch
    }

    /// Returns what running servers say; of the written files first, also where it is nothing.
    fn remarks(&self, written: &[PathBuf]) -> Vec<FileDiagnostics> {
        let entries: Vec<_> = lock(&self.entries).values().cloned().collect();
        let mut all: HashMap<PathBuf, Vec<Diagnostic>> = HashMap::new();
        for entry in entries {
            let State::Running(client) = entry.state.borrow().clone() else { continue };
            for (path, remarks) in client.remarks() {
                all.entry(path).or_default().extend(remarks);
            }
        }
        let sorted = |mut remarks: Vec<Diagnostic>| {
            remarks.sort_by_key(|remark| (remark.severity, remark.line, remark.character));
            remarks
        };
        let mut files: Vec<FileDiagnostics> = Vec::new();
        for path in written {
            let remarks = sorted(all.remove(path).unwrap_or_default());
            files.push(FileDiagnostics { path: path.clone(), is_written: true, remarks });
        }
        let mut others: Vec<_> = all.into_iter().collect();
        others.sort_by(|(a, _), (b, _)| a.cmp(b));
        let other = |(path, remarks)| FileDiagnostics { path, is_written: false, remarks: sorted(remarks) };
        files.extend(others.into_iter().map(other));
        files
    }

    fn start_if_due(self: &Arc<Self>, entry: &Arc<Entry>) {
        let is_due = || lock(&entry.falls).next.is_some_and(|next| Instant::now() >= next);
        let starts = entry.state.send_if_modified(|state| {
            let starts = match state {
                State::Idle => true,
                State::Failed => is_due(),
                State::Starting | State::Running(_) => false,
            };
            if starts {
                *state = State::Starting;
            }
            starts
        });
        if starts {
            // Holds no handle: with the last one all tasks are told to stop.
            let (inner, entry) = (self.clone(), entry.clone());
            tokio::spawn(async move { inner.keep(&entry).await });
        }
    }

    /// Runs a server until it ends or isn't needed any more.
    async fn keep(&self, entry: &Entry) {
        let (name, root) = (&*entry.server.name, entry.launch.root.display());
        let Started { mut child, output, input, said } = match start(&entry.server, &entry.launch, &self.processes) {
            Ok(started) => started,
            Err(error) => {
                tracing::warn!(server = name, %root, %error, "a language server could not be started");
                return entry.failed();
            }
        };
        let initialization = entry.server.initialization.clone();
        let connect = Client::connect(name, output, input, &entry.launch.root, initialization);
        let connected = tokio::select! {
            connected = connect => connected,
            () = self.stop.cancelled() => return child.end(GRACE).await,
        };
        let client = match connected {
            Ok(client) => Arc::new(client),
            Err(error) => {
                child.end(GRACE).await;
                let said = said.last_line();
                tracing::warn!(server = name, %root, %error, said, "a language server did not get ready");
                return entry.failed();
            }
        };
        let since = Instant::now();
        tracing::info!(server = name, %root, "a language server is ready");
        entry.state.send_replace(State::Running(client.clone()));
        (self.on_change)();
        let ended = tokio::select! {
            () = self.stop.cancelled() => {
                client.shut_down().await;
                return child.end(GRACE).await;
            }
            status = child.exited() => status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            () = client.closed().cancelled() => "it said no more".to_owned(),
        };
        tracing::warn!(server = name, %root, ended, said = said.last_line(), "a language server has ended");
        entry.fell(&ended, since.elapsed() >= FORGIVEN);
        (self.on_change)();
        child.end(GRACE).await;
    }
}

impl Entry {
    /// Returns the running server, waiting for one that starts.
    async fn ready(&self, within: Duration) -> Option<Arc<Client>> {
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        match &*timeout(within, settled).await.ok()?.ok()? {
            State::Running(client) => Some(client.clone()),
            _ => None,
        }
    }

    /// Waits until it is noted that a server has ended.
    async fn settled(&self, ended: &Arc<Client>) {
        let mut state = self.state.subscribe();
        let is_noted = |state: &State| !matches!(state, State::Running(client) if Arc::ptr_eq(client, ended));
        let _ = timeout(GRACE, state.wait_for(is_noted)).await;
    }

    /// It never got ready. The log has said why; the model has lost nothing.
    fn failed(&self) {
        {
            let mut falls = lock(&self.falls);
            let wait = TRY_AGAIN.get(falls.count);
            falls.count += 1;
            falls.next = wait.map(|seconds| Instant::now() + Duration::from_secs(*seconds));
        }
        self.state.send_replace(State::Failed);
    }

    /// It ended while it ran.
    fn fell(&self, how: &str, is_forgiven: bool) {
        let name = &self.server.name;
        {
            let mut falls = lock(&self.falls);
            if is_forgiven {
                falls.count = 0;
            }
            let wait = AGAIN.get(falls.count);
            falls.count += 1;
            falls.next = wait.map(|seconds| Instant::now() + Duration::from_secs(*seconds));
            let then = match falls.next {
                Some(_) => "It is started again when it is needed; until it is ready, errors may be missing here.",
                None => "It has ended too often and is not started again; look for errors another way.",
            };
            falls.note = Some(format!("The language server {name} has ended ({how}). {then}"));
        }
        self.state.send_replace(State::Failed);
    }
}

/// Returns a path relative to the directory, with `..` where it is above.
fn relative(directory: &Path, path: &Path) -> String {
    if let Ok(below) = path.strip_prefix(directory) {
        return below.to_string_lossy().into_owned();
    }
    match directory.strip_prefix(path) {
        Ok(below) => vec![".."; below.components().count()].join("/"),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
