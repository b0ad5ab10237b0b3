//! Following a command to its end: its output, its limits, what it leaves behind.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use protocol::JsonMap;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout};

use super::report::{self, End};
use super::screen::Screen;
use super::spill::Spill;
use crate::context::{Progress, ToolContext};
use crate::error::ToolError;
use crate::process::{Child, Left};
use crate::tool::ToolOutput;

/// How often it is shown how far a command is, at most.
const SHOW: Duration = Duration::from_millis(150);

/// Bytes a second that are shown of a running command. Each time all that is shown is sent again: the wire has
/// increments for texts only (`message.part.delta` appends to the field `text`), and its clients heed no others. So
/// the more there is, the seldomer it is shown.
const RATE: u64 = 64 * 1024;

/// Characters that are shown of a running command.
pub(super) const LIVE: usize = 30_000;

/// How long a tree has to end after TERM. An abort is to be answered within 800 ms.
const GRACE: Duration = Duration::from_millis(300);

/// When the shell has ended, its output is read until nothing comes for this long…
const QUIET: Duration = Duration::from_millis(30);

/// …and at most so long: a process in the background may never stop talking.
const PATIENCE: Duration = Duration::from_millis(250);

/// The output of a command as it comes.
struct Output {
    pipe: Option<pipe::Receiver>,
    buffer: Vec<u8>,
    screen: Screen,
    spill: Spill,
}

impl Output {
    /// Waits for the next piece; 0 at the end. Can be dropped while it waits: nothing is lost.
    async fn read(&mut self) -> usize {
        match &mut self.pipe {
            Some(pipe) => pipe.read(&mut self.buffer).await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }

    /// Takes what was read; false at the end.
    async fn take(&mut self, read: usize) -> bool {
        let piece = self.buffer.get(..read).unwrap_or_default();
        if piece.is_empty() {
            self.pipe = None;
            self.screen.end();
            return false;
        }
        self.screen.push(piece);
        self.spill.push(piece).await;
        true
    }

    /// Reads what is there already.
    async fn drain(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.pipe.is_some() && Instant::now() < end {
            let Ok(read) = timeout(QUIET, self.read()).await else { return };
            self.take(read).await;
        }
    }
}

/// A command that was started.
#[derive(Debug)]
pub(super) struct Begun {
    pub command: String,
    pub directory: PathBuf,
    /// In milliseconds since the epoch.
    pub started_ms: u64,
}

/// Follows a command to its end and says what came of it.
pub(super) async fn run(
    cx: &ToolContext,
    mut child: Child,
    begun: Begun,
    limit: Duration,
) -> Result<ToolOutput, ToolError> {
    let mut output = Output {
        pipe: child.take_output(),
        buffer: vec![0; 64 * 1024],
        screen: Screen::default(),
        spill: Spill::new(&cx.place.spill),
    };
    let group = child.group();
    let exit = follow(cx, &mut child, &mut output, limit).await?;
    let end = match exit {
        Some(status) => {
            output.drain().await;
            End::Exited(status)
        }
        None => {
            end_tree(&mut child, &mut output).await;
            if cx.cancel.is_cancelled() { End::Aborted } else { End::TimedOut(limit) }
        }
    };
    let mut left = None;
    // Nearly always both say no, and nobody need look through the process list.
    if output.pipe.is_some() || child.group_exists() {
        let looked = tokio::task::spawn_blocking(move || (child.anyone_left(), child)).await;
        let (anyone, back) =
            looked.map_err(|e| ToolError::failed(format!("looking for the command's processes failed: {e}")))?;
        child = back;
        left = anyone.then_some(group);
    }
    let Begun { command, directory, started_ms } = begun;
    let left = if let Some(group) = left {
        let how = Left { command: command.clone(), directory, started_ms, said: output.screen.newest(LIVE) };
        Some((cx.processes.keep(&cx.session_id, how, child, output.pipe.take(), cx.desk.clone()), group))
    } else {
        child.bury();
        cx.desk.process_ended(group);
        None
    };
    Ok(report::output(command, end, left, output.screen, output.spill).await)
}

/// Returns the shell's exit; none when the limit or a person comes first.
async fn follow(
    cx: &ToolContext,
    child: &mut Child,
    output: &mut Output,
    limit: Duration,
) -> Result<Option<ExitStatus>, ToolError> {
    // A limit beyond the clock's end is none.
    let deadline = Instant::now().checked_add(limit);
    let deadline = async move {
        match deadline {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(deadline);
    let mut next = Instant::now();
    let mut changed = true;
    loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Ok(None),
            // Before the limit: what ended in time did so even if we were held up (a stopped service) and see both.
            status = child.exited() => {
                return status.map(Some).map_err(|e| ToolError::failed(format!("waiting for the shell failed: {e}")));
            }
            () = &mut deadline => return Ok(None),
            () = sleep_until(next), if changed => {
                changed = false;
                let shown = output.screen.newest(LIVE);
                next = Instant::now() + pause(shown.len());
                cx.desk.progress(progress(shown));
            }
            read = output.read() => changed |= output.take(read).await,
        }
    }
}

fn progress(shown: String) -> Progress {
    let mut metadata = JsonMap::new();
    metadata.insert("output".into(), Value::from(shown));
    Progress { title: None, metadata }
}

/// Returns how long nothing is shown after so many bytes were.
fn pause(bytes: usize) -> Duration {
    SHOW.max(Duration::from_millis(bytes as u64 * 1000 / RATE))
}

/// Ends all that came from the command, reading on so that nobody blocks on a full pipe.
async fn end_tree(child: &mut Child, output: &mut Output) {
    let ended = child.end(GRACE);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => break,
            read = output.read() => drop(output.take(read).await),
        }
    }
    output.drain().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_shown_the_seldomer() {
        assert_eq!(pause(0), SHOW);
        assert_eq!(pause(1024), SHOW);
        assert_eq!(pause(LIVE * 4), Duration::from_millis(LIVE as u64 * 4 * 1000 / RATE));
        for bytes in [1, 5_000, 40_000, 120_000] {
            assert!(bytes as f64 / pause(bytes).as_secs_f64() <= RATE as f64 * 1.01);
        }
    }
}
