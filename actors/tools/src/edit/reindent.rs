//! Fits the new text to a place that is not exactly the old text: what the file has there wins wherever the model
//! did not mean to change it.
//!
//! Lines that the model left alone keep their bytes. A changed line keeps its words and gets the file's indentation,
//! worked out from how the old lines' indentation and the file's correspond. Where that is not certain the answer is
//! [`Unclear`]: a call more is better than code that moved.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::strategies::{Block, Fit, Place, unescaped};

/// The place is known, but not how the new text must look there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclear {
    /// Indentation that the old text doesn't have.
    Indentation,
    /// Spaces around the old text that the new text doesn't have.
    Surroundings,
    /// Escapes that the old text doesn't have.
    Escapes,
}

/// Returns what replaces `place` in `text`, given that the model wants `old` to become `new`.
pub(crate) fn fitted(text: &str, place: &Place, old: &str, new: &str) -> Result<String, Unclear> {
    match &place.fit {
        Fit::Exact => Ok(new.to_owned()),
        Fit::Lines(pairs) => lines(text.get(place.range.clone()).unwrap_or_default(), pairs, old, new),
        Fit::Within => within(old, new),
        Fit::Unescaped => {
            let (plain, kinds) = unescaped(new);
            let (_, known) = unescaped(old);
            // An escape of another kind may be meant as it stands.
            if kinds.iter().all(|kind| known.contains(kind)) { Ok(plain) } else { Err(Unclear::Escapes) }
        }
    }
}

fn within(old: &str, new: &str) -> Result<String, Unclear> {
    if new.is_empty() {
        return Ok(String::new());
    }
    let core = old.trim();
    let lead = old.len() - old.trim_start().len();
    let (lead, trail) = (old.get(..lead).unwrap_or_default(), old.get(lead + core.len()..).unwrap_or_default());
    let inner = new.strip_prefix(lead).and_then(|rest| rest.strip_suffix(trail));
    inner.map(str::to_owned).ok_or(Unclear::Surroundings)
}

fn lines(here: &str, pairs: &[Option<usize>], old: &str, new: &str) -> Result<String, Unclear> {
    let block = Block::of(old);
    let here_ends = here.ends_with('\n');
    let here: Vec<&str> = here.strip_suffix('\n').filter(|_| block.has_end).unwrap_or(here).split('\n').collect();
    if new.is_empty() && block.has_end {
        return Ok(String::new());
    }
    let new_ends = block.has_end && new.ends_with('\n');
    let new: Vec<&str> = new.strip_suffix('\n').filter(|_| new_ends).unwrap_or(new).split('\n').collect();
    let pair = |at: usize| -> Option<(&str, &str)> { Some((*block.lines.get(at)?, *here.get((*pairs.get(at)?)?)?)) };
    let indentation = Indentation::of((0..block.lines.len()).filter_map(pair), &new);
    let mut fitted = Vec::with_capacity(new.len());
    for op in capture_diff_slices(Algorithm::Myers, &block.lines, &new) {
        for (step, at) in op.new_range().enumerate() {
            let line = new.get(at).copied().unwrap_or_default();
            // The old line in its stead: the same one, or the one it replaces where as many come as go.
            let counterpart = match op {
                DiffOp::Equal { old_index, .. } => pair(old_index + step),
                DiffOp::Replace { old_index, old_len, new_len, .. } if old_len == new_len => pair(old_index + step),
                _ => None,
            };
            fitted.push(match counterpart {
                Some((old, here)) if old == line && old.trim() == here.trim() => here.to_owned(),
                // Only spaces within the line differ.
                Some((old, here)) if old == line && same_words(old, here) => here.to_owned(),
                Some((old, here))
                    if indent(old) == indent(line) && !line.trim().is_empty() && !here.trim().is_empty() =>
                {
                    format!("{}{}", indent(here), line.get(indent(line).len()..).unwrap_or_default())
                }
                _ => indentation.fit(line)?,
            });
        }
    }
    let mut text = fitted.join("\n");
    // At the end of a file without a last line end there is none to replace, so none comes back.
    if new_ends && here_ends {
        text.push('\n');
    }
    Ok(text)
}

fn same_words(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn indent(line: &str) -> &str {
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
}

/// How the old text's indentation and the file's correspond.
struct Indentation<'a> {
    /// Each of the old text's once, shortest first, with the file's; none where the file has several for it.
    known: Vec<(&'a str, Option<&'a str>)>,
    /// What one step of the old text's is in the file, where they count differently.
    step: Option<(usize, String)>,
}

impl<'a> Indentation<'a> {
    fn of(pairs: impl Iterator<Item = (&'a str, &'a str)>, new: &[&str]) -> Self {
        let mut known: Vec<(&str, Option<&str>)> = Vec::new();
        for (old, here) in pairs.filter(|(old, here)| !old.trim().is_empty() && !here.trim().is_empty()) {
            let (old, here) = (indent(old), indent(here));
            match known.iter_mut().find(|(known, _)| *known == old) {
                Some((_, same)) if *same == Some(here) => {}
                Some((_, other)) => *other = None,
                None => known.push((old, Some(here))),
            }
        }
        known.sort_by_key(|(old, _)| old.len());
        let step = step(&known, new);
        Self { known, step }
    }

    fn fit(&self, line: &str) -> Result<String, Unclear> {
        if line.trim().is_empty() {
            return Ok(line.to_owned());
        }
        let (own, words) = line.split_at_checked(indent(line).len()).unwrap_or(("", line));
        let here = self.find(own).ok_or(Unclear::Indentation)?;
        Ok(format!("{here}{words}"))
    }

    /// Returns the file's indentation for one of the new text.
    fn find(&self, own: &str) -> Option<String> {
        // The model's indentation is the file's: nothing to convert.
        if self.known.iter().all(|(old, here)| Some(*old) == *here) {
            return Some(own.to_owned());
        }
        let deeper = self.known.iter().rev().find_map(|(old, here)| Some((own.strip_prefix(old)?, *here)));
        match deeper {
            Some((more, here)) => Some(format!("{}{}", here?, self.converted(more))),
            None => {
                // Less than the old text ever has: as much less in the file.
                let (old, here) = self.known.first()?;
                let less = self.converted(old.strip_prefix(own)?);
                (*here)?.strip_suffix(&*less).map(str::to_owned)
            }
        }
    }

    fn converted(&self, more: &str) -> String {
        match &self.step {
            Some((width, here)) if *width > 0 => {
                let rest = more.len() % width;
                let mut text = here.repeat(more.len() / width);
                text.push_str(more.get(more.len() - rest..).unwrap_or_default());
                text
            }
            _ => more.to_owned(),
        }
    }
}

/// Returns how many bytes of the old text's indentation are which indentation of the file.
fn step(known: &[(&str, Option<&str>)], new: &[&str]) -> Option<(usize, String)> {
    let sure: Vec<(&str, &str)> = known.iter().filter_map(|(old, here)| Some((*old, (*here)?))).collect();
    let differs_in_kind = |(old, here): &(&str, &str)| kind(old) != kind(here) && !here.is_empty();
    // Two depths tell most: what the deeper one has more, here and there.
    for pair in sure.windows(2) {
        let [(old_a, here_a), (old_b, here_b)] = pair else { continue };
        match (old_b.strip_prefix(old_a), here_b.strip_prefix(here_a)) {
            (Some(old), Some(here)) if !old.is_empty() && !here.is_empty() => return Some(reduced(old.len(), here)),
            _ => {}
        }
    }
    let (old, here) = sure.iter().copied().find(|pair| differs_in_kind(pair))?;
    if !old.is_empty() {
        return Some(reduced(old.len(), here));
    }
    // The old text has no indentation at all and the file has tabs: the new text's smallest step is one.
    if kind(here) != Some('\t') {
        return None;
    }
    let smallest = new.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line));
    smallest.filter(|i| i.starts_with(' ')).map(str::len).min().map(|width| (width, "\t".to_owned()))
}

/// Returns `old` bytes for `here` in lowest terms: 8 for two tabs is 4 for one.
fn reduced(old: usize, here: &str) -> (usize, String) {
    if here.chars().any(|c| Some(c) != kind(here)) {
        return (old, here.to_owned());
    }
    let (mut a, mut b) = (old, here.len());
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (old / a.max(1), here.get(..here.len() / a.max(1)).unwrap_or(here).to_owned())
}

fn kind(indentation: &str) -> Option<char> {
    indentation.chars().next()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::config::EditAnchors;

    use super::super::strategies::{Search, Wanted, find};
    use super::*;

    fn edit(text: &str, old: &str, new: &str) -> Result<String, Unclear> {
        let Search::Found(_, places) = find(text, old, Wanted::One, EditAnchors::Off) else { panic!("not found") };
        let mut text = text.to_owned();
        let new = fitted(&text, &places[0], old, new)?;
        text.replace_range(places[0].range.clone(), &new);
        Ok(text)
    }

    #[test]
    fn missing_indentation_is_the_files() {
        let text = "class A:\n    def f(self):\n        x = 1\n        return x\n";
        let want = "class A:\n    def f(self):\n        y = 2\n        return y\n";
        assert_eq!(edit(text, "x = 1\nreturn x", "y = 2\nreturn y").unwrap(), want);
        let deeper = edit(text, "x = 1\nreturn x", "if x:\n    y = 2\nreturn y").unwrap();
        assert_eq!(deeper, "class A:\n    def f(self):\n        if x:\n            y = 2\n        return y\n");
    }

    #[test]
    fn tabs_stay_tabs() {
        let text = "func f() {\n\tif x {\n\t\ty()\n\t}\n}\n";
        let old = "    if x {\n        y()\n    }";
        assert_eq!(edit(text, old, &old.replace("y()", "z()")).unwrap(), text.replace("y()", "z()"));
        let more = "    if x {\n        for {\n            y()\n        }\n    }";
        let want = "func f() {\n\tif x {\n\t\tfor {\n\t\t\ty()\n\t\t}\n\t}\n}\n";
        assert_eq!(edit(text, old, more).unwrap(), want);
    }

    #[test]
    fn steps_of_another_width_are_converted() {
        let text = "    if x\n        y\n    end\n";
        let old = "  if x\n    y\n  end";
        let new = "  if x\n    if z\n      y\n    end\n  end";
        let want = "    if x\n        if z\n            y\n        end\n    end\n";
        assert_eq!(edit(text, old, new).unwrap(), want);
    }

    #[test]
    fn lines_left_alone_keep_their_bytes() {
        let text = "\tkeep  \n\told\t\n\ttail\n";
        assert_eq!(
            edit(text, "  keep\n  old\n  tail\n", "  keep\n  new\n  tail\n").unwrap(),
            "\tkeep  \n\tnew\n\ttail\n"
        );
        let aligned = "a    = 1;\nbb   = 2;\n";
        assert_eq!(edit(aligned, "a = 1;\nbb = 2;", "a = 1;\nbb = 3;").unwrap(), "a    = 1;\nbb = 3;\n");
    }

    #[test]
    fn uncertain_indentation_is_not_guessed() {
        let text = "    if x:\n        return x\n";
        // Both old lines have none, the file has two depths, and the new line stands for neither.
        assert_eq!(edit(text, "if x:\nreturn x", "if x:\nlog()\nreturn x"), Err(Unclear::Indentation));
        assert_eq!(edit(text, "if x:\nreturn x", "if x:\nreturn y").unwrap(), "    if x:\n        return y\n");
    }

    #[test]
    fn whole_lines_can_go_with_their_ends() {
        let text = "a\n\tb();\nc\n";
        assert_eq!(edit(text, "  b();\n", "").unwrap(), "a\nc\n");
        assert_eq!(edit(text, "  b();\n", "  d();\n").unwrap(), "a\n\td();\nc\n");
        assert_eq!(edit("a\n\tb();", "  b();\n", "  d();\n").unwrap(), "a\n\td();");
    }

    #[test]
    fn spaces_around_the_old_text_must_be_around_the_new() {
        let text = "x = call(1);\n";
        assert_eq!(edit(text, " call(1) ", " call(2) ").unwrap(), "x = call(2);\n");
        assert_eq!(edit(text, " call(1) ", "call(2)"), Err(Unclear::Surroundings));
    }

    #[test]
    fn escapes_are_taken_from_the_new_text_only_as_from_the_old() {
        let text = "say(\"hi\");\n";
        assert_eq!(edit(text, "say(\\\"hi\\\");", "say(\\\"ho\\\");").unwrap(), "say(\"ho\");\n");
        assert_eq!(edit(text, "say(\\\"hi\\\");", "say(\\\"a\\n\\\");"), Err(Unclear::Escapes));
    }
}
