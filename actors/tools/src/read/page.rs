//! Takes a window of lines out of a stream of bytes.

use std::io::{self, Read};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::files::ContentHash;
use crate::files::load::CHUNK;
use crate::text::Codec;

/// The longest line shown, in characters.
const MAX_LINE: usize = 2000;
/// Bytes kept of one line; no encoding needs more for [`MAX_LINE`] characters.
const MAX_LINE_BYTES: usize = 4 * (MAX_LINE + 1) + 4;
/// All that is shown, in bytes.
const MAX_SHOWN: usize = 50 * 1024;
/// When the window is full, no more than this is read to count the remaining lines, in bytes.
const MAX_COUNTED: u64 = 64 * 1024 * 1024;

/// Which lines are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The first, from 1.
    pub(super) offset: u64,
    /// The most.
    pub(super) limit: u64,
}

/// Lines of a file.
#[derive(Debug)]
pub(super) struct Page {
    /// Without their ends; long ones are cut.
    pub(super) lines: Vec<String>,
    /// How many lines were seen in all.
    pub(super) lines_seen: u64,
    /// Whether those are all the file has.
    pub(super) is_counted: bool,
    /// Whether there are lines after those shown.
    pub(super) has_more: bool,
    /// Whether the bound of bytes ended it.
    pub(super) is_capped: bool,
    /// How the text is encoded, as far as was seen.
    pub(super) codec: Codec,
    /// Of the whole file, if all of it was read.
    pub(super) hash: Option<ContentHash>,
}

/// Reads the lines of a window. `mark` bytes at the beginning are not shown. Stops early when cancelled; the page is
/// then incomplete.
pub(super) fn read_page(
    mut from: impl Read,
    codec: Codec,
    mark: usize,
    window: Window,
    cancel: &CancellationToken,
) -> io::Result<Page> {
    let mut scan = Scan::new(codec, window);
    let mut hasher = Some(Sha256::new());
    let mut chunk = vec![0; CHUNK];
    let (mut skip, mut total) = (mark, 0u64);
    loop {
        let length = match from.read(&mut chunk) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = chunk.get(..length).unwrap_or_default();
        if length == 0 {
            scan.end();
            return Ok(scan.page(true, hasher.map(ContentHash::from)));
        }
        total += length as u64;
        if total > MAX_COUNTED {
            // Nobody edits such a file with these tools.
            hasher = None;
        }
        if let Some(hasher) = &mut hasher {
            hasher.update(bytes);
        }
        scan.feed(bytes.get(skip.min(length)..).unwrap_or_default());
        skip -= skip.min(length);
        if cancel.is_cancelled() || (scan.is_full() && total > MAX_COUNTED) {
            return Ok(scan.page(false, None));
        }
    }
}

struct Scan {
    window: Window,
    codec: Codec,
    lines: Vec<String>,
    /// Of `lines`.
    bytes: usize,
    is_capped: bool,
    /// Lines that have ended.
    ended: u64,
    /// The beginning of the line that has not.
    line: Vec<u8>,
    is_begun: bool,
}

impl Scan {
    fn new(codec: Codec, window: Window) -> Self {
        Self {
            window,
            codec,
            lines: Vec::new(),
            bytes: 0,
            is_capped: false,
            ended: 0,
            line: Vec::new(),
            is_begun: false,
        }
    }

    fn is_full(&self) -> bool {
        self.is_capped || self.lines.len() as u64 >= self.window.limit
    }

    /// Returns whether the line being read is to be shown.
    fn is_wanted(&self) -> bool {
        self.ended + 1 >= self.window.offset && !self.is_full()
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.is_full() {
                // Only counting is left.
                self.ended += rest.iter().filter(|b| **b == b'\n').count() as u64;
                self.is_begun = !rest.ends_with(b"\n");
                return;
            }
            let (line, after, has_end) = match rest.iter().position(|b| *b == b'\n') {
                Some(at) => (rest.get(..at), rest.get(at + 1..), true),
                None => (Some(rest), None, false),
            };
            let line = line.unwrap_or_default();
            self.is_begun = true;
            if self.is_wanted() {
                let room = MAX_LINE_BYTES.saturating_sub(self.line.len()).min(line.len());
                self.line.extend_from_slice(line.get(..room).unwrap_or_default());
            }
            if has_end {
                self.finish_line();
            }
            rest = after.unwrap_or_default();
        }
    }

    fn end(&mut self) {
        if self.is_begun {
            self.finish_line();
        }
    }

    fn finish_line(&mut self) {
        if self.is_wanted() {
            let line = self.shown();
            let needed = line.len() + usize::from(!self.lines.is_empty());
            if self.bytes + needed > MAX_SHOWN {
                self.is_capped = true;
            } else {
                self.bytes += needed;
                self.lines.push(line);
            }
        }
        self.line.clear();
        self.is_begun = false;
        self.ended += 1;
    }

    fn shown(&mut self) -> String {
        let is_cut = self.line.len() >= MAX_LINE_BYTES;
        let line = if is_cut { &*self.line } else { self.line.strip_suffix(b"\r").unwrap_or(&self.line) };
        let text = self.codec.show(line);
        if self.codec == Codec::Utf8 && !is_cut && matches!(text, std::borrow::Cow::Owned(_)) {
            // The part of the file that was judged did not show it.
            self.codec = Codec::Stray;
        }
        match text.char_indices().nth(MAX_LINE) {
            Some((at, _)) => {
                format!("{}... (line truncated to {MAX_LINE} chars)", text.get(..at).unwrap_or_default())
            }
            None => text.into_owned(),
        }
    }

    fn page(self, is_counted: bool, hash: Option<ContentHash>) -> Page {
        let last = self.window.offset - 1 + self.lines.len() as u64;
        Page {
            has_more: self.ended > last || !is_counted,
            lines: self.lines,
            lines_seen: self.ended,
            is_counted,
            is_capped: self.is_capped,
            codec: self.codec,
            hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn page(text: &[u8], offset: u64, limit: u64) -> Page {
        read_page(text, Codec::Utf8, 0, Window { offset, limit }, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn lines_are_counted_with_or_without_a_last_end() {
        for text in ["a\nb", "a\nb\n", "a\r\nb\r\n"] {
            let page = page(text.as_bytes(), 1, 10);
            assert_eq!((page.lines, page.lines_seen, page.has_more), (vec!["a".into(), "b".into()], 2, false));
        }
        assert_eq!(page(b"", 1, 10).lines_seen, 0);
        assert_eq!(page(b"\n\n", 1, 10).lines_seen, 2);
    }

    #[test]
    fn a_wide_line_is_cut_between_characters() {
        let page = page("中".repeat(5000).as_bytes(), 1, 10);
        let line = &page.lines[0];
        assert_eq!(line.strip_suffix("... (line truncated to 2000 chars)").unwrap(), "中".repeat(2000));
        assert_eq!(page.codec, Codec::Utf8);
    }

    #[test]
    fn the_output_is_bounded_in_bytes() {
        let text = format!("{}\n", "x".repeat(1000)).repeat(100);
        let page = page(text.as_bytes(), 1, 2000);
        assert_eq!((page.lines.len(), page.lines_seen, page.is_capped), (51, 100, true));
    }

    #[test]
    fn an_endless_stream_ends() {
        let endless = io::repeat(b'\n');
        let page =
            read_page(endless, Codec::Utf8, 0, Window { offset: 1, limit: 3 }, &CancellationToken::new()).unwrap();
        assert_eq!((page.lines.len(), page.is_counted, page.has_more, page.hash), (3, false, true, None));
        let stopped = CancellationToken::new();
        stopped.cancel();
        read_page(io::repeat(b'x'), Codec::Utf8, 0, Window { offset: 9, limit: 3 }, &stopped).unwrap();
    }

    #[test]
    fn the_hash_is_of_the_whole_file() {
        let text = "a\nb\nc\n";
        assert_eq!(page(text.as_bytes(), 2, 1).hash, Some(ContentHash::of(text.as_bytes())));
    }

    proptest! {
        #[test]
        fn a_window_holds_the_lines_of_the_text(text in "((a|é)*\n){0,12}b?", offset in 1..15u64, limit in 1..6u64) {
            let all: Vec<&str> = text.lines().collect();
            let page = page(text.as_bytes(), offset, limit);
            let want: Vec<String> =
                all.iter().skip(offset as usize - 1).take(limit as usize).map(|l| (*l).to_owned()).collect();
            prop_assert_eq!(page.lines_seen, all.len() as u64);
            prop_assert_eq!(page.has_more, all.len() as u64 > offset - 1 + want.len() as u64);
            prop_assert_eq!(page.lines, want);
        }
    }
}
