//! A conversation with one writer. Owns the prompt queue, the turn, the status; decides the loop and does nothing
//! itself: a [`Processor`] asks the model, a [`ToolExecutor`] runs the calls, the journal stores. One for each live
//! session; a cache of what is stored, which can be thrown away at any moment.
//! Told by: the HTTP edge, its processor, its executor. Talks to: the broker, the workspace, the journal.
//!
//! - Everything it tells is stored first, by one command of its epoch. Each start, abort and delete begins a new
//!   epoch, so that nothing of the one before can write any more.
//! - Processor and executor are part of its unit: a panic in any of them drops all three, and the turn goes on from
//!   what is stored (`recovery`).
//! - A prompt is in the queue until the answer to it is stored. A prompt that comes while a turn runs is seen by the
//!   next step, where it speaks to the same agent and model; else it has a turn of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use protocol::message::ModelRef;
use protocol::permission::Rule;
use protocol::{
    Clock, Event, Ids, Message, MessageId, MessageWithParts, Part, Session as Info, SessionError, SessionId,
    SessionStatus,
};
use storage::journal::{TurnKind, TurnRow};
use storage::{Ack, Change, Fence, Journal, Origin, Record, Room, Store};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tools::files::{ContentHash, FileLocks, Files};
use tools::process::Processes;

use crate::faults::Faults;
use crate::permission_broker::PermissionBroker;
use crate::provider_gate::Gate;
use crate::session_registry::{AbortSession, AwaitTurn, Leave, Quiet};
use crate::supervisor::{Lifeline, Linked};
use crate::tool_executor::{ExecutorDeps, SessionLine, ToolExecutor};
use crate::workspace::{Http, Toolkit, Workspace};

pub mod command;
pub mod history;
pub(crate) mod hooks;
pub mod prompt;
pub mod recovery;
pub mod request;
pub mod title;

mod abort;
mod attach;
mod background;
mod budget;
mod calls;
mod close;
mod compaction;
mod edit;
mod fallback;
mod hand_over;
mod offer;
pub(crate) mod persons_desk;
mod recall;
#[cfg(test)]
mod samples;
mod shell;
mod start;
mod step;
mod structured;
mod subagent;
mod system_prompt;
mod turn;

pub use background::TakeIn;
pub use command::{
    Abort, CommandError, Delete, Fork, GetInfo, Prompt, RemoveMessage, RemovePart, Resume, Settle, Shell, StopProcess,
    StopReason, Summarize, TellOpenParts, Ticket, Update, UpdatePart, WaitTurn,
};
use history::History;
use step::Step;

/// What all sessions are made with.
#[derive(Clone)]
pub struct SessionDeps {
    /// Where everything is stored.
    pub journal: Journal,
    /// Where it is read from, at the start.
    pub store: Store,
    /// Names things.
    pub ids: Arc<Ids>,
    /// Dates them.
    pub clock: Arc<dyn Clock>,
    /// Where calls ask.
    pub broker: Addr<PermissionBroker>,
    /// Lets model requests through.
    pub gate: Gate,
    /// What the session's directory shares.
    pub workspace: Addr<Workspace>,
    /// The session's ways to its registry.
    pub registry: RegistryLine,
    /// Where work runs that waits.
    pub io: Handle,
    /// Starts child processes.
    pub processes: Processes,
    /// The locks of files that are being written.
    pub locks: FileLocks,
    /// For fetches.
    pub http: Http,
    /// Fault points of test builds.
    pub faults: Faults,
    /// The version sessions are marked with.
    pub version: Arc<str>,
}

/// A session's ways to its registry.
#[derive(Clone)]
pub struct RegistryLine {
    /// It has nothing to do.
    pub quiet: Recipient<Quiet>,
    /// It is deleted and wants to go.
    pub leave: Recipient<Leave>,
    /// A subagent's turn is waited for.
    pub wait: Recipient<AwaitTurn>,
    /// A subagent is stopped.
    pub stop: Recipient<AbortSession>,
    /// Something was stored for another session.
    pub notify: Recipient<TakeIn>,
}

/// How a session comes to life.
pub enum Start {
    /// It is new: store it.
    New(Box<Info>),
    /// It is stored.
    Stored,
    /// It is stored, and waits for [`Resume`] before it goes on.
    Held,
}

/// A conversation.
pub struct Session {
    id: SessionId,
    deps: SessionDeps,
    lifeline: Lifeline,
    status: watch::Sender<SessionStatus>,
    start: Start,
    /// Starts of this actor: more than one means that it crashed.
    starts: u32,
    state: State,
}

/// What is known of a session, and thrown away when it crashes.
struct State {
    fence: Fence,
    life: Life,
    info: Arc<Info>,
    origin: Arc<Origin>,
    history: History,
    /// The sessions above it, the nearest first.
    ancestors: Arc<[SessionId]>,
    /// Accepted prompts without an answer, in order; those of the running turn first.
    queue: VecDeque<Queued>,
    /// How the turn that a crash cut goes on, until it does.
    resumption: Option<Resumption>,
    turn: Option<Turn>,
    stage: Stage,
    executor: Option<Linked<ToolExecutor>>,
    /// The tools there were when the running step began.
    toolkit: Arc<Toolkit>,
    /// The creation time of the newest message: times never repeat.
    newest: u64,
    /// Ids of prompts that were accepted in this life and may be sent again.
    accepted: HashMap<MessageId, u64>,
    asked_for_title: bool,
    /// What its calls have seen of files.
    files: Files,
}

/// Whether there is a session.
enum Life {
    /// It is being loaded.
    Loading,
    /// It is there.
    There,
    /// There is none of this id.
    Missing,
    /// It is there and can't be read or written.
    Broken(String),
    /// It is deleted.
    Deleted,
}

/// An accepted prompt.
struct Queued {
    row: TurnRow,
    /// Who waits for the answer.
    waiters: Vec<oneshot::Sender<TurnEnd>>,
}

/// How a turn goes on after a crash.
#[derive(Debug, Default)]
struct Resumption {
    /// Its calls that are made again.
    rerun: Option<recovery::Rerun>,
    /// Turns that are tried once more.
    tried: Vec<MessageId>,
}

/// How a turn ended: the last message of the request that first held the prompt; none when the prompt is gone.
pub type TurnEnd = Result<MessageWithParts, TurnGone>;

/// A prompt that will not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the prompt was taken out before it was answered")]
pub struct TurnGone;

/// The running turn.
struct Turn {
    /// The prompts it answers, all from the front of the queue.
    answering: Vec<MessageId>,
    /// How many of them have their time limit set.
    timed: usize,
    /// Steps in a row whose answer broke off.
    cut_in_a_row: u32,
    /// What was done to make room.
    effort: compaction::Effort,
    /// Who answers where the asked model fails.
    stand_in: fallback::StandIn,
    /// The tree before its first effects.
    before: Option<String>,
    /// The tree after its last.
    after: Option<String>,
    /// Something outside may have changed files since the last snapshot.
    is_fresh: bool,
}

/// Where the loop stands. Each wait has its own stage, so that what comes late finds another and is dropped.
enum Stage {
    /// Nothing runs.
    Idle,
    /// A step is being prepared.
    Preparing,
    /// The model answers, or calls run.
    Stepping(Box<Step>),
    /// The end of a step, or of the turn, is being worked out or stored. Of what is stored with it, this is known.
    Closing(Vec<Change>),
    /// What runs is being stopped.
    Aborting,
    /// A command of the person's runs.
    Shell(Box<shell::Running>),
}

impl Session {
    /// Returns a session that knows nothing yet; it loads what is stored when it starts.
    pub fn new(
        id: SessionId,
        deps: SessionDeps,
        lifeline: Lifeline,
        status: watch::Sender<SessionStatus>,
        start: Start,
    ) -> Self {
        let state = State::empty(&id, &deps);
        Self { id, deps, lifeline, status, start, starts: 0, state }
    }

    /// Queues a command of the current epoch.
    fn record(&self, changes: Vec<Change>) -> Ack {
        self.record_with(changes, None)
    }

    fn record_with(&self, mut changes: Vec<Change>, room: Option<Room>) -> Ack {
        changes.extend(self.files_seen(&changes));
        let (fence, origin) = (Some(self.state.fence.clone()), self.state.origin.clone());
        self.deps.journal.record(Record { fence, origin, changes, room })
    }

    /// What calls have newly seen of files goes along with whatever is stored next: nothing, where nothing is.
    fn files_seen(&self, changes: &[Change]) -> Option<Change> {
        let is_deleted = changes.iter().any(|change| matches!(change, Change::SessionDeleted(_)));
        if is_deleted || !changes.iter().any(Change::is_stored) {
            return None;
        }
        let new = self.state.files.take_unstored().into_iter();
        // A path that is no text can't be kept: such a file counts as not seen after a restart.
        let text = |(path, hash): (std::path::PathBuf, Option<ContentHash>)| {
            Some((path.into_os_string().into_string().ok()?, hash.map(|hash| hash.to_string())))
        };
        let files: Vec<_> = new.filter_map(text).collect();
        (!files.is_empty()).then(|| Change::FilesSeen(self.id.clone(), files))
    }

    /// A change of the session itself.
    fn change_info(&mut self, change: impl FnOnce(&mut Info)) -> Change {
        let info = Arc::make_mut(&mut self.state.info);
        change(info);
        Change::SessionUpdated(self.state.info.clone())
    }

    /// A new or changed message.
    fn put_message(&mut self, message: Message) -> Change {
        let message = Arc::new(message);
        self.state.history.put_message(message.clone());
        Change::MessageUpdated(message)
    }

    /// A new or changed part.
    fn put_part(&mut self, part: Part) -> Change {
        let part = Arc::new(part);
        self.state.history.put_part(part.clone());
        Change::PartUpdated(part)
    }

    /// The change of status; clients that ask see it at once.
    fn set_status(&self, status: SessionStatus) -> Change {
        self.status.send_replace(status.clone());
        Change::Notice(Event::SessionStatus { session_id: self.id.clone(), status })
    }

    fn error_notice(&self, error: SessionError) -> Change {
        Change::Notice(Event::SessionError { session_id: Some(self.id.clone()), error })
    }

    /// When a message that is made now was created: later than all before it.
    fn next_time(&mut self) -> u64 {
        self.state.newest = self.deps.clock.now_ms().max(self.state.newest + 1);
        self.state.newest
    }

    fn now(&self) -> u64 {
        self.deps.clock.now_ms()
    }

    /// Whether a command can be taken now.
    fn check(&self, ticket: &Ticket) -> Result<(), CommandError> {
        ticket.check()?;
        match &self.state.life {
            Life::There => Ok(()),
            Life::Missing | Life::Deleted => Err(CommandError::NotFound(self.id.clone())),
            Life::Broken(reason) => Err(CommandError::Broken(reason.clone())),
            Life::Loading => Err(CommandError::Late),
        }
    }

    fn is_busy(&self) -> bool {
        !matches!(self.state.stage, Stage::Idle) || self.state.turn.is_some() || !self.state.queue.is_empty()
    }

    /// The rules that hold for an agent in this session, from weak to strong.
    fn rules(&self, agent: &protocol::agent::Agent) -> Arc<[Rule]> {
        let home = std::env::home_dir();
        let own = self.state.info.permission.iter().flatten().cloned();
        let own = own.map(|rule| crate::permission_broker::ruleset::at_home(rule, home.as_deref()));
        agent.permission.iter().cloned().chain(own).collect()
    }

    fn executor(&mut self, ctx: &mut Context<Self>) -> Addr<ToolExecutor> {
        if let Some(executor) = &self.state.executor {
            return executor.address.clone();
        }
        let address = ctx.address();
        let deps = ExecutorDeps {
            broker: self.deps.broker.clone(),
            journal: self.deps.journal.clone(),
            store: self.deps.store.clone(),
            workspace: self.deps.workspace.clone(),
            io: self.deps.io.clone(),
            clock: self.deps.clock.clone(),
            ids: self.deps.ids.clone(),
            processes: self.deps.processes.clone(),
            http: self.deps.http.client(),
            files: self.state.files.clone(),
            faults: self.deps.faults.clone(),
            session: SessionLine {
                ended: address.clone().recipient(),
                progress: address.clone().recipient(),
                snapshot: address.clone().recipient(),
                delegate: address.clone().recipient(),
                hand_over: address.recipient(),
                wait: self.deps.registry.wait.clone(),
                stop: self.deps.registry.stop.clone(),
            },
        };
        let executor = self.lifeline.start(ToolExecutor::new(deps));
        let address = executor.address.clone();
        self.state.executor = Some(executor);
        address
    }

    /// Nothing is left to do: the registry may put the session away after a while.
    #[expect(clippy::disallowed_methods, reason = "bounded: one for each time it becomes idle")]
    fn tell_quiet(&self) {
        self.deps.registry.quiet.do_send(Quiet(self.id.clone()));
    }
}

impl State {
    fn empty(id: &SessionId, deps: &SessionDeps) -> Self {
        Self {
            fence: deps.journal.fence(id),
            life: Life::Loading,
            info: Arc::new(blank_info(id)),
            origin: Arc::new(Origin { directory: String::new(), project: String::new() }),
            history: History::default(),
            ancestors: Arc::from([]),
            queue: VecDeque::new(),
            resumption: None,
            turn: None,
            stage: Stage::Idle,
            executor: None,
            toolkit: Arc::default(),
            newest: 0,
            accepted: HashMap::new(),
            asked_for_title: false,
            files: Files::of_session(&deps.locks),
        }
    }
}

/// Stands for a session until it is loaded.
fn blank_info(id: &SessionId) -> Info {
    Info {
        id: id.clone(),
        slug: String::new(),
        project_id: String::new(),
        workspace_id: None,
        directory: String::new(),
        path: None,
        parent_id: None,
        summary: None,
        cost: 0.0,
        tokens: protocol::message::Tokens::default(),
        share: None,
        title: String::new(),
        agent: None,
        model: None,
        version: String::new(),
        metadata: None,
        time: protocol::session::SessionTime::default(),
        permission: None,
        revert: None,
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.starts += 1;
        match std::mem::replace(&mut self.start, Start::Stored) {
            Start::New(info) => self.store_new(*info, ctx),
            Start::Held => {
                self.start = Start::Held;
                self.load(ctx);
            }
            Start::Stored => self.load(ctx),
        }
    }
}

impl Supervised for Session {
    fn restarting(&mut self, _: &mut Self::Context) {
        // All of it may be torn. What is stored is not.
        self.state = State::empty(&self.id, &self.deps);
    }
}

/// The model a prompt was given to, as a session remembers it.
fn remembered(model: &ModelRef) -> protocol::session::SessionModel {
    protocol::session::SessionModel {
        id: model.model_id.clone(),
        provider_id: model.provider_id.clone(),
        variant: Some(model.variant.clone().unwrap_or_else(|| "default".into())),
    }
}

/// The row of a prompt that is accepted.
fn turn_row(session_id: &SessionId, message_id: &MessageId, kind: TurnKind, time: u64) -> TurnRow {
    TurnRow { session_id: session_id.clone(), message_id: message_id.clone(), kind, attempt: 0, resets: 0, time }
}

#[cfg(test)]
mod tests;
