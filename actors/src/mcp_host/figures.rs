//! What all servers did so far, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What all servers did so far.
#[derive(Debug, Default)]
pub struct Figures {
    pub(super) junk: Arc<AtomicU64>,
    starts: AtomicU64,
    connected: Arc<AtomicU64>,
}

impl Figures {
    /// Returns how many lines and events of servers were no messages.
    pub fn junk(&self) -> u64 {
        self.junk.load(Ordering::Relaxed)
    }

    /// Returns how often servers were started.
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Returns how many are connected.
    pub fn connections(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    pub(super) fn started(&self) {
        self.starts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connected(&self) -> impl Drop + use<> {
        struct Connected(Arc<AtomicU64>);
        impl Drop for Connected {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.connected.fetch_add(1, Ordering::Relaxed);
        Connected(self.connected.clone())
    }
}
