//! What differs from the last commit, as git sees it.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use protocol::file::ChangedFile;
use protocol::session::FileStatus;
use storage::StorageError;
use storage::git::Git;

/// Most untracked files whose lines are counted, and how much of each is read, in bytes.
const COUNTED: usize = 1_000;
const COUNTED_BYTES: u64 = 1024 * 1024;
/// Most files that are named.
const NAMED: usize = 10_000;

/// Returns the files of a worktree that differ from the last commit, and those it doesn't have, by path. What git
/// ignores is left out; of more than 10,000 the rest is.
pub async fn since_commit(worktree: &Path) -> Result<Vec<ChangedFile>, StorageError> {
    let base = match Git::new(worktree, "rev-parse").args(["-q", "--verify", "HEAD"]).line().await {
        Ok(commit) => commit,
        // Nothing is committed yet: all differs from the empty tree.
        Err(_) => Git::new(worktree, "hash-object").args(["-t", "tree", "/dev/null"]).line().await?,
    };
    let diff = |what| Git::new(worktree, "diff").args(["-z", "--no-renames", "--no-ext-diff", what, &base]).stdout();
    let others = Git::new(worktree, "ls-files").args(["-z", "--others", "--exclude-standard"]).stdout();
    let (counts, kinds, others) = tokio::join!(diff("--numstat"), diff("--name-status"), others);
    let mut files = tracked(&counts?, &kinds?);
    let others = fields(&others?).take(NAMED).map(str::to_owned).collect();
    files.extend(untracked(worktree.to_owned(), others).await);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.truncate(NAMED);
    Ok(files)
}

/// Reads `ADDED\tREMOVED\tPATH` (dashes for a binary file) and `LETTER`, `PATH`, all ended by NUL.
fn tracked(counts: &[u8], kinds: &[u8]) -> Vec<ChangedFile> {
    let mut letters = fields(kinds);
    let mut kinds = HashMap::new();
    while let (Some(letter), Some(path)) = (letters.next(), letters.next()) {
        let status = match letter {
            "A" => FileStatus::Added,
            "D" => FileStatus::Deleted,
            _ => FileStatus::Modified,
        };
        kinds.insert(path, status);
    }
    let changed = fields(counts).filter_map(|line| {
        let mut columns = line.splitn(3, '\t');
        let (added, removed, path) = (columns.next()?, columns.next()?, columns.next()?);
        Some(ChangedFile {
            path: path.to_owned(),
            added: added.parse().unwrap_or(0),
            removed: removed.parse().unwrap_or(0),
            status: kinds.get(path).copied().unwrap_or(FileStatus::Modified),
        })
    });
    changed.collect()
}

fn fields(output: &[u8]) -> impl Iterator<Item = &str> {
    // Names that aren't UTF-8 can't be told in JSON.
    output
        .split(|byte| *byte == 0)
        .filter_map(|field| std::str::from_utf8(field).ok())
        .filter(|field| !field.is_empty())
}

async fn untracked(worktree: PathBuf, paths: Vec<String>) -> Vec<ChangedFile> {
    let count = move || {
        let counted = paths.into_iter().enumerate().map(|(number, path)| ChangedFile {
            added: if number < COUNTED { lines_of(&worktree.join(&path)) } else { 0 },
            removed: 0,
            status: FileStatus::Added,
            path,
        });
        counted.collect()
    };
    tokio::task::spawn_blocking(count).await.unwrap_or_default()
}

/// The lines of a text file; 0 for any other.
fn lines_of(path: &Path) -> u64 {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut bytes = Vec::new();
    let read = is_file.then(|| std::fs::File::open(path).ok()?.take(COUNTED_BYTES).read_to_end(&mut bytes).ok());
    if read.flatten().is_none() || bytes.contains(&0) {
        return 0;
    }
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    ends + u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn counts_and_kinds_of_git_are_put_together() {
        let files = tracked(b"1\t0\tsub/f.txt\0-\t-\ta b.png\0", b"M\0sub/f.txt\0D\0a b.png\0");
        let file = |path: &str, added, status| ChangedFile { path: path.into(), added, removed: 0, status };
        assert_eq!(files, [file("sub/f.txt", 1, FileStatus::Modified), file("a b.png", 0, FileStatus::Deleted)]);
        assert_eq!(tracked(b"", b""), []);
        assert_eq!(tracked(b"nonsense\0", b"M\0"), []);
    }
}
