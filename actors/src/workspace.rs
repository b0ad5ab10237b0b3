//! Holds what a directory's sessions share: settings, agents, models, tools, snapshots. One for each directory in use.
//! Asked by: sessions, the HTTP edge. Talks to: the journal (the project's row).
//!
//! What was read is kept until a file it was read from differs; wrong settings are an answer, and heal when the file
//! is mended. Snapshots are taken one at a time, off the arbiter.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::prelude::*;
use futures::future::{BoxFuture, Shared};
use protocol::Clock;
use protocol::message::ModelRef;
use protocol::project::{Project, ProjectTime};
use storage::config::change::Target;
use storage::places::{Environment, Places};
use storage::project::Identity;
use storage::snapshot::Unfit;
use storage::{Change, Journal, Origin, Record, Store};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tools::process::Processes;

pub mod agents;
pub mod catalogue;
mod changes;
pub mod commands;
mod extensions;
pub mod flags;
pub mod instructions;
pub mod languages;
pub mod setup;
mod snapshots;
pub mod sources;
mod toolbox;

pub use catalogue::Vendors;
use instructions::pages::{Need, Pages};
pub use providers::{auth, models};
pub use setup::{Answerer, ChoiceError, Setup, SetupError, Wish};
pub use snapshots::{ChangedFiles, DiffSnapshots, Freshness, TakeSnapshot};
pub use sources::{OfferTools, Patience, Toolkit};

use crate::mcp_host::{Configure, McpHost, McpShared};
use crate::plugin_host::{Hosted, PluginShared};
use crate::supervisor::{self, FateLine, Intensity, Name};

/// Most messages that wait for an MCP host.
const MAILBOX: usize = 256;

/// The HTTP client of all providers and fetches, made when it is first needed: reading the system's certificates takes
/// longer than all the rest of the start.
#[derive(Clone, Debug)]
pub struct Http {
    user_agent: Arc<str>,
    client: Arc<OnceLock<sse::Client>>,
}

impl Http {
    /// Returns a client that isn't made yet.
    pub fn new(version: &str) -> Self {
        Self { user_agent: format!("troupe/{version}").into(), client: Arc::default() }
    }

    /// Returns the client.
    pub fn client(&self) -> sse::Client {
        let make = || {
            sse::http::client(&self.user_agent).unwrap_or_else(|error| {
                tracing::error!(%error, "the HTTP client is made without its settings");
                sse::Client::new()
            })
        };
        self.client.get_or_init(make).clone()
    }
}

/// What is known of the directory? Read anew when a file has changed.
#[derive(Message)]
#[rtype(result = "Result<Arc<Setup>, SetupError>")]
pub struct GetSetup;

/// Which tools are there? Those of the last [`GetSetup`], and those of everything that comes and goes: none of the
/// latter where the settings are broken.
#[derive(Message)]
#[rtype(result = "Arc<Toolkit>")]
pub struct GetTools {
    /// How long may be waited for those that aren't ready yet.
    pub patience: Patience,
}

/// Who holds the directory's MCP servers? Started where there is none, with the settings of the last [`GetSetup`].
#[derive(Message)]
#[rtype(result = "Addr<McpHost>")]
pub struct GetMcpHost;

/// No session of the directory is at work. What is costly to keep goes, if nobody has used it for the time the settings
/// say.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Rest;

/// A server says that a model takes this many tokens: that is its limit from now on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct LearnWindow {
    /// The model.
    pub model: ModelRef,
    /// All of a request and its answer.
    pub tokens: u64,
}

/// Change a settings file of the directory, or of all. Answered with the file when it is written.
#[derive(Message)]
#[rtype(result = "Result<PathBuf, SetupError>")]
pub struct ChangeSettings {
    /// Which file.
    pub target: Target,
    /// What is merged into it.
    pub patch: serde_json::Value,
}

/// How a workspace is used; its registry reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// When it was last asked for something.
    pub last: Instant,
    /// How long after that it gives back what it holds.
    pub idle: Duration,
}

impl InUse {
    /// Returns the use of one that is being started.
    pub fn now() -> Self {
        let idle = Duration::from_millis(protocol::config::WorkspaceConfig::default().idle_ms);
        Self { last: Instant::now(), idle }
    }
}

/// What a workspace is made with.
#[derive(Clone)]
pub struct WorkspaceDeps {
    /// Where the project's row goes.
    pub journal: Journal,
    /// Where it comes from.
    pub store: Store,
    /// Dates it.
    pub clock: Arc<dyn Clock>,
    /// Where things are.
    pub places: Arc<Places>,
    /// What the service was started with.
    pub environment: Arc<Environment>,
    /// Shared by all providers.
    pub http: Http,
    /// What MCP servers share.
    pub mcp: McpShared,
    /// Where the fate of what is started is told.
    pub fates: FateLine,
    /// Where providers come from.
    pub vendors: Vendors,
    /// Starts language servers.
    pub processes: Processes,
    /// Where work runs that waits.
    pub io: Handle,
    /// What the hosts of plugins share.
    pub plugins: PluginShared,
}

/// What a directory's sessions share.
pub struct Workspace {
    directory: PathBuf,
    deps: WorkspaceDeps,
    in_use: watch::Sender<InUse>,
    identity: Option<Identity>,
    setup: Option<Arc<Setup>>,
    /// Windows that servers named.
    windows: Vec<(ModelRef, u64)>,
    /// What was said of the settings.
    warned: Vec<String>,
    /// Pages of instructions.
    pages: Pages,
    /// Old ones are being fetched anew.
    is_fetching: bool,
    /// Its plugins and custom tools, where there are some.
    hosted: Option<Hosted>,
    /// The last snapshot of this life.
    snapshot: Option<String>,
    /// The one that is being taken.
    taking: Option<Shared<BoxFuture<'static, Option<String>>>>,
    /// Why there are none, told once.
    unfit: Option<Unfit>,
    /// Resolves when the snapshot work before has ended: one at a time, in order.
    turn: Option<oneshot::Receiver<()>>,
    /// Holds the MCP servers, where there are any.
    mcp: Option<Addr<McpHost>>,
    /// When tools were last asked for.
    used: Instant,
    /// The tools where nothing comes and goes, and the settings they were made of.
    plain: Option<(Arc<Setup>, Arc<Toolkit>)>,
    /// Its language servers.
    languages: languages::Languages,
}

impl Workspace {
    /// Returns a workspace that knows nothing yet.
    pub fn new(directory: PathBuf, deps: WorkspaceDeps, in_use: watch::Sender<InUse>) -> Self {
        Self {
            directory,
            deps,
            in_use,
            identity: None,
            setup: None,
            windows: Vec::new(),
            warned: Vec::new(),
            pages: Pages::default(),
            is_fetching: false,
            hosted: None,
            snapshot: None,
            taking: None,
            unfit: None,
            turn: None,
            mcp: None,
            used: Instant::now(),
            plain: None,
            languages: languages::Languages::default(),
        }
    }

    /// The directory's MCP host, started where there is none.
    fn mcp_host(&mut self) -> Addr<McpHost> {
        self.used = Instant::now();
        if let Some(host) = self.mcp.as_ref().filter(|host| host.connected()) {
            return host.clone();
        }
        let deps = self.deps.clone();
        let name = Name::McpHost(self.directory.to_string_lossy().into_owned());
        let (arbiter, fates) = (Arbiter::current(), self.deps.fates.clone());
        let host =
            supervisor::start(&arbiter, name, Intensity::default(), &fates, MAILBOX, move |_| McpHost::new(deps));
        self.mcp = Some(host.clone());
        self.configure_mcp();
        host
    }

    /// Tells the MCP host of the settings. One that is too full now hears of them with the next question.
    fn configure_mcp(&self) {
        if let (Some(host), Some(setup)) = (&self.mcp, &self.setup) {
            let _ = host.try_send(Configure(setup.clone()));
        }
    }

    /// Who offers tools beside the built-in ones.
    fn sources(&mut self, setup: &Setup) -> Vec<Recipient<OfferTools>> {
        let has_servers = self.mcp.is_some() || !setup.config().mcp.is_empty();
        has_servers.then(|| self.mcp_host().recipient()).into_iter().collect()
    }

    /// Notes the project's row, so that lists show it.
    fn note_project(&self, identity: &Identity, known: Option<Project>) {
        let now = self.deps.clock.now_ms();
        let worktree = identity.worktree.to_string_lossy().into_owned();
        let mut project = known.unwrap_or_else(|| Project {
            id: identity.project_id.clone(),
            worktree: worktree.clone(),
            vcs: identity.is_repository.then(|| "git".into()),
            name: None,
            time: ProjectTime { created: now, updated: now, initialized: None },
            sandboxes: Vec::new(),
        });
        project.time.updated = now;
        if project.worktree != worktree && !project.sandboxes.contains(&worktree) {
            project.sandboxes.push(worktree);
        }
        let origin = Arc::new(Origin { directory: "global".into(), project: project.id.clone() });
        let changes = vec![Change::Project(project)];
        self.deps.journal.record(Record { fence: None, origin, changes, room: None }).detach();
    }
}

impl Actor for Workspace {
    type Context = Context<Self>;
}

impl Supervised for Workspace {
    fn restarting(&mut self, _: &mut Self::Context) {
        *self = Self::new(self.directory.clone(), self.deps.clone(), self.in_use.clone());
    }
}

impl Handler<GetSetup> for Workspace {
    /// Later messages wait, so that two askers don't read the same files twice.
    type Result = AtomicResponse<Self, Result<Arc<Setup>, SetupError>>;

    fn handle(&mut self, _: GetSetup, _: &mut Self::Context) -> Self::Result {
        self.in_use.send_modify(|use_| use_.last = Instant::now());
        let (directory, deps) = (self.directory.clone(), self.deps.clone());
        let (identity, setup, pages) = (self.identity.clone(), self.setup.clone(), self.pages.clone());
        let load = self.deps.io.spawn(async move {
            let is_new = identity.is_none();
            let identity = match identity {
                Some(identity) => identity,
                None => storage::project::identify(&directory).await,
            };
            let known = if is_new { deps.store.project(&identity.project_id).await.ok().flatten() } else { None };
            let (of, http) = (identity.clone(), deps.http.clone());
            let read = move || match setup {
                Some(setup) if !setup.is_stale() => Ok(setup),
                _ => Setup::read(&directory, &of, &deps.places, &deps.environment, &deps.vendors).map(Arc::new),
            };
            let mut read = tokio::task::spawn_blocking(read).await;
            let mut fetched = None;
            if let Ok(Ok(setup)) = &mut read
                && pages.need(&setup.addresses) == Need::Now
            {
                fetched = Some(pages.refreshed(&setup.addresses, &http.client()).await);
            }
            (read, fetched, is_new.then_some(known), identity)
        });
        AtomicResponse::new(Box::pin(load.into_actor(self).map(|loaded, workspace, ctx| match loaded {
            Ok((Ok(read), fetched, new, identity)) => {
                workspace.pages = fetched.unwrap_or_else(|| workspace.pages.clone());
                if let Some(known) = new {
                    workspace.note_project(&identity, known);
                }
                workspace.identity = Some(identity);
                match read {
                    Ok(setup) => {
                        workspace.warn_of(&setup);
                        let setup = workspace.with_windows(workspace.with_pages(setup));
                        let setup = workspace.with_plugins(setup);
                        workspace.fetch_later(&setup, ctx);
                        let idle = Duration::from_millis(setup.config().troupe.workspace.idle_ms);
                        workspace.in_use.send_modify(|use_| *use_ = InUse { last: Instant::now(), idle });
                        workspace.setup = Some(setup.clone());
                        workspace.configure_mcp();
                        Ok(setup)
                    }
                    Err(broken) => {
                        workspace.setup = None;
                        Err(SetupError(broken.error))
                    }
                }
            }
            Ok((Err(panic), ..)) | Err(panic) => {
                tracing::error!(%panic, "the settings could not be read");
                let path = workspace.directory.clone();
                let message = "reading it failed inside of troupe; the log has more".to_owned();
                Err(SetupError(storage::config::ConfigError::Unreadable { path, message }))
            }
        })))
    }
}

impl Workspace {
    /// What was learned of models holds for settings that are read later, too.
    fn with_windows(&self, setup: Arc<Setup>) -> Arc<Setup> {
        let is_known =
            |(model, tokens): &(ModelRef, u64)| setup.catalogue.learned(model).map(|(_, t)| t) == Some(*tokens);
        if self.windows.iter().all(is_known) {
            return setup;
        }
        let mut setup = Setup::clone(&setup);
        self.windows.iter().for_each(|(model, tokens)| setup.catalogue.learn(model, *tokens));
        Arc::new(setup)
    }
}

impl Handler<GetTools> for Workspace {
    type Result = ResponseFuture<Arc<Toolkit>>;

    fn handle(&mut self, GetTools { patience }: GetTools, _: &mut Self::Context) -> Self::Result {
        self.used = Instant::now();
        let Some(setup) = self.setup.clone() else { return Box::pin(async { Arc::default() }) };
        let sources = self.sources(&setup);
        if sources.is_empty() && setup.plugins.is_none() {
            let kit = match self.plain.take() {
                Some((of, kit)) if Arc::ptr_eq(&of, &setup) => kit,
                _ => Arc::new(Toolkit::of(&setup, &[], &[])),
            };
            self.plain = Some((setup, kit.clone()));
            return Box::pin(async { kit });
        }
        Box::pin(async move {
            let offer = OfferTools { setup: setup.clone(), patience };
            let offers = sources.iter().map(|source| source.send(offer.clone()));
            // A source that fell just now has nothing to offer.
            let offered: Vec<_> = futures::future::join_all(offers).await.into_iter().flatten().collect();
            if patience != Patience::None {
                setup.plugins.ready(Duration::from_millis(setup.config().troupe.plugins.load_ms)).await;
            }
            Arc::new(Toolkit::of(&setup, &setup.plugins.tools(), &offered))
        })
    }
}

impl Handler<GetMcpHost> for Workspace {
    type Result = MessageResult<GetMcpHost>;

    fn handle(&mut self, _: GetMcpHost, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.mcp_host())
    }
}

impl Handler<Rest> for Workspace {
    type Result = ();

    fn handle(&mut self, _: Rest, _: &mut Self::Context) {
        let idle = self.setup.as_ref().map(|setup| setup.config().troupe.workspace).unwrap_or_default().idle_ms;
        if self.used.elapsed() >= Duration::from_millis(idle) && self.mcp.take().is_some() {
            tracing::info!(directory = %self.directory.display(), "nobody works here: its MCP servers are let go");
        }
    }
}

impl Workspace {
    /// The pages that were fetched are told with the files.
    fn with_pages(&self, setup: Arc<Setup>) -> Arc<Setup> {
        setup.with_pages(&self.pages).map_or(setup, Arc::new)
    }

    /// Says what is odd about the settings, once.
    fn warn_of(&mut self, setup: &Setup) {
        if self.warned != setup.warnings {
            self.warned.clone_from(&setup.warnings);
            for warning in &self.warned {
                tracing::warn!(warning, directory = %self.directory.display(), "something of the settings is not used");
            }
        }
    }

    /// Fetches pages anew that are old, while the old ones are used.
    fn fetch_later(&mut self, setup: &Arc<Setup>, ctx: &mut Context<Self>) {
        if self.is_fetching || self.pages.need(&setup.addresses) != Need::Later {
            return;
        }
        self.is_fetching = true;
        let (pages, addresses, http) = (self.pages.clone(), setup.addresses.clone(), self.deps.http.clone());
        let fetch = self.deps.io.spawn(async move { pages.refreshed(&addresses, &http.client()).await });
        ctx.spawn(fetch.into_actor(self).map(|fetched, workspace, _| {
            workspace.is_fetching = false;
            if let Ok(pages) = fetched {
                workspace.pages = pages;
                workspace.setup = workspace.setup.take().map(|setup| workspace.with_pages(setup));
            }
        }));
    }
}

impl Handler<LearnWindow> for Workspace {
    type Result = ();

    fn handle(&mut self, LearnWindow { model, tokens }: LearnWindow, _: &mut Self::Context) {
        self.windows.retain(|(other, _)| *other != model);
        self.windows.push((model, tokens));
        self.setup = self.setup.take().map(|setup| self.with_windows(setup));
    }
}

impl Handler<ChangeSettings> for Workspace {
    /// One change after the other, and none while settings are read.
    type Result = AtomicResponse<Self, Result<PathBuf, SetupError>>;

    fn handle(&mut self, ChangeSettings { target, patch }: ChangeSettings, _: &mut Self::Context) -> Self::Result {
        let (places, environment) = (self.deps.places.clone(), self.deps.environment.clone());
        let change = self
            .deps
            .io
            .spawn_blocking(move || storage::config::change::change(&target, &patch, &places, &environment));
        AtomicResponse::new(Box::pin(change.into_actor(self).map(|changed, workspace, _| {
            workspace.setup = None;
            let path = workspace.directory.clone();
            let message = "it could not be changed; the log has more".to_owned();
            changed
                .unwrap_or_else(|panic| {
                    tracing::error!(%panic, "the settings could not be changed");
                    Err(storage::config::ConfigError::Unreadable { path, message })
                })
                .map_err(SetupError)
        })))
    }
}
