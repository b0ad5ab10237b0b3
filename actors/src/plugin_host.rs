//! Keeps a directory's plugins and custom tools: loads them, starts their process again when it ends, and leaves out a
//! plugin that takes it along again and again. One for each directory that has some.
//! Started by: its workspace, which hands out [`Plugins`]. Talks to: the bus (events for plugins), the fate line
//! (warnings).
//!
//! - A process that ended is started again after a wait that doubles; one that ends too often is parked until the
//!   files or the settings change.
//! - Whoever's code ran last is blamed for an end. Who was blamed three times is left out; who held the process up in a
//!   hook, or while it was loaded, at once: each time would cost a turn the hook's limit.
//! - What fails is named in the log and in the warnings, the same thing once a minute; nothing here ends a turn.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use plugins::runtime::Runtime;
use plugins::sidecar::{Limits, Start};
use plugins::{Ending, Found, Hook, Loaded, Notice, Notices, Plugins, StartError, State};
use serde_json::Value;
use storage::stamps::Stamps;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use tools::AnyTool;
use tools::process::Processes;

use crate::bus::Bus;
use crate::supervisor::{self, Fate, FateKind, FateLine, Intensity, Name};

mod events;

/// Most messages that wait for a host.
const MAILBOX: usize = 64;
/// So often blamed within [`Intensity::within`], a plugin is left out.
const BLAMED: usize = 3;
/// Most warnings…
const WARNINGS: usize = 20;
/// …within this time. The same one counts once.
const WARNINGS_WITHIN: Duration = Duration::from_secs(60);

/// What all hosts share.
#[derive(Clone)]
pub struct PluginShared {
    /// Starts their processes.
    pub processes: Processes,
    /// Where events come from.
    pub bus: Addr<Bus>,
    /// Where warnings go.
    pub fates: FateLine,
    /// Where work runs that waits.
    pub io: Handle,
    /// Where the modules of the plugin process are kept.
    pub scripts: PathBuf,
    /// `PATH`, for Node or Bun.
    pub path: Arc<str>,
    /// The server's unix socket, for the client that plugins are given.
    pub socket: PathBuf,
    /// The server's address, for plugins that speak HTTP themselves; known once it listens.
    pub address: Arc<std::sync::OnceLock<String>>,
}

/// What a directory wants loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The directory.
    pub directory: PathBuf,
    /// The top of its repository.
    pub worktree: PathBuf,
    /// The project, as plugins are given it.
    pub project: Value,
    /// What was found.
    pub found: Found,
    /// How the files were.
    pub seen: Stamps,
    /// What runs modules, where the settings say so.
    pub runtime: Option<PathBuf>,
    /// How long things may take.
    pub limits: Limits,
}

/// A host that runs. Dropping it ends the host and the process of its plugins.
pub struct Hosted {
    /// What it was started for.
    pub wanted: Arc<Wanted>,
    /// What others hold of it.
    pub plugins: Plugins,
    _ends: DropGuard,
}

/// Starts a host on the current arbiter.
pub fn start(wanted: Arc<Wanted>, shared: &PluginShared) -> Hosted {
    let (state, following) = watch::channel(State::Starting);
    let (notices, mut told) = Notices::new();
    let plugins = Plugins::new(following, notices.clone());
    let stop = CancellationToken::new();
    let name = Name::Plugins(wanted.directory.to_string_lossy().into_owned());
    let host = {
        let (wanted, shared, plugins, stop) = (wanted.clone(), shared.clone(), plugins.clone(), stop.clone());
        let fates = shared.fates.clone();
        let make = move |_| PluginHost::new(wanted, shared, plugins, notices, StateLine(state), stop);
        supervisor::start(&Arbiter::current(), name, Intensity::default(), &fates, MAILBOX, make)
    };
    shared.io.spawn(async move {
        while let Some(notice) = told.recv().await {
            // A host that is gone or behind: the log has it.
            let _ = host.try_send(Heard(notice));
        }
    });
    Hosted { wanted, plugins, _ends: stop.drop_guard() }
}

/// What holders see of a host. When the host goes, they see that nothing is left.
struct StateLine(watch::Sender<State>);

impl Drop for StateLine {
    fn drop(&mut self) {
        // Holders would keep the process alive.
        self.0.send_replace(State::Parked(Loaded::default(), "the directory's plugins were let go".into()));
    }
}

/// Keeps a directory's plugins.
pub struct PluginHost {
    wanted: Arc<Wanted>,
    shared: PluginShared,
    plugins: Plugins,
    notices: Notices,
    state: StateLine,
    stop: CancellationToken,
    /// Tools that are programs: asked for once.
    programs: Option<Arc<Vec<Arc<dyn AnyTool>>>>,
    /// The process's ends.
    ends: VecDeque<Instant>,
    /// Who was blamed for them.
    blamed: HashMap<String, VecDeque<Instant>>,
    left_out: HashSet<String>,
    intensity: Intensity,
    /// What was warned of lately.
    warned: VecDeque<(Instant, String)>,
    /// Tells plugins of events.
    _events: Option<AbortOnDropHandle<()>>,
}

/// A plugin failed.
#[derive(Message)]
#[rtype(result = "()")]
struct Heard(Notice);

/// What loading came to.
struct Load {
    programs: Arc<Vec<Arc<dyn AnyTool>>>,
    modules: Modules,
}

enum Modules {
    /// There are none, or nothing that runs them.
    None,
    Running(plugins::Sidecar),
    /// Their process ended while it loaded them.
    Ended(Ending),
    /// They can't be run.
    Failed(String),
}

impl PluginHost {
    fn new(
        wanted: Arc<Wanted>,
        shared: PluginShared,
        plugins: Plugins,
        notices: Notices,
        state: StateLine,
        stop: CancellationToken,
    ) -> Self {
        Self {
            wanted,
            shared,
            plugins,
            notices,
            state,
            stop,
            programs: None,
            ends: VecDeque::new(),
            blamed: HashMap::new(),
            left_out: HashSet::new(),
            intensity: Intensity::default(),
            warned: VecDeque::new(),
            _events: None,
        }
    }

    fn load(&mut self, ctx: &mut Context<Self>) {
        let (wanted, shared, notices) = (self.wanted.clone(), self.shared.clone(), self.notices.clone());
        let mut found = wanted.found.clone();
        found.tools.retain(|file| !self.left_out.contains(&*file.to_string_lossy()));
        found.plugins.retain(|plugin| !self.left_out.contains(&plugin.spec));
        let programs = self.programs.clone();
        let load = self.shared.io.spawn(async move {
            let programs = async {
                match programs {
                    Some(known) => known,
                    None => Arc::new(
                        plugins::program::tools(&found.programs, &wanted.directory, &shared.processes, &notices).await,
                    ),
                }
            };
            let (programs, modules) = tokio::join!(programs, modules(&wanted, &found, &shared, &notices));
            Load { programs, modules }
        });
        ctx.spawn(load.into_actor(self).map(|loaded, host, ctx| match loaded {
            Ok(loaded) => host.loaded(loaded, ctx),
            Err(error) => host.park(format!("loading failed inside of the runtime: {error}")),
        }));
    }

    fn loaded(&mut self, Load { programs, modules }: Load, ctx: &mut Context<Self>) {
        self.programs = Some(programs.clone());
        match modules {
            Modules::None => self.show(State::Ready(Loaded { tools: programs, sidecar: None })),
            Modules::Failed(reason) => {
                self.notices.tell(&self.wanted.directory.to_string_lossy(), reason.clone());
                self.park(reason);
            }
            Modules::Ended(ending) => self.ended(ending, ctx),
            Modules::Running(sidecar) => {
                let ended = sidecar.ended();
                ctx.spawn(ended.into_actor(self).map(|ending, host, ctx| host.ended(ending, ctx)));
                let mut tools = programs.to_vec();
                tools.extend(self.plugins.tools_of(&sidecar));
                self.show(State::Ready(Loaded { tools: Arc::new(tools), sidecar: Some(sidecar) }));
                self._events = self.plugins.has(Hook::Event).then(|| {
                    let (bus, plugins) = (self.shared.bus.clone(), self.plugins.clone());
                    let directory = self.wanted.directory.to_string_lossy().into_owned();
                    AbortOnDropHandle::new(self.shared.io.spawn(events::forward(bus, directory, plugins)))
                });
            }
        }
    }

    /// The process has ended: it is started again, or it is not.
    fn ended(&mut self, ending: Ending, ctx: &mut Context<Self>) {
        self._events = None;
        let Intensity { max, within, base, cap } = self.intensity;
        let count = recent(&mut self.ends, within);
        if let Some(at) = &ending.at {
            let blamed = recent(self.blamed.entry(at.plugin.clone()).or_default(), within);
            let blocks = ending.blocker().is_some();
            if (blocks || blamed >= BLAMED) && self.left_out.insert(at.plugin.clone()) {
                let did = if blocks {
                    "held its process up".to_owned()
                } else {
                    format!("took its process along {blamed} times")
                };
                let problem = format!("it {did} and is left out until it changes: {ending}");
                self.notices.tell(&at.plugin, problem);
                self.ends.clear();
            } else {
                self.notices.tell(&at.plugin, format!("it took its process along: {ending}"));
            }
        }
        if count > max {
            let reason = format!("their process ended {count} times in a row and is not started again: {ending}");
            self.notices.tell(&self.wanted.directory.to_string_lossy(), reason.clone());
            return self.park(reason);
        }
        tracing::warn!(directory = %self.wanted.directory.display(), %ending, count, "the process of the plugins is started again");
        let before = self.plugins.tools();
        self.show(State::Restarting(Loaded { tools: before, sidecar: None }));
        let doubled = base.saturating_mul(1 << (count.saturating_sub(1)).min(16));
        ctx.run_later(doubled.min(cap), |host, ctx| host.load(ctx));
    }

    fn park(&self, reason: String) {
        let tools = self.programs.clone().unwrap_or_default();
        self.show(State::Parked(Loaded { tools, sidecar: None }, reason.into()));
    }

    fn show(&self, state: State) {
        self.state.0.send_replace(state);
    }
}

/// Counts now, and what was counted within this time.
fn recent(times: &mut VecDeque<Instant>, within: Duration) -> usize {
    let now = Instant::now();
    times.retain(|time| now.duration_since(*time) < within);
    times.push_back(now);
    times.len()
}

async fn modules(wanted: &Wanted, found: &Found, shared: &PluginShared, notices: &Notices) -> Modules {
    if !found.needs_sidecar() {
        return Modules::None;
    }
    let runtime = match Runtime::find(wanted.runtime.as_deref(), &shared.path).await {
        Ok(runtime) => runtime,
        Err(reason) => {
            let count = found.tools.len() + found.plugins.len();
            let what = format!("{count} plugins and tools written in JavaScript are left out: {reason}");
            notices.tell(&wanted.directory.to_string_lossy(), what);
            return Modules::None;
        }
    };
    let start = Start {
        runtime,
        scripts: shared.scripts.clone(),
        directory: wanted.directory.clone(),
        worktree: wanted.worktree.clone(),
        project: wanted.project.clone(),
        server_url: shared.address.get().cloned().unwrap_or_else(|| "http://localhost:4096".to_owned()),
        socket: Some(shared.socket.clone()).filter(|socket| socket.exists()),
        found: found.clone(),
        limits: wanted.limits,
    };
    match plugins::plugins::start(start, &shared.processes, notices).await {
        Ok(sidecar) => {
            let contents = sidecar.contents();
            tracing::info!(
                directory = %wanted.directory.display(),
                runtime = %contents.runtime,
                tools = contents.tools.len(),
                hooks = contents.hooks.len(),
                "plugins are loaded"
            );
            Modules::Running(sidecar)
        }
        Err(StartError::Ended(ending)) => Modules::Ended(ending),
        Err(error) => Modules::Failed(error.to_string()),
    }
}

impl Actor for PluginHost {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.show(State::Starting);
        let stop = self.stop.clone();
        let stopped = async move { stop.cancelled().await };
        ctx.spawn(stopped.into_actor(self).map(|(), _, ctx| ctx.stop()));
        self.load(ctx);
    }
}

impl Supervised for PluginHost {
    fn restarting(&mut self, _: &mut Self::Context) {
        // Its process goes when nobody holds it.
        self.show(State::Starting);
        self._events = None;
        self.programs = None;
    }
}

impl Handler<Heard> for PluginHost {
    type Result = ();

    fn handle(&mut self, Heard(Notice { source, message }): Heard, _: &mut Self::Context) {
        let (now, reason) = (Instant::now(), format!("{source}: {message}"));
        self.warned.retain(|(time, _)| now.duration_since(*time) < WARNINGS_WITHIN);
        if self.warned.len() >= WARNINGS || self.warned.iter().any(|(_, known)| *known == reason) {
            tracing::debug!(plugin = %source, problem = %message, "a plugin failed again");
            return;
        }
        tracing::warn!(plugin = %source, problem = %message, "a plugin failed; went on without");
        self.warned.push_back((now, reason.clone()));
        let name = Name::Plugins(self.wanted.directory.to_string_lossy().into_owned());
        self.shared.fates.tell(Fate { name, kind: FateKind::Warned { reason } });
    }
}
