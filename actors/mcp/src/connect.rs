//! From a config entry to a connection.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::{ClientInitializeError, RunningService, ServiceExt, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tools::process::{ProcessGroup, Processes};

use crate::auth::Tokens;
use crate::config::{Remote, ServerConfig, ServerKind};
use crate::connection::{Changed, Connection};
use crate::error::ConnectError;
use crate::handler::{Calls, Handler};
use crate::stdio::Fate;
use crate::{legacy, remote, stdio};

/// Most time from the start of a server to the end of the handshake. Downloads of `npx` and `uvx` fall into it.
const HANDSHAKE: Duration = Duration::from_secs(120);
/// Notices of a server that wait to be taken.
const NOTICES: usize = 8;

/// What connections need of the process around them.
#[derive(Clone)]
pub struct Environment {
    /// Starts children.
    pub processes: Processes,
    /// For servers on the network.
    pub http: reqwest::Client,
    /// The version servers are told.
    pub version: Arc<str>,
    /// Where children are written down; none: nowhere.
    pub ledger: Option<Arc<dyn Ledger>>,
}

/// Writes down which process groups there are, so that a later run of the service can end what this one left.
pub trait Ledger: Send + Sync {
    /// A group was started.
    fn started(&self, group: ProcessGroup);

    /// Nothing of it is left.
    fn ended(&self, group: ProcessGroup);
}

/// A server to connect to.
#[derive(Clone)]
pub struct Target {
    /// Its name in the config.
    pub name: String,
    /// Its entry.
    pub config: ServerConfig,
    /// The project's directory.
    pub directory: Arc<Path>,
    /// Its login, for a server on the network.
    pub tokens: Option<Tokens>,
    /// Counts what it does wrong.
    pub counters: Arc<Counters>,
}

/// Counts what a server does wrong.
#[derive(Debug, Default)]
pub struct Counters {
    junk: AtomicU64,
    is_told: AtomicBool,
    total: Arc<AtomicU64>,
}

impl Counters {
    /// Returns the counters of a server, which add to a total of all servers.
    pub fn new(total: Arc<AtomicU64>) -> Self {
        Self { total, ..Self::default() }
    }

    /// Returns how many lines or events of the server were no messages.
    pub fn junk(&self) -> u64 {
        self.junk.load(Ordering::Relaxed)
    }

    /// Counts a line that is no message. The first is told, once for the life of the server's entry.
    pub(crate) fn junk_came(&self, server: &str) {
        self.junk.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                server,
                "the output of an MCP server holds junk besides its messages; it is skipped and counted"
            );
        }
    }
}

/// Connects to a server: returns when it has answered the handshake. Must be called within a tokio runtime; what the
/// connection holds is given back when its last clone is dropped.
pub async fn connect(target: &Target, environment: &Environment) -> Result<Connection, ConnectError> {
    match &target.config.kind {
        ServerKind::Local(local) => {
            let (name, counters) = (&target.name, &target.counters);
            let (pipes, fate) = stdio::start(name, local, &target.directory, environment, counters)?;
            match handshake(target, environment, pipes, Some(fate.clone())).await {
                // It says more than the broken pipe.
                Err(Failure::Closed) => Err(match fate.ending().await {
                    Some((status, said)) => ConnectError::Ended { status, said },
                    None => ConnectError::Handshake("it closed its input or output".into()),
                }),
                Err(Failure::Other(error)) => Err(error),
                Ok(connection) => Ok(connection),
            }
        }
        ServerKind::Remote(remote) => at(target, remote, environment).await,
    }
}

/// Connects over streamable HTTP, and where that is not spoken over the older transport.
async fn at(target: &Target, remote: &Remote, environment: &Environment) -> Result<Connection, ConnectError> {
    let tokens = target.tokens.as_ref().filter(|_| remote.oauth.is_some());
    let transport = remote::transport(remote, tokens.cloned(), &environment.http);
    let error = match handshake(target, environment, transport, None).await {
        Ok(connection) => return Ok(connection),
        Err(Failure::Closed) => ConnectError::Handshake("the connection was closed".into()),
        Err(Failure::Other(error)) => error,
    };
    if !matches!(error, ConnectError::Handshake(_)) {
        return Err(login_needed(error, remote));
    }
    let older = legacy::open(&target.name, remote, tokens.cloned(), &environment.http, target.counters.clone()).await;
    let transport = match older {
        Ok(transport) => transport,
        Err(needs @ ConnectError::NeedsAuth) => return Err(login_needed(needs, remote)),
        // What the newer transport said tells more.
        Err(_) => return Err(error),
    };
    match handshake(target, environment, transport, None).await {
        Ok(connection) => Ok(connection),
        Err(Failure::Closed) => Err(error),
        Err(Failure::Other(error)) => Err(login_needed(error, remote)),
    }
}

/// Who may not log in can't be told to.
fn login_needed(error: ConnectError, remote: &Remote) -> ConnectError {
    match error {
        ConnectError::NeedsAuth if remote.oauth.is_none() => {
            ConnectError::Handshake("it wants a login, and `oauth` is switched off for it".into())
        }
        other => other,
    }
}

enum Failure {
    /// The other side closed the connection.
    Closed,
    Other(ConnectError),
}

async fn handshake<T: Transport<RoleClient> + 'static>(
    target: &Target,
    environment: &Environment,
    transport: T,
    fate: Option<Fate>,
) -> Result<Connection, Failure> {
    let closed = CancellationToken::new();
    let calls = Arc::new(Calls::default());
    let (sender, changes) = mpsc::channel::<Changed>(NOTICES);
    let handler = Handler::new(&target.name, environment.version.clone(), calls.clone(), sender);
    let watched = Watched { transport, closed: closed.clone() };
    let begun = tokio::time::timeout(HANDSHAKE, handler.serve(watched)).await;
    let service: RunningService<RoleClient, Handler> = match begun {
        Ok(Ok(service)) => service,
        Ok(Err(ClientInitializeError::ConnectionClosed(_))) => return Err(Failure::Closed),
        Ok(Err(ClientInitializeError::TransportError { error, .. })) if is_closed(&*error.error) => {
            return Err(Failure::Closed);
        }
        Ok(Err(error)) => return Err(Failure::Other(failure(&error))),
        Err(_) => {
            return Err(Failure::Other(ConnectError::Slow { limit_ms: HANDSHAKE.as_millis() as u64 }));
        }
    };
    Ok(Connection::new(&target.name, service, calls, closed, changes, fate))
}

fn failure(error: &ClientInitializeError) -> ConnectError {
    match error {
        ClientInitializeError::JsonRpcError(data) => {
            ConnectError::Handshake(format!("it answered with an error: {} (code {})", data.message, data.code.0))
        }
        ClientInitializeError::TransportError { error: inner, .. } => {
            remote::problem(&*inner.error).unwrap_or_else(|| ConnectError::Handshake(inner.error.to_string()))
        }
        // What else the SDK says quotes whole messages.
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            ConnectError::Handshake("its answer is none to `initialize`".into())
        }
        other => ConnectError::Handshake(other.to_string()),
    }
}

fn is_closed(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A transport that says when the other side has closed it: the SDK tells only once its handlers have ended, and those
/// may wait for a person.
struct Watched<T> {
    transport: T,
    closed: CancellationToken,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.transport.receive().await;
        if message.is_none() {
            self.closed.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        self.transport.close().await
    }
}
