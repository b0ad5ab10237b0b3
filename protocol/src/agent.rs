//! Agents: a prompt, rules and model settings under a name.

use serde::{Deserialize, Serialize};

use crate::JsonMap;
use crate::is_false;
use crate::message::ModelRef;
use crate::permission::Ruleset;

/// An agent as `GET /agent` lists it and the loop uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// When to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may use it.
    pub mode: AgentMode,
    /// Built in.
    #[serde(default)]
    pub native: bool,
    /// Not offered for choice.
    #[serde(default, deserialize_with = "crate::or_default", skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Sampling.
    #[serde(default, rename = "topP", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// For clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Its rules: defaults, then config, then its own.
    pub permission: Ruleset,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Its model's variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Its system prompt; without one the model family's own is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Passed on to the provider.
    pub options: JsonMap,
    /// Most model requests of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// Who may use an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// The task tool.
    Subagent,
    /// The person.
    Primary,
    /// Both.
    #[default]
    All,
}
