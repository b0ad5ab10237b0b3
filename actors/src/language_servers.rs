//! Runs the language servers of one directory. One for each workspace that needed it, started by it, gone with it.
//! Asked by: running calls (through their desk), the HTTP edge. Talks to: the journal (`lsp.updated`).
//!
//! All that waits runs on the I/O runtime; a message is only the way there. After a fall all servers start anew when
//! they are next needed: nothing of them is stored.

use std::path::PathBuf;
use std::sync::Arc;

use actix::prelude::*;
use lsp::{LspError, ServerStatus, Servers, Settings};
use protocol::Event;
use storage::{Change, Journal, Origin, Record};
use tokio::runtime::Handle;
use tools::diagnostics::Diagnosed;
use tools::lsp::LanguageQuestion;
use tools::process::Processes;

/// A file was looked at: let its servers know it, started where they don't run.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Touch(pub PathBuf);

/// Files were written or removed (absolute paths): what is wrong now? Answered in bounded time.
#[derive(Message)]
#[rtype(result = "Diagnosed")]
pub struct Diagnose(pub Vec<PathBuf>);

/// A question about code.
#[derive(Message)]
#[rtype(result = "Result<Vec<serde_json::Value>, LspError>")]
pub struct AskServers(pub LanguageQuestion);

/// Which servers run?
#[derive(Message)]
#[rtype(result = "Vec<ServerStatus>")]
pub struct GetStatus;

/// What it is made with.
#[derive(Clone)]
pub struct LanguageServersDeps {
    /// Where its events happen.
    pub origin: Arc<Origin>,
    /// Where they go.
    pub journal: Journal,
    /// Starts the servers.
    pub processes: Processes,
    /// Where they are waited for.
    pub io: Handle,
    /// Where they work.
    pub place: lsp::Place,
    /// Which there are.
    pub settings: Settings,
}

/// The language servers of a directory.
pub struct LanguageServers {
    deps: LanguageServersDeps,
    servers: Servers,
}

impl LanguageServers {
    /// Returns them; none runs yet.
    pub fn new(deps: LanguageServersDeps) -> Self {
        let (journal, origin) = (deps.journal.clone(), deps.origin.clone());
        let on_change = move || {
            let changes = vec![Change::Notice(Event::LspUpdated {})];
            journal.record(Record { fence: None, origin: origin.clone(), changes, room: None }).detach();
        };
        let (place, settings) = (deps.place.clone(), deps.settings.clone());
        let servers = Servers::new(place, settings, deps.processes.clone(), Arc::new(on_change));
        Self { deps, servers }
    }
}

impl Actor for LanguageServers {
    type Context = Context<Self>;
}

impl Supervised for LanguageServers {
    fn restarting(&mut self, _: &mut Self::Context) {
        *self = Self::new(self.deps.clone());
    }
}

impl Handler<Touch> for LanguageServers {
    type Result = ();

    fn handle(&mut self, Touch(path): Touch, _: &mut Self::Context) {
        let servers = self.servers.clone();
        self.deps.io.spawn(async move { servers.touch(&path).await });
    }
}

impl Handler<Diagnose> for LanguageServers {
    type Result = ResponseFuture<Diagnosed>;

    fn handle(&mut self, Diagnose(paths): Diagnose, _: &mut Self::Context) -> Self::Result {
        let servers = self.servers.clone();
        let said = self.deps.io.spawn(async move { servers.diagnose(&paths).await });
        Box::pin(async move { said.await.unwrap_or_default() })
    }
}

impl Handler<AskServers> for LanguageServers {
    type Result = ResponseFuture<Result<Vec<serde_json::Value>, LspError>>;

    fn handle(&mut self, AskServers(question): AskServers, _: &mut Self::Context) -> Self::Result {
        let (servers, path) = (self.servers.clone(), question.path.clone());
        let answer = self.deps.io.spawn(async move { servers.ask(&question).await });
        let broken = move || LspError::Unfit { path, problem: "asking failed inside of troupe".into() };
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(broken())) })
    }
}

impl Handler<GetStatus> for LanguageServers {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.servers.status())
    }
}
