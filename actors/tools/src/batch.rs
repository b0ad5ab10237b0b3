//! `batch`: several calls in one, side by side.
//!
//! Each asks for itself. The effects of all begin together, once none of them has anything left to ask: so after a
//! crash it is known of the whole batch whether it had begun.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use protocol::model::ToolSpec;
use protocol::question::{Answers, Question};
use protocol::{JsonMap, Todo};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};

use crate::context::{Ask, Delegated, Delegation, Desk, Effects, Progress, Refusal, ToolContext};
use crate::diagnostics::Diagnosed;
use crate::error::ToolError;
use crate::lsp::LanguageQuestion;
use crate::process::ProcessGroup;
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

const ID: &str = "batch";
/// Most calls of a batch. Source: OpenCode `tool/batch.ts`.
const MAX_CALLS: usize = 25;
/// What waits for a person by its nature, starts subagents, or is a batch itself.
const ALONE: [&str; 5] = [ID, "question", "task", "plan_enter", "plan_exit"];

/// Runs several calls in one.
pub struct Batch {
    tools: Vec<Arc<dyn AnyTool>>,
}

impl Batch {
    /// Returns a batch of these tools; those that can't be in one are left out.
    pub fn new(tools: &[Arc<dyn AnyTool>]) -> Self {
        Self { tools: tools.iter().filter(|tool| !ALONE.contains(&tool.id())).cloned().collect() }
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
struct BatchInput {
    /// The calls, 1 to 25
    tool_calls: Vec<CallInput>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CallInput {
    /// The name of the tool
    tool: String,
    /// Its arguments
    parameters: JsonMap,
}

impl AnyTool for Batch {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        let description = include_str!("batch.txt").trim().to_owned();
        ToolSpec { name: ID.into(), description, parameters: schema::<BatchInput>() }
    }

    fn traits(&self) -> Traits {
        Traits { permission: ID, changes_files: true, repeatable: false }
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.all(arguments(ID, Value::Object(input))?, cx).await })
    }
}

impl Batch {
    async fn all(&self, input: BatchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let calls = input.tool_calls;
        if calls.is_empty() || calls.len() > MAX_CALLS {
            let count = calls.len();
            return Err(ToolError::failed(format!("A batch has 1 to {MAX_CALLS} calls, this one has {count}.")));
        }
        self.check_paths(&calls)?;
        let start = Arc::new(Start { asking: watch::channel(calls.len()).0, effects: OnceCell::new() });
        let names: Vec<String> = calls.iter().map(|call| call.tool.clone()).collect();
        let results = join_all(calls.into_iter().map(|call| self.one(call, cx, &start))).await;
        told(names.into_iter().zip(results).collect())
    }

    async fn one(&self, call: CallInput, cx: &ToolContext, start: &Arc<Start>) -> Result<ToolOutput, ToolError> {
        // Dropped when the call ends: then it has nothing left to ask.
        let desk = Arc::new(BatchDesk { desk: cx.desk.clone(), start: start.clone(), asked: AtomicBool::new(false) });
        let Some(tool) = self.tool(&call.tool) else {
            let mut known: Vec<&str> = self.tools.iter().map(|tool| tool.id()).collect();
            known.sort_unstable();
            let (name, known) = (&call.tool, known.join(", "));
            return Err(ToolError::failed(format!("{name:?} can't be called in a batch. These can: {known}.")));
        };
        let cx = ToolContext { desk, ..cx.clone() };
        let input = cx.desk.before(&call.tool, call.parameters).await?;
        let output = tool.run(input.clone(), &cx).await?;
        Ok(cx.desk.after(&call.tool, input, output).await)
    }

    /// Errors when two calls would write one file: side by side their order is nobody's.
    fn check_paths(&self, calls: &[CallInput]) -> Result<(), ToolError> {
        let mut paths: Vec<String> = Vec::new();
        for call in calls {
            let Some(path) = self.tool(&call.tool).and_then(|tool| tool.serial_path(&call.parameters)) else {
                continue;
            };
            if paths.contains(&path) {
                return Err(ToolError::failed(format!(
                    "Two calls of the batch write {path}. Calls of a batch run side by side: make them one after the other."
                )));
            }
            paths.push(path);
        }
        Ok(())
    }

    fn tool(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        self.tools.iter().find(|tool| tool.id() == name)
    }
}

/// What the calls of a batch have in common.
struct Start {
    /// How many may still ask.
    asking: watch::Sender<usize>,
    effects: OnceCell<Effects>,
}

/// The desk of one call of a batch.
struct BatchDesk {
    desk: Arc<dyn Desk>,
    start: Arc<Start>,
    /// It has nothing left to ask.
    asked: AtomicBool,
}

impl BatchDesk {
    fn pass(&self) {
        if !self.asked.swap(true, Ordering::Relaxed) {
            self.start.asking.send_modify(|asking| *asking = asking.saturating_sub(1));
        }
    }
}

impl Drop for BatchDesk {
    fn drop(&mut self) {
        self.pass();
    }
}

impl Desk for BatchDesk {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        self.desk.ask(ask)
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        self.desk.question(questions)
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        async move {
            self.pass();
            let mut asking = self.start.asking.subscribe();
            // The sender lives as long as `self`.
            let _ = asking.wait_for(|asking| *asking == 0).await;
            self.start.effects.get_or_try_init(|| self.desk.begin()).await.cloned()
        }
        .boxed()
    }

    fn before<'a>(&'a self, tool: &'a str, input: JsonMap) -> BoxFuture<'a, Result<JsonMap, ToolError>> {
        self.desk.before(tool, input)
    }

    fn after<'a>(&'a self, tool: &'a str, input: JsonMap, output: ToolOutput) -> BoxFuture<'a, ToolOutput> {
        self.desk.after(tool, input, output)
    }

    fn shell_env(&self, directory: &Path) -> BoxFuture<'_, Vec<(String, String)>> {
        self.desk.shell_env(directory)
    }

    fn progress(&self, _: Progress) {
        // What clients draw is of the batch, and several calls would overwrite one another.
    }

    fn todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        self.desk.todos(todos)
    }

    fn todo_list(&self) -> BoxFuture<'_, Result<Vec<Todo>, ToolError>> {
        self.desk.todo_list()
    }

    fn hand_over<'a>(&'a self, agent: &'a str, message: String) -> BoxFuture<'a, Result<(), ToolError>> {
        self.desk.hand_over(agent, message)
    }

    fn file_edited(&self, path: &Path) {
        self.desk.file_edited(path);
    }

    fn file_read(&self, path: &Path) {
        self.desk.file_read(path);
    }

    fn diagnose(&self, written: Vec<PathBuf>) -> BoxFuture<'_, Diagnosed> {
        self.desk.diagnose(written)
    }

    fn ask_language_servers(&self, question: LanguageQuestion) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        self.desk.ask_language_servers(question)
    }

    fn delegate(&self, delegation: Delegation) -> BoxFuture<'_, Result<Delegated, ToolError>> {
        self.desk.delegate(delegation)
    }

    fn process_started(&self, group: ProcessGroup) {
        self.desk.process_started(group);
    }

    fn process_ended(&self, group: ProcessGroup) {
        self.desk.process_ended(group);
    }
}

/// Puts the results together. What ends a call of its own for good (an abort, a person who says no) ends the batch.
fn told(results: Vec<(String, Result<ToolOutput, ToolError>)>) -> Result<ToolOutput, ToolError> {
    let count = results.len();
    let mut all = ToolOutput::default();
    let mut details = Vec::with_capacity(count);
    let mut worked = 0;
    for (at, (tool, result)) in results.into_iter().enumerate() {
        let number = at + 1;
        let is_ok = result.is_ok();
        match result {
            Ok(output) => {
                worked += 1;
                let text = output.output;
                all.output.push_str(&format!("<result call=\"{number}\" tool=\"{tool}\">\n{text}\n</result>\n"));
                all.attachments.extend(output.attachments);
            }
            Err(ToolError::Aborted) => return Err(ToolError::Aborted),
            Err(ToolError::Refused(refusal)) if refusal.stops_turn() => return Err(refusal.into()),
            Err(error) => {
                all.output.push_str(&format!("<error call=\"{number}\" tool=\"{tool}\">\n{error}\n</error>\n"));
            }
        }
        details.push(json!({ "tool": tool, "success": is_ok }));
    }
    all.title = format!("Batch execution ({worked}/{count} successful)");
    let tools: Vec<Value> = details.iter().map(|detail| detail["tool"].clone()).collect();
    let metadata = json!({
        "totalCalls": count, "successful": worked, "failed": count - worked, "tools": tools, "details": details,
    });
    all.metadata = ToolOutput::new("", "", metadata).metadata;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{FakeDesk, Noted, context};

    fn batch() -> Batch {
        Batch::new(&[Arc::new(crate::read::Read), Arc::new(crate::write::Write), Arc::new(crate::question::AskPerson)])
    }

    async fn run(calls: Value) -> (Result<ToolOutput, ToolError>, Arc<FakeDesk>, tempfile::TempDir) {
        run_judged(calls, |_| Ok(())).await
    }

    async fn run_judged(
        calls: Value,
        judge: impl Fn(&Ask) -> Result<(), Refusal> + Send + Sync + 'static,
    ) -> (Result<ToolOutput, ToolError>, Arc<FakeDesk>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "hello\n").unwrap();
        let (cx, desk) = context(&dir.path().canonicalize().unwrap());
        desk.judge(judge);
        let Value::Object(input) = json!({ "tool_calls": calls }) else { unreachable!() };
        (batch().run(input, &cx).await, desk, dir)
    }

    #[tokio::test]
    async fn each_call_has_its_result_in_order_and_one_that_fails_stops_no_other() {
        let calls = json!([
            { "tool": "read", "parameters": { "filePath": "a.txt" } },
            { "tool": "read", "parameters": { "filePath": "none.txt" } },
            { "tool": "write", "parameters": { "filePath": "b.txt", "content": "x" } },
            { "tool": "question", "parameters": {} },
        ]);
        let (output, desk, dir) = run(calls).await;
        let output = output.unwrap();
        assert_eq!(output.title, "Batch execution (2/4 successful)");
        let starts: Vec<&str> = output.output.lines().filter(|line| line.contains(" call=")).collect();
        assert_eq!(
            starts,
            [
                "<result call=\"1\" tool=\"read\">",
                "<error call=\"2\" tool=\"read\">",
                "<result call=\"3\" tool=\"write\">",
                "<error call=\"4\" tool=\"question\">",
            ]
        );
        assert!(output.output.contains("1: hello") && output.output.contains("can't be called in a batch"));
        assert_eq!((output.metadata["failed"].as_u64(), desk.begun()), (Some(2), 1));
        assert!(dir.path().join("b.txt").exists());
    }

    #[tokio::test]
    async fn nothing_begins_before_the_last_has_asked() {
        let calls = json!([
            { "tool": "write", "parameters": { "filePath": "b.txt", "content": "x" } },
            { "tool": "write", "parameters": { "filePath": "c.txt", "content": "x" } },
        ]);
        let noted = run(calls).await.1.noted();
        let began = noted.iter().position(|n| *n == Noted::Began).unwrap();
        let asked = noted.iter().rposition(|n| matches!(n, Noted::Asked(_))).unwrap();
        assert!(asked < began, "{noted:?}");
    }

    #[tokio::test]
    async fn a_person_who_says_no_ends_the_batch() {
        let calls = json!([{ "tool": "write", "parameters": { "filePath": "b.txt", "content": "x" } }]);
        let (output, ..) = run_judged(calls, |_| Err(Refusal::Rejected)).await;
        assert!(matches!(output, Err(ToolError::Refused(Refusal::Rejected))));
    }

    #[tokio::test]
    async fn a_batch_that_makes_no_sense_is_refused_whole() {
        let write = json!({ "tool": "write", "parameters": { "filePath": "b.txt", "content": "x" } });
        for (calls, said) in [
            (json!([]), "1 to 25"),
            (Value::Array(vec![write.clone(); 26]), "1 to 25"),
            (json!([write, write]), "write b.txt"),
        ] {
            let (output, desk, _dir) = run(calls).await;
            let error = output.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(desk.noted(), []);
        }
    }
}
