//! Measures `grep` and `glob` against ripgrep, in pairs on the same tree, and how fast an abort ends them.
//!
//! `cargo run --release -p tools --example search_pairs -- DIRECTORY [FILES] [ROUNDS]`
//!
//! Makes a tree of FILES files (100,000) below DIRECTORY unless it is there, runs each ROUNDS times (5) in turn with
//! `rg` from PATH, and ends with 1 if a median is more than 1.5 times ripgrep's or an abort takes over 100 ms.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use protocol::{CallId, JsonMap, MessageId, SessionId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::files::Files;
use tools::glob::Glob;
use tools::grep::Grep;
use tools::process::Processes;
use tools::{AnyTool, Ask, Desk, Effects, Place, Refusal, ToolContext, ToolError};

/// Most that a median may be of ripgrep's.
const RATIO: f64 = 1.5;
/// Most time of an abort.
const ABORT: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let Some(root) = arguments.next().map(PathBuf::from) else {
        eprintln!("give a directory to make the tree in");
        return ExitCode::from(2);
    };
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (files, rounds) = (number(100_000), number(5));
    std::fs::create_dir_all(&root).expect("a directory");
    let root = root.canonicalize().expect("a directory");
    make(&root, files);

    let mut is_good = true;
    for (name, tool, input, rg) in kinds() {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        // The first round fills the kernel's caches and does not count.
        for round in 0..=rounds {
            let (their_time, own_time) = (ripgrep(&root, rg), timed(&root, &*tool, input.clone()).await);
            if round > 0 {
                theirs.push(their_time);
                own.push(own_time);
            }
        }
        let (own, theirs) = (median(own), median(theirs));
        let ratio = own.as_secs_f64() / theirs.as_secs_f64();
        is_good &= ratio <= RATIO;
        println!("{name}: {own:.1?}, rg {theirs:.1?}, ratio {ratio:.2}");

        let (mut returned, mut freed) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let after = own.mul_f64((round + 1) as f64 / (rounds + 1) as f64);
            let (call, threads) = aborted(&root, tool.clone(), input.clone(), after).await;
            returned.push(call);
            freed.push(threads);
        }
        let (returned, freed) = (longest(&returned), longest(&freed));
        is_good &= returned <= ABORT && freed <= ABORT;
        println!("{name}, aborted: the call ends within {returned:.1?}, its threads within {freed:.1?}");
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Kind = (&'static str, Arc<dyn AnyTool>, JsonMap, &'static [&'static str]);

fn kinds() -> [Kind; 3] {
    let input = |value: Value| if let Value::Object(map) = value { map } else { JsonMap::new() };
    [
        (
            "grep, few matches",
            Arc::new(Grep),
            input(json!({ "pattern": "needle_[a-z]+_\\d+" })),
            &["-n", "--hidden", "needle_[a-z]+_\\d+"],
        ),
        (
            "grep, no match",
            Arc::new(Grep),
            input(json!({ "pattern": "there is nothing like this" })),
            &["-n", "--hidden", "there is nothing like this"],
        ),
        (
            "glob",
            Arc::new(Glob),
            input(json!({ "pattern": "**/*needle*" })),
            &["--files", "--hidden", "--glob", "**/*needle*"],
        ),
    ]
}

/// Makes a tree of small sources: a hundred a directory, three directories deep.
fn make(root: &Path, files: usize) {
    let mark = root.join(format!(".made-{files}"));
    if mark.exists() {
        return;
    }
    eprintln!("making {files} files below {}", root.display());
    std::fs::create_dir_all(root.join(".git")).expect("a directory");
    std::fs::write(root.join(".gitignore"), "*.log\ntarget/\n").expect("a file");
    let line = "    let value = compute(index, other) + offset; // as in the table above\n";
    for number in 0..files {
        let directory = root.join(format!("a{}/b{}/c{}", number / 10_000, number / 1_000 % 10, number / 100 % 10));
        if number % 100 == 0 {
            std::fs::create_dir_all(&directory).expect("a directory");
        }
        let mut text = line.repeat(5 + number % 40);
        if number % 5_000 == 17 {
            text.push_str(&format!("needle_here_{number}\n"));
        }
        let name = if number % 5_000 == 18 { format!("needle{number}.rs") } else { format!("file{number}.rs") };
        std::fs::write(directory.join(name), text).expect("a file");
    }
    std::fs::write(mark, "").expect("a file");
}

fn ripgrep(root: &Path, arguments: &[&str]) -> Duration {
    let began = Instant::now();
    let status = Command::new("rg").args(arguments).current_dir(root).stdout(Stdio::null()).status().expect("rg");
    assert!(status.code().is_some_and(|code| code <= 1), "rg failed");
    began.elapsed()
}

async fn timed(root: &Path, tool: &dyn AnyTool, input: JsonMap) -> Duration {
    let cx = context(root, Files::default());
    let began = Instant::now();
    tool.run(input, &cx).await.expect("a result");
    began.elapsed()
}

/// Aborts a search after a while. Returns how long the call took to end then, and how long until another search of
/// the same kind, one of very few at once, has its place and its processor.
async fn aborted(root: &Path, tool: Arc<dyn AnyTool>, input: JsonMap, after: Duration) -> (Duration, Duration) {
    let files = Files::default();
    let cx = context(root, files.clone());
    let cancel = cx.cancel.clone();
    let search = tokio::spawn(async move { tool.run(input, &cx).await });
    tokio::time::sleep(after).await;
    let began = Instant::now();
    cancel.cancel();
    let _ = search.await.expect("no panic");
    let returned = began.elapsed();
    while files.locks().searches() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (returned, began.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn longest(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

fn context(root: &Path, files: Files) -> ToolContext {
    let place = Place {
        directory: root.to_owned(),
        worktree: root.to_owned(),
        is_repository: true,
        spill: root.join(".spill"),
        config: Arc::default(),
    };
    ToolContext {
        session_id: SessionId::parse("ses_1").expect("an id"),
        message_id: MessageId::parse("msg_1").expect("an id"),
        call_id: CallId::new("1"),
        agent: String::new(),
        place: Arc::new(place),
        desk: Arc::new(Yes),
        cancel: CancellationToken::new(),
        files,
        processes: Processes::none(),
        http: reqwest::Client::new(),
        plan: root.join("plan.md"),
    }
}

/// A desk that allows everything.
struct Yes;

impl Desk for Yes {
    fn ask(&self, _: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        Box::pin(async { Ok(Effects::stored()) })
    }
}
