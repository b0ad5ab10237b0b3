//! Tools: what a model can do to a project. Files, search, commands, the web.
//!
//! A tool knows nothing of actors, storage or the wire. What it needs from above it states as a trait ([`Desk`]):
//! asking for permission, asking a person, showing progress, saying that its effects begin. The executor of the
//! `actors` crate answers. Truncation of long output, time limits and aborts belong to the executor, once for all.
//!
//! Start at [`tool`] for the trait, [`context`] for what a tool is given, then one file a tool.

pub mod apply_patch;
pub mod bash;
pub mod batch;
pub mod codesearch;
pub mod context;
pub mod diagnostics;
pub mod diff;
pub mod edit;
pub mod error;
pub mod files;
pub mod format;
pub mod glob;
pub mod grep;
pub mod guard;
pub mod lsp;
pub mod path;
pub mod plan;
pub mod process;
pub mod question;
pub mod read;
pub mod repo_clone;
pub mod repo_overview;
pub mod search;
pub mod shell;
pub mod skill;
pub mod structured_output;
pub mod task;
pub mod todoread;
pub mod todowrite;
pub mod tool;
pub mod webfetch;
pub mod websearch;
pub mod write;

mod remote;
mod repository;
mod text;

#[cfg(test)]
mod testing;

pub use context::{Ask, Delegated, Delegation, Desk, EXACTLY, Effects, Place, Progress, Refusal, ToolContext};
pub use error::ToolError;
pub use tool::{AnyTool, Tool, ToolOutput, Traits};
