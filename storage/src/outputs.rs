//! Whole outputs of tools that were cut for the model: kept for a week.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long an output is kept after it was last written.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often it is looked for older ones.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// What their names begin with. Anything else is not ours to remove.
const PREFIX: &str = "tool_";

/// Removes outputs older than a week from a directory now, and then once an hour, for ever.
pub async fn keep_swept(directory: PathBuf) {
    loop {
        let directory = directory.clone();
        let removed = tokio::task::spawn_blocking(move || sweep(&directory)).await.unwrap_or_default();
        if removed > 0 {
            tracing::info!(removed, "old outputs of tools were removed");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Removes outputs older than a week; returns how many. What can't be removed is found again by the next sweep.
pub fn sweep(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let old = entries.filter(is_ours).filter(|entry| entry.metadata().is_ok_and(|metadata| is_old(&metadata)));
    old.filter(|entry| std::fs::remove_file(entry.path()).is_ok()).count()
}

#[expect(clippy::disallowed_methods, reason = "file times are of the system's clock")]
fn is_old(metadata: &std::fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|written| SystemTime::now().duration_since(written).ok());
    metadata.is_file() && age.is_some_and(|age| age > KEPT)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "file times are of the system's clock")]
    fn only_outputs_older_than_a_week_go() {
        let dir = tempfile::tempdir().expect("a directory");
        let now = SystemTime::now();
        let make = |name: &str, days: u64| {
            let file = std::fs::File::create(dir.path().join(name)).expect("a file");
            file.set_modified(now - Duration::from_secs(days * 24 * 60 * 60 + 60)).expect("a time");
        };
        make("tool_old", 7);
        make("tool_older", 400);
        make("tool_new", 6);
        make("notes.txt", 400);
        std::fs::create_dir(dir.path().join("tool_directory")).expect("a directory");
        assert_eq!(sweep(dir.path()), 2);
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).expect("a list").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["notes.txt", "tool_directory", "tool_new"]);
        assert_eq!(sweep(&dir.path().join("none")), 0);
    }
}
