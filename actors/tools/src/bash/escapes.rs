//! Taking escape codes out of an output that need not be text.

use anstream::adapter::StripBytes;

/// Longest string of a terminal's (a title, a link, a picture) that is left out; what a cut one or binary data begins
/// would else swallow all that follows.
const LONGEST: usize = 4 * 1024;

/// Strips escape codes piece by piece. Bytes that are no UTF-8 become U+FFFD: to a terminal some of them are codes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Escapes {
    strip: StripBytes,
    within: Within,
    /// The beginning of a character whose rest has not come.
    partial: Vec<u8>,
}

/// Where in a string of a terminal's the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// In none.
    #[default]
    None,
    /// Behind an escape, which may begin one.
    Escape,
    /// So many bytes inside.
    String(usize),
}

impl Escapes {
    /// Returns whether nothing is open: text may be shown as it is.
    pub(super) fn is_fresh(&self) -> bool {
        *self == Self::default()
    }

    /// Gives what is left of the next bytes to `show`.
    pub(super) fn take(&mut self, bytes: &[u8], mut show: impl FnMut(&[u8])) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
            &joined
        };
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text(chunk.valid(), &mut show);
            let invalid = chunk.invalid();
            let may_go_on =
                chunks.peek().is_none() && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if may_go_on {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.text("\u{fffd}", &mut show);
            }
        }
    }

    /// Gives what is still held: nothing more comes.
    pub(super) fn end(&mut self, show: impl FnMut(&[u8])) {
        if !std::mem::take(&mut self.partial).is_empty() {
            self.text("\u{fffd}", show);
        }
    }

    fn text(&mut self, text: &str, mut show: impl FnMut(&[u8])) {
        let mut done = 0;
        for (at, byte) in text.bytes().enumerate() {
            self.within = match (self.within, byte) {
                (Within::String(_), b'\x07') => Within::None,
                // A sequence that goes on behind its line is none, or was cut; so is a very long string. What it has
                // hidden stays hidden.
                (_, b'\n') | (Within::String(LONGEST..), _) => {
                    self.strip.strip_next(text.as_bytes().get(done..at).unwrap_or_default()).for_each(&mut show);
                    self.strip = StripBytes::default();
                    done = at;
                    Within::None
                }
                // A terminal shows nothing, and what it stands between (`find -print0`) would run together.
                (Within::None, 0) => {
                    self.strip.strip_next(text.as_bytes().get(done..at).unwrap_or_default()).for_each(&mut show);
                    show("\u{fffd}".as_bytes());
                    done = at + 1;
                    Within::None
                }
                (Within::None | Within::String(_), b'\x1b') => Within::Escape,
                (Within::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Within::String(0),
                (Within::String(size), _) => Within::String(size + 1),
                _ => Within::None,
            };
        }
        self.strip.strip_next(text.as_bytes().get(done..).unwrap_or_default()).for_each(&mut show);
    }
}
