//! What the model and clients are told of a command.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};

use super::run::LIVE;
use super::screen::{Limits, Screen, Shown};
use super::spill::Spill;
use crate::process::{BackgroundId, ProcessGroup};
use crate::tool::ToolOutput;

/// How much the model is shown.
const LIMITS: Limits = Limits { lines: 2000, bytes: 50 * 1024 };

/// What is said of a command that printed nothing.
pub(super) const NOTHING: &str = "(no output)";

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Exited(ExitStatus),
    TimedOut(Duration),
    Aborted,
}

/// Returns the call's result. `left`: something of it still runs, under this id and in this group.
pub(super) async fn output(
    command: String,
    end: End,
    left: Option<(BackgroundId, ProcessGroup)>,
    screen: Screen,
    spill: Spill,
) -> ToolOutput {
    let shown = screen.shown(LIMITS);
    let mut notes = Vec::new();
    // What was overwritten counts as cut once it is more than the model would be shown.
    let overwritten = screen.overwritten();
    let folded = overwritten > LIMITS.bytes as u64;
    let is_cut = matches!(shown, Shown::Cut(_));
    let kept = if is_cut || folded {
        Some(spill.keep().await)
    } else {
        spill.discard().await;
        None
    };
    let place = match &kept {
        Some(Ok(path)) => format!("Full output saved to: {}", path.display()),
        Some(Err(error)) => format!("The full output could not be saved: {error}"),
        None => String::new(),
    };
    let mut text = match shown {
        Shown::Whole(_) if screen.is_empty() => NOTHING.to_owned(),
        Shown::Whole(text) => text,
        Shown::Cut(text) => format!("...output truncated...\n\n{place}\n\n{text}"),
    };
    if folded {
        let whole = if is_cut { String::new() } else { format!(" {place}") };
        notes.push(format!("{overwritten} bytes were overwritten after carriage returns and are left out.{whole}"));
    }
    notes.extend(note(end, left.map(|(_, group)| group)));
    if !notes.is_empty() {
        text.push_str(&format!("\n\n<shell_metadata>\n{}\n</shell_metadata>", notes.join("\n")));
    }
    let live = if screen.is_empty() { NOTHING.to_owned() } else { screen.newest(LIVE) };
    let truncated = kept.is_some();
    let mut metadata = json!({ "output": live, "exit": exit(end), "truncated": truncated });
    if let (Some(Ok(path)), Some(metadata)) = (&kept, metadata.as_object_mut()) {
        metadata.insert("outputPath".into(), Value::from(path.to_string_lossy()));
    }
    if let (Some((id, _)), Some(metadata)) = (left, metadata.as_object_mut()) {
        metadata.insert("process".into(), Value::from(id.to_string()));
    }
    ToolOutput { truncated: Some(truncated), ..ToolOutput::new(command, text, metadata) }
}

/// Returns the exit code; 128 and the signal's number where one ended the shell, as shells say it.
fn exit(end: End) -> Option<i32> {
    match end {
        End::Exited(status) => status.code().or_else(|| status.signal().map(|signal| 128 + signal)),
        End::TimedOut(_) | End::Aborted => None,
    }
}

fn note(end: End, left: Option<ProcessGroup>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(ProcessGroup(group)) = left {
        notes.push(format!(
            "A background process of this command is still running and holds its output; it ends with the session. To \
             end it before: kill -- -{group}"
        ));
    }
    match end {
        End::Exited(status) => match (status.code(), status.signal()) {
            (Some(0), _) => {}
            (Some(code), _) => notes.push(format!("exit code {code}")),
            (None, Some(signal)) => notes.push(format!("ended by signal {signal}, exit code {}", 128 + signal)),
            (None, None) => notes.push("ended without an exit code".to_owned()),
        },
        End::TimedOut(limit) => notes.push(format!(
            "The command ran past its time limit and was stopped with all it had started: timeout {} ms. If it needs \
             longer, and does not wait for input, call again with a larger timeout.",
            limit.as_millis()
        )),
        End::Aborted => notes.push("The person aborted the command; all it had started was stopped.".to_owned()),
    }
    notes
}
