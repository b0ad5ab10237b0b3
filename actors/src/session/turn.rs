//! The loop: what runs next, and how a turn ends.

use actix::prelude::*;
use protocol::message::UserSummary;
use protocol::session::{FileDiff, SessionSummary};
use protocol::{Event, Message, MessageId, SessionError, SessionStatus};
use storage::Change;
use storage::journal::{TurnKind, TurnRow};

use super::background::Wakes;
use super::command::{CommandError, WaitTurn};
use super::compaction::Effort;
use super::compaction::view::{is_auto, is_request};
use super::fallback::StandIn;
use super::hand_over::is_hand_over;
use super::history::Entry;
use super::{Resumption, Session, Stage, Turn, TurnEnd};
use crate::workspace::DiffSnapshots;
use tokio::sync::oneshot;

impl Session {
    /// Begins the next turn when none runs.
    pub(super) fn advance(&mut self, ctx: &mut Context<Self>) {
        if !matches!(self.state.stage, Stage::Idle) || self.state.turn.is_some() {
            return;
        }
        if let Some(resumption) = self.state.resumption.take() {
            return self.resume(resumption, ctx);
        }
        let Some(next) = self.state.queue.front() else {
            self.tell_quiet();
            return;
        };
        if next.row.kind == TurnKind::Shell {
            // Its call is settled; it was only still to be closed.
            let (session_id, message_id) = (self.id.clone(), next.row.message_id.clone());
            self.state.queue.pop_front();
            self.record(vec![Change::TurnClosed(session_id, message_id)]).detach();
            return self.advance(ctx);
        }
        self.begin_turn(ctx);
        self.prepare_step(ctx);
    }

    /// Goes on after a crash; that it was tried is stored first.
    fn resume(&mut self, Resumption { rerun, tried }: Resumption, ctx: &mut Context<Self>) {
        let mut changes = Vec::new();
        for queued in self.state.queue.iter_mut().filter(|queued| tried.contains(&queued.row.message_id)) {
            queued.row.attempt += 1;
            changes.push(Change::Turn(queued.row.clone()));
        }
        let go_on = move |session: &mut Self, ctx: &mut Context<Self>| match rerun {
            Some(rerun) => session.resume_step(rerun, ctx),
            None => session.advance(ctx),
        };
        if changes.is_empty() {
            return go_on(self, ctx);
        }
        // From now on, for who waits until it is idle again.
        changes.push(self.set_status(SessionStatus::Busy));
        let stored = self.record(changes);
        ctx.wait(stored.into_actor(self).map(move |stored, session, ctx| match stored {
            Ok(()) => go_on(session, ctx),
            Err(error) => session.unwritable(&error, ctx),
        }));
    }

    /// Returns how often the turn that was tried most will have been, once it goes on.
    pub(super) fn attempts(&self) -> u32 {
        let tried = self.state.resumption.iter().flat_map(|resumption| &resumption.tried);
        let tried: Vec<&MessageId> = tried.collect();
        let attempt = |row: &TurnRow| row.attempt + u32::from(tried.contains(&&row.message_id));
        self.state.queue.iter().map(|queued| attempt(&queued.row)).max().unwrap_or(0)
    }

    /// Begins the turn of the first prompt in the queue.
    pub(super) fn begin_turn(&mut self, _: &mut Context<Self>) {
        let answering = self.state.queue.front().map(|next| next.row.message_id.clone()).into_iter().collect();
        self.state.turn = Some(Turn {
            answering,
            timed: 0,
            cut_in_a_row: 0,
            effort: Effort::default(),
            stand_in: StandIn::default(),
            before: None,
            after: None,
            is_fresh: false,
        });
        self.record(vec![self.set_status(SessionStatus::Busy)]).detach();
    }

    /// Returns how many steps the turn made, the one that runs and those before a crash included.
    pub(super) fn steps(&self) -> u32 {
        let Some(turn) = &self.state.turn else { return 0 };
        let answers = self.state.history.entries().iter().rev().filter_map(|entry| entry.info.as_assistant());
        let of_turn = answers.filter(|answer| !answer.summary && turn.answering.contains(&answer.parent_id));
        u32::try_from(of_turn.count()).unwrap_or(u32::MAX)
    }

    /// Takes prompts that came meanwhile into the running turn: those that speak to the same agent and model. A
    /// compaction of the loop's own, left by a crash, is always one of them.
    pub(super) fn join_waiting(&mut self) {
        let Some(turn) = &mut self.state.turn else { return };
        let history = &self.state.history;
        let asked = |id: &MessageId| history.get(id).and_then(|entry| entry.info.as_user().cloned());
        let Some(current) = turn.answering.last().and_then(asked) else { return };
        let is_compaction = |id: &MessageId| history.get(id).is_some_and(is_request);
        if turn.answering.last().is_some_and(is_compaction) {
            return;
        }
        // Whom a call has given the next step to takes over, with all that was said before.
        let is_given = |queued: &super::Queued| history.get(&queued.row.message_id).is_some_and(is_hand_over);
        let given = self.state.queue.iter().rposition(is_given).unwrap_or_default();
        for (at, queued) in self.state.queue.iter().enumerate().skip(turn.answering.len()) {
            if queued.row.kind == TurnKind::Compact && history.get(&queued.row.message_id).is_some_and(is_auto) {
                turn.answering.push(queued.row.message_id.clone());
                break;
            }
            let joins = queued.row.kind == TurnKind::Prompt
                && asked(&queued.row.message_id).is_some_and(|user| {
                    at <= given && given > 0
                        || user.agent == current.agent
                            && user.model == current.model
                            && user.format == current.format
                            && user.system == current.system
                });
            if !joins {
                break;
            }
            turn.answering.push(queued.row.message_id.clone());
        }
    }

    /// Ends the turn: works out what it changed, stores its end, answers who waits, looks at the queue.
    /// `changes` is what the last step still has to store.
    pub(super) fn close_turn(&mut self, changes: Vec<Change>, error: Option<SessionError>, ctx: &mut Context<Self>) {
        let trees = self.state.turn.as_ref().and_then(|turn| Some((turn.before.clone()?, turn.after.clone()?)));
        match trees.filter(|(before, after)| before != after) {
            None => self.store_end(changes, error, Vec::new(), ctx),
            Some((from, to)) => {
                let fence = self.state.fence.clone();
                let diff = self.deps.workspace.send(DiffSnapshots { from, to });
                self.state.stage = Stage::Closing(changes);
                ctx.spawn(diff.into_actor(self).map(move |diff, session, ctx| {
                    if session.state.fence == fence
                        && let Stage::Closing(changes) = &mut session.state.stage
                    {
                        let changes = std::mem::take(changes);
                        let diffs = diff.ok().and_then(Result::ok).unwrap_or_default();
                        session.store_end(changes, error, diffs, ctx);
                    }
                }));
            }
        }
    }

    fn store_end(
        &mut self,
        mut changes: Vec<Change>,
        error: Option<SessionError>,
        diffs: Vec<FileDiff>,
        ctx: &mut Context<Self>,
    ) {
        self.state.stage = Stage::Closing(Vec::new());
        let answered = self.state.turn.as_ref().map(|turn| turn.answering.clone()).unwrap_or_default();
        changes.extend(self.summaries(&answered, &diffs));
        changes.extend(answered.iter().map(|id| Change::TurnClosed(self.id.clone(), id.clone())));
        if let Some(error) = error {
            changes.push(self.error_notice(error));
        }
        let notices = self.report(&answered, Wakes::Yes, &mut changes);
        let fence = self.state.fence.clone();
        let stored = self.record(changes);
        ctx.spawn(stored.into_actor(self).map(move |stored, session, ctx| {
            if session.state.fence != fence {
                return;
            }
            match stored {
                Ok(()) => {
                    session.tell_parent(notices);
                    session.end_turn(&answered, ctx);
                }
                Err(error) => session.unwritable(&error, ctx),
            }
        }));
    }

    /// What the turn changed, on its prompts and on the session.
    pub(super) fn summaries(&mut self, answered: &[MessageId], diffs: &[FileDiff]) -> Vec<Change> {
        let mut changes = Vec::new();
        for id in answered {
            let Some(mut user) = self.state.history.get(id).and_then(|e| e.info.as_user().cloned()) else { continue };
            user.summary = Some(UserSummary { diffs: diffs.to_vec(), ..UserSummary::default() });
            changes.push(self.put_message(Message::User(user)));
        }
        let files = diffs.iter().filter_map(|diff| diff.file.as_ref()).count() as u64;
        changes.push(self.change_info(|info| {
            let summary = info.summary.get_or_insert_with(SessionSummary::default);
            summary.additions += diffs.iter().map(|diff| diff.additions).sum::<u64>();
            summary.deletions += diffs.iter().map(|diff| diff.deletions).sum::<u64>();
            summary.files += files;
        }));
        changes.push(Change::Notice(Event::SessionDiff { session_id: self.id.clone(), diff: diffs.to_vec() }));
        changes
    }

    /// The turn's end is stored: who waits hears of it, and the queue goes on. Idle is told here alone.
    pub(super) fn end_turn(&mut self, answered: &[MessageId], ctx: &mut Context<Self>) {
        self.state.turn = None;
        self.state.stage = Stage::Idle;
        self.state.executor = None;
        self.answer_waiters(answered);
        if self.state.queue.is_empty() {
            let idle = vec![
                self.set_status(SessionStatus::idle()),
                Change::Notice(Event::SessionIdle { session_id: self.id.clone() }),
            ];
            self.record(idle).detach();
        }
        self.advance(ctx);
    }

    fn answer_waiters(&mut self, answered: &[MessageId]) {
        let mut waiters = Vec::new();
        self.state.queue.retain_mut(|queued| {
            let is_answered = answered.contains(&queued.row.message_id);
            if is_answered {
                waiters.append(&mut queued.waiters);
            }
            !is_answered
        });
        self.tell_end(self.end_of(answered), waiters);
    }

    /// The last answer to these prompts.
    pub(super) fn end_of(&self, answered: &[MessageId]) -> Option<&MessageId> {
        let mut newest = self.state.history.entries().iter().rev();
        let is_answer =
            |entry: &&Entry| entry.info.as_assistant().is_some_and(|answer| answered.contains(&answer.parent_id));
        newest.find(is_answer).map(|entry| entry.info.id())
    }

    /// The prompts that are stored and that the running step must not see.
    pub(super) fn unseen(&self) -> std::collections::HashSet<MessageId> {
        let answering = self.state.turn.as_ref().map_or(0, |turn| turn.answering.len());
        self.state.queue.iter().skip(answering).map(|queued| queued.row.message_id.clone()).collect()
    }
}

impl Handler<WaitTurn> for Session {
    type Result = Result<oneshot::Receiver<TurnEnd>, CommandError>;

    fn handle(&mut self, WaitTurn(id): WaitTurn, _: &mut Self::Context) -> Self::Result {
        self.check(&super::Ticket::internal())?;
        Ok(self.wait_for(&id))
    }
}

impl Session {
    /// Hears of the end of a prompt's turn, also when it is over.
    pub(super) fn wait_for(&mut self, id: &MessageId) -> oneshot::Receiver<TurnEnd> {
        let (waiter, end) = oneshot::channel();
        match self.state.queue.iter_mut().find(|queued| queued.row.message_id == *id) {
            Some(queued) => queued.waiters.push(waiter),
            None => self.tell_end(self.stored_end(id), vec![waiter]),
        }
        end
    }

    /// The answer to a prompt whose turn is over: its own, or the one that answered it along with a later prompt.
    pub(super) fn stored_end(&self, id: &MessageId) -> Option<&MessageId> {
        if let Some(answer) = self.end_of(std::slice::from_ref(id)) {
            return Some(answer);
        }
        let entries = self.state.history.entries();
        let after = entries.iter().position(|entry| entry.info.id() == id).map_or(entries.len(), |at| at + 1);
        let next = entries.iter().skip(after).find_map(|entry| entry.info.as_assistant())?;
        self.end_of(std::slice::from_ref(&next.parent_id))
    }
}
