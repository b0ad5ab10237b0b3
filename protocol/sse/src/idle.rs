//! How long nothing has come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Measures the time since something came last.
pub struct Idle {
    since: Instant,
    /// Set for some time before the limit's end and moved only when it fires, so that an event costs no timer work.
    alarm: Pin<Box<Sleep>>,
}

impl Idle {
    /// Begins now. `limit` is what it will likely be polled with.
    pub fn new(limit: Duration) -> Self {
        let since = Instant::now();
        Self { since, alarm: Box::pin(sleep_until(since + limit)) }
    }

    /// Begins again.
    pub fn restart(&mut self) {
        self.since = Instant::now();
    }

    /// Returns whether it has been longer than `limit`.
    pub fn is_over(&self, limit: Duration) -> bool {
        self.since.elapsed() > limit
    }

    /// Waits until it has been as long as `limit`, which may be another one in each call.
    pub fn poll(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let end = self.since + limit;
        if self.alarm.deadline() > end {
            self.alarm.as_mut().reset(end);
        }
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(end);
        }
    }
}
