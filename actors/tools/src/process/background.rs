//! What commands left running on purpose (`server &`): kept by session, owned, and ended with it.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anstream::adapter::StripBytes;
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

/// Bytes kept of an output, its newest.
const TAIL: usize = 64 * 1024;

/// What the ids of background processes begin with.
const PREFIX: &str = "prc_";

/// Names a background process: `prc_` and twelve hexadecimal digits, made of the time it was left running, so that
/// the same never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackgroundId(pub u64);

impl BackgroundId {
    /// Returns the id of this text; none for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == 12)?;
        u64::from_str_radix(digits, 16).ok().map(Self)
    }
}

impl fmt::Display for BackgroundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:012x}", self.0)
    }
}

/// A process group that outlived its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// What [`Processes::stop`] takes.
    pub id: BackgroundId,
    /// Its group.
    pub group: ProcessGroup,
    /// How it came about.
    pub left: Left,
}

/// How a process came to be left running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The command that started it.
    pub command: String,
    /// Where.
    pub directory: PathBuf,
    /// When the command started, in milliseconds since the epoch.
    pub started_ms: u64,
    /// What the command printed up to its end; the newest of it is enough.
    pub said: String,
}

/// A part of an output, without escape codes. Places are counted in bytes from where what is kept of it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// Where it begins: later than asked for, if what was there is not kept any more.
    pub start: u64,
    /// Where it ends: what to ask from the next time.
    pub end: u64,
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
        mut left: Left,
        child: Child,
        output: Option<pipe::Receiver>,
        desk: Arc<dyn Desk>,
    ) -> BackgroundId {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let tail = Arc::new(Mutex::new(Tail::of(&std::mem::take(&mut left.said))));
        let id = {
            let mut state = self.shared.background.lock();
            // Twelve digits of a time in ms and a count within it, as in the ids of the wire.
            state.last = (state.last + 1).max(left.started_ms << 12 & 0xffff_ffff_ffff);
            let id = BackgroundId(state.last);
            let process = BackgroundProcess { id, group: child.group(), left };
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

    /// Returns the output of a background process from a place on, as far as it is kept (the newest 64 KB); none when
    /// there is no such process.
    pub fn background_output(&self, session: &SessionId, id: BackgroundId, from: u64) -> Option<Excerpt> {
        let state = self.shared.background.lock();
        let entry = state.sessions.get(session)?.iter().find(|entry| entry.process.id == id)?;
        let excerpt = lock(&entry.tail).from(from);
        Some(excerpt)
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

/// The newest bytes of an output, escape codes stripped.
#[derive(Default)]
struct Tail {
    strip: StripBytes,
    bytes: Vec<u8>,
    /// Bytes that came before them.
    before: u64,
}

impl Tail {
    fn of(said: &str) -> Self {
        let mut tail = Self::default();
        tail.push(said.as_bytes());
        tail
    }

    fn push(&mut self, bytes: &[u8]) {
        let mut strip = std::mem::take(&mut self.strip);
        for piece in strip.strip_next(bytes) {
            self.bytes.extend_from_slice(piece);
        }
        self.strip = strip;
        if let Some(surplus) = self.bytes.len().checked_sub(TAIL) {
            self.bytes.drain(..surplus);
            self.before += surplus as u64;
        }
    }

    fn from(&self, place: u64) -> Excerpt {
        let at = usize::try_from(place.saturating_sub(self.before)).unwrap_or(usize::MAX).min(self.bytes.len());
        let text = String::from_utf8_lossy(self.bytes.get(at..).unwrap_or_default()).into_owned();
        Excerpt { text, start: self.before + at as u64, end: self.before + self.bytes.len() as u64 }
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_output_is_read_on_from_where_one_left_off() {
        let mut tail = Tail::of("\x1b[31mup\x1b[0m\n");
        assert_eq!(tail.from(0), Excerpt { text: "up\n".into(), start: 0, end: 3 });
        tail.push(b"more");
        assert_eq!(tail.from(3), Excerpt { text: "more".into(), start: 3, end: 7 });
        assert_eq!(tail.from(9), Excerpt { text: String::new(), start: 7, end: 7 });
        tail.push(&vec![b'x'; TAIL]);
        let kept = tail.from(3);
        assert_eq!((kept.start, kept.end, kept.text.len()), (7, 7 + TAIL as u64, TAIL));
    }

    #[test]
    fn an_id_survives_its_text() {
        let id = BackgroundId(0x18f2_0000_1001);
        assert_eq!(id.to_string(), "prc_18f200001001");
        assert_eq!(BackgroundId::parse(&id.to_string()), Some(id));
        for wrong in ["", "prc_", "1", "prc_xxxxxxxxxxxx", "ses_18f200001001"] {
            assert_eq!(BackgroundId::parse(wrong), None);
        }
    }
}
