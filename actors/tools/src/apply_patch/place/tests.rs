use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::super::grammar::{Section, parse};
use super::*;

fn chunks(body: &str) -> Vec<Chunk> {
    match parse(&format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")).unwrap().remove(0) {
        Section::Update { chunks, .. } => chunks,
        other => panic!("{other:?}"),
    }
}

fn patched(text: &str, body: &str) -> Result<String, PlaceError> {
    let mut new = String::new();
    let mut at = 0;
    for (range, text_of) in places(text, &chunks(body), &CancellationToken::new())? {
        new.push_str(&text[at..range.start]);
        new.push_str(&text_of);
        at = range.end;
    }
    new.push_str(&text[at..]);
    Ok(new)
}

#[test]
fn lines_are_put_in_right_after_their_context() {
    assert_eq!(patched("a\nb\nc\n", "@@ a\n+X").unwrap(), "a\nX\nb\nc\n");
    assert_eq!(patched("a\nb\nc\n", "@@ c\n+X").unwrap(), "a\nb\nc\nX\n");
    assert_eq!(patched("a\nb\nc", "@@ c\n+X").unwrap(), "a\nb\nc\nX");
    assert_eq!(patched("a\nb\n", "@@\n+X").unwrap(), "a\nb\nX\n");
    assert_eq!(patched("a\nb\n", "@@ a\n+X\n*** End of File").unwrap(), "a\nb\nX\n");
    assert_eq!(patched("", "@@\n+X").unwrap(), "X\n");
    let error = patched("a\nb\n", "@@ nowhere\n+X").unwrap_err().to_string();
    assert!(error.contains("nowhere") && error.contains("not found"), "{error}");
}

#[test]
fn nested_contexts_lead_to_the_right_one_of_two() {
    let text = "class A:\n  def f():\n    x = 1\nclass B:\n  def f():\n    x = 1\n";
    let body = "@@ class B:\n@@   def f():\n-    x = 1\n+    x = 2";
    assert_eq!(patched(text, body).unwrap(), text.replacen("x = 1", "x = 2", 2).replacen("x = 2", "x = 1", 1));
}

#[test]
fn lines_around_a_change_keep_their_bytes() {
    assert_eq!(patched("keep  \nold\ntail\n", "@@\n keep\n-old\n+new\n tail").unwrap(), "keep  \nnew\ntail\n");
    assert_eq!(patched("“a”\nold\n", "@@\n \"a\"\n-old\n+new").unwrap(), "“a”\nnew\n");
    assert_eq!(patched("a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+X\n c").unwrap(), "a\r\nB\r\nX\r\nc\r\n");
    assert_eq!(patched("a\nb\r\nc\r\n", "@@ b\n+X").unwrap(), "a\nb\r\nX\r\nc\r\n");
}

#[test]
fn the_end_of_the_last_line_stays_as_it_is() {
    assert_eq!(patched("a\nb", "@@\n a\n-b\n+c").unwrap(), "a\nc");
    assert_eq!(patched("a\nb\n", "@@\n-a\n-b").unwrap(), "");
    assert_eq!(patched("a\nb", "@@\n-b").unwrap(), "a\n");
    assert_eq!(patched("a\nb\nb\n", "@@\n-b\n+c\n*** End of File").unwrap(), "a\nb\nc\n");
}

#[test]
fn changes_follow_one_another() {
    let text = "x\ny\nx\nz\n";
    assert_eq!(patched(text, "@@\n-y\n+Y\n@@\n-x\n+X").unwrap(), "x\nY\nX\nz\n");
    let error = patched(text, "@@\n-z\n+Z\n@@\n-y\n+Y").unwrap_err().to_string();
    assert!(error.contains("below line 4"), "{error}");
}

#[test]
fn of_several_places_none_is_guessed() {
    let error = patched("a\nx\nb\nx\n", "@@\n-x\n+y").unwrap_err().to_string();
    assert!(error.contains("line 2, line 4"), "{error}");
    assert_eq!(patched("a\nx\nb\nx\n", "@@ b\n-x\n+y").unwrap(), "a\nx\nb\ny\n");
    assert_eq!(patched("a\nx\nb\nx \n", "@@\n-x\n+y").unwrap(), "a\ny\nb\nx \n", "the very line comes first");
}

#[test]
fn new_lines_get_the_indentation_of_the_file_or_none() {
    let text = "fn f() {\n\tif x {\n\t\ty();\n\t}\n}\n";
    let body = "@@\n     if x {\n-        y();\n+        z();\n     }";
    assert_eq!(patched(text, body).unwrap(), text.replace("y()", "z()"));
    let shifted = "@@\n if x {\n-\ty();\n+\ty();\n+\tz();\n+\t\tdeep();\n }";
    assert_eq!(patched(text, shifted).unwrap(), text.replace("\t\ty();\n", "\t\ty();\n\t\tz();\n\t\t\tdeep();\n"));
    let error = patched(text, "@@\n-    if x {\n+        if x {").unwrap_err();
    assert_eq!(error, PlaceError::Indentation { line: 2, new: "        if x {".into() });
}

#[test]
fn an_empty_line_at_the_end_of_a_change_may_be_the_patchs_own() {
    assert_eq!(patched("a\nb\nc\n", "@@\n-b\n+B\n \n@@\n-c\n+C").unwrap(), "a\nB\nC\n");
}

proptest! {
    #[test]
    fn a_patch_made_from_two_texts_turns_one_into_the_other(
        before in "((a|b|c|  d|)\n){1,8}(e)?", at in 0usize..8, gone in 0usize..4, new in proptest::collection::vec("(x|  y|)", 0..3),
    ) {
        let old: Vec<&str> = before.split('\n').collect();
        let old = old.strip_suffix(&[""]).unwrap_or(&old);
        let at = at.min(old.len());
        let end = (at + gone).min(old.len());
        // Every line is shown, so there is one place only.
        let mut body = String::from("@@\n");
        old[..at].iter().for_each(|line| body.push_str(&format!(" {line}\n")));
        old[at..end].iter().for_each(|line| body.push_str(&format!("-{line}\n")));
        new.iter().for_each(|line| body.push_str(&format!("+{line}\n")));
        old[end..].iter().for_each(|line| body.push_str(&format!(" {line}\n")));
        let mut want: Vec<&str> = old.to_vec();
        want.splice(at..end, new.iter().map(String::as_str));
        let got = patched(&before, body.trim_end_matches('\n')).unwrap();
        let got: Vec<&str> = got.split_terminator('\n').collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn nothing_breaks(text in "((a|b| c|\t|“é”)?(\n|\r\n)?){0,10}", body in "(@@( a)?\n([ +-](a|b|c|\t|)\n){1,3}){1,3}") {
        let _ = patched(&text, &body);
    }
}

#[test]
fn a_long_run_of_equal_lines_takes_no_longer_than_its_lines_and_an_abort_ends_the_search() {
    let text = "a\n".repeat(60_000);
    let body = format!("{}-b\n+c", " a\n".repeat(20_000));
    let began = std::time::Instant::now();
    assert!(matches!(places(&text, &chunks(&body), &CancellationToken::new()), Err(PlaceError::NoLines { .. })));
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(places(&text, &chunks("-a\n+b"), &cancel), Err(PlaceError::Aborted));
}
