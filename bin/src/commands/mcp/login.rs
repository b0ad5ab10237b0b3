//! `mcp auth` and `mcp logout`.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use client::{Client, LoginBegun, McpServer, McpStatus};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use url::Url;

use super::{LOOK, print, settled, with_client, words};
use crate::exit::Exit;
use crate::owner::Ground;
use crate::reach::Target;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Args)]
pub struct Auth {
    /// The server; none: the one that wants a login
    name: Option<String>,
    /// Open no browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct Logout {
    /// The server
    name: String,
    #[command(flatten)]
    target: Target,
}

impl Auth {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        let io = ground.io.clone();
        with_client(self.target, ground, async |client| {
            let servers = settled(&client).await?;
            let name = match self.name {
                Some(name) => name,
                None => the_one(&servers)?,
            };
            let before = starts(&servers, &name);
            let begun = client.mcp_begin_login(&name).await?;
            print(&format!("Open this address to log in at {name}:\n\n  {}\n", begun.authorization_url));
            if !self.no_browser {
                open(&begun.authorization_url);
            }
            let status = tokio::select! {
                status = came_back(&client, &name, before) => status?,
                status = pasted(&client, &name, &begun, &io) => status?,
            };
            print(&format!("{name}: {}", words(&status)));
            Ok(if status == McpStatus::Connected { Exit::Done } else { Exit::Failed })
        })
        .await
    }
}

impl Logout {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        with_client(self.target, ground, async |client| {
            client.mcp_forget_login(&self.name).await?;
            print(&format!("The login at {} is forgotten.", self.name));
            Ok(Exit::Done)
        })
        .await
    }
}

/// The only server that wants a login.
fn the_one(servers: &[McpServer]) -> anyhow::Result<String> {
    let mut wanting = servers.iter().filter(|server| server.status == McpStatus::NeedsAuth);
    match (wanting.next(), wanting.next()) {
        (Some(only), None) => Ok(only.name.clone()),
        (None, _) => bail!("no server wants a login; name the one to log in at anew"),
        (Some(_), Some(_)) => bail!("several servers want a login; name one"),
    }
}

fn starts(servers: &[McpServer], name: &str) -> u64 {
    servers.iter().find(|server| server.name == name).map_or(0, |server| server.starts)
}

/// Waits until the person's browser has come back to the runtime, which then connects anew.
async fn came_back(client: &Client, name: &str, before: u64) -> anyhow::Result<McpStatus> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        tokio::time::sleep(LOOK).await;
        let servers = client.mcp_servers().await?;
        let server = servers.into_iter().find(|server| server.name == name).context("the server is gone")?;
        if server.starts > before && server.status != McpStatus::Connecting {
            return Ok(server.status);
        }
    }
    bail!("nobody logged in within {} minutes", PATIENCE.as_secs() / 60)
}

/// Takes the address the browser ended up at, or the code alone, where the browser is on another machine.
async fn pasted(client: &Client, name: &str, begun: &LoginBegun, io: &Handle) -> anyhow::Result<McpStatus> {
    if std::io::stdin().is_terminal() {
        print("If your browser is on another machine, paste the address it ends up at (or the code) here:");
    }
    let mut lines = lines(io);
    loop {
        // Nobody types here: the browser may still come back.
        let Some(line) = lines.recv().await else { return std::future::pending().await };
        let Some((code, state)) = code_of(line.trim()) else { continue };
        let state = state.unwrap_or_else(|| begun.state.clone());
        return Ok(client.mcp_finish_login(name, &code, &state).await?);
    }
}

/// The lines of standard input. They are read where a read that never ends holds up no end of the process.
fn lines(io: &Handle) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    io.spawn(async move {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await
            && sender.send(line).await.is_ok()
        {}
    });
    receiver
}

/// The code, and the state where the line is an address.
fn code_of(line: &str) -> Option<(String, Option<String>)> {
    if let Ok(url) = Url::parse(line)
        && url.has_host()
    {
        let query = |key: &str| url.query_pairs().find(|(k, _)| k == key).map(|(_, value)| value.into_owned());
        return Some((query("code")?, query("state")));
    }
    (!line.is_empty()).then(|| (line.to_owned(), None))
}

/// Opens an address in the person's browser, where there is one.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let null = std::process::Stdio::null;
    let _ = std::process::Command::new(program).arg(url).stdin(null()).stdout(null()).stderr(null()).spawn();
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_code_is_taken_alone_and_out_of_an_address() {
        let address = "http://127.0.0.1:19876/mcp/oauth/callback?code=a%2Fb&state=s";
        assert_eq!(code_of(address), Some(("a/b".into(), Some("s".into()))));
        assert_eq!(code_of("c1"), Some(("c1".into(), None)));
        assert_eq!(code_of(""), None);
        assert_eq!(code_of("http://127.0.0.1/?error=denied"), None);
    }
}
