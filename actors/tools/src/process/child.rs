//! The handle of a child: it ends the child's whole tree, at the latest when it is dropped.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::net::unix::pipe;
use tokio::process;
use tokio::time::Instant;

use super::census::{Living, Watch, marked, members};
use super::group::{ProcessGroup, signal_process};
use super::{CALL, Shared};

/// How often an ending tree is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How long a tree may take to go after KILL. More means that the kernel holds a process (a dead network disk).
const LAST: Duration = Duration::from_secs(2);

/// A running child, its group, and what strayed from it.
pub struct Child {
    shared: Arc<Shared>,
    group: ProcessGroup,
    /// Tells the group from a later one of the same id.
    number: u64,
    call: String,
    process: process::Child,
    output: Option<pipe::Receiver>,
    watch: Watch,
    /// Nothing is left and the guard knows.
    gone: bool,
}

impl Child {
    pub(super) fn new(shared: Arc<Shared>, process: process::Child, call: &str) -> io::Result<Self> {
        let Some(id) = process.id() else {
            return Err(io::Error::other("the child was waited for before it was handed over"));
        };
        let group = ProcessGroup(id as i32);
        let number = shared.line.started(group);
        let watch = Watch::new(group, call);
        Ok(Self { shared, group, number, call: call.to_owned(), process, output: None, watch, gone: false })
    }

    pub(super) fn with_output(mut self, output: pipe::Receiver) -> Self {
        self.output = Some(output);
        self
    }

    /// Returns the child's process group.
    pub fn group(&self) -> ProcessGroup {
        self.group
    }

    /// Returns the read end of its output and errors, once.
    pub fn take_output(&mut self) -> Option<pipe::Receiver> {
        self.output.take()
    }

    /// Returns the process itself, for its pipes.
    pub fn process(&mut self) -> &mut process::Child {
        &mut self.process
    }

    /// Waits until the leader has ended; others of its group may live on. Can be dropped and called again.
    pub async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Returns whether the group is known to the kernel: a cheap first look, that counts unburied dead too.
    pub fn group_exists(&self) -> bool {
        self.group.exists()
    }

    /// Returns whether anybody of the group, or with this call's marker, is alive. Reads the process list: some
    /// milliseconds on a busy machine, so not for every call of an actor.
    pub fn anyone_left(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_none()) || self.watch.anyone()
    }

    /// Says that nothing is left, if that is so.
    pub fn bury(&mut self) -> bool {
        if !self.gone && !self.anyone_left() {
            self.gone = true;
            self.shared.line.ended(self.group, self.number);
        }
        self.gone
    }

    /// Ends the tree: TERM, and KILL for what is left after `grace`. Returns when nothing is left, at the latest 2 s
    /// after the grace.
    pub async fn end(&mut self, grace: Duration) {
        // Stopped processes see a TERM only when they go on.
        self.signal(&[Signal::SIGTERM, Signal::SIGCONT]).await;
        let mut deadline = Instant::now() + grace;
        let mut killed = false;
        while !self.bury() {
            if Instant::now() >= deadline {
                if killed {
                    tracing::warn!(group = self.group.0, "processes survive KILL");
                    return;
                }
                killed = true;
                deadline += LAST;
            }
            if killed {
                // Again each time: somebody may have been born in between.
                self.signal(&[Signal::SIGKILL]).await;
            }
            // Reaps the leader as soon as it ends.
            let _ = tokio::time::timeout(LOOK, async {
                let _ = self.process.wait().await;
                std::future::pending::<()>().await;
            })
            .await;
        }
    }

    async fn signal(&self, signals: &[Signal]) {
        let strays = strays(self.group, &self.call).await;
        for signal in signals {
            if self.is_ours() {
                self.group.signal(*signal);
            }
            for stray in &strays {
                signal_process(stray.pid, *signal);
            }
        }
    }

    /// Returns whether the group's number still means our group: it can't be given away while the leader is not
    /// waited for, nor while a member lives.
    fn is_ours(&self) -> bool {
        self.process.id().is_some() || !members(self.group).is_empty()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        if self.process.id().is_some() {
            self.group.signal(Signal::SIGKILL);
        }
        let (shared, group, number) = (self.shared.clone(), self.group, self.number);
        let call = std::mem::take(&mut self.call);
        // Without a runtime the guard does the rest.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                clear(group, &call).await;
                shared.line.ended(group, number);
            });
        }
    }
}

/// Kills what is left of a group and a call until nothing is.
async fn clear(group: ProcessGroup, call: &str) {
    let mut watch = Watch::new(group, call);
    let deadline = Instant::now() + LAST;
    while watch.anyone() && Instant::now() < deadline {
        group.signal(Signal::SIGKILL);
        for stray in strays(group, call).await {
            signal_process(stray.pid, Signal::SIGKILL);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the living processes with the call's marker outside its group.
async fn strays(group: ProcessGroup, call: &str) -> Vec<Living> {
    let call = call.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        marked(CALL, &call).into_iter().filter(|p| p.group != group.0).collect::<Vec<_>>()
    });
    found.await.unwrap_or_default()
}
