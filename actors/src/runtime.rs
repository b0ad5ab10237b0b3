//! Composes the actors: what is started in which order, what is handed to whom, and how it all stops.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use actix::prelude::*;
use mcp::auth::Authorizer;
use protocol::message::ModelRef;
use protocol::prompt::{PartInput, PromptBody, ShellBody, SummarizeBody};
use protocol::session::{CreateSession, SessionTime};
use protocol::{Clock, Ids, MessageId, PartId, Session as Info, SessionId, SystemClock};
use storage::journal::ProcessRow;
use storage::places::{Environment, Places};
use storage::{Change, DataDir, Database, Journal, StorageError, Store};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tools::files::FileLocks;
use tools::process::{ProcessGroup, Processes, RecordedGroup};

use crate::bus::{Bus, BusSink, CloseStreams};
use crate::faults::Faults;
use crate::mcp_host::{McpHost, McpShared};
use crate::permission_broker::PermissionBroker;
use crate::plugin_host::PluginShared;
use crate::provider_gate::{Gate, ProviderGate};
use crate::session::command::Accepted;
use crate::session::title::default_title;
use crate::session::{CommandError, GetInfo, Prompt, SessionDeps, Shell, Summarize, Ticket, TurnEnd};
use crate::session_registry::{
    Create, Directory, Locate, LocateWorkspace, Recover, RegistryDeps, SessionHandle, SessionRegistry, SessionTemplate,
};
use crate::slug::slug;
use crate::supervisor::{self, FateLine, Intensity, Name};
use crate::workspace::{
    Freshness, GetMcpHost, GetSetup, GetTools, Patience, Setup, TakeSnapshot, Vendors, Workspace, WorkspaceDeps,
};

pub mod command;
mod settings;

/// How long a command of the edge may wait for a place and for its session.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most tries of a command whose session falls each time: one more than a session may fall before it is given up.
const TRIES: u32 = 7;
/// Between two of them.
const AGAIN: Duration = Duration::from_millis(20);
/// Most messages that wait for one of the actors there is one of.
const MAILBOX: usize = 1024;

/// What a runtime is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where things are.
    pub places: Places,
    /// What the process was started with.
    pub environment: Environment,
    /// This program, which is also the guard of child processes; none: no guard.
    pub program: Option<PathBuf>,
    /// The version sessions are marked with.
    pub version: String,
}

/// A running runtime. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    /// Where the edge finds sessions.
    pub directory: Directory,
    /// Starts and ends sessions.
    pub registry: Addr<SessionRegistry>,
    /// Lets model requests through.
    pub gate: Gate,
    /// What waits for people.
    pub broker: Addr<PermissionBroker>,
    /// What is told.
    pub bus: Addr<Bus>,
    /// The write side.
    pub journal: Journal,
    /// The read side.
    pub store: Store,
    /// Names things.
    pub ids: Arc<Ids>,
    /// Dates them.
    pub clock: Arc<dyn Clock>,
    /// Where things are.
    pub places: Arc<Places>,
    /// What the process was started with.
    pub environment: Arc<Environment>,
    /// Fault points of test builds.
    pub faults: Faults,
    /// Child processes.
    pub processes: Processes,
    /// Where providers come from.
    pub vendors: Vendors,
    /// The version of this program.
    pub version: Arc<str>,
    /// What MCP servers share.
    pub mcp: McpShared,
    http: crate::workspace::Http,
    /// The url of its server, for plugins; set once, by whoever listens.
    pub address: Arc<OnceLock<String>>,
    io: Handle,
    database: Database,
}

/// Why a runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data can't be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The guard of child processes can't be started.
    #[error("the guard of child processes can't be started: {0}")]
    Guard(#[source] std::io::Error),
    /// No HTTP client can be made.
    #[error("no HTTP client can be made: {0}")]
    Http(String),
}

impl Runtime {
    /// Starts all actors. Call it within an actix system; `io` is the runtime on which everything runs that waits.
    /// Nothing a crash left is gone on with before [`Runtime::recover`].
    pub async fn start(data: &DataDir, options: Options, io: Handle) -> Result<Self, StartError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (places, environment) = (Arc::new(options.places), Arc::new(options.environment));
        storage::data_dir::make_places(&places)?;
        let settings = storage::config::global(&places, &environment).troupe;
        let database = data.database(&settings, clock.now_ms()).await?;
        let store = Store::new(&database);
        let ids = Arc::new(Ids::new(clock.clone(), store.newest_time().await?));
        let row = store.newest_row().await?;
        let reaped = reap(data, &store).await?;

        let processes = match options.program {
            Some(program) => {
                let owner = format!("{}:{:08x}", data.id(), rand::random::<u32>());
                Processes::start(&program, owner, settings.limits.processes).map_err(StartError::Guard)?
            }
            None => Processes::none(),
        };
        let fates = FateLine::default();
        let arbiters: Arc<Vec<ArbiterHandle>> =
            Arc::new((0..arbiter_count()).map(|_| Arbiter::new().handle()).collect());
        let arbiter = |number: usize| arbiters[number % arbiters.len()].clone();
        let intensity = Intensity::default();

        let bus = supervisor::start(&arbiter(0), Name::Bus, intensity, &fates, MAILBOX, move |_| Bus::new(row));
        let sink = Arc::new(BusSink(bus.clone()));
        let journal = {
            let _on_io = io.enter();
            Journal::start(&database, sink, ids.clone(), clock.clone()).await?
        };
        if !reaped.is_empty() {
            let rows = reaped.into_iter().map(Change::ProcessEnded).collect();
            journal.record(global_record(rows)).detach();
        }
        let broker = {
            let (journal, store, ids, clock) = (journal.clone(), store.clone(), ids.clone(), clock.clone());
            let make = move |_| PermissionBroker::new(journal, store, ids, clock);
            supervisor::start(&arbiter(1), Name::Broker, intensity, &fates, MAILBOX, make)
        };
        let gate = {
            let make = |_| ProviderGate::default();
            Gate::new(supervisor::start(&arbiter(1), Name::Gate, intensity, &fates, MAILBOX, make))
        };
        let faults = Faults::parse(environment.get("TROUPE_FAULT").unwrap_or_default());
        let version: Arc<str> = options.version.into();
        let address: Arc<OnceLock<String>> = Arc::default();
        let http = crate::workspace::Http::new(&version);
        let mcp = McpShared {
            authorizer: Authorizer::new(&places.data, clock.clone()),
            figures: Arc::default(),
            processes: processes.clone(),
            version: version.clone(),
        };
        let vendors = Vendors::new(&places, clock.clone(), http.clone());
        let workspace = WorkspaceDeps {
            journal: journal.clone(),
            store: store.clone(),
            clock: clock.clone(),
            places: places.clone(),
            environment: environment.clone(),
            http: http.clone(),
            mcp: mcp.clone(),
            fates: fates.clone(),
            vendors: vendors.clone(),
            processes: processes.clone(),
            io: io.clone(),
            plugins: PluginShared {
                processes: processes.clone(),
                bus: bus.clone(),
                fates: fates.clone(),
                io: io.clone(),
                scripts: places.cache.join("plugins"),
                path: environment.get("PATH").unwrap_or_default().into(),
                socket: data.socket(),
                address: address.clone(),
            },
        };
        let session: SessionTemplate = {
            let (journal, store, ids, clock) = (journal.clone(), store.clone(), ids.clone(), clock.clone());
            let (broker, gate, io, processes) = (broker.clone(), gate.clone(), io.clone(), processes.clone());
            let (faults, version, locks) = (faults.clone(), version.clone(), FileLocks::new());
            let http = http.clone();
            Arc::new(move |workspace, registry| SessionDeps {
                journal: journal.clone(),
                store: store.clone(),
                ids: ids.clone(),
                clock: clock.clone(),
                broker: broker.clone(),
                gate: gate.clone(),
                workspace,
                registry,
                io: io.clone(),
                processes: processes.clone(),
                locks: locks.clone(),
                http: http.clone(),
                faults: faults.clone(),
                version: version.clone(),
            })
        };
        let directory = Directory::default();
        let registry = {
            let deps =
                RegistryDeps { session, workspace, arbiters: arbiters.clone(), io: io.clone(), fates: fates.clone() };
            let (store, directory) = (store.clone(), directory.clone());
            let make = move |_| SessionRegistry::new(deps, store, directory);
            supervisor::start(&arbiter(1), Name::Registry, intensity, &fates, MAILBOX, make)
        };
        fates.bind(registry.clone().recipient());
        io.spawn(storage::snapshot::keep_swept(places.snapshots()));
        io.spawn(storage::outputs::keep_swept(places.tool_output()));
        Ok(Self {
            directory,
            registry,
            gate,
            broker,
            bus,
            journal,
            store,
            ids,
            clock,
            places,
            environment,
            faults,
            processes,
            vendors,
            version,
            mcp,
            http,
            address,
            io,
            database,
        })
    }

    /// Settles what a crash left in these sessions (none: in all), and lets them go on. Returns when all is settled.
    pub async fn recover(&self, only: Option<Vec<SessionId>>) {
        if self.registry.send(Recover { only }).await.is_err() {
            tracing::error!("open turns were not gone on with: the registry fell; they are when they are next used");
        }
    }

    /// Stops: turns stay open and go on at the next start. Returns when all is stored.
    pub async fn stop(&self) {
        let _ = self.bus.send(CloseStreams).await;
        // A clean stop proves that no turn takes the process down: attempts count from nothing again.
        match self.store.open_turns().await {
            Ok(turns) => {
                for mut turn in turns.into_iter().filter(|turn| turn.attempt > 0) {
                    turn.attempt = 0;
                    self.journal.record(global_record(vec![Change::Turn(turn)])).detach();
                }
            }
            Err(error) => tracing::warn!(%error, "open turns could not be read"),
        }
        self.processes.shut_down().await;
        self.journal.close().await;
        self.database.close().await;
    }

    /// Returns where work runs that waits.
    pub fn io(&self) -> &Handle {
        &self.io
    }

    /// Returns a session, started where it isn't live.
    pub async fn session(&self, id: &SessionId) -> Result<SessionHandle, CommandError> {
        match self.directory.session(id) {
            Some(handle) => Ok(handle),
            None => self.registry.send(Locate(id.clone())).await.map_err(|_| CommandError::Unknown)?,
        }
    }

    /// Returns the workspace of a directory.
    pub async fn workspace(&self, directory: &Path) -> Result<Addr<Workspace>, CommandError> {
        match self.directory.workspace(directory) {
            Some(workspace) => Ok(workspace),
            None => {
                let locate = LocateWorkspace(directory.to_owned());
                self.registry.send(locate).await.map_err(|_| CommandError::Unknown)
            }
        }
    }

    /// Returns what is known of a directory.
    pub async fn setup(&self, directory: &Path) -> Result<Arc<Setup>, CommandError> {
        let workspace = self.workspace(directory).await?;
        Ok(workspace.send(GetSetup).await.map_err(|_| CommandError::Unknown)??)
    }

    /// Returns who holds the MCP servers of a directory.
    pub async fn mcp_host(&self, directory: &Path) -> Result<Addr<McpHost>, CommandError> {
        // What it is told is in the settings.
        self.setup(directory).await?;
        let workspace = self.workspace(directory).await?;
        workspace.send(GetMcpHost).await.map_err(|_| CommandError::Unknown)
    }

    /// Returns a session and a place for a command in it, or [`CommandError::Late`] when none comes free in time.
    async fn admit(&self, id: &SessionId) -> Result<(SessionHandle, Ticket), CommandError> {
        loop {
            let handle = self.session(id).await?;
            let ticket = self.ticket(&handle).await?;
            // One in which somebody has a place isn't put away; it may have been just before.
            if self.directory.session(id).is_some_and(|live| live.address == handle.address) {
                return Ok((handle, ticket));
            }
        }
    }

    /// Returns a place for a command, or [`CommandError::Late`] when none comes free in time.
    pub async fn ticket(&self, session: &SessionHandle) -> Result<Ticket, CommandError> {
        let deadline = Instant::now() + PATIENCE;
        let place = tokio::time::timeout(PATIENCE, session.places.clone().acquire_owned()).await;
        match place {
            Ok(Ok(place)) => Ok(Ticket::new(deadline, place)),
            _ => Err(CommandError::Late),
        }
    }

    /// Sends a command to a session. A session that fell or left on the way is looked up again and given the same
    /// command: those that create something carry its id.
    pub async fn ask<M, T>(&self, id: &SessionId, make: impl Fn(Ticket) -> M) -> Result<T, CommandError>
    where
        M: Message<Result = Result<T, CommandError>> + Send + 'static,
        crate::session::Session: Handler<M>,
        T: Send + 'static,
    {
        for _ in 0..TRIES {
            let (handle, ticket) = self.admit(id).await?;
            match handle.address.send(make(ticket)).await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        Err(CommandError::Unknown)
    }

    /// Makes a session in a directory.
    pub async fn create(&self, directory: &Path, body: CreateSession) -> Result<Info, CommandError> {
        let setup = self.setup(directory).await?;
        if let Some(parent) = &body.parent_id {
            let known = self.store.session(parent).await.map_err(|e| CommandError::Broken(e.to_string()))?;
            if known.is_none() {
                return Err(CommandError::NotFound(parent.clone()));
            }
        }
        if let Some(agent) = &body.agent {
            setup.agent(agent)?;
        }
        let now = self.clock.now_ms();
        let title = body.title.unwrap_or_else(|| default_title(now, body.parent_id.is_some()));
        let info = Info {
            id: self.ids.session(),
            slug: slug(),
            project_id: setup.identity.project_id.clone(),
            workspace_id: body.workspace_id,
            directory: directory.to_string_lossy().into_owned(),
            path: Some(setup.identity.path_of(directory)),
            parent_id: body.parent_id,
            summary: None,
            cost: 0.0,
            tokens: protocol::message::Tokens::default(),
            share: None,
            title,
            agent: body.agent,
            model: body.model,
            version: self.version.to_string(),
            metadata: body.metadata,
            time: SessionTime { created: now, updated: now, ..SessionTime::default() },
            permission: body.permission,
            revert: None,
        };
        // The first snapshot of a directory takes a moment; it is there when the first prompt comes.
        let first = TakeSnapshot { freshness: Freshness::Any };
        if let Err(error) = self.workspace(directory).await?.try_send(first) {
            tracing::debug!(%error, "no snapshot beforehand");
        }
        // So do its MCP servers.
        if let Err(error) = self.workspace(directory).await?.try_send(GetTools { patience: Patience::None }) {
            tracing::debug!(%error, "no MCP servers beforehand");
        }
        let created = self.registry.send(Create(Box::new(info))).await.map_err(|_| CommandError::Unknown)??;
        // Answered after its row is stored.
        created.address.send(GetInfo).await.map_err(|_| CommandError::Unknown)?
    }

    /// Gives a session a prompt. Returns when it is stored.
    pub async fn prompt(&self, id: &SessionId, mut body: PromptBody) -> Result<Accepted, CommandError> {
        if let Some(message) = &body.message_id {
            self.check_free(id, message).await?;
        }
        // With an id of its own the command can be sent again without harm.
        let message = body.message_id.get_or_insert_with(|| self.ids.message()).clone();
        self.check_parts_free(&message, &body.parts).await?;
        let size = serde_json::to_string(&body.parts).map_or(0, |text| text.len());
        for _ in 0..TRIES {
            let (handle, ticket) = self.admit(id).await?;
            let room = Some(self.journal.room(size).await?);
            match handle.address.send(Prompt { body: body.clone(), ticket, room }).await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        Err(CommandError::Unknown)
    }

    /// Errors where another session has the message.
    async fn check_free(&self, id: &SessionId, message: &MessageId) -> Result<(), CommandError> {
        match self.store.is_elsewhere(id, message).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(CommandError::Taken(message.clone())),
            Err(error) => Err(CommandError::Broken(error.to_string())),
        }
    }

    /// Errors where another message has one of the parts.
    async fn check_parts_free(&self, message: &MessageId, parts: &[PartInput]) -> Result<(), CommandError> {
        let given: Vec<&PartId> = parts.iter().filter_map(|part| part.id.as_ref()).collect();
        if given.is_empty() {
            return Ok(());
        }
        match self.store.part_elsewhere(message, &given).await {
            Ok(None) => Ok(()),
            Ok(Some(part)) => Err(CommandError::TakenPart(part)),
            Err(error) => Err(CommandError::Broken(error.to_string())),
        }
    }

    /// Has a summary written that stands for a session's history so far, as an answer to a message of this id.
    pub async fn summarize(
        &self,
        id: &SessionId,
        message_id: &MessageId,
        body: SummarizeBody,
    ) -> Result<oneshot::Receiver<TurnEnd>, CommandError> {
        let model = ModelRef { provider_id: body.provider_id, model_id: body.model_id, variant: None };
        let auto = body.auto.unwrap_or(false);
        self.ask(id, |ticket| Summarize { message_id: message_id.clone(), model: model.clone(), auto, ticket }).await
    }

    /// Runs a command of the person's in a session.
    pub async fn shell(&self, id: &SessionId, body: ShellBody) -> Result<oneshot::Receiver<TurnEnd>, CommandError> {
        if let Some(message) = &body.message_id {
            self.check_free(id, message).await?;
        }
        self.ask(id, |ticket| Shell { body: body.clone(), ticket }).await
    }
}

fn global_record(changes: Vec<Change>) -> storage::Record {
    let origin = storage::Origin { directory: "global".into(), project: "global".into() };
    storage::Record { fence: None, origin: Arc::new(origin), changes, room: None }
}

/// Ends process groups that an earlier run of the service left: the second line behind the guard. Returns the rows
/// that can go.
async fn reap(data: &DataDir, store: &Store) -> Result<Vec<ProcessRow>, StorageError> {
    let rows = store.processes().await?;
    let recorded: Vec<RecordedGroup> = rows
        .iter()
        .map(|row| RecordedGroup { group: ProcessGroup(row.pgid), boot_id: row.boot_id.clone(), started: row.started })
        .collect();
    if !recorded.is_empty() {
        let id = data.id().to_owned();
        let ended = tokio::task::spawn_blocking(move || tools::process::reap(&recorded, &id)).await.unwrap_or_default();
        if !ended.is_empty() {
            tracing::warn!(groups = ended.len(), "processes of an earlier run were ended");
        }
    }
    Ok(rows)
}

/// One for each core, at least two: a session that is busy on one leaves the others alone.
fn arbiter_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}
