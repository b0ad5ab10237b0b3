//! Changes of the session itself, of its messages and parts, and copies of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use actix::prelude::*;
use protocol::message::Tokens;
use protocol::session::SessionTime;
use protocol::{Message, MessageId, Part, PartId, Session as Info};
use storage::Change;

use super::Session;
use super::command::{CommandError, Fork, GetInfo, RemoveMessage, RemovePart, Resume, Settle, Update, UpdatePart};
use super::history::History;

impl Handler<GetInfo> for Session {
    type Result = Result<Info, CommandError>;

    fn handle(&mut self, _: GetInfo, _: &mut Self::Context) -> Self::Result {
        self.check(&super::Ticket::internal())?;
        Ok(Info::clone(&self.state.info))
    }
}

impl Handler<Settle> for Session {
    type Result = u32;

    /// Messages are taken only after the start has loaded and settled all.
    fn handle(&mut self, _: Settle, _: &mut Self::Context) -> u32 {
        self.attempts()
    }
}

impl Handler<Resume> for Session {
    type Result = ();

    fn handle(&mut self, _: Resume, ctx: &mut Self::Context) {
        self.start = super::Start::Stored;
        self.advance(ctx);
    }
}

impl Handler<Update> for Session {
    type Result = ResponseActFuture<Self, Result<Info, CommandError>>;

    fn handle(&mut self, Update { body, ticket }: Update, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        // One event for each field, as the wire has it.
        let mut changes = Vec::new();
        if let Some(title) = body.title {
            changes.push(self.change_info(|info| info.title = title));
        }
        if let Some(metadata) = body.metadata {
            changes.push(self.change_info(|info| info.metadata = Some(metadata)));
        }
        if let Some(rules) = body.permission {
            changes.push(self.change_info(|info| info.permission.get_or_insert_default().extend(rules)));
        }
        if let Some(archived) = body.time.and_then(|time| time.archived) {
            changes.push(self.change_info(|info| info.time.archived = Some(archived)));
        }
        let stored = self.record(changes);
        Box::pin(stored.into_actor(self).map(|stored, session, _| {
            stored?;
            Ok(Info::clone(&session.state.info))
        }))
    }
}

impl Handler<RemoveMessage> for Session {
    type Result = ResponseActFuture<Self, Result<(), CommandError>>;

    fn handle(&mut self, RemoveMessage { id, ticket }: RemoveMessage, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        if self.is_busy() {
            return Box::pin(fut::ready(Err(CommandError::Busy(self.id.clone()))));
        }
        if self.state.history.remove_message(&id).is_none() {
            return Box::pin(fut::ready(Err(CommandError::NoMessage(id))));
        }
        self.state.accepted.remove(&id);
        self.state.history.edited();
        // What it used stays in the session's totals: it was used.
        let changes = vec![Change::MessageRemoved(self.id.clone(), id)];
        let stored = self.record(changes);
        Box::pin(stored.into_actor(self).map(|stored, _, _| stored.map_err(CommandError::from)))
    }
}

impl Handler<UpdatePart> for Session {
    type Result = ResponseActFuture<Self, Result<(), CommandError>>;

    fn handle(&mut self, UpdatePart { part, ticket }: UpdatePart, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        self.edit_part(part.message_id.clone(), part.id.clone(), |session, old| {
            if std::mem::discriminant(&old.kind) != std::mem::discriminant(&part.kind) {
                let error = "a part can't become one of another type; remove it and add a new one".to_owned();
                return Err(CommandError::Invalid(error));
            }
            Ok(session.put_part(part))
        })
    }
}

impl Handler<RemovePart> for Session {
    type Result = ResponseActFuture<Self, Result<(), CommandError>>;

    fn handle(&mut self, RemovePart { message_id, id, ticket }: RemovePart, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        self.edit_part(message_id, id, |session, old| {
            session.state.history.remove_part(&old.message_id, &old.id);
            Ok(Change::PartRemoved(session.id.clone(), old.message_id.clone(), old.id.clone()))
        })
    }
}

impl Handler<Fork> for Session {
    type Result = ResponseActFuture<Self, Result<Info, CommandError>>;

    fn handle(&mut self, Fork { before, ticket }: Fork, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        let entries = self.state.history.entries();
        let upto = match &before {
            None => entries.len(),
            Some(id) => match entries.iter().position(|entry| entry.info.id() == id) {
                Some(at) => at,
                None => return Box::pin(fut::ready(Err(CommandError::NoMessage(id.clone())))),
            },
        };
        let ids: HashSet<MessageId> = entries.iter().take(upto).map(|entry| entry.info.id().clone()).collect();
        let now = self.now();
        let info = Info {
            id: self.deps.ids.session(),
            slug: crate::slug::slug(),
            parent_id: None,
            title: fork_title(&self.state.info.title),
            share: None,
            revert: None,
            summary: None,
            cost: 0.0,
            tokens: Tokens::default(),
            time: SessionTime { created: now, updated: now, ..SessionTime::default() },
            ..Info::clone(&self.state.info)
        };
        let recalled = self.recall_all();
        Box::pin(recalled.into_actor(self).then(move |recalled, session, _| {
            let copied = recalled.map_err(|error| CommandError::Broken(error.to_string())).map(|mut lean| {
                let mut whole = session.state.history.clone();
                // What was let go of while the rest was read is in neither.
                let is_torn = whole.lean().any(|id| ids.contains(id) && !lean.contains_key(id));
                lean.retain(|id, _| ids.contains(id));
                whole.refill(lean);
                (!is_torn).then(|| session.record(session.copies(&info, &ids, &whole)))
            });
            async move {
                copied?.ok_or(CommandError::Unknown)?.await?;
                Ok(info)
            }
            .into_actor(session)
        }))
    }
}

impl Session {
    /// Changes a part, or takes it out; `edit` is given what it is now, wherever that is kept.
    fn edit_part(
        &mut self,
        message_id: MessageId,
        id: PartId,
        edit: impl FnOnce(&mut Self, &Part) -> Result<Change, CommandError> + 'static,
    ) -> ResponseActFuture<Self, Result<(), CommandError>> {
        let recalled = self.recall(&message_id);
        Box::pin(recalled.into_actor(self).then(move |recalled, session, _| {
            let edited = recalled.and_then(|recalled| {
                // What is in memory is newer; what is open is always there.
                let known = session.state.history.part(&message_id, &id).cloned();
                let stored = || recalled?.parts.into_iter().find(|part| part.id == id);
                let old = known.or_else(stored).ok_or_else(|| CommandError::NoPart(id.clone()))?;
                if old.as_tool().is_some_and(|tool| tool.state.is_open()) {
                    return Err(CommandError::Busy(session.id.clone()));
                }
                let change = edit(session, &old)?;
                session.state.history.edited();
                Ok(session.record(vec![change]))
            });
            async move { edited?.await.map_err(CommandError::from) }.into_actor(session)
        }))
    }

    /// The new session and copies of these messages, under new ids. What is open in them is left out.
    fn copies(&self, info: &Info, which: &HashSet<MessageId>, history: &History) -> Vec<Change> {
        let mut changes = vec![Change::SessionCreated(Arc::new(info.clone()))];
        let known = self.state.files.all_known().into_iter();
        let text = known.filter_map(|(path, hash)| Some((path.into_os_string().into_string().ok()?, hash.to_string())));
        let seen: Vec<_> = text.map(|(path, hash)| (path, Some(hash))).collect();
        changes.extend((!seen.is_empty()).then(|| Change::FilesSeen(info.id.clone(), seen)));
        let mut ids: HashMap<MessageId, MessageId> = HashMap::new();
        for entry in history.entries().iter().filter(|entry| which.contains(entry.info.id())) {
            let id = self.deps.ids.message();
            ids.insert(entry.info.id().clone(), id.clone());
            let mut message = Message::clone(&entry.info);
            match &mut message {
                Message::User(user) => {
                    user.id = id.clone();
                    user.session_id = info.id.clone();
                }
                Message::Assistant(answer) => {
                    if answer.time.completed.is_none() {
                        continue;
                    }
                    answer.id = id.clone();
                    answer.session_id = info.id.clone();
                    if let Some(parent) = ids.get(&answer.parent_id) {
                        answer.parent_id = parent.clone();
                    }
                }
            }
            changes.push(Change::MessageUpdated(Arc::new(message)));
            for part in &entry.parts {
                let mut part = protocol::Part::clone(part);
                part.id = self.deps.ids.part();
                part.session_id = info.id.clone();
                part.message_id = id.clone();
                changes.push(Change::PartUpdated(Arc::new(part)));
            }
        }
        changes
    }
}

/// `T` becomes `T (fork #1)`, and `T (fork #1)` becomes `T (fork #2)`.
fn fork_title(title: &str) -> String {
    let numbered = title.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (fork #"));
    match numbered.and_then(|(base, number)| Some((base, number.parse::<u32>().ok()?))) {
        Some((base, number)) => format!("{base} (fork #{})", number.saturating_add(1)),
        None => format!("{title} (fork #1)"),
    }
}
