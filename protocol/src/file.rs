//! Files of a project as the file routes give them.

use serde::{Deserialize, Serialize};

use crate::session::FileStatus;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNode {
    /// Its name.
    pub name: String,
    /// Relative to the project's directory; a directory's ends in `/`.
    pub path: String,
    /// Absolute.
    pub absolute: String,
    /// `file` or `directory`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether git ignores it.
    pub ignored: bool,
}

/// A file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// `text` or `binary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text; base64 where `encoding` says so.
    pub content: String,
    /// `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Media type of a binary file.
    #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A file that differs from the last commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the worktree.
    pub path: String,
    /// Added lines.
    pub added: u64,
    /// Removed lines.
    pub removed: u64,
    /// What became of it.
    pub status: FileStatus,
}

/// A line that `GET /find` found, in ripgrep's JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundLine {
    /// The file, relative to the directory.
    pub path: Text,
    /// The line, with its end.
    pub lines: Text,
    /// From 1.
    pub line_number: u64,
    /// Of the line's first byte.
    pub absolute_offset: u64,
    /// Where in the line.
    pub submatches: Vec<Submatch>,
}

/// Text, wrapped as ripgrep does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
}

/// A match within a line; bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submatch {
    /// What matched.
    #[serde(rename = "match")]
    pub matched: Text,
    /// First byte.
    pub start: usize,
    /// Past the last byte.
    pub end: usize,
}
