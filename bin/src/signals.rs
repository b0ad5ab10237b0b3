//! The signals that end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// What a process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A person pressed Ctrl-C.
    Interrupt,
    /// It has to end.
    Terminate,
    /// Its terminal is gone.
    HangUp,
}

/// Waits for signals; while it lives they end nothing by themselves.
pub struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Stops {
    /// Begins to wait.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Returns the next.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.hang_up.recv() => Stop::HangUp,
        }
    }
}

impl From<Stop> for Exit {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Interrupt => Self::Interrupted,
            Stop::Terminate => Self::Terminated,
            Stop::HangUp => Self::HungUp,
        }
    }
}
