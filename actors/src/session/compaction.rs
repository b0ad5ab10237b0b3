//! Compaction: a model writes a summary that stands for the history before it. Asked for by the loop, when the window
//! is nearly full or a vendor said that it is, and by the person. The loop asks for none where nothing but the prompt
//! could be summarised: the vendor decides about it, and its refusal ends the turn.
//!
//! A compaction is a user message with a part `compaction` and a turn row of its own, so that one that was broken off
//! by a crash runs again. Its answer is the summary. One of the loop's own goes on afterwards: with the prompts given
//! once more that had no answer yet, else with a message that says so, and with the files of the prompt.
//!
//! It never runs without end: after one without progress (nothing was there to summarise but the prompt itself, which
//! did not even fit behind a summary) the next overflow ends the turn, with an error that says what fills the window.

use std::sync::Arc;

use actix::prelude::*;
use protocol::message::{Tokens, UserSummary, UserTime};
use protocol::model::{FinishReason, ModelMessage, ModelRequest, ToolChoice, UserContent};
use protocol::part::{PartKind, Span, TextPart};
use protocol::{AssistantMessage, Event, JsonMap, Message, MessageId, Part, SessionError, SessionStatus, UserMessage};
use serde_json::json;
use storage::Change;
use storage::journal::{TurnKind, TurnRow};

use super::close::cost;
use super::history::Entry;
use super::offer::output_limit;
use super::step::{Step, StepKind};
use super::{Queued, Session, turn_row};
use crate::processor::StepEnd;
use crate::workspace::{Answerer, Setup, Wish};

mod by_request;
pub mod carried;
mod plan;
pub mod prune;
pub mod shed;
mod transcript;
pub mod view;
pub mod window;

pub(super) use plan::Plan;
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
    /// Tries of the summary that is being written, whose request was too large.
    tries: u32,
    /// One try of it was cut off.
    was_cut: bool,
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
        let history = &self.state.history;
        let view = View::of(history.entries());
        let (unseen, open) = (self.unseen(), self.open_prompts());
        let since: Vec<&Entry> = view.since.iter().copied().filter(|e| !unseen.contains(e.info.id())).collect();
        let could_go = plan::could_go(view.tail.iter().chain(&since).copied(), &open);
        // So soon after the last one, or before anything was done, it would make no room.
        if could_go == 0 || view.summary.is_some() && could_go < usable / 10 {
            return false;
        }
        let expected = window::next_request(&since);
        if expected.is_some_and(|tokens| tokens < usable) {
            return false;
        }
        let filling = Filling::of(&self.request_of(setup, answerer, user)());
        let prompts: u64 = open.iter().filter_map(|id| history.get(id)).map(window::size).sum();
        // What stays would be too much by itself: again the vendor decides.
        expected.unwrap_or_else(|| filling.total()) >= usable && filling.system + filling.tools + prompts < usable
    }

    /// Whether room can still be made after a vendor said that there is none.
    pub(super) fn may_compact(&self, setup: &Setup) -> bool {
        let effort = self.state.turn.as_ref().map(|turn| turn.effort).unwrap_or_default();
        let (view, unseen) = (View::of(self.state.history.entries()), self.unseen());
        let talk = view.tail.iter().chain(&view.since).copied().filter(|e| !unseen.contains(e.info.id()));
        setup.config().compaction.auto != Some(false)
            && !effort.was_barren
            && effort.in_a_row < MAX_IN_A_ROW
            && (view.summary.is_some() || plan::could_go(talk, &self.open_prompts()) > 0)
    }

    /// The prompts of the turn that no step has answered yet.
    fn open_prompts(&self) -> Vec<MessageId> {
        let history = self.state.history.entries();
        let answering = self.state.turn.as_ref().map_or(&[][..], |turn| &turn.answering);
        plan::open_prompts(history, &View::of(history), answering)
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

    /// Why a request that does not fit ends the turn. `learned`: what its vendor says that the model takes.
    pub(super) fn does_not_fit(&self, step: &Step, learned: Option<u64>, error: SessionError) -> SessionError {
        let (setup, answerer) = (&step.setup, &step.answerer);
        let SessionError::ContextOverflowError { message, response_body } = error else { return error };
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last());
        let user = asked.and_then(|id| self.state.history.get(id)).and_then(|entry| entry.info.as_user());
        let Some(user) = user else { return SessionError::ContextOverflowError { message, response_body } };
        let filling = Filling::of(&self.request_of(setup, answerer, user)());
        let context = answerer.chosen.model.limit.context;
        let known = setup.catalogue.learned(&answerer.model_ref).or(learned.map(|learned| (context, learned)));
        let window = match known {
            Some((configured, learned)) => {
                format!("the server says that it takes {learned} tokens, the config says {configured}")
            }
            None => format!("the config says that it takes {context} tokens"),
        };
        let open = self.open_prompts();
        let open: Vec<&Entry> = open.iter().filter_map(|id| self.state.history.get(id)).collect();
        let prompt: u64 = open.iter().map(|entry| window::size(entry)).sum();
        let files = open.iter().flat_map(|entry| plan::media(entry)).count();
        let advice = match files {
            0 if prompt <= filling.system + filling.tools => "Shorten the instructions, switch tools off",
            0 => "Shorten the prompt",
            _ => "Send fewer or smaller files, shorten the prompt",
        };
        let message = format!(
            "{message} (The request has about {} tokens: system prompt and instructions {}, tools {}, conversation {}, \
             of which the prompt {prompt} (files in it: {files}); of {} {window}. {advice}, or use a model with a \
             larger window.)",
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
        let answering = self.state.turn.as_ref().map_or(&[][..], |turn| &turn.answering);
        let open = plan::open_prompts(before, &view, answering);
        let could_go = plan::could_go(talk.iter().copied(), &open) > 0;
        // Given once more in vain, with nothing else left: now it is summarised too.
        let is_told_again = self.is_overflow(request_id) && (could_go || effort.in_a_row == 0);
        let replay = if is_told_again { open } else { Vec::new() };
        let summarised: Vec<&Entry> = talk.into_iter().filter(|e| !replay.contains(e.info.id())).collect();
        let kept = match (config.preserve_recent_tokens, usable) {
            // What was kept last time was too much.
            _ if effort.in_a_row > 0 => 0,
            (Some(tokens), _) => tokens,
            (None, Some(usable)) => (usable / 4).clamp(MIN_KEPT, MAX_KEPT),
            (None, None) => MIN_KEPT,
        };
        let head = transcript::select(&summarised, kept, config.tail_turns);
        let bytes = (usable.map_or(BYTES, |usable| usable * BYTES_PER_TOKEN) >> effort.tries).max(MIN_BYTES);
        let text = transcript::request(&view, &head, bytes as usize);
        let plan = Plan {
            is_barren: replay.is_empty() && (!could_go || plan::has_one_prompt(&head)),
            begun: plan::begun(&head, answering),
            tail_start: head.tail_start,
            replay,
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
                unusable(*reason, &text)
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
            let is_cut = matches!(&step.end, Some(StepEnd::Finished { reason, .. }) if is_cut(*reason));
            return self.summary_failed(message, error, is_cut, ctx);
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
            (turn.effort.tries, turn.effort.was_cut) = (0, false);
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

    /// Tries again what another try may mend: with less to tell where it was too much, once where it was cut off.
    fn summary_failed(
        &mut self,
        mut message: AssistantMessage,
        error: SessionError,
        is_cut: bool,
        ctx: &mut Context<Self>,
    ) {
        let is_too_large = matches!(error, SessionError::ContextOverflowError { .. });
        let (tokens, spent) = (message.tokens, message.cost);
        message.error = Some(error.clone());
        let mut changes = vec![self.put_message(Message::Assistant(message))];
        if tokens != Tokens::default() {
            changes.push(self.change_info(|info| {
                info.tokens += tokens;
                info.cost += spent;
            }));
        }
        if let Some(turn) = &mut self.state.turn {
            let effort = &mut turn.effort;
            let again = is_too_large && effort.tries + 1 < TRIES || is_cut && !effort.was_cut;
            effort.tries += u32::from(is_too_large);
            effort.was_cut |= is_cut;
            if again {
                self.record(changes).detach();
                return self.prepare_step(ctx);
            }
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
        let last = turn.answering.last().cloned();
        let entries = |ids: &[MessageId]| -> Vec<Entry> {
            ids.iter().filter_map(|id| self.state.history.get(id)).cloned().collect()
        };
        let kinds_of = |entry: &Entry| entry.parts.iter().map(|part| part.kind.clone()).collect();
        let mut told: Vec<(Entry, Vec<PartKind>)> =
            entries(&plan.replay).into_iter().map(|entry| (entry.clone(), kinds_of(&entry))).collect();
        if told.is_empty()
            && let Some(origin) = last.and_then(|id| self.state.history.get(&id)).cloned()
        {
            let begun = entries(&plan.begun);
            let files = begun.iter().flat_map(plan::media).cloned().map(PartKind::File);
            let kinds = std::iter::once(PartKind::Text(go_on(self.next_time()))).chain(files).collect();
            told.push((origin, kinds));
        }
        for (origin, kinds) in told {
            changes.extend(self.go_on_with(&origin, kinds));
        }
        changes
    }

    /// Puts a message with these parts behind what the turn answers, in the words of `origin`'s author.
    fn go_on_with(&mut self, origin: &Entry, kinds: Vec<PartKind>) -> Vec<Change> {
        let (Some(user), Some((place, time))) = (origin.info.as_user().cloned(), self.place_in_turn()) else {
            return Vec::new();
        };
        let id = self.deps.ids.message();
        let created = self.next_time();
        let row = TurnRow { time, ..turn_row(&self.id, &id, TurnKind::Prompt, time) };
        let user = UserMessage { id: id.clone(), time: UserTime { created }, summary: None, ..user };
        let mut changes = vec![self.put_message(Message::User(user))];
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
        plan::is_answered(self.state.history.entries(), prompt)
    }
}

/// Whether an answer ended before its end.
fn is_cut(reason: FinishReason) -> bool {
    matches!(reason, FinishReason::ContentFilter | FinishReason::Length)
}

/// Why a summary can't stand for the history.
fn unusable(reason: FinishReason, text: &str) -> Option<SessionError> {
    let why = match reason {
        FinishReason::ContentFilter => {
            let message = "the provider's content filter stopped the summary; the history stays as it is, uncompacted";
            return Some(SessionError::ContentFilterError { message: message.into() });
        }
        FinishReason::Length => "the summary was cut off at the model's output limit",
        _ if text.trim().is_empty() => "the model gave no summary",
        _ => return None,
    };
    Some(SessionError::unknown(format!("{why}; the history stays as it is, uncompacted")))
}

fn go_on(now: u64) -> TextPart {
    let metadata = JsonMap::from_iter([(view::CONTINUES.to_owned(), json!(true))]);
    let time = Some(Span { start: now, end: Some(now) });
    TextPart { text: GO_ON.to_owned(), synthetic: true, time, metadata: Some(metadata), ..TextPart::default() }
}
