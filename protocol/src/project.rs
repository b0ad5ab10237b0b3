//! Projects and places.

use serde::{Deserialize, Serialize};

/// A project: a git repository (all its worktrees), or `global` for all directories without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// Hash of the repository's first commit, or `global`.
    pub id: String,
    /// The repository's top directory; `/` for `global`.
    pub worktree: String,
    /// `git`, where it is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<String>,
    /// A name for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When.
    pub time: ProjectTime,
    /// Other worktrees of it.
    pub sandboxes: Vec<String>,
}

/// Times of a project in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectTime {
    /// First used.
    pub created: u64,
    /// Last used.
    pub updated: u64,
    /// `init` was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<u64>,
}

/// Places, as `GET /path` gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The person's home.
    pub home: String,
    /// State that may be lost.
    pub state: String,
    /// Global config.
    pub config: String,
    /// Top of the project.
    pub worktree: String,
    /// The directory asked about.
    pub directory: String,
}

/// A git branch, as `GET /vcs` gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcsInfo {
    /// The current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The repository's main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
}
