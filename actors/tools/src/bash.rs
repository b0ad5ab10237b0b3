//! `bash`: runs a line of shell.
//!
//! The call ends when the shell does. What it left running stays, owned by the session
//! ([`crate::process::Processes::background`]); what a limit or a person ends is ended with all that came from it.

mod escapes;
mod report;
mod run;
mod screen;
mod spill;

use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::JsonMap;
use protocol::clock::{Clock, SystemClock};
use protocol::permission::Action;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::context::{Ask, EXACTLY, Effects, Place, ToolContext};
use crate::error::ToolError;
use crate::files::looking;
use crate::path::{absolute, real_path};
use crate::process::{Child, Spec};
use crate::shell::{Seen, Simple, Surroundings, Verdict, judge};
use crate::tool::{Tool, ToolOutput, Traits};
use run::Begun;

/// How long a command may run unless the call says otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Fewer bytes than this can be one argument of a program. Source: Linux, `MAX_ARG_STRLEN`.
const LONGEST: usize = 128 * 1024;

/// The largest number JSON's readers agree on.
const SAFE: i64 = 9_007_199_254_740_991;

/// Runs a line of shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bash;

/// The arguments of [`Bash`]. A `description` is taken and not looked at: models trained on other tools give one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct BashInput {
    /// The command line for bash
    command: String,
    /// Time limit in milliseconds
    #[serde(default)]
    #[schemars(schema_with = "positive")]
    timeout: Option<std::num::NonZeroU64>,
    /// The directory to run it in, instead of `cd` in the command; the project's directory if left out
    #[serde(default)]
    #[schemars(with = "String")]
    workdir: Option<String>,
}

fn positive(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": -SAFE, "exclusiveMinimum": 0, "maximum": SAFE })
}

impl Tool for Bash {
    type Input = BashInput;
    const ID: &'static str = "bash";
    const DESCRIPTION: &'static str = include_str!("bash.txt");
    const TRAITS: Traits = Traits::writing("bash");

    async fn run(&self, input: BashInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let command = input.command;
        must_be_startable(&command)?;
        let (directory, verdict) = {
            let (place, command) = (cx.place.clone(), command.clone());
            looking(cx, move |_| judge_in(&place, &command, input.workdir.as_deref())).await?
        };
        if verdict.floor == Action::Deny {
            return Err(ToolError::failed(format!("The command was not run: {}.", verdict.reasons.join("; "))));
        }
        ask(cx, &command, &directory, verdict).await?;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        let env = cx.desk.shell_env(&directory).await;
        let _place = place(cx).await?;
        let begun = cx.begin().await?;
        let started_ms = SystemClock.now_ms();
        let child = start(cx, &begun, &command, directory.clone(), env)?;
        let timeout = input.timeout.map_or(TIMEOUT, |ms| Duration::from_millis(ms.get()));
        run::run(cx, child, Begun { command, directory, started_ms }, timeout).await
    }
}

/// Runs a line of shell that the person typed: nothing is asked, and nothing limits its time but the call's cancel.
/// As on the wire its title is empty, and so is its output where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct PersonsBash;

/// The arguments of [`PersonsBash`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PersonsInput {
    /// The command line for bash
    command: String,
}

impl Tool for PersonsBash {
    type Input = PersonsInput;
    const ID: &'static str = Bash::ID;
    const DESCRIPTION: &'static str = Bash::DESCRIPTION;
    const TRAITS: Traits = Bash::TRAITS;

    async fn run(&self, PersonsInput { command }: PersonsInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        must_be_startable(&command)?;
        let directory = cx.place.directory.clone();
        let env = cx.desk.shell_env(&directory).await;
        let begun = cx.begin().await?;
        let started_ms = SystemClock.now_ms();
        let child = start(cx, &begun, &command, directory.clone(), env)?;
        let mut output = run::run(cx, child, Begun { command, directory, started_ms }, Duration::MAX).await?;
        output.title.clear();
        if output.metadata.get("output").is_some_and(|said| said == report::NOTHING) {
            output.metadata.insert("output".into(), Value::from(""));
            output.output = output.output.trim_start_matches(report::NOTHING).trim_start().to_owned();
        }
        Ok(output)
    }
}

/// A shell is given its line as one argument, and the system takes only so much.
fn must_be_startable(command: &str) -> Result<(), ToolError> {
    if command.contains('\0') {
        return Err(ToolError::failed("The command contains a NUL character. Write it without, for example as \\0."));
    }
    if command.len() >= LONGEST {
        return Err(ToolError::failed(format!(
            "The command has {} bytes; a shell takes fewer than {LONGEST}. Put the content into a file with write.",
            command.len()
        )));
    }
    Ok(())
}

/// Finds the directory and judges the command there; blocks.
fn judge_in(place: &Place, command: &str, workdir: Option<&str>) -> Result<(PathBuf, Verdict), ToolError> {
    let home = std::env::home_dir();
    let directory = match workdir.filter(|dir| !dir.is_empty()) {
        Some(workdir) => absolute(&place.directory, workdir, home.as_deref())?,
        None => place.directory.clone(),
    };
    let real = real_path(&directory).map_err(ToolError::io("resolving", &directory))?;
    if !real.is_dir() {
        let shown = directory.display();
        return Err(ToolError::failed(format!(
            "There is no directory {shown}. Give an existing one as workdir, or none."
        )));
    }
    let worktree = Some(&place.worktree).filter(|top| place.is_repository && top.as_os_str() != "/");
    let roots = [Some(&place.directory), worktree, Some(&place.spill).filter(|spill| !spill.as_os_str().is_empty())];
    let inside: Vec<PathBuf> = roots.into_iter().flatten().filter_map(|root| real_path(root).ok()).collect();
    let look = |path: &Path| {
        let path = real_path(path).unwrap_or_else(|_| path.to_owned());
        Seen { is_directory: path.is_dir(), path }
    };
    let is_outside = !inside.iter().any(|root| real.starts_with(root));
    let worktree = worktree.cloned();
    let surroundings = Surroundings { directory: directory.clone(), worktree, inside, home, look: &look };
    let mut verdict = judge(command, &surroundings);
    if is_outside && !verdict.directories.contains(&real) {
        verdict.directories.insert(0, real);
    }
    Ok((directory, verdict))
}

/// Waits until the command may run; before its effects begin, so that after a crash it is known that they did not.
async fn place(cx: &ToolContext) -> Result<Option<OwnedSemaphorePermit>, ToolError> {
    tokio::select! {
        () = cx.cancel.cancelled() => Err(ToolError::Aborted),
        place = cx.processes.place() => Ok(place),
    }
}

/// Asks for what the command reaches outside, then for what it runs.
async fn ask(cx: &ToolContext, command: &str, directory: &Path, verdict: Verdict) -> Result<(), ToolError> {
    if !verdict.directories.is_empty() {
        cx.ask(external(command, &verdict)).await?;
    }
    let mut metadata = JsonMap::new();
    metadata.insert("command".into(), Value::from(command));
    if !verdict.reasons.is_empty() {
        metadata.insert("reasons".into(), Value::from(verdict.reasons));
    }
    if verdict.floor == Action::Ask {
        metadata.insert(EXACTLY.into(), Value::from(json!([directory.to_string_lossy(), command]).to_string()));
    }
    let mut always: Vec<String> = Vec::new();
    // What runs elsewhere, or belongs to another command, is not allowed for itself.
    for pattern in verdict.commands.iter().filter(|command| !command.aside).flat_map(|command| &command.always) {
        if !always.contains(pattern) {
            always.push(pattern.clone());
        }
    }
    let (aside, listed): (Vec<Simple>, Vec<Simple>) = verdict.commands.into_iter().partition(|command| command.aside);
    let texts = |commands: Vec<Simple>| commands.into_iter().map(|command| command.text).collect();
    let ask = Ask::new(Bash::ID, texts(listed), always, metadata);
    cx.ask(Ask { floor: verdict.floor, aside: texts(aside), ..ask }).await
}

fn external(command: &str, verdict: &Verdict) -> Ask {
    let directories: Vec<String> = verdict.directories.iter().map(|dir| dir.to_string_lossy().into_owned()).collect();
    let patterns: Vec<String> = directories.iter().map(|dir| format!("{}/*", dir.trim_end_matches('/'))).collect();
    // A star in the name itself would allow more than this directory for good.
    let plain = directories.iter().zip(&patterns).filter(|(dir, _)| !dir.contains(['*', '?']));
    let always = plain.map(|(_, pattern)| pattern.clone()).collect();
    let mut metadata = JsonMap::new();
    metadata.insert("command".into(), Value::from(command));
    metadata.insert("directories".into(), json!(directories));
    metadata.insert("patterns".into(), json!(patterns));
    Ask::new("external_directory", patterns, always, metadata)
}

/// Starts the shell: bash, or sh where there is none.
fn start(
    cx: &ToolContext,
    begun: &Effects,
    command: &str,
    directory: PathBuf,
    env: Vec<(String, String)>,
) -> Result<Child, ToolError> {
    let spec = Spec {
        program: "bash".into(),
        args: vec!["-c".into(), command.into()],
        cwd: directory,
        env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        session: cx.session_id.clone(),
        // A vendor's call ids may repeat from message to message.
        call: format!("{}/{}", cx.message_id, cx.call_id),
    };
    let started = match cx.processes.spawn(begun, spec.clone()) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            cx.processes.spawn(begun, Spec { program: "sh".into(), ..spec.clone() })
        }
        started => started,
    };
    let child = started
        .map_err(|e| ToolError::failed(format!("The shell could not be started in {}: {e}.", spec.cwd.display())))?;
    cx.desk.process_started(child.group());
    Ok(child)
}

#[cfg(test)]
mod tests;
