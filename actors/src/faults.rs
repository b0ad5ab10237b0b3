//! Fault points for crash tests, compiled in by the feature `faults` alone. `TROUPE_FAULT` names them:
//! `POINT:ACTION:COUNT:NEEDLE`, several split by `,`. At POINT, for sessions whose last user message holds NEEDLE,
//! ACTION (`panic`, or `kill`: SIGKILL to the own process) is done the first COUNT times. JSON in a message is not
//! looked at: it is the script of a scripted model, and may hold the prompts of other sessions.

#[cfg(feature = "faults")]
mod armed {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The points that exist.
    const POINTS: [&str; 2] = ["session.step", "tool.commit"];

    /// The faults this process was started with.
    #[derive(Clone, Debug, Default)]
    pub struct Faults(Arc<Vec<Fault>>);

    #[derive(Debug)]
    struct Fault {
        point: String,
        kills: bool,
        left: AtomicU32,
        needle: String,
    }

    impl Faults {
        /// Reads the value of `TROUPE_FAULT`. What can't be read is left out, with a warning.
        pub fn parse(text: &str) -> Self {
            let read = |text: &str| {
                let mut fields = text.splitn(4, ':');
                let point = fields.next().filter(|point| POINTS.contains(point))?;
                let kills = match fields.next()? {
                    "kill" => true,
                    "panic" => false,
                    _ => return None,
                };
                let left = fields.next()?.parse().ok()?;
                let needle = fields.next().unwrap_or_default().to_owned();
                Some(Fault { point: point.to_owned(), kills, left: AtomicU32::new(left), needle })
            };
            let mut faults = Vec::new();
            for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
                match read(text) {
                    Some(fault) => faults.push(fault),
                    None => tracing::warn!(text, "TROUPE_FAULT names no fault point"),
                }
            }
            Self(Arc::new(faults))
        }

        /// Does what is to be done at this point.
        pub fn hit(&self, point: &str, prompt: &str) {
            let words = prompt.split(['{', '[']).next().unwrap_or_default();
            for fault in self.0.iter().filter(|f| f.point == point && words.contains(&f.needle)) {
                let take = |left: u32| left.checked_sub(1);
                if fault.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
                    continue;
                }
                if fault.kills {
                    let own = std::process::id().to_string();
                    let _ = std::process::Command::new("kill").args(["-KILL", &own]).status();
                }
                panic!("fault point {point}");
            }
        }

        /// Returns the points this build has.
        pub fn points(&self) -> &'static [&'static str] {
            &POINTS
        }
    }
}

#[cfg(not(feature = "faults"))]
mod disarmed {
    /// No faults: this build has none.
    #[derive(Clone, Debug, Default)]
    pub struct Faults;

    impl Faults {
        /// Returns no faults.
        pub fn parse(_: &str) -> Self {
            Self
        }

        /// Does nothing.
        pub fn hit(&self, _: &str, _: &str) {}

        /// Returns no points.
        pub fn points(&self) -> &'static [&'static str] {
            &[]
        }
    }
}

#[cfg(feature = "faults")]
pub use armed::Faults;
#[cfg(not(feature = "faults"))]
pub use disarmed::Faults;
