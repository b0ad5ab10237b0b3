//! What a server was told of files, and what it says of them.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tools::diagnostics::Diagnostic;

/// Most files that are open in a server at once.
const MAX_OPEN: usize = 100;
/// Most files of which remarks are kept.
const MAX_KNOWN: usize = 2000;

/// The state of a file on disk, as far as a look tells.
pub(crate) type Stamp = (u64, Option<SystemTime>);

/// Returns a file's state.
pub(crate) fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.len(), metadata.modified().ok())
}

/// All files a server knows.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    files: HashMap<PathBuf, File>,
    /// Counts whatever happens.
    clock: u64,
}

#[derive(Debug, Default)]
struct File {
    open: Option<Open>,
    /// What the server said by itself, and when.
    pushed: Vec<Diagnostic>,
    pushed_at: u64,
    /// What it said when it was asked.
    pulled: Vec<Diagnostic>,
}

#[derive(Debug)]
struct Open {
    version: i32,
    /// What the server has; none while it is told.
    stamp: Option<Stamp>,
    used: u64,
}

/// When a file's content was given to the server: what it says of it later is about that content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) path: PathBuf,
    pub(crate) at: u64,
    pub(crate) version: i32,
}

impl Documents {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Returns whether the server has this content already.
    pub(crate) fn has(&self, path: &Path, stamp: &Stamp) -> bool {
        let open = self.files.get(path).and_then(|file| file.open.as_ref());
        open.is_some_and(|open| open.stamp.as_ref() == Some(stamp))
    }

    /// Begins to give the server a content: what it said of the old one counts no more. Whether it is the first.
    pub(crate) fn begin(&mut self, path: &Path) -> (Mark, bool) {
        let at = self.tick();
        let file = self.files.entry(path.to_owned()).or_default();
        file.pushed.clear();
        file.pulled.clear();
        let is_first = file.open.is_none();
        let open = file.open.get_or_insert(Open { version: 0, stamp: None, used: at });
        open.version = open.version.saturating_add(1);
        open.stamp = None;
        open.used = at;
        (Mark { path: path.to_owned(), at, version: open.version }, is_first)
    }

    /// The server was given the content of this state.
    pub(crate) fn given(&mut self, mark: &Mark, stamp: Stamp) {
        if let Some(open) = self.files.get_mut(&mark.path).and_then(|file| file.open.as_mut())
            && open.version == mark.version
        {
            open.stamp = Some(stamp);
        }
    }

    /// Forgets a file. Whether it was open.
    pub(crate) fn forget(&mut self, path: &Path) -> bool {
        self.files.remove(path).is_some_and(|file| file.open.is_some())
    }

    /// Returns the open files, last used first.
    pub(crate) fn open(&self) -> Vec<PathBuf> {
        let mut open: Vec<_> =
            self.files.iter().filter_map(|(path, file)| Some((file.open.as_ref()?.used, path.clone()))).collect();
        open.sort_by(|a, b| b.cmp(a));
        open.into_iter().map(|(_, path)| path).collect()
    }

    /// Returns what must be closed so that no more are open than may be.
    pub(crate) fn surplus(&self) -> Vec<PathBuf> {
        self.open().split_off(MAX_OPEN.min(self.open().len()))
    }

    /// The server says something by itself.
    pub(crate) fn push(&mut self, path: PathBuf, version: Option<i64>, remarks: Vec<Diagnostic>) {
        let at = self.tick();
        let is_known = self.files.contains_key(&path);
        if !is_known && (remarks.is_empty() || self.files.len() >= MAX_KNOWN) {
            return;
        }
        let file = self.files.entry(path).or_default();
        if let (Some(open), Some(version)) = (&file.open, version)
            && version < i64::from(open.version)
        {
            return;
        }
        (file.pushed, file.pushed_at) = (remarks, at);
    }

    /// The server answers what is wrong with a file's content of this mark.
    pub(crate) fn pull(&mut self, mark: &Mark, remarks: Vec<Diagnostic>, replaces: bool) {
        let Some(file) = self.files.get_mut(&mark.path) else { return };
        if file.open.as_ref().is_none_or(|open| open.version != mark.version) {
            return;
        }
        if replaces {
            file.pushed = remarks;
        } else {
            file.pulled = remarks;
        }
    }

    /// Returns the mark of what the server has of a file.
    pub(crate) fn mark(&self, path: &Path) -> Option<Mark> {
        let open = self.files.get(path)?.open.as_ref()?;
        Some(Mark { path: path.to_owned(), at: open.used, version: open.version })
    }

    /// Returns when the server last said something of a mark's content by itself.
    pub(crate) fn pushed_since(&self, mark: &Mark) -> Option<u64> {
        let file = self.files.get(&mark.path)?;
        (file.pushed_at > mark.at).then_some(file.pushed_at)
    }

    /// Returns all it says.
    pub(crate) fn remarks(&self) -> Vec<(PathBuf, Vec<Diagnostic>)> {
        let all = |file: &File| {
            let more = file.pulled.iter().filter(|remark| !file.pushed.contains(remark));
            file.pushed.iter().chain(more).cloned().collect::<Vec<_>>()
        };
        self.files.iter().map(|(path, file)| (path.clone(), all(file))).filter(|(_, all)| !all.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;
    use tools::diagnostics::Severity;

    use super::*;

    fn remark(message: &str) -> Diagnostic {
        Diagnostic { severity: Severity::Error, line: 1, character: 1, message: message.into(), wire: Value::Null }
    }

    #[test]
    fn what_was_said_of_an_older_content_counts_no_more() {
        let mut documents = Documents::default();
        let (first, is_first) = documents.begin(Path::new("/a"));
        assert!(is_first);
        documents.push("/a".into(), Some(1), vec![remark("old")]);
        assert!(documents.pushed_since(&first).is_some());
        let (second, is_first) = documents.begin(Path::new("/a"));
        assert_eq!((is_first, documents.pushed_since(&second), documents.remarks()), (false, None, vec![]));
        documents.push("/a".into(), Some(1), vec![remark("late")]);
        documents.pull(&first, vec![remark("late")], false);
        assert_eq!(documents.remarks(), vec![]);
        documents.push("/a".into(), None, vec![remark("new")]);
        documents.pull(&second, vec![remark("new"), remark("asked")], false);
        assert_eq!(documents.remarks(), vec![("/a".into(), vec![remark("new"), remark("asked")])]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut documents = Documents::default();
        for at in 0..MAX_OPEN + 3 {
            documents.begin(Path::new(&format!("/{at}")));
        }
        assert_eq!(documents.surplus(), [2, 1, 0].map(|at| PathBuf::from(format!("/{at}"))));
        for at in 0..MAX_KNOWN + 50 {
            documents.push(format!("/o{at}").into(), None, vec![remark("x")]);
        }
        assert_eq!(documents.files.len(), MAX_KNOWN);
    }
}
