//! Waits until a person has typed a code elsewhere.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::AuthError;

/// Added to the wait a vendor asks for: its clock may be behind.
pub(super) const MARGIN: Duration = Duration::from_secs(3);
/// How long a person may take, where the vendor says nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Longest wait between two questions.
const LONGEST: Duration = Duration::from_secs(60);

/// What a vendor says of the code.
pub(super) enum Answer<T> {
    /// It was typed.
    Done(T),
    /// Not yet.
    Pending,
    /// Not yet, and ask less often: with this wait, or a longer one.
    SlowDown(Option<Duration>),
}

/// Asks until it is done. An answer that is lost on the way is asked for again.
pub(super) async fn wait<T, F>(
    interval: Duration,
    margin: Duration,
    patience: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T, AuthError>
where
    F: Future<Output = Result<Answer<T>, AuthError>>,
{
    let mut interval = interval.min(LONGEST);
    let end = Instant::now() + patience;
    loop {
        sleep(interval + margin).await;
        if Instant::now() > end {
            return Err(AuthError::Late { minutes: patience.as_secs() / 60 });
        }
        match ask().await {
            Ok(Answer::Done(done)) => return Ok(done),
            Ok(Answer::Pending) | Err(AuthError::Unreachable { .. }) => {}
            Ok(Answer::SlowDown(longer)) => {
                interval = longer.unwrap_or(interval + Duration::from_secs(5)).clamp(interval, LONGEST);
            }
            Err(error) => return Err(error),
        }
    }
}
