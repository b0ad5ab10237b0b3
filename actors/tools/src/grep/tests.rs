use std::path::PathBuf;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::testing::{FakeDesk, context};
use crate::tool::AnyTool;

fn setup(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (file, text) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (cx, desk) = context(&root);
    (dir, root, cx, desk)
}

async fn grep(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { unreachable!() };
    AnyTool::run(&Grep, input, cx).await
}

const FILES: &[(&str, &str)] = &[
    ("a.txt", "alpha\nbeta\ngamma\n"),
    ("README.md", "# x\n\nhello world\n"),
    ("src/main.ts", "export const one = 1\nexport const two = 2\n"),
];

#[tokio::test]
async fn lines_are_shown_by_file() {
    let (_keep, root, cx, desk) = setup(FILES);
    let at = |path: &str| root.join(path).display().to_string();
    let output = grep(&cx, json!({"pattern": "one|hello|beta"})).await.unwrap();
    let want = format!(
        "Found 3 matches\n{}:\n  Line 3: hello world\n\n\n{}:\n  Line 2: beta\n\n\n{}:\n  Line 1: export const one = 1\n",
        at("README.md"),
        at("a.txt"),
        at("src/main.ts")
    );
    assert_eq!(
        output,
        ToolOutput { truncated: Some(false), ..ToolOutput::new("one|hello|beta", want, json!({"matches": 3})) }
    );
    let asks = desk.asks();
    assert_eq!(
        (&*asks[0].permission, &asks[0].patterns, &asks[0].always),
        ("grep", &vec!["one|hello|beta".into()], &vec!["*".into()])
    );
    let two = grep(&cx, json!({"pattern": "export", "include": "*.ts", "path": "src"})).await.unwrap();
    assert_eq!(
        two.output,
        format!(
            "Found 2 matches\n{}:\n  Line 1: export const one = 1\n\n  Line 2: export const two = 2\n",
            at("src/main.ts")
        )
    );
    let file = grep(&cx, json!({"pattern": "beta", "path": "a.txt"})).await.unwrap();
    assert_eq!(file.output, format!("Found 1 matches\n{}:\n  Line 2: beta\n", at("a.txt")));
    assert_eq!(grep(&cx, json!({"pattern": "qqqqqq"})).await.unwrap().output, "No files found");
}

#[tokio::test]
async fn a_wrong_expression_is_shown_with_its_fault() {
    let (_keep, _root, cx, desk) = setup(&[]);
    let error = grep(&cx, json!({"pattern": "(["})).await.unwrap_err().to_string();
    assert_eq!(error, "regex parse error:\n    ([\n     ^\nerror: unclosed character class");
    let missing = grep(&cx, json!({"pattern": "x", "path": "missing"})).await.unwrap_err().to_string();
    assert!(missing.contains("does not exist"), "{missing}");
    assert_eq!(desk.begun(), 0);
}

#[tokio::test]
async fn fifos_binary_and_ignored_files_are_left_out() {
    let (_keep, root, cx, _) =
        setup(&[("f.txt", "x here\n"), ("bin", "x\0y\n"), ("x.log", "x\n"), (".ignore", "*.log\n")]);
    nix::unistd::mkfifo(&root.join("p"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    std::os::unix::fs::symlink("f.txt", root.join("link")).unwrap();
    let output = grep(&cx, json!({"pattern": "^x"})).await.unwrap();
    assert_eq!(output.output, format!("Found 1 matches\n{}:\n  Line 1: x here\n", root.join("f.txt").display()));
    let fifo = grep(&cx, json!({"pattern": "x", "path": "p"})).await.unwrap_err().to_string();
    assert!(fifo.contains("fifo"), "{fifo}");
}

#[tokio::test]
async fn line_ends_and_marks_are_not_shown() {
    let (_keep, _root, cx, _) = setup(&[("dos.txt", "\u{FEFF}one\r\ntwo\r\n")]);
    let output = grep(&cx, json!({"pattern": "one|two$"})).await.unwrap().output;
    assert!(output.contains("Line 1: one\n") && output.contains("Line 2: two\n"), "{output:?}");
    assert!(!output.contains('\r') && !output.contains('\u{FEFF}'));
}

#[tokio::test]
async fn the_first_hundred_lines_are_shown() {
    let many = (0..60).map(|n| format!("hit {n}\n")).collect::<String>();
    let files: Vec<(String, &str)> = (0..6).map(|n| (format!("d{n}/f.txt"), &*many)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
    let (_keep, root, cx, _) = setup(&files);
    for _ in 0..5 {
        let output = grep(&cx, json!({"pattern": "hit"})).await.unwrap();
        assert!(output.output.starts_with("Found 100 matches (more matches available)\n"));
        assert_eq!(output.output.matches("  Line ").count(), 100);
        assert!(output.output.contains(&root.join("d1/f.txt").display().to_string()));
        assert!(!output.output.contains("d2/f.txt"));
        assert_eq!((output.truncated, &output.metadata["matches"]), (Some(true), &json!(100)));
    }
    let exact = grep(&cx, json!({"pattern": "hit", "path": "d0"})).await.unwrap();
    assert!(exact.output.starts_with("Found 60 matches\n"));
}

#[tokio::test]
async fn exactly_a_hundred_lines_are_not_called_truncated() {
    let (_keep, _root, cx, _) = setup(&[("a.txt", &"hit\n".repeat(100)), ("b.txt", "none\n"), ("z/c.txt", "none\n")]);
    let output = grep(&cx, json!({"pattern": "hit"})).await.unwrap();
    assert!(output.output.starts_with("Found 100 matches\n"), "{}", &output.output[..60]);
    assert_eq!(output.truncated, Some(false));
}

#[tokio::test]
async fn long_lines_are_cut_around_their_match() {
    let long = format!("{}needle{}\n", "é".repeat(5000), "x".repeat(5000));
    let (_keep, _root, cx, _) = setup(&[("min.js", &long)]);
    let output = grep(&cx, json!({"pattern": "needle"})).await.unwrap().output;
    assert!(output.contains("needle") && output.contains("truncated to 500 chars"));
    assert!(output.len() < 2000 && !output.contains('\u{FFFD}'), "{output}");
}

#[tokio::test]
async fn a_cancelled_search_ends_at_once_with_its_threads() {
    let (_keep, _root, cx, _) = setup(FILES);
    let (cancel, files) = (cx.cancel.clone(), cx.files.clone());
    let input = json!({"pattern": "nothing-has-this-text[0-9]{9}", "path": "/usr"});
    let search = tokio::spawn(async move { grep(&cx, input).await });
    while files.locks().searches() == 0 && !search.is_finished() {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    let began = std::time::Instant::now();
    let ended = search.await.unwrap();
    while files.locks().searches() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(ended, Err(ToolError::Aborted)), "{ended:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}

#[tokio::test]
async fn an_expression_that_is_too_large_is_refused() {
    let (_keep, _root, cx, _) = setup(FILES);
    let error = grep(&cx, json!({"pattern": r"(\w{100}){50}"})).await.unwrap_err().to_string();
    assert!(error.contains("size limit"), "{error}");
    assert!(grep(&cx, json!({"pattern": r"\w{1,50}"})).await.is_ok());
}
