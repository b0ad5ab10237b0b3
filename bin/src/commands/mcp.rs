//! `mcp`: MCP servers of a directory.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Client, McpServer, McpStatus};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::owner::{self, Ground};
use crate::reach::{Reach, Target};

mod add;
mod debug;
mod list;
mod login;
mod serve;

/// How long servers that are being started are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(250);

/// MCP servers
#[derive(Debug, Args)]
pub struct Mcp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put a server into the settings
    Add(add::Add),
    /// List the servers and how they are
    #[command(alias = "ls")]
    List(list::List),
    /// Log in at a server
    Auth(login::Auth),
    /// Forget the login at a server
    Logout(login::Logout),
    /// Tell all that is known of a server
    Debug(debug::Debug),
    /// Offer sessions as tools to another agent, over standard input and output
    Serve(serve::Serve),
}

impl Mcp {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start("warn");
        owner::run(|ground| async move {
            match self.command {
                Command::Add(add) => add.run(ground).await,
                Command::List(list) => list.run(ground).await,
                Command::Auth(auth) => auth.run(ground).await,
                Command::Logout(logout) => logout.run(ground).await,
                Command::Debug(debug) => debug.run(ground).await,
                Command::Serve(serve) => serve.run(ground).await,
            }
        })
    }
}

/// Does something with a runtime, one that runs or one of this process.
async fn with_client(
    target: Target,
    ground: Ground,
    work: impl AsyncFnOnce(Client) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let directory = target.directory()?;
    let reach = Reach::find(target, ground).await?;
    let mut client = reach.client().clone();
    if let Some(directory) = directory {
        client = client.directory(directory);
    }
    let done = work(client).await;
    reach.close().await;
    done
}

/// Waits until none of the servers is being started any more.
async fn settled(client: &Client) -> anyhow::Result<Vec<McpServer>> {
    let end = Instant::now() + PATIENCE;
    loop {
        let servers = client.mcp_servers().await?;
        let is_settled = servers.iter().all(|server| server.status != McpStatus::Connecting);
        if is_settled || Instant::now() >= end {
            return Ok(servers);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How a server is, in words.
fn words(status: &McpStatus) -> String {
    match status {
        McpStatus::Connected => "connected".into(),
        McpStatus::Connecting => "connecting".into(),
        McpStatus::Disabled => "disabled".into(),
        McpStatus::Failed { error } => format!("failed: {error}"),
        McpStatus::NeedsAuth => "needs a login: troupe mcp auth NAME".into(),
        McpStatus::NeedsClientRegistration { error } => format!("needs a login: {error}"),
    }
}

/// Prints to standard output. Nobody may be there to read it.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
