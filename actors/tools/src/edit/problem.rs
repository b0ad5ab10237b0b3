//! Why an edit changes nothing, in words that let the model do better with its next call.

use std::ops::Range;

use super::anchors::{Near, nearest};
use super::reindent::Unclear;
use super::strategies::{Block, Lines, MAX_COUNTED, Place, Strategy};
use crate::text::{fold, is_stray};

/// Most places shown in one error, and most lines of each.
const MAX_SHOWN: usize = 3;
/// The longest line shown, in characters.
const MAX_LINE: usize = 200;

/// Why an edit changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// Nothing is asked for.
    #[error("oldString and newString are the same, so there is nothing to change.")]
    Same,
    /// Nothing is asked for that a file shows.
    #[error(
        "oldString and newString are the same once line ends are normalised, so there is nothing to change. \
         An edit keeps the line ends the file has."
    )]
    SameButEnds,
    /// There is no old text.
    #[error(
        "oldString is empty, but the file exists. Quote the text that is to be replaced, \
         or use the write tool to replace the whole file."
    )]
    Empty,
    /// It is nowhere.
    #[error("oldString was not found in the file.{hint}")]
    Missing {
        /// What comes nearest, and how it differs.
        hint: String,
    },
    /// It is in several places.
    #[error(
        "oldString {} {count} places in the file, at {lines}. Quote more of the lines around the one you mean, \
         or set replaceAll to change all of them.{shown}",
        if *is_exact { "is in" } else { "is, apart from whitespace, in" }
    )]
    Several {
        /// Whether each is the very text.
        is_exact: bool,
        /// `2`, `100 or more`.
        count: String,
        /// `lines 2 and 6`.
        lines: String,
        /// What is there, where it isn't the very text.
        shown: String,
    },
    /// It is there, but what the new text would be there is not certain.
    #[error("oldString was not found in the file as it is quoted, only {like}. {why}{shown}")]
    Unclear {
        /// What differs, and where.
        like: String,
        /// What is not certain.
        why: &'static str,
        /// What is there.
        shown: String,
    },
}

impl Problem {
    pub(crate) fn unclear(unclear: Unclear, lines: &Lines<'_>, range: &Range<usize>) -> Self {
        let at = lines.number(range.start);
        let (what, why) = match unclear {
            Unclear::Indentation => (
                "with other indentation",
                "How newString would have to be indented there is not clear. Quote the lines as they are.",
            ),
            Unclear::Surroundings => (
                "without the whitespace around it",
                "newString does not have the same whitespace around it. Quote the text as it is.",
            ),
            Unclear::Escapes => (
                "with one level of escapes less",
                "newString has escapes of which it is not clear whether they are meant. Write both without extra \
                 backslashes.",
            ),
        };
        Self::Unclear { like: format!("{what}, at line {at}"), why, shown: shown(lines, std::slice::from_ref(range)) }
    }

    pub(crate) fn no_effect(lines: &Lines<'_>, range: &Range<usize>) -> Self {
        Self::Unclear {
            like: format!("with other whitespace, at line {}", lines.number(range.start)),
            why: "With the whitespace that is there, newString would change nothing. To change whitespace, quote the \
                  text exactly.",
            shown: shown(lines, std::slice::from_ref(range)),
        }
    }
}

pub(crate) fn several(text: &str, strategy: Strategy, places: &[Place]) -> Problem {
    let lines = Lines::of(text);
    let mut numbers: Vec<usize> = places.iter().map(|place| lines.number(place.range.start)).collect();
    numbers.dedup();
    let is_exact = strategy == Strategy::Simple;
    let ranges: Vec<_> = places.iter().map(|place| place.range.clone()).collect();
    Problem::Several {
        is_exact,
        count: if places.len() < MAX_COUNTED { places.len().to_string() } else { format!("{MAX_COUNTED} or more") },
        lines: list(&numbers),
        shown: if is_exact { String::new() } else { shown(&lines, &ranges) },
    }
}

pub(crate) fn missing(text: &str, old: &str) -> Problem {
    let mut hint = String::new();
    if let Some(differences) = typography(text, old) {
        hint = format!(" {differences}");
    } else if old.contains(char::REPLACEMENT_CHARACTER) {
        hint = " It holds U+FFFD, which stands for bytes of the file that can't be shown: quote only text around them."
            .into();
    } else if let Some(near) = nearest(&Lines::of(text), &Block::of(old)) {
        hint = near.told();
    }
    Problem::Missing { hint }
}

impl Near {
    fn told(&self) -> String {
        let place = match (self.first, self.last) {
            (first, last) if first >= last => format!("line {first}"),
            (first, last) => format!("lines {first} to {last}"),
        };
        let here = match &self.here {
            Some(here) => format!("has {}", visible(here)),
            None => "has no line any more".into(),
        };
        format!(
            " The nearest place is {place}. It differs first at line {}: the file {here}, oldString has {}. \
             (→ is a tab, · a space.){} Quote the text as it is in the file; read it again if in doubt.",
            self.differs,
            visible(&self.old),
            self.here.as_deref().and_then(|here| code_points(here, &self.old)).unwrap_or_default()
        )
    }
}

/// Names the characters at which two lines differ first, where they may look alike: `ü` can be written in two ways.
fn code_points(here: &str, old: &str) -> Option<String> {
    let at = here.chars().zip(old.chars()).take_while(|(here, old)| here == old).count();
    let (here, old): (Vec<char>, Vec<char>) =
        (here.chars().skip(at).take(2).collect(), old.chars().skip(at).take(2).collect());
    if here.iter().chain(&old).all(char::is_ascii) {
        return None;
    }
    let named = |chars: &[char]| match chars {
        [] => "nothing".to_owned(),
        _ => chars.iter().map(|c| format!("U+{:04X}", u32::from(*c))).collect::<Vec<_>>().join(" "),
    };
    Some(format!(" Where they differ first the file has {}, oldString {}.", named(&here), named(&old)))
}

/// Returns `line 2`, `lines 2 and 6`, `lines 1, 2, 3 and more`.
fn list(numbers: &[usize]) -> String {
    let few: Vec<String> = numbers.iter().take(10).map(usize::to_string).collect();
    match &*few {
        [one] => format!("line {one}"),
        [rest @ .., last] if few.len() == numbers.len() => format!("lines {} and {last}", rest.join(", ")),
        _ => format!("lines {} and more", few.join(", ")),
    }
}

/// Returns what is at some places, with its whitespace made visible.
fn shown(lines: &Lines<'_>, places: &[Range<usize>]) -> String {
    let mut text = String::from("\nIn the file (→ is a tab, · a space):");
    for place in places.iter().take(MAX_SHOWN) {
        let first = lines.number(place.start);
        let last = lines.number(place.end.saturating_sub(1).max(place.start));
        for number in first..=last.min(first + MAX_SHOWN - 1) {
            let line = lines.lines.get(number - 1).copied().unwrap_or_default();
            text.push_str(&format!("\n  line {number}: {}", visible(line)));
        }
    }
    text
}

/// Returns a line with tabs, and spaces at its ends, made visible.
fn visible(line: &str) -> String {
    let inner = line.trim_matches([' ', '\t']);
    let lead = line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut text = String::from("`");
    for (at, c) in line.char_indices().take(MAX_LINE) {
        let is_outside = at < lead || at >= lead + inner.len();
        text.push(match c {
            '\t' => '→',
            ' ' if is_outside => '·',
            '\r' => '␍',
            _ if is_stray(c) => char::REPLACEMENT_CHARACTER,
            _ => c,
        });
    }
    if line.chars().nth(MAX_LINE).is_some() {
        text.push('…');
    }
    text.push('`');
    text
}

/// Returns how the old text differs from the file in nothing but typographic characters, if so.
fn typography(text: &str, old: &str) -> Option<String> {
    let plain: String = text.chars().map(fold).collect();
    let at = plain.find(&old.chars().map(fold).collect::<String>())?;
    let before = plain.get(..at)?;
    let line = before.matches('\n').count() + 1;
    let here = text.chars().skip(before.chars().count());
    let mut differences: Vec<String> = Vec::new();
    for (here, old) in here.zip(old.chars()).filter(|(here, old)| here != old) {
        let difference =
            format!("U+{:04X} ({here}) where oldString has U+{:04X} ({old})", u32::from(here), u32::from(old));
        if !differences.contains(&difference) {
            differences.push(difference);
        }
    }
    differences.truncate(5);
    if differences.is_empty() {
        return None;
    }
    Some(format!("At line {line} the file has {}. Quote the characters that are in the file.", differences.join(", ")))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn whitespace_is_made_visible_where_it_hides() {
        assert_eq!(visible("\t  a b\tc "), "`→··a b→c·`");
        assert!(visible(&"x".repeat(500)).ends_with("x…`"));
    }

    #[test]
    fn lines_are_listed() {
        assert_eq!(list(&[3]), "line 3");
        assert_eq!(list(&[2, 6]), "lines 2 and 6");
        assert_eq!(list(&(1..=12).collect::<Vec<_>>()), "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more");
    }

    #[test]
    fn spaces_that_do_not_break_are_named() {
        let said = typography("x\na\u{A0}b\n", "a b").unwrap();
        assert!(said.contains("line 2") && said.contains("U+00A0") && said.contains("U+0020"), "{said}");
        assert_eq!(typography("a b", "c"), None);
    }
}
