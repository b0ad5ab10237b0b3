//! Keeps the store of snapshots small: what killed runs left half-written, and what is older than a week.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::git::Git;

/// How long a snapshot can be gone back to. OpenCode keeps its own as long.
const EXPIRE: &str = "--expire=7.days.ago";
/// How often it is looked for what has expired.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Nothing that is being written is as old as this.
const WRITING: Duration = Duration::from_secs(10 * 60);
/// How far the times of files lie behind the clock, at most.
const LAG: Duration = Duration::from_millis(20);
/// What git names files that it hasn't finished.
const UNFINISHED: [&str; 3] = ["tmp_obj_", "tmp_pack_", "tmp_idx_"];
/// Marks when a repository was last swept.
const MARK: &str = "swept";

/// Sweeps all repositories below `root`, for ever: now, when what a killed run's last commands may still have written
/// is old enough, and then once a day. Call it before the first snapshot is taken: what is unfinished then is nobody's.
#[expect(clippy::disallowed_methods, reason = "file times are of the system's clock")]
pub fn keep_swept(root: PathBuf) -> impl Future<Output = ()> {
    let began = SystemTime::now() - LAG;
    async move {
        sweep(&root, began).await;
        let mut pause = WRITING + LAG;
        loop {
            tokio::time::sleep(pause).await;
            sweep(&root, SystemTime::now() - WRITING).await;
            pause = EVERY;
        }
    }
}

/// Removes what killed runs left half-written before then in the repositories below `root`, and, once a day, the
/// objects of snapshots older than a week. What fails is logged: the next sweep finds it again.
pub async fn sweep(root: &Path, before: SystemTime) {
    let root = root.to_owned();
    let clean = move || {
        let repositories = subdirectories(&root).iter().flat_map(|project| subdirectories(project)).collect::<Vec<_>>();
        repositories.iter().for_each(|repository| remove_unfinished(repository, before));
        repositories.into_iter().filter(|repository| is_old(&repository.join(MARK), EVERY)).collect::<Vec<_>>()
    };
    for repository in tokio::task::spawn_blocking(clean).await.unwrap_or_default() {
        let options = ["--git-dir=.", "-c", "core.bare=true"];
        let pruned = Git::with_options(&repository, &options, "prune").arg(EXPIRE).stdout().await;
        let marked = tokio::fs::write(repository.join(MARK), "").await;
        if let Err(error) = pruned {
            tracing::warn!(%error, repository = %repository.display(), "old snapshots could not be removed");
        } else if let Err(error) = marked {
            tracing::debug!(%error, repository = %repository.display(), "the sweep could not be marked");
        }
    }
}

fn remove_unfinished(repository: &Path, before: SystemTime) {
    let objects = repository.join("objects");
    for folder in std::iter::once(objects.clone()).chain(subdirectories(&objects)) {
        for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = file.file_name();
            let is_unfinished = UNFINISHED.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
            // One that can't be removed is found again.
            if is_unfinished && written(&file.path()).is_some_and(|written| written < before) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}

/// Whether a file was last written longer ago than that; one that isn't there was.
#[expect(clippy::disallowed_methods, reason = "file times are of the system's clock")]
fn is_old(path: &Path, than: Duration) -> bool {
    written(path).is_none_or(|written| SystemTime::now().duration_since(written).is_ok_and(|age| age > than))
}

fn written(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}
