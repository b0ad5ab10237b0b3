//! What an edit will change in a text, or why it changes nothing. Pure.

use std::ops::Range;

use protocol::config::EditAnchors;

use super::problem::{Problem, missing, several};
use super::reindent::fitted;
use super::strategies::{Lines, Search, Strategy, Wanted, find};
use crate::text::lines::{Unified, unify};
use crate::text::{Text, without_mark};

/// What the model wants changed.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) wanted: Wanted,
    /// Whether a block may be replaced that is only like the old text.
    pub(crate) may_guess: EditAnchors,
}

/// The places to replace, in order, with what replaces them; places of [`Text::body`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) strategy: Strategy,
    pub(crate) places: Vec<(Range<usize>, String)>,
}

impl Change {
    /// Returns an error when old and new text are the same whatever the file holds.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.old == self.new {
            return Err(Problem::Same);
        }
        if unify(&self.old) == unify(&self.new) {
            return Err(Problem::SameButEnds);
        }
        Ok(())
    }

    /// Returns what this changes in `text`.
    pub(crate) fn plan(&self, text: &Text) -> Result<Plan, Problem> {
        self.check()?;
        let hide_mark = |given: &str| unify(if text.has_mark() { without_mark(given) } else { given }).into_owned();
        let (old, new) = (hide_mark(&self.old), hide_mark(&self.new));
        if old.is_empty() {
            return Err(Problem::Empty);
        }
        let unified = Unified::of(&text.body);
        let (strategy, found) = match find(&unified.text, &old, self.wanted, self.may_guess) {
            Search::Found(strategy, places) => (strategy, places),
            Search::Several(strategy, places) => return Err(several(&unified.text, strategy, &places)),
            Search::Nothing => return Err(missing(&unified.text, &old)),
        };
        let mut places = Vec::with_capacity(found.len());
        for place in &found {
            let new = fitted(&unified.text, place, &old, &new)
                .map_err(|unclear| Problem::unclear(unclear, &Lines::of(&unified.text), &place.range))?;
            if unified.text.get(place.range.clone()) != Some(&*new) {
                places.push((unified.original(&place.range), unified.fit(&place.range, &new).into_owned()));
            }
        }
        match found.first() {
            Some(first) if places.is_empty() => Err(Problem::no_effect(&Lines::of(&unified.text), &first.range)),
            _ => Ok(Plan { strategy, places }),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::diff::{FileDiff, apply};

    fn change(old: &str, new: &str, wanted: Wanted) -> Change {
        Change { old: old.into(), new: new.into(), wanted, may_guess: EditAnchors::Off }
    }

    fn edited(raw: &[u8], old: &str, new: &str) -> Result<Vec<u8>, Problem> {
        let text = Text::decode(raw).unwrap();
        let plan = change(old, new, Wanted::One).plan(&text)?;
        Ok(text.splice(&plan.places).unwrap())
    }

    fn text_of(raw: &str, old: &str, new: &str) -> String {
        String::from_utf8(edited(raw.as_bytes(), old, new).unwrap()).unwrap()
    }

    fn problem(raw: &str, old: &str, new: &str) -> String {
        edited(raw.as_bytes(), old, new).unwrap_err().to_string()
    }

    #[test]
    fn a_file_keeps_its_line_ends_and_its_mark() {
        assert_eq!(text_of("one\r\ntwo\r\nthree\r\n", "one\ntwo", "ONE\nTWO\nX"), "ONE\r\nTWO\r\nX\r\nthree\r\n");
        assert_eq!(text_of("one\ntwo\n", "one\r\ntwo", "1\r\n2"), "1\n2\n");
        assert_eq!(text_of("\u{FEFF}const v = 1;\n", "const v = 1;", "const v = 2;"), "\u{FEFF}const v = 2;\n");
        assert_eq!(text_of("\u{FEFF}a\n", "\u{FEFF}a", "\u{FEFF}b"), "\u{FEFF}b\n");
    }

    #[test]
    fn new_text_is_literal() {
        assert_eq!(text_of("log(\"done\");\n", "log(\"done\");", "log(\"$& ok\");"), "log(\"$& ok\");\n");
        assert_eq!(text_of("// “q”\nx = /x/;\n", "/x/", "/^[\"'(]+/"), "// “q”\nx = /^[\"'(]+/;\n");
    }

    #[test]
    fn what_changes_nothing_is_an_error() {
        assert!(matches!(edited(b"a\r\nb", "a\r\nb", "a\nb"), Err(Problem::SameButEnds)));
        assert!(matches!(edited(b"a", "a", "a"), Err(Problem::Same)));
        assert!(problem("a b\n", "a  b", "a b").contains("nothing"));
    }

    #[test]
    fn only_the_changed_bytes_of_a_legacy_file_change() {
        let raw = b"\xD6\xD0\xCE\xC4\nx=1\n";
        assert_eq!(edited(raw, "x=1", "x=2").unwrap(), b"\xD6\xD0\xCE\xC4\nx=2\n");
    }

    #[test]
    fn the_first_differing_line_is_named_as_it_is_on_disk() {
        let text = "func a() {\n\tx := 1\n\ty := 2\n\treturn\n}\n";
        let said = problem(text, &text.replace("y := 2", "y := 99"), "func a() {\n\treturn\n}");
        assert!(said.contains("not found") && said.contains("line 3") && said.contains("→y := 2`"), "{said}");
    }

    #[test]
    fn several_places_are_named_by_their_lines() {
        let text = "fn u() {\n  open();\n  save();\n}\nfn a() {\n  open();\n  save();\n}\n";
        let said = problem(text, "  open();\n  save();", "  open();\n  check();\n  save();");
        assert!(said.contains("2 places") && said.contains("lines 2 and 6"), "{said}");
    }

    #[test]
    fn several_places_apart_from_spaces_are_shown_as_they_are() {
        let go = "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n";
        let old = "    if x {\n        y()\n    }";
        let said = problem(&format!("{go}{go}"), old, &old.replace("y()", "z()"));
        assert!(said.contains("2 places") && said.contains("`→if x {`"), "{said}");
    }

    #[test]
    fn typographic_quotes_are_named_by_code_point() {
        let said = problem("She said, “Hello.”\n", "\"Hello.\"", "\"Hi.\"");
        assert!(said.contains("not found") && said.contains("U+201C") && said.contains("U+0022"), "{said}");
    }

    #[test]
    fn all_places_are_replaced_where_wanted() {
        let text = Text::decode(b"one\ntwo\r\nthree\n").unwrap();
        let plan = change("e", "E", Wanted::All).plan(&text).unwrap();
        assert_eq!(text.splice(&plan.places).unwrap(), b"onE\ntwo\r\nthrEE\n");
    }

    fn lines() -> impl proptest::strategy::Strategy<Value = String> {
        "(\u{FEFF})?((  |\t|    )?(if x|y|é|z  z|\"|[ \t])?(\n|\r\n)){0,10}(end)?"
    }

    proptest! {
        #[test]
        fn nothing_outside_a_place_changes_and_the_diff_tells_all(
            raw in lines(),
            old in "((  |\t|    )?(if x|y|é|z z|\\\\\"|)(\n|\r\n)?){1,3}",
            new in "((  |\t|    )?(if x|y|w|ü)\n?){0,3}",
            all in any::<bool>(),
        ) {
            let text = Text::decode(raw.as_bytes()).unwrap();
            let wanted = if all { Wanted::All } else { Wanted::One };
            let Ok(plan) = change(&old, &new, wanted).plan(&text) else { return Ok(()) };
            let result = String::from_utf8(text.splice(&plan.places).unwrap()).unwrap();
            prop_assert_eq!(raw.starts_with('\u{FEFF}'), result.starts_with('\u{FEFF}'));
            // Taken apart at the places, old and new file have the same pieces.
            let body = without_mark(&raw);
            let mut rest = without_mark(&result);
            let mut at = 0;
            for (range, new) in &plan.places {
                let kept = &body[at..range.start];
                prop_assert!(rest.starts_with(kept));
                rest = &rest[kept.len()..];
                prop_assert!(rest.starts_with(new.as_str()));
                rest = &rest[new.len()..];
                at = range.end;
            }
            prop_assert_eq!(rest, &body[at..]);
            // Line ends are of the kinds the file had.
            if !raw.contains("\r\n") {
                prop_assert!(!result.contains('\r'));
            } else if !raw.replace("\r\n", "").contains('\n') {
                prop_assert!(!result.replace("\r\n", "").contains('\n'));
            }
            let diff = FileDiff::of("f", body, without_mark(&result));
            prop_assert_eq!(apply(&diff.patch, body), Some(without_mark(&result).to_owned()));
        }
    }
}
