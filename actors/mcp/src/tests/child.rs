use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use protocol::question::{Answers, Question};
use tools::{Ask, Desk, Effects, Refusal, ToolError};

use super::*;
use crate::error::CallError;
use crate::testing::{Later, Log, ScriptedTool};

#[tokio::test]
async fn a_child_lists_its_tools_and_takes_calls_side_by_side() {
    let script = Script {
        tools: vec![
            ScriptedTool { name: "slow".into(), text: Some("slow one".into()), sleep_ms: 200, ..Default::default() },
            ScriptedTool { name: "echo".into(), ..Default::default() },
            ScriptedTool {
                name: "fail".into(),
                result: Some(json!({ "isError": true, "content": [{ "type": "text", "text": "it failed" }] })),
                ..Default::default()
            },
        ],
        ..Script::default()
    };
    let connection = connected(&script).await;
    let offers = connection.offers().await.unwrap();
    assert_eq!(offers.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["slow", "echo", "fail"]);
    let (slow, quick) =
        tokio::join!(call(&connection, "slow", json!({})), call(&connection, "echo", json!({ "a": [1, "ä"] })));
    assert_eq!((slow.as_deref(), quick.as_deref()), (Ok("slow one"), Ok(r#"{"a":[1,"ä"]}"#)));
    assert_eq!(call(&connection, "fail", json!({})).await, Err("it failed".into()));
    assert!(call(&connection, "gone", json!({})).await.unwrap_err().contains("no such tool"));
    assert!(connection.is_alive().await);
}

#[tokio::test]
async fn lists_come_page_by_page_and_one_bad_tool_never_takes_the_others() {
    let broken = vec![
        json!({ "description": "without a name" }),
        json!({ "name": 7 }),
        json!({ "name": "no_schema" }),
        json!({ "name": "odd_schema", "inputSchema": [1, 2], "annotations": "none", "icons": 5 }),
        json!(null),
    ];
    for paged in [false, true] {
        let script = Script { broken_tools: broken.clone(), paged, ..Script::tools([("one", "1"), ("two", "2")]) };
        let tools = connected(&script).await.tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "no_schema", "odd_schema"], "paged: {paged}");
    }
}

#[tokio::test]
async fn a_changed_list_is_noticed() {
    let script = Script {
        later: Some(Later { after: "one".into(), tools: vec![ScriptedTool::new("late", "late text")] }),
        ..Script::tools([("one", "1")])
    };
    let connection = connected(&script).await;
    call(&connection, "one", json!({})).await.unwrap();
    assert_eq!(tokio::time::timeout(LIMIT, connection.changed()).await, Ok(Changed::Tools));
    assert_eq!(connection.tools().await.unwrap().len(), 2);
    assert_eq!(call(&connection, "late", json!({})).await.as_deref(), Ok("late text"));
}

#[tokio::test]
async fn junk_is_counted_and_megabytes_of_errors_hold_nothing_up() {
    let script = Script { junk: true, stderr_mb: 10, ..Script::tools([("ok", "fine")]) };
    let target = target(&script.local(CHILD));
    let connection = connect(&target, &environment()).await.unwrap();
    assert_eq!(call(&connection, "ok", json!({})).await.as_deref(), Ok("fine"));
    assert_eq!(call(&connection, "ok", json!({})).await.as_deref(), Ok("fine"));
    assert!(target.counters.junk() >= 9, "{}", target.counters.junk());
}

#[tokio::test]
async fn prompts_and_resources_are_listed_and_read() {
    let script = Script {
        prompts: vec![
            json!({ "name": "hey", "description": "a prompt", "arguments": [{ "name": "who", "required": true }, { "no": "name" }] }),
            json!({}),
        ],
        resources: vec![json!({ "uri": "demo://r", "name": "r", "mimeType": "text/plain" }), json!({ "name": "lost" })],
        ..Script::default()
    };
    let connection = connected(&script).await;
    let offers = connection.offers().await.unwrap();
    assert_eq!(offers.prompts.len(), 1);
    assert_eq!(
        (offers.prompts[0].arguments[0].name.as_str(), offers.prompts[0].arguments[0].is_required),
        ("who", true)
    );
    assert_eq!(offers.resources.iter().map(|r| r.uri.as_str()).collect::<Vec<_>>(), ["demo://r"]);
    assert_eq!(crate::result::resource(&connection.read_resource("demo://r").await.unwrap()).text, "resource text");
    let Value::Object(arguments) = json!({ "who": "Ada" }) else { unreachable!() };
    assert_eq!(crate::result::prompt(&connection.prompt("hey", arguments).await.unwrap()).text, r#"hey {"who":"Ada"}"#);
}

#[tokio::test]
async fn progress_reaches_the_calls_own_desk() {
    let tool = |name: &str| ScriptedTool {
        name: name.into(),
        text: Some("done".into()),
        progress: vec![(1.0, format!("{name} half")), (2.0, format!("{name} all"))],
        sleep_ms: 100,
        ..Default::default()
    };
    let connection = connected(&Script { tools: vec![tool("a"), tool("b")], ..Script::default() }).await;
    let (a, b) = (FakeDesk::new(), FakeDesk::new());
    let (first, second) = tokio::join!(
        call_with(&connection, "a", JsonMap::new(), a.clone()),
        call_with(&connection, "b", JsonMap::new(), b.clone())
    );
    assert!(first.is_ok() && second.is_ok());
    for (desk, name) in [(a, "a"), (b, "b")] {
        let told = desk.progress.borrow().clone();
        let titles: Vec<_> = told.iter().filter_map(|progress| progress.title.clone()).collect();
        // Two notices are two tasks of the SDK; their order is not told.
        assert!(titles.len() == 2 && titles.iter().all(|title| title.starts_with(name)), "{titles:?}");
        assert_eq!(told[0].metadata["total"], 2.0);
    }
}

#[tokio::test]
async fn what_a_server_asks_goes_to_the_person_and_the_answers_back() {
    let form = json!({ "message": "Which size?", "requestedSchema": { "type": "object", "properties": {
        "size": { "type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"] },
        "count": { "type": "integer" }, "note": { "type": "string" }
    }, "required": ["size", "count"] } });
    let tool = ScriptedTool { name: "order".into(), elicit: Some(form), ..Default::default() };
    let connection = connected(&Script { tools: vec![tool], ..Script::default() }).await;
    let desk = FakeDesk::new();
    desk.reply(|questions| {
        let answer = |header: &str| {
            if header == "size" {
                vec!["Large".to_owned()]
            } else if header == "count" {
                vec!["3".into()]
            } else {
                vec![]
            }
        };
        Ok(questions.iter().map(|question| answer(&question.header)).collect())
    });
    let answer = call_with(&connection, "order", JsonMap::new(), desk.clone()).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, json!({ "action": "accept", "content": { "size": "l", "count": 3 } }));
    let asked = desk.questions.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|question| question.header.as_str()).collect::<Vec<_>>(), ["size", "count", "note"]);
    assert!(asked[0].question.contains("MCP server srv") && asked[0].question.contains("Which size?"));
    // Nobody answers: the server hears that too.
    let answer = call(&connection, "order", json!({})).await.unwrap();
    assert!(answer.contains("cancel"), "{answer}");
}

#[tokio::test]
async fn a_stopped_call_is_told_to_the_server_and_so_is_a_forgotten_one() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::new(dir.path());
    let hangs = ScriptedTool { name: "hang".into(), hangs: true, ..Default::default() };
    let script =
        Script { tools: vec![hangs, ScriptedTool::new("ok", "fine")], log: Some(log.path()), ..Script::default() };
    let connection = connected(&script).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let stopping = async {
        log.until(1, "tools/call").await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(connection.call("hang", JsonMap::new(), FakeDesk::new(), None, &cancel), stopping);
    assert_eq!(result, Err(CallError::Cancelled));
    log.until(1, "notifications/cancelled").await;

    let never = CancellationToken::new();
    let forgotten = connection.call("hang", JsonMap::new(), FakeDesk::new(), None, &never);
    tokio::select! {
        _ = forgotten => panic!("it never answers"),
        () = log.until(2, "tools/call") => {}
    }
    log.until(2, "notifications/cancelled").await;
    // A call that was answered is not cancelled.
    call(&connection, "ok", json!({})).await.unwrap();
    assert!(connection.is_alive().await);
    log.until(1, "ping").await;
    assert_eq!(log.count("notifications/cancelled"), 2);
}

#[tokio::test]
async fn a_server_that_dies_fails_its_open_calls_and_those_answered_keep_their_answers() {
    let dir = tempfile::tempdir().unwrap();
    let script = Script {
        die_after: Some((2, dir.path().join("died"))),
        ..Script::tools([("one", "1"), ("two", "2"), ("three", "3")])
    };
    let connection = connected(&script).await;
    let results = tokio::join!(
        call(&connection, "one", json!({})),
        call(&connection, "two", json!({})),
        call(&connection, "three", json!({}))
    );
    let results = [results.0, results.1, results.2];
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2, "{results:?}");
    let lost = results.iter().find_map(|result| result.as_ref().err()).unwrap();
    assert_eq!(*lost, CallError::Lost.to_string());
    tokio::time::timeout(LIMIT, connection.closed()).await.unwrap();
    assert!(!connection.is_alive().await);
    assert_eq!(call(&connection, "one", json!({})).await, Err(CallError::Lost.to_string()));
}

#[tokio::test]
async fn why_a_child_did_not_start_is_told() {
    let problem = |entry: Value| async move { connect(&target(&entry), &environment()).await.unwrap_err() };
    let gone = problem(json!({ "type": "local", "command": ["/no/such"] })).await;
    assert!(gone.is_final() && gone.to_string().contains("/no/such"), "{gone}");
    let nowhere = problem(json!({ "type": "local", "command": ["true"], "cwd": "/no/such" })).await;
    assert!(nowhere.to_string().contains("is no directory"), "{nowhere}");

    let script = Script { crash: true, last_words: "the key hunter2 is wrong".into(), ..Script::default() };
    let mut entry = script.local(CHILD);
    entry["environment"]["KEY"] = json!("hunter2");
    let crashed = problem(entry).await;
    assert!(!crashed.is_final());
    assert_eq!(crashed.to_string(), "it ended before it was ready (exit code 3); it said: the key *** is wrong");

    let silent = problem(json!({ "type": "local", "command": ["true"] })).await;
    assert!(matches!(silent, ConnectError::Ended { said: None, .. }), "{silent}");
}

/// A desk where somebody takes their time.
struct Slow(Duration);

impl Desk for Slow {
    fn ask(&self, _: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }

    fn question(&self, _: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(vec![vec!["Accept".into()]])
        })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        Box::pin(async { Ok(Effects::stored()) })
    }
}

#[tokio::test]
async fn a_call_that_stays_silent_too_long_is_given_up_but_not_while_it_shows_progress_or_asks() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::new(dir.path());
    let silence = Duration::from_secs(2);
    let half = silence.as_millis() as u64 / 2;
    let progress = (1..=3).map(|n| (f64::from(n), String::new())).collect();
    let script = Script {
        tools: vec![
            ScriptedTool { hangs: true, ..ScriptedTool::new("hang", "") },
            ScriptedTool { progress, every_ms: half, ..ScriptedTool::new("busy", "ended") },
            ScriptedTool { elicit: Some(json!({ "message": "May I?" })), ..ScriptedTool::new("ask", "") },
        ],
        log: Some(log.path()),
        ..Script::default()
    };
    let connection = connected(&script).await;
    let never = CancellationToken::new();
    let desk: Arc<dyn Desk> = Arc::new(Slow(silence + silence / 2));
    let call = |tool| connection.call(tool, JsonMap::new(), desk.clone(), Some(silence), &never);
    // What is asked over pipes belongs to the call that began last.
    let (hanging, busy, asking) = tokio::join!(call("hang"), call("busy"), call("ask"));
    assert_eq!(hanging, Err(CallError::Silent { limit_ms: 2_000 }));
    let text = |result: Result<Value, CallError>| crate::result::shape(&result.unwrap()).unwrap().text;
    assert_eq!(text(busy), "ended");
    assert!(text(asking).contains("accept"));
    log.until(1, "notifications/cancelled").await;
    assert_eq!(log.count("notifications/cancelled"), 1);
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_call_alone() {
    let huge = ScriptedTool { name: "huge".into(), text_bytes: 40_000_000, ..Default::default() };
    let large = ScriptedTool { name: "large".into(), text_bytes: 5_000_000, ..Default::default() };
    let script = Script { tools: vec![huge, large], ..Script::default() };
    let connection = connected(&script).await;
    assert_eq!(call(&connection, "large", json!({})).await.unwrap().len(), 5_000_000);
    let error = call(&connection, "huge", json!({})).await.unwrap_err();
    assert!(error.contains("larger than 32 MiB"), "{error}");
    assert!(connection.is_alive().await);
}

#[tokio::test]
async fn nothing_of_a_server_is_left_when_its_connection_is_dropped() {
    let marker = format!("troupe-mcp-{:08x}", rand::random::<u32>());
    let script = Script { stay: true, ..Script::tools([("ok", "fine")]) };
    let mut entry = script.wrapped(CHILD);
    // Seen in the command line of the shell and of the server.
    let command = entry["command"][2].as_str().unwrap().replace("; true", &format!(" {marker}; true"));
    entry["command"][2] = json!(command);
    let alive = || {
        let is_ours = |entry: &std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&marker)
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter(is_ours).count()
    };
    let connection = connect(&target(&entry), &environment()).await.unwrap();
    assert_eq!(call(&connection, "ok", json!({})).await.as_deref(), Ok("fine"));
    assert_eq!(alive(), 2);
    drop(connection);
    until("processes are left", || alive() == 0).await;
}
