//! What of a history the model still sees after a compaction. Pure.
//!
//! A compaction is a user message with a part `compaction`, answered by a message marked `summary`. From then on the
//! model sees the summary, the messages that were kept as they were (from `tail_start_id` on), and the newer ones.
//! One without a whole summary changes nothing.

use protocol::{MessageId, PartKind};

use crate::session::history::Entry;

/// What the model sees.
pub struct View<'a> {
    /// The last compaction: its request and its summary.
    pub summary: Option<(&'a Entry, &'a Entry)>,
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
            return Self { summary: None, gone: Vec::new(), tail: Vec::new(), since: talk(history) };
        };
        let (before, rest) = history.split_at(at);
        let (request, since) = rest.split_first().map_or((answer, rest), |(request, since)| (request, since));
        let start = tail_start(request).and_then(|id| before.iter().position(|entry| entry.info.id() == id));
        let (gone, tail) = before.split_at(start.unwrap_or(before.len()));
        Self { summary: Some((request, answer)), gone: talk(gone), tail: talk(tail), since: talk(since) }
    }
}

/// Returns whether a message asks for a compaction.
pub fn is_request(entry: &Entry) -> bool {
    entry.parts.iter().any(|part| matches!(part.kind, PartKind::Compaction { .. }))
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
