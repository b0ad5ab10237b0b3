//! Commands: prompt templates under a name.

use serde::{Deserialize, Serialize};

/// A command as `GET /command` lists it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that runs it; `null` where the file names none.
    #[serde(default, deserialize_with = "crate::given", skip_serializing_if = "Option::is_none")]
    pub agent: Option<Option<String>>,
    /// `provider/model`.
    #[serde(default, deserialize_with = "crate::given", skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    /// Where it comes from: `command`, `mcp` or `skill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The prompt; `$ARGUMENTS`, `$1`…, `` !`shell` `` and `@file` are filled in.
    pub template: String,
    /// The model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Runs as a subagent.
    #[serde(default, deserialize_with = "crate::given", skip_serializing_if = "Option::is_none")]
    pub subtask: Option<Option<bool>>,
    /// The placeholders of the template, in the order clients show them.
    pub hints: Vec<String>,
}
