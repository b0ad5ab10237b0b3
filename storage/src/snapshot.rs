//! Snapshots of a project's files: trees in a git repository of our own, beside the data, never in the project's.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::StorageError;
use crate::git::Git;

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
    max_file_bytes: u64,
}

impl Snapshots {
    /// Returns the snapshots of a worktree below `root`; none where they would be too large or make no sense: a
    /// person's home, the root of the file system, a directory that isn't there.
    pub fn of(root: &Path, project_id: &str, worktree: &Path, home: &Path, max_file_bytes: u64) -> Option<Self> {
        if worktree == home || worktree.parent().is_none() || !worktree.is_dir() {
            return None;
        }
        let hash = Sha256::digest(worktree.as_os_str().as_encoded_bytes());
        let name: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        let repository = root.join(project_id).join(name);
        Some(Self { worktree: worktree.to_owned(), repository, max_file_bytes })
    }

    /// Takes a snapshot and returns its tree hash. What git ignores stays out, and so do new files above the size
    /// limit.
    pub async fn take(&self) -> Result<String, StorageError> {
        self.prepare().await?;
        let changed = self.git("ls-files").args(["-z", "-m", "-o", "-d", "--exclude-standard"]).stdout().await?;
        let paths = self.small_enough(changed).await;
        if !paths.is_empty() {
            // A file that vanished in between is simply not there; any other failure is one.
            self.git("update-index").args(["-z", "--add", "--remove", "--stdin"]).input(paths).stdout().await?;
        }
        self.git("write-tree").line().await
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
    pub async fn restore(&self, tree: &str, files: &[String]) -> Result<(), StorageError> {
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
        let excludes = tokio::fs::read(self.worktree.join(".git/info/exclude")).await.unwrap_or_default();
        let target = info.join("exclude");
        if tokio::fs::read(&target).await.ok().as_deref() != Some(&excludes) {
            tokio::fs::create_dir_all(&info).await.map_err(StorageError::file("making", &info))?;
            tokio::fs::write(&target, excludes).await.map_err(StorageError::file("writing", &target))?;
        }
        Ok(())
    }

    /// Leaves new files out that are too large, or no files.
    async fn small_enough(&self, paths: Vec<u8>) -> Vec<u8> {
        let (worktree, limit) = (self.worktree.clone(), self.max_file_bytes);
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

fn split(names: &[u8]) -> impl Iterator<Item = String> + '_ {
    names.split(|byte| *byte == 0).filter(|n| !n.is_empty()).map(|n| String::from_utf8_lossy(n).into_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    async fn world() -> (tempfile::TempDir, PathBuf, Snapshots) {
        let root = tempfile::tempdir().expect("a directory");
        let work = root.path().join("work");
        std::fs::create_dir(&work).expect("made");
        Git::new(&work, "init").arg("-q").stdout().await.expect("git init");
        std::fs::write(work.join("kept.txt"), "one\n").expect("written");
        std::fs::write(work.join(".gitignore"), "ignored/\n").expect("written");
        let snapshots =
            Snapshots::of(&root.path().join("snap"), "p", &work, Path::new("/nobody"), 100).expect("snapshots");
        (root, work, snapshots)
    }

    #[tokio::test]
    async fn a_change_is_seen_between_two_snapshots_and_can_be_undone() {
        let (_root, work, snapshots) = world().await;
        let before = snapshots.take().await.expect("a tree");
        std::fs::write(work.join("kept.txt"), "two\n").expect("written");
        std::fs::write(work.join("new file.txt"), "x\n").expect("written");
        let after = snapshots.take().await.expect("a tree");
        let text = |bytes: &Option<Vec<u8>>| bytes.clone().map(|b| String::from_utf8(b).expect("text"));
        let changed = snapshots.contents(&before, &after).await.expect("contents");
        let seen: Vec<_> = changed.iter().map(|c| (c.file.as_str(), text(&c.before), text(&c.after))).collect();
        assert_eq!(
            seen,
            [
                ("kept.txt", Some("one\n".to_owned()), Some("two\n".to_owned())),
                ("new file.txt", None, Some("x\n".to_owned())),
            ]
        );
        let files = snapshots.changed(&before, &after).await.expect("names");
        snapshots.restore(&before, &files).await.expect("restored");
        assert_eq!(std::fs::read_to_string(work.join("kept.txt")).expect("read"), "one\n");
        assert!(!work.join("new file.txt").exists());
        assert_eq!(snapshots.take().await.expect("a tree"), before);
    }

    #[tokio::test]
    async fn ignored_and_large_files_stay_out_and_the_projects_own_repository_is_untouched() {
        let (_root, work, snapshots) = world().await;
        let before = snapshots.take().await.expect("a tree");
        std::fs::create_dir(work.join("ignored")).expect("made");
        std::fs::write(work.join("ignored/a"), "x").expect("written");
        std::fs::write(work.join("large"), "x".repeat(101)).expect("written");
        assert_eq!(snapshots.take().await.expect("a tree"), before);
        let status = Git::new(&work, "status").arg("--porcelain").line().await.expect("status");
        assert!(status.contains("?? kept.txt"), "{status}");
    }

    #[tokio::test]
    async fn a_home_and_the_root_have_no_snapshots() {
        let (root, work, _) = world().await;
        assert!(Snapshots::of(root.path(), "p", &work, &work, 100).is_none());
        assert!(Snapshots::of(root.path(), "p", Path::new("/"), Path::new("/nobody"), 100).is_none());
    }
}
