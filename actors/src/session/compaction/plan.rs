//! What a summary will stand for. Prompts without an answer are no part of it: they are given once more behind it,
//! whole, and the files of those that are being answered go on with the turn.

use protocol::part::FilePart;
use protocol::{MessageId, PartKind};

use super::transcript::Head;
use super::view::{View, is_request};
use super::window;
use crate::session::history::Entry;

/// What a summary that is being written will stand for.
pub(in crate::session) struct Plan {
    pub(super) tail_start: Option<MessageId>,
    /// Prompts that are given once more, oldest first.
    pub(super) replay: Vec<MessageId>,
    /// Prompts the turn goes on with, whose words the summary has. Their files are given once more.
    pub(super) begun: Vec<MessageId>,
    pub(super) is_barren: bool,
}

/// Returns the prompts of a turn that have no finished step yet, oldest first.
pub fn open_prompts(history: &[Entry], view: &View<'_>, answering: &[MessageId]) -> Vec<MessageId> {
    let is_asked = |id: &MessageId| history.iter().any(|entry| entry.info.id() == id && !is_request(entry));
    let newest = answering.iter().rev().filter(|id| is_asked(id)).take_while(|id| !is_answered(history, id));
    let mut open: Vec<MessageId> = newest.cloned().collect();
    open.reverse();
    // Those before a compaction were given once more behind it.
    let is_new = |id: &MessageId| view.since.iter().any(|entry| entry.info.id() == id);
    if open.iter().any(is_new) {
        open.retain(is_new);
    }
    open
}

/// Returns about how many tokens of a talk a summary could stand for: all but these prompts, and what was said to them
/// in vain.
pub fn could_go<'a>(talk: impl IntoIterator<Item = &'a Entry>, open: &[MessageId]) -> u64 {
    let is_vain = |entry: &Entry| {
        entry.info.as_assistant().is_some_and(|answer| open.contains(&answer.parent_id)) && !entry.has_calls()
    };
    let goes = |entry: &&Entry| !open.contains(entry.info.id()) && !is_vain(entry);
    talk.into_iter().filter(goes).map(window::size).sum()
}

/// Returns the prompts of a turn among the messages to summarise.
pub fn begun(head: &Head<'_>, answering: &[MessageId]) -> Vec<MessageId> {
    let ids = head.entries.iter().map(|entry| entry.info.id());
    ids.filter(|id| answering.contains(id)).cloned().collect()
}

/// Returns the files of a message that no text tells.
pub fn media(entry: &Entry) -> impl Iterator<Item = &FilePart> {
    entry.parts.iter().filter_map(|part| match &part.kind {
        PartKind::File(file) if !file.mime.starts_with("text/") && file.url.starts_with("data:") => Some(file),
        _ => None,
    })
}

/// Whether a prompt has a finished answer, of which steps may follow.
pub fn is_answered(history: &[Entry], id: &MessageId) -> bool {
    history.iter().any(|entry| {
        entry.info.as_assistant().is_some_and(|m| m.parent_id == *id && m.finish.is_some() && m.error.is_none())
    })
}

/// Whether the messages are a prompt and nothing that was done about it.
pub fn has_one_prompt(head: &Head<'_>) -> bool {
    head.entries.iter().filter(|entry| entry.info.as_user().is_some()).count() <= 1
        && head.entries.iter().all(|entry| !entry.has_calls())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;
    use protocol::Message;

    use super::*;
    use crate::session::samples::{assistant, call, compaction, done, msg, summary, text, user};

    fn open(history: &[Entry], answering: &[usize]) -> Vec<MessageId> {
        let answering: Vec<MessageId> = answering.iter().map(|n| msg(*n)).collect();
        open_prompts(history, &View::of(history), &answering)
    }

    fn failed(n: usize, parent: usize, kinds: Vec<PartKind>) -> Entry {
        let mut entry = assistant(n, parent, kinds);
        if let Message::Assistant(message) = Arc::make_mut(&mut entry.info) {
            message.finish = None;
        }
        entry
    }

    #[test]
    fn prompts_are_open_until_a_step_is_finished() {
        let mut history = vec![
            user(0, vec![text("old")]),
            assistant(1, 0, vec![text("ok")]),
            user(2, vec![text("a")]),
            user(3, vec![text("b")]),
            failed(4, 3, vec![]),
        ];
        assert_eq!(open(&history, &[2, 3]), [msg(2), msg(3)]);
        history.push(assistant(5, 3, vec![call("c", done("x"))]));
        assert_eq!(open(&history, &[2, 3]), []);
        history.push(user(6, vec![text("joins")]));
        assert_eq!(open(&history, &[2, 3, 6]), [msg(6)]);
    }

    #[test]
    fn a_prompt_that_was_given_once_more_counts_once() {
        let mut history = vec![
            user(0, vec![text("old")]),
            assistant(1, 0, vec![text("ok")]),
            user(2, vec![text("a")]),
            compaction(3, Some(1)),
            summary(4, 3, "notes"),
        ];
        // It was stored before the compaction of another turn.
        assert_eq!(open(&history, &[2]), [msg(2)]);
        history.push(user(5, vec![text("a")]));
        assert_eq!(open(&history, &[2, 5]), [msg(5)]);
    }

    #[test]
    fn a_prompt_and_what_was_said_to_it_in_vain_can_not_go() {
        let history = vec![user(0, vec![text("a long prompt")]), failed(1, 0, vec![text("half an answer")])];
        assert_eq!(could_go(&history, &[msg(0)]), 0);
        assert!(could_go(&history, &[]) > 0);
        let history = vec![user(0, vec![text("note")]), user(1, vec![text("question")])];
        assert_eq!(could_go(&history, &[msg(1)]), 1);
        let history = vec![user(0, vec![text("p")]), failed(1, 0, vec![call("c", done("a result"))])];
        assert!(could_go(&history, &[msg(0)]) > 0, "what calls have shown");
    }
}
