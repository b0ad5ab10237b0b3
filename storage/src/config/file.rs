//! One settings file: reading it, and saying what is wrong with it, where, and what to do.

use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{ParseOptions, parse_to_ast, parse_to_serde_value};
use protocol::config::Config;
use serde::Serialize;
use serde_json::Value;

use crate::places::Environment;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file can't be read.
    #[error("{} can't be read: {message}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        message: String,
    },
    /// A file is no JSON.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there, and what to do.
        message: String,
    },
    /// A value is not what its key needs.
    #[error("{}{}", path.display(), issues.iter().map(|i| format!(":{i}")).collect::<Vec<_>>().join(", "))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        issues: Vec<Issue>,
    },
}

/// A value that is not what its key needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// Keys from the top down.
    pub path: Vec<String>,
    /// What is wrong there, and what to do.
    pub message: String,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "{line}: ")?;
        }
        write!(f, "{}: {}", self.path.join("."), self.message)
    }
}

impl ConfigError {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Unreadable { path, .. } | Self::Json { path, .. } | Self::Invalid { path, .. } => path,
        }
    }
}

/// Reads a file; none where there is none, or an empty one.
pub fn read(path: &Path, environment: &Environment) -> Result<Option<Value>, ConfigError> {
    let unreadable = |message: String| ConfigError::Unreadable { path: path.to_owned(), message };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(metadata) if !metadata.is_file() => return Err(unreadable("it is no regular file".into())),
        Ok(metadata) if metadata.len() > MAX_BYTES => return Err(unreadable("it is larger than 4 MiB".into())),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    parse(path, text, environment).map(Some)
}

/// Reads settings from text, checks them, and fills `{env:NAME}` and `{file:PATH}` in.
pub fn parse(path: &Path, text: &str, environment: &Environment) -> Result<Value, ConfigError> {
    let options = ParseOptions::default();
    if depth(text) > MAX_DEPTH {
        let message = format!("it is nested deeper than {MAX_DEPTH} levels");
        return Err(ConfigError::Unreadable { path: path.to_owned(), message });
    }
    let mut value: Value = parse_to_serde_value(text, &options).map_err(|error| ConfigError::Json {
        path: path.to_owned(),
        line: error.line_display(),
        column: error.column_display(),
        message: format!("{}. Mend the JSON there; comments and trailing commas are fine.", error.kind()),
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    fill_in(&mut value, base, environment);
    anchor_plugins(&mut value, base, environment);
    if !value.is_object() {
        let issue =
            Issue { path: Vec::new(), message: "settings must be one JSON object { … }".into(), line: Some(1) };
        return Err(ConfigError::Invalid { path: path.to_owned(), issues: vec![issue] });
    }
    typed(path, &value, Some(text))?;
    Ok(value)
}

/// Checks that each value is what its key needs. `text` gives lines to the issues.
pub fn typed(path: &Path, value: &Value, text: Option<&str>) -> Result<Config, ConfigError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let keys: Vec<String> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Map { key } => Some(key.clone()),
                serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
                _ => None,
            })
            .collect();
        let line = text.and_then(|text| line_of(text, &keys));
        let message = explain(&keys, &error.into_inner().to_string());
        ConfigError::Invalid { path: path.to_owned(), issues: vec![Issue { path: keys, message, line }] }
    })
}

/// What serde says, with the words that help where it has none.
fn explain(keys: &[String], said: &str) -> String {
    match keys.first().map(String::as_str) {
        Some("permission") if said.contains("untagged") => {
            "must be \"allow\", \"ask\" or \"deny\", or an object that says so for each permission and pattern".into()
        }
        _ => said.to_owned(),
    }
}

/// The line of the value under these keys, or of the nearest one above that is there.
fn line_of(text: &str, keys: &[String]) -> Option<usize> {
    let parsed = parse_to_ast(text, &Default::default(), &ParseOptions::default()).ok()?;
    let mut value = parsed.value.as_ref()?;
    let mut start = value.range().start;
    for key in keys {
        let next = match value {
            ast::Value::Object(object) => object.properties.iter().find(|p| p.name.as_str() == key).map(|p| {
                start = p.range.start;
                &p.value
            }),
            ast::Value::Array(array) => key.parse::<usize>().ok().and_then(|i| array.elements.get(i)).inspect(|v| {
                start = v.range().start;
            }),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
    }
    Some(text.get(..start)?.bytes().filter(|byte| *byte == b'\n').count() + 1)
}

/// Deepest nesting of brackets outside of strings: the parser behind has no limit of its own.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut quote, mut escaped) = (None, false);
    for byte in text.bytes() {
        match (quote, byte) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (None, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Replaces `{env:NAME}` and `{file:PATH}` in all strings. What isn't there becomes empty text.
fn fill_in(value: &mut Value, base: &Path, environment: &Environment) {
    match value {
        Value::String(text) if text.contains("{env:") || text.contains("{file:") => {
            *text = filled(text, base, environment);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, base, environment)),
        Value::Object(map) => map.values_mut().for_each(|item| fill_in(item, base, environment)),
        _ => {}
    }
}

/// Plugins that are named by a path count from the file that names them.
fn anchor_plugins(value: &mut Value, base: &Path, environment: &Environment) {
    let entries = value.get_mut("plugin").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in entries {
        let spec = match entry {
            Value::Array(pair) => pair.first_mut(),
            spec => Some(spec),
        };
        let Some(Value::String(spec)) = spec else { continue };
        let path = match (spec.strip_prefix("~/"), environment.get("HOME")) {
            (Some(below), Some(home)) => Path::new(home).join(below),
            _ if spec.starts_with("./") || spec.starts_with("../") => base.join(&*spec),
            _ => continue,
        };
        *spec = std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
    }
}

fn filled(text: &str, base: &Path, environment: &Environment) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let reference = from.find('}').and_then(|close| from.get(1..close).map(|inner| (inner, close)));
        match reference.and_then(|(inner, close)| resolve(inner, base, environment).map(|value| (value, close))) {
            Some((value, close)) => {
                out.push_str(&value);
                rest = from.get(close + 1..).unwrap_or_default();
            }
            None => {
                out.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out + rest
}

fn resolve(reference: &str, base: &Path, environment: &Environment) -> Option<String> {
    if let Some(name) = reference.strip_prefix("env:") {
        return Some(environment.get(name.trim()).unwrap_or_default().to_owned());
    }
    let path = reference.strip_prefix("file:")?.trim();
    let path = match (path.strip_prefix("~/"), environment.get("HOME")) {
        (Some(below), Some(home)) => Path::new(home).join(below),
        _ => base.join(path),
    };
    Some(std::fs::read_to_string(path).unwrap_or_default().trim().to_owned())
}
