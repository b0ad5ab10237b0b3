//! How many requests at once one account bears. Pure.
//!
//! Vendors tell nobody. So it is probed: each request that is borne while all places are taken makes room for half a
//! request more. The first refusal closes the window to what was running beside it; from then on it opens by one for
//! each round that is borne, and only after a while without a refusal.

use std::time::{Duration, Instant};

/// The first guess.
const START: f64 = 16.0;
/// How long nothing is tried after a refusal.
const HOLD: Duration = Duration::from_secs(30);
/// How long an account is left alone that refused its only request; doubles with each in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause, and the longest that a vendor may ask all for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The window of one account.
#[derive(Debug)]
pub struct Window {
    size: f64,
    running: u32,
    /// When something was refused last.
    refused: Option<Instant>,
    refusals_in_a_row: u32,
    /// Nobody goes before then.
    closed_until: Option<Instant>,
    used: Instant,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: START, running: 0, refused: None, refusals_in_a_row: 0, closed_until: None, used: Instant::now() }
    }
}

impl Window {
    /// Returns whether one more may go.
    pub fn has_room(&self, now: Instant) -> bool {
        self.opens_at(now).is_none() && f64::from(self.running) < self.size.floor()
    }

    /// Returns when it opens again, when it is closed.
    pub fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.closed_until.filter(|until| *until > now)
    }

    /// One goes.
    pub fn enter(&mut self) {
        self.running += 1;
    }

    /// One of those that run was not refused.
    pub fn borne(&mut self, now: Instant) {
        self.used = now;
        self.refusals_in_a_row = 0;
        if f64::from(self.running) < self.size.floor() {
            return;
        }
        match self.refused {
            None => self.size += 0.5,
            Some(refused) if now.duration_since(refused) > HOLD => self.size += 1.0 / self.size,
            Some(_) => {}
        }
    }

    /// One is over.
    pub fn left(&mut self, now: Instant) {
        self.used = now;
        self.running = self.running.saturating_sub(1);
    }

    /// One was refused; the vendor may have said for how long.
    pub fn refused(&mut self, after: Option<Duration>, now: Instant) {
        self.left(now);
        self.refused = Some(now);
        self.size = self.size.min(f64::from(self.running)).max(1.0);
        let pause = match after {
            Some(after) => Some(after),
            None if self.running == 0 => Some(FIRST_PAUSE * 2u32.saturating_pow(self.refusals_in_a_row.min(10))),
            None => None,
        };
        self.refusals_in_a_row += 1;
        if let Some(pause) = pause {
            let until = now + pause.min(LONGEST_PAUSE);
            self.closed_until = Some(self.closed_until.map_or(until, |known| known.max(until)));
        }
    }

    /// Returns whether nothing runs.
    pub fn is_idle(&self) -> bool {
        self.running == 0
    }

    /// Returns when it last had something to do.
    pub fn used(&self) -> Instant {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Plays an account that bears `limit` at once, with many who wait; returns sent, refused and most at once.
    fn play(limit: u32, requests: u32) -> (u32, u32, u32) {
        let mut now = Instant::now();
        let mut window = Window::default();
        let (mut waiting, mut sent, mut refused, mut most) = (requests, 0, 0, 0);
        while waiting > 0 || window.running > 0 {
            let mut round = Vec::new();
            let before = window.running;
            while waiting > 0 && window.has_room(now) {
                window.enter();
                waiting -= 1;
                sent += 1;
                round.push(before + u32::try_from(round.len()).expect("few") < limit);
            }
            most = most.max(window.running);
            for borne in &round {
                if *borne {
                    window.borne(now);
                } else {
                    window.refused(None, now);
                    refused += 1;
                    waiting += 1;
                }
            }
            now += Duration::from_millis(100);
            if round.is_empty() {
                window.left(now);
            }
        }
        (sent, refused, most)
    }

    #[test]
    fn an_account_that_bears_anything_is_soon_used_in_full() {
        let (sent, refused, most) = play(u32::MAX, 1_000);
        assert_eq!((sent, refused), (1_000, 0));
        assert!(most > 500, "{most}");
    }

    #[test]
    fn few_are_refused_by_an_account_that_bears_twenty() {
        let (sent, refused, most) = play(20, 200);
        assert!(refused * 20 < sent, "{refused} of {sent}");
        assert!(most >= 20);
    }

    #[test]
    fn what_a_vendor_asks_for_holds_for_all_of_its_account() {
        let (mut window, now) = (Window::default(), Instant::now());
        window.enter();
        window.refused(Some(Duration::from_secs(5)), now);
        assert!(!window.has_room(now + Duration::from_secs(4)));
        assert!(window.has_room(now + Duration::from_secs(6)));
    }

    proptest! {
        #[test]
        fn whatever_an_account_bears_all_get_through(limit in 1u32..60, requests in 1u32..300) {
            let (sent, refused, _) = play(limit, requests);
            prop_assert_eq!(sent - refused, requests);
            prop_assert!(refused <= 16 + limit, "{}", refused);
        }
    }
}
