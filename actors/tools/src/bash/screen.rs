//! What a terminal would show of an output, bounded: escape codes stripped, overwritten lines gone, the head and the
//! newest part kept, the rest counted.

use memchr::{memchr, memchr_iter, memrchr};

use super::escapes::Escapes;

/// Bytes kept of the head once the middle is left out, and lines.
const HEAD: (usize, usize) = (2 * 1024, 40);

/// Bytes kept of the newest part: enough for the model's share and for what is shown live.
const TAIL: usize = 128 * 1024;

/// An output as it is shown, fed piece by piece. Memory stays bounded whatever comes.
#[derive(Debug, Default)]
pub(super) struct Screen {
    escapes: Escapes,
    /// The beginning, once something behind it was left out.
    head: Option<Vec<u8>>,
    /// What follows the head and what was left out; all there is while there is no head.
    tail: Vec<u8>,
    /// Where the last line begins in the tail.
    line: usize,
    /// A carriage return came; what comes next overwrites the line, unless it is a line feed.
    returned: bool,
    left_out: Size,
    /// Bytes that were overwritten.
    overwritten: u64,
}

/// An amount of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub bytes: u64,
    pub lines: u64,
}

/// How much the model is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Lines, the piece behind the last line feed counted as one.
    pub lines: usize,
    pub bytes: usize,
}

/// What the model is shown of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Whole(String),
    /// Its head, a line that says what is left out, and its tail.
    Cut(String),
}

impl Screen {
    /// Takes the next piece.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !self.returned && self.escapes.is_fresh() && bytes.iter().all(|b| is_text(*b)) {
            return self.append(bytes);
        }
        // The state is taken out so that we can change while it gives pieces.
        let mut escapes = std::mem::take(&mut self.escapes);
        escapes.take(bytes, |piece| self.print(piece));
        self.escapes = escapes;
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        std::mem::take(&mut self.escapes).end(|piece| self.print(piece));
    }

    /// Returns how many bytes were overwritten after a carriage return.
    pub(super) fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Returns whether nothing is shown.
    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.head.is_none()
    }

    /// Returns the last `most` characters, behind `...` and a blank line if there is more.
    pub(super) fn newest(&self, most: usize) -> String {
        // A character has at most four bytes.
        let from = boundary(&self.tail, self.tail.len().saturating_sub(most.saturating_mul(4)));
        let text = lossy(self.tail.get(from..).unwrap_or_default());
        let surplus = text.chars().count().saturating_sub(most);
        if surplus == 0 && from == 0 && self.head.is_none() {
            return text;
        }
        format!("...\n\n{}", text.chars().skip(surplus).collect::<String>())
    }

    /// Returns what the model is shown.
    pub(super) fn shown(&self, limits: Limits) -> Shown {
        let count = |bytes: &[u8]| memchr_iter(b'\n', bytes).count();
        if self.head.is_none() && self.tail.len() <= limits.bytes && count(&self.tail) < limits.lines {
            return Shown::Whole(lossy(&self.tail));
        }
        let end = head_of(&self.tail);
        let (head, rest) = match &self.head {
            Some(head) => (head.as_slice(), self.tail.as_slice()),
            None => self.tail.split_at_checked(end).unwrap_or((&[], &self.tail)),
        };
        // The head, one line that counts, and the tail share the limits.
        let lines = limits.lines.saturating_sub(count(head) + 2);
        let mut from = boundary(rest, rest.len().saturating_sub(limits.bytes.saturating_sub(head.len())));
        if let Some(at) = memchr::memrchr_iter(b'\n', rest).nth(lines) {
            from = from.max(at + 1);
        } else if from > 0 {
            // From the start of a line, unless that takes nearly all.
            let next = memchr(b'\n', rest.get(from..).unwrap_or_default()).map(|at| from + at + 1);
            from = next.filter(|next| rest.len() - next > limits.bytes / 2).unwrap_or(from);
        }
        let (middle, tail) = rest.split_at_checked(from).unwrap_or((&[], rest));
        let bytes = self.left_out.bytes + middle.len() as u64;
        let lines = self.left_out.lines + count(middle) as u64;
        let newline = if head.is_empty() || head.ends_with(b"\n") { "" } else { "\n" };
        Shown::Cut(format!("{}{newline}...{lines} lines, {bytes} bytes left out...\n{}", lossy(head), lossy(tail)))
    }

    fn print(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.returned) && *first != b'\n' && *first != b'\r' {
                self.overwrite();
            }
            match memchr(b'\r', bytes) {
                Some(at) => {
                    self.append(bytes.get(..at).unwrap_or_default());
                    self.returned = true;
                    bytes = bytes.get(at + 1..).unwrap_or_default();
                }
                None => return self.append(bytes),
            }
        }
    }

    fn overwrite(&mut self) {
        self.overwritten += (self.tail.len() - self.line.min(self.tail.len())) as u64;
        self.tail.truncate(self.line);
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(at) = memrchr(b'\n', bytes) {
            self.line = self.tail.len() + at + 1;
        }
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        let kept = if self.head.is_none() { head_of(&self.tail) } else { 0 };
        if self.head.is_none() {
            self.head = Some(self.tail.get(..kept).unwrap_or_default().to_vec());
        }
        let from = boundary(&self.tail, self.tail.len().saturating_sub(TAIL)).max(kept);
        let middle = self.tail.get(kept..from).unwrap_or_default();
        self.left_out.bytes += middle.len() as u64;
        self.left_out.lines += memchr_iter(b'\n', middle).count() as u64;
        self.tail.drain(..from);
        self.line = self.line.saturating_sub(from);
    }
}

/// Returns whether a byte is shown as it is.
fn is_text(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) || byte == b'\n' || byte == b'\t'
}

/// Returns where the head of a text ends: behind a line if one is short enough.
fn head_of(bytes: &[u8]) -> usize {
    let (most, lines) = HEAD;
    let start = bytes.get(..most).unwrap_or(bytes);
    memchr_iter(b'\n', start).take(lines).last().map_or_else(|| boundary(bytes, start.len()), |at| at + 1)
}

/// Returns the first place at or behind `at` where a character begins.
fn boundary(bytes: &[u8], at: usize) -> usize {
    let inside = bytes.get(at..).unwrap_or_default().iter().take(3).take_while(|b| (0x80..0xc0).contains(*b));
    at + inside.count()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { lines: 2000, bytes: 50 * 1024 };

    fn screen(pieces: &[&str]) -> Screen {
        let mut screen = Screen::default();
        for piece in pieces {
            screen.push(piece.as_bytes());
        }
        screen
    }

    fn whole(pieces: &[&str]) -> String {
        match screen(pieces).shown(LIMITS) {
            Shown::Whole(text) => text,
            Shown::Cut(text) => panic!("cut: {text}"),
        }
    }

    #[test]
    fn escape_codes_are_stripped_also_where_pieces_are_cut() {
        assert_eq!(whole(&["\x1b[31mred\x1b[0m\n"]), "red\n");
        assert_eq!(whole(&["a\x1b[3", "1mred\x1b", "[0m\tb\n", "\x1b]0;title\x07c"]), "ared\tb\nc");
        assert_eq!(whole(&["gr\u{fc}n \u{2713}\n"]), "gr\u{fc}n \u{2713}\n");
    }

    #[test]
    fn a_string_of_the_terminals_that_never_ends_hides_no_more_than_its_line() {
        for begin in ["\x1b]0;x", "\x1bP", "\x1bX", "\x1b_", "\x1b^"] {
            assert_eq!(whole(&["a", begin, "\n1\n", "2\n"]), "a\n1\n2\n", "{begin:?}");
            let shown = whole(&[begin, &"x".repeat(5000), "\x1b[1mend"]);
            assert!(shown.len() < 1000 && shown.ends_with("xend"), "{begin:?}");
            assert_eq!(whole(&[begin, "y\x1b\\z"]), "z");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_seen_as_such() {
        let shown = |pieces: &[&[u8]]| {
            let mut screen = Screen::default();
            pieces.iter().for_each(|piece| screen.push(piece));
            screen.end();
            screen.shown(LIMITS)
        };
        let whole = |text: &str| Shown::Whole(text.to_owned());
        assert_eq!(shown(&[b"a\x90b\x9b1mc\n"]), whole("a\u{fffd}b\u{fffd}1mc\n"));
        assert_eq!(shown(&[b"\xe2", b"\x9c", b"\x93\xff"]), whole("\u{2713}\u{fffd}"));
        assert_eq!(shown(&[b"a\xe2\x9c"]), whole("a\u{fffd}"));
        assert_eq!(shown(&[b"one\0two\0"]), whole("one\u{fffd}two\u{fffd}"));
        assert_eq!(shown(&[b"\x1b]0;a\0b\x07c"]), whole("c"));
    }

    #[test]
    fn any_cut_sequence_ends_with_its_line() {
        for begin in ["\x1b", "\x1b[", "\x1b[3", "\x1b[?", "\x1b(", "\x1b[ "] {
            assert_eq!(whole(&["a", begin, "\n1\n", "2\n3;4\n"]), "a\n1\n2\n3;4\n", "{begin:?}");
        }
    }

    #[test]
    fn a_carriage_return_lets_what_follows_overwrite_the_line() {
        assert_eq!(whole(&["one\ntwo\rthree"]), "one\nthree");
        assert_eq!(whole(&["1%\r", "2%\r", "3%\n", "done\n"]), "3%\ndone\n");
        assert_eq!(whole(&["dos\r\nlines\r\n"]), "dos\nlines\n");
        assert_eq!(whole(&["dos\r", "\nlines\r\r\n"]), "dos\nlines\n");
        assert_eq!(whole(&["last\r"]), "last");
        assert_eq!(screen(&["abc\rde"]).overwritten(), 3);
    }

    #[test]
    fn a_short_output_is_whole_up_to_the_limits() {
        let lines = "x\n".repeat(1999);
        assert_eq!(whole(&[&lines]), lines);
        assert!(matches!(screen(&[&lines, "x\n"]).shown(LIMITS), Shown::Cut(_)));
        let bytes = "y".repeat(50 * 1024);
        assert_eq!(whole(&[&bytes]), bytes);
        assert!(matches!(screen(&[&bytes, "y"]).shown(LIMITS), Shown::Cut(_)));
    }

    #[test]
    fn a_long_output_keeps_head_and_tail_and_counts_the_middle() {
        let text: String = (1..=3000).map(|n| format!("{n}\n")).collect();
        let Shown::Cut(shown) = screen(&[&text]).shown(LIMITS) else { panic!() };
        assert_eq!(shown.split('\n').count(), 2000);
        assert!(shown.starts_with("1\n2\n3\n"), "{}", &shown[..40]);
        assert!(shown.contains("\n40\n...1002 lines, 3992 bytes left out...\n1043\n"), "{}", &shown[..300]);
        assert!(shown.ends_with("\n2999\n3000\n"));
    }

    #[test]
    fn memory_stays_bounded_and_the_count_holds() {
        let mut screen = Screen::default();
        screen.push(b"HEAD\n");
        let piece = b"0123456789\n".repeat(1000);
        for _ in 0..500 {
            screen.push(&piece);
        }
        screen.push(b"TAIL\n");
        assert!(screen.tail.len() <= 2 * TAIL && screen.tail.capacity() <= 8 * TAIL);
        let Shown::Cut(shown) = screen.shown(LIMITS) else { panic!() };
        assert!(shown.starts_with("HEAD\n0123456789\n") && shown.ends_with("0123456789\nTAIL\n"));
        assert!(shown.len() < 51 * 1024);
        let said: u64 = shown.split("...").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(said + shown.matches("0123456789\n").count() as u64, 500_000);
    }

    #[test]
    fn one_endless_line_is_cut_inside() {
        let mut screen = Screen::default();
        for _ in 0..100 {
            screen.push("\u{fc}".repeat(5000).as_bytes());
        }
        let Shown::Cut(shown) = screen.shown(LIMITS) else { panic!() };
        assert!(shown.len() < 51 * 1024 && !shown.contains('\u{fffd}'));
    }

    #[test]
    fn the_newest_part_is_marked_when_there_is_more() {
        assert_eq!(screen(&["abc"]).newest(3), "abc");
        assert_eq!(screen(&["abcd"]).newest(3), "...\n\nbcd");
        assert_eq!(screen(&["\u{fc}\u{fc}\u{fc}\u{fc}"]).newest(3), "...\n\n\u{fc}\u{fc}\u{fc}");
    }

    proptest! {
        #[test]
        fn where_an_output_is_cut_into_pieces_makes_no_difference(
            parts in prop::collection::vec(prop_oneof![
                Just("line\n"), Just("\r"), Just("\r\n"), Just("\x1b[1;31m"), Just("\x1b]0;t\x07"), Just("\u{2713}"), Just("ab\t"),
                Just("\x1b]"), Just("\x1bP"), Just("\x1b\\"),
            ], 0..30),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = parts.concat().into_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut pieces = Screen::default();
            at.windows(2).for_each(|w| pieces.push(&bytes[w[0]..w[1]]));
            let mut once = Screen::default();
            once.push(&bytes);
            prop_assert_eq!(pieces.shown(LIMITS), once.shown(LIMITS));
        }

        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut screen = Screen::default();
            screen.push(&bytes);
            screen.shown(Limits { lines: 5, bytes: 50 });
            screen.newest(10);
        }
    }
}
