//! Whether a failed request is tried again, and when. Pure.

use std::time::Duration;

use protocol::config::RetryConfig;
use providers::ProviderError;

/// What is done about a failed try.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Try again after this.
    Wait(Duration),
    /// It is final. A text says why no more is tried, where the error alone doesn't.
    GiveUp(Option<String>),
}

/// Decides about the `attempt`-th try (from 1) that failed. `jitter` is between 0 and 1.
pub fn decide(error: &ProviderError, attempt: u32, config: &RetryConfig, jitter: f64) -> Decision {
    if !error.is_retryable() {
        return Decision::GiveUp(None);
    }
    if attempt >= config.max_attempts {
        let reason = (attempt > 1).then(|| format!("given up after {attempt} tries"));
        return Decision::GiveUp(reason);
    }
    let longest = Duration::from_millis(config.max_delay_ms);
    match error.retry_after() {
        Some(asked) if asked > longest => Decision::GiveUp(Some(format!(
            "the provider asks to wait {}, longer than troupe.retry.max_delay_ms allows",
            length(asked)
        ))),
        Some(asked) => Decision::Wait(asked),
        None => {
            let doubled = config.base_ms.saturating_mul(1 << (attempt - 1).min(20));
            let spread = doubled as f64 * (1.0 + 0.25 * jitter.clamp(0.0, 1.0));
            Decision::Wait(Duration::from_millis(spread as u64).min(longest))
        }
    }
}

/// A wait as text: never shorter than it is.
fn length(wait: Duration) -> String {
    match wait.as_millis() {
        ms if ms < 10_000 && ms % 1_000 > 0 => format!("{ms} ms"),
        ms => format!("{} s", ms.div_ceil(1_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_as_it_is_or_longer() {
        let told = [0, 300, 1_000, 1_500, 61_001, 86_400_000].map(|ms| length(Duration::from_millis(ms)));
        assert_eq!(told, ["0 s", "300 ms", "1 s", "1500 ms", "62 s", "86400 s"]);
    }
}
