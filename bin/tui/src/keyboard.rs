//! What the terminal says: keys, pastes, changes of its size, and that it is gone.
//!
//! crossterm reads in a thread of its own here and not through its stream: on a terminal that is gone its reader reads
//! the error over and over and never returns, on whichever thread it runs.

use std::thread;

use crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// How many events may wait; a person who is faster waits.
const WAITING: usize = 64;

/// The events of the terminal, until it is gone.
pub struct Keyboard {
    events: mpsc::Receiver<Event>,
    gone: mpsc::Receiver<()>,
}

impl Keyboard {
    /// Begins to read. The threads end with the process, as what they wait in can't be interrupted.
    pub fn read() -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel(WAITING);
        thread::Builder::new().name("keyboard".into()).spawn(move || {
            while let Ok(event) = event::read()
                && sender.blocking_send(event).is_ok()
            {}
        })?;
        let (end, gone) = mpsc::channel(1);
        thread::Builder::new().name("hang-up".into()).spawn(move || {
            wait_for_hang_up();
            drop(end);
        })?;
        Ok(Self { events, gone })
    }

    /// Returns the next event, or none when the terminal is gone. Can be given up at any time.
    pub async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            _ = self.gone.recv() => None,
            event = self.events.recv() => event,
        }
    }
}

#[cfg(unix)]
fn wait_for_hang_up() {
    use std::os::fd::AsFd;

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    let stdin = std::io::stdin();
    // A hang-up is told though nothing is asked for.
    let mut terminal = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    while poll(&mut terminal, PollTimeout::NONE) == Err(Errno::EINTR) {}
}

/// Elsewhere a console that is closed ends its processes.
#[cfg(not(unix))]
fn wait_for_hang_up() {
    loop {
        thread::park();
    }
}
