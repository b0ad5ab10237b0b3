//! Time comes in from outside, so that a test can repeat a run exactly.

use std::time::{SystemTime, UNIX_EPOCH};

/// Wall-clock time.
pub trait Clock: Send + Sync {
    /// Returns milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}
