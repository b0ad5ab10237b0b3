//! Logins of servers on the network: OAuth 2.1 with dynamic registration and PKCE, by the SDK; what is kept of them in
//! `mcp-auth.json`; and tokens that all connections of a server share.
//!
//! - A refresh token may work only once, so of all that find a token worn out one asks for the next, under the
//!   server's lock, and the others take what it got.
//! - A new token is on disk before anybody uses it.
//! - Nothing here tells a token, a code or a secret in an error or a log.

mod callbacks;
mod file;
mod flow;
mod http;
mod store;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Clock;
use rmcp::transport::auth::AuthError;
use tokio::sync::watch;

use crate::config::{OAuth, Remote};

pub use callbacks::{Callback, Callbacks};
pub use file::{AuthFile, ClientInfo, Entry, TokenSet};
pub use flow::Begun;

use flow::Flow;

/// Why a login can't be begun, ended or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthProblem {
    /// There is no login, or it no longer holds.
    #[error("a login is needed")]
    LoginNeeded,
    /// The server takes only clients that were registered by hand.
    #[error("the server registers no clients by itself; put its `oauth.clientId` into the config")]
    RegistrationNeeded,
    /// The server said no, or something that makes no sense.
    #[error("the login failed: {0}")]
    Refused(String),
    /// The server of the login can't be reached.
    #[error("the server of the login can't be reached: {0}")]
    Unreachable(String),
    /// There is no login that waits to be ended, or it is not this one.
    #[error("no login of this server is under way, or it is another one; begin again")]
    NotBegun,
    /// A person did not come back in time.
    #[error("nobody logged in within {limit_ms} ms")]
    Late {
        /// The limit.
        limit_ms: u64,
    },
    /// What is kept of logins can't be read or written.
    #[error("{0}")]
    File(String),
}

impl AuthProblem {
    /// Returns whether trying again by itself can't help.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Unreachable(_))
    }
}

impl From<AuthError> for AuthProblem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) | AuthError::TokenExpired => {
                Self::LoginNeeded
            }
            AuthError::DiscoveryRequestFailed { url, .. } => Self::Unreachable(url.host_str().unwrap_or("?").into()),
            AuthError::TokenRefreshFailed(_) => Self::Unreachable("its token endpoint gave no usable answer".into()),
            AuthError::HttpError(error) => Self::Unreachable(error.without_url().to_string()),
            AuthError::CredentialStoreError(problem) => Self::File(problem),
            // The answer of a token endpoint may quote what it was sent.
            AuthError::TokenExchangeFailed(_) => Self::Refused("the code was not taken".into()),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// The logins of all servers. Cheap to clone; one for the process.
#[derive(Clone)]
pub struct Authorizer {
    shared: Arc<Shared>,
}

struct Shared {
    file: Arc<AuthFile>,
    clock: Arc<dyn Clock>,
    http: Arc<http::OAuthHttp>,
    callbacks: Callbacks,
    /// By server: held while its token is renewed.
    renewing: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// By server: the login that waits for its person.
    flows: Mutex<HashMap<String, Flow>>,
    /// Counts logins that were ended or forgotten.
    changes: watch::Sender<u64>,
}

impl Authorizer {
    /// Returns the logins kept in a data directory. Reads nothing yet.
    pub fn new(data: &Path, clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            file: Arc::new(AuthFile::new(data.join("mcp-auth.json"))),
            clock,
            http: Arc::default(),
            callbacks: Callbacks::default(),
            renewing: Mutex::default(),
            flows: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns what is kept of logins.
    pub fn file(&self) -> &AuthFile {
        &self.shared.file
    }

    /// Returns the login of a server, for its connections.
    pub fn tokens(&self, server: &str, remote: &Remote) -> Option<Tokens> {
        let oauth = remote.oauth.clone()?;
        Some(Tokens { shared: self.shared.clone(), server: server.to_owned(), remote: remote.clone(), oauth })
    }

    /// Returns whether the server takes no client that was not registered by hand, and none is known.
    pub async fn needs_registration(&self, server: &str, remote: &Remote) -> bool {
        let Some(oauth) = &remote.oauth else { return false };
        let known = self.shared.file.get(server, remote.url.as_str()).await.ok().flatten();
        let has_client = oauth.client_id.is_some() || known.is_some_and(|entry| entry.client_info.is_some());
        !has_client && matches!(flow::registers_clients(&self.shared.http, remote).await, Ok(false))
    }

    /// Begins a login: a person opens the address it returns. One that was begun before is forgotten.
    pub async fn begin(&self, server: &str, remote: &Remote) -> Result<Begun, AuthProblem> {
        let shared = &self.shared;
        let (flow, begun) = Flow::begin(server, remote, shared).await?;
        lock(&shared.flows).insert(server.to_owned(), flow);
        Ok(begun)
    }

    /// Waits until the person comes back to a port of this machine, for the login with this state.
    pub async fn callback(&self, begun: &Begun) -> Result<Callback, AuthProblem> {
        self.shared.callbacks.wait(begun).await
    }

    /// Ends a login with the code the person came back with. `state` is checked where it is given.
    pub async fn finish(
        &self,
        server: &str,
        code: &str,
        state: Option<&str>,
        issuer: Option<&str>,
    ) -> Result<(), AuthProblem> {
        let flow = {
            let mut flows = lock(&self.shared.flows);
            match flows.remove(server) {
                Some(flow) if state.is_none_or(|state| state == flow.state()) => flow,
                Some(other) => {
                    // Somebody else's code must not end it.
                    flows.insert(server.to_owned(), other);
                    return Err(AuthProblem::NotBegun);
                }
                None => return Err(AuthProblem::NotBegun),
            }
        };
        let _alone = self.shared.renewing(server).lock_owned().await;
        flow.finish(code, issuer).await?;
        self.shared.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Forgets a server's login and its client. Returns whether there was any.
    pub async fn forget(&self, server: &str) -> Result<bool, AuthProblem> {
        lock(&self.shared.flows).remove(server);
        let _alone = self.shared.renewing(server).lock_owned().await;
        let was_there = self.shared.file.remove(server).await?;
        self.shared.changes.send_modify(|changes| *changes += 1);
        Ok(was_there)
    }

    /// Returns what changes whenever a login was ended or forgotten, of whichever server.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("file", &self.shared.file.path()).finish_non_exhaustive()
    }
}

impl Shared {
    fn renewing(&self, server: &str) -> Arc<tokio::sync::Mutex<()>> {
        lock(&self.renewing).entry(server.to_owned()).or_default().clone()
    }
}

/// The login of one server, shared by all its connections.
#[derive(Clone)]
pub struct Tokens {
    shared: Arc<Shared>,
    server: String,
    remote: Remote,
    oauth: OAuth,
}

impl Tokens {
    /// Returns the access token, renewed where it has run out; none where there is no login.
    pub async fn current(&self) -> Result<Option<String>, AuthProblem> {
        let Some(tokens) = self.kept().await? else { return Ok(None) };
        if !self.has_run_out(&tokens) {
            return Ok(Some(tokens.access_token));
        }
        match self.renewed(&tokens.access_token).await {
            // The server judges the old one itself.
            Err(AuthProblem::LoginNeeded) => Ok(Some(tokens.access_token)),
            other => other.map(Some),
        }
    }

    /// Returns another token than the one the server has rejected.
    pub async fn renewed(&self, rejected: &str) -> Result<String, AuthProblem> {
        let _alone = self.shared.renewing(&self.server).lock_owned().await;
        // Somebody else may have been faster.
        let tokens = self.kept().await?.ok_or(AuthProblem::LoginNeeded)?;
        if tokens.access_token != rejected && !self.has_run_out(&tokens) {
            return Ok(tokens.access_token);
        }
        if tokens.refresh_token.is_none() {
            return Err(AuthProblem::LoginNeeded);
        }
        flow::refresh(&self.server, &self.remote, &self.oauth, &self.shared).await?;
        let tokens = self.kept().await?.ok_or(AuthProblem::LoginNeeded)?;
        tracing::info!(server = self.server, "the login of an MCP server was renewed");
        Ok(tokens.access_token)
    }

    async fn kept(&self) -> Result<Option<TokenSet>, AuthProblem> {
        let entry = self.shared.file.get(&self.server, self.remote.url.as_str()).await?;
        Ok(entry.and_then(|entry| entry.tokens))
    }

    fn has_run_out(&self, tokens: &TokenSet) -> bool {
        let now = self.shared.clock.now_ms() as f64 / 1000.0;
        tokens.expires_at.is_some_and(|expires| expires <= now)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
