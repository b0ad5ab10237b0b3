//! Prefixed, ascending ids in OpenCode's format: `PREFIX_` + 12 hex digits (the low 48 bits of
//! `milliseconds * 4096 + counter`) + 14 base62 characters. Session ids count downwards (the 48 bits inverted), so
//! that the newest sorts first.
//!
//! The 48 bits wrap every 795 days. Clients sort by these strings, so the format stays; nothing here orders history
//! by id, it is ordered by commit.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::Rng;
use rand::distr::Alphanumeric;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::clock::Clock;

/// Longest id accepted from a client, in bytes.
const MAX_LEN: usize = 128;

/// An id that a client sent and that can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Expected a string starting with \"{prefix}\", got {got:?}")]
pub struct IdError {
    /// What the id has to begin with.
    pub prefix: &'static str,
    /// What came instead (cut to a readable length).
    pub got: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What each of these ids begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Returns the id in `text`. Errors when the prefix is missing, or the text is too long or holds
            /// anything but ASCII letters, digits, `_` and `-`.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if text.starts_with($prefix) && text.len() <= MAX_LEN && text.chars().all(plain) {
                    Ok(Self(text.into()))
                } else {
                    Err(IdError { prefix: $prefix, got: text.chars().take(MAX_LEN).collect() })
                }
            }

            /// Returns the id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::parse(&text).map_err(D::Error::custom)
            }
        }
    )*};
}

ids! {
    /// A session. Newer ones sort first.
    SessionId = "ses";
    /// A message of a session.
    MessageId = "msg";
    /// A part of a message.
    PartId = "prt";
    /// A permission request.
    PermissionId = "per";
    /// A question request.
    QuestionId = "que";
    /// An event on the stream.
    EventId = "evt";
    /// A tool output kept whole in a file.
    SpillId = "tool";
}

impl EventId {
    /// Returns when it was made (ms since the Unix epoch), as its mint counted: of the times its digits fit, the one
    /// nearest to `near_ms`. None where it was made elsewhere.
    pub fn minted_near(&self, near_ms: u64) -> Option<u64> {
        const CYCLE: u64 = 1 << 36;
        let digits = self.0.strip_prefix(Self::PREFIX)?.strip_prefix('_')?.get(..12)?;
        let low = u64::from_str_radix(digits, 16).ok()? >> 12;
        let first = near_ms.saturating_sub(CYCLE / 2);
        Some(first + low.wrapping_sub(first) % CYCLE)
    }
}

/// A tool call's id, as the model's vendor gave it (or made up where it gave none): any text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Arc<str>);

impl CallId {
    /// Returns the id with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Mints ids. Ids of one `Ids` never repeat and never go back, also when the clock does.
pub struct Ids {
    clock: Arc<dyn Clock>,
    /// `milliseconds * 4096 + counter` of the newest id.
    last: AtomicU64,
}

impl Ids {
    /// Returns a mint whose ids come after all that were made up to `after_ms` (the newest stored time of an earlier
    /// run; 0 when there is none).
    pub fn new(clock: Arc<dyn Clock>, after_ms: u64) -> Self {
        Self { clock, last: AtomicU64::new((after_ms + 1) << 12) }
    }

    /// Returns a new session id.
    pub fn session(&self) -> SessionId {
        SessionId(self.text(SessionId::PREFIX, !self.next()))
    }

    /// Returns a new message id.
    pub fn message(&self) -> MessageId {
        MessageId(self.text(MessageId::PREFIX, self.next()))
    }

    /// Returns a new part id.
    pub fn part(&self) -> PartId {
        PartId(self.text(PartId::PREFIX, self.next()))
    }

    /// Returns a new permission id.
    pub fn permission(&self) -> PermissionId {
        PermissionId(self.text(PermissionId::PREFIX, self.next()))
    }

    /// Returns a new question id.
    pub fn question(&self) -> QuestionId {
        QuestionId(self.text(QuestionId::PREFIX, self.next()))
    }

    /// Returns a new event id.
    pub fn event(&self) -> EventId {
        EventId(self.text(EventId::PREFIX, self.next()))
    }

    /// Returns a new spill file id.
    pub fn spill(&self) -> SpillId {
        SpillId(self.text(SpillId::PREFIX, self.next()))
    }

    /// Returns a made-up call id, for a vendor that gave none (`call_` + 24 characters).
    pub fn call(&self) -> CallId {
        CallId(format!("call_{}", random(24)).into())
    }

    /// Returns a call id in the form of a ULID: 26 characters of Crockford's base 32, no prefix. OpenCode names the
    /// calls it makes itself (shell, subtask) so.
    pub fn ulid(&self) -> CallId {
        const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let mut rng = rand::rng();
        let random: u128 = rng.random::<u128>() & ((1 << 80) - 1);
        let bits = (u128::from(self.clock.now_ms()) << 80) | random;
        let digits = (0..26).rev().map(|i| char::from(ALPHABET[(bits >> (5 * i)) as usize & 31]));
        CallId(digits.collect::<String>().into())
    }

    fn next(&self) -> u64 {
        let now = (self.clock.now_ms() << 12) + 1;
        let step = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or(now);
        now.max(last + 1)
    }

    fn text(&self, prefix: &str, number: u64) -> Arc<str> {
        format!("{prefix}_{:012x}{}", number & 0xffff_ffff_ffff, random(14)).into()
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids").finish_non_exhaustive()
    }
}

fn random(len: usize) -> String {
    rand::rng().sample_iter(Alphanumeric).take(len).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn at(ms: u64) -> (Arc<Hand>, Ids) {
        let clock = Arc::new(Hand(AtomicU64::new(ms)));
        (clock.clone(), Ids::new(clock, 0))
    }

    #[test]
    fn an_id_is_time_and_counter_in_hex_and_a_random_tail() {
        let (_, ids) = at(0x1_2345);
        let id = ids.message();
        assert_eq!(&id.as_str()[..16], "msg_000012345001");
        assert_eq!(id.as_str().len(), 4 + 26);
        assert_eq!(&ids.message().as_str()[..16], "msg_000012345002");
    }

    #[test]
    fn ids_rise_also_when_the_clock_goes_back_and_session_ids_fall() {
        let (clock, ids) = at(1_700_000_000_000);
        let (first, session) = (ids.part(), ids.session());
        clock.0.store(1_600_000_000_000, Ordering::Relaxed);
        assert!(ids.part() > first);
        assert!(ids.session() < session);
    }

    #[test]
    fn ids_of_a_new_run_come_after_the_stored_ones() {
        let (clock, ids) = at(5_000);
        let old = ids.message();
        clock.0.store(1_000, Ordering::Relaxed);
        assert!(Ids::new(clock, 5_000).message() > old);
    }

    #[test]
    fn the_time_of_an_id_is_known_again_from_a_time_not_far_away() {
        for ms in [5, 1_700_000_000_000, (27 << 36) - 1, 27 << 36] {
            let id = at(ms).1.event();
            for off in [0, 1, 1_000_000_000] {
                assert_eq!(id.minted_near(ms + off), Some(ms), "{ms} from {off} later");
                assert_eq!(id.minted_near(ms.saturating_sub(off)), Some(ms), "{ms} from {off} before");
            }
        }
        assert_eq!(EventId::parse("evt_of-somebody-else").expect("an id").minted_near(5), None);
    }

    #[test]
    fn a_ulid_has_26_digits_and_sorts_by_time() {
        let (clock, ids) = at(1_700_000_000_000);
        let early = ids.ulid();
        clock.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(early.as_str().len(), 26);
        assert!(ids.ulid() > early);
    }

    proptest! {
        #[test]
        fn any_text_is_an_id_or_an_error_that_names_the_prefix(text in ".{0,200}") {
            match MessageId::parse(&text) {
                Ok(id) => prop_assert!(id.as_str() == text && text.starts_with("msg")),
                Err(e) => prop_assert!(e.to_string().contains("msg")),
            }
        }
    }
}
