//! Snapshots of a project's files: trees in a git repository of our own, beside the data, never in the project's.
//!
//! They are kept for a week ([`keep_swept`]); what nobody can use any more goes then.

mod sweep;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use protocol::config::SnapshotConfig;
use sha2::{Digest, Sha256};

use crate::error::StorageError;
use crate::git::Git;

pub use sweep::{keep_swept, sweep};

/// Largest list of ignored files that is taken over from the repository, in bytes.
const MAX_EXCLUDES: u64 = 1024 * 1024;
/// Most changed files whose content is read.
const CONTENTS: usize = 500;

/// A file that differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Relative to the worktree.
    pub file: String,
    /// What it held; none where it was not there.
    pub before: Option<Vec<u8>>,
    /// What it holds; none where it is gone.
    pub after: Option<Vec<u8>>,
}

/// The snapshots of one worktree.
#[derive(Clone, Debug)]
pub struct Snapshots {
    worktree: PathBuf,
    repository: PathBuf,
    limits: SnapshotConfig,
}

/// Why a worktree has no snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It is a person's home.
    #[error("it is a home directory: a snapshot would hold everything a person has")]
    Home,
    /// It is the whole file system.
    #[error("it is the root of the file system")]
    Root,
    /// It isn't there.
    #[error("it is no directory")]
    Missing,
}

impl Snapshots {
    /// Returns the snapshots of a worktree below `root`. Errors where they would be too large or make no sense: a
    /// person's home, the root of the file system, a directory that isn't there.
    pub fn of(
        root: &Path,
        project_id: &str,
        worktree: &Path,
        home: &Path,
        limits: SnapshotConfig,
    ) -> Result<Self, Unfit> {
        if worktree.parent().is_none() {
            return Err(Unfit::Root);
        }
        // The worktree's symbolic links are resolved, the home's may not be.
        if worktree == home || home.canonicalize().is_ok_and(|home| home == worktree) {
            return Err(Unfit::Home);
        }
        if !worktree.is_dir() {
            return Err(Unfit::Missing);
        }
        let hash = Sha256::digest(worktree.as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        let repository = root.join(project_id).join(name);
        Ok(Self { worktree: worktree.to_owned(), repository, limits })
    }

    /// Takes a snapshot and returns its tree hash. What git ignores stays out, and so do new files above the size
    /// limit. Errors with [`StorageError::LowDisk`] where it would fill the disk.
    pub async fn take(&self) -> Result<String, StorageError> {
        self.prepare().await?;
        self.look_for_room()?;
        match self.write().await {
            Err(StorageError::Git { message, .. }) if self.mend(&message).await => self.write().await,
            other => other,
        }
    }

    async fn write(&self) -> Result<String, StorageError> {
        let changed = self.git("ls-files").args(["-z", "-m", "-o", "-d", "--exclude-standard"]).stdout().await?;
        let paths = self.small_enough(changed).await;
        if !paths.is_empty() {
            // A file that vanished in between is simply not there; any other failure is one.
            self.git("update-index").args(["-z", "--add", "--remove", "--stdin"]).input(paths).stdout().await?;
        }
        self.git("write-tree").line().await
    }

    /// Takes an index away that a kill or a power loss left broken, and says whether it was: it is only a cache of the
    /// worktree.
    async fn mend(&self, message: &str) -> bool {
        if !message.contains("index file") {
            return false;
        }
        let removed = tokio::fs::remove_file(self.repository.join("index")).await;
        let worktree = self.worktree.display();
        match &removed {
            Ok(()) => tracing::warn!(%worktree, message, "the index of snapshots was damaged and is made anew"),
            Err(error) => tracing::warn!(%worktree, message, %error, "the index of snapshots is damaged"),
        }
        removed.is_ok()
    }

    fn look_for_room(&self) -> Result<(), StorageError> {
        let wanted = self.limits.min_free_bytes;
        match free_bytes(&self.repository) {
            Some(free) if free < wanted => Err(StorageError::LowDisk { path: self.repository.clone(), free, wanted }),
            _ => Ok(()),
        }
    }

    /// Returns the paths that differ between two snapshots, relative to the worktree.
    pub async fn changed(&self, from: &str, to: &str) -> Result<Vec<String>, StorageError> {
        if from == to {
            return Ok(Vec::new());
        }
        let names =
            self.git("diff-tree").args(["-r", "-z", "--name-only", "--no-renames"]).arg(from).arg(to).stdout().await?;
        Ok(split(&names).collect())
    }

    /// Returns the content of the files that differ between two snapshots; of more than 500 only of the first.
    pub async fn contents(&self, from: &str, to: &str) -> Result<Vec<Changed>, StorageError> {
        let mut changed = Vec::new();
        for (at, file) in self.changed(from, to).await?.into_iter().enumerate() {
            let (before, after) =
                if at < CONTENTS { (self.blob(from, &file).await?, self.blob(to, &file).await?) } else { (None, None) };
            changed.push(Changed { file, before, after });
        }
        Ok(changed)
    }

    /// Returns what differs between a snapshot and another, as git shows it.
    pub async fn unified(&self, from: &str, to: &str) -> Result<String, StorageError> {
        let text = self.git("diff").args(["--no-ext-diff", "--no-color"]).arg(from).arg(to).stdout().await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Puts files (relative to the worktree) back to what they were in a snapshot; what was not there is removed.
    /// Errors, with nothing done, where the snapshot is gone.
    pub async fn restore(&self, tree: &str, files: &[String]) -> Result<(), StorageError> {
        // Of a snapshot that is gone no file would be found, and all would be removed.
        self.git("cat-file").arg("-e").arg(format!("{tree}^{{tree}}")).stdout().await?;
        let mut there = Vec::new();
        for file in files {
            if self.blob_id(tree, file).await?.is_some() {
                there.extend_from_slice(file.as_bytes());
                there.push(0);
            } else {
                let path = self.worktree.join(file);
                match tokio::fs::remove_file(&path).await {
                    Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StorageError::File { action: "removing", path, source });
                    }
                    _ => {}
                }
            }
        }
        if !there.is_empty() {
            self.git("checkout")
                .arg(tree)
                .args(["--pathspec-from-file=-", "--pathspec-file-nul"])
                .input(there)
                .stdout()
                .await?;
        }
        Ok(())
    }

    async fn prepare(&self) -> Result<(), StorageError> {
        if !self.repository.join("HEAD").exists() {
            tokio::fs::create_dir_all(&self.repository)
                .await
                .map_err(StorageError::file("making", &self.repository))?;
            Git::with_options(&self.repository, &["--bare"], "init")
                .args(["--quiet", "--template="])
                .arg(&self.repository)
                .stdout()
                .await?;
        }
        // Left by a run that was killed: we are the only user of this repository, and one at a time.
        let _ = tokio::fs::remove_file(self.repository.join("index.lock")).await;
        let info = self.repository.join("info");
        let source = self.worktree.join(".git/info/exclude");
        // A fifo or a device there has no end.
        let is_small = tokio::fs::metadata(&source).await.is_ok_and(|m| m.is_file() && m.len() <= MAX_EXCLUDES);
        let excludes = if is_small { tokio::fs::read(&source).await.unwrap_or_default() } else { Vec::new() };
        let target = info.join("exclude");
        if tokio::fs::read(&target).await.ok().as_deref() != Some(&excludes) {
            tokio::fs::create_dir_all(&info).await.map_err(StorageError::file("making", &info))?;
            tokio::fs::write(&target, excludes).await.map_err(StorageError::file("writing", &target))?;
        }
        Ok(())
    }

    /// Leaves new files out that are too large, or no files.
    async fn small_enough(&self, paths: Vec<u8>) -> Vec<u8> {
        let (worktree, limit) = (self.worktree.clone(), self.limits.max_file_bytes);
        let keep = move || {
            let mut seen = HashSet::new();
            let mut kept = Vec::with_capacity(paths.len());
            for path in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
                if !seen.insert(path) {
                    continue;
                }
                let full = worktree.join(String::from_utf8_lossy(path).as_ref());
                let fits = std::fs::symlink_metadata(full)
                    .map_or(true, |m| m.file_type().is_symlink() || (m.file_type().is_file() && m.len() <= limit));
                if fits {
                    kept.extend_from_slice(path);
                    kept.push(0);
                }
            }
            kept
        };
        tokio::task::spawn_blocking(keep).await.unwrap_or_default()
    }

    async fn blob_id(&self, tree: &str, file: &str) -> Result<Option<String>, StorageError> {
        let output = self.git("rev-parse").arg("--verify").arg("--quiet").arg(format!("{tree}:{file}")).run().await?;
        Ok(output.success.then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    async fn blob(&self, tree: &str, file: &str) -> Result<Option<Vec<u8>>, StorageError> {
        let output = self.git("cat-file").arg("blob").arg(format!("{tree}:{file}")).run().await?;
        Ok(output.success.then_some(output.stdout))
    }

    fn git(&self, name: &str) -> Git {
        let option = |key: &str, path: &Path| {
            let mut option = std::ffi::OsString::from(key);
            option.push(path);
            option
        };
        let options = [
            option("--git-dir=", &self.repository),
            option("--work-tree=", &self.worktree),
            "-c".into(),
            "core.autocrlf=false".into(),
            "-c".into(),
            "core.quotepath=false".into(),
            "-c".into(),
            "core.fsmonitor=false".into(),
            "-c".into(),
            "gc.auto=0".into(),
            "-c".into(),
            "core.bare=false".into(),
        ];
        Git::with_options(&self.worktree, &options, name)
    }
}

/// Returns how many bytes a directory's disk has left for us; none where the system doesn't say.
fn free_bytes(directory: &Path) -> Option<u64> {
    #[cfg(unix)]
    return nix::sys::statvfs::statvfs(directory).ok().map(|disk| {
        // The types differ from system to system.
        #[allow(clippy::useless_conversion)]
        let (blocks, size) = (u64::from(disk.blocks_available()), u64::from(disk.fragment_size()));
        blocks.saturating_mul(size)
    });
    #[cfg(not(unix))]
    None
}

fn split(names: &[u8]) -> impl Iterator<Item = String> + '_ {
    names.split(|byte| *byte == 0).filter(|n| !n.is_empty()).map(|n| String::from_utf8_lossy(n).into_owned())
}
