//! The messages of the session that is shown, kept up to date by events.

use std::sync::Arc;

use protocol::message::{Message, MessageWithParts};
use protocol::{Event, MessageId, Part, PartId, PartKind, ToolState};

/// A message and its parts.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The message.
    pub info: Arc<Message>,
    /// Its parts, in order.
    pub parts: Vec<Arc<Part>>,
    /// Rises with each change.
    pub version: u64,
    /// Changed by an event since the state was last asked for.
    is_fresh: bool,
}

/// The messages of a session, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    entries: Vec<Entry>,
    version: u64,
    /// There are older ones that were not read.
    pub is_cut: bool,
}

impl Conversation {
    /// Returns the messages, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes an event of the session in. Returns whether anything changed.
    pub fn event(&mut self, event: &Event) -> bool {
        match event {
            Event::MessageUpdated { info, .. } => self.message(info.clone()),
            Event::MessageRemoved { message_id, .. } => {
                let before = self.entries.len();
                self.entries.retain(|entry| entry.info.id() != message_id);
                before != self.entries.len()
            }
            Event::PartUpdated { part, .. } => self.part(part.clone()),
            Event::PartRemoved { message_id, part_id, .. } => {
                let Some(entry) = self.touch(message_id) else { return false };
                entry.parts.retain(|part| part.id != *part_id);
                true
            }
            Event::PartDelta { message_id, part_id, field, delta, .. } if field == "text" => {
                self.delta(message_id, part_id, delta)
            }
            _ => false,
        }
    }

    /// The state is asked for; events that come before the answer are newer than it.
    pub fn begin_reading(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_fresh = false);
    }

    /// Takes the state in: what is no longer there goes, what events have brought on since stays.
    pub fn read(&mut self, messages: Vec<MessageWithParts>, is_cut: bool) {
        let mut old = std::mem::take(&mut self.entries);
        self.is_cut = is_cut;
        for message in messages {
            self.version += 1;
            let version = self.version;
            let known = old.iter().position(|entry| entry.info.id() == message.info.id()).map(|at| old.swap_remove(at));
            let entry = match known.filter(|entry| entry.is_fresh) {
                Some(fresh) => merged(fresh, message.parts, version),
                None => Entry { info: message.info, parts: message.parts, version, is_fresh: false },
            };
            self.insert(entry);
        }
        for entry in old.into_iter().filter(|entry| entry.is_fresh) {
            self.insert(entry);
        }
    }

    fn message(&mut self, info: Arc<Message>) -> bool {
        match self.touch(info.id()) {
            Some(entry) => entry.info = info,
            None => {
                let version = self.version;
                self.insert(Entry { info, parts: Vec::new(), version, is_fresh: true });
            }
        }
        true
    }

    fn part(&mut self, part: Arc<Part>) -> bool {
        let Some(entry) = self.touch(&part.message_id) else { return false };
        match entry.parts.iter_mut().find(|known| known.id == part.id) {
            Some(known) => *known = part,
            None => entry.parts.push(part),
        }
        true
    }

    fn delta(&mut self, message: &MessageId, part: &PartId, delta: &str) -> bool {
        let Some(entry) = self.touch(message) else { return false };
        let Some(part) = entry.parts.iter_mut().find(|known| known.id == *part) else { return false };
        match &mut Arc::make_mut(part).kind {
            PartKind::Text(text) => text.text.push_str(delta),
            PartKind::Reasoning(reasoning) => reasoning.text.push_str(delta),
            _ => return false,
        }
        true
    }

    /// Returns a message that is about to change.
    fn touch(&mut self, id: &MessageId) -> Option<&mut Entry> {
        self.version += 1;
        let version = self.version;
        let entry = self.entries.iter_mut().rev().find(|entry| entry.info.id() == id)?;
        entry.version = version;
        entry.is_fresh = true;
        Some(entry)
    }

    /// Messages are in the order of their times, which a session gives out once each.
    fn insert(&mut self, entry: Entry) {
        let at = self.entries.partition_point(|known| known.info.created() <= entry.info.created());
        self.entries.insert(at, entry);
    }
}

/// Returns a message that events have changed since the state was asked for, with the parts that only the state has.
fn merged(mut fresh: Entry, read: Vec<Arc<Part>>, version: u64) -> Entry {
    let mut parts = read;
    for part in fresh.parts.drain(..) {
        match parts.iter_mut().find(|known| known.id == part.id) {
            Some(known) if progress(&part) >= progress(known) => *known = part,
            Some(_) => {}
            None => parts.push(part),
        }
    }
    Entry { parts, version, ..fresh }
}

/// How far a part is: parts only ever grow.
fn progress(part: &Part) -> (u8, usize) {
    match &part.kind {
        PartKind::Text(text) => (u8::from(text.time.is_some_and(|time| time.end.is_some())), text.text.len()),
        PartKind::Reasoning(reasoning) => (u8::from(reasoning.time.end.is_some()), reasoning.text.len()),
        PartKind::Tool(tool) => match tool.state {
            ToolState::Pending { .. } => (0, 0),
            ToolState::Running { .. } => (1, 0),
            ToolState::Completed { .. } | ToolState::Error { .. } => (2, 0),
        },
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::samples::{answer, delta, event, text, user};

    fn of(events: &[Event]) -> Conversation {
        let mut conversation = Conversation::default();
        for event in events {
            conversation.event(event);
        }
        conversation
    }

    fn lists(conversation: &Conversation) -> Vec<MessageWithParts> {
        let list = |entry: &Entry| MessageWithParts { info: entry.info.clone(), parts: entry.parts.clone() };
        conversation.entries().iter().map(list).collect()
    }

    fn texts(conversation: &Conversation) -> Vec<String> {
        let parts = conversation.entries().iter().flat_map(|entry| &entry.parts);
        parts.filter_map(|part| part.as_text().map(str::to_owned)).collect()
    }

    #[test]
    fn deltas_grow_the_text_and_each_change_has_a_new_version() {
        let mut conversation =
            of(&[user("msg_1", 1), answer("msg_2", "msg_1", 2), text("prt_1", "msg_2", "he", false)]);
        let version = conversation.entries()[1].version;
        assert!(conversation.event(&delta("prt_1", "msg_2", "llo")));
        assert_eq!(texts(&conversation), ["hello"]);
        assert!(conversation.entries()[1].version > version);
        assert!(!conversation.event(&delta("prt_9", "msg_9", "x")), "of a message that isn't there");
        assert!(!conversation.event(&event("session.idle", serde_json::json!({ "sessionID": "ses_1" }))));
    }

    #[test]
    fn what_came_by_event_while_the_state_was_read_is_kept() {
        let old = of(&[user("msg_1", 1), answer("msg_2", "msg_1", 2), text("prt_1", "msg_2", "he", false)]);
        let stored = lists(&old);
        let mut shown = of(&[user("msg_0", 0)]);
        shown.begin_reading();
        for event in [
            answer("msg_2", "msg_1", 2),
            text("prt_1", "msg_2", "hello", false),
            delta("prt_1", "msg_2", " there"),
            user("msg_3", 3),
        ] {
            shown.event(&event);
        }
        shown.read(stored, false);
        let ids: Vec<&str> = shown.entries().iter().map(|entry| entry.info.id().as_str()).collect();
        assert_eq!(ids, ["msg_1", "msg_2", "msg_3"]);
        assert_eq!(texts(&shown), ["hello there"]);
    }
}
