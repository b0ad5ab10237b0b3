//! How files were when they were read, so that a change is noticed at the next use, without a watcher.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a set of files was: each one's time and length, or that it was not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
}

impl Stamps {
    /// Notes how a file is now. Blocks.
    pub fn add(&mut self, path: &Path) {
        self.0.insert(path.to_owned(), stamp(path));
    }

    /// Adds those of other files, as they were noted.
    pub fn add_all(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns whether a file differs from what was noted. Blocks.
    pub fn is_stale(&self) -> bool {
        self.0.iter().any(|(path, then)| stamp(path) != *then)
    }
}

impl Extend<PathBuf> for Stamps {
    fn extend<T: IntoIterator<Item = PathBuf>>(&mut self, paths: T) {
        paths.into_iter().for_each(|path| self.add(&path));
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp { modified: metadata.modified().ok(), len: metadata.len() })
}
