//! Troupe's own settings (`troupe`).

use serde::{Deserialize, Serialize};

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
    /// Time limit of a subagent's turn; 0: none.
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
