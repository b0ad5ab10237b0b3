//! A call's time limit, its abort, and the rate at which it shows how far it is.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tools::{Progress, ToolError};

use super::Call;

/// Most time of a call that only looks.
const READING: Duration = Duration::from_secs(120);
/// Most time of a call that changes files, its asks left out.
const WRITING: Duration = Duration::from_secs(300);
/// Least time between two signs of progress.
const PROGRESS: Duration = Duration::from_millis(150);
/// How long a cancelled call has to end by itself: a command's processes are ended in that time.
const CANCEL_GRACE: Duration = Duration::from_millis(600);

/// What a call's desk signals to its runner.
pub struct Signals {
    /// How many of its requests wait for a person: the limit stands still meanwhile.
    pub waiting: watch::Receiver<usize>,
    /// How far it is.
    pub progress: watch::Receiver<Progress>,
}

/// Runs a call within its limits.
pub async fn within<T>(
    work: impl Future<Output = Result<T, ToolError>>,
    call: &Call,
    cancel: &CancellationToken,
    mut signals: Signals,
    tell: impl Fn(Progress),
) -> Result<T, ToolError> {
    tokio::pin!(work);
    let limit = limit_of(call);
    let mut left = limit.unwrap_or(Duration::MAX);
    let mut next_tell = Instant::now();
    let mut untold = false;
    let mut is_told = false;
    loop {
        let waits = *signals.waiting.borrow_and_update() > 0;
        let since = Instant::now();
        tokio::select! {
            biased;
            result = &mut work => {
                // What a quick call showed, clients still want to see before its result.
                if !is_told && (untold || signals.progress.has_changed().unwrap_or(false)) {
                    tell(signals.progress.borrow_and_update().clone());
                }
                return result;
            }
            () = cancel.cancelled() => {
                // A tool that heeds the sign says itself how it ended; one that doesn't is dropped.
                return tokio::time::timeout(CANCEL_GRACE, work).await.unwrap_or(Err(ToolError::Aborted));
            }
            changed = signals.waiting.changed() => {
                if changed.is_err() {
                    return work.await;
                }
            }
            changed = signals.progress.changed(), if !untold => untold = changed.is_ok(),
            () = tokio::time::sleep_until(next_tell), if untold => {
                untold = false;
                is_told = true;
                next_tell = Instant::now() + PROGRESS;
                tell(signals.progress.borrow_and_update().clone());
            }
            () = tokio::time::sleep(left), if !waits && limit.is_some() => {
                cancel.cancel();
                // Let it end what it started before the model hears of it.
                let _ = tokio::time::timeout(CANCEL_GRACE, work).await;
                let limit_ms = limit.unwrap_or_default().as_millis() as u64;
                return Err(ToolError::TimedOut { tool: call.tool.id().to_owned(), limit_ms });
            }
        }
        if !waits {
            left = left.saturating_sub(since.elapsed());
        }
    }
}

/// None for tools that bound themselves: commands, and what waits for a person or a subagent.
fn limit_of(call: &Call) -> Option<Duration> {
    match call.tool.id() {
        "bash" | "question" | "task" => None,
        _ if call.tool.bounds_itself() => None,
        _ if call.tool.traits().repeatable => Some(READING),
        _ => Some(WRITING),
    }
}
