//! What a running call asks of the runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use futures::FutureExt;
use futures::future::BoxFuture;
use protocol::prompt::PromptBody;
use protocol::question::{Answers, Question};
use protocol::{Event, JsonMap, PartId, SessionId, Todo};
use serde_json::{Value, json};
use storage::journal::ProcessRow;
use storage::{Ack, Change, JournalError, Record};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tools::diagnostics::Diagnosed;
use tools::lsp::LanguageQuestion;
use tools::process::{ProcessGroup, RecordedGroup};
use tools::{Ask, Delegation, Desk, Effects, Progress, Refusal, ToolError, ToolOutput};

use super::hooks;
use super::limits::Signals;
use super::order::Place;
use super::{Call, ExecutorDeps, StepSnapshot};
use crate::language_servers::{AskServers, Diagnose, LanguageServers, Touch};
use crate::permission_broker::{self as broker, Asker};
use crate::session::StopReason;
use crate::session_registry::{AbortSession, AwaitTurn, LastWords, Until};
use crate::workspace::languages::GetLanguageServers;
use crate::workspace::{Freshness, TakeSnapshot};

/// How long a call waits before it asks a broker again that went away.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The snapshot before a step's first effects: taken once, by whichever call comes first.
pub struct SnapshotGate {
    taken: OnceCell<Option<String>>,
    freshness: Freshness,
}

impl SnapshotGate {
    /// Returns a gate. `freshness` says whether the last snapshot may stand for it.
    pub fn new(freshness: Freshness) -> Self {
        Self { taken: OnceCell::new(), freshness }
    }
}

/// Start a subagent for a call, or find the one it started before a crash. Stored when answered.
#[derive(Message)]
#[rtype(result = "Result<Delegated, ToolError>")]
pub struct Delegate {
    /// The call's message.
    pub message_id: protocol::MessageId,
    /// The call's part, which then names the subagent's session.
    pub part_id: PartId,
    /// What it is told.
    pub delegation: Delegation,
    /// Most time its turn may take, where nobody waits for it.
    pub limit: Option<Duration>,
}

/// Give the session's next step to another agent, with a message for it. Stored when answered; given twice for one
/// call it is one message.
#[derive(Message)]
#[rtype(result = "Result<(), ToolError>")]
pub struct HandOver {
    /// The call's part.
    pub part_id: PartId,
    /// The agent.
    pub agent: String,
    /// What it is told.
    pub message: String,
}

/// A subagent that works.
#[derive(Clone, Debug)]
pub struct Delegated {
    /// Its session.
    pub session_id: SessionId,
    /// The prompt it answers.
    pub message_id: protocol::MessageId,
    /// The prompt itself, where it is still to be given.
    pub prompt: Option<Box<PromptBody>>,
}

/// What a running call asks of the runtime.
#[derive(Clone)]
pub struct CallDesk {
    deps: ExecutorDeps,
    asker: Asker,
    part_id: PartId,
    gate: Arc<super::SnapshotGate>,
    changes_files: bool,
    /// Most time of a subagent.
    task_limit: Option<Duration>,
    cancel: CancellationToken,
    place: Place,
    waiting: Arc<watch::Sender<usize>>,
    progress: Arc<watch::Sender<Progress>>,
}

impl CallDesk {
    /// Returns the desk of a call, and what it signals.
    pub fn new(deps: ExecutorDeps, call: &Call, cancel: CancellationToken, place: Place) -> (Self, Signals) {
        let (waiting, waits) = watch::channel(0);
        let (progress, progresses) = watch::channel(Progress::default());
        let desk = Self {
            deps,
            asker: call.asker.clone(),
            part_id: call.part_id.clone(),
            gate: call.gate.clone(),
            changes_files: call.tool.traits().changes_files,
            task_limit: Some(call.place.config.troupe.task.timeout_ms).filter(|ms| *ms > 0).map(Duration::from_millis),
            cancel,
            place,
            waiting: Arc::new(waiting),
            progress: Arc::new(progress),
        };
        (desk, Signals { waiting: waits, progress: progresses })
    }

    /// Asks whether the same call may run yet again.
    pub async fn ask_about_loop(&self, call: &Call) -> Result<(), ToolError> {
        let tool = call.tool.id().to_owned();
        let metadata = JsonMap::from_iter([
            ("tool".to_owned(), json!(tool)),
            ("input".to_owned(), Value::Object(call.input.clone())),
        ]);
        let ask = Ask::new("doom_loop", vec![tool.clone()], vec![tool], metadata);
        let _alone = self.place.ask_about_loop().await;
        Ok(self.ask_broker(ask, false).await?)
    }

    async fn ask_broker(&self, ask: Ask, names_call: bool) -> Result<(), Refusal> {
        let _waits = Waits::new(&self.waiting);
        self.place.reached().await;
        loop {
            let (answer, verdict) = oneshot::channel();
            let message = broker::Ask { asker: self.asker.clone(), ask: ask.clone(), names_call, answer };
            let sent = self.deps.broker.send(message).await;
            self.place.pass();
            match (sent, verdict.await) {
                (Ok(()), Ok(verdict)) => return verdict,
                // Nobody decided: the broker fell, or the session moved on and this call will be dropped.
                _ => self.pause().await?,
            }
        }
    }

    async fn pause(&self) -> Result<(), Refusal> {
        tokio::select! {
            () = self.cancel.cancelled() => Err(Refusal::Withdrawn),
            () = tokio::time::sleep(ASK_AGAIN) => Ok(()),
        }
    }

    fn record(&self, changes: Vec<Change>) -> Ack {
        let (fence, origin) = (Some(self.asker.fence.clone()), self.asker.origin.clone());
        self.deps.journal.record(Record { fence, origin, changes, room: None })
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: one for each step")]
    async fn snapshot_before_effects(&self) {
        let gate = &self.gate;
        let take = || async {
            let taken = self.deps.workspace.send(TakeSnapshot { freshness: gate.freshness }).await;
            let tree = taken.ok().flatten();
            let message_id = self.asker.message_id.clone();
            self.deps.session.snapshot.do_send(StepSnapshot { message_id, tree: tree.clone() });
            tree
        };
        gate.taken.get_or_init(take).await;
    }

    fn process_row(&self, group: ProcessGroup) -> ProcessRow {
        let RecordedGroup { boot_id, started, .. } = RecordedGroup::of(group);
        ProcessRow { pgid: group.0, boot_id, session_id: self.asker.fence.session_id.clone(), started }
    }
}

impl Desk for CallDesk {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        self.ask_broker(ask, true).boxed()
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, Refusal>> {
        async move {
            let _waits = Waits::new(&self.waiting);
            loop {
                let (answer, answers) = oneshot::channel();
                let (asker, questions) = (self.asker.clone(), questions.clone());
                let sent = self.deps.broker.send(broker::AskQuestions { asker, questions, answer }).await;
                match (sent, answers.await) {
                    (Ok(()), Ok(answers)) => return answers,
                    _ => self.pause().await?,
                }
            }
        }
        .boxed()
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        async move {
            self.place.pass();
            if self.changes_files {
                self.snapshot_before_effects().await;
            }
            let started = Change::CallStarted(self.asker.fence.session_id.clone(), self.part_id.clone());
            match self.record(vec![started]).await {
                Ok(()) => Ok(Effects::stored()),
                Err(JournalError::Stale | JournalError::Poisoned(_) | JournalError::Closed) => Err(ToolError::Aborted),
                Err(error) => Err(ToolError::failed(format!("the call was not run: {error}"))),
            }
        }
        .boxed()
    }

    fn progress(&self, progress: Progress) {
        self.progress.send_replace(progress);
    }

    fn before<'a>(&'a self, tool: &'a str, input: JsonMap) -> BoxFuture<'a, Result<JsonMap, ToolError>> {
        hooks::before(&self.asker, tool, input).boxed()
    }

    fn after<'a>(&'a self, tool: &'a str, input: JsonMap, output: ToolOutput) -> BoxFuture<'a, ToolOutput> {
        hooks::after(&self.asker, tool, input, output).boxed()
    }

    fn shell_env(&self, directory: &Path) -> BoxFuture<'_, Vec<(String, String)>> {
        let directory = directory.to_owned();
        async move { hooks::shell_env(&self.asker, &directory).await }.boxed()
    }

    fn todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        let change = Change::Todos(self.asker.fence.session_id.clone(), todos);
        let stored = self.record(vec![change]);
        async move { stored.await.map_err(|error| ToolError::failed(format!("the list was not stored: {error}"))) }
            .boxed()
    }

    fn todo_list(&self) -> BoxFuture<'_, Result<Vec<Todo>, ToolError>> {
        async move {
            let list = self.deps.store.todos(&self.asker.fence.session_id).await;
            list.map_err(|error| ToolError::failed(format!("the list could not be read: {error}")))
        }
        .boxed()
    }

    fn hand_over<'a>(&'a self, agent: &'a str, message: String) -> BoxFuture<'a, Result<(), ToolError>> {
        let told = HandOver { part_id: self.part_id.clone(), agent: agent.to_owned(), message };
        let told = self.deps.session.hand_over.send(told);
        async move { told.await.map_err(|_| ToolError::failed("the session that called is gone"))? }.boxed()
    }

    fn file_edited(&self, path: &Path) {
        let event = Event::FileEdited { file: path.to_string_lossy().into_owned() };
        self.record(vec![Change::Notice(event)]).detach();
    }

    fn file_read(&self, path: &Path) {
        let (desk, path) = (self.clone(), path.to_owned());
        self.deps.io.spawn(async move {
            if let Some(servers) = desk.language_servers(vec![path.clone()]).await {
                let _ = servers.send(Touch(path)).await;
            }
        });
    }

    fn diagnose(&self, written: Vec<PathBuf>) -> BoxFuture<'_, Diagnosed> {
        async move {
            match self.language_servers(written.clone()).await {
                // A fall on the way is no reason to hold the edit up, or to fail it.
                Some(servers) => servers.send(Diagnose(written)).await.unwrap_or_default(),
                None => Diagnosed::default(),
            }
        }
        .boxed()
    }

    fn ask_language_servers(&self, question: LanguageQuestion) -> BoxFuture<'_, Result<Vec<Value>, ToolError>> {
        async move {
            let none = || lsp::LspError::NoServer { path: question.path.clone() };
            let answer = match self.language_servers(vec![question.path.clone()]).await {
                Some(servers) => servers.send(AskServers(question)).await,
                None => Ok(Err(none())),
            };
            let fell = |_| ToolError::failed("the language servers fell while they were asked; ask again");
            answer.map_err(fell)?.map_err(|error| ToolError::failed(error.to_string()))
        }
        .boxed()
    }

    fn process_started(&self, group: ProcessGroup) {
        self.record(vec![Change::ProcessStarted(self.process_row(group))]).detach();
    }

    fn process_ended(&self, group: ProcessGroup) {
        // Also when the session has moved on: the row is of the process, not of the turn.
        let (origin, changes) = (self.asker.origin.clone(), vec![Change::ProcessEnded(self.process_row(group))]);
        self.deps.journal.record(Record { fence: None, origin, changes, room: None }).detach();
    }

    fn delegate(&self, delegation: Delegation) -> BoxFuture<'_, Result<tools::Delegated, ToolError>> {
        async move {
            let gone = || ToolError::failed("the session that called is gone");
            let (message_id, part_id) = (self.asker.message_id.clone(), self.part_id.clone());
            let in_background = delegation.background;
            let started =
                self.deps.session.delegate.send(Delegate { message_id, part_id, delegation, limit: self.task_limit });
            let Delegated { session_id, message_id, prompt } = started.await.map_err(|_| gone())??;
            let until = if in_background { Until::Begun } else { Until::Ended };
            let limit = async {
                match self.task_limit {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            let wait = AwaitTurn { session_id: session_id.clone(), message_id, prompt, until };
            let answer = tokio::select! {
                // The subagent stops with its parent; nobody waits for how it ends.
                () = self.cancel.cancelled() => {
                    self.stop(&session_id).await;
                    return Err(ToolError::Aborted);
                }
                () = limit => Err(self.out_of_time(wait).await),
                words = self.last_words(&wait) => {
                    let LastWords { text, error } = words?;
                    error.map_or(Ok(text), Err)
                }
            };
            Ok(tools::Delegated { session_id, answer })
        }
        .boxed()
    }
}

impl CallDesk {
    async fn language_servers(&self, paths: Vec<PathBuf>) -> Option<Addr<LanguageServers>> {
        self.deps.workspace.send(GetLanguageServers(paths)).await.ok().flatten()
    }

    /// Waits for the end of a subagent's turn, through all falls of its actor.
    async fn last_words(&self, wait: &AwaitTurn) -> Result<LastWords, ToolError> {
        loop {
            match self.deps.session.wait.send(wait.clone()).await {
                Ok(words) => return words.map_err(|error| ToolError::failed(error.to_string())),
                Err(_) => self.pause().await?,
            }
        }
    }

    async fn stop(&self, session: &SessionId) {
        let _ =
            self.deps.session.stop.send(AbortSession { session_id: session.clone(), reason: StopReason::Asked }).await;
    }

    /// Stops a subagent that took too long; returns what is to be said of it.
    async fn out_of_time(&self, wait: AwaitTurn) -> String {
        self.stop(&wait.session_id).await;
        let said = match self.last_words(&AwaitTurn { prompt: None, ..wait }).await {
            Ok(words) if !words.text.trim().is_empty() => format!(" What it had said:\n{}", words.text),
            _ => String::new(),
        };
        let seconds = self.task_limit.unwrap_or_default().as_secs();
        format!("It did not end within its time limit of {seconds} s and was stopped.{said}")
    }
}

/// Counts a wait for a person as long as it lives.
struct Waits<'a>(&'a watch::Sender<usize>);

impl<'a> Waits<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|waiting| *waiting += 1);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}
