//! Why a tool call failed, in words for the model.

use std::path::PathBuf;

use crate::context::Refusal;

/// Why a tool call failed. The text is what the model reads, so each says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments don't fit the schema.
    #[error(
        "The {tool} tool was called with invalid arguments: {problem} (at {path}). \
         Rewrite the arguments so that they satisfy the schema and call it again."
    )]
    Arguments {
        /// The tool.
        tool: String,
        /// Where in the arguments; `.` for the whole.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// A rule or a person said no, or nobody can be asked.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A file could not be read or written.
    #[error("{action} {} failed: {source}", path.display())]
    Io {
        /// What was tried: `reading`, `writing`…
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The call ran into its time limit.
    #[error("{tool} did not end within {limit_ms} ms and was stopped. Narrow the call, or split it into smaller ones.")]
    TimedOut {
        /// The tool.
        tool: String,
        /// The limit.
        limit_ms: u64,
    },
    /// A person stopped the turn.
    #[error("The call was aborted before it was done.")]
    Aborted,
    /// What the tool itself has to say.
    #[error("{0}")]
    Failed(String),
}

impl ToolError {
    /// Returns a failure in the tool's own words.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// Returns a closure for `map_err` on file operations.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
