//! What of a history the model still sees after a compaction. Pure.
//!
//! A compaction is a user message with a part `compaction`, answered by a message marked `summary`. From then on the
//! model sees the summary, the messages that were kept as they were (from `tail_start_id` on), and the newer ones.
//! One without a whole summary changes nothing.

use std::collections::HashSet;

use protocol::{MessageId, PartKind};

use super::plan::is_answered;
use crate::session::history::Entry;

/// The mark of a message by which a turn goes on.
pub const CONTINUES: &str = "compaction_continue";

/// What the model sees.
pub struct View<'a> {
    /// The last compaction: its request and its summary.
    pub summary: Option<(&'a Entry, &'a Entry)>,
    /// How many messages of the history are before the kept ones.
    pub hidden: usize,
    /// What it stands for, all that went before included.
    pub gone: Vec<&'a Entry>,
    /// Kept messages from before it.
    pub tail: Vec<&'a Entry>,
    /// What came after it.
    pub since: Vec<&'a Entry>,
}

impl<'a> View<'a> {
    /// Looks at a history.
    pub fn of(history: &'a [Entry]) -> Self {
        let Some((at, answer)) = history.iter().enumerate().rev().find_map(|(at, entry)| {
            let answer = is_request(entry).then(|| summary_of(history, entry.info.id()))??;
            Some((at, answer))
        }) else {
            return Self { summary: None, hidden: 0, gone: Vec::new(), tail: Vec::new(), since: talk(history) };
        };
        let (before, rest) = history.split_at(at);
        let (request, since) = rest.split_first().map_or((answer, rest), |(request, since)| (request, since));
        let start = tail_start(request).and_then(|id| before.iter().position(|entry| entry.info.id() == id));
        let hidden = start.unwrap_or(before.len());
        let (gone, tail) = before.split_at(hidden);
        let (mut gone, mut tail, mut since) = (talk(gone), talk(tail), talk(since));
        show_late(&mut gone, &tail, &mut since);
        hide_repeated(history, &mut tail, &since);
        Self { summary: Some((request, answer)), hidden, gone, tail, since }
    }
}

/// Prompts that waited while the summary was written, and are answered since, are no part of what it stands for: they
/// come directly before their first answer.
fn show_late<'a>(gone: &mut Vec<&'a Entry>, tail: &[&'a Entry], since: &mut Vec<&'a Entry>) {
    let parent = |entry: &&'a Entry| entry.info.as_assistant().map(|answer| &answer.parent_id);
    let early: HashSet<&MessageId> = gone.iter().chain(tail).filter_map(parent).collect();
    let answered: HashSet<&MessageId> = since.iter().filter_map(parent).collect();
    let first = gone.iter().rposition(|entry| early.contains(entry.info.id())).map_or(0, |at| at + 1);
    let Some(last) = gone.iter().rposition(|entry| answered.contains(entry.info.id())).filter(|last| *last >= first)
    else {
        return;
    };
    let is_late = |at: usize, entry: &Entry| (first..=last).contains(&at) && entry.info.as_user().is_some();
    let late: Vec<&Entry> = gone.iter().enumerate().filter(|(at, e)| is_late(*at, e)).map(|(_, e)| *e).collect();
    let ids: HashSet<&MessageId> = late.iter().map(|entry| entry.info.id()).collect();
    gone.retain(|entry| !ids.contains(entry.info.id()));
    let at = since.iter().position(|entry| parent(entry).is_some_and(|id| ids.contains(id))).unwrap_or_default();
    since.splice(at..at, late);
}

/// Prompts that were given once more behind the summary are told there alone, also where the messages around them were
/// kept.
fn hide_repeated(history: &[Entry], tail: &mut Vec<&Entry>, since: &[&Entry]) {
    let again: Vec<&Entry> = since.iter().copied().take_while(|entry| entry.info.as_user().is_some()).collect();
    let is_same = |one: &Entry, other: &Entry| {
        one.parts.len() == other.parts.len()
            && one.parts.iter().zip(&other.parts).all(|(one, other)| one.kind == other.kind)
    };
    let is_again = |entry: &Entry| {
        entry.info.as_user().is_some()
            && again.iter().any(|other| is_same(entry, other))
            && !is_answered(history, entry.info.id())
    };
    tail.retain(|entry| !is_again(entry));
}

/// Returns whether a message asks for a compaction.
pub fn is_request(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| matches!(part.kind, PartKind::Compaction { .. }))
}

/// Returns whether by a message a turn goes on behind a summary.
pub fn continues(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| match &part.kind {
        PartKind::Text(text) => text.metadata.as_ref().is_some_and(|metadata| metadata.contains_key(CONTINUES)),
        _ => false,
    })
}

/// Returns whether a message asks for a compaction by the loop itself.
pub fn is_auto(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| matches!(part.kind, PartKind::Compaction { auto: true, .. }))
}

/// Returns the whole summary that answers a request for a compaction.
pub fn summary_of<'a>(history: &'a [Entry], request: &MessageId) -> Option<&'a Entry> {
    history.iter().rev().find(|entry| {
        entry.info.as_assistant().is_some_and(|message| {
            message.parent_id == *request && message.summary && message.finish.is_some() && message.error.is_none()
        })
    })
}

fn tail_start(request: &Entry) -> Option<&MessageId> {
    request.parts.iter().find_map(|part| match &part.kind {
        PartKind::Compaction { tail_start_id, .. } => tail_start_id.as_ref(),
        _ => None,
    })
}

/// The messages that are no part of a compaction.
fn talk(entries: &[Entry]) -> Vec<&Entry> {
    let is_talk = |entry: &&Entry| !is_request(entry) && !entry.info.as_assistant().is_some_and(|m| m.summary);
    entries.iter().filter(is_talk).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::session::samples::{assistant, compaction, summary, text, user};

    fn ids(entries: &[&Entry]) -> Vec<String> {
        entries.iter().map(|entry| entry.info.id().to_string()).collect()
    }

    /// Prompts 2 and 3 waited for the turn of 0, which was compacted and went on as 6.
    fn history() -> Vec<Entry> {
        vec![
            user(0, vec![text("first")]),
            assistant(1, 0, vec![text("a step")]),
            user(2, vec![text("second")]),
            user(3, vec![text("third")]),
            compaction(4, None),
            summary(5, 4, "notes"),
            user(6, vec![text("go on")]),
            assistant(7, 6, vec![text("done with the first")]),
        ]
    }

    #[test]
    fn prompts_that_waited_over_a_compaction_are_told_when_they_are_answered() {
        let mut history = history();
        history.push(assistant(8, 2, vec![text("done with the second")]));
        let view = View::of(&history);
        assert_eq!(ids(&view.since), ["msg_6", "msg_7", "msg_2", "msg_8"]);
        assert_eq!(ids(&view.gone), ["msg_0", "msg_1", "msg_3"]);
        // One answer to both.
        history.truncate(8);
        history.push(assistant(8, 3, vec![text("done with both")]));
        assert_eq!(ids(&View::of(&history).since), ["msg_6", "msg_7", "msg_2", "msg_3", "msg_8"]);
    }

    #[test]
    fn prompts_that_wait_or_were_never_to_be_answered_stay_where_they_are() {
        let history = history();
        let view = View::of(&history);
        assert_eq!(ids(&view.since), ["msg_6", "msg_7"]);
        assert_eq!((view.hidden, view.gone.len()), (4, 4));
    }

    #[test]
    fn a_prompt_that_was_given_once_more_is_told_once() {
        let mut history = vec![
            user(0, vec![text("first")]),
            assistant(1, 0, vec![text("ok")]),
            user(2, vec![text("again")]),
            assistant(3, 2, vec![text("an answer to the same words")]),
            user(4, vec![text("again")]),
            compaction(5, Some(1)),
            summary(6, 5, "notes"),
            user(7, vec![text("again")]),
        ];
        assert_eq!(ids(&View::of(&history).tail), ["msg_1", "msg_2", "msg_3"]);
        history.push(assistant(8, 7, vec![text("done")]));
        let view = View::of(&history);
        assert_eq!((ids(&view.tail).len(), ids(&view.since)), (3, vec!["msg_7".to_owned(), "msg_8".to_owned()]));
    }
}
