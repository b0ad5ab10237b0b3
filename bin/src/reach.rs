//! How a command reaches a runtime: it becomes the owner of the data directory, attaches to the owner over its
//! socket, or goes to an address. It speaks the client's protocol in all three cases.

use std::path::PathBuf;
use std::time::Duration;

use actors::bus::CountListeners;
use anyhow::{Context, bail};
use clap::Args;
use client::Client;
use protocol::SessionId;
use server::{Access, Listen};
use storage::{DataDir, StorageError};
use tokio::time::Instant;

use crate::owner::{Ground, Owner, Resume};

/// How long an owner may take to answer: it may be starting, or stopping.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Longest time of a stop; what isn't stored by then never is.
const STOP: Duration = Duration::from_millis(1500);

/// Which server; none: the data directory's own.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Use the server at this address (http://HOST:PORT) instead of the one of this machine's data directory
    #[arg(long, value_name = "URL")]
    pub attach: Option<String>,
    /// User name of that server
    #[arg(long, short = 'u', env = "OPENCODE_SERVER_USERNAME", default_value = "opencode", hide_env_values = true)]
    pub username: String,
    /// Password of that server
    #[arg(long, short = 'p', env = "OPENCODE_SERVER_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Work in this directory (default: the current one)
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
}

/// A runtime that can be spoken to.
pub struct Reach {
    client: Client,
    owner: Option<Owner>,
    target: Target,
    ground: Ground,
}

impl Target {
    /// Returns the directory to work in: absolute, and there, where the server is of this machine.
    pub fn directory(&self) -> anyhow::Result<Option<PathBuf>> {
        match (&self.dir, self.is_elsewhere()) {
            // What is there only that server knows.
            (named, true) => Ok(named.clone()),
            (None, false) => Ok(Some(std::env::current_dir().context("finding the current directory")?)),
            (Some(named), false) => {
                let found = named.canonicalize().with_context(|| format!("looking for {}", named.display()))?;
                if !found.is_dir() {
                    bail!("{} is no directory", named.display());
                }
                Ok(Some(found))
            }
        }
    }

    fn is_elsewhere(&self) -> bool {
        let Some(url) = &self.attach else { return false };
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        !["localhost", "127.", "[::1]"].iter().any(|here| host.starts_with(here))
    }

    fn login(&self, client: Client) -> Client {
        match self.password.as_deref().filter(|password| !password.is_empty()) {
            Some(password) => client.basic_auth(&self.username, password),
            None => client,
        }
    }
}

impl Reach {
    /// Finds a runtime, or starts one.
    pub async fn find(target: Target, ground: Ground) -> anyhow::Result<Self> {
        if let Some(url) = &target.attach {
            let client = target.login(Client::tcp(url)?);
            client.health().await?;
            return Ok(Self { client, owner: None, target, ground });
        }
        let (client, owner) = own_or_attach(&target, &ground, PATIENCE).await?;
        Ok(Self { client, owner, target, ground })
    }

    /// Returns the client, for no directory yet.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns whether the runtime is in this process.
    pub fn is_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Sees to it that somebody owns the data directory: an owner that was attached to may have ended, and this
    /// process then takes its place. The socket stays the same, and so does the client. Returns whether it did.
    pub async fn renew(&mut self) -> anyhow::Result<bool> {
        if self.target.attach.is_some() || self.owner.is_some() {
            return Ok(false);
        }
        match DataDir::own(&self.ground.places.data) {
            Ok(data) => {
                let owner = Owner::start(data, &self.ground, Resume::AsUsed, Listen::default(), Access::default());
                self.owner = Some(owner.await?);
                tracing::info!("the owner of the data directory is gone; this process is it now");
                Ok(true)
            }
            Err(StorageError::Owned { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets open turns of these sessions go on, where this process is the owner: it starts with none.
    pub async fn recover(&self, sessions: Vec<SessionId>) {
        if let Some(owner) = &self.owner {
            owner.runtime().recover(Some(sessions)).await;
        }
    }

    /// Returns whether others still need the runtime of this process: an attached client whose session is at work.
    /// `own` says which sessions are this command's, which need it too; `streams` how many event streams are.
    pub async fn is_needed(&self, own: impl Fn(&SessionId) -> bool, streams: usize) -> bool {
        let Some(owner) = &self.owner else { return false };
        let busy = owner.runtime().directory.busy();
        if busy.iter().any(|(id, ..)| own(id)) {
            return true;
        }
        !busy.is_empty() && owner.runtime().bus.send(CountListeners).await.unwrap_or(0) > streams
    }

    /// Ends: the runtime of this process with it, its turns left open. Never takes longer than a signal allows.
    pub async fn close(self) {
        let Self { client, owner, .. } = self;
        // Its connections are ones the server would wait for.
        drop(client);
        if let Some(owner) = owner
            && tokio::time::timeout(STOP, owner.stop()).await.is_err()
        {
            tracing::warn!("the runtime did not stop in time");
        }
    }
}

async fn own_or_attach(
    target: &Target,
    ground: &Ground,
    patience: Duration,
) -> anyhow::Result<(Client, Option<Owner>)> {
    let root = &ground.places.data;
    let end = Instant::now() + patience;
    loop {
        let owned = match DataDir::own(root) {
            Ok(data) => {
                let client = Client::unix(&data.socket())?;
                let owner = Owner::start(data, ground, Resume::AsUsed, Listen::default(), Access::default()).await?;
                return Ok((client, Some(owner)));
            }
            Err(error @ StorageError::Owned { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        let socket = DataDir::owner(root).map(|owner| owner.socket).filter(|socket| !socket.as_os_str().is_empty());
        let problem = match socket {
            Some(socket) => {
                let client = target.login(Client::unix(&socket)?);
                match client.health().await {
                    Ok(_) => return Ok((client, None)),
                    Err(error) if error.is_gone() => anyhow::Error::from(error),
                    Err(error) => return Err(error.into()),
                }
            }
            None => anyhow::anyhow!("it names no socket"),
        };
        if Instant::now() >= end {
            return Err(problem.context(owned.to_string()));
        }
        tokio::time::sleep(LOOK).await;
    }
}
