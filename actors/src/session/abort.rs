//! Stopping what runs: an abort, and the end of the session.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use protocol::event::interrupted;
use protocol::part::Ran;
use protocol::{Message, MessageId, Part, PartId, PartKind, SessionError, ToolState};
use storage::Change;

use super::background::Wakes;
use super::command::{Abort, CommandError, Delete, StopReason};
use super::{Life, Session, Stage};
use crate::permission_broker::{DropApprovals, Withdraw};
use crate::processor::TakeOpenPart;
use crate::session_registry::Leave;
use crate::tool_executor::{AbortCalls, CallEnded, Outcome};
use crate::workspace::{Freshness, TakeSnapshot};

/// Most time an abort waits for the snapshot that its step began with.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(400);

/// What a call that was cut off says to the model.
const CUT_OFF: &str = "The call was aborted before it was done.";

/// What was left of a turn that was stopped.
struct Stopped {
    /// What its end was going to store.
    unsaved: Vec<Change>,
    /// The beginning of its step, and the tree it began with, where that came only now.
    began_with: Option<(MessageId, PartId, String)>,
    /// The part that was being written, whole: what was shown of it may not be stored yet.
    last_words: Option<Arc<Part>>,
    /// How its calls ended, as far as they did so in time.
    ended: Vec<CallEnded>,
    /// What ends its requests.
    withdrawn: Vec<Change>,
}

impl Session {
    /// Begins a new epoch and drops what runs.
    fn stop_all(&mut self) -> impl Future<Output = Stopped> + use<> {
        self.state.fence = self.deps.journal.fence(&self.id);
        let mut bare = None;
        let (processor, unsaved) = match std::mem::replace(&mut self.state.stage, Stage::Aborting) {
            Stage::Stepping(step) => {
                bare = step.without_snapshot();
                (step.processor, Vec::new())
            }
            Stage::Closing(unsaved) => (None, unsaved),
            _ => (None, Vec::new()),
        };
        let workspace = self.deps.workspace.clone();
        let tree = async move {
            let (message, part) = bare?;
            let taken = workspace.send(TakeSnapshot { freshness: Freshness::Any });
            let tree = tokio::time::timeout(SNAPSHOT_WAIT, taken).await.ok()?.ok().flatten()?;
            Some((message, part, tree))
        };
        let executor = self.state.executor.take();
        let withdrawn = self.deps.broker.send(Withdraw(self.id.clone()));
        let stop = async move {
            let last_words = match &processor {
                Some(processor) => processor.address.send(TakeOpenPart).await.ok().flatten(),
                None => None,
            };
            drop(processor);
            let withdrawn = withdrawn.await.unwrap_or_default();
            let ended = match &executor {
                Some(executor) => executor.address.send(AbortCalls).await.unwrap_or_default(),
                None => Vec::new(),
            };
            (last_words, withdrawn, ended)
        };
        async move {
            let (began_with, (last_words, withdrawn, ended)) = tokio::join!(tree, stop);
            Stopped { unsaved, began_with, last_words, ended, withdrawn }
        }
    }

    /// Everything the aborted turn left open, closed.
    fn closed_by_abort(&mut self, ended: Vec<CallEnded>, error: &SessionError) -> Vec<Change> {
        let mut changes = Vec::new();
        for CallEnded { message_id, part_id, call_id, outcome } in ended {
            let outcome = match outcome {
                Outcome::Failed { .. } => cut_off(),
                completed @ Outcome::Completed { .. } => completed,
            };
            changes.extend(self.finish_part(&message_id, &part_id, outcome));
            changes.push(Change::AsksForgotten(self.id.clone(), call_id));
        }
        let open: Vec<MessageId> = self
            .state
            .history
            .entries()
            .iter()
            .filter(|entry| {
                entry.info.as_assistant().is_some_and(|m| m.time.completed.is_none())
                    || entry.open_calls().next().is_some()
            })
            .map(|entry| entry.info.id().clone())
            .collect();
        for id in open {
            changes.extend(self.close_aborted(&id, error));
        }
        changes
    }

    fn close_aborted(&mut self, id: &MessageId, error: &SessionError) -> Vec<Change> {
        let now = self.now();
        let Some(entry) = self.state.history.get(id).cloned() else { return Vec::new() };
        let mut changes = Vec::new();
        for part in &entry.parts {
            let mut part = Part::clone(part);
            match &mut part.kind {
                PartKind::Tool(tool) if tool.state.is_open() => {
                    let start = tool.state.start().unwrap_or(now);
                    let mut metadata = match &tool.state {
                        ToolState::Running { metadata: Some(shown), .. } => shown.clone(),
                        _ => protocol::JsonMap::new(),
                    };
                    metadata.extend(interrupted());
                    tool.state = ToolState::Error {
                        input: tool.state.input().clone(),
                        error: CUT_OFF.into(),
                        metadata: Some(metadata),
                        time: Ran { start, end: now.max(start), compacted: None },
                    };
                }
                PartKind::Text(text) if text.time.is_some_and(|time| time.end.is_none()) => {
                    if let Some(time) = &mut text.time {
                        time.end = Some(now.max(time.start));
                    }
                }
                PartKind::Reasoning(thought) if thought.time.end.is_none() => {
                    thought.time.end = Some(now.max(thought.time.start));
                }
                _ => continue,
            }
            changes.push(self.put_part(part));
        }
        if let Message::Assistant(message) = &*entry.info
            && message.time.completed.is_none()
        {
            let mut message = message.clone();
            message.error = Some(error.clone());
            message.time.completed = Some(now.max(message.time.created));
            changes.push(self.put_message(Message::Assistant(message)));
        }
        changes
    }

    /// Whether the newest message of the model answers this prompt and says that it failed.
    pub(super) fn has_failed_answer(&self, prompt: &MessageId) -> bool {
        let last = self.state.history.last_assistant().and_then(|entry| entry.info.as_assistant());
        last.is_some_and(|answer| answer.parent_id == *prompt && answer.error.is_some())
    }

    /// Whether the turn's newest prompt has a whole answer, behind which nothing follows.
    fn is_answered(&self) -> bool {
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last());
        let Some(last) = self.state.history.last_assistant() else { return false };
        last.info.as_assistant().is_some_and(|answer| {
            let is_whole = answer.time.completed.is_some() && answer.finish.is_some();
            Some(&answer.parent_id) == asked && is_whole && !answer.summary && !last.has_calls()
        })
    }

    /// Whether the turn's newest prompt has an answer that says how it ended.
    fn has_answer(&self) -> bool {
        let asked = self.state.turn.as_ref().and_then(|turn| turn.answering.last());
        asked.is_none_or(|prompt| self.has_failed_answer(prompt))
    }
}

fn cut_off() -> Outcome {
    Outcome::Failed { error: CUT_OFF.into(), interrupted: true, stops_turn: false }
}

impl Handler<Abort> for Session {
    type Result = ResponseActFuture<Self, Result<(), CommandError>>;

    fn handle(&mut self, Abort(reason): Abort, _: &mut Self::Context) -> Self::Result {
        let answered = self.running_prompts();
        let is_late = matches!(&reason, StopReason::OutOfTime { prompt, .. } if !answered.contains(prompt));
        let runs = !matches!(self.state.stage, Stage::Idle | Stage::Aborting);
        if !matches!(self.state.life, Life::There) || !runs || is_late {
            return Box::pin(fut::ready(Ok(())));
        }
        let wakes = if reason == StopReason::Asked { Wakes::No } else { Wakes::Yes };
        let running = self.stop_all();
        let fence = self.state.fence.clone();
        Box::pin(running.into_actor(self).then(move |stopped, session, _| {
            session.state.history.extend_part(stopped.last_words);
            let mut changes = stopped.unsaved;
            changes
                .extend(stopped.began_with.map(|(message, part, tree)| session.begun_with(message, part, Some(tree))));
            // It came when all was said: the turn ends as it was about to.
            let is_answered = session.state.turn.is_some() && session.is_answered();
            changes.extend(stopped.withdrawn);
            changes.extend(session.closed_by_abort(stopped.ended, &reason.error()));
            if session.state.turn.is_some() && !is_answered && !session.has_answer() {
                changes.extend(session.answer_with_error(reason.error()));
            }
            changes.extend(session.summaries(&answered, &[]));
            changes.extend(answered.iter().map(|id| Change::TurnClosed(session.id.clone(), id.clone())));
            if !is_answered {
                changes.push(session.error_notice(reason.error()));
            }
            let notices = session.report(&answered, wakes, &mut changes);
            session.record(changes).into_actor(session).map(move |stored, session, ctx| {
                if session.state.fence == fence {
                    match &stored {
                        Ok(()) => {
                            session.tell_parent(notices);
                            session.end_turn(&answered, ctx);
                        }
                        Err(error) => session.unwritable(error, ctx),
                    }
                }
                stored.map_err(CommandError::from)
            })
        }))
    }
}

impl Session {
    /// The prompts whose turn runs, a command of the person's included.
    fn running_prompts(&self) -> Vec<MessageId> {
        match &self.state.turn {
            Some(turn) => turn.answering.clone(),
            None => self.shell_prompt().into_iter().collect(),
        }
    }
}

impl Handler<Delete> for Session {
    type Result = ResponseActFuture<Self, Result<(), CommandError>>;

    #[expect(clippy::disallowed_methods, reason = "bounded: two in a session's life")]
    fn handle(&mut self, _: Delete, _: &mut Self::Context) -> Self::Result {
        if !matches!(self.state.life, Life::There | Life::Broken(_)) {
            return Box::pin(fut::ready(Err(CommandError::NotFound(self.id.clone()))));
        }
        // From here on it is there for nobody: what came now would be stored behind its end.
        self.state.life = Life::Deleted;
        let running = self.stop_all();
        Box::pin(running.into_actor(self).then(|_, session, _| {
            let deleted = session.record(vec![Change::SessionDeleted(session.state.info.clone())]);
            // Nor is what was on its way.
            session.deps.journal.release(session.state.fence.clone());
            deleted.into_actor(session).map(|deleted, session, ctx| {
                if let Err(error) = deleted {
                    session.unwritable(&error, ctx);
                    return Err(error.into());
                }
                session.state.queue.clear();
                session.state.turn = None;
                session.state.stage = Stage::Idle;
                session.status.send_replace(protocol::SessionStatus::idle());
                let (processes, id) = (session.deps.processes.clone(), session.id.clone());
                session.deps.io.spawn(async move { processes.stop_all(&id).await });
                session.deps.broker.do_send(DropApprovals(session.id.clone()));
                session.deps.registry.leave.do_send(Leave(session.id.clone()));
                Ok(())
            })
        }))
    }
}
