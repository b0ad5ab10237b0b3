//! What a patch does to files: worked out whole on their contents, then written whole or not at all.

use std::path::{Path, PathBuf};

use nix::sys::stat::FileStat;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::grammar::Chunk;
use super::place::{PlaceError, places};
use super::unfit;
use crate::context::Effects;
use crate::diff::FileDiff;
use crate::edit::MAX_FILE;
use crate::error::ToolError;
use crate::files::load::{Loaded, load};
use crate::files::remove::{remove, stat};
use crate::files::write::write_like;
use crate::files::{ContentHash, Files};
use crate::path::Located;
use crate::text::{self, Text, without_mark};

/// Most bytes of all files of a patch, before and after it.
const MAX_ALL: usize = 4 * MAX_FILE;

/// A section of a patch whose paths were looked up.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) file: Located,
    /// Where it moves.
    pub(super) target: Option<Located>,
    pub(super) what: What,
}

impl Part {
    /// Returns the paths it touches.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Located> {
        std::iter::once(&self.file).chain(&self.target)
    }
}

/// What happens to a file.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It is made, with this content.
    Add(String),
    /// It goes.
    Delete,
    /// It is changed.
    Update(Vec<Chunk>),
}

/// What a section changes, as clients see it.
#[derive(Clone, Debug)]
pub(super) struct FileChange {
    pub(super) file: Located,
    pub(super) target: Option<Located>,
    pub(super) kind: Kind,
    pub(super) diff: FileDiff,
    /// Lines removed. Of a deleted file OpenCode also counts what is behind its last line end.
    pub(super) deletions: u64,
}

impl FileChange {
    /// Returns where the file is afterwards.
    pub(super) fn last(&self) -> &Located {
        self.target.as_ref().unwrap_or(&self.file)
    }
}

/// The kind of a change; its names are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Add,
    Update,
    Delete,
    Move,
}

/// A patch that was worked out.
#[derive(Debug)]
pub(super) struct Prepared {
    /// One for each section.
    pub(super) changes: Vec<FileChange>,
    /// One for each file.
    states: Vec<State>,
}

/// A file before and after the patch.
#[derive(Debug)]
struct State {
    real: PathBuf,
    shown: PathBuf,
    before: Option<Loaded>,
    after: Option<Vec<u8>>,
    /// The file whose mode it gets: the one that moved here.
    like: Option<FileStat>,
}

/// Works a patch out on the files as they are now. Blocks.
pub(super) fn prepare(files: &Files, parts: &[Part], cancel: &CancellationToken) -> Result<Prepared, ToolError> {
    let mut stage = Stage { files, cancel, states: Vec::new(), bytes: 0 };
    let changes = parts.iter().map(|part| stage.apply(part)).collect::<Result<_, _>>()?;
    Ok(Prepared { changes, states: stage.states })
}

struct Stage<'a> {
    files: &'a Files,
    cancel: &'a CancellationToken,
    states: Vec<State>,
    bytes: usize,
}

impl Stage<'_> {
    fn apply(&mut self, part: &Part) -> Result<FileChange, ToolError> {
        let shown = &part.file.shown;
        let at = self.state(&part.file)?;
        let now = self.content(at);
        let change = |kind: Kind, diff: FileDiff| FileChange {
            file: part.file.clone(),
            target: part.target.clone(),
            kind,
            deletions: diff.deletions,
            diff,
        };
        match (&part.what, now) {
            (What::Add(content), now) => {
                let (after, diff) = self.added(&part.file, now.as_deref(), content)?;
                self.set(at, Some(after))?;
                Ok(change(Kind::Add, diff))
            }
            (_, None) => Err(unfit(format!("there is no file {}", shown.display()))),
            (What::Delete, Some(now)) => {
                refuse_link(&part.file)?;
                let old = text::shown(&now);
                let diff = old.as_deref().map(|old| FileDiff::of(&part.file.name(), old, ""));
                let mut change = change(Kind::Delete, diff.unwrap_or_else(|| FileDiff::binary(&part.file.name())));
                change.deletions = old.map_or(0, |old| old.split('\n').count() as u64);
                self.set(at, None)?;
                Ok(change)
            }
            (What::Update(chunks), Some(now)) => {
                let (after, diff) = updated(&part.file, &now, chunks, self.cancel)?;
                let Some(target) = &part.target else {
                    if after == now && !chunks.is_empty() {
                        return Err(unfit(format!("in {}: its changes change nothing", shown.display())));
                    }
                    self.set(at, Some(after))?;
                    return Ok(change(Kind::Update, diff));
                };
                refuse_link(&part.file)?;
                let to = self.state(target)?;
                if self.content(to).is_some() {
                    let (from, to) = (shown.display(), target.shown.display());
                    return Err(unfit(format!("{from} can't be moved to {to}: there is a file already")));
                }
                let like = self.stat(at)?;
                self.set(at, None)?;
                self.set(to, Some(after))?;
                if let Some(state) = self.states.get_mut(to) {
                    state.like = like;
                }
                Ok(change(Kind::Move, diff))
            }
        }
    }

    /// Returns the place of a file's state, which is loaded when it is not known yet.
    fn state(&mut self, located: &Located) -> Result<usize, ToolError> {
        if let Some(at) = self.states.iter().position(|state| state.real == located.real) {
            return Ok(at);
        }
        let before = load(&located.real, &located.shown, MAX_FILE, self.cancel)?;
        if let Some(before) = &before {
            self.files.check_unchanged(&located.real, &located.shown, before.hash)?;
            self.count(before.bytes.len())?;
        }
        let after = before.as_ref().map(|before| before.bytes.clone());
        let (real, shown) = (located.real.clone(), located.shown.clone());
        self.states.push(State { real, shown, before, after, like: None });
        Ok(self.states.len() - 1)
    }

    fn content(&self, at: usize) -> Option<Vec<u8>> {
        self.states.get(at)?.after.clone()
    }

    fn set(&mut self, at: usize, content: Option<Vec<u8>>) -> Result<(), ToolError> {
        self.count(content.as_ref().map_or(0, Vec::len))?;
        if let Some(state) = self.states.get_mut(at) {
            state.after = content;
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.bytes += bytes;
        if self.bytes > MAX_ALL {
            let most = MAX_ALL / 1024 / 1024;
            return Err(unfit(format!("its files are larger than {most} MB in all. Split it")));
        }
        Ok(())
    }

    /// Returns the mode and owner of a file as it is on disk, or of the one that moved there.
    fn stat(&self, at: usize) -> Result<Option<FileStat>, ToolError> {
        match self.states.get(at) {
            Some(state) if state.before.is_some() => stat(&state.real, &state.shown).map(Some),
            Some(state) => Ok(state.like),
            None => Ok(None),
        }
    }

    fn added(&self, file: &Located, now: Option<&[u8]>, content: &str) -> Result<(Vec<u8>, FileDiff), ToolError> {
        let new = without_mark(content);
        let Some(now) = now else {
            return Ok((content.as_bytes().to_vec(), FileDiff::of(&file.name(), "", new)));
        };
        // Who adds a file believes that there is none: only what the model has seen is replaced.
        if self.files.known(&file.real).is_none() {
            let path = file.shown.display();
            return Err(unfit(format!("{path} can't be added, it exists. Read it, then update it")));
        }
        let diff = match text::shown(now) {
            Some(old) => FileDiff::of(&file.name(), &old, new),
            None => FileDiff::binary(&file.name()),
        };
        let is_marked = now.starts_with("\u{FEFF}".as_bytes()) || content.len() != new.len();
        let after = if is_marked { format!("\u{FEFF}{new}") } else { content.to_owned() };
        Ok((after.into_bytes(), diff))
    }
}

fn updated(
    file: &Located,
    now: &[u8],
    chunks: &[Chunk],
    cancel: &CancellationToken,
) -> Result<(Vec<u8>, FileDiff), ToolError> {
    if chunks.is_empty() {
        return Ok((now.to_vec(), FileDiff::of(&file.name(), "", "")));
    }
    let cannot = |why: &dyn std::fmt::Display| unfit(format!("in {}: {why}", file.shown.display()));
    let text = Text::decode(now).map_err(|e| cannot(&e))?;
    let places = places(&text.body, chunks, cancel).map_err(|e| match e {
        PlaceError::Aborted => ToolError::Aborted,
        _ => cannot(&e),
    })?;
    let after = text.splice(&places).map_err(|e| cannot(&e))?;
    let diff = FileDiff::of(&file.name(), &text.shown(), &text.shown_with(&places));
    Ok((after, diff))
}

/// A link's own name would go, or what it leads to: nobody can tell which is meant.
fn refuse_link(file: &Located) -> Result<(), ToolError> {
    if std::fs::symlink_metadata(&file.shown).is_ok_and(|metadata| metadata.is_symlink()) {
        let path = file.shown.display();
        return Err(unfit(format!("{path} is a symbolic link, which is not deleted or moved. Use a command for it")));
    }
    Ok(())
}

impl Prepared {
    /// Returns whether a file differs now from what the patch was worked out for. Blocks.
    pub(super) fn is_stale(&self, cancel: &CancellationToken) -> Result<bool, ToolError> {
        for state in &self.states {
            let now = load(&state.real, &state.shown, MAX_FILE, cancel)?.map(|loaded| loaded.hash);
            if now != state.before.as_ref().map(|before| before.hash) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes all files, then removes those that go; takes all back when one fails. Blocks; call it under the files'
    /// locks.
    pub(super) fn write(&self, files: &Files, effects: &Effects) -> Result<(), ToolError> {
        let writes = self.changed().filter(|state| state.after.is_some());
        let removals = self.changed().filter(|state| state.after.is_none());
        let mut done: Vec<(&State, Option<FileStat>)> = Vec::new();
        for state in writes.chain(removals) {
            let mode = state.before.as_ref().and_then(|_| stat(&state.real, &state.shown).ok());
            if let Err(error) = state.write(effects) {
                let back = done.into_iter().rev().map(|(state, mode)| state.take_back(mode.as_ref(), effects));
                return Err(match back.collect::<Result<Vec<()>, _>>() {
                    Ok(_) => ToolError::failed(format!("{error} Nothing of the patch was applied.")),
                    Err(worse) => ToolError::failed(format!(
                        "{error} The patch is applied in part, because what it had changed could not be taken back: \
                         {worse} Look at all of its files."
                    )),
                });
            }
            done.push((state, mode));
        }
        for state in &self.states {
            match &state.after {
                Some(after) => files.remember(&state.real, ContentHash::of(after)),
                None => files.forget(&state.real),
            }
        }
        Ok(())
    }

    /// Returns the files that were written, as they were named.
    pub(super) fn edited(&self) -> impl Iterator<Item = &Path> {
        self.changed().filter(|state| state.after.is_some()).map(|state| &*state.shown)
    }

    fn changed(&self) -> impl Iterator<Item = &State> {
        self.states.iter().filter(|state| state.before.as_ref().map(|before| &before.bytes) != state.after.as_ref())
    }
}

impl State {
    fn write(&self, effects: &Effects) -> Result<(), ToolError> {
        // From the first file on it goes to the end.
        let never = CancellationToken::new();
        match &self.after {
            Some(after) => write_like(&self.real, &self.shown, after, self.like.as_ref(), effects, &never).map(drop),
            None => remove(&self.real, &self.shown, effects),
        }
    }

    fn take_back(&self, mode: Option<&FileStat>, effects: &Effects) -> Result<(), ToolError> {
        let never = CancellationToken::new();
        match &self.before {
            None => remove(&self.real, &self.shown, effects),
            Some(before) => write_like(&self.real, &self.shown, &before.bytes, mode, effects, &never).map(drop),
        }
    }
}
