//! What the writer has done so far, for whoever watches the service.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts since the start; written by the writer, read by anyone.
#[derive(Debug, Default)]
pub struct Meter {
    commits: AtomicU64,
    commands: AtomicU64,
    micros: AtomicU64,
    slowest_micros: AtomicU64,
}

/// What the [`Meter`] showed at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commits {
    /// Transactions.
    pub count: u64,
    /// Commands in them.
    pub commands: u64,
    /// How long they took together.
    pub took: Duration,
    /// How long the slowest took.
    pub slowest: Duration,
}

impl Meter {
    /// Counts a transaction.
    pub fn add(&self, commands: usize, took: Duration) {
        let micros = took.as_micros() as u64;
        self.commits.fetch_add(1, Relaxed);
        self.commands.fetch_add(commands as u64, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
        self.slowest_micros.fetch_max(micros, Relaxed);
    }

    /// Returns what it shows now.
    pub fn read(&self) -> Commits {
        Commits {
            count: self.commits.load(Relaxed),
            commands: self.commands.load(Relaxed),
            took: Duration::from_micros(self.micros.load(Relaxed)),
            slowest: Duration::from_micros(self.slowest_micros.load(Relaxed)),
        }
    }
}
