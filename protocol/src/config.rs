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

/// A provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// Its name.
    pub name: Option<String>,
    /// The client package OpenCode would use; it names the protocol.
    pub npm: Option<String>,
    /// Base url; `options.baseURL` goes before it.
    pub api: Option<String>,
    /// Environment variables that may hold its key.
    pub env: Option<Vec<String>>,
    /// Settings of the connection.
    pub options: ProviderOptions,
    /// Models by key.
    pub models: IndexMap<String, ModelConfig>,
    /// Models that alone are used.
    pub whitelist: Option<Vec<String>>,
    /// Models that are not used.
    pub blacklist: Option<Vec<String>>,
}

/// Settings of a provider's connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderOptions {
    /// The key.
    #[serde(rename = "apiKey")]
    pub api_key: Option<String>,
    /// Where it is.
    #[serde(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Most ms of a whole request; `false`: no limit (the default).
    pub timeout: Option<Value>,
    /// Most ms between two real events of a stream (default 120000).
    #[serde(rename = "chunkTimeout")]
    pub chunk_timeout: Option<u64>,
    /// Most ms until the first byte of an answer (default 300000).
    #[serde(rename = "headerTimeout")]
    pub header_timeout: Option<u64>,
    /// What isn't named here, for the adapter of the provider's package: it reads what it knows (`resourceName`,
    /// `setCacheKey`, `region`…) and ignores the rest. Nothing of it is put into a request's body; what is to go there
    /// stands under a model's or an agent's `options`.
    #[serde(flatten)]
    pub rest: JsonMap,
}

/// A model, or changes to one of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// Its name on the wire (default: the key).
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its family.
    pub family: Option<String>,
    /// `YYYY-MM-DD`.
    pub release_date: Option<String>,
    /// Takes files.
    pub attachment: Option<bool>,
    /// Thinks.
    pub reasoning: Option<bool>,
    /// Takes a temperature.
    pub temperature: Option<bool>,
    /// Calls tools.
    pub tool_call: Option<bool>,
    /// How thinking goes back to it.
    pub interleaved: Option<Value>,
    /// Prices.
    pub cost: Option<CostConfig>,
    /// Limits.
    pub limit: Option<LimitConfig>,
    /// What it reads and writes.
    pub modalities: Option<ModalitiesConfig>,
    /// `alpha`, `beta`, `deprecated` or `active`.
    pub status: Option<String>,
    /// Passed on to the vendor.
    pub options: JsonMap,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Another client package than the provider's.
    pub provider: Option<ModelProviderConfig>,
    /// Named sets of options.
    pub variants: IndexMap<String, JsonMap>,
}

/// Another client package than the provider's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelProviderConfig {
    /// The package.
    pub npm: Option<String>,
    /// Base url.
    pub api: Option<String>,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CostConfig {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of what is read from the prompt cache.
    pub cache_read: f64,
    /// Of what is written to the prompt cache.
    pub cache_write: f64,
}

/// Limits in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitConfig {
    /// All of a request and its answer.
    pub context: u64,
    /// A request alone.
    pub input: Option<u64>,
    /// An answer.
    pub output: u64,
}

/// What a model reads and writes: `text`, `audio`, `image`, `video`, `pdf`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModalitiesConfig {
    /// Reads.
    pub input: Vec<String>,
    /// Writes.
    pub output: Vec<String>,
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

/// Troupe's own settings. Durations in ms, sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TroupeConfig {
    /// Trying failed model requests again.
    pub retry: RetryConfig,
    /// Models (`provider/model`) that answer where the one that was asked fails for good, in this order.
    pub fallback: Vec<String>,
    /// How much may run at once.
    pub limits: LimitsConfig,
    /// What may be spent.
    pub budget: BudgetConfig,
    /// Subagents.
    pub task: TaskConfig,
    /// What an open turn does after a crash.
    pub recovery: Recovery,
    /// How sure a commit is before it is acknowledged. Read from the global config only.
    pub durability: Durability,
    /// What is done with a damaged database. Read from the global config only.
    pub damaged: Damaged,
    /// Directories in use.
    pub workspace: WorkspaceConfig,
    /// Snapshots of a project's files.
    pub snapshot: SnapshotConfig,
    /// The edit tool.
    pub edit: EditConfig,
    /// Searching the web.
    pub search: SearchConfig,
    /// Plugins and custom tools.
    pub plugins: PluginsConfig,
}

/// Searching the web. Off unless a service is named here, or OpenCode's flags switch it on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SearchConfig {
    /// The service.
    pub provider: Option<SearchProvider>,
    /// Where Exa is, if not at its own address.
    pub exa_url: Option<String>,
    /// Where Parallel is, if not at its own address.
    pub parallel_url: Option<String>,
}

/// A service that searches the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    /// <https://exa.ai>; its key is in `EXA_API_KEY`.
    Exa,
    /// <https://parallel.ai>; its key is in `PARALLEL_API_KEY`.
    Parallel,
}

/// Plugins and custom tools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PluginsConfig {
    /// What runs those written in JavaScript: a program, or its name on `PATH` (default: Node, else Bun).
    pub runtime: Option<String>,
    /// One hook of one plugin that takes longer is passed over.
    pub hook_ms: u64,
    /// A module that takes longer to load is left out.
    pub load_ms: u64,
}

impl Default for PluginsConfig {
    fn default() -> Self {
        Self { runtime: None, hook_ms: 10_000, load_ms: 20_000 }
    }
}

/// Trying failed model requests again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RetryConfig {
    /// Requests of one model step in all, the first included.
    pub max_attempts: u32,
    /// First wait; doubles, with jitter.
    pub base_ms: u64,
    /// Longest wait; a vendor that asks for more ends the step.
    pub max_delay_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { max_attempts: 5, base_ms: 2_000, max_delay_ms: 60_000 }
    }
}

/// How much may run at once, over all sessions of the service; 0: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LimitsConfig {
    /// Model requests.
    pub requests: u32,
    /// Model requests of one provider.
    pub requests_per_provider: u32,
    /// Model requests of one session and its subagents.
    pub requests_per_tree: u32,
    /// Commands that tools run.
    pub processes: u32,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { requests: 0, requests_per_provider: 0, requests_per_tree: 0, processes: 64 }
    }
}

/// What may be spent before a turn ends and says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetConfig {
    /// By one turn.
    #[serde(skip_serializing_if = "Budget::is_none")]
    pub turn: Budget,
    /// By one session.
    #[serde(skip_serializing_if = "Budget::is_none")]
    pub session: Budget,
    /// By a session and its subagents.
    #[serde(skip_serializing_if = "Budget::is_none")]
    pub tree: Budget,
    /// By all sessions, since midnight (UTC).
    #[serde(skip_serializing_if = "Budget::is_none")]
    pub day: Budget,
}

/// A budget; what is left out is not bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Tokens of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Model requests, those for summaries included; one that is tried again counts once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Model steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Time in which models answered and tools ran, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

impl BudgetConfig {
    /// Returns it with what another says in place of its own.
    pub fn with(self, other: &Self) -> Self {
        Self {
            turn: self.turn.with(&other.turn),
            session: self.session.with(&other.session),
            tree: self.tree.with(&other.tree),
            day: self.day.with(&other.day),
        }
    }
}

impl Budget {
    /// Returns whether nothing is bounded.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn with(self, other: &Self) -> Self {
        Self {
            tokens: other.tokens.or(self.tokens),
            cost: other.cost.or(self.cost),
            requests: other.requests.or(self.requests),
            steps: other.steps.or(self.steps),
            wall_ms: other.wall_ms.or(self.wall_ms),
        }
    }
}

/// Subagents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskConfig {
    /// Time limit of a subagent as its parent sees it; 0: none.
    pub timeout_ms: u64,
}

/// What an open turn does after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// Goes on.
    #[default]
    Resume,
    /// Is closed with an error.
    Interrupt,
}

/// How sure a commit is before it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Holds over a power loss.
    #[default]
    Full,
    /// Holds over a crash of the process; for slow disks.
    Normal,
}

/// What is done with a damaged database. The file itself is kept in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Damaged {
    /// What can be read of it goes into the new one.
    #[default]
    Salvage,
    /// The new one begins empty.
    Replace,
}

/// Directories in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkspaceConfig {
    /// A directory without running turns or subscribers gives back what it holds after this.
    pub idle_ms: u64,
}

impl Default for WorkspaceConfig {
    fn default() -> Self {
        Self { idle_ms: 600_000 }
    }
}

/// Snapshots of a project's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SnapshotConfig {
    /// Untracked files above it aren't put into snapshots.
    pub max_file_bytes: u64,
    /// No snapshots are taken while the disk has less left than this.
    pub min_free_bytes: u64,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self { max_file_bytes: 50 * 1024 * 1024, min_free_bytes: 256 * 1024 * 1024 }
    }
}

/// The edit tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EditConfig {
    /// Whether a block that only begins and ends alike may be replaced.
    pub anchors: EditAnchors,
}

/// Whether a block that only begins and ends alike may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EditAnchors {
    /// Never: the nearest block is named in the error.
    #[default]
    Off,
    /// When the middle is similar, as OpenCode does.
    Similar,
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
