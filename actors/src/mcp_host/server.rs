//! One server from its start to its end: connected in the background, listed, watched, started again. A task of the
//! I/O runtime; what it finds out is read by whoever wants to know, without asking anybody.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mcp::{Changed, ConnectError, Connection, Offers, Status, Target};
use protocol::Event;
use storage::{Change, Journal, Origin, Record};
use tokio::sync::watch;
use tokio::time::Instant;

use super::McpShared;
use super::restarts::Restarts;

/// How often servers on the network that could not be reached are tried once they were given up.
const NETWORK_AGAIN: Duration = Duration::from_secs(60);
/// A list that changed is read after this, so that several notices at once are one.
const SETTLE: Duration = Duration::from_millis(50);

/// How a server is at the moment.
#[derive(Clone)]
pub struct Condition {
    /// What clients are told.
    pub status: Status,
    /// The way to it, while it is there.
    pub connection: Option<Connection>,
    /// What it offers; kept while it is started again.
    pub offers: Arc<Offers>,
    /// What it tells models about itself.
    pub instructions: Option<Arc<str>>,
    /// It has resources.
    pub has_resources: bool,
    /// How often it was started.
    pub starts: u64,
    /// When its first start began: prompts don't wait long after that.
    pub since: Instant,
    /// Which keeper wrote it: one that was replaced has no say any more.
    pub keeper: u64,
}

impl Condition {
    /// Returns the condition of a server nobody has started.
    pub fn new(status: Status) -> Self {
        Self {
            status,
            connection: None,
            offers: Arc::default(),
            instructions: None,
            has_resources: false,
            starts: 0,
            since: Instant::now(),
            keeper: 0,
        }
    }

    /// Returns whether its first start is under way.
    pub fn is_awaited(&self) -> bool {
        self.status == Status::Connecting && self.connection.is_none() && self.offers.tools.is_empty()
    }

    /// Takes over from whoever kept it before: it is being started, or off.
    pub fn renew(&mut self, status: Status) -> u64 {
        let keeper = self.keeper + 1;
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
        *self = Self { starts: self.starts, keeper, ..Self::new(status) };
        keeper
    }
}

/// Keeps one server.
pub struct Keeper {
    pub target: Target,
    pub shared: McpShared,
    pub environment: mcp::Environment,
    pub journal: Journal,
    pub origin: Arc<Origin>,
    pub condition: watch::Sender<Condition>,
    /// As [`Condition::renew`] gave it.
    pub number: u64,
}

/// How a life ended.
struct Death {
    why: ConnectError,
    /// None where it never lived.
    lived: Option<Duration>,
}

impl Keeper {
    /// Keeps the server until this future is dropped.
    pub async fn keep(self) {
        let _end = End { condition: &self.condition, number: self.number };
        let mut restarts = Restarts::default();
        let mut logins = self.shared.authorizer.changes();
        loop {
            let Death { why, lived } = self.live().await;
            let name = &self.target.name;
            match why {
                ConnectError::NeedsAuth => {
                    let status = self.login_status().await;
                    self.end_up(status);
                    // Also a login that another directory's server of this name was given.
                    if logins.changed().await.is_err() {
                        return;
                    }
                    restarts = Restarts::default();
                }
                why if why.is_final() => {
                    tracing::warn!(server = name, error = %why, "an MCP server can't be used");
                    self.end_up(Status::Failed { error: why.to_string() });
                    if !matches!(why, ConnectError::Auth(_)) || logins.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                    restarts = Restarts::default();
                }
                why => match restarts.after(lived, Instant::now()) {
                    Some(wait) => {
                        tracing::info!(server = name, error = %why, "an MCP server is gone and is started again");
                        tokio::time::sleep(wait).await;
                    }
                    None => {
                        tracing::warn!(server = name, error = %why, "an MCP server fails again and again and is left");
                        let error = format!("it failed again and again, the last time so: {why}");
                        self.end_up(Status::Failed { error });
                        if self.target.config.remote().is_none() {
                            return std::future::pending().await;
                        }
                        // What is on the network may come back by itself, and trying costs little.
                        tokio::time::sleep(NETWORK_AGAIN).await;
                        restarts = Restarts::default();
                    }
                },
            }
        }
    }

    /// One life: from a start to the end of it.
    async fn live(&self) -> Death {
        self.change(|condition| {
            condition.status = Status::Connecting;
            condition.starts += 1;
        });
        self.shared.figures.started();
        let failed = |why| Death { why, lived: None };
        let connection = match mcp::connect(&self.target, &self.environment).await {
            Ok(connection) => connection,
            Err(error) => return failed(error),
        };
        let offers = tokio::select! {
            offers = connection.offers() => offers,
            () = connection.closed() => return failed(ConnectError::Handshake(connection.ending().await)),
        };
        let offers = match offers {
            Ok(offers) => Arc::new(offers),
            Err(mcp::CallError::NeedsAuth) => return failed(ConnectError::NeedsAuth),
            Err(error) => return failed(ConnectError::Handshake(format!("it lists no tools: {error}"))),
        };
        let _counted = self.shared.figures.connected();
        let (since, name) = (Instant::now(), &self.target.name);
        tracing::info!(server = name, tools = offers.tools.len(), "an MCP server is connected");
        let told = self.condition.borrow().offers.tools != offers.tools;
        let is_ours = self.change(|condition| {
            condition.status = Status::Connected;
            condition.instructions = connection.instructions().filter(|text| !text.trim().is_empty()).map(Arc::from);
            condition.has_resources = connection.has_resources();
            condition.offers = offers;
            condition.connection = Some(connection.clone());
        });
        if !is_ours {
            connection.close();
        }
        if told {
            self.tell_tools();
        }
        loop {
            tokio::select! {
                () = connection.closed() => break,
                changed = connection.changed() => self.relist(&connection, changed).await,
            }
        }
        // What it offered stays: calls wait for it to come back.
        self.change(|condition| {
            condition.connection = None;
            condition.status = Status::Connecting;
        });
        let ending = connection.ending().await;
        Death { why: ConnectError::Handshake(ending), lived: Some(since.elapsed()) }
    }

    /// Reads a list that changed.
    async fn relist(&self, connection: &Connection, changed: Changed) {
        tokio::time::sleep(SETTLE).await;
        let mut changes = vec![changed];
        while let Some(more) = connection.changed().now_or_never() {
            changes.push(more);
        }
        let mut offers = Offers::clone(&self.condition.borrow().offers);
        if changes.contains(&Changed::Tools) {
            match connection.tools().await {
                Ok(tools) => offers.tools = tools,
                Err(error) => {
                    let server = &self.target.name;
                    tracing::warn!(server, %error, "the changed tools of an MCP server could not be listed");
                }
            }
        }
        if changes.contains(&Changed::Prompts) {
            offers.prompts = connection.prompts().await;
        }
        if changes.contains(&Changed::Resources) {
            (offers.resources, offers.templates) = connection.resources().await;
        }
        let offers = Arc::new(offers);
        self.change(|condition| condition.offers = offers);
        if changes.contains(&Changed::Tools) {
            self.tell_tools();
        }
    }

    async fn login_status(&self) -> Status {
        let name = &self.target.name;
        let registers = match self.target.config.remote() {
            Some(remote) => !self.shared.authorizer.needs_registration(name, remote).await,
            None => true,
        };
        tracing::info!(server = name, "an MCP server wants a login: `troupe mcp auth {name}` begins one");
        match registers {
            true => Status::NeedsAuth,
            false => Status::NeedsClientRegistration { error: ConnectError::NeedsClientRegistration.to_string() },
        }
    }

    /// It is not there, and not about to be.
    fn end_up(&self, status: Status) {
        let had_tools = !self.condition.borrow().offers.tools.is_empty();
        self.change(|condition| {
            condition.status = status;
            condition.connection = None;
            condition.offers = Arc::default();
            condition.instructions = None;
            condition.has_resources = false;
        });
        if had_tools {
            self.tell_tools();
        }
    }

    /// Changes the condition, where it is still ours. Returns whether it is.
    fn change(&self, change: impl FnOnce(&mut Condition)) -> bool {
        self.condition.send_if_modified(|condition| {
            let is_ours = condition.keeper == self.number;
            if is_ours {
                change(condition);
            }
            is_ours
        })
    }

    fn tell_tools(&self) {
        let event = Event::McpToolsChanged { server: self.target.name.clone() };
        let changes = vec![Change::Notice(event)];
        self.journal.record(Record { fence: None, origin: self.origin.clone(), changes, room: None }).detach();
    }
}

/// The keeper is gone: so is what it kept.
struct End<'a> {
    condition: &'a watch::Sender<Condition>,
    number: u64,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.condition.send_if_modified(|condition| {
            let is_ours = condition.keeper == self.number;
            if is_ours {
                condition.renew(Status::Disabled);
            }
            is_ours
        });
    }
}
