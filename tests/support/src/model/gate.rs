//! Holds a stream until a test lets it go on.

use std::sync::Arc;

use tokio::sync::watch;

use crate::PATIENCE;

/// A gate, closed at first. Clones are the same gate. Once open it stays open.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Sides>);

#[derive(Debug, Default)]
struct Sides {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Gate {
    /// Returns a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets pass what waits here and what comes later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until a stream has come to this gate, for at most [`PATIENCE`].
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until `count` streams have come to this gate in all, for at most [`PATIENCE`].
    pub async fn reached_by(&self, count: usize) {
        let mut arrived = self.0.arrived.subscribe();
        let waited = tokio::time::timeout(PATIENCE, arrived.wait_for(|n| *n >= count)).await.is_ok();
        let seen = *self.0.arrived.borrow();
        assert!(waited, "{seen} of {count} streams came to the gate within {PATIENCE:?}");
    }

    /// Comes to the gate and waits until it is open.
    pub(crate) async fn pass(&self) {
        self.0.arrived.send_modify(|n| *n += 1);
        // The sender lives in `self`, so the channel can't close.
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }
}
