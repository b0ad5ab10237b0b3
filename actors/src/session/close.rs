//! The end of a step, and what follows from it.

use actix::prelude::*;
use protocol::message::{AssistantTime, MessagePath, Tokens};
use protocol::model::FinishReason;
use protocol::part::PartKind;
use protocol::provider::Model;
use protocol::{AssistantMessage, Message, MessageId, Part, SessionError, SessionStatus};
use storage::Change;

use super::compaction::Effort;
use super::offer::{is_last, limit_reached};
use super::step::{Step, StepKind};
use super::structured::Shaped;
use super::{Session, Stage};
use crate::processor::StepEnd;
use crate::workspace::{ChangedFiles, Freshness, LearnWindow, TakeSnapshot};

/// How often progress resets the count of a turn's attempts, in all.
const MAX_RESETS: u32 = 10;

impl Session {
    /// Something was done: attempts of the turn count from nothing again.
    pub(super) fn progress_made(&mut self) -> Vec<Change> {
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
        let closing = Stage::Closing(Vec::new());
        let Stage::Stepping(step) = std::mem::replace(&mut self.state.stage, closing) else { return };
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
        let step = match step.take_plan() {
            (step, Some(plan)) => return self.close_summary(step, plan, message, ctx),
            (step, None) => step,
        };
        let has_calls = entry.has_calls();
        if let Some(answerer) = self.stand_in(&step) {
            return self.fall_back(step, message, answerer, ctx);
        }
        let mut changes = self.progress_made();
        let mut error = None;
        let mut goes_on = has_calls && !step.was_rejected;
        let is_cut = matches!(step.end, Some(StepEnd::Cut)) && matches!(step.kind, StepKind::Answer);
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
            Some(StepEnd::Failed { error: failure, window, .. }) => {
                let failure = SessionError::clone(failure);
                if matches!(failure, SessionError::ContextOverflowError { .. }) {
                    self.learn_window(&step, *window, ctx);
                    if self.may_compact(&step.setup) {
                        return self.make_room(message, failure, ctx);
                    }
                    error = Some(self.does_not_fit(&step, *window, failure));
                } else {
                    error = Some(failure);
                }
                goes_on = false;
            }
            Some(StepEnd::Cut) | None => message.finish = Some(FinishReason::ToolCalls.as_str().to_owned()),
        }
        let steps = self.steps();
        if let Some(turn) = &mut self.state.turn {
            turn.cut_in_a_row = if is_cut { turn.cut_in_a_row + 1 } else { 0 };
            if matches!(step.end, Some(StepEnd::Finished { .. })) {
                turn.effort = Effort::default();
                turn.stand_in.step_done();
            }
            if goes_on && turn.cut_in_a_row >= step.setup.config().troupe.retry.max_attempts {
                let text = format!("{} answers in a row broke off after their calls", turn.cut_in_a_row);
                error = Some(SessionError::unknown(text));
                goes_on = false;
            }
            if goes_on && is_last(&step.answerer.agent, steps) {
                error = Some(SessionError::unknown(limit_reached(&step.answerer.agent)));
                goes_on = false;
            }
            if step.has_effects {
                turn.before = turn.before.take().or_else(|| step.snapshot.clone());
                turn.after = tree.clone();
                turn.is_fresh = true;
            }
        }
        if matches!(step.end, Some(StepEnd::Finished { .. })) && error.is_none() {
            match self.shaped(&message, goes_on) {
                Shaped::Open => {}
                Shaped::Given(answer) => {
                    message.structured = Some(answer);
                    goes_on = false;
                }
                Shaped::Missing(missing) => {
                    error = Some(missing);
                    goes_on = false;
                }
            }
        }
        if message.finish.is_some() && !matches!(step.kind, StepKind::Subtask(_)) {
            changes.push(self.step_finish(&step, &message, tree.clone()));
        }
        if let (Some(hash), false) = (step.snapshot.clone(), files.is_empty()) {
            let kind = PartKind::Patch { hash, files };
            changes.push(self.put_new_part(&step.message_id, kind));
        }
        let (tokens, spent) = (message.tokens, message.cost);
        if message.time.completed.is_none() || error.is_some() {
            message.error.clone_from(&error);
            message.time.completed = Some(self.now().max(message.time.created));
            changes.push(self.put_message(Message::Assistant(message)));
        }
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
            changes.extend(self.prune(&step.setup));
            self.close_turn(changes, error, ctx);
        }
    }

    /// The request did not fit: compacts, and asks again.
    fn make_room(&mut self, mut message: AssistantMessage, failure: SessionError, ctx: &mut Context<Self>) {
        message.time.completed = Some(self.now().max(message.time.created));
        let asked = self.state.history.get(&message.parent_id).and_then(|entry| entry.info.as_user().cloned());
        let mut changes = vec![self.error_notice(failure), self.put_message(Message::Assistant(message))];
        if let Some(user) = asked {
            changes.extend(self.ask_for_compaction(&user, true));
        }
        self.record(changes).detach();
        self.prepare_step(ctx);
    }

    /// A server said how large its window is: from now on that counts for all sessions of the directory.
    fn learn_window(&self, step: &Step, window: Option<u64>, ctx: &mut Context<Self>) {
        let Some(tokens) = window else { return };
        let learned = self.deps.workspace.send(LearnWindow { model: step.answerer.model_ref.clone(), tokens });
        ctx.spawn(learned.into_actor(self).map(|_, _, _| ()));
    }

    pub(super) fn step_finish(&mut self, step: &Step, message: &AssistantMessage, tree: Option<String>) -> Change {
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

    /// A message that says why the turn has no answer.
    pub(super) fn answer_with_error(&mut self, error: SessionError) -> Option<Change> {
        let asked = self.state.turn.as_ref()?.answering.last()?.clone();
        self.error_to(&asked, error)
    }

    /// A message that says why a prompt has no answer.
    pub(super) fn error_to(&mut self, asked: &MessageId, error: SessionError) -> Option<Change> {
        let user = self.state.history.get(asked)?.info.as_user()?.clone();
        let created = self.next_time();
        let directory = self.state.info.directory.clone();
        let message = AssistantMessage {
            time: AssistantTime { created, completed: Some(created) },
            error: Some(error),
            model_id: user.model.model_id,
            provider_id: user.model.provider_id,
            mode: user.agent.clone(),
            agent: user.agent,
            path: MessagePath { cwd: directory.clone(), root: directory },
            variant: user.model.variant,
            ..AssistantMessage::begun(self.deps.ids.message(), self.id.clone(), asked.clone(), created)
        };
        Some(self.put_message(Message::Assistant(message)))
    }
}

/// In US dollars.
pub(super) fn cost(model: &Model, tokens: &Tokens) -> f64 {
    model.cost.of(tokens)
}
