//! Runs tool calls: side by side, but those on one path one after the other; with a time limit that stands still
//! while a person is waited for, a bounded output, and an abort that reaches child processes. One for each session
//! with work, part of the session's unit.
//! Told by: its session. Talks to: the broker (asks), the journal (a call's effects begin), the workspace (the
//! snapshot before them). Answers: its session, once for each call.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use protocol::part::FilePart;
use protocol::{CallId, Clock, Ids, JsonMap, MessageId, PartId, SessionId};
use storage::Journal;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tools::files::Files;
use tools::process::Processes;
use tools::{AnyTool, ToolError};

use crate::faults::Faults;
use crate::permission_broker::{Asker, PermissionBroker};
use crate::workspace::Workspace;

pub(crate) mod bounds;
mod desk;
mod hooks;
mod limits;
mod order;

use desk::CallDesk;
pub use desk::{Delegate, Delegated, HandOver, SnapshotGate};
use order::{Order, Place};

/// How long aborted calls have to end by themselves. What is left of them is killed behind that.
const ABORT_GRACE: Duration = Duration::from_millis(700);

/// What an executor is made with.
#[derive(Clone)]
pub struct ExecutorDeps {
    /// Where asks go.
    pub broker: Addr<PermissionBroker>,
    /// Where the beginning of effects is stored.
    pub journal: Journal,
    /// Where to-do lists are read.
    pub store: storage::Store,
    /// Where snapshots are taken.
    pub workspace: Addr<Workspace>,
    /// Where calls run.
    pub io: Handle,
    /// Dates what is stored.
    pub clock: Arc<dyn Clock>,
    /// Names spill files.
    pub ids: Arc<Ids>,
    /// Starts child processes.
    pub processes: Processes,
    /// For fetches.
    pub http: reqwest::Client,
    /// The session's view of files.
    pub files: Files,
    /// Fault points of test builds.
    pub faults: Faults,
    /// The session's ways to hear of calls.
    pub session: SessionLine,
}

/// The session's ways to hear of calls.
#[derive(Clone)]
pub struct SessionLine {
    /// A call has ended.
    pub ended: Recipient<CallEnded>,
    /// A call shows how far it is.
    pub progress: Recipient<CallProgress>,
    /// The snapshot before the step's first effects was taken.
    pub snapshot: Recipient<StepSnapshot>,
    /// A call wants a subagent.
    pub delegate: Recipient<Delegate>,
    /// A call gives the next step to another agent.
    pub hand_over: Recipient<HandOver>,
    /// A subagent's turn is waited for.
    pub wait: Recipient<crate::session_registry::AwaitTurn>,
    /// A subagent is stopped.
    pub stop: Recipient<crate::session_registry::AbortSession>,
}

/// A call to run.
#[derive(Clone)]
pub struct Call {
    /// Its part.
    pub part_id: PartId,
    /// The tool.
    pub tool: Arc<dyn AnyTool>,
    /// Its arguments.
    pub input: JsonMap,
    /// Who calls, with the rules that hold.
    pub asker: Asker,
    /// Where.
    pub place: Arc<tools::Place>,
    /// Where the session's plan is to be written.
    pub plan: PathBuf,
    /// The step's snapshot.
    pub gate: Arc<SnapshotGate>,
    /// It is the same call again and again: ask first.
    pub repeats: bool,
    /// The prompt's text, for fault points.
    pub prompt: Arc<str>,
}

impl Call {
    fn id(&self) -> &CallId {
        &self.asker.call_id
    }

    fn session_id(&self) -> &SessionId {
        &self.asker.fence.session_id
    }

    /// The path on which calls are run in order.
    fn serial_path(&self) -> Option<PathBuf> {
        let path = self.tool.serial_path(&self.input)?;
        tools::path::absolute(&self.place.directory, &path, None).ok()
    }
}

/// Run this.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Run(pub Call);

/// Stop all calls. Answers with how those ended that did so in time.
#[derive(Message)]
#[rtype(result = "Vec<CallEnded>")]
pub struct AbortCalls;

/// A call has ended.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub struct CallEnded {
    /// The message that holds it.
    pub message_id: MessageId,
    /// Its part.
    pub part_id: PartId,
    /// The call.
    pub call_id: CallId,
    /// How.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// With a result.
    Completed {
        /// For a person.
        title: String,
        /// For the model.
        output: String,
        /// For clients.
        metadata: JsonMap,
        /// For the model.
        attachments: Vec<FilePart>,
    },
    /// Without.
    Failed {
        /// For the model.
        error: String,
        /// It was cut off.
        interrupted: bool,
        /// A person said no: the turn stops.
        stops_turn: bool,
    },
}

/// A call shows how far it is.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub struct CallProgress {
    /// The message that holds it.
    pub message_id: MessageId,
    /// Its part.
    pub part_id: PartId,
    /// How far.
    pub progress: tools::Progress,
}

/// The snapshot before the step's first effects was taken.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub struct StepSnapshot {
    /// The step's message.
    pub message_id: MessageId,
    /// The tree; none where there are no snapshots.
    pub tree: Option<String>,
}

/// Runs the calls of a session.
pub struct ToolExecutor {
    deps: ExecutorDeps,
    running: HashMap<PartId, Running>,
    /// Calls that wait for another on the same path; an entry is there while one runs.
    serial: HashMap<PathBuf, VecDeque<Call>>,
    /// Lets calls ask in the order the model made them.
    order: Order,
    aborting: Option<Aborting>,
}

struct Running {
    call_id: CallId,
    message_id: MessageId,
    path: Option<PathBuf>,
    cancel: CancellationToken,
    /// Dropping it drops the call and kills its processes.
    _task: AbortOnDropHandle<()>,
}

struct Aborting {
    ended: Vec<CallEnded>,
    answer: oneshot::Sender<Vec<CallEnded>>,
}

impl ToolExecutor {
    /// Returns an executor that runs nothing yet.
    pub fn new(deps: ExecutorDeps) -> Self {
        Self { deps, running: HashMap::new(), serial: HashMap::new(), order: Order::default(), aborting: None }
    }

    fn begin(&mut self, call: Call, path: Option<PathBuf>, ctx: &mut Context<Self>) {
        let cancel = CancellationToken::new();
        let (call_id, message_id, part_id) = (call.id().clone(), call.asker.message_id.clone(), call.part_id.clone());
        let run = run(self.deps.clone(), call, cancel.clone(), self.order.next());
        let (answer, outcome) = oneshot::channel();
        let task = AbortOnDropHandle::new(self.deps.io.spawn(async move {
            // The executor is gone: so is whoever wanted to know.
            let _ = answer.send(run.await);
        }));
        let running = Running { call_id, message_id, path, cancel, _task: task };
        self.running.insert(part_id.clone(), running);
        ctx.spawn(outcome.into_actor(self).map(move |outcome, executor, ctx| {
            // The sender is only dropped unused when the call panicked.
            let outcome = outcome.unwrap_or_else(|_| Outcome::Failed {
                error: "The tool crashed inside of the runtime; its effects are unknown.".into(),
                interrupted: false,
                stops_turn: false,
            });
            executor.ended(part_id, outcome, ctx);
        }));
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: one for each call")]
    fn ended(&mut self, part_id: PartId, outcome: Outcome, ctx: &mut Context<Self>) {
        let Some(running) = self.running.remove(&part_id) else { return };
        let ended = CallEnded { message_id: running.message_id, part_id, call_id: running.call_id, outcome };
        match &mut self.aborting {
            Some(aborting) => {
                aborting.ended.push(ended);
                self.end_abort_if_done();
            }
            None => {
                self.deps.session.ended.do_send(ended);
                self.next_on(running.path, ctx);
            }
        }
    }

    fn next_on(&mut self, path: Option<PathBuf>, ctx: &mut Context<Self>) {
        let Some(path) = path else { return };
        match self.serial.get_mut(&path).and_then(VecDeque::pop_front) {
            Some(next) => self.begin(next, Some(path), ctx),
            None => drop(self.serial.remove(&path)),
        }
    }

    fn end_abort_if_done(&mut self) {
        if self.running.is_empty()
            && let Some(aborting) = self.aborting.take()
        {
            let _ = aborting.answer.send(aborting.ended);
        }
    }
}

impl Actor for ToolExecutor {
    type Context = Context<Self>;
}

impl Handler<Run> for ToolExecutor {
    type Result = ();

    fn handle(&mut self, Run(call): Run, ctx: &mut Self::Context) {
        let path = call.serial_path();
        if let Some(path) = &path {
            if let Some(waiting) = self.serial.get_mut(path) {
                waiting.push_back(call);
                return;
            }
            self.serial.insert(path.clone(), VecDeque::new());
        }
        self.begin(call, path, ctx);
    }
}

impl Handler<AbortCalls> for ToolExecutor {
    type Result = ResponseActFuture<Self, Vec<CallEnded>>;

    fn handle(&mut self, _: AbortCalls, ctx: &mut Self::Context) -> Self::Result {
        self.serial.clear();
        self.running.values().for_each(|running| running.cancel.cancel());
        let (answer, ended) = oneshot::channel();
        self.aborting = Some(Aborting { ended: Vec::new(), answer });
        self.end_abort_if_done();
        ctx.run_later(ABORT_GRACE, |executor, _| {
            executor.running.clear();
            executor.end_abort_if_done();
        });
        Box::pin(ended.into_actor(self).map(|ended, _, _| ended.unwrap_or_default()))
    }
}

/// Runs one call, from the question whether it may to its bounded output.
async fn run(deps: ExecutorDeps, call: Call, cancel: CancellationToken, place: Place) -> Outcome {
    let (desk, signals) = CallDesk::new(deps.clone(), &call, cancel.clone(), place);
    let cx = tools::ToolContext {
        session_id: call.session_id().clone(),
        message_id: call.asker.message_id.clone(),
        call_id: call.id().clone(),
        agent: call.asker.agent.clone(),
        place: call.place.clone(),
        desk: Arc::new(desk.clone()),
        cancel: cancel.clone(),
        files: deps.files.clone(),
        processes: deps.processes.clone(),
        http: deps.http.clone(),
        plan: call.plan.clone(),
    };
    let tell = |progress| {
        let told = CallProgress { message_id: cx.message_id.clone(), part_id: call.part_id.clone(), progress };
        // A session that is gone or full shows the next one.
        let _ = deps.session.progress.try_send(told);
    };
    let work = async {
        if call.repeats {
            desk.ask_about_loop(&call).await?;
        }
        let input = hooks::before(&call.asker, call.tool.id(), call.input.clone()).await?;
        Ok((call.tool.run(input.clone(), &cx).await?, input))
    };
    let result = limits::within(work, &call, &cancel, signals, tell).await;
    deps.faults.hit("tool.commit", &call.prompt);
    match result {
        Ok((output, input)) => {
            let outcome = bounds::bounded(output, &call.place.spill, &deps.ids).await;
            hooks::after_call(&call, input, outcome, &deps.ids).await
        }
        Err(error) => failed(error),
    }
}

fn failed(error: ToolError) -> Outcome {
    let stops_turn = matches!(&error, ToolError::Refused(refusal) if refusal.stops_turn());
    let interrupted = matches!(&error, ToolError::Aborted | ToolError::Refused(tools::Refusal::Withdrawn));
    Outcome::Failed { error: bounds::error(error.to_string()), interrupted, stops_turn }
}
