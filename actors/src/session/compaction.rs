//! Compaction: a model writes a summary that stands for the history before it. Asked for by the loop, when the window
//! is nearly full or a vendor said that it is, and by the person.
//!
//! A compaction is a user message with a part `compaction` and a turn row of its own, so that one that was broken off
//! by a crash runs again. Its answer is the summary. One of the loop's own goes on afterwards: with the prompt given
//! once more where it had no answer yet, else with a message that says so.
//!
//! It never runs without end: after one without progress (nothing was there to summarise but the prompt itself) the
//! next overflow ends the turn, with an error that says what fills the window.

use std::sync::Arc;

use actix::prelude::*;
use protocol::message::{UserSummary, UserTime};
use protocol::model::{ModelMessage, ModelRequest, ToolChoice, UserContent};
use protocol::part::{PartKind, Span, TextPart};
use protocol::{AssistantMessage, Event, JsonMap, Message, MessageId, Part, SessionError, SessionStatus, UserMessage};
use serde_json::json;
use storage::Change;
use storage::journal::{TurnKind, TurnRow};
use tokio::sync::oneshot;

use super::close::cost;
use super::command::{CommandError, Summarize};
use super::history::Entry;
use super::offer::output_limit;
use super::step::{Step, StepKind};
use super::{Queued, Session, TurnEnd, remembered, turn_row};
use crate::processor::StepEnd;
use crate::workspace::{Answerer, GetSetup, Setup, Wish};

pub mod carried;
pub mod prune;
pub mod shed;
mod transcript;
pub mod view;
mod window;

use transcript::Head;
use view::View;
use window::Filling;

/// The agent that writes summaries.
const AGENT: &str = "compaction";
/// Tokens that are kept as they are: a quarter of the window, within these bounds.
const MIN_KEPT: u64 = 2_000;
const MAX_KEPT: u64 = 15_000;
/// Bytes of a request for a summary: for each token of the window, where its size is unknown, and at least.
const BYTES_PER_TOKEN: u64 = 3;
const BYTES: u64 = 400_000;
const MIN_BYTES: u64 = 8_000;
/// How often a summary is asked for again when its own request is too large.
const TRIES: u32 = 3;
/// Most compactions without a finished step in between.
const MAX_IN_A_ROW: u32 = 3;

const GO_ON: &str = "The earlier part of this conversation was summarised to make room. Go on with the task from where \
    it stands; ask only if you can't go on.";

/// What a turn did to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Compactions since the last finished step.
    in_a_row: u32,
    /// One of them had nothing to summarise but the prompt.
    was_barren: bool,
    /// Tries of the summary that is being written.
    tries: u32,
}

/// What a summary that is being written will stand for.
pub(super) struct Plan {
    tail_start: Option<MessageId>,
    /// The prompt that is given once more.
    replay: Option<MessageId>,
    is_barren: bool,
}

impl Session {
    /// Whether room must be made before the next request.
    pub(super) fn must_compact(&self, setup: &Arc<Setup>, answerer: &Answerer, user: &UserMessage) -> bool {
        let config = &setup.config().compaction;
        let model = &answerer.chosen.model;
        let Some(turn) = &self.state.turn else { return false };
        let Some(usable) = window::usable(model, config, output_limit(model)) else { return false };
        // Right after a compaction the vendor decides.
        if config.auto == Some(false) || turn.effort.in_a_row > 0 {
            return false;
        }
        let view = View::of(self.state.history.entries());
        let unseen = self.unseen();
        let since: Vec<&Entry> = view.since.iter().copied().filter(|e| !unseen.contains(e.info.id())).collect();
        let could_go: u64 = view.tail.iter().chain(&since).map(|entry| window::size(entry)).sum();
        // So soon after the last one it would make no room.
        if view.summary.is_some() && could_go < usable / 10 {
            return false;
        }
        let expected = window::next_request(&since);
        expected.unwrap_or_else(|| Filling::of(&self.request_of(setup, answerer, user)()).total()) >= usable
    }

    /// Whether room can still be made after a vendor said that there is none.
    pub(super) fn may_compact(&self, setup: &Setup) -> bool {
        let effort = self.state.turn.as_ref().map(|turn| turn.effort).unwrap_or_default();
        setup.config().compaction.auto != Some(false) && !effort.was_barren && effort.in_a_row < MAX_IN_A_ROW
    }

    /// Clears results of old calls, at the end of a turn.
    pub(super) fn prune(&mut self, setup: &Setup) -> Vec<Change> {
        if setup.config().compaction.prune == Some(false) {
            return Vec::new();
        }
        let (now, old) = (self.now(), prune::prunable(self.state.history.entries()));
        let cleared = old.into_iter().map(Arc::unwrap_or_clone).map(|mut part| {
            prune::clear(&mut part, now);
            self.put_part(part)
        });
        let cleared: Vec<Change> = cleared.collect();
        self.shed();
        cleared
    }

    /// Why a request that does not fit ends the turn.
    pub(super) fn does_not_fit(&self, step: &Step, error: SessionError) -> SessionError {
        let (setup, answerer) = (&step.setup, &step.answerer);
        let SessionError::ContextOverflowError { message, response_body } = error else { return error };
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last());
        let user = asked.and_then(|id| self.state.history.get(id)).and_then(|entry| entry.info.as_user());
        let Some(user) = user else { return SessionError::ContextOverflowError { message, response_body } };
        let filling = Filling::of(&self.request_of(setup, answerer, user)());
        let window = match setup.catalogue.learned(&answerer.model_ref) {
            Some((configured, learned)) => {
                format!("the server says that it takes {learned} tokens, the config says {configured}")
            }
            None => format!("the config says that it takes {} tokens", answerer.chosen.model.limit.context),
        };
        let message = format!(
            "{message} (The request has about {} tokens: system prompt and instructions {}, tools {}, conversation {}; \
             of {} {window}. Shorten the instructions, switch tools off, or use a model with a larger window.)",
            filling.total(),
            filling.system,
            filling.tools,
            filling.messages,
            answerer.model_ref.model_id,
        );
        SessionError::ContextOverflowError { message, response_body }
    }

    /// Puts a compaction before the next step. `overflow`: the prompt may be given once more.
    pub(super) fn ask_for_compaction(&mut self, user: &UserMessage, overflow: bool) -> Vec<Change> {
        let Some((place, time)) = self.place_in_turn() else { return Vec::new() };
        let id = self.deps.ids.message();
        let row = TurnRow { time, ..turn_row(&self.id, &id, TurnKind::Compact, time) };
        let changes = self.put_compaction(id.clone(), user, row.clone(), true, Some(overflow));
        self.state.queue.insert(place, Queued { row, waiters: Vec::new() });
        if let Some(turn) = &mut self.state.turn {
            turn.answering.push(id);
        }
        changes
    }

    /// Where in the queue, and with which time, a message of the running turn's own is put: behind all it answers.
    fn place_in_turn(&self) -> Option<(usize, u64)> {
        let place = self.state.turn.as_ref()?.answering.len();
        let last = self.state.queue.get(place.checked_sub(1)?)?;
        Some((place, last.row.time))
    }

    fn put_compaction(
        &mut self,
        id: MessageId,
        user: &UserMessage,
        row: TurnRow,
        auto: bool,
        overflow: Option<bool>,
    ) -> Vec<Change> {
        let message = UserMessage {
            id: id.clone(),
            time: UserTime { created: self.next_time() },
            format: None,
            summary: None,
            system: None,
            tools: None,
            troupe: None,
            ..user.clone()
        };
        vec![
            self.put_message(Message::User(message)),
            self.put_new_part(&id, PartKind::Compaction { auto, overflow, tail_start_id: None }),
            Change::Turn(row),
        ]
    }

    /// Starts the step that writes the summary asked for by the message `user`.
    pub(super) fn begin_summary(&mut self, setup: Arc<Setup>, user: UserMessage, ctx: &mut Context<Self>) {
        let own = setup.agents.get(AGENT).and_then(|agent| agent.model.clone());
        let model = self.answering_for(&own.unwrap_or_else(|| user.model.clone()));
        let wish = Wish { agent: Some(AGENT.into()), model: Some(model), ..Wish::default() };
        let answerer = match setup.answerer(&wish) {
            Ok(answerer) => answerer,
            Err(error) => return self.fail_turn(SessionError::unknown(error.to_string()), ctx),
        };
        let (plan, text) = self.plan_summary(&setup, &answerer, &user.id);
        let message = AssistantMessage { summary: true, ..self.new_answer(&setup, &answerer, &user.id) };
        let message_id = message.id.clone();
        let changes = vec![self.set_status(SessionStatus::Busy), self.put_message(Message::Assistant(message))];
        self.record(changes).detach();
        let (agent, model) = (answerer.agent.clone(), answerer.chosen.model.clone());
        let mut options = model.options.clone();
        options.extend(agent.options.clone());
        let request = ModelRequest {
            session_id: self.id.clone(),
            parent_id: self.state.info.parent_id.clone(),
            model: model.api.id.clone(),
            system: agent.prompt.clone().into_iter().collect(),
            messages: vec![ModelMessage::User(vec![UserContent::Text(text)])],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_output_tokens: output_limit(&model),
            temperature: agent.temperature.filter(|_| model.capabilities.temperature),
            top_p: agent.top_p,
            reasoning: protocol::model::Reasoning::of(&model.capabilities),
            options,
            headers: model.headers.clone(),
        };
        self.start_step(
            setup,
            answerer,
            message_id,
            StepKind::Summary(Box::new(plan)),
            Arc::new(move || request.clone()),
            ctx,
        );
    }

    /// What is summarised, and the text that asks for it.
    fn plan_summary(&self, setup: &Setup, answerer: &Answerer, request_id: &MessageId) -> (Plan, String) {
        let config = &setup.config().compaction;
        let model = &answerer.chosen.model;
        let usable = window::usable(model, config, output_limit(model));
        let effort = self.state.turn.as_ref().map(|turn| turn.effort).unwrap_or_default();
        let unseen = self.unseen();
        let history = self.state.history.entries();
        let at = history.iter().position(|entry| entry.info.id() == request_id).unwrap_or(history.len());
        let before = history.get(..at).unwrap_or(history);
        let view = View::of(before);
        let talk: Vec<&Entry> =
            view.tail.iter().chain(&view.since).copied().filter(|e| !unseen.contains(e.info.id())).collect();
        let prompt = talk.iter().rposition(|entry| entry.info.as_user().is_some());
        let earlier = prompt.and_then(|at| talk.get(..at)).unwrap_or_default();
        let replay = prompt
            .and_then(|at| talk.get(at))
            .filter(|_| self.is_overflow(request_id) && !earlier.is_empty())
            .filter(|entry| !is_answered(history, entry.info.id()));
        let summarised = if replay.is_some() { earlier } else { &talk };
        let kept = match (config.preserve_recent_tokens, usable) {
            // What was kept last time was too much.
            _ if effort.in_a_row > 0 => 0,
            (Some(tokens), _) => tokens,
            (None, Some(usable)) => (usable / 4).clamp(MIN_KEPT, MAX_KEPT),
            (None, None) => MIN_KEPT,
        };
        let head = transcript::select(summarised, kept, config.tail_turns);
        let bytes = (usable.map_or(BYTES, |usable| usable * BYTES_PER_TOKEN) >> effort.tries).max(MIN_BYTES);
        let text = transcript::request(&view, &head, bytes as usize);
        let plan = Plan {
            is_barren: has_one_prompt(&head) && replay.is_none(),
            tail_start: head.tail_start,
            replay: replay.map(|entry| entry.info.id().clone()),
        };
        (plan, text)
    }

    fn is_overflow(&self, request_id: &MessageId) -> bool {
        let Some(entry) = self.state.history.get(request_id) else { return false };
        entry.parts.iter().any(|part| matches!(part.kind, PartKind::Compaction { overflow: Some(true), .. }))
    }

    /// Stores what became of a summary, and goes on or ends the turn.
    pub(super) fn close_summary(
        &mut self,
        step: Step,
        plan: Plan,
        mut message: AssistantMessage,
        ctx: &mut Context<Self>,
    ) {
        let text = self.state.history.get(&step.message_id).map(Entry::text).unwrap_or_default();
        message.time.completed = Some(self.now().max(message.time.created));
        let failure = match &step.end {
            Some(StepEnd::Finished { reason, usage }) => {
                message.tokens = *usage;
                message.cost = cost(&step.answerer.chosen.model, usage);
                message.finish = Some(reason.as_str().to_owned());
                text.trim().is_empty().then(|| {
                    SessionError::unknown("the model gave no summary; the history stays as it is, uncompacted")
                })
            }
            Some(StepEnd::Failed { error, .. }) => Some(SessionError::clone(error)),
            Some(StepEnd::Cut) | None => Some(SessionError::unknown("the summary broke off")),
        };
        if let Some(error) = failure {
            let next = self.stand_in(&step);
            if let Some(next) = next {
                message.error = Some(error);
                let changes = vec![self.put_message(Message::Assistant(message)), self.told_of_change(&step, &next)];
                self.record(changes).detach();
                return self.prepare_step(ctx);
            }
            return self.summary_failed(message, error, ctx);
        }
        let mut changes = vec![self.step_finish(&step, &message, None)];
        let (request_id, tokens, spent) = (message.parent_id.clone(), message.tokens, message.cost);
        changes.push(self.put_message(Message::Assistant(message)));
        changes.push(self.change_info(|info| {
            info.tokens += tokens;
            info.cost += spent;
        }));
        if let Some(turn) = &mut self.state.turn {
            turn.effort.in_a_row += 1;
            turn.effort.was_barren |= plan.is_barren;
            turn.effort.tries = 0;
            turn.stand_in.step_done();
        }
        // What instructions files said may have gone with it: the next read tells them again.
        self.state.files.forget_loaded();
        let goes_on = self.state.history.get(&request_id).is_some_and(view::is_auto);
        changes.extend(self.finish_request(&request_id, &plan));
        if !goes_on {
            self.shed();
            changes.push(Change::Notice(Event::SessionCompacted { session_id: self.id.clone() }));
            return self.close_turn(changes, None, ctx);
        }
        changes.extend(self.continuation(&request_id, &plan));
        self.shed();
        changes.push(Change::Notice(Event::SessionCompacted { session_id: self.id.clone() }));
        changes.push(self.set_status(SessionStatus::Busy));
        self.record(changes).detach();
        self.prepare_step(ctx);
    }

    fn summary_failed(&mut self, mut message: AssistantMessage, error: SessionError, ctx: &mut Context<Self>) {
        let is_too_large = matches!(error, SessionError::ContextOverflowError { .. });
        message.error = Some(error.clone());
        let changes = vec![self.put_message(Message::Assistant(message))];
        if let Some(turn) = &mut self.state.turn
            && is_too_large
            && turn.effort.tries + 1 < TRIES
        {
            turn.effort.tries += 1;
            self.record(changes).detach();
            return self.prepare_step(ctx);
        }
        self.close_turn(changes, Some(error), ctx);
    }

    /// Closes the request, and notes on it what was kept.
    fn finish_request(&mut self, request_id: &MessageId, plan: &Plan) -> Vec<Change> {
        let Some(entry) = self.state.history.get(request_id).cloned() else { return Vec::new() };
        let mut changes = Vec::new();
        if let Some(user) = entry.info.as_user() {
            let summary = Some(UserSummary::default());
            changes.push(self.put_message(Message::User(UserMessage { summary, ..user.clone() })));
        }
        for part in &entry.parts {
            if let PartKind::Compaction { auto, overflow, .. } = part.kind
                && plan.tail_start.is_some()
            {
                let kind = PartKind::Compaction { auto, overflow, tail_start_id: plan.tail_start.clone() };
                changes.push(self.put_part(Part { kind, ..Part::clone(part) }));
            }
        }
        changes
    }

    /// The message by which the turn goes on, in the place of the request for the compaction.
    fn continuation(&mut self, request_id: &MessageId, plan: &Plan) -> Vec<Change> {
        let Some(turn) = &mut self.state.turn else { return Vec::new() };
        turn.answering.retain(|id| id != request_id);
        self.state.queue.retain(|queued| queued.row.message_id != *request_id);
        let mut changes = vec![Change::TurnClosed(self.id.clone(), request_id.clone())];
        let origin = plan.replay.as_ref().or(turn.answering.last()).and_then(|id| self.state.history.get(id)).cloned();
        let user = origin.as_ref().and_then(|entry| entry.info.as_user().cloned());
        let (Some(origin), Some(user), Some((place, time))) = (origin, user, self.place_in_turn()) else {
            return changes;
        };
        let id = self.deps.ids.message();
        let created = self.next_time();
        let row = TurnRow { time, ..turn_row(&self.id, &id, TurnKind::Prompt, time) };
        let user = UserMessage { id: id.clone(), time: UserTime { created }, summary: None, ..user };
        changes.push(self.put_message(Message::User(user)));
        let kinds = match &plan.replay {
            Some(_) => origin.parts.iter().map(|part| part.kind.clone()).collect(),
            None => vec![PartKind::Text(go_on(created))],
        };
        changes.extend(kinds.into_iter().map(|kind| self.put_new_part(&id, kind)).collect::<Vec<_>>());
        changes.push(Change::Turn(row.clone()));
        self.state.queue.insert(place, Queued { row, waiters: Vec::new() });
        if let Some(turn) = &mut self.state.turn {
            turn.answering.push(id);
        }
        changes
    }
}

impl Session {
    /// Whether a step of the answer to a prompt is finished.
    pub(super) fn is_begun(&self, prompt: &MessageId) -> bool {
        is_answered(self.state.history.entries(), prompt)
    }
}

/// Whether a prompt has a finished answer, of which steps may follow.
fn is_answered(history: &[Entry], id: &MessageId) -> bool {
    history.iter().any(|entry| {
        entry.info.as_assistant().is_some_and(|m| m.parent_id == *id && m.finish.is_some() && m.error.is_none())
    })
}

fn has_one_prompt(head: &Head<'_>) -> bool {
    head.entries.iter().filter(|entry| entry.info.as_user().is_some()).count() <= 1
        && head.entries.iter().all(|entry| !entry.has_calls())
}

fn go_on(now: u64) -> TextPart {
    let metadata = JsonMap::from_iter([("compaction_continue".to_owned(), json!(true))]);
    let time = Some(Span { start: now, end: Some(now) });
    TextPart { text: GO_ON.to_owned(), synthetic: true, time, metadata: Some(metadata), ..TextPart::default() }
}

impl Handler<Summarize> for Session {
    type Result = ResponseActFuture<Self, Result<oneshot::Receiver<TurnEnd>, CommandError>>;

    fn handle(&mut self, told: Summarize, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&told.ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        if self.state.history.get(&told.message_id).is_some() {
            return Box::pin(fut::ready(Ok(self.wait_for(&told.message_id))));
        }
        let setup = self.deps.workspace.send(GetSetup);
        Box::pin(
            setup
                .into_actor(self)
                .map(move |setup, session, _| {
                    let setup = setup.map_err(|_| CommandError::Unknown)??;
                    let wish = Wish {
                        last_agent: session.state.info.agent.clone(),
                        model: Some(told.model),
                        ..Wish::default()
                    };
                    let answerer = setup.answerer(&wish)?;
                    Ok(session.queue_summary(told.message_id, &answerer, told.auto))
                })
                .then(|queued: Result<_, CommandError>, session, _| {
                    async move {
                        let (stored, end) = queued?;
                        let stored: storage::Ack = stored;
                        stored.await?;
                        Ok(end)
                    }
                    .into_actor(session)
                    .map(|end: Result<_, CommandError>, session, ctx| {
                        session.advance(ctx);
                        end
                    })
                }),
        )
    }
}

impl Session {
    fn queue_summary(
        &mut self,
        id: MessageId,
        answerer: &Answerer,
        auto: bool,
    ) -> (storage::Ack, oneshot::Receiver<TurnEnd>) {
        let time = self.now();
        let row = turn_row(&self.id, &id, TurnKind::Compact, time);
        let user = UserMessage {
            id: id.clone(),
            session_id: self.id.clone(),
            time: UserTime { created: time },
            format: None,
            summary: None,
            agent: answerer.agent.name.clone(),
            model: answerer.model_ref.clone(),
            system: None,
            tools: None,
            troupe: None,
        };
        let mut changes = self.put_compaction(id, &user, row.clone(), auto, None);
        let model = remembered(&answerer.model_ref);
        changes.push(self.change_info(|info| info.model = Some(model)));
        let (waiter, end) = oneshot::channel();
        self.state.queue.push_back(Queued { row, waiters: vec![waiter] });
        (self.record(changes), end)
    }
}
