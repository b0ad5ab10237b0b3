//! The order in which calls ask: the model's, whatever each has to find out first; and one question at a time about a
//! call that is made again and again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most time a call waits for those before it to ask. One that takes longer before it asks is passed.
const PATIENCE: Duration = Duration::from_millis(250);

/// Hands out places in the line of those that ask.
pub struct Order {
    last: Option<CancellationToken>,
    about_loops: Arc<Semaphore>,
}

impl Default for Order {
    fn default() -> Self {
        Self { last: None, about_loops: Arc::new(Semaphore::new(1)) }
    }
}

impl Order {
    /// Returns the place of the next call.
    pub fn next(&mut self) -> Place {
        let passed = CancellationToken::new();
        let before = self.last.replace(passed.clone());
        Place { before, _passes: Arc::new(passed.clone().drop_guard()), passed, about_loops: self.about_loops.clone() }
    }
}

/// A call's place. When the last copy of it goes, the next call may ask.
#[derive(Clone)]
pub struct Place {
    before: Option<CancellationToken>,
    passed: CancellationToken,
    _passes: Arc<DropGuard>,
    about_loops: Arc<Semaphore>,
}

impl Place {
    /// Waits until the calls before this have asked, begun or ended.
    pub async fn reached(&self) {
        if let Some(before) = self.before.as_ref().filter(|_| !self.passed.is_cancelled()) {
            let _ = tokio::time::timeout(PATIENCE, before.cancelled()).await;
        }
    }

    /// Lets the next call ask.
    pub fn pass(&self) {
        self.passed.cancel();
    }

    /// Waits until nobody is being asked about a call that is made again and again.
    pub async fn ask_about_loop(&self) -> Option<OwnedSemaphorePermit> {
        self.about_loops.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_one_before_to_ask_or_to_go_but_not_for_ever() {
        let mut order = Order::default();
        let (first, second, third, fourth) = (order.next(), order.next(), order.next(), order.next());
        first.reached().await;
        first.pass();
        second.reached().await;
        drop(second);
        third.reached().await;
        let before = tokio::time::Instant::now();
        fourth.reached().await;
        assert_eq!(before.elapsed(), PATIENCE, "the third neither asked nor went");
    }
}
