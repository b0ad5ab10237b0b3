//! The owner of child processes: a process of its own that ends them when the service is gone, however it went.
//!
//! `troupe guard` is started by [`crate::process::Processes::start`] in its own session, with the read end of a pipe
//! as its standard input. The service holds the write end; children write their group to it before they run their
//! program, the service writes when a group has ended. When the pipe closes, the guard kills every group not reported
//! ended and, where the system tells environments, every process that carries the owner's marker. Then it ends.

use std::collections::HashMap;
use std::io::{self, Read};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::process::{OWNER, OWNER_OF_GUARD, ProcessGroup, Record, marked, members, signal_process, start_time};

/// Rounds of killing at most, [`PAUSE`] apart: a process may be about to fork while it is looked for.
const ROUNDS: usize = 30;
const PAUSE: Duration = Duration::from_millis(20);

/// Guards until standard input ends, then kills what is left. Call it first thing in the process, before threads.
pub fn run() -> io::Result<()> {
    ignore_the_terminal()?;
    let owner = std::env::var(OWNER_OF_GUARD).unwrap_or_default();
    let mut book = Book::default();
    book.read(io::stdin().lock());
    book.end_all(&owner);
    Ok(())
}

/// Lets only the end of the service end the guard.
fn ignore_the_terminal() -> io::Result<()> {
    for it in [
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ] {
        // SAFETY: ignoring runs no code of ours.
        unsafe { signal(it, SigHandler::SigIgn) }?;
    }
    Ok(())
}

/// The groups not reported ended, each with its leader's start time where that was seen.
#[derive(Debug, Default)]
struct Book {
    groups: HashMap<ProcessGroup, Option<u64>>,
}

impl Book {
    /// Reads records until there are no more.
    fn read(&mut self, mut from: impl Read) {
        let mut record = [0; Record::SIZE];
        // Any error means that nobody can tell us anything any more, which is the end we wait for.
        while from.read_exact(&mut record).is_ok() {
            match Record::from_bytes(record) {
                Some(Record::Started(group)) => {
                    // Said twice, by the child and then by the service, when the leader may be gone already.
                    let seen = start_time(group.0);
                    let start = self.groups.entry(group).or_default();
                    *start = seen.or(*start);
                }
                Some(Record::Ended(group)) => drop(self.groups.remove(&group)),
                None => {}
            }
        }
    }

    /// Kills what is left, until nothing is.
    fn end_all(&self, owner: &str) {
        let me = std::process::id() as i32;
        for _ in 0..ROUNDS {
            let mut left = false;
            for (group, start) in &self.groups {
                if !is_another(*group, *start) && !members(*group).is_empty() {
                    left |= group.signal(Signal::SIGKILL);
                }
            }
            if !owner.is_empty() {
                for stray in marked(OWNER, owner) {
                    if stray.pid != me {
                        left |= signal_process(stray.pid, Signal::SIGKILL);
                    }
                }
            }
            if !left {
                return;
            }
            pause();
        }
    }
}

/// Returns whether the group's number was given to somebody else since: its leader is a younger process.
fn is_another(group: ProcessGroup, start: Option<u64>) -> bool {
    match (start, start_time(group.0)) {
        (Some(then), Some(now)) => then != now,
        _ => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "the guard is a process of one thread that has nothing else to do")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
pub(crate) mod tests;
