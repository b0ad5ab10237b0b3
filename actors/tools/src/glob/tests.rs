use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::testing::{FakeDesk, context};
use crate::tool::AnyTool;

fn setup(files: &[&str]) -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for file in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x\n").unwrap();
    }
    let (cx, desk) = context(&root);
    (dir, root, cx, desk)
}

async fn glob(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { unreachable!() };
    AnyTool::run(&Glob, input, cx).await
}

/// Returns the found paths, relative to the root.
async fn found(cx: &ToolContext, input: Value) -> Vec<String> {
    let output = glob(cx, input).await.unwrap().output;
    let root = format!("{}/", cx.place.directory.display());
    output.lines().map(|line| line.strip_prefix(&root).unwrap_or(line).to_owned()).collect()
}

#[tokio::test]
async fn paths_are_absolute_and_in_order() {
    let (_keep, root, cx, desk) = setup(&["src/main.ts", "src/a.ts", ".hidden/b.ts", "a.txt", ".git/c.ts"]);
    let output = glob(&cx, json!({"pattern": "**/*.ts"})).await.unwrap();
    let at = |path: &str| root.join(path).display().to_string();
    let want = [".hidden/b.ts", "src/a.ts", "src/main.ts"].map(at).join("\n");
    assert_eq!(output, ToolOutput { truncated: Some(false), ..ToolOutput::new("", want, json!({"count": 3})) });
    assert_eq!((&*desk.asks()[0].permission, &desk.asks()[0].patterns), ("glob", &vec!["**/*.ts".into()]));
    let below = glob(&cx, json!({"pattern": "*.ts", "path": "src"})).await.unwrap();
    assert_eq!((below.title.as_str(), below.output), ("src", [at("src/a.ts"), at("src/main.ts")].join("\n")));
    assert_eq!(glob(&cx, json!({"pattern": "*.zzz"})).await.unwrap().output, "No files found");
}

#[tokio::test]
async fn ignore_files_are_honoured_unless_the_pattern_names_the_place() {
    let (_keep, root, cx, _) = setup(&["dist/a.js", "x.log", "src/a.js"]);
    std::fs::write(root.join(".ignore"), "dist/\n*.log\n").unwrap();
    assert_eq!(found(&cx, json!({"pattern": "**/*"})).await, [".ignore", "src/a.js"]);
    assert_eq!(found(&cx, json!({"pattern": "*.js"})).await, ["src/a.js"]);
    assert_eq!(found(&cx, json!({"pattern": "dist/*.js"})).await, ["dist/a.js"]);
    assert_eq!(found(&cx, json!({"pattern": "x.log"})).await, ["x.log"]);
}

#[tokio::test]
async fn gitignore_counts_within_repositories() {
    let (_keep, root, cx, _) = setup(&["a.js", "b.js"]);
    std::fs::write(root.join(".gitignore"), "b.js\n").unwrap();
    assert_eq!(found(&cx, json!({"pattern": "*.js"})).await, ["a.js", "b.js"]);
    std::fs::create_dir(root.join(".git")).unwrap();
    assert_eq!(found(&cx, json!({"pattern": "*.js"})).await, ["a.js"]);
}

#[tokio::test]
async fn links_are_not_followed_and_only_files_count() {
    let (_keep, root, cx, _) = setup(&["t/needle"]);
    std::os::unix::fs::symlink(".", root.join("loop-needle")).unwrap();
    std::os::unix::fs::symlink("/", root.join("t/slash")).unwrap();
    nix::unistd::mkfifo(&root.join("needle-fifo"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert_eq!(found(&cx, json!({"pattern": "**/*needle*"})).await, ["t/needle"]);
}

#[tokio::test]
async fn a_repository_within_another_has_its_own_rules() {
    let files = ["a.log", "build/z", "sub/x.log", "sub/build/y", "sub/deep/a.log", "mod/b.log"];
    let (_keep, root, cx, _) = setup(&files);
    for repository in ["", "sub"] {
        std::fs::create_dir(root.join(repository).join(".git")).unwrap();
    }
    // A submodule has a file there.
    std::fs::write(root.join("mod/.git"), "gitdir: ../.git/modules/mod\n").unwrap();
    std::fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    std::fs::write(root.join("sub/.gitignore"), "build\n").unwrap();
    let all = found(&cx, json!({"pattern": "**/*"})).await;
    assert_eq!(all, [".gitignore", "build/z", "mod/b.log", "sub/.gitignore", "sub/deep/a.log", "sub/x.log"]);
}

#[tokio::test]
async fn a_hundred_paths_are_shown_at_most_the_first_ones() {
    let names: Vec<String> = (0..250).map(|n| format!("d{}/f{n:03}", n % 7)).collect();
    let (_keep, _root, cx, _) = setup(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut want = names.clone();
    want.sort();
    want.truncate(100);
    for _ in 0..5 {
        let mut lines = found(&cx, json!({"pattern": "**/f*"})).await;
        let note = lines.split_off(100);
        assert_eq!(lines, want);
        assert!(note.join("").contains("truncated"));
    }
}

#[tokio::test]
async fn a_pattern_that_leads_outside_is_asked_for() {
    let (_keep, _root, cx, desk) = setup(&["a.txt"]);
    let (_keep, outside, _, _) = setup(&["o.txt"]);
    for pattern in
        [format!("{}/*.txt", outside.display()), format!("../{}/*.txt", outside.file_name().unwrap().display())]
    {
        let output = glob(&cx, json!({"pattern": pattern})).await.unwrap();
        assert_eq!(output.output, outside.join("o.txt").display().to_string());
        let asks = desk.asks();
        let external = &asks[asks.len() - 2];
        assert_eq!(external.permission, "external_directory");
        assert_eq!(external.patterns, vec![format!("{}/*", outside.display())]);
    }
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said() {
    let (_keep, root, cx, _) = setup(&["a.txt"]);
    for (input, words) in [
        (json!({"pattern": "*.ts", "path": "missing"}), "does not exist"),
        (json!({"pattern": "*.ts", "path": "a.txt"}), "not a directory"),
        (json!({"pattern": "[", "path": "."}), "pattern is wrong"),
    ] {
        let error = glob(&cx, input).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    drop(root);
}

#[tokio::test]
async fn a_cancelled_search_ends_at_once() {
    let (_keep, _root, cx, _) = setup(&["a.txt"]);
    let (began, cx_files) = (Instant::now(), cx.files.clone());
    let cancel = cx.cancel.clone();
    let search = tokio::spawn(async move { glob(&cx, json!({"pattern": "/**/*nothing-has-this-name*"})).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    assert!(matches!(search.await.unwrap(), Err(ToolError::Aborted)));
    assert!(began.elapsed() < Duration::from_secs(5));
    // The threads end, too.
    while cx_files.locks().searches() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}
