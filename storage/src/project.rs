//! Which project a directory belongs to.

use std::path::{Path, PathBuf};

use crate::git::Git;

/// The project's key of all directories without a repository.
pub const GLOBAL: &str = "global";

/// A directory's place in its project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The hash of the repository's first commit; [`GLOBAL`] where there is none.
    pub project_id: String,
    /// The top of the repository; `/` where there is none.
    pub worktree: PathBuf,
    /// Whether there is a repository.
    pub is_repository: bool,
}

impl Identity {
    /// Returns a directory relative to the worktree, as a session's `path` has it.
    pub fn path_of(&self, directory: &Path) -> String {
        directory.strip_prefix(&self.worktree).map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Returns the identity of a directory. All worktrees of a repository have the same project. A directory that does
/// not exist, or without git, belongs to [`GLOBAL`].
pub async fn identify(directory: &Path) -> Identity {
    let none = || Identity { project_id: GLOBAL.to_owned(), worktree: PathBuf::from("/"), is_repository: false };
    let Some(top) = repository_of(directory) else { return none() };
    let worktree = match Git::new(&top, "rev-parse").arg("--show-toplevel").line().await {
        Ok(path) if !path.is_empty() => PathBuf::from(path),
        _ => return none(),
    };
    let roots = Git::new(&worktree, "rev-list").args(["--max-parents=0", "HEAD"]).line().await.unwrap_or_default();
    let project_id = roots.lines().min().unwrap_or(GLOBAL).to_owned();
    Identity { project_id, worktree, is_repository: true }
}

/// Returns the nearest directory at or above this one that holds a `.git`.
pub fn repository_of(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// Returns the repository's current branch, and its main one.
pub async fn branches(worktree: &Path) -> protocol::project::VcsInfo {
    let current = Git::new(worktree, "branch").arg("--show-current").line().await.ok().filter(|b| !b.is_empty());
    let main = match Git::new(worktree, "symbolic-ref").args(["--short", "refs/remotes/origin/HEAD"]).line().await {
        Ok(name) => name.strip_prefix("origin/").map(str::to_owned),
        Err(_) => {
            let names = Git::new(worktree, "branch").arg("--format=%(refname:short)").line().await.unwrap_or_default();
            ["main", "master"].into_iter().find(|name| names.lines().any(|n| n == *name)).map(str::to_owned)
        }
    };
    protocol::project::VcsInfo { branch: current, default_branch: main }
}
