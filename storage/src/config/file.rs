//! One settings file: reading it, and saying what is wrong with it, where, and what to do.

use std::path::{Path, PathBuf};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{ParseOptions, parse_to_ast, parse_to_serde_value};
use serde::Serialize;
use serde_json::Value;

use super::reference::{self, Secrets};
use super::schema::SETTINGS;
use super::shape;
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
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("."))?;
        }
        f.write_str(&self.message)
    }
}

/// What is odd about a file that is used nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The file.
    pub file: PathBuf,
    /// What is odd.
    #[serde(flatten)]
    pub issue: Issue,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.issue)
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

/// What a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// Its settings, references filled in.
    pub value: Value,
    /// What is odd about it.
    pub warnings: Vec<Warning>,
    /// Values that must not be shown.
    pub secrets: Secrets,
    /// Files it refers to.
    pub files: Vec<PathBuf>,
}

/// Reads a file's text; none where there is none, or an empty one.
pub fn text(path: &Path) -> Result<Option<String>, ConfigError> {
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
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// Reads a file; none where there is none, or an empty one.
pub fn read(path: &Path, environment: &Environment) -> Result<Option<Content>, ConfigError> {
    text(path)?.map(|text| parse(path, &text, environment)).transpose()
}

/// Reads settings from text, fills references in, and checks them.
pub fn parse(path: &Path, text: &str, environment: &Environment) -> Result<Content, ConfigError> {
    let raw = json(path, text)?;
    let mut value = raw.clone();
    let filled = reference::fill_in(&mut value, path.parent().unwrap_or(Path::new("")), environment);
    let found = shape::check(&SETTINGS, &value, &raw);
    let issue = |(keys, message): (Vec<String>, String)| Issue { line: line_of(text, &keys), path: keys, message };
    let issues: Vec<Issue> = filled.bad.into_iter().chain(found.wrong).map(issue).collect();
    if !issues.is_empty() {
        return Err(ConfigError::Invalid { path: path.to_owned(), issues });
    }
    let warning = |found| Warning { file: path.to_owned(), issue: issue(found) };
    Ok(Content {
        value,
        warnings: found.unknown.into_iter().map(warning).collect(),
        secrets: filled.secrets,
        files: filled.files,
    })
}

/// Reads an object from text that may have comments and commas at the end.
pub fn json(path: &Path, text: &str) -> Result<Value, ConfigError> {
    if depth(text) > MAX_DEPTH {
        let message = format!("it is nested deeper than {MAX_DEPTH} levels");
        return Err(ConfigError::Unreadable { path: path.to_owned(), message });
    }
    let value: Value = parse_to_serde_value(text, &ParseOptions::default()).map_err(|error| ConfigError::Json {
        path: path.to_owned(),
        line: error.line_display(),
        column: error.column_display(),
        message: format!("{}. Mend the JSON there; comments and trailing commas are fine.", error.kind()),
    })?;
    if !value.is_object() {
        let issue =
            Issue { path: Vec::new(), message: "settings must be one JSON object { … }".into(), line: Some(1) };
        return Err(ConfigError::Invalid { path: path.to_owned(), issues: vec![issue] });
    }
    Ok(value)
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

/// Deepest nesting of brackets outside of strings and comments: the parser behind has no limit of its own.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' | b'\'' => rest = after_string(rest, *byte),
            b'/' if after.first() == Some(&b'/') => rest = after_any(rest, b"\n"),
            b'/' if after.first() == Some(&b'*') => rest = after_any(after.get(1..).unwrap_or_default(), b"*/"),
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What comes after the end of a string.
fn after_string(mut rest: &[u8], quote: u8) -> &[u8] {
    loop {
        match rest {
            [b'\\', _, after @ ..] => rest = after,
            [byte, after @ ..] if *byte == quote => return after,
            [_, after @ ..] => rest = after,
            [] => return rest,
        }
    }
}

/// What comes after the next of these bytes.
fn after_any<'a>(rest: &'a [u8], end: &[u8]) -> &'a [u8] {
    let found = rest.windows(end.len()).position(|window| window == end);
    found.and_then(|at| rest.get(at + end.len()..)).unwrap_or_default()
}
