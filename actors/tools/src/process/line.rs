//! The line to the guard: a pipe whose other end tells the guard, by closing, that the service is gone.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use tokio::process::Command;
use tokio::time::Instant;

use super::group::ProcessGroup;

/// The variable that tells the guard whose children it guards. Not [`super::OWNER`]: the guard is none of them.
pub(crate) const OWNER_OF_GUARD: &str = "TROUPE_GUARD";

/// How often a guard that dies is started again within [`WINDOW`].
const RESTARTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);

/// What is said on the line: eight bytes, well below what a pipe passes on in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A group has come into being. Said by its leader before it runs its program.
    Started(ProcessGroup),
    /// Nothing of a group is left.
    Ended(ProcessGroup),
}

impl Record {
    /// Bytes of a record.
    pub(crate) const SIZE: usize = 8;

    /// Returns the record's bytes. Runs between fork and exec, so it may not allocate.
    pub(crate) const fn to_bytes(self) -> [u8; Self::SIZE] {
        let (kind, group) = match self {
            Self::Started(group) => (b's', group),
            Self::Ended(group) => (b'e', group),
        };
        let [a, b, c, d] = group.0.to_le_bytes();
        [kind, 0, 0, 0, a, b, c, d]
    }

    /// Returns the record in these bytes; none when they are none of ours.
    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let [kind, _, _, _, a, b, c, d] = bytes;
        let group = ProcessGroup(i32::from_le_bytes([a, b, c, d]));
        match kind {
            b's' => Some(Self::Started(group)),
            b'e' => Some(Self::Ended(group)),
            _ => None,
        }
    }
}

/// The service's end of the line, and the list of groups the guard has to know.
pub(super) struct Line {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    program: PathBuf,
    args: Vec<String>,
    owner: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pipe: Option<Arc<OwnedFd>>,
    /// Groups not known to have ended; the number tells a group from a later one with the same id.
    live: HashMap<ProcessGroup, u64>,
    next: u64,
    /// Counts the guards that were started.
    guards: u64,
    /// The running one's process id.
    guard: i32,
    restarts: VecDeque<Instant>,
}

impl Line {
    /// Returns a line to nobody.
    pub(super) fn none() -> Self {
        Self { inner: None }
    }

    /// Starts the guard.
    pub(super) fn start(program: &Path, args: &[&str], owner: &str) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            program: program.to_owned(),
            args: args.iter().map(|&a| a.to_owned()).collect(),
            owner: owner.to_owned(),
            state: Mutex::default(),
        });
        Inner::launch(&inner, &mut inner.lock())?;
        Ok(Self { inner: Some(inner) })
    }

    /// Starts the guard again if nobody reads the line.
    pub(super) fn revive(&self) -> io::Result<()> {
        let Some(inner) = &self.inner else { return Ok(()) };
        let mut state = inner.lock();
        let deaf = state.pipe.as_deref().is_none_or(|pipe| tell(pipe, Record::Ended(ProcessGroup(0))).is_err());
        if deaf { Inner::relaunch(inner, &mut state) } else { Ok(()) }
    }

    /// Makes the command's child lead a session of its own and tell the guard before it runs its program.
    pub(super) fn enlist(&self, command: &mut Command) {
        let pipe = self.inner.as_ref().and_then(|inner| inner.lock().pipe.clone());
        // SAFETY: the closure runs between fork and exec. It calls only functions that are safe in a signal handler
        // and touches no memory but its own; `pipe` keeps the descriptor open as long as the command lives.
        unsafe {
            command.pre_exec(move || {
                lead_a_session()?;
                pipe.as_ref().map_or(Ok(()), |pipe| announce(pipe.as_raw_fd()))
            });
        }
    }

    /// Puts a group on the list; the number goes to [`Self::ended`]. The child has told the guard already, but perhaps
    /// one that died since.
    pub(super) fn started(&self, group: ProcessGroup) -> u64 {
        let Some(inner) = &self.inner else { return 0 };
        let mut state = inner.lock();
        state.next += 1;
        let number = state.next;
        state.live.insert(group, number);
        state.say(Record::Started(group));
        number
    }

    /// Returns the process id of the guard, and how many there were so far.
    #[cfg(test)]
    pub(super) fn guard(&self) -> (i32, u64) {
        let state = self.inner.as_ref().unwrap().lock();
        (state.guard, state.guards)
    }

    /// Closes the line as the service's end would.
    #[cfg(test)]
    pub(super) fn hang_up(&self) {
        self.inner.as_ref().unwrap().lock().pipe = None;
    }

    /// Makes the line one that nobody reads.
    #[cfg(test)]
    pub(super) fn deafen(&self) {
        let (_, writer) = io::pipe().unwrap();
        self.inner.as_ref().unwrap().lock().pipe = Some(Arc::new(writer.into()));
    }

    /// Takes a group off the list.
    pub(super) fn ended(&self, group: ProcessGroup, number: u64) {
        let Some(inner) = &self.inner else { return };
        let mut state = inner.lock();
        if state.live.get(&group) == Some(&number) {
            state.live.remove(&group);
            state.say(Record::Ended(group));
        }
    }
}

impl State {
    fn say(&self, record: Record) {
        if let Some(pipe) = &self.pipe
            && let Err(error) = tell(pipe, record)
        {
            // A dead guard's successor is told everything.
            tracing::debug!(%error, "guard not told");
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(this: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::try_current().map_err(io::Error::other)?;
        let (reader, writer) = io::pipe()?;
        let writer = OwnedFd::from(writer);
        // A guard that doesn't read must not hold up a spawn for ever.
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut command = Command::new(&this.program);
        command
            .args(&this.args)
            .env_clear()
            .env(OWNER_OF_GUARD, &this.owner)
            .current_dir("/")
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: setsid and signal are safe between fork and exec.
        unsafe {
            command.pre_exec(lead_a_session);
        }
        let guard = command.spawn()?;
        state.guards += 1;
        state.guard = guard.id().unwrap_or_default() as i32;
        let mut known = File::from(writer.try_clone()?);
        for group in state.live.keys() {
            known.write_all(&Record::Started(*group).to_bytes())?;
        }
        state.pipe = Some(Arc::new(writer));
        runtime.spawn(Self::watch(Arc::downgrade(this), guard, state.guards));
        Ok(())
    }

    fn relaunch(this: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let now = Instant::now();
        while state.restarts.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            state.restarts.pop_front();
        }
        if state.restarts.len() >= RESTARTS {
            return Err(io::Error::other("the guard of child processes keeps ending; no more are started for now"));
        }
        state.restarts.push_back(now);
        tracing::warn!(groups = state.live.len(), "guard ended, starting another");
        Self::launch(this, state)
    }

    /// Waits for a guard's end and starts another, unless the line itself is gone or somebody was faster.
    async fn watch(line: Weak<Self>, mut guard: tokio::process::Child, number: u64) {
        let _ = guard.wait().await;
        let Some(line) = line.upgrade() else { return };
        let mut state = line.lock();
        if state.guards == number
            && let Err(error) = Self::relaunch(&line, &mut state)
        {
            tracing::error!(%error, "no guard for child processes");
        }
    }
}

/// Makes this process lead a session and a group, without a terminal, and gives it the ordinary signals back.
fn lead_a_session() -> io::Result<()> {
    // SAFETY: both are safe in a signal handler.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_DFL);
        }
        if libc::setsid() == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Says, in a child before its program runs, that its group has come into being.
fn announce(pipe: RawFd) -> io::Result<()> {
    // SAFETY: getpid, signal and write are safe in a signal handler; the bytes are on the stack.
    unsafe {
        let record = Record::Started(ProcessGroup(libc::getpid())).to_bytes();
        // Without a reader the write would kill the child, which looks like a program that ended early.
        let before = libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let written = libc::write(pipe, record.as_ptr().cast(), record.len());
        let outcome = if written == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::signal(libc::SIGPIPE, before);
        outcome
    }
}

fn tell(pipe: &OwnedFd, record: Record) -> io::Result<()> {
    nix::unistd::write(pipe, &record.to_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_record_comes_back_as_it_went() {
        for record in [Record::Started(ProcessGroup(70_000)), Record::Ended(ProcessGroup(1))] {
            assert_eq!(Record::from_bytes(record.to_bytes()), Some(record));
        }
        assert_eq!(Record::from_bytes([0; Record::SIZE]), None);
    }
}
