//! Finds lines that match a regular expression.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkState;
use nix::libc;

use super::pattern::Filter;
use super::{Best, Bounds, Interest, is_directory, is_file, walk};

/// The longest line that can be searched, in bytes; a file with a longer one is left out.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The largest a compiled expression may be, in bytes, which also bounds how long it is compiled.
const MAX_EXPRESSION: usize = 10 * 1024 * 1024;

/// Returns the matcher of a regular expression; blocks, for a large one takes a while. The error is the regex crate's
/// text, which points at the fault.
pub(crate) fn matcher(pattern: &str) -> Result<RegexMatcher, String> {
    // As ripgrep: `^` and `$` are a line's, and a line may end in `\r\n`.
    let built = RegexMatcherBuilder::new().multi_line(true).crlf(true).size_limit(MAX_EXPRESSION).build(pattern);
    // It puts brackets around the expression, which would show in its error.
    built.map_err(|error| match regex::bytes::Regex::new(pattern) {
        Err(plain) => plain.to_string(),
        Ok(_) => error.to_string(),
    })
}

/// Where to search.
pub(crate) enum Ground<'a> {
    /// One file.
    File(&'a Path),
    /// All files of a directory that pass.
    Tree(&'a Path, &'a Filter),
}

/// Returns the first `limit` matching lines in the order of their files' paths (relative to the tree; empty for a
/// single file), made into what is wanted of them, and whether there are more.
pub(crate) fn search<T: Send>(
    ground: &Ground<'_>,
    matcher: &RegexMatcher,
    limit: usize,
    bounds: &Bounds,
    make: impl Fn(&RegexMatcher, &SinkMatch<'_>) -> T + Sync,
) -> (Vec<(PathBuf, Vec<T>)>, bool) {
    let best = Best::new(limit);
    let (best_ref, make) = (&best, &make);
    match ground {
        Ground::File(path) => {
            let mut search = Search { searcher: searcher(), matcher, bounds, make };
            best.offer(Path::new(""), search.file(path, limit + 1));
        }
        Ground::Tree(root, filter) => walk(root, None, bounds, || {
            let (mut searcher, matcher) = (searcher(), matcher.clone());
            move |entry, relative| {
                let interest = best_ref.interest(relative);
                if is_directory(entry) && interest == Interest::None {
                    return WalkState::Skip;
                }
                if !is_file(entry) || interest == Interest::None || !filter.passes(relative) {
                    return WalkState::Continue;
                }
                let most = if interest == Interest::Any { 1 } else { limit + 1 };
                let mut search = Search { searcher: &mut searcher, matcher: &matcher, bounds, make };
                best_ref.offer(relative, search.file(entry.path(), most));
                WalkState::Continue
            }
        }),
    }
    best.take()
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        // A mapped file that shrinks while it is searched would kill the process.
        .memory_map(MmapChoice::never())
        .heap_limit(Some(MAX_LINE))
        .build()
}

struct Search<'a, S, F> {
    searcher: S,
    matcher: &'a RegexMatcher,
    bounds: &'a Bounds,
    make: &'a F,
}

impl<S: std::borrow::BorrowMut<Searcher>, F> Search<'_, S, F> {
    /// Returns at most `most` lines of a file; what can't be read has none.
    fn file<T>(&mut self, path: &Path, most: usize) -> Vec<T>
    where
        F: Fn(&RegexMatcher, &SinkMatch<'_>) -> T,
    {
        // Should it have become a fifo or a link since it was listed, it is not waited for and not followed.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return Vec::new() };
        let mut found = Vec::new();
        let sink = Lines { matcher: self.matcher, make: self.make, found: &mut found, most };
        let bounded = Bounded { file, bounds: self.bounds };
        if let Err(error) = self.searcher.borrow_mut().search_reader(self.matcher, bounded, sink) {
            tracing::debug!(path = %path.display(), %error, "a file was not searched to its end");
        }
        found
    }
}

struct Lines<'a, T, F> {
    matcher: &'a RegexMatcher,
    make: &'a F,
    found: &'a mut Vec<T>,
    most: usize,
}

impl<T, F: Fn(&RegexMatcher, &SinkMatch<'_>) -> T> Sink for Lines<'_, T, F> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found.push((self.make)(self.matcher, line));
        Ok(self.found.len() < self.most)
    }
}

/// A file that ends when the search must.
struct Bounded<'a> {
    file: File,
    bounds: &'a Bounds,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bounds.is_over() {
            return Err(io::Error::other("the search is over"));
        }
        self.file.read(buffer)
    }
}
