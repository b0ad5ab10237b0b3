use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pretty_assertions::assert_eq;
use protocol::permission::Action;
use protocol::{CallId, MessageId, SessionId};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::context::Refusal;
use crate::testing::{FakeDesk, Noted, context};
use crate::tool::AnyTool;

/// A context of its own call and session: tests run side by side, and ending a call looks for its marker everywhere.
fn own(directory: &std::path::Path) -> (ToolContext, Arc<FakeDesk>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = (u64::from(std::process::id()) << 20) + NEXT.fetch_add(1, Ordering::Relaxed);
    let (cx, desk) = context(directory);
    let cx = ToolContext {
        session_id: SessionId::parse(&format!("ses_{n}")).unwrap(),
        message_id: MessageId::parse(&format!("msg_{n}")).unwrap(),
        call_id: CallId::new(format!("call_{n}")),
        ..cx
    };
    (cx, desk)
}

async fn call(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { panic!("no object") };
    AnyTool::run(&Bash, input, cx).await
}

async fn bash(command: &str) -> ToolOutput {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    call(&cx, json!({ "command": command })).await.unwrap()
}

fn metadata(output: &ToolOutput) -> Value {
    Value::Object(output.metadata.clone())
}

#[tokio::test]
async fn a_command_gives_its_output_in_order() {
    let output = bash("for i in 1 2 3; do echo $i; echo e$i >&2; done").await;
    assert_eq!(output.output, "1\ne1\n2\ne2\n3\ne3\n");
    assert_eq!(output.title, "for i in 1 2 3; do echo $i; echo e$i >&2; done");
    assert_eq!(metadata(&output), json!({ "output": "1\ne1\n2\ne2\n3\ne3\n", "exit": 0, "truncated": false }));
    assert_eq!(output.truncated, Some(false));
}

#[tokio::test]
async fn the_model_is_told_an_exit_code_that_is_not_zero() {
    let output = bash("echo out; echo err >&2; exit 3").await;
    assert_eq!(output.output, "out\nerr\n\n\n<shell_metadata>\nexit code 3\n</shell_metadata>");
    assert_eq!(metadata(&output), json!({ "output": "out\nerr\n", "exit": 3, "truncated": false }));
    let output = bash("kill -9 $$").await;
    assert!(output.output.contains("signal 9, exit code 137"), "{}", output.output);
    assert_eq!(output.metadata["exit"], 137);
}

#[tokio::test]
async fn no_output_is_said() {
    let output = bash("true").await;
    assert_eq!(output.output, "(no output)");
    assert_eq!(metadata(&output), json!({ "output": "(no output)", "exit": 0, "truncated": false }));
}

#[tokio::test]
async fn a_command_runs_where_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    let (cx, desk) = own(dir.path());
    for workdir in ["src", dir.path().join("src").to_str().unwrap()] {
        let output = call(&cx, json!({ "command": "pwd -P", "workdir": workdir })).await.unwrap();
        assert!(output.output.ends_with("/src\n"), "{}", output.output);
    }
    assert!(desk.asks().iter().all(|ask| ask.permission == "bash"));
    let error = call(&cx, json!({ "command": "pwd", "workdir": "nowhere" })).await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn a_line_no_shell_takes_is_refused_before_anybody_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    for (line, told) in [("echo a\0b".to_owned(), "NUL"), (format!("echo {}", "x".repeat(LONGEST)), "write")] {
        let error = call(&cx, json!({ "command": line })).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
    assert_eq!(desk.asks().len(), 0);
    let longest = format!("echo {}", "x".repeat(LONGEST - 6));
    assert!(call(&cx, json!({ "command": longest })).await.is_ok());
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    for input in [json!({}), json!({ "command": "ls", "timeout": 0 }), json!({ "command": "ls", "timeout": -1 })] {
        assert!(matches!(call(&cx, input).await, Err(ToolError::Arguments { .. })));
    }
    assert!(call(&cx, json!({ "command": "echo \0" })).await.is_err());
}

#[tokio::test]
async fn what_is_asked_names_each_command_and_what_always_would_allow() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    desk.judge(|_| Err(Refusal::Rejected));
    let command = "git status --short && npm run test -- --x; cat a.txt | wc -l > /dev/null";
    assert!(matches!(call(&cx, json!({ "command": command })).await, Err(ToolError::Refused(Refusal::Rejected))));
    let [ask] = desk.asks().try_into().unwrap();
    assert_eq!(ask.permission, "bash");
    assert_eq!(ask.patterns, ["git status --short", "npm run test -- --x", "cat a.txt", "wc -l"]);
    assert_eq!(ask.always, ["git status *", "npm run test *", "cat *", "wc *"]);
    assert_eq!(Value::Object(ask.metadata), json!({ "command": command }));
    assert_eq!(ask.floor, Action::Allow);
    assert_eq!(desk.begun(), 0);
}

#[tokio::test]
async fn what_runs_elsewhere_is_asked_for_aside_and_is_not_allowed_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    desk.judge(|_| Err(Refusal::Rejected));
    assert!(call(&cx, json!({ "command": "docker exec c rm y && true" })).await.is_err());
    let [ask] = desk.asks().try_into().unwrap();
    assert_eq!(ask.patterns, ["docker exec c rm y"]);
    assert!(ask.aside.contains(&"rm y".to_owned()) && ask.aside.contains(&"true".to_owned()), "{:?}", ask.aside);
    assert_eq!(ask.always, ["docker exec *"]);
}

#[tokio::test]
async fn what_is_outside_is_asked_first() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let project = root.join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(root.join("outside.txt"), "out\n").unwrap();
    let (cx, desk) = own(&project);
    let command = format!("cat {}/outside.txt", root.display());
    let output = call(&cx, json!({ "command": command })).await.unwrap();
    assert_eq!(output.output, "out\n");
    let [external, bash] = desk.asks().try_into().unwrap();
    let pattern = format!("{}/*", root.display());
    assert_eq!(external.permission, "external_directory");
    assert_eq!(external.patterns, std::slice::from_ref(&pattern));
    assert_eq!(external.always, std::slice::from_ref(&pattern));
    let wanted = json!({ "command": command, "directories": [root.to_str().unwrap()], "patterns": [pattern] });
    assert_eq!(Value::Object(external.metadata), wanted);
    assert_eq!(bash.permission, "bash");
    let output = call(&cx, json!({ "command": "pwd -P", "workdir": ".." })).await.unwrap();
    assert_eq!(output.output, format!("{}\n", root.display()));
    assert_eq!(desk.asks()[2].metadata["directories"], json!([root.to_str().unwrap()]));
}

#[tokio::test]
async fn a_doubtful_command_is_asked_for_with_its_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    call(&cx, json!({ "command": "X=echo; $X hi" })).await.unwrap();
    let [ask] = desk.asks().try_into().unwrap();
    assert_eq!(ask.floor, Action::Ask);
    assert_eq!(ask.patterns, ["$X hi", "echo hi"]);
    assert_eq!(ask.metadata["reasons"], json!(["the command's name is made while it runs"]));
    let exactly: (PathBuf, String) = serde_json::from_str(ask.metadata["exactly"].as_str().unwrap()).unwrap();
    assert_eq!(exactly, (dir.path().to_owned(), "X=echo; $X hi".to_owned()));
}

#[tokio::test]
async fn effects_begin_after_the_asks_and_the_group_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    call(&cx, json!({ "command": "true" })).await.unwrap();
    let noted = desk.noted();
    assert!(matches!(noted[0], Noted::Asked(_)));
    assert_eq!(noted[1], Noted::Began);
    let Noted::Started(group) = noted[2] else { panic!("{noted:?}") };
    assert_eq!(noted.last(), Some(&Noted::Ended(group)));
}

#[tokio::test]
async fn a_time_limit_ends_the_tree_and_keeps_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    let command = "echo a; (while true; do sleep 1000; done) & sleep 1000";
    let output = call(&cx, json!({ "command": command, "timeout": 100 })).await.unwrap();
    assert!(output.output.starts_with("a\n\n\n<shell_metadata>\n"), "{}", output.output);
    assert!(output.output.contains("timeout 100 ms"), "{}", output.output);
    assert!(output.output.ends_with("\n</shell_metadata>"));
    assert_eq!(metadata(&output), json!({ "output": "a\n", "exit": null, "truncated": false }));
    assert_eq!(cx.processes.background(&cx.session_id), []);
}

#[tokio::test]
async fn a_command_that_ended_is_not_out_of_time_however_late_that_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    let spec = Spec {
        program: "sh".into(),
        args: vec!["-c".into(), "echo done".into()],
        cwd: dir.path().to_owned(),
        env: Vec::new(),
        session: cx.session_id.clone(),
        call: cx.call_id.to_string(),
    };
    let mut child = cx.processes.spawn(&Effects::stored(), spec).unwrap();
    child.exited().await.unwrap();
    let begun = Begun { command: "echo done".into(), directory: dir.path().to_owned(), started_ms: 0 };
    let output = run::run(&cx, child, begun, Duration::ZERO).await.unwrap();
    assert_eq!(metadata(&output), json!({ "output": "done\n", "exit": 0, "truncated": false }));
}

#[tokio::test]
async fn an_abort_ends_the_tree_and_keeps_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let (cx, desk) = own(dir.path());
    let cx = ToolContext { cancel: cancel.clone(), ..cx };
    let running = tokio::spawn(async move { call(&cx, json!({ "command": "echo before; sleep 1000" })).await });
    let shown = |noted: &Noted| matches!(noted, Noted::Progressed(p) if p.metadata["output"] == "before\n");
    while !desk.noted().iter().any(shown) {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    let output = running.await.unwrap().unwrap();
    assert!(output.output.starts_with("before\n\n\n<shell_metadata>\n"), "{}", output.output);
    assert!(output.output.contains("abort"), "{}", output.output);
    assert_eq!(metadata(&output), json!({ "output": "before\n", "exit": null, "truncated": false }));
}

#[tokio::test]
async fn a_call_ends_with_the_shell_and_keeps_its_background_process() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    let output = call(&cx, json!({ "command": "sleep 1000 & echo done" })).await.unwrap();
    assert!(output.output.starts_with("done\n\n\n<shell_metadata>\n"), "{}", output.output);
    assert!(output.output.contains("background process"), "{}", output.output);
    assert_eq!(output.metadata["exit"], 0);
    let [left] = cx.processes.background(&cx.session_id).try_into().unwrap();
    assert_eq!(left.left.command, "sleep 1000 & echo done");
    assert_eq!(output.metadata["process"], left.id.to_string());
    assert!(output.output.contains(&format!("kill -- -{}", left.group.0)), "{}", output.output);
    assert_eq!(cx.processes.background_output(&cx.session_id, left.id, 0).unwrap().text, "done\n");
    assert!(!desk.noted().contains(&Noted::Ended(left.group)));
    cx.processes.stop_all(&cx.session_id).await;
    assert_eq!(cx.processes.background(&cx.session_id), []);
    assert!(desk.noted().contains(&Noted::Ended(left.group)));
    // With its output elsewhere it is kept as well.
    let output = call(&cx, json!({ "command": "sleep 1000 > /dev/null 2>&1 & echo done" })).await.unwrap();
    assert!(output.output.contains("background process"), "{}", output.output);
    cx.processes.stop_all(&cx.session_id).await;
}

#[tokio::test]
async fn there_is_no_input_and_no_terminal() {
    let output = bash("read -p 'pw: ' x; echo got:$x; (exec 3<>/dev/tty) 2>/dev/null && echo tty || echo none").await;
    assert_eq!(output.output, "got:\nnone\n");
}

#[tokio::test]
async fn colours_are_stripped_before_the_limits() {
    let output =
        bash(r"for i in $(seq 100); do for j in $(seq 100); do printf '\033[38;5;196m'; done; echo line$i; done").await;
    assert_eq!(output.output, (1..=100).map(|i| format!("line{i}\n")).collect::<String>());
    assert_eq!(output.truncated, Some(false));
}

#[tokio::test]
async fn a_long_output_is_cut_and_kept_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    let output = call(&cx, json!({ "command": "seq 1 3000" })).await.unwrap();
    let path = output.metadata["outputPath"].as_str().unwrap().to_owned();
    let frame = format!("...output truncated...\n\nFull output saved to: {path}\n\n1\n2\n");
    assert!(output.output.starts_with(&frame), "{}", &output.output[..200]);
    assert!(output.output.ends_with("\n2999\n3000\n"));
    assert_eq!(output.output.matches('\n').count() + 1, 2004);
    assert_eq!(output.truncated, Some(true));
    let all: String = (1..=3000).map(|i| format!("{i}\n")).collect();
    assert_eq!(std::fs::read_to_string(path).unwrap(), all);
    assert_eq!(output.metadata["output"], json!(all));
}

#[tokio::test]
async fn redrawn_lines_are_folded_and_kept_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    let output = call(&cx, json!({ "command": "seq 1 30000 | tr '\\n' '\\r'; echo" })).await.unwrap();
    let path = output.metadata["outputPath"].as_str().unwrap();
    assert!(output.output.starts_with("30000\n\n\n<shell_metadata>\n"), "{}", output.output);
    assert!(output.output.contains(&format!("Full output saved to: {path}\n")), "{}", output.output);
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 30_000);
}

/// Memory is the whole process's, so it is measured in one that does nothing else.
#[test]
fn memory_stays_bounded_whatever_is_printed() {
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["bash::tests::prints_a_lot", "--exact", "--nocapture"])
        .env("TROUPE_TEST_ALONE", "1")
        .output()
        .unwrap();
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
}

#[tokio::test]
async fn prints_a_lot() {
    if std::env::var_os("TROUPE_TEST_ALONE").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (cx, _desk) = own(dir.path());
    call(&cx, json!({ "command": "true" })).await.unwrap();
    let command = "echo HEAD-MARK; yes 0123456789 | head -c 100000000; echo; echo TAIL-MARK";
    let before = resident_kb();
    let output = call(&cx, json!({ "command": command, "timeout": 60_000 })).await.unwrap();
    assert!(output.output.contains("HEAD-MARK\n0123456789\n") && output.output.contains("TAIL-MARK"));
    assert!(output.output.contains(" lines, ") && output.output.len() < 52 * 1024);
    let file = std::fs::metadata(output.metadata["outputPath"].as_str().unwrap()).unwrap();
    assert!((64_000_000..70_000_000).contains(&file.len()), "{}", file.len());
    assert!(resident_kb() < before + 32_000, "{before} -> {}", resident_kb());
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    let running = {
        let cx = cx.clone();
        tokio::spawn(async move { call(&cx, json!({ "command": "sleep 1000 & sleep 1000" })).await })
    };
    let group = loop {
        let started =
            desk.noted().into_iter().find_map(|n| if let Noted::Started(group) = n { Some(group) } else { None });
        match started {
            Some(group) => break group,
            None => tokio::task::yield_now().await,
        }
    };
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    while !crate::process::members(group).is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Runs a line that the person typed.
async fn typed(line: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    Tool::run(&PersonsBash, PersonsInput { command: line.into() }, cx).await
}

#[tokio::test]
async fn a_persons_own_command_is_not_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = own(dir.path());
    desk.judge(|_| Err(Refusal::Rejected));
    let output = typed("echo hi", &cx).await.unwrap();
    assert_eq!((&*output.title, &*output.output), ("", "hi\n"));
    let output = typed("exit 4", &cx).await.unwrap();
    assert_eq!(output.output, "<shell_metadata>\nexit code 4\n</shell_metadata>");
    assert_eq!(metadata(&output), json!({ "output": "", "exit": 4, "truncated": false }));
    assert_eq!(typed("true", &cx).await.unwrap().output, "");
    assert_eq!(desk.asks(), []);
}

#[test]
fn the_schema_is_opencodes() {
    let wanted = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "command": { "type": "string" },
            "timeout": {
                "minimum": -9007199254740991_i64, "exclusiveMinimum": 0, "type": "integer", "maximum": 9007199254740991_i64
            },
            "workdir": { "type": "string" }
        },
        "required": ["command"]
    });
    crate::testing::assert_schema(&AnyTool::spec(&Bash).parameters, &wanted);
}
