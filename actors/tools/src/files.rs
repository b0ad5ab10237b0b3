//! The locks of files that are being written, and what a session has seen of them.
//!
//! A lock is by real path and process-wide. It is taken inside the blocking closure that reads, checks and writes and
//! is never held across an await, so a tool whose future is dropped can't leave one behind.

pub(crate) mod load;
pub(crate) mod open;
pub(crate) mod remove;
pub(crate) mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::context::ToolContext;
use crate::error::ToolError;

/// Most files a session remembers the content of; of more, the half seen longest ago is forgotten.
const MAX_KNOWN: usize = 10_000;
/// Most blocking calls of tools at once, so that they can't take all threads of the pool.
const MAX_BLOCKING: usize = 32;
/// Most searches of trees at once; each has threads of its own.
const MAX_SEARCHES: usize = 4;

/// The SHA-256 of a file's whole content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Returns the hash of a content.
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// Returns the hash from its 64 hexadecimal digits; none for anything else.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl From<Sha256> for ContentHash {
    fn from(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The locks of all sessions of the process. Made once; a clone is the same locks.
#[derive(Clone, Debug)]
pub struct FileLocks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// By real path. An entry lives as long as someone holds or awaits its lock.
    locks: DashMap<PathBuf, Arc<Mutex<()>>>,
    blocking: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

impl Default for FileLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl FileLocks {
    /// Returns a table without locks.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            locks: DashMap::new(),
            blocking: Arc::new(Semaphore::new(MAX_BLOCKING)),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
        }))
    }

    /// Runs `work` while it alone may write the files at `paths` (real paths). Blocks; call it in `spawn_blocking`.
    /// Several are locked in order of their names, so two callers never wait for each other.
    pub fn locked<T>(&self, paths: &[&Path], work: impl FnOnce() -> T) -> T {
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        paths.dedup();
        let _tidy = Tidy { table: self, paths: &paths };
        let locks: Vec<_> =
            paths.iter().map(|path| self.0.locks.entry(path.to_path_buf()).or_default().clone()).collect();
        let _guards: Vec<_> = locks.iter().map(|lock_of_one| lock(lock_of_one)).collect();
        work()
    }

    /// Returns how many searches run.
    pub fn searches(&self) -> usize {
        MAX_SEARCHES - self.0.searches.available_permits()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.locks.len()
    }
}

/// Takes entries out again that nobody else holds; also when the work panicked.
struct Tidy<'a> {
    table: &'a FileLocks,
    paths: &'a [&'a Path],
}

impl Drop for Tidy<'_> {
    fn drop(&mut self) {
        for path in self.paths {
            // A new holder clones the entry under the same shard's lock, so a count of one means that there is none.
            self.table.0.locks.remove_if(*path, |_, lock| Arc::strong_count(lock) == 1);
        }
    }
}

/// A session's view of the files it reads and writes. The locks are shared by all sessions of the process; a clone is
/// the same view.
#[derive(Clone, Debug, Default)]
pub struct Files {
    locks: FileLocks,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By real path: the content as this session last read or wrote it, and when that was (a count).
    known: HashMap<PathBuf, (ContentHash, u64)>,
    count: u64,
    /// Whose entry changed since it was last asked what to store.
    unstored: HashSet<PathBuf>,
    /// Instruction files the session was given.
    loaded: HashSet<PathBuf>,
}

impl Files {
    /// Returns the view of a session that has seen nothing yet.
    pub fn of_session(locks: &FileLocks) -> Self {
        Self { locks: locks.clone(), seen: Arc::default() }
    }

    /// Returns the locks of the process.
    pub fn locks(&self) -> &FileLocks {
        &self.locks
    }

    /// Returns the content of a file (real path) as this session last read or wrote it.
    pub fn known(&self, real: &Path) -> Option<ContentHash> {
        lock(&self.seen).known.get(real).map(|(hash, _)| *hash)
    }

    /// Notes that the session has read or written a file (real path) with this content.
    pub fn remember(&self, real: &Path, hash: ContentHash) {
        let mut seen = lock(&self.seen);
        seen.count += 1;
        let count = seen.count;
        let before = seen.known.insert(real.to_owned(), (hash, count));
        if before.is_none_or(|(before, _)| before != hash) {
            seen.unstored.insert(real.to_owned());
        }
        if seen.known.len() > MAX_KNOWN {
            let mut counts: Vec<u64> = seen.known.values().map(|(_, at)| *at).collect();
            let middle = counts.len() / 2;
            let (_, half, _) = counts.select_nth_unstable(middle);
            let half = *half;
            let Seen { known, unstored, .. } = &mut *seen;
            known.retain(|path, (_, at)| {
                let stays = *at >= half;
                if !stays {
                    unstored.insert(path.clone());
                }
                stays
            });
        }
    }

    /// Forgets what the session knows of a file, for instance because it deleted it.
    pub fn forget(&self, real: &Path) {
        let mut seen = lock(&self.seen);
        if seen.known.remove(real).is_some() {
            seen.unstored.insert(real.to_owned());
        }
    }

    /// Returns all that the session knows.
    pub fn all_known(&self) -> Vec<(PathBuf, ContentHash)> {
        lock(&self.seen).known.iter().map(|(path, (hash, _))| (path.clone(), *hash)).collect()
    }

    /// Returns what is new since the last time, for a later run to [`Files::recall`]; none is what is known no more.
    pub fn take_unstored(&self) -> Vec<(PathBuf, Option<ContentHash>)> {
        let mut seen = lock(&self.seen);
        let paths = std::mem::take(&mut seen.unstored);
        let with_hash = |path: PathBuf| (seen.known.get(&path).map(|(hash, _)| *hash), path);
        paths.into_iter().map(with_hash).map(|(hash, path)| (path, hash)).collect()
    }

    /// Takes in what an earlier run has stored of this session. What this run has seen already is newer.
    pub fn recall(&self, stored: impl IntoIterator<Item = (PathBuf, ContentHash)>) {
        let mut seen = lock(&self.seen);
        for (path, hash) in stored {
            seen.known.entry(path).or_insert((hash, 0));
        }
    }

    /// Notes that the session was given an instruction file; returns whether it is the first time.
    pub fn load_once(&self, path: &Path) -> bool {
        lock(&self.seen).loaded.insert(path.to_owned())
    }

    /// Forgets which instruction files were given, because they left the model's history (compaction, revert).
    pub fn forget_loaded(&self) {
        lock(&self.seen).loaded.clear();
    }

    /// Returns an error when the session has seen another content of this file than `found`.
    pub(crate) fn check_unchanged(&self, real: &Path, shown: &Path, found: ContentHash) -> Result<(), ToolError> {
        if self.known(real).is_none_or(|known| known == found) { Ok(()) } else { Err(changed(shown)) }
    }
}

/// Returns the refusal to write a file whose present content the model has not seen.
pub(crate) fn changed(shown: &Path) -> ToolError {
    ToolError::failed(format!(
        "{} was changed by something else since you last saw it, so nothing was written. Read it again, then decide.",
        shown.display()
    ))
}

/// Runs blocking work that only looks. A cancelled call returns at once; the work is told by the token it gets and
/// stops at its next look.
pub(crate) async fn looking<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    until_cancelled(cx, &cx.files.locks.0.blocking, work).await
}

/// Runs the search of a tree. Like [`looking`], but few of them at once.
pub(crate) async fn searching<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    until_cancelled(cx, &cx.files.locks.0.searches, work).await
}

/// Runs blocking work that writes, to its end: what it reports is what happened. It looks at the token itself just
/// before its first change.
pub(crate) async fn writing<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancel = cx.cancel.clone();
    blocking(&cx.files.locks.0.blocking, move || work(&cancel)).await
}

async fn until_cancelled<T: Send + 'static>(
    cx: &ToolContext,
    places: &Arc<Semaphore>,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    // The work's own token, so that it also ends when the call is dropped without being cancelled.
    let cancel = cx.cancel.child_token();
    let _dropped = cancel.clone().drop_guard();
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(ToolError::Aborted),
        done = blocking(places, move || work(&cancel)) => done,
    }
}

async fn blocking<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let permit = places.clone().acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    match done.await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "blocking work of a tool broke");
            Err(ToolError::failed("The tool broke inside. Try it another way."))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_path_is_written_by_one_at_a_time_and_its_lock_goes_away() {
        let locks = FileLocks::new();
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        locks.locked(&[Path::new("/b"), Path::new("/a"), Path::new("/b")], || {
                            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!((most.into_inner(), locks.len()), (1, 0));
    }

    #[test]
    fn a_panic_leaves_no_lock_behind() {
        let locks = FileLocks::new();
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            locks.locked(&[Path::new("/a")], || panic!("on purpose"));
        }));
        assert!(broken.is_err());
        assert_eq!(locks.len(), 0);
        assert_eq!(locks.locked(&[Path::new("/a")], || 7), 7);
    }

    #[test]
    fn a_session_knows_its_own_files_only() {
        let locks = FileLocks::new();
        let (one, two) = (Files::of_session(&locks), Files::of_session(&locks));
        let hash = ContentHash::of(b"x");
        one.clone().remember(Path::new("/f"), hash);
        assert_eq!((one.known(Path::new("/f")), two.known(Path::new("/f"))), (Some(hash), None));
        assert!(one.check_unchanged(Path::new("/f"), Path::new("/f"), ContentHash::of(b"y")).is_err());
        assert!(two.check_unchanged(Path::new("/f"), Path::new("/f"), ContentHash::of(b"y")).is_ok());
    }

    #[test]
    fn a_session_does_not_remember_without_bound() {
        let files = Files::default();
        for n in 0..=MAX_KNOWN {
            files.remember(Path::new(&format!("/{n}")), ContentHash::of(b""));
        }
        assert!(files.all_known().len() <= MAX_KNOWN / 2 + 1);
        assert!(files.known(Path::new(&format!("/{MAX_KNOWN}"))).is_some());
        assert!(files.known(Path::new("/0")).is_none());
    }

    #[test]
    fn what_is_new_is_told_once_and_recalled_by_a_later_run() {
        let (one, two) = (ContentHash::of(b"1"), ContentHash::of(b"2"));
        let files = Files::default();
        files.recall([("/old".into(), one), ("/seen".into(), one)]);
        assert_eq!(files.take_unstored(), []);
        files.remember(Path::new("/seen"), one);
        assert_eq!(files.take_unstored(), [], "nothing new");
        files.remember(Path::new("/seen"), two);
        files.forget(Path::new("/old"));
        files.recall([("/seen".into(), one)]);
        let mut new = files.take_unstored();
        new.sort();
        assert_eq!(new, [("/old".into(), None), ("/seen".into(), Some(two))]);
        assert_eq!(files.take_unstored(), []);
    }

    #[test]
    fn a_hash_survives_its_text() {
        let hash = ContentHash::of(b"abc");
        assert!(hash.to_string().starts_with("ba7816bf"));
        assert_eq!(ContentHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(ContentHash::parse("xyz"), None);
    }
}
