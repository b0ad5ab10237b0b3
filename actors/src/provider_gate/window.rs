//! How many requests at once one account bears. Pure.
//!
//! Vendors tell nobody. So it is probed: each request that is borne while all places are taken makes room for half a
//! request more. The first refusal closes the window to what was running beside it; from then on it opens by one for
//! each round that is borne, and only after a while without a refusal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use providers::ProviderError;

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
    /// By model: those that refused something.
    pauses: HashMap<Arc<str>, Pause>,
    used: Instant,
}

/// A vendor's refusal.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What it said.
    pub error: ProviderError,
    /// How long it wants a pause.
    pub after: Option<Duration>,
}

/// Why, and how long, nobody asks a model.
#[derive(Debug)]
pub struct Pause {
    /// The last refusal.
    error: ProviderError,
    /// Nobody goes before then.
    until: Instant,
    /// What the vendor asks for: it may be longer than it makes all wait.
    asked: Option<Instant>,
    in_a_row: u32,
}

impl Pause {
    /// Returns when it is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Returns the refusal that began it.
    pub fn error(&self) -> &ProviderError {
        &self.error
    }

    /// Returns whether the vendor asks for more than someone waits at most.
    pub fn is_longer_than(&self, longest: Duration, now: Instant) -> bool {
        self.asked.is_some_and(|asked| asked.saturating_duration_since(now) > longest)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { size: START, running: 0, refused: None, pauses: HashMap::new(), used: Instant::now() }
    }
}

impl Window {
    /// Returns whether one more may go to a model.
    pub fn has_room(&self, model: &str, now: Instant) -> bool {
        self.pause(model, now).is_none() && f64::from(self.running) < self.size.floor()
    }

    /// Returns the pause of a model.
    pub fn pause(&self, model: &str, now: Instant) -> Option<&Pause> {
        self.pauses.get(model).filter(|pause| pause.until > now)
    }

    /// One goes.
    pub fn enter(&mut self) {
        self.running += 1;
    }

    /// One of those that run was not refused by this model.
    pub fn borne(&mut self, model: &str, now: Instant) {
        self.used = now;
        if let Some(pause) = self.pauses.get_mut(model) {
            pause.in_a_row = 0;
        }
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

    /// One was refused by this model; `longest`: how long it waits at most where the vendor says nothing.
    pub fn refused(&mut self, model: &Arc<str>, refusal: Refusal, longest: Duration, now: Instant) {
        let Refusal { error, after } = refusal;
        self.left(now);
        self.refused = Some(now);
        self.size = self.size.min(f64::from(self.running)).max(1.0);
        let known = self.pauses.get(model);
        let in_a_row = known.map_or(0, |pause| pause.in_a_row);
        let pause = match after {
            Some(after) => after,
            None if self.running == 0 => (FIRST_PAUSE * 2u32.saturating_pow(in_a_row.min(10))).min(longest),
            None => Duration::ZERO,
        };
        let until = now + pause.min(LONGEST_PAUSE);
        let asked = after.and_then(|after| now.checked_add(after));
        let pause = match known {
            // The longer one holds.
            Some(known) if known.until > until => {
                Pause { in_a_row: in_a_row + 1, error: known.error.clone(), ..*known }
            }
            _ => Pause { error, until, asked, in_a_row: in_a_row + 1 },
        };
        self.pauses.insert(model.clone(), pause);
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
    use providers::ErrorClass;

    use super::*;

    /// A refusal that says nothing of when to come back.
    fn refusal() -> Refusal {
        let error = ProviderError::new(ErrorClass::Retryable, "too many requests");
        Refusal { error, after: None }
    }

    fn refused(window: &mut Window, model: &str, now: Instant) {
        window.enter();
        window.refused(&model.into(), refusal(), LONGEST_PAUSE, now);
    }

    /// Plays an account that bears `limit` at once, with many who wait; returns sent, refused and most at once.
    fn play(limit: u32, requests: u32) -> (u32, u32, u32) {
        let mut now = Instant::now();
        let mut window = Window::default();
        let (mut waiting, mut sent, mut refused, mut most) = (requests, 0, 0, 0);
        while waiting > 0 || window.running > 0 {
            let mut round = Vec::new();
            let before = window.running;
            while waiting > 0 && window.has_room("m", now) {
                window.enter();
                waiting -= 1;
                sent += 1;
                round.push(before + u32::try_from(round.len()).expect("few") < limit);
            }
            most = most.max(window.running);
            for borne in &round {
                if *borne {
                    window.borne("m", now);
                } else {
                    window.refused(&"m".into(), refusal(), LONGEST_PAUSE, now);
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
    fn a_pause_holds_for_its_model_and_is_longer_with_each_refusal_in_a_row() {
        let (mut window, now) = (Window::default(), Instant::now());
        refused(&mut window, "m", now);
        assert!(!window.has_room("m", now + FIRST_PAUSE / 2) && window.has_room("other", now));
        let later = now + FIRST_PAUSE;
        assert!(window.has_room("m", later));
        refused(&mut window, "m", later);
        assert!(!window.has_room("m", later + FIRST_PAUSE) && window.has_room("m", later + FIRST_PAUSE * 2));
        window.borne("m", later);
        refused(&mut window, "m", later + FIRST_PAUSE * 2);
        assert!(window.has_room("m", later + FIRST_PAUSE * 3));
    }

    #[test]
    fn a_pause_nobody_asked_for_is_no_longer_than_its_own_limit() {
        let (mut window, now) = (Window::default(), Instant::now());
        let limit = Duration::from_millis(100);
        window.enter();
        window.refused(&"m".into(), refusal(), limit, now);
        assert!(window.pause("m", now).is_some_and(|pause| !pause.is_longer_than(Duration::ZERO, now)));
        assert!(window.has_room("m", now + limit));
    }

    #[test]
    fn what_a_vendor_asks_for_holds_for_a_minute_at_most_and_is_known_beyond() {
        let (mut window, now) = (Window::default(), Instant::now());
        window.enter();
        window.refused(&"m".into(), Refusal { after: Some(LONGEST_PAUSE * 5), ..refusal() }, LONGEST_PAUSE, now);
        let pause = window.pause("m", now).expect("a pause");
        assert_eq!(pause.until(), now + LONGEST_PAUSE);
        assert!(pause.is_longer_than(LONGEST_PAUSE * 4, now) && !pause.is_longer_than(LONGEST_PAUSE * 5, now));
        // A shorter one does not end it.
        window.enter();
        window.refused(&"m".into(), refusal(), LONGEST_PAUSE, now);
        assert!(window.pause("m", now).is_some_and(|pause| pause.is_longer_than(LONGEST_PAUSE, now)));
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
