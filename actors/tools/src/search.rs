//! Searches of a tree: what `glob`, `grep` and the server's find routes share.
//!
//! The rules are ripgrep's, by its own crates: hidden files are searched, `.git` is not; `.gitignore` (within
//! repositories), `.ignore`, git's exclude file and the person's global ignore file are honoured; links are not
//! followed; only regular files count. Results are the first in the order of their paths, whichever thread found
//! them first, so that a search gives the same twice. A search looks at its bounds with every entry and every block
//! it reads, and what it has by then is its result.

mod find;
pub(crate) mod lines;
mod list;
pub(crate) mod pattern;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ignore::{DirEntry, WalkBuilder, WalkState};
use tokio_util::sync::CancellationToken;

pub use find::{Entries, find_files, find_lines};
pub use list::{file_content, list_directory};

/// How long a search takes at most.
pub(crate) const TIME: Duration = Duration::from_secs(30);
/// Largest ignore file that is heeded, in bytes.
const MAX_RULES: u64 = 1024 * 1024;
/// Most threads of one search.
const MAX_THREADS: usize = 4;

/// Why a search of the server's gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The path leads out of the directory.
    #[error("{} is outside the project", .0.display())]
    Outside(PathBuf),
    /// There is nothing.
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    /// The regular expression is wrong.
    #[error("{0}")]
    Pattern(String),
    /// A file or directory can't be read.
    #[error("reading {} failed: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The search broke.
    #[error("the search broke inside")]
    Broken,
}

/// When a search ends at the latest.
#[derive(Debug)]
pub(crate) struct Bounds {
    cancel: CancellationToken,
    until: Instant,
    is_late: AtomicBool,
}

impl Bounds {
    pub(crate) fn new(cancel: CancellationToken, time: Duration) -> Self {
        Self { cancel, until: Instant::now() + time, is_late: AtomicBool::new(false) }
    }

    /// Returns whether to stop, for whichever reason.
    pub(crate) fn is_over(&self) -> bool {
        if self.cancel.is_cancelled() {
            return true;
        }
        let is_late = Instant::now() >= self.until;
        if is_late {
            self.is_late.store(true, Ordering::Relaxed);
        }
        is_late
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns whether the search was ended before it was done, for lack of time.
    pub(crate) fn was_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }
}

/// Returns a walk with the rules of all searches.
fn rules(root: &Path) -> WalkBuilder {
    let mut builder = walk_of(root);
    builder.hidden(false).follow_links(false).filter_entry(|entry| {
        entry.depth() == 0 || (entry.file_name() != ".git" && !(is_directory(entry) && has_odd_rules(entry.path())))
    });
    builder
}

/// Returns a walk that heeds ignore files, unless one in the root or above can't be read like a file.
pub(crate) fn walk_of(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    if root.ancestors().any(has_odd_rules) {
        builder.parents(false).ignore(false).git_ignore(false).git_exclude(false);
    }
    builder
}

/// Returns whether a directory has an ignore file that the walker must not open. It reads what is there to its end: a
/// fifo would hold its thread for ever, a link to `/dev/zero`, which a repository may hold, would take all memory, and
/// some hundred thousand patterns would be compiled for minutes.
pub(crate) fn has_odd_rules(directory: &Path) -> bool {
    let is_odd = |name| {
        std::fs::metadata(directory.join(name))
            .is_ok_and(|found| !(found.is_file() || found.is_dir()) || (found.is_file() && found.len() > MAX_RULES))
    };
    is_odd(".gitignore") || is_odd(".ignore") || is_odd(".git/info/exclude")
}

/// Walks a tree in several threads. Each has a visitor of its own, which gets each entry with its path relative to
/// `root` (a real path), directories before what is in them, never `root` itself. Entries that can't be read are
/// left out.
pub(crate) fn walk<V>(root: &Path, max_depth: Option<usize>, bounds: &Bounds, visitor: impl Fn() -> V)
where
    V: FnMut(&DirEntry, &Path) -> WalkState + Send,
{
    // As bytes: taking paths apart into their parts costs as much as the rest of the walk.
    let skip = match root.as_os_str().len() {
        1 => 1,
        length => length + 1,
    };
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(2, MAX_THREADS);
    rules(root).max_depth(max_depth).threads(threads).build_parallel().run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if bounds.is_over() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            match entry.path().as_os_str().as_bytes().get(skip..) {
                Some(relative) if !relative.is_empty() => visit(&entry, Path::new(OsStr::from_bytes(relative))),
                _ => WalkState::Continue,
            }
        })
    });
}

/// The results that come first in the order of their paths.
pub(crate) struct Best<T> {
    limit: usize,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// By path, each with at least one result.
    found: BTreeMap<PathBuf, Vec<T>>,
    /// How many results there are.
    total: usize,
    /// Whether there were results that don't count.
    is_more: bool,
}

/// What is still of interest about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// All its results.
    All,
    /// Only whether it has any: the results before it are complete.
    Any,
    /// Nothing, nor of what is below it.
    None,
}

impl<T> Best<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::new(State { found: BTreeMap::new(), total: 0, is_more: false }) }
    }

    pub(crate) fn interest(&self, path: &Path) -> Interest {
        let state = self.lock();
        if state.total < self.limit || state.found.last_key_value().is_none_or(|(last, _)| path < last) {
            Interest::All
        } else if state.is_more {
            Interest::None
        } else {
            Interest::Any
        }
    }

    /// Puts the results of a path in.
    pub(crate) fn offer(&self, path: &Path, results: Vec<T>) {
        if results.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.total += results.len();
        state.found.insert(path.to_owned(), results);
        while let Some((_, last)) = state.found.last_key_value() {
            let without = state.total - last.len();
            if without < self.limit {
                break;
            }
            state.found.pop_last();
            state.total = without;
            state.is_more = true;
        }
        state.is_more |= state.total > self.limit;
    }

    /// Returns the results in order, and whether there are more.
    pub(crate) fn take(self) -> (Vec<(PathBuf, Vec<T>)>, bool) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut room = self.limit;
        let mut results = Vec::new();
        for (path, mut found) in state.found {
            found.truncate(room);
            room -= found.len();
            if !found.is_empty() {
                results.push((path, found));
            }
        }
        (results, state.is_more)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether an entry is a regular file.
pub(crate) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|t| t.is_file())
}

/// Returns whether an entry is a directory.
pub(crate) fn is_directory(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|t| t.is_dir())
}

#[cfg(test)]
mod tests;
