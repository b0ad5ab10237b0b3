//! `mcp serve`: sessions as tools for other agents, over standard input and output.
//!
//! The runtime is reached as `run` reaches it: the data directory's owner does the work; where there is none this
//! process is it, and takes the place of one that ends. Standard output carries the protocol and nothing else. It all
//! ends when standard input closes, once nobody else needs the runtime of this process; turns that nobody waits for
//! any more stay open then, and go on when their session is next used.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use protocol::SessionId;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::owner::Ground;
use crate::reach::{Reach, Target};
use crate::signals::Stops;

mod inputs;
mod sessions;
mod view;

use sessions::Sessions;

/// How often it is looked whether somebody still needs the runtime.
const LOOK: Duration = Duration::from_millis(250);
/// Most needs that wait for the runtime's keeper.
const NEEDS: usize = 16;

#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    target: Target,
}

/// What tools need of whoever holds the runtime: it can't leave its thread.
enum Need {
    /// The owner may be gone: be it, or say why not.
    Renew(oneshot::Sender<Result<(), String>>),
    /// This session is worked on: its open turn goes on.
    Use(SessionId, oneshot::Sender<()>),
}

/// The way to whoever holds the runtime. Cheap to clone.
#[derive(Clone)]
struct Keeper(mpsc::Sender<Need>);

impl Keeper {
    async fn renew(&self) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let ending = || "troupe is ending".to_owned();
        self.0.send(Need::Renew(answer)).await.map_err(|_| ending())?;
        answered.await.map_err(|_| ending())?
    }

    async fn used(&self, session: SessionId) {
        let (answer, answered) = oneshot::channel();
        if self.0.send(Need::Use(session, answer)).await.is_ok() {
            let _ = answered.await;
        }
    }
}

impl Serve {
    pub async fn run(self, ground: Ground) -> anyhow::Result<Exit> {
        let mut stops = Stops::listen()?;
        let directory = self.target.directory()?;
        let io = ground.io.clone();
        let mut reach = tokio::select! {
            reach = Reach::find(self.target.clone(), ground) => reach?,
            stop = stops.next() => return Ok(stop.into()),
        };
        let (sender, mut needs) = mpsc::channel(NEEDS);
        let closing = CancellationToken::new();
        let sessions = Sessions::new(reach.client().clone(), directory, Keeper(sender), closing.clone());
        let serving =
            mcp::serve::serve(Arc::new(sessions), env!("CARGO_PKG_VERSION"), tokio::io::stdin(), tokio::io::stdout());
        let mut serving = io.spawn(serving);
        let mut used = HashSet::new();
        let exit = loop {
            tokio::select! {
                served = &mut serving => break served?.map(|()| None).map_err(anyhow::Error::from),
                stop = stops.next() => break Ok(Some(stop.into())),
                Some(need) = needs.recv() => meet(need, &mut reach, &mut used).await,
            }
        };
        closing.cancel();
        let exit = match exit {
            Ok(None) => until_free(&reach, &mut stops).await,
            Ok(Some(exit)) => Ok(exit),
            Err(error) => Err(error),
        };
        reach.close().await;
        exit
    }
}

async fn meet(need: Need, reach: &mut Reach, used: &mut HashSet<SessionId>) {
    match need {
        Need::Renew(answer) => {
            let renewed = reach.renew().await;
            if matches!(renewed, Ok(true)) {
                reach.recover(used.iter().cloned().collect()).await;
            }
            let _ = answer.send(renewed.map(drop).map_err(|error| error.to_string()));
        }
        Need::Use(session, answer) => {
            if used.insert(session.clone()) {
                reach.recover(vec![session]).await;
            }
            let _ = answer.send(());
        }
    }
}

/// Waits until nobody else needs the runtime of this process, or for a signal.
async fn until_free(reach: &Reach, stops: &mut Stops) -> anyhow::Result<Exit> {
    let mut was_needed = false;
    loop {
        // Whoever asked over the connection that has closed waits no more: its sessions need nothing of themselves.
        let is_needed = reach.is_needed(|_| false, 0).await;
        // Once more after the last: who was waited for shall hear of its own end.
        if !std::mem::replace(&mut was_needed, is_needed) && !is_needed {
            return Ok(Exit::Done);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            stop = stops.next() => return Ok(stop.into()),
        }
    }
}
