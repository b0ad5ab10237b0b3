//! What commands left running on purpose (`server &`): kept by session, owned, and ended with it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::SessionId;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::census::{Living, marked};
use super::group::signal_process;
use super::{Child, ProcessGroup, Processes, SESSION};
use crate::context::Desk;

/// How long they have to end after TERM.
const GRACE: Duration = Duration::from_millis(500);

/// How often one is looked at whether it still runs: at first, and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Bytes kept of the output that comes after the call has ended.
const TAIL: usize = 16 * 1024;

/// Names a background process within this run of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackgroundId(pub u64);

impl fmt::Display for BackgroundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A process group that outlived its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// What [`Processes::stop`] takes.
    pub id: BackgroundId,
    /// Its group.
    pub group: ProcessGroup,
    /// The command that started it.
    pub command: String,
    /// When the command started, in milliseconds since the epoch.
    pub started_ms: u64,
}

/// The background processes of all sessions.
#[derive(Default)]
pub(super) struct Background {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    sessions: HashMap<SessionId, Vec<Entry>>,
}

struct Entry {
    process: BackgroundProcess,
    tail: Arc<Mutex<Tail>>,
    /// Cancelled to end it.
    stop: CancellationToken,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

impl Processes {
    /// Keeps a child whose command has ended but whose group has not, until it ends or is stopped. Its output is read
    /// on, so that it never blocks on a full pipe. `desk` is told when nothing is left of the group.
    pub fn keep(
        &self,
        session: &SessionId,
        command: String,
        started_ms: u64,
        child: Child,
        output: Option<pipe::Receiver>,
        desk: Arc<dyn Desk>,
    ) -> BackgroundId {
        let (stop, ended, tail) = (CancellationToken::new(), CancellationToken::new(), Arc::<Mutex<Tail>>::default());
        let id = {
            let mut state = self.shared.background.lock();
            state.last += 1;
            let id = BackgroundId(state.last);
            let process = BackgroundProcess { id, group: child.group(), command, started_ms };
            let entry = Entry { process, tail: tail.clone(), stop: stop.clone(), ended: ended.clone() };
            state.sessions.entry(session.clone()).or_default().push(entry);
            id
        };
        let (shared, session) = (self.shared.clone(), session.clone());
        tokio::spawn(async move {
            let group = child.group();
            let drain = drain(output, &tail);
            tokio::select! {
                () = watch(child, stop) => {}
                () = drain => {}
            }
            shared.background.forget(&session, id);
            desk.process_ended(group);
            ended.cancel();
        });
        id
    }

    /// Returns what a session left running, oldest first.
    pub fn background(&self, session: &SessionId) -> Vec<BackgroundProcess> {
        let state = self.shared.background.lock();
        state.sessions.get(session).into_iter().flatten().map(|entry| entry.process.clone()).collect()
    }

    /// Returns the newest output of a background process since its command ended (at most 16 KB); none when it is not
    /// there.
    pub fn background_output(&self, session: &SessionId, id: BackgroundId) -> Option<String> {
        let state = self.shared.background.lock();
        let entry = state.sessions.get(session)?.iter().find(|entry| entry.process.id == id)?;
        Some(String::from_utf8_lossy(&lock(&entry.tail).0).into_owned())
    }

    /// Ends a background process and waits until it is gone; false when there is none of this id.
    pub async fn stop(&self, session: &SessionId, id: BackgroundId) -> bool {
        let ended = self.shared.background.ask_to_stop(session, Some(id));
        for one in &ended {
            one.cancelled().await;
        }
        !ended.is_empty()
    }

    /// Ends everything a session left running, also what left its group, and waits until it is gone.
    pub async fn stop_all(&self, session: &SessionId) {
        for one in self.shared.background.ask_to_stop(session, None) {
            one.cancelled().await;
        }
        let session = session.clone();
        let strays = tokio::task::spawn_blocking(move || marked(SESSION, session.as_str()));
        kill(&strays.await.unwrap_or_default());
    }

    /// Ends what all sessions left running: for an orderly end of the service.
    pub async fn shut_down(&self) {
        let sessions: Vec<SessionId> = self.shared.background.lock().sessions.keys().cloned().collect();
        futures::future::join_all(sessions.iter().map(|session| self.stop_all(session))).await;
    }
}

impl Background {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn ask_to_stop(&self, session: &SessionId, id: Option<BackgroundId>) -> Vec<CancellationToken> {
        let state = self.lock();
        let entries = state.sessions.get(session).into_iter().flatten();
        let meant = entries.filter(|entry| id.is_none_or(|id| entry.process.id == id));
        meant.inspect(|entry| entry.stop.cancel()).map(|entry| entry.ended.clone()).collect()
    }

    fn forget(&self, session: &SessionId, id: BackgroundId) {
        let mut state = self.lock();
        if let Some(entries) = state.sessions.get_mut(session) {
            entries.retain(|entry| entry.process.id != id);
            if entries.is_empty() {
                state.sessions.remove(session);
            }
        }
    }
}

/// The newest bytes of an output.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if let Some(surplus) = self.0.len().checked_sub(TAIL) {
            self.0.drain(..surplus);
        }
    }
}

/// Returns when nothing of the child is left, or it was ended because somebody asked.
async fn watch(mut child: Child, stop: CancellationToken) {
    let (mut wait, longest) = LOOK;
    loop {
        tokio::select! {
            () = stop.cancelled() => return child.end(GRACE).await,
            () = tokio::time::sleep(wait) => {}
        }
        let looked = tokio::task::spawn_blocking(move || {
            let gone = child.bury();
            (child, gone)
        });
        match looked.await {
            Ok((back, false)) => child = back,
            // A panic has dropped the child, and with it its processes.
            Ok((_, true)) | Err(_) => return,
        }
        wait = (wait * 2).min(longest);
    }
}

/// Reads for ever.
async fn drain(output: Option<pipe::Receiver>, tail: &Mutex<Tail>) {
    if let Some(mut output) = output {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = output.read(&mut buffer).await {
            lock(tail).push(buffer.get(..read).unwrap_or_default());
        }
    }
    std::future::pending().await
}

fn kill(strays: &[Living]) {
    for stray in strays {
        signal_process(stray.pid, nix::sys::signal::Signal::SIGKILL);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
