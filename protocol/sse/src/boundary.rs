//! Counts the bytes of the event that is coming in, without reading it.

/// Where in an event stream the last byte was.
#[derive(Debug)]
pub(crate) struct Boundary {
    /// Bytes since the last blank line.
    bytes: usize,
    limit: usize,
    /// Since the last blank line a line came that is no comment.
    open: bool,
    /// No byte of the line has come.
    line_start: bool,
    after_cr: bool,
}

impl Boundary {
    /// Returns the state before the first byte.
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: 0, limit, open: false, line_start: true, after_cr: false }
    }

    /// Takes a piece of the stream; false when an event is over the limit.
    pub(crate) fn take(&mut self, piece: &[u8]) -> bool {
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    if self.line_start {
                        self.bytes = 0;
                        self.open = false;
                    }
                    self.line_start = true;
                    self.after_cr = byte == b'\r';
                }
                _ => {
                    self.open |= self.line_start && byte != b':';
                    self.line_start = false;
                    self.after_cr = false;
                    self.bytes += 1;
                }
            }
            if self.bytes > self.limit {
                return false;
            }
        }
        true
    }

    /// Returns whether the stream is in the middle of an event. `eventsource-client` reports an end there as a clean
    /// one if it falls between two lines, and the event is lost.
    pub(crate) fn in_event(&self) -> bool {
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str) -> bool {
        let mut boundary = Boundary::new(100);
        assert!(boundary.take(text.as_bytes()));
        boundary.in_event()
    }

    #[test]
    fn an_event_is_open_until_its_blank_line_in_any_of_the_three_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            assert!(!after(""));
            assert!(after("data: x"));
            assert!(after(&format!("data: x{end}")));
            assert!(!after(&format!("data: x{end}{end}")));
            assert!(!after(&format!("data: x{end}{end}: a comment{end}")));
            assert!(after(&format!(": a comment{end}data")));
        }
    }

    #[test]
    fn the_limit_is_for_one_event_and_holds_across_pieces() {
        let mut boundary = Boundary::new(10);
        for _ in 0..10 {
            assert!(boundary.take(b"data: 123\n\n"));
        }
        assert!(boundary.take(b"data: 1"));
        assert!(!boundary.take(b"2345"));
    }
}
