//! Line ends: text is matched with `\n` alone, and every place in it is known in the text as it is.

use std::borrow::Cow;
use std::ops::Range;

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// `\n`, or no line ends at all.
    Lf,
    /// `\r\n`.
    CrLf,
    /// Both occur.
    Mixed,
}

/// Text with every `\r\n` written `\n`.
#[derive(Clone, Debug)]
pub(crate) struct Unified<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Where in `text` a `\n` stands for `\r\n`, in order.
    returns: Vec<usize>,
    /// How many `\n` there are in all.
    ends: usize,
}

impl<'a> Unified<'a> {
    pub(crate) fn of(original: &'a str) -> Self {
        let ends = original.bytes().filter(|b| *b == b'\n').count();
        let mut returns = Vec::new();
        let mut pieces = original.split("\r\n");
        let mut text = Cow::Borrowed(pieces.next().unwrap_or_default());
        for piece in pieces {
            let text = text.to_mut();
            returns.push(text.len());
            text.push('\n');
            text.push_str(piece);
        }
        Self { text, returns, ends }
    }

    /// Returns a place of `text` as a place of the original.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.before(range.start)..range.end + self.before(range.end)
    }

    /// Returns how the lines end in all.
    pub(crate) fn all_ends(&self) -> Ends {
        Ends::of(self.returns.len(), self.ends)
    }

    /// Returns `new` with line ends that fit a place of `text`: those there if they agree, else the file's most common.
    pub(crate) fn fit<'n>(&self, range: &Range<usize>, new: &'n str) -> Cow<'n, str> {
        let here = self.text.get(range.clone()).unwrap_or_default().bytes().filter(|b| *b == b'\n').count();
        let ends =
            if here > 0 { Ends::of(self.before(range.end) - self.before(range.start), here) } else { Ends::Mixed };
        let with_returns = match (ends, self.all_ends()) {
            (Ends::CrLf, _) | (Ends::Mixed, Ends::CrLf) => true,
            (Ends::Lf, _) | (Ends::Mixed, Ends::Lf) => false,
            (Ends::Mixed, Ends::Mixed) => self.returns.len() * 2 > self.ends,
        };
        let new = unify(new);
        if with_returns && new.contains('\n') { Cow::Owned(new.replace('\n', "\r\n")) } else { new }
    }

    fn before(&self, at: usize) -> usize {
        self.returns.partition_point(|place| *place < at)
    }
}

impl Ends {
    fn of(returns: usize, all: usize) -> Self {
        match returns {
            0 => Self::Lf,
            _ if returns == all => Self::CrLf,
            _ => Self::Mixed,
        }
    }
}

/// Returns text with every `\r\n` written `\n`.
pub(crate) fn unify(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn new_lines_end_like_those_around_them() {
        let dos = Unified::of("one\r\ntwo\r\nthree\r\n");
        assert_eq!((&*dos.text, dos.all_ends()), ("one\ntwo\nthree\n", Ends::CrLf));
        assert_eq!(dos.original(&(0..7)), 0..8);
        assert_eq!(dos.fit(&(0..7), "ONE\nTWO\r\nX"), "ONE\r\nTWO\r\nX");
        let unix = Unified::of("a\nb");
        assert_eq!(unix.fit(&(0..3), "a\r\nb"), "a\nb");
        let mixed = Unified::of("a\nb\nc\r\nd\r\n");
        assert_eq!(mixed.all_ends(), Ends::Mixed);
        assert_eq!(mixed.fit(&(0..3), "x\ny"), "x\ny");
        assert_eq!(mixed.fit(&(4..8), "x\ny\n"), "x\r\ny\r\n");
    }

    proptest! {
        #[test]
        fn places_lead_back_to_the_same_text(original in "(a|\r\n|\n|\r|é){0,30}", cuts in any::<(usize, usize)>()) {
            let unified = Unified::of(&original);
            prop_assert_eq!(&*unified.text, original.replace("\r\n", "\n"));
            let places: Vec<usize> = unified.text.char_indices().map(|(at, _)| at).chain([unified.text.len()]).collect();
            let (a, b) = (places[cuts.0 % places.len()], places[cuts.1 % places.len()]);
            let range = a.min(b)..a.max(b);
            let back = &original[unified.original(&range)];
            prop_assert_eq!(unify(back), &unified.text[range]);
        }
    }
}
