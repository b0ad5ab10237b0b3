//! Unified diffs, in the shape that OpenCode's clients draw.

use std::fmt::Write;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 4;
/// The longest patch in bytes; of a longer one only its counts are given.
const MAX_PATCH: usize = 512 * 1024;
/// How long the smallest diff is looked for; after that a larger one must do.
const TIME: Duration = Duration::from_millis(300);

/// What changed in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// `Index: PATH`, a rule, `--- PATH`, `+++ PATH`, then the hunks. Without hunks when nothing changed.
    pub patch: String,
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
}

impl FileDiff {
    /// Returns the difference of two texts of the file at `path`. A hunk's header always has its lengths
    /// (`@@ -0,0 +1,1 @@`); a last line without its end is followed by `\ No newline at end of file`.
    pub fn of(path: &str, old: &str, new: &str) -> Self {
        let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
        let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
        let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(TIME).diff_slices(&old_lines, &new_lines);
        let mut counted = Self::header(path);
        for op in diff.ops() {
            if op.tag() != similar::DiffTag::Equal {
                counted.deletions += op.old_range().len() as u64;
                counted.additions += op.new_range().len() as u64;
            }
        }
        for group in diff.grouped_ops(CONTEXT) {
            counted.hunk(&diff, &group);
            if counted.patch.len() > MAX_PATCH {
                return counted.without_hunks(path);
            }
        }
        counted
    }

    /// Returns the difference of two contents, marks left out; that of a binary file where one of them is no text.
    pub(crate) fn of_bytes(path: &str, old: &[u8], new: &[u8]) -> Self {
        match (crate::text::shown(old), crate::text::shown(new)) {
            (Some(old), Some(new)) => Self::of(path, &old, &new),
            _ => Self::binary(path),
        }
    }

    /// Returns the entry of a file whose content can't be shown as lines.
    pub fn binary(path: &str) -> Self {
        let mut entry = Self::header(path);
        entry.patch.push_str("\\ This is a binary file; its content is not shown\n");
        entry
    }

    fn header(path: &str) -> Self {
        Self { patch: format!("Index: {path}\n{}\n--- {path}\n+++ {path}\n", "=".repeat(67)), ..Self::default() }
    }

    fn without_hunks(self, path: &str) -> Self {
        let mut entry = Self { patch: Self::header(path).patch, ..self };
        let _ = writeln!(
            entry.patch,
            "\\ Too long to be shown: {} lines added, {} removed",
            entry.additions, entry.deletions
        );
        entry
    }

    fn hunk(&mut self, diff: &TextDiff<'_, '_, str>, group: &[DiffOp]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        // An empty side is named by the line before it.
        let start = |range: &std::ops::Range<usize>| if range.is_empty() { range.start } else { range.start + 1 };
        let patch = &mut self.patch;
        let _ = writeln!(patch, "@@ -{},{} +{},{} @@", start(&old), old.len(), start(&new), new.len());
        for op in group {
            for change in diff.iter_changes(op) {
                patch.push(match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                });
                patch.push_str(change.value());
                if !change.value().ends_with('\n') {
                    patch.push_str("\n\\ No newline at end of file\n");
                }
            }
        }
    }
}

/// Returns `old` with a patch of [`FileDiff::of`] applied; none when it doesn't fit.
#[cfg(test)]
pub(crate) fn apply(patch: &str, old: &str) -> Option<String> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let mut new = String::new();
    let mut at = 0;
    let lines: Vec<&str> = patch.split_inclusive('\n').skip(4).collect();
    for (index, line) in lines.iter().enumerate() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (start, rest) = header.split_once(',')?;
            let length: usize = rest.split(' ').next()?.parse().ok()?;
            let start: usize = start.parse().ok()?;
            let start = if length == 0 { start } else { start - 1 };
            new.extend(old.get(at..start)?.iter().copied());
            at = start;
            continue;
        }
        if line.starts_with('\\') {
            continue;
        }
        let has_end = !lines.get(index + 1).is_some_and(|next| next.starts_with("\\ No newline"));
        let text = if has_end { &line[1..] } else { line[1..].strip_suffix('\n')? };
        if !line.starts_with('+') {
            if *old.get(at)? != text {
                return None;
            }
            at += 1;
        }
        if !line.starts_with('-') {
            new.push_str(text);
        }
    }
    new.extend(old.get(at..)?.iter().copied());
    Some(new)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn hunks(old: &str, new: &str) -> String {
        let patch = FileDiff::of("/p/e.txt", old, new).patch;
        let header = format!("Index: /p/e.txt\n{}\n--- /p/e.txt\n+++ /p/e.txt\n", "=".repeat(67));
        patch.strip_prefix(&header).unwrap().to_owned()
    }

    #[test]
    fn hunks_look_as_on_the_wire() {
        assert_eq!(hunks("one\ntwo\nthree\n", "one\nTWO\nthree\n"), "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n");
        assert_eq!(hunks("", "fresh\n"), "@@ -0,0 +1,1 @@\n+fresh\n");
        assert_eq!(hunks("gone\n", ""), "@@ -1,1 +0,0 @@\n-gone\n");
        assert_eq!(hunks("same\n", "same\n"), "");
    }

    #[test]
    fn a_missing_last_line_end_is_marked() {
        let mark = "\\ No newline at end of file\n";
        assert_eq!(hunks("a", "b\n"), format!("@@ -1,1 +1,1 @@\n-a\n{mark}+b\n"));
        assert_eq!(hunks("x\na", "y\na"), format!("@@ -1,2 +1,2 @@\n-x\n+y\n a\n{mark}"));
    }

    #[test]
    fn counts_are_of_lines() {
        let diff = FileDiff::of("f", "one\nTWO\nthree\n", "onE\nTWO\nthrEE\nx\n");
        assert_eq!((diff.additions, diff.deletions), (3, 2));
    }

    #[test]
    fn two_huge_files_without_anything_in_common_take_no_minute() {
        let text = |prefix: &str| (0..40_000).map(|n| format!("{prefix}{}\n", n * 7919 % 100_003)).collect::<String>();
        let began = Instant::now();
        let diff = FileDiff::of("f", &text("a"), &text("b"));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!((diff.additions, diff.deletions), (40_000, 40_000));
        assert!(diff.patch.len() < 1000 && diff.patch.contains("40000 lines added"));
    }

    proptest! {
        #[test]
        fn a_patch_applied_to_the_old_gives_the_new(
            old in "((a|b|c|\r|)\n){0,20}(a|b)?",
            new in "((a|b|c|\r|)\n){0,20}(a|b)?",
        ) {
            let diff = FileDiff::of("f", &old, &new);
            prop_assert_eq!(apply(&diff.patch, &old), Some(new));
        }
    }
}
