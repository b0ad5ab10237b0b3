//! Config, with OpenCode's names and shapes (`opencode.json`), and a block `troupe` for our own settings.
//!
//! A file is read as JSON, merged with the others as JSON, and only then read as a [`Config`]: what this type doesn't
//! name is kept for clients and otherwise ignored.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::agent::AgentMode;
use crate::permission::{Action, Rule, Ruleset};

mod provider;
mod troupe;

pub use provider::{
    CostConfig, LimitConfig, ModalitiesConfig, ModelConfig, ModelProviderConfig, ProviderConfig, ProviderOptions,
};
pub use troupe::{
    Budget, BudgetConfig, Damaged, Durability, EditAnchors, EditConfig, LimitsConfig, PluginsConfig, Recovery,
    RetryConfig, SearchConfig, SearchProvider, SnapshotConfig, TaskConfig, TroupeConfig, WorkspaceConfig,
};

/// The settings of one directory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The model of prompts that name none: `provider/model`.
    pub model: Option<String>,
    /// The model of titles and the like.
    pub small_model: Option<String>,
    /// The agent of prompts that name none.
    pub default_agent: Option<String>,
    /// The name clients show.
    pub username: Option<String>,
    /// Whether sessions may be shared.
    pub share: Option<Share>,
    /// Whether steps take snapshots of the files (default: yes).
    pub snapshot: Option<bool>,
    /// Rules of all agents.
    pub permission: Option<PermissionConfig>,
    /// Tools switched on or off; the older spelling of rules.
    pub tools: Option<IndexMap<String, bool>>,
    /// Agents by name.
    pub agent: IndexMap<String, AgentConfig>,
    /// How deep subagents may start subagents of their own, where their rules let them (default: 1, they may not).
    pub subagent_depth: Option<u32>,
    /// Agents by name; the older spelling.
    pub mode: IndexMap<String, AgentConfig>,
    /// Commands by name.
    pub command: IndexMap<String, CommandConfig>,
    /// Providers by key.
    pub provider: IndexMap<String, ProviderConfig>,
    /// Providers that are not used.
    pub disabled_providers: Vec<String>,
    /// Providers that alone are used.
    pub enabled_providers: Option<Vec<String>>,
    /// MCP servers by name.
    pub mcp: IndexMap<String, Value>,
    /// Files, globs and urls of instructions for the model.
    pub instructions: Vec<String>,
    /// Compaction of long histories.
    pub compaction: CompactionConfig,
    /// Formatters by name; `false` switches all off.
    pub formatter: Option<Value>,
    /// Language servers by name; `false` switches all off.
    pub lsp: Option<Value>,
    /// More places of skills.
    pub skills: Option<SkillsConfig>,
    /// The server's settings.
    pub server: ServerConfig,
    /// What may change or go.
    pub experimental: JsonMap,
    /// Troupe's own settings.
    pub troupe: TroupeConfig,
}

/// Whether sessions may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// On request.
    Manual,
    /// Always.
    Auto,
    /// Never.
    Disabled,
}

/// `permission`: one action for everything, or rules by permission.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PermissionConfig {
    /// For everything.
    All(Action),
    /// By permission, in order.
    Each(IndexMap<String, PermissionRules>),
}

/// The rules of one permission: one action for everything, or actions by pattern.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PermissionRules {
    /// For everything.
    All(Action),
    /// By pattern, in order.
    Each(IndexMap<String, Action>),
}

impl PermissionConfig {
    /// Returns the rules in order, so that the last match wins.
    pub fn rules(&self) -> Ruleset {
        match self {
            Self::All(action) => vec![Rule::new("*", "*", *action)],
            Self::Each(by_permission) => by_permission
                .iter()
                .flat_map(|(permission, rules)| match rules {
                    PermissionRules::All(action) => vec![Rule::new(permission, "*", *action)],
                    PermissionRules::Each(by_pattern) => {
                        by_pattern.iter().map(|(pattern, action)| Rule::new(permission, pattern, *action)).collect()
                    }
                })
                .collect(),
        }
    }
}

/// An agent, or changes to a built-in one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AgentConfig {
    /// `provider/model`.
    pub model: Option<String>,
    /// The model's variant.
    pub variant: Option<String>,
    /// Sampling.
    pub temperature: Option<f64>,
    /// Sampling.
    pub top_p: Option<f64>,
    /// The system prompt.
    pub prompt: Option<String>,
    /// When to use it.
    pub description: Option<String>,
    /// Who may use it.
    pub mode: Option<AgentMode>,
    /// Not offered for choice.
    pub hidden: Option<bool>,
    /// Not there at all.
    pub disable: Option<bool>,
    /// For clients.
    pub color: Option<String>,
    /// Most model requests of one turn.
    pub steps: Option<u32>,
    /// The older spelling of `steps`.
    #[serde(rename = "maxSteps")]
    pub max_steps: Option<u32>,
    /// Tools switched on or off; the older spelling of rules.
    pub tools: Option<IndexMap<String, bool>>,
    /// Its rules.
    pub permission: Option<PermissionConfig>,
    /// Passed on to the provider.
    pub options: JsonMap,
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CommandConfig {
    /// The prompt.
    pub template: String,
    /// What it does.
    pub description: Option<String>,
    /// The agent that runs it.
    pub agent: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    /// The model's variant.
    pub variant: Option<String>,
    /// Runs as a subagent.
    pub subtask: Option<bool>,
}

/// Compaction of long histories.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CompactionConfig {
    /// By itself, when the window is nearly full (default: yes).
    pub auto: Option<bool>,
    /// Take old tool output out of the history (default: yes).
    pub prune: Option<bool>,
    /// Turns kept as they are.
    pub tail_turns: Option<u32>,
    /// Tokens kept as they are.
    pub preserve_recent_tokens: Option<u64>,
    /// Tokens kept free.
    pub reserved: Option<u64>,
}

/// More places of skills.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SkillsConfig {
    /// Directories; relative ones count from the session's, `~/` is the home.
    pub paths: Vec<String>,
}

/// The server's settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServerConfig {
    /// TCP port.
    pub port: Option<u16>,
    /// Address to listen on.
    pub hostname: Option<String>,
    /// More origins that browsers may come from.
    pub cors: Vec<String>,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn permission_rules_keep_their_order_in_all_three_forms() {
        let read = |value| serde_json::from_value::<PermissionConfig>(value).expect("a permission config").rules();
        assert_eq!(read(json!("ask")), [Rule::new("*", "*", Action::Ask)]);
        assert_eq!(
            read(json!({ "bash": { "*": "allow", "rm *": "deny" }, "edit": "ask" })),
            [
                Rule::new("bash", "*", Action::Allow),
                Rule::new("bash", "rm *", Action::Deny),
                Rule::new("edit", "*", Action::Ask),
            ]
        );
    }

    #[test]
    fn unknown_keys_are_no_error_and_unset_ones_have_their_defaults() {
        let config: Config =
            serde_json::from_value(json!({ "theme": "x", "troupe": { "retry": { "base_ms": 7 } } })).expect("a config");
        assert_eq!(config.troupe.retry, RetryConfig { base_ms: 7, ..RetryConfig::default() });
        assert_eq!(config.troupe.recovery, Recovery::Resume);
    }
}
