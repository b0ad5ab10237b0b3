//! Lines of a byte stream, none longer than a limit: what is longer is skipped to its end.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes kept of the beginning of a line that is too long.
const HEAD: usize = 1024;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole one, without its end.
    Whole(Vec<u8>),
    /// The beginning of one that is too long.
    TooLong(Vec<u8>),
}

/// Reads lines.
pub struct Lines<R> {
    reader: R,
    max: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns a reader of lines of at most `max` bytes.
    pub fn new(reader: R, max: usize) -> Self {
        Self { reader, max }
    }

    /// Returns the next line; none at the end, or when the stream breaks. A last line without an end is given too.
    pub async fn next(&mut self) -> Option<Line> {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let Ok(available) = self.reader.fill_buf().await else { return None };
            if available.is_empty() {
                // Half a line that is too long was never a message.
                return (!line.is_empty() && !is_too_long).then_some(Line::Whole(line));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let (taken, used) = match end {
                Some(end) => (available.get(..end).unwrap_or_default(), end + 1),
                None => (available, available.len()),
            };
            if !is_too_long && line.len() + taken.len() > self.max {
                is_too_long = true;
                line.truncate(HEAD);
                // The memory of megabytes goes back.
                line.shrink_to_fit();
            }
            let room = if is_too_long { HEAD.saturating_sub(line.len()) } else { taken.len() };
            line.extend_from_slice(taken.get(..room.min(taken.len())).unwrap_or_default());
            self.reader.consume(used);
            if end.is_some() {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Some(if is_too_long { Line::TooLong(line) } else { Line::Whole(line) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use tokio::io::BufReader;

    use super::*;

    async fn read(bytes: &[u8], buffer: usize, max: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, bytes), max);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[tokio::test]
    async fn lines_end_in_any_way_and_the_last_may_have_no_end() {
        assert_eq!(read(b"a\r\n\nb\nc", 2, 10).await, [whole("a"), whole(""), whole("b"), whole("c")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_costs_nothing_but_itself() {
        let text = format!("ok\n{}\nafter\n", "x".repeat(5000));
        let lines = read(text.as_bytes(), 100, 4000).await;
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], Line::TooLong(vec![b'x'; HEAD]));
        assert_eq!(lines[2], whole("after"));
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(text in "[ab\n]{0,60}", buffer in 1_usize..9) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(read(text.as_bytes(), buffer, 1000));
            let wanted: Vec<Line> = text.lines().map(whole).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
