//! One server that runs: what it is told of files, and what it says of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument, Exit, Initialized,
    Notification, PublishDiagnostics,
};
use lsp_types::request::{
    ApplyWorkspaceEdit, DocumentDiagnosticRequest, ExecuteCommand, Initialize, RegisterCapability, Request,
    ShowMessageRequest, Shutdown, UnregisterCapability, WorkDoneProgressCreate, WorkspaceConfiguration,
    WorkspaceDiagnosticRefresh, WorkspaceFoldersRequest,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tools::diagnostics::Diagnostic;
use url::Url;

use crate::connection::{Connection, Listener};
use crate::document::{Documents, Mark, Stamp, stamp};
use crate::error::LspError;
use crate::language::language_id;
use crate::remark::remarks;
use crate::typescript;

/// How long a server may take to get ready.
const INITIALIZE: Duration = Duration::from_secs(45);
/// How long it may take to take its leave.
const SHUTDOWN: Duration = Duration::from_millis(300);
/// How long a server that says things bit by bit is listened to after the last of them.
const QUIET: Duration = Duration::from_millis(150);
/// The largest file a server is given, in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;
/// Open files that are asked about too when another one changed.
const NEIGHBOURS: usize = 8;

/// A server that runs. The line to it is cut when this is dropped; its process is its owner's.
#[derive(Debug)]
pub struct Client {
    server: String,
    connection: Connection,
    shared: Arc<Shared>,
    /// Files are told of one after the other, so that versions arrive in order.
    telling: tokio::sync::Mutex<()>,
    /// TypeScript's server can be asked outright.
    is_typescript: bool,
}

#[derive(Debug)]
struct Shared {
    documents: Mutex<Documents>,
    /// Changes whenever the server says something of a file.
    published: watch::Sender<u64>,
    /// The server can be asked what is wrong with a file.
    pulls: AtomicBool,
    settings: Value,
    root: String,
}

impl Client {
    /// Takes up the line to a server and waits until it is ready.
    pub async fn connect(
        server: &str,
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        root: &Path,
        initialization: Value,
    ) -> Result<Self, LspError> {
        let root_uri = uri(root)?;
        let shared = Arc::new(Shared {
            documents: Mutex::default(),
            published: watch::Sender::new(0),
            pulls: AtomicBool::new(false),
            settings: initialization.clone(),
            root: root_uri.clone(),
        });
        let connection = Connection::new(server, output, input, shared.clone());
        let hello = hello(&root_uri, root, &initialization);
        let answer = connection.request(Initialize::METHOD, hello, INITIALIZE).await?;
        let capabilities = answer.get("capabilities").cloned().unwrap_or_default();
        if capabilities.get("diagnosticProvider").is_some_and(|provider| !provider.is_null()) {
            shared.pulls.store(true, Ordering::Relaxed);
        }
        let commands = capabilities.pointer("/executeCommandProvider/commands").and_then(Value::as_array);
        let is_typescript = commands.is_some_and(|commands| commands.iter().any(|name| name == typescript::COMMAND));
        connection.notify(Initialized::METHOD, json!({})).await?;
        if !initialization.is_null() {
            let settings = json!({ "settings": initialization });
            connection.notify("workspace/didChangeConfiguration", settings).await?;
        }
        Ok(Self { server: server.to_owned(), connection, shared, telling: tokio::sync::Mutex::new(()), is_typescript })
    }

    /// Resolves when the server is gone.
    pub fn closed(&self) -> &CancellationToken {
        self.connection.closed()
    }

    /// Lets the server take its leave.
    pub async fn shut_down(&self) {
        let _ = self.connection.request(Shutdown::METHOD, Value::Null, SHUTDOWN).await;
        let _ = timeout(SHUTDOWN, self.connection.notify(Exit::METHOD, Value::Null)).await;
    }

    /// Asks the server something.
    pub async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Value, LspError> {
        self.connection.request(method, params, limit).await
    }

    /// Gives the server a file as it is on disk, where it doesn't have it.
    pub async fn open(&self, path: &Path) -> Result<(), LspError> {
        let _alone = self.telling.lock().await;
        self.tell(path, false).await.map(drop)
    }

    /// Tells the server of files that were written or removed, and listens to what it says of them, for a time.
    pub async fn diagnose(&self, written: &[PathBuf], within: Duration) {
        let work = async {
            let mut marks = Vec::new();
            {
                let _alone = self.telling.lock().await;
                for path in written {
                    marks.extend(self.tell(path, true).await?);
                }
                // What else changed on disk meanwhile: remarks on the written files hang on it.
                let open = lock(&self.shared.documents).open();
                for path in open.iter().filter(|path| !written.contains(path)) {
                    self.tell(path, false).await?;
                }
                self.close_surplus().await?;
                let neighbours = open.iter().filter(|path| !written.contains(path)).take(NEIGHBOURS);
                let documents = lock(&self.shared.documents);
                if self.can_be_asked() {
                    marks.extend(neighbours.filter_map(|path| documents.mark(path)));
                }
            }
            join_all(marks.iter().map(|mark| self.settle(mark, within))).await;
            Ok::<(), LspError>(())
        };
        match timeout(within, work).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(server = self.server, %error, "a language server was not told of a file"),
            Err(_) => tracing::debug!(server = self.server, "a language server did not say in time what is wrong"),
        }
    }

    /// Returns what the server says of all files.
    pub fn remarks(&self) -> Vec<(PathBuf, Vec<Diagnostic>)> {
        lock(&self.shared.documents).remarks()
    }

    fn can_be_asked(&self) -> bool {
        self.is_typescript || self.shared.pulls.load(Ordering::Relaxed)
    }

    /// Tells of one file; `is_written`: also to a server that watches files. The mark of what it was given.
    async fn tell(&self, path: &Path, is_written: bool) -> Result<Option<Mark>, LspError> {
        let uri = uri(path)?;
        let watched = |kind: u8| json!({ "changes": [{ "uri": uri, "type": kind }] });
        let (text, stamp) = match read(path).await {
            Ok(Some(read)) => read,
            Ok(None) => {
                let was_open = lock(&self.shared.documents).forget(path);
                if was_open {
                    self.say(DidCloseTextDocument::METHOD, json!({ "textDocument": { "uri": uri } })).await?;
                }
                if is_written || was_open {
                    self.say(DidChangeWatchedFiles::METHOD, watched(3)).await?;
                }
                return Ok(None);
            }
            Err(error) => return if is_written { Err(error) } else { Ok(None) },
        };
        if lock(&self.shared.documents).has(path, &stamp) {
            return Ok(if is_written { lock(&self.shared.documents).mark(path) } else { None });
        }
        let (mark, is_first) = lock(&self.shared.documents).begin(path);
        if is_written {
            self.say(DidChangeWatchedFiles::METHOD, watched(if is_first { 1 } else { 2 })).await?;
        }
        let version = mark.version;
        if is_first {
            let document = json!({ "uri": uri, "languageId": language_id(path), "version": version, "text": text });
            self.say(DidOpenTextDocument::METHOD, json!({ "textDocument": document })).await?;
        } else {
            let document = json!({ "uri": uri, "version": version });
            let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
            self.say(DidChangeTextDocument::METHOD, change).await?;
        }
        lock(&self.shared.documents).given(&mark, stamp);
        Ok(Some(mark))
    }

    async fn say(&self, method: &str, params: Value) -> Result<(), LspError> {
        self.connection.notify(method, params).await
    }

    async fn close_surplus(&self) -> Result<(), LspError> {
        let surplus = lock(&self.shared.documents).surplus();
        for path in surplus {
            lock(&self.shared.documents).forget(&path);
            self.say(DidCloseTextDocument::METHOD, json!({ "textDocument": { "uri": uri(&path)? } })).await?;
        }
        Ok(())
    }

    /// Returns when the server has said what it has to say of a content.
    async fn settle(&self, mark: &Mark, within: Duration) {
        let asked = if self.is_typescript {
            self.ask_typescript(mark, within).await
        } else if self.shared.pulls.load(Ordering::Relaxed) {
            self.pull(mark, within).await
        } else {
            None
        };
        if asked.is_none() {
            self.listen(mark).await;
        }
    }

    async fn ask_typescript(&self, mark: &Mark, within: Duration) -> Option<()> {
        let mut found = Vec::new();
        for request in typescript::REQUESTS {
            let arguments = json!([request, { "file": mark.path }]);
            let params = json!({ "command": typescript::COMMAND, "arguments": arguments });
            let answer = self.connection.request(ExecuteCommand::METHOD, params, within).await.ok()?;
            found.extend(typescript::remarks(&answer)?);
        }
        lock(&self.shared.documents).pull(mark, remarks(found.into()), true);
        Some(())
    }

    async fn pull(&self, mark: &Mark, within: Duration) -> Option<()> {
        let params = json!({ "textDocument": { "uri": uri(&mark.path).ok()? } });
        let mut report = self.connection.request(DocumentDiagnosticRequest::METHOD, params, within).await.ok()?;
        let found = remarks(report.get_mut("items").map(Value::take)?);
        lock(&self.shared.documents).pull(mark, found, false);
        Some(())
    }

    /// Listens until the server has said something of a content, and then no more for a moment.
    async fn listen(&self, mark: &Mark) {
        let mut published = self.shared.published.subscribe();
        let mut last = None;
        let mut quiet = Instant::now();
        loop {
            published.mark_unchanged();
            let heard = lock(&self.shared.documents).pushed_since(mark);
            if heard != last {
                (last, quiet) = (heard, Instant::now() + QUIET);
            }
            tokio::select! {
                changed = published.changed() => if changed.is_err() { return },
                () = sleep_until(quiet), if last.is_some() => return,
                () = self.closed().cancelled() => return,
            }
        }
    }
}

impl Listener for Shared {
    fn notified(&self, method: &str, mut params: Value) {
        if method != PublishDiagnostics::METHOD {
            return;
        }
        let path = params.get("uri").and_then(Value::as_str).and_then(path_of);
        let Some(path) = path else { return };
        let version = params.get("version").and_then(Value::as_i64);
        let said = remarks(params.get_mut("diagnostics").map(Value::take).unwrap_or_default());
        lock(&self.documents).push(path, version, said);
        self.published.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn asked(&self, method: &str, params: Value) -> Option<Value> {
        match method {
            WorkspaceConfiguration::METHOD => {
                let items = params.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let setting = |item: &Value| match item.get("section").and_then(Value::as_str) {
                    Some(section) if !section.is_empty() => self.setting(section),
                    _ => self.settings.clone(),
                };
                Some(items.iter().map(setting).collect())
            }
            WorkspaceFoldersRequest::METHOD => Some(json!([{ "name": "workspace", "uri": self.root }])),
            RegisterCapability::METHOD => {
                let all = params.get("registrations").and_then(Value::as_array);
                let mut methods = all.into_iter().flatten().filter_map(|one| one.get("method"));
                if methods.any(|method| method == DocumentDiagnosticRequest::METHOD) {
                    self.pulls.store(true, Ordering::Relaxed);
                }
                Some(Value::Null)
            }
            UnregisterCapability::METHOD
            | WorkDoneProgressCreate::METHOD
            | ShowMessageRequest::METHOD
            | WorkspaceDiagnosticRefresh::METHOD => Some(Value::Null),
            // Servers only look; files are changed by tools.
            ApplyWorkspaceEdit::METHOD => Some(json!({ "applied": false })),
            _ => None,
        }
    }
}

impl Shared {
    fn setting(&self, section: &str) -> Value {
        let found = section.split('.').try_fold(&self.settings, |settings, key| settings.get(key));
        found.cloned().unwrap_or_default()
    }
}

/// Returns what a server is told at its start: where, and what is understood here.
fn hello(root_uri: &str, root: &Path, initialization: &Value) -> Value {
    let linked = json!({ "linkSupport": true });
    json!({
        "processId": std::process::id(),
        "clientInfo": { "name": "troupe" },
        "rootUri": root_uri,
        "rootPath": root,
        "workspaceFolders": [{ "name": "workspace", "uri": root_uri }],
        "initializationOptions": initialization,
        "capabilities": {
            "window": { "workDoneProgress": true },
            "workspace": {
                "configuration": true,
                "workspaceFolders": true,
                "didChangeConfiguration": { "dynamicRegistration": true },
                "didChangeWatchedFiles": { "dynamicRegistration": true },
                "symbol": {},
                "diagnostics": { "refreshSupport": true },
            },
            "textDocument": {
                "synchronization": { "didSave": false },
                "publishDiagnostics": { "versionSupport": true },
                "diagnostic": { "dynamicRegistration": true, "relatedDocumentSupport": false },
                "definition": linked,
                "implementation": linked,
                "references": {},
                "hover": { "contentFormat": ["markdown", "plaintext"] },
                "documentSymbol": { "hierarchicalDocumentSymbolSupport": true },
                "callHierarchy": {},
            },
        },
    })
}

/// Reads a file for a server; none where there is none.
async fn read(path: &Path) -> Result<Option<(String, Stamp)>, LspError> {
    let unfit = |problem: String| LspError::Unfit { path: path.to_owned(), problem };
    let metadata = match tokio::fs::metadata(path).await {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unfit(error.to_string())),
    };
    if !metadata.is_file() {
        return Err(unfit("it is no regular file".into()));
    }
    if metadata.len() > MAX_FILE {
        return Err(unfit(format!("it is larger than {} MB", MAX_FILE / 1024 / 1024)));
    }
    let bytes = tokio::fs::read(path).await.map_err(|error| unfit(error.to_string()))?;
    Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), stamp(&metadata))))
}

/// Returns a path as the protocol names it.
pub(crate) fn uri(path: &Path) -> Result<String, LspError> {
    let unfit = |()| LspError::Unfit { path: path.to_owned(), problem: "its path is not absolute".into() };
    Url::from_file_path(path).map(String::from).map_err(unfit)
}

fn path_of(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok()?.to_file_path().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
