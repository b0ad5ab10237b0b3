//! Finds where a patch's changes belong in a text. Pure: text in, places to replace out.
//!
//! Only lines that change are replaced; those a patch shows around them keep their bytes. A change is looked for
//! below the one before it, after its `@@` lines: as it is written, then without spaces at the ends of lines, then
//! without indentation, then with typographic characters taken for plain ones. Where there are several places and
//! nothing tells them apart, the patch fails: a wrong place is worse than one more call.

use std::collections::HashMap;
use std::ops::Range;

use tokio_util::sync::CancellationToken;

use super::grammar::{Chunk, Line};
use crate::text::fold;
use crate::text::lines::Unified;
use crate::text::runs::runs;

/// Most places named in an error.
const MAX_NAMED: usize = 5;
/// Most lines of a change shown in an error.
const MAX_SHOWN: usize = 8;

/// Why a change has no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlaceError {
    /// An `@@` line is nowhere.
    #[error("the context line {line:?} was not found{after}. Use a line that is in the file, as it is there")]
    NoContext { line: String, after: String },
    /// The lines are nowhere.
    #[error("these lines were not found{after}:\n{lines}\nRead the file again and use its lines as they are")]
    NoLines { lines: String, after: String },
    /// The lines are in several places.
    #[error(
        "these lines are in several places ({places}):\n{lines}\nAdd lines around them, or an `@@` line above them, so \
         that only one place fits"
    )]
    Several { lines: String, places: String },
    /// The lines are there with other indentation, and what new lines need is not clear.
    #[error(
        "the lines at line {line} have another indentation than in the patch, and that of {new:?} is not clear from \
         it. Use the file's indentation"
    )]
    Indentation { line: usize, new: String },
    /// Nobody wants to know any more.
    #[error("the search was aborted")]
    Aborted,
}

/// How alike two lines must be, each an equivalence; the first level that fits anywhere decides.
const LEVELS: [fn(&str, &str) -> bool; 4] = [
    |file, patch| file == patch,
    |file, patch| file.trim_end() == patch.trim_end(),
    |file, patch| file.trim() == patch.trim(),
    |file, patch| file.trim().chars().map(fold).eq(patch.trim().chars().map(fold)),
];

/// Returns what the changes replace in `text`, in order; places of the text as it is, line ends fitted.
/// Each is sought to the text's end, so many take a while: `cancel` is looked at before each.
pub(crate) fn places(
    text: &str,
    chunks: &[Chunk],
    cancel: &CancellationToken,
) -> Result<Vec<(Range<usize>, String)>, PlaceError> {
    let unified = Unified::of(text);
    let lines = FileLines::of(&unified.text);
    let mut found = Vec::new();
    let mut from = 0;
    for chunk in chunks {
        if cancel.is_cancelled() {
            return Err(PlaceError::Aborted);
        }
        from = lines.place(chunk, from, &mut found)?;
    }
    found.sort_by_key(|(range, _)| (range.start, range.end));
    let fitted = |(range, new): (Range<usize>, String)| {
        // A line put in has the ends of the one it is put before.
        let like = if range.is_empty() { lines.around(range.start) } else { range.clone() };
        let new = unified.fit(&like, &new).into_owned();
        (unified.original(&range), new)
    };
    Ok(found.into_iter().map(fitted).collect())
}

/// The lines of a text with `\n` ends.
struct FileLines<'a> {
    text: &'a str,
    lines: Vec<&'a str>,
    /// Where each begins; and where the text ends.
    starts: Vec<usize>,
}

impl<'a> FileLines<'a> {
    fn of(text: &'a str) -> Self {
        let mut starts = vec![0];
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            starts.push(starts.last().copied().unwrap_or_default() + line.len());
            lines.push(line.strip_suffix('\n').unwrap_or(line));
        }
        Self { text, lines, starts }
    }

    fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Returns the line that begins at a place, or the last one.
    fn around(&self, at: usize) -> Range<usize> {
        let line = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let line = if line >= self.lines.len() { self.lines.len().saturating_sub(1) } else { line };
        self.start(line)..self.start(line + 1)
    }

    /// Notes what a change replaces; returns the line after it.
    fn place(&self, chunk: &Chunk, from: usize, found: &mut Vec<(Range<usize>, String)>) -> Result<usize, PlaceError> {
        let mut from = from;
        for context in &chunk.context {
            from = self.context(context, from)? + 1;
        }
        let old: Vec<&str> = chunk.lines.iter().filter_map(Line::old).collect();
        if old.is_empty() {
            let at = if chunk.context.is_empty() || chunk.at_end { self.lines.len() } else { from };
            let new: Vec<&str> = chunk.lines.iter().map(inserted).collect();
            found.push(self.replacement(at..at, &new));
            // Lines put at the end say nothing of where the next ones belong.
            return Ok(from);
        }
        let (at, matched) = self.find(chunk, &old, from)?;
        self.replace(chunk, at, matched, found)?;
        Ok(at + matched)
    }

    /// Returns the line that a context line names: the next one.
    fn context(&self, context: &str, from: usize) -> Result<usize, PlaceError> {
        let missing = || PlaceError::NoContext { line: context.to_owned(), after: after(from) };
        let next = |alike: &fn(&str, &str) -> bool| {
            (from..self.lines.len()).find(|line| self.lines.get(*line).is_some_and(|line| alike(line, context)))
        };
        LEVELS.iter().find_map(next).ok_or_else(missing)
    }

    /// Returns where a change's old lines begin, and how many of them are there.
    fn find(&self, chunk: &Chunk, old: &[&str], from: usize) -> Result<(usize, usize), PlaceError> {
        // An empty line at the end may only be the patch's own.
        let is_padded = matches!(chunk.lines.last(), Some(Line::Keep(text)) if text.is_empty());
        let tries = [Some(old), old.split_last().map(|(_, rest)| rest).filter(|rest| is_padded && !rest.is_empty())];
        for old in tries.into_iter().flatten() {
            for alike in LEVELS {
                let mut places = self.all(old, from, alike);
                if chunk.at_end {
                    let last = self.lines.len().saturating_sub(old.len());
                    places.retain(|place| *place == last);
                }
                match places.as_slice() {
                    [] => {}
                    [place] => return Ok((*place, old.len())),
                    [first, ..] if !chunk.context.is_empty() => return Ok((*first, old.len())),
                    several => {
                        return Err(PlaceError::Several { lines: shown(old), places: named(several) });
                    }
                }
            }
        }
        let after = if chunk.at_end { " at the end of the file".to_owned() } else { after(from) };
        Err(PlaceError::NoLines { lines: shown(old), after })
    }

    fn all(&self, old: &[&str], from: usize, alike: fn(&str, &str) -> bool) -> Vec<usize> {
        let below = self.lines.get(from..).unwrap_or_default();
        runs(below, old, |file, patch| alike(file, patch)).into_iter().map(|at| from + at).collect()
    }

    /// Notes the runs of lines that change.
    fn replace(
        &self,
        chunk: &Chunk,
        at: usize,
        matched: usize,
        found: &mut Vec<(Range<usize>, String)>,
    ) -> Result<(), PlaceError> {
        let indents = self.indents(chunk, at);
        let (mut line, mut run, mut new) = (at, at..at, Vec::new());
        for change in &chunk.lines {
            match change {
                Line::Keep(_) => {
                    if !run.is_empty() || !new.is_empty() {
                        found.push(self.replacement(run, &new));
                    }
                    // Beyond what matched there is only the patch's own empty line.
                    line = (line + 1).min(at + matched);
                    (run, new) = (line..line, Vec::new());
                }
                Line::Remove(_) => {
                    line += 1;
                    run.end = line;
                }
                Line::Insert(text) => {
                    let new_line = indents.fit(text);
                    new.push(new_line.ok_or_else(|| PlaceError::Indentation { line: at + 1, new: text.clone() })?);
                }
            }
        }
        if !run.is_empty() || !new.is_empty() {
            found.push(self.replacement(run, &new));
        }
        Ok(())
    }

    fn indents(&self, chunk: &Chunk, at: usize) -> Indents {
        let old = chunk.lines.iter().filter_map(Line::old);
        let here = self.lines.get(at..).unwrap_or_default().iter();
        Indents::of(here.copied().zip(old))
    }

    /// Returns the bytes of a run of lines, and what is to stand there.
    fn replacement(&self, run: Range<usize>, new: &[impl AsRef<str>]) -> (Range<usize>, String) {
        let mut text: String = new.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
        let (start, end) = (self.start(run.start), self.start(run.end));
        let has_end = self.text.is_empty() || self.text.ends_with('\n');
        if run.end >= self.lines.len() && !has_end {
            // The file's last line has no end, and the new last one gets none either, unless it would vanish.
            if new.last().is_some_and(|line| !line.as_ref().is_empty()) {
                text.pop();
            }
            if run.is_empty() && !new.is_empty() {
                text.insert(0, '\n');
            }
        }
        (start..end, text)
    }
}

/// How the indentation of a patch corresponds to that of the file.
struct Indents {
    /// By the patch's; none where they are the same throughout.
    by_patch: Option<HashMap<String, Option<String>>>,
}

impl Indents {
    fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut by_patch: HashMap<String, Option<String>> = HashMap::new();
        let mut is_same = true;
        for (file, patch) in pairs.filter(|(file, patch)| !file.trim().is_empty() && !patch.trim().is_empty()) {
            let (file, patch) = (indent(file), indent(patch));
            is_same &= file == patch;
            by_patch
                .entry(patch.to_owned())
                .and_modify(|known| {
                    if known.as_deref() != Some(file) {
                        *known = None;
                    }
                })
                .or_insert_with(|| Some(file.to_owned()));
        }
        Self { by_patch: (!is_same).then_some(by_patch) }
    }

    /// Returns a new line with the file's indentation; none where that isn't certain.
    fn fit(&self, line: &str) -> Option<String> {
        let Some(by_patch) = &self.by_patch else { return Some(line.to_owned()) };
        if line.trim().is_empty() {
            return Some(String::new());
        }
        let own = indent(line);
        let words = line.get(own.len()..)?;
        if let Some(known) = by_patch.get(own) {
            return known.as_ref().map(|known| format!("{known}{words}"));
        }
        // One that goes deeper than a known one, where all known ones only lack the same beginning.
        let mut extra = by_patch.iter().map(|(patch, file)| file.as_deref()?.strip_suffix(patch.as_str()));
        let first = extra.next()??;
        extra.all(|other| other == Some(first)).then(|| format!("{first}{line}"))
    }
}

fn indent(line: &str) -> &str {
    line.get(..line.len() - line.trim_start().len()).unwrap_or_default()
}

fn inserted(line: &Line) -> &str {
    match line {
        Line::Keep(text) | Line::Remove(text) | Line::Insert(text) => text,
    }
}

fn after(from: usize) -> String {
    if from == 0 { String::new() } else { format!(" below line {from}") }
}

fn named(places: &[usize]) -> String {
    let mut named: Vec<String> = places.iter().take(MAX_NAMED).map(|line| format!("line {}", line + 1)).collect();
    if places.len() > MAX_NAMED {
        named.push("more".into());
    }
    named.join(", ")
}

fn shown(lines: &[&str]) -> String {
    let mut shown: Vec<&str> = lines.iter().take(MAX_SHOWN).copied().collect();
    if lines.len() > MAX_SHOWN {
        shown.push("…");
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests;
