use std::path::PathBuf;

use pretty_assertions::assert_eq;
use protocol::{Action, Rule};
use serde_json::Value;

use super::*;
use crate::context::Refusal;
use crate::files::Files;
use crate::testing::{FakeDesk, Noted, context};
use crate::tool::AnyTool;

fn setup() -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (cx, desk) = context(&root);
    (dir, root, cx, desk)
}

async fn edit(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { unreachable!() };
    AnyTool::run(&Edit, input, cx).await
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn an_edit_asks_with_its_diff_and_reports_it() {
    let (_keep, root, cx, desk) = setup();
    std::fs::write(root.join("e.txt"), "one\ntwo\nthree\n").unwrap();
    let output = edit(&cx, json!({"filePath": "e.txt", "oldString": "two", "newString": "TWO"})).await.unwrap();
    assert_eq!(read(root.join("e.txt")), "one\nTWO\nthree\n");
    let path = root.join("e.txt").display().to_string();
    let patch = format!(
        "Index: {path}\n{}\n--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        "=".repeat(67)
    );
    let metadata = json!({
        "diff": patch,
        "filediff": {"file": path, "patch": patch, "additions": 1, "deletions": 1},
        "diagnostics": {},
    });
    assert_eq!(output, ToolOutput::new("e.txt", "Edit applied successfully.", metadata.clone()));
    let noted = desk.noted();
    let Some(Noted::Asked(ask)) = noted.first() else { panic!("{noted:?}") };
    assert_eq!((&*ask.permission, &ask.patterns, &ask.always), ("edit", &vec!["e.txt".into()], &vec!["*".into()]));
    assert_eq!(Value::Object(ask.metadata.clone()), json!({"filepath": path, "diff": patch}));
    let progress = Progress { title: None, metadata: ToolOutput::new("", "", metadata).metadata };
    assert_eq!(noted[1..], [Noted::Began, Noted::Edited(root.join("e.txt")), Noted::Progressed(progress)]);
}

#[tokio::test]
async fn an_empty_old_string_makes_a_file_but_never_replaces_one() {
    let (_keep, root, cx, desk) = setup();
    std::fs::write(root.join("f.txt"), "keep me\n").unwrap();
    let error = edit(&cx, json!({"filePath": "f.txt", "oldString": "", "newString": "x\n"})).await.unwrap_err();
    assert!(error.to_string().contains("oldString is empty"));
    assert_eq!((read(root.join("f.txt")), desk.begun()), ("keep me\n".into(), 0));
    let made = edit(&cx, json!({"filePath": "d/new.txt", "oldString": "", "newString": "x\n"})).await.unwrap();
    assert_eq!(read(root.join("d/new.txt")), "x\n");
    assert!(made.metadata["diff"].as_str().unwrap().ends_with("@@ -0,0 +1,1 @@\n+x\n"));
}

#[tokio::test]
async fn errors_ask_nothing_and_begin_nothing() {
    let (_keep, root, cx, desk) = setup();
    std::fs::write(root.join("f.txt"), "a\r\nb").unwrap();
    std::fs::write(root.join("b.bin"), b"a\0b").unwrap();
    let before = std::fs::metadata(root.join("f.txt")).unwrap().modified().unwrap();
    for (input, words) in [
        (json!({"filePath": "f.txt", "oldString": "a\r\nb", "newString": "a\nb"}), "the same once line ends"),
        (json!({"filePath": "f.txt", "oldString": "a", "newString": "a"}), "the same"),
        (json!({"filePath": "f.txt", "oldString": "zzz", "newString": "y"}), "not found"),
        (json!({"filePath": "no.txt", "oldString": "a", "newString": "b"}), "no.txt not found"),
        (json!({"filePath": "b.bin", "oldString": "a", "newString": "b"}), "binary"),
        (json!({"filePath": ".", "oldString": "a", "newString": "b"}), "directory"),
    ] {
        let error = edit(&cx, input).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(desk.noted(), vec![]);
    assert_eq!(std::fs::metadata(root.join("f.txt")).unwrap().modified().unwrap(), before);
}

#[tokio::test]
async fn a_change_from_outside_since_the_session_saw_the_file_is_refused() {
    let (_keep, root, cx, _) = setup();
    let path = root.join("f.txt");
    std::fs::write(&path, "v1\nkeep\n").unwrap();
    cx.files.remember(&path, ContentHash::of(b"v1\nkeep\n"));
    std::fs::write(&path, "v2\nkeep\n").unwrap();
    let input = json!({"filePath": "f.txt", "oldString": "keep", "newString": "kept"});
    let error = edit(&cx, input.clone()).await.unwrap_err().to_string();
    assert!(error.contains("Read it again"), "{error}");
    assert_eq!(read(path.clone()), "v2\nkeep\n");
    cx.files.remember(&path, ContentHash::of(b"v2\nkeep\n"));
    edit(&cx, input).await.unwrap();
    assert_eq!(cx.files.known(&path), Some(ContentHash::of(b"v2\nkept\n")));
}

#[tokio::test]
async fn a_change_while_the_person_thinks_is_kept_beside_the_edit() {
    let (_keep, root, cx, desk) = setup();
    let path = root.join("f.txt");
    std::fs::write(&path, "a\nb\n").unwrap();
    let other = path.clone();
    desk.judge(move |_| {
        std::fs::write(&other, "NEW\na\nb\n").unwrap();
        Ok(())
    });
    edit(&cx, json!({"filePath": "f.txt", "oldString": "b", "newString": "B"})).await.unwrap();
    assert_eq!(read(path.clone()), "NEW\na\nB\n");
    // When the session knows the file, the same is a reason to look again.
    cx.files.remember(&path, ContentHash::of(b"NEW\na\nB\n"));
    let other = path.clone();
    desk.judge(move |_| {
        std::fs::write(&other, "a\nB\n").unwrap();
        Ok(())
    });
    let error = edit(&cx, json!({"filePath": "f.txt", "oldString": "B", "newString": "b"})).await.unwrap_err();
    assert!(error.to_string().contains("Read it again"));
    assert_eq!(read(path), "a\nB\n");
}

#[tokio::test]
async fn leave_to_go_outside_is_asked_first_and_shows_the_change() {
    let (_keep, root, cx, desk) = setup();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().canonicalize().unwrap().join("zshrc");
    std::fs::write(&path, "export OLD_LINE=1\n").unwrap();
    let input = json!({"filePath": path, "oldString": "export OLD_LINE=1", "newString": "export NEW_LINE=1"});
    edit(&cx, input).await.unwrap();
    let asks = desk.asks();
    assert_eq!(asks.iter().map(|ask| &*ask.permission).collect::<Vec<_>>(), ["external_directory", "edit"]);
    assert_eq!(asks[0].metadata["filepath"], json!(path));
    let diff = asks[0].metadata["diff"].as_str().unwrap();
    assert!(diff.contains("-export OLD_LINE=1\n+export NEW_LINE=1\n"));
    assert_eq!(asks[1].patterns, vec![path.display().to_string()]);
    drop(root);
}

#[tokio::test]
async fn what_is_outside_is_not_told_without_leave() {
    let (_keep, _root, cx, desk) = setup();
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().canonicalize().unwrap().join("secret");
    std::fs::write(&path, "secret = 1\nsecret line\n").unwrap();
    desk.judge(|ask| {
        Err(Refusal::Denied {
            permission: ask.permission.clone(),
            pattern: ask.patterns[0].clone(),
            rules: vec![Rule::new("external_directory", "*", Action::Deny)],
        })
    });
    for old in ["secret = 2", "secret = 1"] {
        let error = edit(&cx, json!({"filePath": path, "oldString": old, "newString": "x"})).await.unwrap_err();
        assert!(matches!(error, ToolError::Refused(_)));
    }
    assert_eq!(read(path), "secret = 1\nsecret line\n");
}

#[tokio::test]
async fn parallel_edits_of_sessions_lose_nothing() {
    let (_keep, root, cx, _) = setup();
    std::fs::write(root.join("n.txt"), (0..20).map(|n| format!("<{n}>\n")).collect::<String>()).unwrap();
    let edits = (0..20).map(|n| {
        let cx = ToolContext { files: Files::of_session(cx.files.locks()), ..cx.clone() };
        async move {
            edit(&cx, json!({"filePath": "n.txt", "oldString": format!("<{n}>"), "newString": format!("[{n}]")})).await
        }
    });
    for done in futures::future::join_all(edits).await {
        done.unwrap();
    }
    assert_eq!(read(root.join("n.txt")), (0..20).map(|n| format!("[{n}]\n")).collect::<String>());
}

#[tokio::test]
async fn a_guess_needs_the_setting() {
    let (_keep, root, cx, _) = setup();
    let text = "func a() {\n\tx := 1\n\ty := 2\n\treturn\n}\n";
    std::fs::write(root.join("f.go"), text).unwrap();
    let input =
        json!({"filePath": "f.go", "oldString": text.replace("y := 2", "y := 99"), "newString": "func a() {\n}\n"});
    let error = edit(&cx, input.clone()).await.unwrap_err().to_string();
    assert!(error.contains("y := 2`"), "{error}");
    let mut config = protocol::config::Config::default();
    config.troupe.edit.anchors = protocol::config::EditAnchors::Similar;
    let place = crate::context::Place { config: Arc::new(config), ..(*cx.place).clone() };
    edit(&ToolContext { place: Arc::new(place), ..cx }, input).await.unwrap();
    assert_eq!(read(root.join("f.go")), "func a() {\n}\n");
}

#[tokio::test]
async fn a_file_is_not_made_under_a_directorys_name() {
    let (_keep, root, cx, _) = setup();
    let error = edit(&cx, json!({"filePath": "new/", "oldString": "", "newString": "x"})).await.unwrap_err();
    assert!(error.to_string().contains("names a directory"), "{error}");
    assert!(!root.join("new").exists());
}

#[tokio::test]
async fn characters_that_look_alike_are_named() {
    let (_keep, root, cx, _) = setup();
    for (here, old, told) in [
        ("u\u{308}ber", "\u{fc}ber", "the file has U+0075 U+0308, oldString U+00FC U+0062"),
        ("\u{430}b", "ab", "the file has U+0430 U+0062, oldString U+0061 U+0062"),
        ("a\u{200b}", "ax", "the file has U+200B U+003B, oldString U+0078 U+003B"),
    ] {
        std::fs::write(root.join("n.txt"), format!("first line\nlet x = {here};\nlast line\n")).unwrap();
        let old = format!("first line\nlet x = {old};\n");
        let error = edit(&cx, json!({"filePath": "n.txt", "oldString": old, "newString": "y"})).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}
