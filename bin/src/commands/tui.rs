//! The terminal client: what the program is without a command.
//!
//! Like `run` it is the owner of the data directory where there is none, without a TCP port, and attached to the owner
//! otherwise. An owner that is the terminal client resumes the open turns of its own directory.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use client::{Client, SessionsQuery};
use protocol::SessionId;
use tui::{End, Start};

use crate::exit::Exit;
use crate::owner::{self, Ground};
use crate::reach::{Reach, Target};
use crate::signals::{Stop, Stops};

/// How often it is looked whether others still need the runtime.
const LOOK: Duration = Duration::from_millis(250);
/// How long the signal of a terminal that has gone may take.
const SIGNAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct Tui {
    /// Show the directory's newest session
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    newest: bool,
    /// Show this session
    #[arg(long, short, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// What the terminal client stands on.
struct Stage<'a> {
    reach: &'a mut Reach,
    /// For the directory that is worked in.
    client: Client,
}

impl Stage<'_> {
    /// Lets the open turns of the directory go on.
    async fn resume(&mut self) -> anyhow::Result<()> {
        let sessions = self.client.sessions(&SessionsQuery::default()).await?;
        self.reach.recover(sessions.into_iter().map(|session| session.id).collect()).await;
        Ok(())
    }
}

impl tui::Host for Stage<'_> {
    async fn lost(&mut self) -> Result<(), String> {
        let renewed = async {
            if self.reach.renew().await? {
                self.resume().await?;
            }
            anyhow::Ok(())
        };
        renewed.await.map_err(|error| format!("{error:#}"))
    }

    async fn opened(&mut self, session: &SessionId) {
        self.reach.recover(vec![session.clone()]).await;
    }
}

impl Tui {
    pub fn run(self) -> anyhow::Result<Exit> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!("this needs a terminal; `troupe run` works without one");
        }
        owner::run(|ground| self.show(ground))
    }

    async fn show(self, ground: Ground) -> anyhow::Result<Exit> {
        let mut stops = Stops::listen()?;
        crate::logging::start_in(&ground.places.state.join("tui.log"), "warn,troupe=info");
        let mut reach = Reach::find(self.target.clone(), ground).await?;
        let (end, stop) = tokio::select! {
            ended = self.work(&mut reach) => (ended, None),
            stop = stops.next() => (Ok(End::default()), Some(stop)),
        };
        // When the terminal goes, reading and drawing may fail before the signal says why.
        let stop = match (&end, stop) {
            (Err(_), None) => tokio::time::timeout(SIGNAL, stops.next()).await.ok(),
            (_, stop) => stop,
        };
        // Nobody waits for anything after a signal.
        if let (Ok(end), None) = (&end, stop) {
            let is_left = reach.is_owner() && end.is_busy;
            say_goodbye(end, is_left);
            if reach.is_needed(|_| false, 0).await {
                crate::say("Other clients still work here; waiting for them (Ctrl-C ends it now).");
                tokio::select! {
                    () = others(&reach) => {}
                    _ = stops.next() => {}
                }
            }
        }
        reach.close().await;
        match (end, stop) {
            (Err(error), None | Some(Stop::Interrupt)) => Err(error),
            (Ok(_), None | Some(Stop::Interrupt)) => Ok(Exit::Done),
            (_, Some(stop)) => Ok(stop.into()),
        }
    }

    async fn work(&self, reach: &mut Reach) -> anyhow::Result<End> {
        let mut client = reach.client().clone();
        let directory = self.target.directory()?;
        if let Some(directory) = &directory {
            client = client.directory(directory);
        }
        let start = match &self.session {
            Some(id) => {
                let Ok(known) = SessionId::parse(id) else { bail!("Session not found: {id}") };
                let session = match client.session(&known).await {
                    Ok(session) => session,
                    Err(error) if error.status() == Some(404) => bail!("Session not found: {id}"),
                    Err(error) => return Err(error.into()),
                };
                // Its events are told in its own directory.
                client = client.directory(&session.directory);
                Start::Session(known)
            }
            None if self.newest => Start::Newest,
            None => Start::Home,
        };
        let directory = directory.map_or_else(|| client.server().to_owned(), |path| path.display().to_string());
        let mut stage = Stage { reach, client: client.clone() };
        if stage.reach.is_owner() {
            stage.resume().await?;
        }
        Ok(tui::run(client, directory, start, stage).await?)
    }
}

/// Waits until nobody else needs the runtime.
async fn others(reach: &Reach) {
    while reach.is_needed(|_| false, 0).await {
        tokio::time::sleep(LOOK).await;
    }
    // Who was waited for shall hear of its own end.
    tokio::time::sleep(LOOK).await;
}

fn say_goodbye(end: &End, is_left: bool) {
    let Some(session) = &end.session else { return };
    let mut out = std::io::stdout();
    // The terminal may be gone.
    let _ = writeln!(out, "To go on with this session: troupe --session {session}");
    if is_left {
        let _ = writeln!(out, "Its turn was still running; it goes on when the session is next used.");
    }
}
