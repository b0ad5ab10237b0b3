//! One model step: preparing it, storing what its processor reports, running its calls, closing it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use protocol::message::{AssistantTime, MessagePath, Tokens};
use protocol::model::{FinishReason, ModelRequest, ToolChoice, ToolSpec};
use protocol::part::{PartKind, Ran, Started, ToolPart};
use protocol::provider::Model;
use protocol::{
    AssistantMessage, CallId, JsonMap, Message, MessageId, Part, PartId, SessionError, SessionStatus, ToolState,
};
use serde_json::{Value, json};
use storage::Change;
use tools::AnyTool;

use super::history::Entry;
use super::recovery::Rerun;
use super::request::{Target, compile};
use super::system_prompt::{reminder, system_prompt};
use super::{Session, Stage, title};
use crate::permission_broker::{Asker, Forget, ruleset};
use crate::processor::{Processor, ProcessorDeps, ReadyCall, StepEnd, StepUpdate, StepUpdates};
use crate::supervisor::Linked;
use crate::tool_executor::{Call, CallEnded, CallProgress, Outcome, Run, SnapshotGate, StepSnapshot};
use crate::workspace::{Answerer, ChangedFiles, Freshness, GetSetup, Setup, TakeSnapshot, Wish};

/// Most tokens of an answer where the model's own limit is higher or unknown.
const MAX_OUTPUT_TOKENS: u64 = 32_000;
/// Most time a step waits for a snapshot that nothing but its display needs.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(500);
/// Equal calls in a row before a person is asked about the next.
const EQUAL_CALLS: usize = 2;
/// The tool that stands for a call that can't be made.
const INVALID: &str = "invalid";
/// How often progress resets the count of a turn's attempts, in all.
const MAX_RESETS: u32 = 10;

/// A step that runs.
pub struct Step {
    pub setup: Arc<Setup>,
    pub answerer: Answerer,
    pub message_id: MessageId,
    /// None when the answer has ended, or when only calls are left to do after a crash.
    pub(super) processor: Option<Linked<Processor>>,
    /// It goes on with what a crash left.
    is_resumed: bool,
    /// Its part `step-start`.
    start_part: Option<PartId>,
    /// The tree it began with.
    snapshot: Option<String>,
    /// The workspace was asked for it. The first of a directory takes a moment; the step's end waits that long.
    awaits_snapshot: bool,
    gate: Arc<SnapshotGate>,
    /// Calls without a result.
    open: HashMap<PartId, CallId>,
    /// Files may have changed.
    has_effects: bool,
    /// A person said no.
    was_rejected: bool,
    end: Option<StepEnd>,
}

impl Session {
    /// Asks for what the next step needs.
    pub(super) fn prepare_step(&mut self, ctx: &mut Context<Self>) {
        self.state.stage = Stage::Preparing;
        self.join_waiting();
        let fence = self.state.fence.clone();
        let setup = self.deps.workspace.send(GetSetup);
        ctx.spawn(setup.into_actor(self).map(move |setup, session, ctx| {
            if session.state.fence != fence || !matches!(session.state.stage, Stage::Preparing) {
                return;
            }
            match setup {
                Ok(Ok(setup)) => session.begin_step(setup, ctx),
                Ok(Err(error)) => session.fail_turn(SessionError::unknown(error.to_string()), ctx),
                Err(_) => session.prepare_step(ctx),
            }
        }));
    }

    fn begin_step(&mut self, setup: Arc<Setup>, ctx: &mut Context<Self>) {
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last().cloned());
        let user = asked.and_then(|id| self.state.history.get(&id).and_then(|e| e.info.as_user().cloned()));
        let Some(user) = user else {
            // The prompt was taken out meanwhile.
            return self.close_turn(Vec::new(), None, ctx);
        };
        let wish = Wish { agent: Some(user.agent.clone()), model: Some(user.model.clone()), ..Wish::default() };
        let answerer = match setup.answerer(&wish) {
            Ok(answerer) => answerer,
            Err(error) => return self.fail_turn(SessionError::unknown(error.to_string()), ctx),
        };
        let text: Arc<str> = self.state.history.get(&user.id).map(Entry::own_text).unwrap_or_default().into();
        self.deps.faults.hit("session.step", &text);
        let message = self.new_answer(&setup, &answerer, &user.id);
        let message_id = message.id.clone();
        let stored = self.put_message(Message::Assistant(message));
        self.record(vec![stored]).detach();
        if let Some(turn) = &mut self.state.turn {
            turn.steps += 1;
        }
        let request = self.request_of(&setup, &answerer, &user);
        let deps = ProcessorDeps {
            ids: self.deps.ids.clone(),
            clock: self.deps.clock.clone(),
            journal: self.deps.journal.clone(),
            io: self.deps.io.clone(),
            session: ctx.address().recipient(),
        };
        let step = crate::processor::Step {
            session_id: self.id.clone(),
            message_id: message_id.clone(),
            provider: answerer.chosen.provider.clone(),
            provider_id: answerer.model_ref.provider_id.clone(),
            request,
            retry: setup.config().troupe.retry,
        };
        let processor = self.lifeline.start(Processor::new(deps, step));
        self.ask_for_title(&setup, &answerer, &user.id, ctx);
        self.state.stage = Stage::Stepping(Box::new(Step {
            gate: self.new_gate(),
            setup,
            answerer,
            message_id,
            processor: Some(processor),
            is_resumed: false,
            start_part: None,
            snapshot: None,
            awaits_snapshot: false,
            open: HashMap::new(),
            has_effects: false,
            was_rejected: false,
            end: None,
        }));
        self.ask_for_snapshot(ctx);
    }

    /// The first effects of a turn need a snapshot of their own: people edit between turns.
    fn new_gate(&self) -> Arc<SnapshotGate> {
        let is_fresh = self.state.turn.as_ref().is_some_and(|turn| turn.is_fresh);
        Arc::new(SnapshotGate::new(if is_fresh { Freshness::Any } else { Freshness::Now }))
    }

    fn new_answer(&mut self, setup: &Setup, answerer: &Answerer, parent: &MessageId) -> AssistantMessage {
        AssistantMessage {
            id: self.deps.ids.message(),
            session_id: self.id.clone(),
            time: AssistantTime { created: self.next_time(), completed: None },
            error: None,
            parent_id: parent.clone(),
            model_id: answerer.model_ref.model_id.clone(),
            provider_id: answerer.model_ref.provider_id.clone(),
            mode: answerer.agent.name.clone(),
            agent: answerer.agent.name.clone(),
            path: MessagePath {
                cwd: self.state.info.directory.clone(),
                root: setup.identity.worktree.to_string_lossy().into_owned(),
            },
            summary: false,
            cost: 0.0,
            tokens: Tokens::default(),
            structured: None,
            variant: answerer.model_ref.variant.clone(),
            finish: None,
        }
    }

    /// What makes the step's request, off the arbiter.
    fn request_of(
        &self,
        setup: &Arc<Setup>,
        answerer: &Answerer,
        user: &protocol::UserMessage,
    ) -> Arc<dyn Fn() -> ModelRequest + Send + Sync> {
        let history = self.state.history.clone();
        let unseen = self.unseen();
        let (setup, answerer, user) = (setup.clone(), answerer.clone(), user.clone());
        let (session_id, parent_id) = (self.id.clone(), self.state.info.parent_id.clone());
        let rules = self.rules(&answerer.agent);
        let now = self.now();
        Arc::new(move || {
            let (agent, model) = (&*answerer.agent, &*answerer.chosen.model);
            let target = Target { model, unseen: &unseen, reminder: reminder(agent) };
            let mut options = model.options.clone();
            options.extend(agent.options.clone());
            options.extend(answerer.chosen.variant.clone());
            ModelRequest {
                session_id: session_id.clone(),
                parent_id: parent_id.clone(),
                model: model.api.id.clone(),
                system: system_prompt(&setup, agent, model, &user, now),
                messages: compile(history.entries(), &target),
                tools: offered(&setup, &rules, model).map(|tool| tool.spec()).collect::<Vec<ToolSpec>>(),
                tool_choice: ToolChoice::Auto,
                max_output_tokens: output_limit(model),
                temperature: agent.temperature.filter(|_| model.capabilities.temperature),
                top_p: agent.top_p,
                options,
                headers: model.headers.clone(),
            }
        })
    }

    /// The tree that the step begins with, for clients: the last known one will do.
    fn ask_for_snapshot(&mut self, ctx: &mut Context<Self>) {
        let fence = self.state.fence.clone();
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        step.awaits_snapshot = true;
        let message_id = step.message_id.clone();
        let tree = self.deps.workspace.send(TakeSnapshot { freshness: Freshness::Any });
        let tree = async move { tokio::time::timeout(SNAPSHOT_WAIT, tree).await.ok()?.ok().flatten() };
        ctx.spawn(tree.into_actor(self).map(move |tree, session, ctx| {
            if session.state.fence != fence {
                return;
            }
            session.note_snapshot(&message_id, tree);
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
        let part = Part {
            id,
            session_id: self.id.clone(),
            message_id: step.message_id.clone(),
            kind: PartKind::StepStart { snapshot: step.snapshot.clone() },
        };
        Some(self.put_part(part))
    }

    /// Goes on with a step of which only calls are left to do.
    pub(super) fn resume_step(&mut self, rerun: Rerun, ctx: &mut Context<Self>) {
        self.begin_turn(ctx);
        if let Some(turn) = &mut self.state.turn {
            // All prompts before the answer's parent were being answered with it.
            let upto = self.state.queue.iter().position(|q| q.row.message_id == rerun.message.parent_id);
            let answering = self.state.queue.iter().take(upto.map_or(1, |at| at + 1));
            turn.answering = answering.map(|queued| queued.row.message_id.clone()).collect();
            turn.steps = 1;
        }
        self.state.stage = Stage::Preparing;
        let fence = self.state.fence.clone();
        let setup = self.deps.workspace.send(GetSetup);
        ctx.spawn(setup.into_actor(self).map(move |setup, session, ctx| {
            if session.state.fence != fence {
                return;
            }
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
        let start_part = self.state.history.get(&rerun.message.id).and_then(|entry| {
            entry.parts.iter().find(|p| matches!(p.kind, PartKind::StepStart { .. })).map(|p| p.id.clone())
        });
        self.state.stage = Stage::Stepping(Box::new(Step {
            gate: self.new_gate(),
            setup,
            answerer,
            message_id: rerun.message.id.clone(),
            processor: None,
            is_resumed: true,
            start_part,
            snapshot: None,
            awaits_snapshot: false,
            open: HashMap::new(),
            has_effects: false,
            was_rejected: false,
            end: Some(StepEnd::Cut),
        }));
        for part in rerun.parts {
            let Some(tool) = part.as_tool().cloned() else { continue };
            let input = tool.state.input().as_object().cloned().unwrap_or_default();
            self.run_call(&part, &tool.tool, input, ctx);
        }
        self.close_step_if_done(ctx);
    }

    fn apply(&mut self, update: StepUpdate, changes: &mut Vec<Change>, ctx: &mut Context<Self>) {
        match update {
            StepUpdate::Began => {
                changes.push(self.set_status(SessionStatus::Busy));
                let id = self.deps.ids.part();
                if let Stage::Stepping(step) = &mut self.state.stage {
                    step.start_part = Some(id.clone());
                }
                changes.extend(self.start_part(id));
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
            StepUpdate::Ended(end) => {
                if let Stage::Stepping(step) = &mut self.state.stage {
                    step.processor = None;
                    step.end = Some(end);
                }
            }
        }
    }

    /// A call's arguments are complete: it is stored as running, then it runs.
    fn call(&mut self, call: ReadyCall, changes: &mut Vec<Change>, ctx: &mut Context<Self>) {
        let Stage::Stepping(step) = &self.state.stage else { return };
        let rules = self.rules(&step.answerer.agent);
        let names: Vec<String> =
            offered(&step.setup, &rules, &step.answerer.chosen.model).map(|tool| tool.id().to_owned()).collect();
        let name = names.iter().find(|name| **name == call.tool).or_else(|| {
            let lower = call.tool.to_lowercase();
            names.iter().find(|name| **name == lower)
        });
        let (name, input, invalid) = match (name, call.input) {
            (Some(name), Ok(input)) => (name.clone(), input, None),
            (Some(_), Err(error)) => invalid(&call.tool, format!("The arguments are no JSON object: {error}.")),
            (None, _) => {
                // Clients and models know this line; it is the one thing said as the AI SDK says it.
                let mut known = names.clone();
                known.push(INVALID.to_owned());
                known.sort();
                let (name, known) = (&call.tool, known.join(", "));
                invalid(name, format!("Model tried to call unavailable tool '{name}'. Available tools: {known}."))
            }
        };
        let mut part = call.part;
        if let PartKind::Tool(tool) = &mut part.kind {
            tool.tool.clone_from(&name);
            tool.metadata = call.metadata;
            tool.state = ToolState::Running {
                input: Value::Object(input.clone()),
                title: None,
                metadata: None,
                time: Started { start: self.now() },
            };
        }
        changes.push(self.put_part(part.clone()));
        match invalid {
            None => self.run_call(&part, &name, input, ctx),
            Some(error) => {
                let output =
                    format!("The call could not be made: {error} Look at the tools and their schemas, and call again.");
                let metadata = JsonMap::from_iter([("truncated".to_owned(), json!(false))]);
                let title = "Invalid Tool".to_owned();
                let outcome = Outcome::Completed { title, output, metadata, attachments: Vec::new() };
                changes.extend(self.finish_part(&part.message_id, &part.id, outcome));
            }
        }
    }

    fn run_call(&mut self, part: &Part, name: &str, input: JsonMap, ctx: &mut Context<Self>) {
        let executor = self.executor(ctx);
        let repeats = self.state.history.equal_calls_before(&part.message_id, &part.id) >= EQUAL_CALLS;
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        let (Some(tool), Some(call)) = (step.setup.tools.iter().find(|tool| tool.id() == name), part.as_tool()) else {
            return;
        };
        step.open.insert(part.id.clone(), call.call_id.clone());
        step.has_effects |= tool.traits().changes_files;
        let (tool, call_id) = (tool.clone(), call.call_id.clone());
        let (agent, place, gate) = (step.answerer.agent.clone(), step.setup.place.clone(), step.gate.clone());
        let prompt = self.state.turn.as_ref().and_then(|turn| self.state.history.get(turn.answering.last()?));
        let call = Call {
            part_id: part.id.clone(),
            tool,
            input,
            asker: Asker {
                fence: self.state.fence.clone(),
                origin: self.state.origin.clone(),
                ancestors: self.state.ancestors.clone(),
                agent: agent.name.clone(),
                rules: self.rules(&agent),
                message_id: part.message_id.clone(),
                call_id,
            },
            place,
            gate,
            repeats,
            prompt: prompt.map(Entry::own_text).unwrap_or_default().into(),
        };
        self.send_call(executor, call, ctx);
    }

    /// Hands a call to the executor; one that can't take it fails the call.
    pub(super) fn send_call(
        &mut self,
        executor: Addr<crate::tool_executor::ToolExecutor>,
        call: Call,
        ctx: &mut Context<Self>,
    ) {
        let (message_id, part_id, call_id) =
            (call.asker.message_id.clone(), call.part_id.clone(), call.asker.call_id.clone());
        let sent = executor.send(Run(call));
        ctx.spawn(sent.into_actor(self).map(move |sent, session, ctx| {
            if sent.is_err() {
                let error = "The call could not be started; it was not run.".to_owned();
                let outcome = Outcome::Failed { error, interrupted: true, stops_turn: false };
                session.call_ended(CallEnded { message_id, part_id, call_id, outcome }, ctx);
            }
        }));
    }

    /// The part of a call with its result.
    pub(super) fn finish_part(&mut self, message: &MessageId, id: &PartId, outcome: Outcome) -> Option<Change> {
        let mut part = Part::clone(self.state.history.part(message, id)?);
        let now = self.now();
        let (session_id, message_id) = (part.session_id.clone(), part.message_id.clone());
        let PartKind::Tool(tool) = &mut part.kind else { return None };
        let shown = match &tool.state {
            ToolState::Running { metadata: Some(metadata), .. } => metadata.clone(),
            _ => JsonMap::new(),
        };
        let start = tool.state.start().unwrap_or(now);
        let time = Ran { start, end: now.max(start), compacted: None };
        let input = tool.state.input().clone();
        tool.state = match outcome {
            Outcome::Completed { title, output, metadata, attachments } => {
                let mut all = shown;
                all.extend(metadata);
                let files: Vec<Part> = attachments
                    .into_iter()
                    .map(|file| Part {
                        id: self.deps.ids.part(),
                        session_id: session_id.clone(),
                        message_id: message_id.clone(),
                        kind: PartKind::File(file),
                    })
                    .collect();
                let attachments = (!files.is_empty()).then_some(files);
                ToolState::Completed { input, output, title, metadata: all, time, attachments }
            }
            Outcome::Failed { error, interrupted, .. } => {
                let mut all = shown;
                if interrupted {
                    all.extend(protocol::event::interrupted());
                }
                ToolState::Error { input, error, metadata: (!all.is_empty()).then_some(all), time }
            }
        };
        Some(self.put_part(part))
    }

    pub(super) fn call_ended(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        if self.shell_ended(&ended, ctx) {
            return;
        }
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        if step.open.remove(&ended.part_id).is_none() {
            return;
        }
        step.was_rejected |= matches!(ended.outcome, Outcome::Failed { stops_turn: true, .. });
        let mut changes: Vec<Change> =
            self.finish_part(&ended.message_id, &ended.part_id, ended.outcome).into_iter().collect();
        changes.push(Change::AsksForgotten(self.id.clone(), ended.call_id.clone()));
        changes.extend(self.progress_made());
        self.record(changes).detach();
        self.forget_asks(ended.call_id);
        self.close_step_if_done(ctx);
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: one for each call")]
    pub(super) fn forget_asks(&self, call_id: CallId) {
        self.deps.broker.do_send(Forget(self.id.clone(), call_id));
    }

    /// Something was done: attempts of the turn count from nothing again.
    fn progress_made(&mut self) -> Vec<Change> {
        let Some(turn) = &self.state.turn else { return Vec::new() };
        let answering = &turn.answering;
        let mut changes = Vec::new();
        for queued in self.state.queue.iter_mut().filter(|q| answering.contains(&q.row.message_id)) {
            if queued.row.attempt > 0 && queued.row.resets < MAX_RESETS {
                queued.row.attempt = 0;
                queued.row.resets += 1;
                changes.push(Change::Turn(queued.row.clone()));
            }
        }
        changes
    }

    /// Closes the step when its answer has ended and all its calls have.
    pub(super) fn close_step_if_done(&mut self, ctx: &mut Context<Self>) {
        let Stage::Stepping(step) = &self.state.stage else { return };
        if step.end.is_none() || !step.open.is_empty() || step.awaits_snapshot {
            return;
        }
        let Stage::Stepping(step) = std::mem::replace(&mut self.state.stage, Stage::Closing) else { return };
        if !step.has_effects {
            return self.close_step(*step, None, Vec::new(), ctx);
        }
        // What the step changed: the tree now against the one before its first effects.
        let fence = self.state.fence.clone();
        let workspace = self.deps.workspace.clone();
        let from = step.snapshot.clone();
        let look = async move {
            let to = workspace.send(TakeSnapshot { freshness: Freshness::Now }).await.ok().flatten();
            let files = match (from, to.clone()) {
                (Some(from), Some(to)) if from != to => {
                    workspace.send(ChangedFiles { from, to }).await.ok().and_then(Result::ok).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            (to, files)
        };
        ctx.spawn(look.into_actor(self).map(move |(tree, files), session, ctx| {
            if session.state.fence == fence {
                session.close_step(*step, tree, files, ctx);
            }
        }));
    }

    fn close_step(&mut self, step: Step, tree: Option<String>, files: Vec<String>, ctx: &mut Context<Self>) {
        let Some(entry) = self.state.history.get(&step.message_id) else {
            return self.close_turn(Vec::new(), None, ctx);
        };
        let Some(mut message) = entry.info.as_assistant().cloned() else { return };
        let has_calls = entry.has_calls();
        let mut changes = self.progress_made();
        let mut error = None;
        let mut goes_on = has_calls && !step.was_rejected;
        let is_cut = matches!(step.end, Some(StepEnd::Cut)) && !step.is_resumed;
        match &step.end {
            Some(StepEnd::Finished { reason, usage }) => {
                message.finish = Some(reason.as_str().to_owned());
                message.tokens = *usage;
                message.cost = cost(&step.answerer.chosen.model, usage);
                if *reason == FinishReason::ContentFilter {
                    let text = "The provider's content filter stopped the answer.";
                    error = Some(SessionError::ContentFilterError { message: text.into() });
                    goes_on = false;
                }
            }
            Some(StepEnd::Failed(failure)) => {
                error = Some(SessionError::clone(failure));
                goes_on = false;
            }
            Some(StepEnd::Cut) | None => message.finish = Some(FinishReason::ToolCalls.as_str().to_owned()),
        }
        if let Some(turn) = &mut self.state.turn {
            turn.cut_in_a_row = if is_cut { turn.cut_in_a_row + 1 } else { 0 };
            if goes_on && turn.cut_in_a_row >= step.setup.config().troupe.retry.max_attempts {
                let text = format!("{} answers in a row broke off after their calls", turn.cut_in_a_row);
                error = Some(SessionError::unknown(text));
                goes_on = false;
            }
            if step.has_effects {
                turn.before = turn.before.take().or_else(|| step.snapshot.clone());
                turn.after = tree.clone();
                turn.is_fresh = true;
            }
        }
        if error.is_none() {
            changes.push(self.step_finish(&step, &message, tree.clone()));
        }
        if let (Some(hash), false) = (step.snapshot.clone(), files.is_empty()) {
            let kind = PartKind::Patch { hash, files };
            changes.push(self.put_new_part(&step.message_id, kind));
        }
        message.error.clone_from(&error);
        message.time.completed = Some(self.now().max(message.time.created));
        let (tokens, spent) = (message.tokens, message.cost);
        changes.push(self.put_message(Message::Assistant(message)));
        if tokens != Tokens::default() {
            changes.push(self.change_info(|info| {
                info.tokens += tokens;
                info.cost += spent;
            }));
        }
        if goes_on {
            changes.push(self.set_status(SessionStatus::Busy));
            self.record(changes).detach();
            self.prepare_step(ctx);
        } else {
            self.close_turn(changes, error, ctx);
        }
    }

    fn step_finish(&mut self, step: &Step, message: &AssistantMessage, tree: Option<String>) -> Change {
        let kind = PartKind::StepFinish {
            reason: message.finish.clone().unwrap_or_else(|| "unknown".into()),
            snapshot: tree.or_else(|| step.snapshot.clone()),
            cost: message.cost,
            tokens: message.tokens,
        };
        self.put_new_part(&step.message_id, kind)
    }

    pub(super) fn put_new_part(&mut self, message_id: &MessageId, kind: PartKind) -> Change {
        let part = Part { id: self.deps.ids.part(), session_id: self.id.clone(), message_id: message_id.clone(), kind };
        self.put_part(part)
    }

    /// Ends the turn with an error on a message of its own.
    pub(super) fn fail_turn(&mut self, error: SessionError, ctx: &mut Context<Self>) {
        let changes = self.answer_with_error(error.clone()).into_iter().collect();
        self.close_turn(changes, Some(error), ctx);
    }

    /// A message that says why there is no answer.
    pub(super) fn answer_with_error(&mut self, error: SessionError) -> Option<Change> {
        let asked = self.state.turn.as_ref()?.answering.last()?.clone();
        let user = self.state.history.get(&asked)?.info.as_user()?.clone();
        let created = self.next_time();
        let directory = self.state.info.directory.clone();
        let message = AssistantMessage {
            id: self.deps.ids.message(),
            session_id: self.id.clone(),
            time: AssistantTime { created, completed: Some(created) },
            error: Some(error),
            parent_id: asked,
            model_id: user.model.model_id,
            provider_id: user.model.provider_id,
            mode: user.agent.clone(),
            agent: user.agent,
            path: MessagePath { cwd: directory.clone(), root: directory },
            summary: false,
            cost: 0.0,
            tokens: Tokens::default(),
            structured: None,
            variant: user.model.variant,
            finish: None,
        };
        Some(self.put_message(Message::Assistant(message)))
    }

    /// A session without a title of its own is given one, beside its first step.
    fn ask_for_title(&mut self, setup: &Setup, answerer: &Answerer, user: &MessageId, ctx: &mut Context<Self>) {
        if self.state.asked_for_title || self.state.info.parent_id.is_some() {
            return;
        }
        self.state.asked_for_title = true;
        if !title::is_default(&self.state.info.title) {
            return;
        }
        let (Ok(chosen), Some(agent)) = (setup.small_model(&answerer.model_ref), setup.agents.get("title")) else {
            return;
        };
        let text = self.state.history.get(user).map(Entry::own_text).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let request = title::request(&self.id, agent, &chosen, text);
        let asked = self.deps.io.spawn(title::ask(chosen.provider, request));
        ctx.spawn(asked.into_actor(self).map(|title, session, _| {
            // A person may have given one meanwhile.
            if let Ok(Some(title)) = title
                && title::is_default(&session.state.info.title)
            {
                let change = session.change_info(|info| info.title = title);
                session.record(vec![change]).detach();
            }
        }));
    }
}

/// The call that stands for one that can't be made.
fn invalid(tool: &str, error: String) -> (String, JsonMap, Option<String>) {
    let input = JsonMap::from_iter([("tool".to_owned(), json!(tool)), ("error".to_owned(), json!(error))]);
    (INVALID.to_owned(), input, Some(error))
}

/// The tools a step offers: those the rules don't forbid, and of edit, write and apply_patch those the model knows.
fn offered<'a>(setup: &'a Setup, rules: &'a [protocol::Rule], _: &Model) -> impl Iterator<Item = &'a Arc<dyn AnyTool>> {
    setup.tools.iter().filter(|tool| !ruleset::forbids_tool(rules, tool.id(), tool.traits().permission))
}

fn output_limit(model: &Model) -> u64 {
    match model.limit.output {
        0 => MAX_OUTPUT_TOKENS,
        limit => limit.min(MAX_OUTPUT_TOKENS),
    }
}

/// In US dollars.
fn cost(model: &Model, tokens: &Tokens) -> f64 {
    let price = &model.cost;
    let each = [
        (tokens.input, price.input),
        (tokens.output + tokens.reasoning, price.output),
        (tokens.cache.read, price.cache.read),
        (tokens.cache.write, price.cache.write),
    ];
    each.iter().map(|(count, price)| *count as f64 * price / 1_000_000.0).sum()
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

impl Handler<CallEnded> for Session {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Self::Context) {
        self.call_ended(ended, ctx);
    }
}

impl Handler<CallProgress> for Session {
    type Result = ();

    fn handle(&mut self, told: CallProgress, _: &mut Self::Context) {
        let Some(part) = self.state.history.part(&told.message_id, &told.part_id) else { return };
        let mut part = Part::clone(part);
        let PartKind::Tool(ToolPart { state: ToolState::Running { title, metadata, .. }, .. }) = &mut part.kind else {
            return;
        };
        if told.progress.title.is_some() {
            *title = told.progress.title;
        }
        metadata.get_or_insert_with(JsonMap::new).extend(told.progress.metadata);
        let change = self.put_part(part);
        self.record(vec![change]).detach();
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
