//! Subagents in the background: the call that starts one has its result at once. The subagent's prompt says whom it
//! reports to; when its turn ends, what it said is stored as a message of its parent's, in the same transaction: the
//! parent's next step, or a turn of its own, answers that. One that was stopped wakes nobody, unless its time was over.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use protocol::message::{ModelRef, UserTime};
use protocol::part::TextPart;
use protocol::{JsonMap, Message, MessageId, Part, PartKind, SessionId, UserMessage};
use serde::{Deserialize, Serialize};
use storage::Change;
use storage::journal::{TurnKind, TurnRow};

use super::history::Entry;
use super::{Life, Queued, Session, StopReason, turn_row};
use crate::session_registry::{AbortSession, last_words};
use crate::tool_executor::Delegate;

/// What marks the prompt of a subagent in the background.
const MARK: &str = "background";

/// Whom a prompt reports to: who is asked with what came of it.
#[derive(Debug, Serialize, Deserialize)]
struct ReportsTo {
    agent: String,
    model: ModelRef,
    description: String,
    /// Most time its turn may take, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit_ms: Option<u64>,
}

/// Another session has stored a message here: take it in. It may be known already.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct TakeIn {
    /// This session.
    pub session_id: SessionId,
    /// The message.
    pub message: Arc<Message>,
    /// Its only part.
    pub part: Arc<Part>,
    /// It is to be answered.
    pub turn: Option<TurnRow>,
}

/// Whether the parent is asked to go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wakes {
    /// It is.
    Yes,
    /// It hears of it with its next prompt.
    No,
}

impl TakeIn {
    /// Returns what stores it.
    fn changes(&self) -> Vec<Change> {
        let mut changes = vec![Change::MessageUpdated(self.message.clone()), Change::PartUpdated(self.part.clone())];
        changes.extend(self.turn.clone().map(Change::Turn));
        changes
    }
}

/// Returns whether a message is the prompt of a subagent in the background.
pub(super) fn is_background(entry: &Entry) -> bool {
    mark(entry).is_some()
}

fn mark(entry: &Entry) -> Option<ReportsTo> {
    let found = entry.parts.iter().find_map(|part| match &part.kind {
        PartKind::Text(text) => text.metadata.as_ref()?.get(MARK).cloned(),
        _ => None,
    });
    serde_json::from_value(found?).ok()
}

impl Session {
    /// Returns the mark of the prompt for a subagent; none for one that is waited for.
    pub(super) fn reports_to(&self, told: &Delegate) -> Option<JsonMap> {
        if !told.delegation.background {
            return None;
        }
        let asked = self.state.turn.as_ref()?.answering.last()?;
        let user = self.state.history.get(asked)?.info.as_user()?;
        let reports = ReportsTo {
            agent: user.agent.clone(),
            model: user.model.clone(),
            description: told.delegation.description.clone(),
            limit_ms: told.limit.map(|limit| limit.as_millis() as u64),
        };
        Some(JsonMap::from_iter([(MARK.to_owned(), serde_json::to_value(reports).ok()?)]))
    }

    /// Sets the time limits of those of the running turn's prompts that nobody waits for: from when their turn begins,
    /// or goes on after a crash.
    pub(super) fn limit_time(&mut self, ctx: &mut Context<Self>) {
        let Some(turn) = &mut self.state.turn else { return };
        let new = turn.answering.iter().skip(std::mem::replace(&mut turn.timed, turn.answering.len()));
        let limit_of = |id: &MessageId| mark(self.state.history.get(id)?)?.limit_ms.map(Duration::from_millis);
        for (prompt, limit) in new.filter_map(|id| Some((id.clone(), limit_of(id)?))) {
            ctx.run_later(limit, move |session, _| {
                let (session_id, reason) = (session.id.clone(), StopReason::OutOfTime { prompt, limit });
                // By the registry: what is below it is stopped too.
                let stopped = session.deps.registry.stop.send(AbortSession { session_id, reason });
                session.deps.io.spawn(stopped);
            });
        }
    }

    /// Adds to what ends the turn of these prompts what their parent is told of them. Returns who is to take it in once
    /// that is stored.
    pub(super) fn report(&self, answered: &[MessageId], wakes: Wakes, changes: &mut Vec<Change>) -> Vec<TakeIn> {
        let Some(parent) = &self.state.info.parent_id else { return Vec::new() };
        let prompts = answered.iter().filter_map(|id| self.state.history.get(id));
        let notices: Vec<TakeIn> =
            prompts.filter_map(mark).map(|reports| self.notice(parent, &reports, answered, wakes)).collect();
        changes.extend(notices.iter().flat_map(TakeIn::changes));
        notices
    }

    fn notice(&self, parent: &SessionId, to: &ReportsTo, answered: &[MessageId], wakes: Wakes) -> TakeIn {
        let answer = self.end_of(answered).and_then(|id| self.state.history.get(id)).map(Entry::seen);
        let words = last_words(answer.ok_or(super::TurnGone));
        let (state, said) = match words.error {
            Some(error) if words.text.is_empty() => ("failed", error),
            Some(error) => ("failed", format!("{error}\nBefore that it had said:\n{}", words.text)),
            None => ("completed", words.text),
        };
        let text = format!(
            "The subagent in the background ({}) has ended.\n<task id=\"{}\" state=\"{state}\">\n<task_result>\n{said}\n\
             </task_result>\n</task>",
            to.description, self.id
        );
        let now = self.now();
        let id = self.deps.ids.message();
        let message = UserMessage {
            id: id.clone(),
            session_id: parent.clone(),
            time: UserTime { created: now },
            format: None,
            summary: None,
            agent: to.agent.clone(),
            model: to.model.clone(),
            system: None,
            tools: None,
            troupe: None,
        };
        let kind = PartKind::Text(TextPart { text, synthetic: true, ..TextPart::default() });
        let part = Part { id: self.deps.ids.part(), session_id: parent.clone(), message_id: id.clone(), kind };
        TakeIn {
            session_id: parent.clone(),
            message: Arc::new(Message::User(message)),
            part: Arc::new(part),
            turn: (wakes == Wakes::Yes).then(|| turn_row(parent, &id, TurnKind::Prompt, now)),
        }
    }

    /// What is stored for the parent is told to it. Where it falls before it hears, it finds it when it loads.
    pub(super) fn tell_parent(&self, notices: Vec<TakeIn>) {
        for notice in notices {
            let told = self.deps.registry.notify.send(notice);
            self.deps.io.spawn(async move {
                let _ = told.await;
            });
        }
    }
}

impl Handler<TakeIn> for Session {
    type Result = ();

    fn handle(&mut self, TakeIn { message, part, turn, .. }: TakeIn, ctx: &mut Self::Context) {
        if !matches!(self.state.life, Life::There) || self.state.history.get(message.id()).is_some() {
            return;
        }
        self.state.newest = self.state.newest.max(message.created());
        self.state.history.put_message(message);
        self.state.history.put_part(part);
        if let Some(row) = turn {
            self.state.queue.push_back(Queued { row, waiters: Vec::new() });
            self.advance(ctx);
        }
    }
}
