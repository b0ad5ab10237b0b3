//! What a crash left open, and what becomes of it. Pure; one path for an actor's restart and the process's.
//!
//! A call that only asked, or waited, runs again from its beginning. One whose effects have begun runs again only
//! where that does no harm; else it becomes an error that says that its outcome is unknown. The message that was
//! being written is closed, its text kept, and the loop goes on by itself.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::config::Recovery;
use protocol::event::interrupted;
use protocol::part::{PartKind, Ran};
use protocol::{AssistantMessage, Message, MessageId, Part, PartId, SessionError, ToolState};
use serde_json::Value;
use storage::Change;
use storage::journal::{TurnKind, TurnRow};

use super::history::History;

/// A turn that was begun so often without progress is closed with its error.
pub const MAX_ATTEMPTS: u32 = 3;

const UNKNOWN: &str = "The runtime was interrupted while this call ran: its outcome is unknown. Look at what it did \
    before you call it again.";
const NOT_RUN: &str = "The runtime was interrupted before the arguments of this call were complete. It was not run.";
const INTERRUPTED: &str = "The runtime was interrupted (a crash or a restart) while this was being written.";

/// What decides about what is open.
pub struct Situation<'a> {
    /// The calls whose effects have begun.
    pub started: &'a HashSet<PartId>,
    /// Whether running a tool twice does no harm.
    pub repeatable: &'a dyn Fn(&str) -> bool,
    /// What an open turn does.
    pub mode: Recovery,
    /// Whether something fell: the actor, or the process before this one.
    pub after_crash: bool,
    /// A call waits for a person: that counts no attempt.
    pub waits_for_person: bool,
    /// The session is a subagent's and nobody waits for it any more.
    pub is_orphan: bool,
    /// Now, in ms since the Unix epoch.
    pub now: u64,
}

/// What becomes of it.
#[derive(Debug, Default)]
pub struct Settled {
    /// What to store and tell.
    pub changes: Vec<Change>,
    /// The step that goes on: its calls run again.
    pub rerun: Option<Rerun>,
    /// Turns whose attempt is raised before they go on.
    pub tried: Vec<MessageId>,
    /// Turns that are closed.
    pub closed: Vec<MessageId>,
    /// Why they are.
    pub error: Option<SessionError>,
}

/// A step of which only calls are left to do.
#[derive(Debug)]
pub struct Rerun {
    /// Its message, still open.
    pub message: AssistantMessage,
    /// Its calls that run again.
    pub parts: Vec<Arc<Part>>,
}

/// Settles what is open. `history` and `turns` are brought to the state that `changes` store.
pub fn settle(history: &mut History, turns: &mut Vec<TurnRow>, situation: &Situation<'_>) -> Settled {
    let mut settled = Settled::default();
    // One whose row is broken: there is nothing to answer.
    close(turns, &mut settled, |turn| history.get(&turn.message_id).is_none());
    let running = begun(history, turns);
    // A wait for a person counts nothing.
    let raise = u32::from(!situation.waits_for_person);
    let is_exhausted = |turn: &TurnRow| turn.attempt + raise >= MAX_ATTEMPTS;
    let exhausted = turns.iter().any(|turn| running.contains(&turn.message_id) && is_exhausted(turn));
    let resumes = !running.is_empty() && !exhausted && !situation.is_orphan && situation.mode == Recovery::Resume;
    let open: Vec<MessageId> = history
        .entries()
        .iter()
        .filter(|entry| entry.info.as_assistant().is_some_and(|m| m.time.completed.is_none()) || has_open_calls(entry))
        .map(|entry| entry.info.id().clone())
        .collect();
    let newest = open.last().cloned();
    for id in &open {
        let goes_on = resumes && newest.as_ref() == Some(id) && is_prompt(history, turns, id);
        settle_message(history, id, goes_on, situation, &mut settled);
    }
    let first = turns.first().map(|turn| turn.message_id.clone());
    // A prompt whose turn has left nothing may be what the crash came of: it is counted too.
    let is_next =
        |turn: &TurnRow| running.is_empty() && situation.after_crash && Some(&turn.message_id) == first.as_ref();
    if (resumes || running.is_empty()) && !situation.waits_for_person {
        let tried = turns.iter().filter(|turn| running.contains(&turn.message_id) || is_next(turn));
        settled.tried = tried.map(|turn| turn.message_id.clone()).collect();
    }
    if resumes {
        // A command of the person's is not given twice.
        close(turns, &mut settled, |turn| running.contains(&turn.message_id) && turn.kind == TurnKind::Shell);
    } else if !running.is_empty() {
        settled.error = Some(why_closed(exhausted));
        close(turns, &mut settled, |turn| running.contains(&turn.message_id));
    }
    settled
}

fn why_closed(exhausted: bool) -> SessionError {
    let message = if exhausted {
        format!("The turn was begun {MAX_ATTEMPTS} times and the runtime was interrupted each time; it is given up.")
    } else {
        INTERRUPTED.to_owned()
    };
    SessionError::MessageAbortedError { message }
}

fn close(turns: &mut Vec<TurnRow>, settled: &mut Settled, which: impl Fn(&TurnRow) -> bool) {
    turns.retain(|turn| {
        if which(turn) {
            settled.changes.push(Change::TurnClosed(turn.session_id.clone(), turn.message_id.clone()));
            settled.closed.push(turn.message_id.clone());
            false
        } else {
            true
        }
    });
}

/// The open turns that were begun: those up to the newest that has an answer, or was tried. Later ones waited.
fn begun(history: &History, turns: &[TurnRow]) -> HashSet<MessageId> {
    let is_answered = |turn: &TurnRow| {
        turn.attempt > 0
            || history.entries().iter().any(|e| e.info.as_assistant().is_some_and(|m| m.parent_id == turn.message_id))
    };
    let upto = turns.iter().rposition(is_answered).map_or(0, |at| at + 1);
    turns.iter().take(upto).map(|turn| turn.message_id.clone()).collect()
}

fn has_open_calls(entry: &super::history::Entry) -> bool {
    entry.open_calls().next().is_some()
}

/// Whether a message answers a prompt, not a command of the person's.
fn is_prompt(history: &History, turns: &[TurnRow], id: &MessageId) -> bool {
    let parent = history.get(id).and_then(|entry| Some(entry.info.as_assistant()?.parent_id.clone()));
    parent.is_some_and(|parent| turns.iter().any(|t| t.message_id == parent && t.kind == TurnKind::Prompt))
}

fn settle_message(
    history: &mut History,
    id: &MessageId,
    goes_on: bool,
    situation: &Situation<'_>,
    settled: &mut Settled,
) {
    let Some(entry) = history.get(id).cloned() else { return };
    let Message::Assistant(message) = &*entry.info else { return };
    let mut rerun = Vec::new();
    for part in &entry.parts {
        let runs_again = goes_on && may_run_again(part, situation);
        if runs_again {
            rerun.push(part.clone());
        } else if let Some(part) = closed_part(part, situation.now) {
            history.put_part(part.clone());
            settled.changes.push(Change::PartUpdated(part));
        }
    }
    if !rerun.is_empty() {
        settled.rerun = Some(Rerun { message: message.clone(), parts: rerun });
        return;
    }
    if message.time.completed.is_some() {
        return;
    }
    let mut message = message.clone();
    message.time.completed = Some(situation.now.max(message.time.created));
    if goes_on && entry.has_calls() {
        message.finish = Some("tool-calls".into());
    } else {
        message.error = Some(SessionError::MessageAbortedError { message: INTERRUPTED.into() });
    }
    let message = Arc::new(Message::Assistant(message));
    history.put_message(message.clone());
    settled.changes.push(Change::MessageUpdated(message));
}

fn may_run_again(part: &Part, situation: &Situation<'_>) -> bool {
    part.as_tool().is_some_and(|tool| {
        matches!(tool.state, ToolState::Running { .. })
            && (!situation.started.contains(&part.id) || (situation.repeatable)(&tool.tool))
    })
}

/// The part with its end; none where it has one.
fn closed_part(part: &Part, now: u64) -> Option<Arc<Part>> {
    let mut part = part.clone();
    match &mut part.kind {
        PartKind::Tool(tool) if tool.state.is_open() => {
            let text = if matches!(tool.state, ToolState::Pending { .. }) { NOT_RUN } else { UNKNOWN };
            let mut metadata = match &tool.state {
                ToolState::Running { metadata: Some(metadata), .. } => metadata.clone(),
                _ => protocol::JsonMap::new(),
            };
            metadata.extend(interrupted());
            let start = tool.state.start().unwrap_or(now);
            tool.state = ToolState::Error {
                input: match tool.state.input() {
                    Value::Null => Value::Object(protocol::JsonMap::new()),
                    input => input.clone(),
                },
                error: text.to_owned(),
                metadata: Some(metadata),
                time: Ran { start, end: now.max(start), compacted: None },
            };
        }
        PartKind::Text(text) => {
            let time = text.time.as_mut().filter(|time| time.end.is_none())?;
            time.end = Some(now.max(time.start));
        }
        PartKind::Reasoning(thought) if thought.time.end.is_none() => {
            thought.time.end = Some(now.max(thought.time.start));
        }
        _ => return None,
    }
    Some(Arc::new(part))
}

#[cfg(test)]
mod tests;
