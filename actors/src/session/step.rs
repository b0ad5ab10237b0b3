//! One model step: preparing it, storing what its processor reports, running its calls, closing it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use protocol::message::MessagePath;
use protocol::model::ModelRequest;
use protocol::part::{PartKind, SubtaskPart};
use protocol::{AssistantMessage, CallId, Message, MessageId, Part, PartId, SessionError, SessionStatus};
use storage::Change;

use super::compaction::Plan;
use super::compaction::view::is_request;
use super::history::Entry;
use super::recovery::Rerun;
use super::structured::with_answer;
use super::{Session, Stage};
use crate::processor::{Processor, ProcessorDeps, StepEnd, StepUpdate, StepUpdates};
use crate::provider_gate::Visitor;
use crate::supervisor::Linked;
use crate::tool_executor::{SnapshotGate, StepSnapshot};
use crate::workspace::catalogue::Chosen;
use crate::workspace::{
    Answerer, Freshness, GetSetup, GetTools, Patience, Setup, SetupError, TakeSnapshot, Toolkit, Wish,
};

/// Most time a step waits for a snapshot that nothing but its display needs.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(500);

/// A step that runs.
pub struct Step {
    pub setup: Arc<Setup>,
    pub answerer: Answerer,
    pub message_id: MessageId,
    /// None when the answer has ended, or when only calls are left to do after a crash.
    pub(super) processor: Option<Linked<Processor>>,
    pub(super) kind: StepKind,
    /// Its part `step-start`.
    pub(super) start_part: Option<PartId>,
    /// The tree it began with.
    pub(super) snapshot: Option<String>,
    /// The workspace was asked for it. The first of a directory takes a moment; the step's end waits that long.
    pub(super) awaits_snapshot: bool,
    pub(super) gate: Arc<SnapshotGate>,
    /// Calls without a result.
    pub(super) open: HashMap<PartId, CallId>,
    /// Files may have changed.
    pub(super) has_effects: bool,
    /// A person said no.
    pub(super) was_rejected: bool,
    pub(super) end: Option<StepEnd>,
}

/// What a step is for.
pub(super) enum StepKind {
    /// The model answers.
    Answer,
    /// Calls that a crash left are made again.
    Calls,
    /// A subagent is given the work that the person gave it.
    Subtask(Box<SubtaskPart>),
    /// A summary is written.
    Summary(Box<Plan>),
}

impl Step {
    /// Returns its beginning, where that is told and the tree it began with isn't.
    pub(super) fn without_snapshot(&self) -> Option<(MessageId, PartId)> {
        let part = self.start_part.clone()?;
        self.snapshot.is_none().then(|| (self.message_id.clone(), part))
    }

    /// Takes out what its summary will stand for.
    pub(super) fn take_plan(mut self) -> (Self, Option<Plan>) {
        match std::mem::replace(&mut self.kind, StepKind::Answer) {
            StepKind::Summary(plan) => (self, Some(*plan)),
            kind => {
                self.kind = kind;
                (self, None)
            }
        }
    }
}

/// What a step is told of its directory.
type Known = (Result<Result<Arc<Setup>, SetupError>, MailboxError>, Arc<Toolkit>);

/// What makes a step's request.
pub(super) type MakeRequest = Arc<dyn Fn() -> ModelRequest + Send + Sync>;

impl Session {
    /// Asks for what the next step needs.
    pub(super) fn prepare_step(&mut self, ctx: &mut Context<Self>) {
        if self.state.history.is_outdated() {
            return self.recall_then_prepare(ctx);
        }
        self.state.stage = Stage::Preparing;
        self.join_waiting();
        self.limit_time(ctx);
        let fence = self.state.fence.clone();
        let known = self.ask_workspace(Patience::Step);
        ctx.spawn(known.into_actor(self).map(move |(setup, toolkit), session, ctx| {
            if session.state.fence != fence || !matches!(session.state.stage, Stage::Preparing) {
                return;
            }
            session.state.toolkit = toolkit;
            match setup {
                Ok(Ok(setup)) => session.within_budget(setup, ctx, Self::begin_step),
                Ok(Err(error)) => session.fail_turn(SessionError::unknown(error.to_string()), ctx),
                Err(_) => session.prepare_step(ctx),
            }
        }));
    }

    /// What the directory has: the settings, then the tools.
    fn ask_workspace(&self, patience: Patience) -> impl Future<Output = Known> + use<> {
        let setup = self.deps.workspace.send(GetSetup);
        let tools = self.deps.workspace.send(GetTools { patience });
        async move {
            let (setup, tools) = futures::future::join(setup, tools).await;
            (setup, tools.unwrap_or_default())
        }
    }

    fn begin_step(&mut self, setup: Arc<Setup>, ctx: &mut Context<Self>) {
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last().cloned());
        let user = asked.and_then(|id| self.state.history.get(&id).and_then(|e| e.info.as_user().cloned()));
        let Some(user) = user else {
            // The prompt was taken out meanwhile.
            return self.close_turn(Vec::new(), None, ctx);
        };
        if self.state.history.get(&user.id).is_some_and(is_request) {
            return self.begin_summary(setup, user, ctx);
        }
        if let Some(task) = self.next_subtask(&user.id) {
            return self.begin_subtask(setup, &user, task, ctx);
        }
        let model = self.answering_for(&user.model);
        let wish = Wish { agent: Some(user.agent.clone()), model: Some(model), ..Wish::default() };
        let answerer = match setup.answerer(&wish) {
            Ok(answerer) => answerer,
            Err(error) => return self.fail_turn(SessionError::unknown(error.to_string()), ctx),
        };
        if self.must_compact(&setup, &answerer, &user) {
            let changes = self.ask_for_compaction(&user, !self.is_begun(&user.id));
            self.record(changes).detach();
            return self.prepare_step(ctx);
        }
        let text: Arc<str> = self.state.history.get(&user.id).map(Entry::own_text).unwrap_or_default().into();
        self.deps.faults.hit("session.step", &text);
        self.state.toolkit = with_answer(&self.state.toolkit, &user);
        let message = self.new_answer(&setup, &answerer, &user.id);
        let message_id = message.id.clone();
        let stored = self.put_message(Message::Assistant(message));
        self.record(vec![stored]).detach();
        let request = self.request_of(&setup, &answerer, &user);
        self.ask_for_title(&setup, &answerer, &user.id, ctx);
        self.start_step(setup, answerer, message_id, StepKind::Answer, request, ctx);
    }

    /// Asks the model; its answer becomes the parts of `message_id`.
    pub(super) fn start_step(
        &mut self,
        setup: Arc<Setup>,
        answerer: Answerer,
        message_id: MessageId,
        kind: StepKind,
        request: MakeRequest,
        ctx: &mut Context<Self>,
    ) {
        let deps = ProcessorDeps {
            ids: self.deps.ids.clone(),
            clock: self.deps.clock.clone(),
            journal: self.deps.journal.clone(),
            gate: self.deps.gate.clone(),
            io: self.deps.io.clone(),
            session: ctx.address().recipient(),
        };
        let step = crate::processor::Step {
            session_id: self.id.clone(),
            message_id: message_id.clone(),
            provider: answerer.chosen.provider.clone(),
            provider_id: answerer.model_ref.provider_id.clone(),
            request,
            refine: if matches!(kind, StepKind::Answer) { self.refine(&setup, &answerer) } else { None },
            visitor: self.visitor(&setup, &answerer.model_ref.provider_id, &answerer.chosen),
            retry: setup.config().troupe.retry,
        };
        let processor = self.lifeline.start(Processor::new(deps, step));
        let step = Step { processor: Some(processor), ..self.new_step(setup, answerer, message_id, kind) };
        self.state.stage = Stage::Stepping(Box::new(step));
        self.ask_for_snapshot(ctx);
    }

    /// The step goes on where another model failed: what it began with stays.
    pub(super) fn keep_start(&mut self, start_part: Option<PartId>, snapshot: Option<String>) {
        if let Stage::Stepping(step) = &mut self.state.stage {
            (step.start_part, step.snapshot) = (start_part, snapshot);
        }
    }

    /// Who this session is at the gate of model requests.
    pub(super) fn visitor(&self, setup: &Setup, provider: &str, chosen: &Chosen) -> Visitor {
        Visitor {
            provider: provider.into(),
            account: chosen.account.clone(),
            model: chosen.model.api.id.as_str().into(),
            longest: Duration::from_millis(setup.config().troupe.retry.max_delay_ms),
            tree: self.state.ancestors.last().unwrap_or(&self.id).clone(),
            limits: setup.config().troupe.limits,
            since: Instant::now(),
        }
    }

    fn new_step(&self, setup: Arc<Setup>, answerer: Answerer, message_id: MessageId, kind: StepKind) -> Step {
        Step {
            gate: self.new_gate(),
            setup,
            answerer,
            message_id,
            processor: None,
            kind,
            start_part: None,
            snapshot: None,
            awaits_snapshot: false,
            open: HashMap::new(),
            has_effects: false,
            was_rejected: false,
            end: None,
        }
    }

    /// Starts a step that makes these calls of a message that is there, and asks no model.
    pub(super) fn start_calls(
        &mut self,
        setup: Arc<Setup>,
        answerer: Answerer,
        message_id: &MessageId,
        kind: StepKind,
        parts: &[Arc<Part>],
        ctx: &mut Context<Self>,
    ) {
        let start_part = self.state.history.get(message_id).and_then(|entry| {
            entry.parts.iter().find(|p| matches!(p.kind, PartKind::StepStart { .. })).map(|p| p.id.clone())
        });
        let step = self.new_step(setup, answerer, message_id.clone(), kind);
        self.state.stage = Stage::Stepping(Box::new(Step { start_part, end: Some(StepEnd::Cut), ..step }));
        for part in parts {
            let Some(tool) = part.as_tool().cloned() else { continue };
            let input = tool.state.input().as_object().cloned().unwrap_or_default();
            self.run_call(part, &tool.tool, input, ctx);
        }
        self.close_step_if_done(ctx);
    }

    /// The first effects of a turn need a snapshot of their own: people edit between turns.
    fn new_gate(&self) -> Arc<SnapshotGate> {
        let is_fresh = self.state.turn.as_ref().is_some_and(|turn| turn.is_fresh);
        Arc::new(SnapshotGate::new(if is_fresh { Freshness::Any } else { Freshness::Now }))
    }

    pub(super) fn new_answer(&mut self, setup: &Setup, answerer: &Answerer, parent: &MessageId) -> AssistantMessage {
        let created = self.next_time();
        AssistantMessage {
            model_id: answerer.model_ref.model_id.clone(),
            provider_id: answerer.model_ref.provider_id.clone(),
            mode: answerer.agent.name.clone(),
            agent: answerer.agent.name.clone(),
            path: MessagePath {
                cwd: self.state.info.directory.clone(),
                root: setup.identity.worktree.to_string_lossy().into_owned(),
            },
            variant: answerer.model_ref.variant.clone(),
            ..AssistantMessage::begun(self.deps.ids.message(), self.id.clone(), parent.clone(), created)
        }
    }

    /// The tree that the step begins with, for clients: the last known one will do.
    fn ask_for_snapshot(&mut self, ctx: &mut Context<Self>) {
        let fence = self.state.fence.clone();
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        step.awaits_snapshot = true;
        let message_id = step.message_id.clone();
        let mut tree = Box::pin(self.deps.workspace.send(TakeSnapshot { freshness: Freshness::Any }));
        let waited = async move { tokio::time::timeout(SNAPSHOT_WAIT, &mut tree).await.map_err(|_| tree) };
        ctx.spawn(waited.into_actor(self).map(move |waited, session, ctx| {
            if session.state.fence != fence {
                return;
            }
            match waited {
                Ok(tree) => session.note_snapshot(&message_id, tree.ok().flatten()),
                // The step may end without it; one that is still there then is told.
                Err(late) => {
                    let message_id = message_id.clone();
                    let note = move |tree: Result<Option<String>, _>, session: &mut Self, _: &mut _| {
                        if session.state.fence == fence {
                            session.note_snapshot(&message_id, tree.ok().flatten());
                        }
                    };
                    ctx.spawn(late.into_actor(session).map(note));
                }
            }
            if let Stage::Stepping(step) = &mut session.state.stage
                && step.message_id == message_id
            {
                step.awaits_snapshot = false;
                session.close_step_if_done(ctx);
            }
        }));
    }

    fn note_snapshot(&mut self, message_id: &MessageId, tree: Option<String>) {
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        if step.message_id != *message_id || tree.is_none() || step.snapshot == tree {
            return;
        }
        step.snapshot = tree;
        if let Some(id) = step.start_part.clone() {
            let change = self.start_part(id);
            self.record(change.into_iter().collect()).detach();
        }
    }

    fn start_part(&mut self, id: PartId) -> Option<Change> {
        let Stage::Stepping(step) = &self.state.stage else { return None };
        let (message_id, snapshot) = (step.message_id.clone(), step.snapshot.clone());
        Some(self.begun_with(message_id, id, snapshot))
    }

    /// The beginning of a step, with the tree it began with.
    pub(super) fn begun_with(&mut self, message_id: MessageId, id: PartId, snapshot: Option<String>) -> Change {
        self.put_part(Part { id, session_id: self.id.clone(), message_id, kind: PartKind::StepStart { snapshot } })
    }

    /// Goes on with a step of which only calls are left to do.
    pub(super) fn resume_step(&mut self, rerun: Rerun, ctx: &mut Context<Self>) {
        self.begin_turn(ctx);
        if let Some(turn) = &mut self.state.turn {
            // All prompts before the answer's parent were being answered with it.
            let upto = self.state.queue.iter().position(|q| q.row.message_id == rerun.message.parent_id);
            let answering = self.state.queue.iter().take(upto.map_or(1, |at| at + 1));
            turn.answering = answering.map(|queued| queued.row.message_id.clone()).collect();
        }
        self.limit_time(ctx);
        self.state.stage = Stage::Preparing;
        let fence = self.state.fence.clone();
        let known = self.ask_workspace(Patience::Call);
        ctx.spawn(known.into_actor(self).map(move |(setup, toolkit), session, ctx| {
            if session.state.fence != fence {
                return;
            }
            session.state.toolkit = toolkit;
            let Ok(Ok(setup)) = setup else {
                let error = "the settings can't be used, so the interrupted step was not resumed";
                return session.fail_turn(SessionError::unknown(error), ctx);
            };
            session.rerun(setup, rerun, ctx);
        }));
    }

    fn rerun(&mut self, setup: Arc<Setup>, rerun: Rerun, ctx: &mut Context<Self>) {
        let user = self.state.history.get(&rerun.message.parent_id).and_then(|e| e.info.as_user().cloned());
        let wish =
            Wish { agent: Some(rerun.message.agent.clone()), model: user.map(|user| user.model), ..Wish::default() };
        let answerer = match setup.answerer(&wish) {
            Ok(answerer) => answerer,
            Err(error) => return self.fail_turn(SessionError::unknown(error.to_string()), ctx),
        };
        let kind = self.kind_of_rerun(&rerun.message.id);
        self.start_calls(setup, answerer, &rerun.message.id, kind, &rerun.parts, ctx);
    }

    fn apply(&mut self, update: StepUpdate, changes: &mut Vec<Change>, ctx: &mut Context<Self>) {
        match update {
            StepUpdate::Began => {
                changes.push(self.set_status(SessionStatus::Busy));
                let Stage::Stepping(step) = &mut self.state.stage else { return };
                // It is there when another model began and failed.
                if step.start_part.is_none() {
                    let id = self.deps.ids.part();
                    step.start_part = Some(id.clone());
                    changes.extend(self.start_part(id));
                }
            }
            StepUpdate::Part(part) => {
                self.state.history.put_part(part.clone());
                changes.push(Change::PartUpdated(part));
            }
            StepUpdate::Grown(part) => {
                self.state.history.put_part(part.clone());
                changes.push(Change::PartStored(part));
            }
            StepUpdate::Delta(delta) => changes.push(Change::Delta(delta)),
            StepUpdate::Removed(id) => {
                let Stage::Stepping(step) = &self.state.stage else { return };
                let message_id = step.message_id.clone();
                self.state.history.remove_part(&message_id, &id);
                changes.push(Change::PartRemoved(self.id.clone(), message_id, id));
            }
            StepUpdate::Call(call) => self.call(*call, changes, ctx),
            StepUpdate::Retrying { attempt, message, next } => {
                changes.push(self.set_status(SessionStatus::Retry { attempt, message, next }));
            }
            StepUpdate::Trying => changes.push(self.set_status(SessionStatus::Busy)),
            StepUpdate::Waiting(position) => changes.push(self.set_status(SessionStatus::Queued { position })),
            StepUpdate::Ended(end) => {
                if let Stage::Stepping(step) = &mut self.state.stage {
                    step.processor = None;
                    step.end = Some(end);
                }
            }
        }
    }
}

impl Handler<StepUpdates> for Session {
    type Result = ();

    fn handle(&mut self, told: StepUpdates, ctx: &mut Self::Context) {
        match &self.state.stage {
            Stage::Stepping(step) if step.message_id == told.message_id => {}
            _ => return,
        }
        let mut changes = Vec::with_capacity(told.updates.len());
        for update in told.updates {
            self.apply(update, &mut changes, ctx);
        }
        if !changes.is_empty() {
            self.record_with(changes, told.room).detach();
        }
        self.close_step_if_done(ctx);
    }
}

impl Handler<StepSnapshot> for Session {
    type Result = ();

    fn handle(&mut self, told: StepSnapshot, _: &mut Self::Context) {
        self.note_snapshot(&told.message_id, told.tree);
    }
}

impl Handler<super::TellOpenParts> for Session {
    type Result = ();

    fn handle(&mut self, _: super::TellOpenParts, ctx: &mut Self::Context) {
        let Stage::Stepping(step) = &self.state.stage else { return };
        if let Some(processor) = &step.processor {
            let told = processor.address.send(crate::processor::TellOpenPart);
            ctx.spawn(told.into_actor(self).map(|_, _, _| ()));
        }
    }
}
