use std::path::PathBuf;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::diff::FileDiff;
use crate::edit::Edit;
use crate::testing::{FakeDesk, Noted, context};
use crate::tool::{AnyTool, ToolOutput};
use crate::write::Write;

fn setup(formatter: Value) -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (cx, desk) = context(&root);
    let config = Config { formatter: Some(formatter), ..Config::default() };
    let place = Place { config: Arc::new(config), ..(*cx.place).clone() };
    (dir, root, ToolContext { place: Arc::new(place), ..cx }, desk)
}

/// A formatter that a shell plays.
fn shell(script: &str) -> Value {
    json!({ "own": { "command": ["sh", "-c", script, "formatter", "$FILE"], "extensions": [".txt"] } })
}

async fn call(tool: &dyn AnyTool, input: Value, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { unreachable!() };
    tool.run(input, cx).await
}

async fn edit(cx: &ToolContext, old: &str, new: &str) -> Result<ToolOutput, ToolError> {
    call(&Edit, json!({"filePath": "f.txt", "oldString": old, "newString": new}), cx).await
}

fn read(root: &Path) -> String {
    std::fs::read_to_string(root.join("f.txt")).unwrap()
}

#[tokio::test]
async fn an_edit_is_formatted_and_reports_what_is_on_disk() {
    let (_keep, root, cx, desk) = setup(shell("sed -i 's/ *$//' \"$1\""));
    std::fs::write(root.join("f.txt"), "one  \ntwo\n").unwrap();
    let output = edit(&cx, "two", "2   ").await.unwrap();
    assert_eq!(read(&root), "one\n2\n");
    assert!(output.output.starts_with("Edit applied successfully.\n\nThen own formatted"), "{}", output.output);
    let patch = FileDiff::of(&root.join("f.txt").display().to_string(), "one  \ntwo\n", "one\n2\n").patch;
    assert_eq!(output.metadata["diff"], json!(patch));
    assert_eq!(output.metadata["filediff"]["additions"], 2);
    // It is told of once, when it is as it stays; and the next edit knows the file.
    let edited = desk.noted().into_iter().filter(|noted| matches!(noted, Noted::Edited(_))).count();
    assert_eq!(edited, 1);
    assert!(matches!(desk.noted().last(), Some(Noted::Progressed(_))));
    edit(&cx, "one", "1").await.unwrap();
    assert_eq!(read(&root), "1\n2\n");
}

#[tokio::test]
async fn a_write_is_formatted_and_keeps_its_byte_order_mark() {
    let (_keep, root, cx, _) = setup(shell("printf 'clean\\n' > \"$1\""));
    std::fs::write(root.join("f.txt"), "\u{FEFF}old\n").unwrap();
    let output = call(&Write, json!({"filePath": "f.txt", "content": "dirty \n"}), &cx).await.unwrap();
    assert_eq!(read(&root), "\u{FEFF}clean\n");
    assert!(output.output.contains("own formatted the file"), "{}", output.output);
    call(&Write, json!({"filePath": "f.txt", "content": "again \n"}), &cx).await.unwrap();
}

#[tokio::test]
async fn a_formatter_that_fails_or_finds_nothing_leaves_the_edit_alone() {
    for script in ["echo no >&2; exit 3", "true"] {
        let (_keep, root, cx, _) = setup(shell(script));
        std::fs::write(root.join("f.txt"), "one\n").unwrap();
        assert_eq!(edit(&cx, "one", "two").await.unwrap().output, "Edit applied successfully.");
        assert_eq!(read(&root), "two\n");
    }
    let (_keep, root, cx, _) = setup(json!({ "own": { "command": ["/no/such/program"], "extensions": [".txt"] } }));
    std::fs::write(root.join("f.txt"), "one\n").unwrap();
    edit(&cx, "one", "two").await.unwrap();
    assert_eq!(read(&root), "two\n");
}

#[tokio::test]
async fn an_abort_ends_the_formatter_and_the_edit_stands() {
    let (_keep, root, cx, desk) = setup(shell("echo formatted > \"$1.ran\"; sleep 600"));
    std::fs::write(root.join("f.txt"), "one\n").unwrap();
    nix::unistd::mkfifo(&root.join("f.txt.ran"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let cancel = cx.cancel.clone();
    let stop = async {
        assert_eq!(tokio::fs::read_to_string(root.join("f.txt.ran")).await.unwrap(), "formatted\n");
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(edit(&cx, "one", "two"), stop);
    assert_eq!(output.unwrap().output, "Edit applied successfully.");
    assert_eq!(read(&root), "two\n");
    let groups = |ended: bool| {
        let is_it = move |noted: &Noted| match noted {
            Noted::Started(_) => !ended,
            Noted::Ended(_) => ended,
            _ => false,
        };
        desk.noted().into_iter().filter(is_it).count()
    };
    assert_eq!((groups(false), groups(true)), (1, 1));
}

#[test]
fn config_switches_formatters_on_changes_them_and_adds_some() {
    let names = |formatter: Value| {
        let config = Config { formatter: Some(formatter), ..Config::default() };
        switched_on(&config).into_iter().map(|formatter| formatter.name).collect::<Vec<_>>()
    };
    assert_eq!(switched_on(&Config::default()).len(), 0);
    assert_eq!(names(json!(false)).len(), 0);
    let all = names(json!(true));
    assert!(all.len() == KNOWN.len() && all.contains(&"clang-format".to_owned()));
    assert_eq!(names(json!({})), all);
    let fewer =
        names(json!({ "gofmt": { "disabled": true }, "uv": { "disabled": true }, "mine": { "command": ["x"] } }));
    assert!(!fewer.iter().any(|name| ["gofmt", "uv", "ruff"].contains(&&**name)), "{fewer:?}");
    assert_eq!(fewer.last().map(String::as_str), Some("mine"));
    let config = Config {
        formatter: Some(json!({ "gofmt": { "command": ["g", "$FILE"], "environment": { "A": "1", "B": 2 } } })),
        ..Config::default()
    };
    let gofmt = switched_on(&config).into_iter().find(|formatter| formatter.name == "gofmt").unwrap();
    assert!(matches!(gofmt.run, Run::Own(command) if command == ["g", "$FILE"]));
    assert_eq!(gofmt.extensions, [".go"]);
    assert_eq!(gofmt.environment, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]);
}

#[test]
fn a_known_one_runs_where_its_project_asks_for_it() {
    let (_keep, root, cx, _) = setup(json!(true));
    let enabled = |name: &str| status(&cx.place).into_iter().find(|status| status.name == name).unwrap().enabled;
    assert!(!enabled("prettier") && !enabled("pint"));
    std::fs::create_dir_all(root.join("node_modules/.bin")).unwrap();
    std::fs::write(root.join("node_modules/.bin/prettier"), "").unwrap();
    assert!(!enabled("prettier"), "the project doesn't ask for it");
    std::fs::write(root.join("package.json"), r#"{"devDependencies": {"prettier": "3"}}"#).unwrap();
    assert!(enabled("prettier"));
    std::fs::write(root.join("package.json"), "no json").unwrap();
    assert!(!enabled("prettier"));
}
