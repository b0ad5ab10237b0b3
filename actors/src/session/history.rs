//! The session's messages in memory: a copy of what is stored, kept in step with it, rebuilt after a restart.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::{Message, MessageId, MessageWithParts, Part, PartId, ToolState};
use storage::store::StoredPart;

/// All messages of a session, in the order of their commits. Of those that models are not told any more, only what the
/// session needs of them: `is_lean`.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<Entry>,
    /// An edit may have brought back to models what is only stored.
    is_outdated: bool,
}

/// A message and its parts.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The message.
    pub info: Arc<Message>,
    /// Its parts, in order: those that are in memory.
    pub parts: Vec<Arc<Part>>,
    is_lean: bool,
}

impl Entry {
    /// Returns a message with all its parts.
    pub fn new(info: Arc<Message>, parts: Vec<Arc<Part>>) -> Self {
        Self { info, parts, is_lean: false }
    }

    /// Returns the message as the wire has it; none where not all of it is in memory.
    pub fn to_wire(&self) -> Option<MessageWithParts> {
        (!self.is_lean).then(|| self.seen())
    }

    /// Returns the message as the wire has it, without what is only stored.
    pub fn seen(&self) -> MessageWithParts {
        MessageWithParts { info: self.info.clone(), parts: self.parts.clone() }
    }

    /// Returns whether some of it is only stored.
    pub fn is_lean(&self) -> bool {
        self.is_lean
    }

    /// Lets go of all other parts.
    pub fn keep(&mut self, is_needed: impl Fn(&Part) -> bool) {
        let before = self.parts.len();
        self.parts.retain(|part| is_needed(part));
        if self.parts.len() < before {
            self.is_lean = true;
            self.parts.shrink_to_fit();
        }
    }

    /// Puts in place of parts what is needed of them.
    pub fn lighten(&mut self, lightened: impl Fn(&Part) -> Option<Arc<Part>>) {
        for part in &mut self.parts {
            if let Some(light) = lightened(part) {
                *part = light;
                self.is_lean = true;
            }
        }
    }

    /// Returns the person's own words: the texts that are not synthetic.
    pub fn own_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.kind {
            protocol::PartKind::Text(text) if !text.synthetic => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns all that is said in texts.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.kind {
            protocol::PartKind::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the parts that are tool calls without a result.
    pub fn open_calls(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.parts.iter().filter(|part| part.as_tool().is_some_and(|tool| tool.state.is_open()))
    }

    /// Returns whether a tool was called.
    pub fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| part.as_tool().is_some())
    }
}

impl History {
    /// Returns the history that is stored, and which calls' effects have begun.
    pub fn from_stored(stored: Vec<(Arc<Message>, Vec<StoredPart>)>) -> (Self, Vec<PartId>) {
        let mut started = Vec::new();
        let entries = stored.into_iter().map(|(info, parts)| {
            started.extend(parts.iter().filter(|p| p.started).map(|p| p.part.id.clone()));
            Entry::new(info, parts.into_iter().map(|p| p.part).collect())
        });
        let history = Self { entries: entries.collect(), is_outdated: false };
        (history, started)
    }

    /// Returns a history of these messages.
    #[cfg(test)]
    pub fn of(entries: Vec<Entry>) -> Self {
        Self { entries, is_outdated: false }
    }

    /// Returns all messages.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns all messages, to change them.
    pub fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    /// Returns the messages of which not all is in memory.
    pub fn lean(&self) -> impl Iterator<Item = &MessageId> {
        self.entries.iter().filter(|entry| entry.is_lean).map(|entry| entry.info.id())
    }

    /// Returns whether what is only stored must be read again before a request is made.
    pub fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Notes whether it must.
    pub fn set_outdated(&mut self, is_outdated: bool) {
        self.is_outdated = is_outdated;
    }

    /// Notes that a person edits a message or a part.
    pub fn edited(&mut self) {
        self.is_outdated |= self.entries.iter().any(Entry::is_lean);
    }

    /// Makes messages whole again, of which not all was in memory.
    pub fn refill(&mut self, mut stored: HashMap<MessageId, Vec<Arc<Part>>>) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_lean) {
            if let Some(parts) = stored.remove(entry.info.id()) {
                entry.parts = parts;
                entry.is_lean = false;
            }
        }
    }

    /// Returns a message.
    pub fn get(&self, id: &MessageId) -> Option<&Entry> {
        // The newest are asked for most.
        self.entries.iter().rev().find(|entry| entry.info.id() == id)
    }

    /// Returns the newest message of the model.
    pub fn last_assistant(&self) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.info.as_assistant().is_some())
    }

    /// Returns when the newest message was created; 0 when there is none.
    pub fn newest_time(&self) -> u64 {
        self.entries.iter().map(|entry| entry.info.created()).max().unwrap_or(0)
    }

    /// Adds a message, or replaces it.
    pub fn put_message(&mut self, info: Arc<Message>) {
        match self.entries.iter_mut().rev().find(|entry| entry.info.id() == info.id()) {
            Some(entry) => entry.info = info,
            None => self.entries.push(Entry::new(info, Vec::new())),
        }
    }

    /// Adds a part to its message, or replaces it. A part of an unknown message is dropped; one that is new to a message
    /// of which not all is in memory is only stored, too.
    pub fn put_part(&mut self, part: Arc<Part>) {
        let Some(entry) = self.entries.iter_mut().rev().find(|entry| *entry.info.id() == part.message_id) else {
            return;
        };
        match entry.parts.iter_mut().rev().find(|other| other.id == part.id) {
            Some(other) => *other = part,
            None if entry.is_lean => {}
            None => entry.parts.push(part),
        }
    }

    /// Replaces a part that is there by one that has grown.
    pub fn extend_part(&mut self, grown: Option<Arc<Part>>) {
        if let Some(part) = grown.filter(|part| self.part(&part.message_id, &part.id).is_some()) {
            self.put_part(part);
        }
    }

    /// Takes a message and its parts out.
    pub fn remove_message(&mut self, id: &MessageId) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.info.id() == id)?;
        Some(self.entries.remove(at))
    }

    /// Takes a part out.
    pub fn remove_part(&mut self, message: &MessageId, id: &PartId) -> Option<Arc<Part>> {
        let entry = self.entries.iter_mut().rev().find(|entry| entry.info.id() == message)?;
        let at = entry.parts.iter().position(|part| part.id == *id)?;
        Some(entry.parts.remove(at))
    }

    /// Returns a part.
    pub fn part(&self, message: &MessageId, id: &PartId) -> Option<&Arc<Part>> {
        self.get(message)?.parts.iter().find(|part| part.id == *id)
    }

    /// Returns how many calls directly before this one, in the same turn, were equal to it: same tool, same input.
    pub fn equal_calls_before(&self, message: &MessageId, part: &PartId) -> usize {
        let Some(entry) = self.get(message) else { return 0 };
        let Some(parent) = entry.info.as_assistant().map(|m| &m.parent_id) else { return 0 };
        let of_turn = self.entries.iter().filter(|e| e.info.as_assistant().is_some_and(|m| m.parent_id == *parent));
        let calls: Vec<_> = of_turn
            .flat_map(|entry| &entry.parts)
            .filter_map(|p| p.as_tool().map(|tool| (&p.id, &tool.tool, tool.state.input(), &tool.state)))
            .collect();
        let Some(at) = calls.iter().position(|(id, ..)| *id == part) else { return 0 };
        let Some((before, [(_, tool, input, _), ..])) = calls.split_at_checked(at) else { return 0 };
        let equal = |(_, other, same, state): &&(&PartId, &String, &serde_json::Value, &ToolState)| {
            other == tool && same == input && !matches!(state, ToolState::Pending { .. })
        };
        before.iter().rev().take_while(equal).count()
    }
}
