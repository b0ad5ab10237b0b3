//! What a config directory holds beside its settings: Markdown files of agents, commands and modes.
//!
//! A wrong agent is an error, as a wrong setting is: left out, its rules would be missing where somebody counts on
//! them. A command that can't be read is left out with a warning.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::file::{ConfigError, Issue, Warning};
use super::schema::{AGENT, COMMAND};
use super::shape::{self, Findings, Shape};
use crate::stamps::Stamps;
use crate::{markdown, walk};

/// How deep below a directory files are looked for.
const MAX_DEPTH: usize = 6;

/// Reads the agents, commands and modes of a config directory, as settings. What is looked at is noted in `seen`.
pub fn read(directory: &Path, seen: &mut Stamps) -> Result<(Value, Vec<Warning>), ConfigError> {
    let mut warnings = Vec::new();
    let (mut agents, mut commands) = (Map::new(), Map::new());
    seen.add(directory);
    if !directory.is_dir() {
        return Ok((Value::Object(Map::new()), warnings));
    }
    for kind in ["agent", "agents"] {
        for file in files(&directory.join(kind), MAX_DEPTH, seen) {
            let agent = read_file(&file, directory.join(kind).as_path(), "prompt")?;
            checked(&AGENT, &agent, &file, &mut warnings)?;
            agents.insert(name_of(&agent), Value::Object(agent));
        }
    }
    for kind in ["mode", "modes"] {
        for file in files(&directory.join(kind), 1, seen) {
            let mut agent = read_file(&file, directory.join(kind).as_path(), "prompt")?;
            agent.insert("mode".into(), "primary".into());
            checked(&AGENT, &agent, &file, &mut warnings)?;
            agents.insert(name_of(&agent), Value::Object(agent));
        }
    }
    for kind in ["command", "commands"] {
        for file in files(&directory.join(kind), MAX_DEPTH, seen) {
            match read_file(&file, directory.join(kind).as_path(), "template") {
                Ok(mut command) => {
                    checked(&COMMAND, &command, &file, &mut warnings)?;
                    let name = name_of(&command);
                    command.shift_remove("name");
                    commands.insert(name, Value::Object(command));
                }
                Err(error) => warnings.push(left_out(error)),
            }
        }
    }
    let mut settings = Map::new();
    for (key, entries) in [("agent", agents), ("command", commands)] {
        if !entries.is_empty() {
            settings.insert(key.into(), Value::Object(entries));
        }
    }
    Ok((Value::Object(settings), warnings))
}

/// The Markdown files below a directory, in order.
fn files(directory: &Path, depth: usize, seen: &mut Stamps) -> Vec<PathBuf> {
    walk::files(directory, depth, |path| path.extension().is_some_and(|extension| extension == "md"), seen)
}

/// A file's front matter, its name from its path unless it says another, and its text under `body`.
fn read_file(file: &Path, below: &Path, body: &str) -> Result<Map<String, Value>, ConfigError> {
    let document = markdown::read(file).map_err(|message| ConfigError::Invalid {
        path: file.to_owned(),
        issues: vec![Issue { path: Vec::new(), message, line: Some(1) }],
    })?;
    let name = file.strip_prefix(below).unwrap_or(file).with_extension("");
    let mut read = Map::new();
    read.insert("name".into(), name.to_string_lossy().replace('\\', "/").into());
    read.extend(document.matter);
    read.insert(body.into(), document.content.trim().into());
    // YAML's way to say that a key is not set.
    read.retain(|_, value| !value.is_null());
    Ok(read)
}

fn name_of(entry: &Map<String, Value>) -> String {
    entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn checked(
    shape: &Shape,
    entry: &Map<String, Value>,
    file: &Path,
    warnings: &mut Vec<Warning>,
) -> Result<(), ConfigError> {
    let value = Value::Object(entry.clone());
    let Findings { wrong, unknown } = shape::check(shape, &value, &value);
    if wrong.is_empty() && unknown.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let issue = |(keys, message): (Vec<String>, String)| {
        let line = keys.first().and_then(|key| markdown::line_of(&text, key));
        Issue { path: keys, message, line }
    };
    warnings.extend(unknown.into_iter().map(|found| Warning { file: file.to_owned(), issue: issue(found) }));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(ConfigError::Invalid { path: file.to_owned(), issues: wrong.into_iter().map(issue).collect() }),
    }
}

fn left_out(error: ConfigError) -> Warning {
    let file = error.path().to_owned();
    let message = match error {
        ConfigError::Invalid { issues, .. } => {
            issues.into_iter().map(|issue| issue.message).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    Warning { file, issue: Issue { path: Vec::new(), message: format!("left out: {message}"), line: None } }
}
