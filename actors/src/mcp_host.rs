//! Holds the MCP servers of a directory: those of its settings, and those clients add. One for each directory that has
//! any, below its workspace; all sessions of the directory share it, and so one connection a server.
//! Asked by: the workspace (tools), the HTTP edge (status, switching, logins). Talks to: the journal (events).
//!
//! - Servers are kept by tasks of the I/O runtime ([`server`]): started in the background, started again when they
//!   die, left when they die too often. How each is can be read at any time; nobody waits for a server but within its
//!   time.
//! - When this actor goes, its servers go: their tasks are dropped, and with them connections and children.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use indexmap::IndexMap;
use mcp::auth::Authorizer;
use mcp::config::ConfigProblem;
use mcp::{Counters, Offers, ServerConfig, Target};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tools::process::Processes;

mod book;
mod figures;
mod login;
mod offer;
pub mod prompt;
pub mod reading;
mod resources;
mod restarts;
mod server;
mod tool;

pub use mcp::Status;

pub use figures::Figures;
pub use login::{Authenticate, BeginLogin, FinishLogin, Forget};
pub use offer::Shown;

use crate::workspace::sources::{OfferTools, Offered, Patience};
use crate::workspace::{Setup, WorkspaceDeps};
use book::Book;
use offer::{Offer, offer};
use server::{Condition, Keeper};
use tool::Line;

/// Most time a step waits for a server that is being started, whatever its own time: its tools come at the next step.
const STEP_PATIENCE: Duration = Duration::from_millis(1_500);

/// What the servers of all directories share. Cheap to clone.
#[derive(Clone)]
pub struct McpShared {
    /// Logins.
    pub authorizer: Authorizer,
    /// What all servers did so far.
    pub figures: Arc<Figures>,
    /// Starts children.
    pub processes: Processes,
    /// The version servers are told.
    pub version: Arc<str>,
}

/// The settings are these now.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Configure(pub Arc<Setup>);

/// How are the servers?
#[derive(Message)]
#[rtype(result = "Vec<ServerReport>")]
pub struct GetServers {
    /// How long may be waited for those that are being started.
    pub patience: Patience,
}

/// Have this server beside those of the settings, until the directory is no longer in use. Answered when it is
/// connected, has failed, or takes too long.
#[derive(Message)]
#[rtype(result = "Result<(), McpError>")]
pub struct AddServer {
    /// Its name; one of the settings is stood for by it.
    pub name: String,
    /// As in the settings.
    pub entry: Value,
}

/// Switch a server on, or start one again that has failed. Answered as [`AddServer`].
#[derive(Message)]
#[rtype(result = "Result<(), McpError>")]
pub struct Connect(pub String);

/// Switch a server off.
#[derive(Message)]
#[rtype(result = "Result<(), McpError>")]
pub struct Disconnect(pub String);

/// How a server is.
#[derive(Clone, Debug, Serialize)]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// What clients are told.
    #[serde(flatten)]
    pub status: Status,
    /// `local` or `remote`; none where its entry can't be read.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Its tools, and what they are called here.
    pub tools: Vec<Shown>,
    /// How many prompts it has.
    pub prompts: usize,
    /// How many resources and templates it has.
    pub resources: usize,
    /// How often it was started since it was first.
    pub starts: u64,
    /// Lines or events of it that were no messages.
    pub junk: u64,
}

/// Why a server can't be dealt with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// There is none of this name.
    #[error("MCP server not found: {0}")]
    NotFound(String),
    /// Its entry is wrong.
    #[error(transparent)]
    Config(#[from] ConfigProblem),
    /// It takes no logins.
    #[error("the MCP server {0} takes no login: it is a child process, or `oauth` is switched off for it")]
    NoLogin(String),
    /// The login failed.
    #[error(transparent)]
    Login(#[from] mcp::auth::AuthProblem),
}

/// Holds the servers of a directory.
pub struct McpHost {
    deps: WorkspaceDeps,
    setup: Option<Arc<Setup>>,
    /// Servers of clients.
    added: IndexMap<String, Value>,
    /// What people switched.
    switched: HashMap<String, bool>,
    slots: IndexMap<String, Slot>,
    offer: Option<(Key, Offer)>,
}

/// What an offer was made of: the settings, and of each server its name, what it offers and whether it has resources.
type Key = (Arc<Setup>, Vec<Made>);
type Made = (Arc<str>, Arc<Offers>, bool);

/// A place for a server; it stays when the server comes and goes.
struct Slot {
    name: Arc<str>,
    entry: Value,
    /// None where the entry can't be read.
    config: Option<ServerConfig>,
    counters: Arc<Counters>,
    condition: watch::Sender<Condition>,
    /// Keeps the server, while it is wanted.
    keeper: Option<AbortOnDropHandle<()>>,
    /// Waits for a person to come back from a login.
    login: Option<AbortOnDropHandle<()>>,
}

impl McpHost {
    /// Returns a host without servers.
    pub fn new(deps: WorkspaceDeps) -> Self {
        Self {
            deps,
            setup: None,
            added: IndexMap::new(),
            switched: HashMap::new(),
            slots: IndexMap::new(),
            offer: None,
        }
    }

    /// Brings the servers in line with the settings: what has changed is started anew, the rest stays.
    fn configure(&mut self, setup: &Arc<Setup>) {
        if self.setup.as_ref().is_some_and(|known| Arc::ptr_eq(known, setup)) {
            return;
        }
        self.setup = Some(setup.clone());
        self.sync();
    }

    fn sync(&mut self) {
        let Some(setup) = self.setup.clone() else { return };
        let mut wanted = setup.config().mcp.clone();
        wanted.extend(self.added.iter().map(|(name, entry)| (name.clone(), entry.clone())));
        let mut slots = std::mem::take(&mut self.slots);
        for (name, entry) in wanted {
            let read = match ServerConfig::read(&name, &entry) {
                // It only switches a server that no file has.
                Ok(None) => continue,
                Ok(Some(config)) => Ok(config),
                Err(problem) => Err(problem),
            };
            let known = slots.swap_remove(&name);
            if let Some(slot) = known {
                if slot.entry == entry {
                    self.slots.insert(name, slot);
                    continue;
                }
                self.switched.remove(&name);
            }
            let status = match &read {
                Ok(_) => Status::Disabled,
                Err(problem) => {
                    tracing::warn!(%problem, "an MCP server of the settings is left out");
                    Status::Failed { error: problem.to_string() }
                }
            };
            let slot = Slot {
                name: name.as_str().into(),
                entry,
                config: read.ok(),
                counters: Arc::new(Counters::new(self.deps.mcp.figures.junk.clone())),
                condition: watch::Sender::new(Condition::new(status)),
                keeper: None,
                login: None,
            };
            let is_on = slot.config.as_ref().is_some_and(|config| config.enabled);
            self.slots.insert(name.clone(), slot);
            if self.switched.get(&name).copied().unwrap_or(is_on) {
                self.start(&name);
            }
        }
        // What is left of the old ones is dropped, and stops.
    }

    /// Starts a server, or starts it again.
    fn start(&mut self, name: &str) {
        let Some(setup) = self.setup.clone() else { return };
        let Some(slot) = self.slots.get_mut(name) else { return };
        let Some(config) = slot.config.clone() else { return };
        slot.keeper = None;
        let mut number = 0;
        slot.condition.send_modify(|condition| number = condition.renew(Status::Connecting));
        let shared = self.deps.mcp.clone();
        let (journal, origin) = (self.deps.journal.clone(), setup.origin.clone());
        let keeper = Keeper {
            target: Target {
                name: name.to_owned(),
                tokens: config.remote().and_then(|remote| shared.authorizer.tokens(name, remote)),
                config,
                directory: setup.directory.as_path().into(),
                counters: slot.counters.clone(),
            },
            environment: mcp::Environment {
                processes: shared.processes.clone(),
                http: self.deps.http.client(),
                version: shared.version.clone(),
                ledger: Some(Arc::new(Book { journal: journal.clone(), origin: origin.clone() })),
            },
            shared,
            journal,
            origin,
            condition: slot.condition.clone(),
            number,
        };
        slot.keeper = Some(AbortOnDropHandle::new(self.deps.io.spawn(keeper.keep())));
    }

    fn stop(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        slot.keeper = None;
        slot.condition.send_modify(|condition| {
            condition.renew(Status::Disabled);
        });
    }

    /// Switches a server on: one that is there, or on its way, stays as it is.
    fn switch_on(&mut self, name: &str) -> Result<(), McpError> {
        let slot = self.slots.get(name).ok_or_else(|| McpError::NotFound(name.to_owned()))?;
        if slot.config.is_none() {
            ServerConfig::read(name, &slot.entry)?;
        }
        let is_there = matches!(slot.condition.borrow().status, Status::Connected | Status::Connecting);
        self.switched.insert(name.to_owned(), true);
        if !is_there || slot.keeper.is_none() {
            self.start(name);
        }
        Ok(())
    }

    /// Waits for servers that are being started, each within its time.
    fn settled(&self, only: Option<&str>, patience: Patience) -> impl Future<Output = ()> + use<> {
        let mut awaited = Vec::new();
        for (name, slot) in &self.slots {
            let (Some(config), true) = (&slot.config, only.is_none_or(|only| only == name)) else { continue };
            let condition = slot.condition.borrow();
            let limit = match patience {
                Patience::None => continue,
                Patience::Step => config.timeout.min(STEP_PATIENCE),
                Patience::Call => config.timeout,
            };
            let until = condition.since + limit;
            if condition.is_awaited() && until > Instant::now() {
                awaited.push((slot.condition.subscribe(), until));
            }
        }
        async move {
            let each = awaited.into_iter().map(|(mut condition, until)| async move {
                let _ = tokio::time::timeout_at(until, condition.wait_for(|condition| !condition.is_awaited())).await;
            });
            futures::future::join_all(each).await;
        }
    }

    /// What all servers offer, made anew only where something differs.
    fn offer(&mut self) -> Offer {
        let Some(setup) = self.setup.clone() else { return Offer::default() };
        let servers: Vec<(Line, Condition)> = self
            .slots
            .values()
            .map(|slot| {
                let condition = slot.condition.borrow().clone();
                (Line { server: slot.name.clone(), condition: slot.condition.subscribe() }, condition)
            })
            .collect();
        let of = |(line, condition): &(Line, Condition)| {
            (line.server.clone(), condition.offers.clone(), condition.has_resources)
        };
        let key: Key = (setup, servers.iter().map(of).collect());
        if let Some((known, offer)) = &self.offer
            && is_same(known, &key)
        {
            return offer.clone();
        }
        let all = key.0.config().experimental.get("mcp_timeout").and_then(Value::as_u64).map(Duration::from_millis);
        let silence = |server: &str| {
            let own = || self.slots.get(server)?.config.as_ref()?.own_timeout;
            all.map(|all| own().unwrap_or(all))
        };
        let made = offer(&servers, silence, key.0.tools.iter().map(|tool| tool.id()));
        self.offer = Some((key, made.clone()));
        made
    }

    fn report(&mut self) -> Vec<ServerReport> {
        let shown = self.offer().shown;
        let report = |slot: &Slot| {
            let condition = slot.condition.borrow();
            let tools = shown.iter().find(|(name, _)| *name == slot.name).map(|(_, tools)| tools.clone());
            ServerReport {
                name: slot.name.to_string(),
                status: condition.status.clone(),
                kind: slot.config.as_ref().map(|config| if config.remote().is_some() { "remote" } else { "local" }),
                tools: tools.unwrap_or_default(),
                prompts: condition.offers.prompts.len(),
                resources: condition.offers.resources.len() + condition.offers.templates.len(),
                starts: condition.starts,
                junk: slot.counters.junk(),
            }
        };
        self.slots.values().map(report).collect()
    }
}

fn is_same(a: &Key, b: &Key) -> bool {
    let same = |(a, b): (&Made, &Made)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1) && a.2 == b.2;
    Arc::ptr_eq(&a.0, &b.0) && a.1.len() == b.1.len() && a.1.iter().zip(&b.1).all(same)
}

impl Actor for McpHost {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        // After a crash: what was wanted before.
        self.sync();
    }
}

impl Supervised for McpHost {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.slots.clear();
        self.offer = None;
    }
}

impl Handler<Configure> for McpHost {
    type Result = ();

    fn handle(&mut self, Configure(setup): Configure, _: &mut Self::Context) {
        self.configure(&setup);
    }
}

impl Handler<OfferTools> for McpHost {
    type Result = ResponseActFuture<Self, Arc<Offered>>;

    fn handle(&mut self, told: OfferTools, _: &mut Self::Context) -> Self::Result {
        self.configure(&told.setup);
        let settled = self.settled(None, told.patience);
        Box::pin(settled.into_actor(self).map(|(), host, _| host.offer().offered))
    }
}

impl Handler<GetServers> for McpHost {
    type Result = ResponseActFuture<Self, Vec<ServerReport>>;

    fn handle(&mut self, GetServers { patience }: GetServers, _: &mut Self::Context) -> Self::Result {
        let settled = self.settled(None, patience);
        Box::pin(settled.into_actor(self).map(|(), host, _| host.report()))
    }
}

impl Handler<AddServer> for McpHost {
    type Result = ResponseFuture<Result<(), McpError>>;

    fn handle(&mut self, AddServer { name, entry }: AddServer, _: &mut Self::Context) -> Self::Result {
        if let Err(problem) = ServerConfig::read(&name, &entry) {
            return Box::pin(async move { Err(problem.into()) });
        }
        self.switched.remove(&name);
        self.added.insert(name.clone(), entry);
        self.sync();
        let settled = self.settled(Some(&name), Patience::Call);
        Box::pin(async move {
            settled.await;
            Ok(())
        })
    }
}

impl Handler<Connect> for McpHost {
    type Result = ResponseFuture<Result<(), McpError>>;

    fn handle(&mut self, Connect(name): Connect, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.switch_on(&name) {
            return Box::pin(async move { Err(error) });
        }
        let settled = self.settled(Some(&name), Patience::Call);
        Box::pin(async move {
            settled.await;
            Ok(())
        })
    }
}

impl Handler<Disconnect> for McpHost {
    type Result = Result<(), McpError>;

    fn handle(&mut self, Disconnect(name): Disconnect, _: &mut Self::Context) -> Self::Result {
        if !self.slots.contains_key(&name) {
            return Err(McpError::NotFound(name));
        }
        self.switched.insert(name.clone(), false);
        self.stop(&name);
        Ok(())
    }
}
