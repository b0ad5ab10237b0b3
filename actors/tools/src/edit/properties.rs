//! Properties of whole edits: by whichever of the nine strategies a place is found, nothing outside of it changes, the
//! file keeps its mark, its line ends and its mode, and the diff that is reported makes the new file of the old one.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::config::{Config, EditAnchors};
use serde_json::Value;

use super::plan::Change;
use super::strategies::Strategy as How;
use super::*;
use crate::context::Place;
use crate::diff::apply;
use crate::testing::context;
use crate::text::without_mark;
use crate::tool::AnyTool;

/// What lines are made of; several times the same, so that places may be ambiguous.
const WORDS: &[&str] = &[
    "begin",
    "let alpha = call(\"one\", 1);",
    "let beta = call(\"two\",  2);",
    "é = \"quoted\" + 'text';",
    "return alpha  +  beta",
    "",
    "}",
    "if (x) { y(\"$1\") }",
    "same",
    "same",
];

/// A file, and an edit of a part of it that was quoted in some wrong way.
#[derive(Clone, Debug)]
struct Case {
    raw: String,
    old: String,
    new: String,
    wanted: Wanted,
}

fn lines() -> impl Strategy<Value = Vec<String>> {
    let line = ("(  |\t|    |\t\t|)", 0..WORDS.len()).prop_map(|(indent, word)| format!("{indent}{}", WORDS[word]));
    prop::collection::vec(line, 1..12)
}

/// Ways to quote lines wrongly.
fn misquoted(lines: &[String], how: usize) -> String {
    let each = |change: &dyn Fn(&str) -> String| lines.iter().map(|line| change(line)).collect::<Vec<_>>().join("\n");
    let whole = lines.join("\n");
    match how {
        0 => whole,
        1 => each(&|line| line.trim().to_owned()),
        2 => each(&|line| format!("      {line}")),
        3 => each(&|line| line.split_whitespace().collect::<Vec<_>>().join("   ")),
        4 => whole.replace('"', "\\\"").replace('$', "\\$"),
        5 => format!("\n  {} \n", lines.first().and_then(|line| line.split_whitespace().last()).unwrap_or_default()),
        6 => whole.chars().skip(3).take(14).collect(),
        7 => whole.chars().skip(2).take(12).collect::<String>().split_whitespace().collect::<Vec<_>>().join("  "),
        // The middle is another: only the guessing strategies take that.
        8 => each(&|line| line.replace("alpha", "alphb")),
        9 => each(&|line| if line.contains("return") { "zzzzzzzz".to_owned() } else { line.to_owned() }),
        _ => format!("{whole}\n"),
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let file = (lines(), "(\n|\r\n)", any::<bool>(), any::<bool>(), 0..4_usize);
    let edit = (any::<prop::sample::Index>(), 1..6_usize, 0..11_usize, lines(), any::<bool>(), any::<bool>());
    (file, edit).prop_map(|((lines, end, has_mark, has_end, mixed), (at, count, how, new, all, derived))| {
        let ends = |n: usize| if mixed == 0 && n % 3 == 1 { "\n" } else { &end };
        let mut raw = String::from(if has_mark { "\u{FEFF}" } else { "" });
        for (n, line) in lines.iter().enumerate() {
            raw.push_str(line);
            if n + 1 < lines.len() || has_end {
                raw.push_str(ends(n));
            }
        }
        let at = at.index(lines.len());
        let quoted = &lines[at..lines.len().min(at + count)];
        let wanted = if all { Wanted::All } else { Wanted::One };
        let old = misquoted(quoted, how);
        // A whole other text, or the old one with a word more at its end.
        let new = match derived {
            true => format!("{} more{}", old.trim_end(), &old[old.trim_end().len()..]),
            false => new.join("\n"),
        };
        Case { raw, old, new, wanted }
    })
}

/// Plans a case and checks what comes of it; returns how it was found.
fn checked(case: &Case, may_guess: EditAnchors) -> Option<How> {
    let Case { raw, old, new, wanted } = case;
    let text = Text::decode(raw.as_bytes()).unwrap();
    let change = Change { old: old.clone(), new: new.clone(), wanted: *wanted, may_guess };
    let plan = change.plan(&text).ok()?;
    let result = String::from_utf8(text.splice(&plan.places).unwrap()).unwrap();
    assert_eq!(raw.starts_with('\u{FEFF}'), result.starts_with('\u{FEFF}'));
    let (before, after) = (without_mark(raw), without_mark(&result));
    // Taken apart at the places, old and new file have the same pieces.
    let (mut rest, mut at) = (after, 0);
    for (range, put) in &plan.places {
        rest = rest.strip_prefix(&before[at..range.start]).and_then(|rest| rest.strip_prefix(&**put)).unwrap();
        at = range.end;
    }
    assert_eq!(rest, &before[at..]);
    assert!(*wanted == Wanted::All || plan.places.len() == 1);
    let bare = |text: &str| text.replace("\r\n", "");
    assert!(before.contains("\r\n") || !after.contains('\r'), "{case:?}");
    assert!(!before.contains("\r\n") || bare(before).contains('\n') || !bare(after).contains('\n'), "{case:?}");
    let diff = FileDiff::of("f", before, after);
    assert_eq!(apply(&diff.patch, before).as_deref(), Some(after));
    Some(plan.strategy)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_outside_a_place_changes_however_it_was_found(case in cases()) {
        checked(&case, EditAnchors::Off);
        checked(&case, EditAnchors::Similar);
    }
}

#[test]
fn the_cases_reach_all_nine_strategies_and_guesses_only_where_config_allows_them() {
    let mut runner = TestRunner::deterministic();
    let (mut found, mut guessed) = (HashSet::new(), HashSet::new());
    for _ in 0..2000 {
        let case = cases().new_tree(&mut runner).unwrap().current();
        found.extend(checked(&case, EditAnchors::Off).map(|how| format!("{how:?}")));
        guessed.extend(checked(&case, EditAnchors::Similar).map(|how| format!("{how:?}")));
    }
    let mut only_guessed: Vec<_> = guessed.difference(&found).cloned().collect();
    only_guessed.sort();
    assert_eq!(only_guessed, ["BlockAnchor", "ContextAware"]);
    assert_eq!(guessed.len(), 9, "{guessed:?}");
}

#[test]
fn what_the_tool_reports_is_what_is_on_disk() {
    let mut runner = TestRunner::deterministic();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut edits = 0;
    for (number, mode) in [0o644, 0o600, 0o755, 0o640, 0o444 | 0o200].into_iter().cycle().take(150).enumerate() {
        let Case { raw, old, new, wanted } = cases().new_tree(&mut runner).unwrap().current();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("f.txt");
        std::fs::write(&path, &raw).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let (cx, desk) = context(&root);
        let mut config = Config::default();
        config.troupe.edit.anchors = if number % 2 == 0 { EditAnchors::Off } else { EditAnchors::Similar };
        let place = Place { config: Arc::new(config), ..(*cx.place).clone() };
        let cx = ToolContext { place: Arc::new(place), ..cx };
        let input = json!({
            "filePath": "f.txt", "oldString": old, "newString": new, "replaceAll": wanted == Wanted::All,
        });
        let Value::Object(input) = input else { unreachable!() };
        let done = runtime.block_on(AnyTool::run(&Edit, input, &cx));
        let now = std::fs::read_to_string(&path).unwrap();
        let Ok(done) = done else {
            assert_eq!((now, desk.begun()), (raw, 0), "a refused edit changes nothing");
            continue;
        };
        edits += 1;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        let patch = done.metadata["diff"].as_str().unwrap();
        assert_eq!(apply(patch, without_mark(&raw)).as_deref(), Some(without_mark(&now)));
        assert_eq!(done.metadata["filediff"]["patch"], patch);
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1, "nothing is left beside it");
    }
    assert!(edits > 40, "{edits}");
}
