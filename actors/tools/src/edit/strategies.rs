//! Finds the places an edit means: OpenCode's nine strategies, in its order.
//!
//! Pure: text with `\n` ends in, byte ranges out. The first strategy that finds anything decides. Unlike in OpenCode,
//! one that finds several places never picks one of them: that is an error the model can act on, a wrong edit is not.
//! (One exception keeps nothing but the stricter matches: among places that agree line by line apart from
//! indentation, a single one with the same *relative* indentation wins.)

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use super::anchors;
use crate::text::runs::runs;
use protocol::config::EditAnchors;

/// Most places that are counted when there should be one.
pub(crate) const MAX_COUNTED: usize = 100;

/// How a place was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The very text.
    Simple,
    /// Whole lines, each equal apart from spaces around it.
    LineTrimmed,
    /// A block that begins and ends alike and is similar between (only where config allows it).
    BlockAnchor,
    /// Equal when every run of spaces counts as one.
    WhitespaceNormalised,
    /// Whole lines, equal apart from an indentation they share.
    IndentationFlexible,
    /// The text was escaped once too often (`\"` for `"`).
    EscapeNormalised,
    /// The very text apart from spaces and empty lines around the whole.
    TrimmedBoundary,
    /// A block that begins and ends alike and has half its lines in common (only where config allows it).
    ContextAware,
    /// The very text, everywhere.
    MultiOccurrence,
}

/// What of a place is the old text, and so what the new text must be fitted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All of it, byte for byte.
    Exact,
    /// Whole lines. For each line of the old text, which line of the place it stands for.
    Lines(Vec<Option<usize>>),
    /// The old text without the spaces around it.
    Within,
    /// The old text, unescaped.
    Unescaped,
}

/// A place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes.
    pub(crate) range: Range<usize>,
    pub(crate) fit: Fit,
}

/// What a search gives. No list is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Nothing.
    Nothing,
    /// The one place, or all of them where all are wanted.
    Found(Strategy, Vec<Place>),
    /// Several where one is wanted; at most [`MAX_COUNTED`].
    Several(Strategy, Vec<Place>),
}

/// How many places are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Exactly one.
    One,
    /// All there are; overlapping ones once.
    All,
}

/// Finds `old` (not empty) in `text`.
pub(crate) fn find(text: &str, old: &str, wanted: Wanted, may_guess: EditAnchors) -> Search {
    let exact = match wanted {
        Wanted::One => overlapping(text, old),
        Wanted::All => text.match_indices(old).map(|(at, _)| at..at + old.len()).collect(),
    };
    let exact = exact.into_iter().map(|range| Place { range, fit: Fit::Exact }).collect();
    let strategy = if wanted == Wanted::All { Strategy::MultiOccurrence } else { Strategy::Simple };
    if let Some(search) = decide(strategy, exact, wanted) {
        return search;
    }
    // Spaces alone are never matched by what ignores spaces.
    if old.trim().is_empty() {
        return Search::Nothing;
    }
    let (lines, block) = (Lines::of(text), Block::of(old));
    let tries: [(Strategy, &dyn Fn() -> Vec<Place>); 7] = [
        (Strategy::LineTrimmed, &|| lines.equal_by(&block, str::trim)),
        (Strategy::BlockAnchor, &|| guesses(may_guess, || anchors::block_anchor(&lines, &block))),
        (Strategy::WhitespaceNormalised, &|| whitespace_normalised(&lines, &block, old)),
        (Strategy::IndentationFlexible, &|| Vec::new()),
        (Strategy::EscapeNormalised, &|| escape_normalised(text, old)),
        (Strategy::TrimmedBoundary, &|| trimmed_boundary(text, old)),
        (Strategy::ContextAware, &|| guesses(may_guess, || anchors::context_aware(&lines, &block))),
    ];
    for (strategy, places) in tries {
        match decide(strategy, places(), wanted) {
            Some(Search::Several(Strategy::LineTrimmed, places)) => {
                // Where trimmed lines agree nowhere, those with the same relative indentation don't either: it only
                // ever narrows these down.
                let stricter = places.iter().filter(|p| lines.has_same_relative_indentation(p, &block)).cloned();
                let stricter: Vec<_> = stricter.collect();
                return match decide(Strategy::IndentationFlexible, stricter, wanted) {
                    Some(found @ Search::Found(..)) => found,
                    _ => Search::Several(strategy, places),
                };
            }
            Some(search) => return search,
            None => {}
        }
    }
    Search::Nothing
}

fn guesses(may_guess: EditAnchors, places: impl FnOnce() -> Vec<Place>) -> Vec<Place> {
    if may_guess == EditAnchors::Similar { places() } else { Vec::new() }
}

fn decide(strategy: Strategy, mut places: Vec<Place>, wanted: Wanted) -> Option<Search> {
    match (wanted, places.len()) {
        (_, 0) => None,
        (Wanted::One, 1) => Some(Search::Found(strategy, places)),
        (Wanted::One, _) => {
            places.truncate(MAX_COUNTED);
            Some(Search::Several(strategy, places))
        }
        (Wanted::All, _) => {
            let mut end = 0;
            places.retain(|place| {
                let is_free = place.range.start >= end;
                if is_free {
                    end = place.range.end;
                }
                is_free
            });
            Some(Search::Found(strategy, places))
        }
    }
}

/// Returns where `old` is, overlapping ones too, [`MAX_COUNTED`] at most.
fn overlapping(text: &str, old: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(old)) {
        let at = from + at;
        found.push(at..at + old.len());
        if found.len() == MAX_COUNTED {
            break;
        }
        from = at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
    }
    found
}

/// The lines of a file.
pub(crate) struct Lines<'a> {
    pub(crate) text: &'a str,
    /// Without their ends.
    pub(crate) lines: Vec<&'a str>,
    starts: Vec<usize>,
}

/// The lines of the old text.
pub(crate) struct Block<'a> {
    /// Without their ends; at least one.
    pub(crate) lines: Vec<&'a str>,
    /// Whether the last one has its end.
    pub(crate) has_end: bool,
}

impl<'a> Block<'a> {
    pub(crate) fn of(old: &'a str) -> Self {
        let body = old.strip_suffix('\n');
        Self { lines: body.unwrap_or(old).split('\n').collect(), has_end: body.is_some() }
    }
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let (mut lines, mut starts, mut at) = (Vec::new(), Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            starts.push(at);
            at += line.len();
            lines.push(line.strip_suffix('\n').unwrap_or(line));
        }
        Self { text, lines, starts }
    }

    /// Returns the number of the line, from 1, that holds a byte.
    pub(crate) fn number(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).max(1)
    }

    /// Returns the bytes of `count` lines; with the last one's end, if it has one and `with_end` says so.
    pub(crate) fn range(&self, first: usize, count: usize, with_end: bool) -> Option<Range<usize>> {
        let start = *self.starts.get(first)?;
        let last = first + count.checked_sub(1)?;
        let end = self.starts.get(last)? + self.lines.get(last)?.len();
        Some(start..if with_end && end < self.text.len() { end + 1 } else { end })
    }

    /// Returns the blocks of lines that are equal to the old ones by a key.
    fn equal_by<'k, K: Hash + Eq + 'k>(&'k self, block: &Block<'k>, key: impl Fn(&'k str) -> K) -> Vec<Place> {
        let mut numbers: HashMap<K, usize> = HashMap::new();
        let mut wanted = Vec::with_capacity(block.lines.len());
        for line in &block.lines {
            let next = numbers.len();
            wanted.push(*numbers.entry(key(line)).or_insert(next));
        }
        let have: Vec<usize> =
            self.lines.iter().map(|line| numbers.get(&key(line)).copied().unwrap_or(usize::MAX)).collect();
        let fit = Fit::Lines((0..wanted.len()).map(Some).collect());
        let place =
            |first: usize| Some(Place { range: self.range(first, wanted.len(), block.has_end)?, fit: fit.clone() });
        runs(&have, &wanted, usize::eq).into_iter().filter_map(place).collect()
    }

    fn has_same_relative_indentation(&self, place: &Place, block: &Block<'_>) -> bool {
        let first = self.number(place.range.start) - 1;
        let here = self.lines.get(first..first + block.lines.len()).unwrap_or_default();
        dedented(here) == dedented(&block.lines)
    }
}

/// Returns lines without the indentation all of them share; empty lines have none.
fn dedented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let full = |line: &&&str| !line.trim().is_empty();
    let shared = lines.iter().filter(full).map(|line| indentation(line)).min().unwrap_or(0);
    lines.iter().map(|line| if full(&line) { line.get(shared..).unwrap_or(line) } else { "" }).collect()
}

/// Returns text with every run of spaces as one, and none around it.
fn collapsed(line: &str) -> Cow<'_, str> {
    let trimmed = line.trim();
    let mut previous = 'x';
    let is_plain = trimmed.chars().all(|c| {
        let ok = c == ' ' && previous != ' ' || !c.is_whitespace();
        previous = c;
        ok
    });
    if is_plain { Cow::Borrowed(trimmed) } else { trimmed.split_whitespace().collect::<Vec<_>>().join(" ").into() }
}

fn whitespace_normalised<'a>(lines: &'a Lines<'a>, block: &Block<'a>, old: &str) -> Vec<Place> {
    let whole = lines.equal_by(block, collapsed);
    if !whole.is_empty() || old.trim().contains('\n') {
        return whole;
    }
    // A part of one line.
    let words: Vec<&str> = old.split_whitespace().collect();
    let [first, rest @ ..] = &*words else { return Vec::new() };
    if rest.is_empty() {
        return Vec::new();
    }
    let place = |start: usize| {
        let mut end = start + first.len();
        for word in rest {
            let after = lines.text.get(end..)?;
            let next = after.trim_start_matches([' ', '\t']);
            if next.len() == after.len() || !next.starts_with(word) {
                return None;
            }
            end += after.len() - next.len() + word.len();
        }
        Some(Place { range: start..end, fit: Fit::Within })
    };
    let found = lines.text.match_indices(first).filter_map(|(at, _)| place(at));
    found.filter(|place| stands_alone(lines.text, &place.range)).take(MAX_COUNTED).collect()
}

fn trimmed_boundary(text: &str, old: &str) -> Vec<Place> {
    let core = old.trim();
    if core.len() == old.len() {
        return Vec::new();
    }
    let found = overlapping(text, core).into_iter().filter(|range| stands_alone(text, range));
    found.map(|range| Place { range, fit: Fit::Within }).collect()
}

/// Returns whether a place does not begin or end within a word: the old text had spaces there.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let joins = |a: Option<char>, b: Option<char>| a.is_some_and(is_word) && b.is_some_and(is_word);
    let (before, here, after) = (
        text.get(..range.start).unwrap_or_default(),
        text.get(range.clone()).unwrap_or_default(),
        text.get(range.end..).unwrap_or_default(),
    );
    !joins(before.chars().next_back(), here.chars().next()) && !joins(here.chars().next_back(), after.chars().next())
}

fn escape_normalised(text: &str, old: &str) -> Vec<Place> {
    let (plain, kinds) = unescaped(old);
    if kinds.is_empty() || plain.trim().is_empty() {
        return Vec::new();
    }
    overlapping(text, &plain).into_iter().map(|range| Place { range, fit: Fit::Unescaped }).collect()
}

/// Returns text with one level of escapes taken away, and which escapes it had.
pub(crate) fn unescaped(text: &str) -> (String, Vec<char>) {
    let (mut plain, mut kinds) = (String::with_capacity(text.len()), Vec::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = match (c, chars.peek()) {
            ('\\', Some('n')) => Some(('n', '\n')),
            ('\\', Some('t')) => Some(('t', '\t')),
            ('\\', Some(kind @ ('\'' | '"' | '`' | '\\' | '$'))) => Some((*kind, *kind)),
            _ => None,
        };
        match escaped {
            Some((kind, meant)) => {
                chars.next();
                plain.push(meant);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            None => plain.push(c),
        }
    }
    (plain, kinds)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::{prop_assert, prop_assume, proptest};

    use super::*;

    fn one(text: &str, old: &str) -> (Option<Strategy>, Vec<String>) {
        match find(text, old, Wanted::One, EditAnchors::Off) {
            Search::Nothing => (None, Vec::new()),
            Search::Found(strategy, places) | Search::Several(strategy, places) => {
                (Some(strategy), places.iter().map(|p| text[p.range.clone()].to_owned()).collect())
            }
        }
    }

    #[test]
    fn each_strategy_finds_what_it_is_for() {
        let cases: &[(&str, &str, Strategy, &str)] = &[
            ("a b c", "b", Strategy::Simple, "b"),
            (
                "\tif x {\n\t\ty()\n\t}\n",
                "    if x {\n        y()\n    }",
                Strategy::LineTrimmed,
                "\tif x {\n\t\ty()\n\t}",
            ),
            ("let  a =  1;\nrest\n", "let a = 1;\nrest", Strategy::WhitespaceNormalised, "let  a =  1;\nrest"),
            ("f(g(a,\tb), c)\n", "g(a,  b)", Strategy::WhitespaceNormalised, "g(a,\tb)"),
            ("say(\"hi\");\n", "say(\\\"hi\\\");", Strategy::EscapeNormalised, "say(\"hi\");"),
            ("x = call(1);\n", " call(1) ", Strategy::TrimmedBoundary, "call(1)"),
        ];
        for (text, old, strategy, place) in cases {
            assert_eq!(one(text, old), (Some(*strategy), vec![(*place).to_owned()]), "{old:?} in {text:?}");
        }
    }

    #[test]
    fn whole_lines_are_matched_with_their_end_if_it_was_quoted() {
        assert_eq!(one("x\n  a  \ny\n", "\ta\n"), (Some(Strategy::LineTrimmed), vec!["  a  \n".into()]));
        assert_eq!(one("x\n  a  ", "\ta\n"), (Some(Strategy::LineTrimmed), vec!["  a  ".into()]));
    }

    #[test]
    fn several_places_are_all_reported() {
        assert_eq!(one("aaa", "aa"), (Some(Strategy::Simple), vec!["aa".into(), "aa".into()]));
        let text = "\tf();\nx\n\t\tf();\n";
        assert!(
            matches!(find(text, "  f();", Wanted::One, EditAnchors::Off), Search::Several(Strategy::LineTrimmed, p) if p.len() == 2)
        );
    }

    #[test]
    fn the_same_relative_indentation_decides_between_blocks() {
        let text = "  if x\n  y\nif x\n    y\n";
        assert_eq!(one(text, "\tif x\n\t    y"), (Some(Strategy::IndentationFlexible), vec!["if x\n    y".into()]));
    }

    #[test]
    fn all_places_are_found_without_overlap() {
        let all = |text, old| match find(text, old, Wanted::All, EditAnchors::Off) {
            Search::Found(strategy, places) => (strategy, places.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(all("aaaaa", "aa"), (Strategy::MultiOccurrence, 2));
        assert_eq!(all("\ta\n\ta\n\ta\n", " a\n a"), (Strategy::LineTrimmed, 1));
    }

    #[test]
    fn blank_text_and_parts_of_words_are_not_guessed() {
        assert_eq!(one("a\n\n\nb\n", "   ").0, None);
        assert_eq!(one("xyz", " y ").0, None);
        assert_eq!(one("prefix_a b", "x_a  b").0, None);
    }

    #[test]
    fn first_and_last_line_alone_justify_nothing() {
        let text = "fn a() {\n    one();\n    two();\n}\nfn b() {\n    three();\n}\n";
        let old = "fn a() {\n    alpha();\n    beta();\n    gamma();\n}";
        for may_guess in [EditAnchors::Off, EditAnchors::Similar] {
            assert_eq!(find(text, old, Wanted::One, may_guess), Search::Nothing);
        }
    }

    #[test]
    fn many_equal_lines_take_linear_time() {
        let text = "  x\n".repeat(200_000);
        let old = format!("{}y", "x\n".repeat(20_000));
        assert_eq!(one(&text, &old).0, None);
    }

    proptest! {
        #[test]
        fn places_are_in_order_within_the_text_and_on_characters(
            text in "((  |\t)?(a|b|é|\"| )*\n){0,8}",
            old in "((  |\t)?(a|b|é|\\\\\"| )*\n?){1,3}",
        ) {
            prop_assume!(!old.is_empty());
            for wanted in [Wanted::One, Wanted::All] {
                for may_guess in [EditAnchors::Off, EditAnchors::Similar] {
                    if let Search::Found(_, places) | Search::Several(_, places) = find(&text, &old, wanted, may_guess) {
                        prop_assert!(!places.is_empty());
                        for place in &places {
                            prop_assert!(text.get(place.range.clone()).is_some());
                        }
                        prop_assert!(places.windows(2).all(|p| p[0].range.start < p[1].range.start));
                        if wanted == Wanted::All {
                            prop_assert!(places.windows(2).all(|p| p[0].range.end <= p[1].range.start));
                        }
                    }
                }
            }
        }
    }
}
