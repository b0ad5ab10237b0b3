//! How long to wait before a server that died is started again, and when to leave it. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// First wait; doubles with each failure in a row.
const BASE: Duration = Duration::from_millis(200);
/// Longest wait.
const CAP: Duration = Duration::from_secs(10);
/// A life shorter than this counts as a failed start.
const SHORT: Duration = Duration::from_secs(3);
/// Most failures in a row.
const IN_A_ROW: u32 = 5;
/// Most deaths…
const DEATHS: usize = 30;
/// …within this time.
const WITHIN: Duration = Duration::from_secs(180);

/// What became of a server's starts.
#[derive(Debug, Default)]
pub struct Restarts {
    in_a_row: u32,
    deaths: VecDeque<Instant>,
}

impl Restarts {
    /// Notes that a start failed (`lived`: none), or that a server went away after a while. Returns how long to wait
    /// before the next start; none: it is given up.
    pub fn after(&mut self, lived: Option<Duration>, now: Instant) -> Option<Duration> {
        self.deaths.retain(|death| now.duration_since(*death) < WITHIN);
        self.deaths.push_back(now);
        self.in_a_row = if lived.is_some_and(|lived| lived >= SHORT) { 0 } else { self.in_a_row + 1 };
        if self.in_a_row >= IN_A_ROW || self.deaths.len() > DEATHS {
            return None;
        }
        Some(BASE.saturating_mul(1 << self.in_a_row.min(16)).min(CAP))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn waits(lives: &[Option<u64>], period: u64) -> Vec<Option<u64>> {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        let after = |life: &Option<u64>| {
            now += Duration::from_secs(period);
            restarts.after(life.map(Duration::from_secs), now).map(|wait| wait.as_millis() as u64)
        };
        lives.iter().map(after).collect()
    }

    #[test]
    fn starts_that_fail_in_a_row_come_slower_and_end() {
        assert_eq!(waits(&[None; 5], 1), [Some(400), Some(800), Some(1600), Some(3200), None]);
        assert_eq!(waits(&[Some(1), None, Some(2), None, Some(0)], 1).last(), Some(&None));
    }

    #[test]
    fn one_that_served_a_while_starts_again_soon() {
        assert_eq!(waits(&[None, None, Some(60), None], 60), [Some(400), Some(800), Some(200), Some(400)]);
        // Killed every five seconds for a minute, it stays.
        assert!(waits(&[Some(4); 12], 5).iter().all(|wait| *wait == Some(200)));
    }

    #[test]
    fn one_that_dies_again_and_again_ends_though_it_serves_in_between() {
        assert_eq!(waits(&[Some(3); 31], 4).last(), Some(&None));
    }
}
