//! The server's searches: lines by a regular expression, files by a few letters of their path.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use grep_matcher::Matcher as _;
use ignore::WalkState;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use protocol::file::{FoundLine, Submatch, Text};
use tokio_util::sync::CancellationToken;

use super::lines::{Ground, matcher, search};
use super::pattern::Filter;
use super::{Bounds, SearchError, TIME, is_directory, is_file, walk};

/// Most paths of a tree that are looked at by name.
const MAX_PATHS: usize = 300_000;
/// The longest line given whole, in bytes.
const MAX_LINE: usize = 16 * 1024;
/// Most matches given of one line.
const MAX_SUBMATCHES: usize = 100;

/// What to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// Files.
    Files,
    /// Directories; their paths end in `/`.
    Directories,
    /// Both.
    Both,
}

/// Finds the first `limit` lines below `directory` that match a regular expression, in the order of their files'
/// paths. Takes 30 s at most and then gives what it has; ends when the future is dropped.
pub async fn find_lines(directory: &Path, pattern: &str, limit: usize) -> Result<Vec<FoundLine>, SearchError> {
    let (root, pattern) = (directory.to_owned(), pattern.to_owned());
    blocking(move |bounds| {
        let matcher = matcher(&pattern).map_err(SearchError::Pattern)?;
        let root = canonical(&root)?;
        let filter = Filter::default();
        let (found, _) = search(&Ground::Tree(&root, &filter), &matcher, limit, bounds, |matcher, line| {
            let text = line.bytes();
            let mut submatches = Vec::new();
            // The matcher of a valid expression has no errors.
            let _ = matcher.find_iter(text, |found| {
                submatches.push(Submatch {
                    matched: lossy(text.get(found.start()..found.end()).unwrap_or_default()),
                    start: found.start(),
                    end: found.end(),
                });
                submatches.len() < MAX_SUBMATCHES
            });
            (lossy(text), line.line_number().unwrap_or(1), line.absolute_byte_offset(), submatches)
        });
        let lines = found.into_iter().flat_map(|(path, lines)| {
            lines.into_iter().map(move |(lines, line_number, absolute_offset, submatches)| FoundLine {
                path: Text { text: path.to_string_lossy().into_owned() },
                lines,
                line_number,
                absolute_offset,
                submatches,
            })
        });
        Ok(lines.collect())
    })
    .await
}

fn lossy(bytes: &[u8]) -> Text {
    let cut = bytes.get(..bytes.len().min(MAX_LINE)).unwrap_or_default();
    Text { text: String::from_utf8_lossy(cut).into_owned() }
}

/// Finds the `limit` paths below `directory` that a few letters fit best, best first; with an empty query the first in
/// order. Takes 30 s at most and looks at 300,000 paths at most; ends when the future is dropped.
pub async fn find_files(
    directory: &Path,
    query: &str,
    entries: Entries,
    limit: usize,
) -> Result<Vec<String>, SearchError> {
    let (root, query) = (directory.to_owned(), query.to_owned());
    blocking(move |bounds| {
        let mut paths = paths(&canonical(&root)?, entries, bounds);
        if query.trim().is_empty() {
            paths.sort_unstable();
            paths.truncate(limit);
            return Ok(paths);
        }
        Ok(ranked(paths, &query, limit))
    })
    .await
}

fn paths(root: &Path, entries: Entries, bounds: &Bounds) -> Vec<String> {
    let all = Mutex::new(Vec::new());
    walk(root, None, bounds, || {
        |entry, relative| {
            let is_directory = is_directory(entry);
            let is_wanted = match entries {
                Entries::Files => is_file(entry),
                Entries::Directories => is_directory,
                Entries::Both => is_directory || is_file(entry),
            };
            if is_wanted {
                let mut path = relative.to_string_lossy().into_owned();
                if is_directory {
                    path.push('/');
                }
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(path);
                if all.len() >= MAX_PATHS {
                    return WalkState::Quit;
                }
            }
            WalkState::Continue
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn ranked(paths: Vec<String>, query: &str, limit: usize) -> Vec<String> {
    let pattern = Pattern::parse(query.trim(), CaseMatching::Smart, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut buffer = Vec::new();
    let score = |path: String| {
        let score = pattern.score(Utf32Str::new(&path, &mut buffer), &mut matcher)?;
        Some((score, path))
    };
    let mut scored: Vec<(u32, String)> = paths.into_iter().filter_map(score).collect();
    // Of equally good ones the shorter is nearer to what was typed.
    scored.sort_unstable_by(|(a, one), (b, two)| b.cmp(a).then(one.len().cmp(&two.len())).then_with(|| one.cmp(two)));
    scored.into_iter().take(limit).map(|(_, path)| path).collect()
}

fn canonical(path: &Path) -> Result<PathBuf, SearchError> {
    crate::path::real_path(path).map_err(|source| SearchError::Io { path: path.to_owned(), source })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Bounds) -> Result<T, SearchError> + Send + 'static,
) -> Result<T, SearchError> {
    let cancel = CancellationToken::new();
    let _dropped = cancel.clone().drop_guard();
    let done = tokio::task::spawn_blocking(move || work(&Bounds::new(cancel, TIME)));
    done.await.unwrap_or(Err(SearchError::Broken))
}
