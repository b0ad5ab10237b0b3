//! Child processes that never outlive their owner.
//!
//! Each child leads a session and so a process group of its own, without a controlling terminal. Four things see to
//! it that nothing of a group is left behind:
//! - its [`Child`] handle ends the group, at the latest when it is dropped;
//! - what a command left running on purpose is kept by session ([`Processes::background`]) and ended with it;
//! - the guard ([`crate::guard`]) ends every group not reported ended when this process is gone, however it went;
//! - [`reap()`] ends what a former run recorded, when both have failed.
//!
//! A process that left its group (`setsid`) is found by what all children carry in their environment: [`OWNER`],
//! [`CALL`] and [`SESSION`]. That needs Linux's `/proc`; elsewhere only groups are seen.

mod background;
mod census;
mod child;
mod group;
mod line;
mod reap;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use protocol::SessionId;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use background::{BackgroundId, BackgroundProcess, Excerpt, Left};
pub use census::{boot_id, start_time};
pub use child::Child;
pub use group::ProcessGroup;
pub use reap::{RecordedGroup, reap};

pub(crate) use census::{marked, members};
pub(crate) use group::signal_process;
pub(crate) use line::{OWNER_OF_GUARD, Record};

use crate::context::Effects;
use background::Background;
use line::Line;

/// The variable that names the owner of a process: `<data directory id>:<boot id of the service>`.
pub const OWNER: &str = "TROUPE_OWNER";

/// The variable that names the tool call a process belongs to.
pub const CALL: &str = "TROUPE_CALL";

/// The variable that names the session a process belongs to.
pub const SESSION: &str = "TROUPE_SESSION";

/// What of our own environment no child is given: with these a model could approve its own calls over HTTP.
const SECRETS: [&str; 2] = ["OPENCODE_SERVER_PASSWORD", "TROUPE_SERVER_PASSWORD"];

/// Starts child processes in groups of their own and reports each to the guard. Clones share everything.
///
/// When the last clone is dropped the guard ends what is left.
#[derive(Clone)]
pub struct Processes {
    shared: Arc<Shared>,
}

/// What all clones, and all handles, share.
struct Shared {
    /// Ties children to this run of the service; none without a guard.
    owner: Option<String>,
    line: Line,
    background: Background,
    /// Most commands at once; who waits for a place goes first come, first served.
    places: Arc<Semaphore>,
}

/// A child to start. Its standard input is `/dev/null`; its output and errors come through one pipe.
#[derive(Clone, Debug)]
pub struct Spec {
    /// What to run: a path, or a name to look up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where.
    pub cwd: PathBuf,
    /// Variables besides the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// The session it belongs to.
    pub session: SessionId,
    /// The call it belongs to.
    pub call: String,
}

impl Processes {
    /// Returns a starter whose children `program guard` watches over; the program must call [`crate::guard::run`]
    /// for that argument. `owner` is `<data directory id>:<boot id>`; `most` is how many commands may run at once (0: no
    /// bound).
    ///
    /// Needs a tokio runtime around it. Errors when the guard can't be started.
    pub fn start(program: &Path, owner: String, most: u32) -> io::Result<Self> {
        Self::guarded(program, &["guard"], owner, most)
    }

    /// Returns a starter without a guard, for tests: children get groups of their own, and handles end them.
    pub fn none() -> Self {
        Self::of(None, Line::none(), 0)
    }

    pub(crate) fn guarded(program: &Path, args: &[&str], owner: String, most: u32) -> io::Result<Self> {
        let line = Line::start(program, args, &owner)?;
        Ok(Self::of(Some(owner), line, most))
    }

    fn of(owner: Option<String>, line: Line, most: u32) -> Self {
        let most = usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(Semaphore::MAX_PERMITS);
        let places = Arc::new(Semaphore::new(most));
        Self { shared: Arc::new(Shared { owner, line, background: Background::default(), places }) }
    }

    /// Waits for a place for a command, which is held while it runs. What it leaves running holds none.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        self.shared.places.clone().acquire_owned().await.ok()
    }

    /// Starts a child. It is on the guard's list before its first instruction.
    pub fn spawn(&self, _begun: &Effects, spec: Spec) -> io::Result<Child> {
        match self.try_spawn(&spec) {
            // What the child says when nobody reads the guard's pipe: it did not run.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.shared.line.revive()?;
                self.try_spawn(&spec)
            }
            done => done,
        }
    }

    fn try_spawn(&self, spec: &Spec) -> io::Result<Child> {
        let (reader, writer) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(reader.into())?;
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .current_dir(&spec.cwd)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        self.prepare(&mut command, Some(&spec.session), &spec.call);
        let process = command.spawn()?;
        // The command holds our copies of the write end; with them open the pipe would never end.
        drop(command);
        Ok(self.adopt(process, &spec.call)?.with_output(output))
    }

    /// Makes a command one of ours: own session and group, markers, on the guard's list. For children whose pipes
    /// are somebody else's business (MCP servers); hand the started process to [`Self::adopt`].
    pub fn prepare(&self, command: &mut Command, session: Option<&SessionId>, call: &str) {
        for secret in SECRETS {
            command.env_remove(secret);
        }
        if let Some(owner) = &self.shared.owner {
            command.env(OWNER, owner);
        }
        if let Some(session) = session {
            command.env(SESSION, session.as_str());
        }
        command.env(CALL, call);
        self.shared.line.enlist(command);
    }

    /// Returns the handle of a process started from a command that went through [`Self::prepare`].
    pub fn adopt(&self, process: tokio::process::Child, call: &str) -> io::Result<Child> {
        Child::new(self.shared.clone(), process, call)
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("owner", &self.shared.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
