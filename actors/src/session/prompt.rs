//! Prompts: from what a client sent to what is stored.

use std::hash::{DefaultHasher, Hash, Hasher};

use actix::prelude::*;
use protocol::message::UserTime;
use protocol::part::{FilePart, PartKind, TextPart};
use protocol::prompt::{PartInput, PartInputKind, PromptBody};
use protocol::{Action, Message, MessageId, MessageWithParts, Part, PartId, Rule, UserMessage};
use storage::Change;
use storage::journal::TurnKind;
use tokio::sync::oneshot;

use super::attach::Attached;
use super::command::{Accepted, CommandError, Prompt};
use super::hooks::{self, Draft};
use super::{Queued, Session, attach, remembered, turn_row};
use crate::workspace::{Answerer, GetMcpHost, GetSetup, Wish};

/// Told to the model after the name of an agent.
fn call_agent(name: &str) -> String {
    format!(
        "The person wants the agent {name:?} to do this: call the task tool with it, and tell it all it needs to know."
    )
}

impl Session {
    /// Stores a prompt and queues it.
    fn accept(
        &mut self,
        body: PromptBody,
        attached: Vec<Attached>,
        shown: Option<Draft>,
        answerer: &Answerer,
        room: Option<storage::Room>,
        ctx: &mut Context<Self>,
    ) -> Result<(storage::Ack, Accepted), CommandError> {
        let id = body.message_id.clone().unwrap_or_else(|| self.deps.ids.message());
        let content = content_of(&body);
        let now = self.next_time();
        let mut user = UserMessage {
            id: id.clone(),
            session_id: self.id.clone(),
            time: UserTime { created: now },
            format: body.format.clone(),
            summary: None,
            agent: answerer.agent.name.clone(),
            model: answerer.model_ref.clone(),
            system: body.system.clone(),
            tools: body.tools.clone(),
            troupe: body.troupe.clone(),
        };
        let parts = match shown {
            Some(Draft { message, parts }) => {
                user.system = message.system;
                user.tools = message.tools;
                parts
            }
            None => parts_of(body.parts, attached),
        };
        let mut changes = Vec::new();
        let model = remembered(&answerer.model_ref);
        let rules: Vec<Rule> = body.tools.iter().flatten().map(|(tool, on)| switch(tool, *on)).collect();
        let is_new = self.state.info.agent.as_ref() != Some(&answerer.agent.name)
            || self.state.info.model.as_ref() != Some(&model)
            || !rules.is_empty();
        if is_new {
            let agent = answerer.agent.name.clone();
            changes.push(self.change_info(|info| {
                info.agent = Some(agent);
                info.model = Some(model);
                if !rules.is_empty() {
                    info.permission.get_or_insert_default().extend(rules);
                }
            }));
        }
        changes.push(self.put_message(Message::User(user)));
        for (given, kind) in parts {
            let id = given.unwrap_or_else(|| self.deps.ids.part());
            let part = Part { id, session_id: self.id.clone(), message_id: self.last_id(), kind };
            changes.push(self.put_part(part));
        }
        changes.push(self.change_info(|info| info.time.updated = now));
        let (waiter, end) = oneshot::channel();
        let is_answered = body.no_reply != Some(true);
        if is_answered {
            let row = turn_row(&self.id, &id, TurnKind::Prompt, now);
            changes.push(Change::Turn(row.clone()));
            self.state.queue.push_back(Queued { row, waiters: vec![waiter] });
        }
        self.state.accepted.insert(id.clone(), content);
        let stored = self.record_with(changes, room);
        if is_answered {
            // What the loop stores comes after the prompt in the journal's queue, and fails with it.
            self.advance(ctx);
        }
        let message = self.wire_of(&id)?;
        Ok((stored, Accepted { message, end: is_answered.then_some(end) }))
    }

    /// A prompt came again whose id is there already, on `message`: the same one is acknowledged, and makes no second
    /// turn.
    fn accept_again(
        &mut self,
        body: &PromptBody,
        message: MessageWithParts,
    ) -> Result<(storage::Ack, Accepted), CommandError> {
        let id = message.info.id();
        let is_same = match self.state.accepted.get(id) {
            Some(accepted) => *accepted == content_of(body),
            None => message.info.as_user().is_some() && same_content(&message, body),
        };
        if !is_same {
            return Err(CommandError::Taken(id.clone()));
        }
        let (waiter, end) = oneshot::channel();
        let queued = self.state.queue.iter_mut().find(|queued| queued.row.message_id == *id);
        let end = match queued {
            Some(queued) => {
                queued.waiters.push(waiter);
                Some(end)
            }
            None => self.stored_end(id).map(|answer| {
                self.tell_end(Some(answer), vec![waiter]);
                end
            }),
        };
        // Whatever was queued before this is stored when it is.
        Ok((self.record(Vec::new()), Accepted { message, end }))
    }

    fn wire_of(&self, id: &MessageId) -> Result<MessageWithParts, CommandError> {
        let entry = self.state.history.get(id).ok_or_else(|| CommandError::NoMessage(id.clone()))?;
        Ok(entry.seen())
    }

    fn last_id(&self) -> MessageId {
        let last = self.state.history.entries().last();
        last.map(|entry| entry.info.id().clone()).unwrap_or_else(|| self.deps.ids.message())
    }
}

impl Handler<Prompt> for Session {
    type Result = ResponseActFuture<Self, Result<Accepted, CommandError>>;

    fn handle(&mut self, Prompt { body, ticket, room }: Prompt, ctx: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        if body.parts.is_empty() || body.no_reply != Some(true) && says_nothing(&body.parts) {
            let error = "a prompt needs at least one part that says something: a text that isn't blank, or a file";
            return Box::pin(fut::ready(Err(CommandError::Invalid(error.to_owned()))));
        }
        let workspace = self.deps.workspace.clone();
        let wish = Wish {
            agent: body.agent.clone(),
            model: body.model.clone(),
            variant: body.variant.clone().or_else(|| body.model.as_ref().and_then(|model| model.variant.clone())),
            last_agent: self.state.info.agent.clone(),
            last_model: self.state.info.model.clone(),
        };
        let reader = attach::Reader::of(self);
        let files = body.parts.clone();
        let io = self.deps.io.clone();
        let (ids, session_id) = (self.deps.ids.clone(), self.id.clone());
        let mut body = body;
        let id = body.message_id.get_or_insert_with(|| ids.message()).clone();
        let (system, tools, left) = (body.system.clone(), body.tools.clone(), ticket.left());
        let _ = ctx;
        let (known, own) = (self.recall(&id), id.clone());
        let resolve = async move {
            let known = known.await?;
            let setup = workspace.send(GetSetup).await.map_err(|_| CommandError::Unknown)??;
            let answerer = setup.answerer(&wish)?;
            let place = setup.place.clone();
            let attached = if files.iter().any(|part| matches!(part.kind, PartInputKind::File(_))) {
                let files = files.clone();
                let host = match attach::names_resources(&files) {
                    true => Some(workspace.send(GetMcpHost).await.map_err(|_| CommandError::Unknown)?),
                    false => None,
                };
                io.spawn(async move { reader.read(place, host, left, &files).await })
                    .await
                    .map_err(|_| CommandError::Unknown)?
            } else {
                Vec::new()
            };
            let shown = if setup.plugins.is_none() {
                None
            } else {
                let message = UserMessage {
                    id: own,
                    session_id,
                    time: UserTime { created: 0 },
                    format: None,
                    summary: None,
                    agent: answerer.agent.name.clone(),
                    model: answerer.model_ref.clone(),
                    system,
                    tools,
                    troupe: None,
                };
                let draft = Draft { message, parts: parts_of(files, attached.clone()) };
                Some(hooks::shown(&setup.plugins, draft, left, || ids.part()).await)
            };
            Ok::<_, CommandError>((answerer, attached, shown, known))
        };
        Box::pin(resolve.into_actor(self).then(move |resolved, session, ctx| {
            let accepted = resolved.and_then(|(answerer, attached, shown, known)| {
                // It may have waited for the settings longer than it may.
                session.check(&ticket)?;
                for error in attached.iter().filter_map(|file| file.error.clone()) {
                    session.record(vec![session.error_notice(protocol::SessionError::unknown(error))]).detach();
                }
                let known = session.state.history.get(&id).and_then(|entry| entry.to_wire().or(known));
                if let Some(known) = known {
                    return session.accept_again(&body, known);
                }
                session.accept(body, attached, shown, &answerer, room, ctx)
            });
            async move {
                let (stored, accepted) = accepted?;
                stored.await?;
                Ok(accepted)
            }
            .into_actor(session)
        }))
    }
}

/// The parts of a prompt as they are stored, each with the id the client gave it.
fn parts_of(parts: Vec<PartInput>, attached: Vec<Attached>) -> Vec<(Option<PartId>, PartKind)> {
    let mut files = attached.into_iter();
    let mut stored = Vec::new();
    for PartInput { id, kind } in parts {
        match kind {
            PartInputKind::Text { text, synthetic, ignored, time, metadata } => {
                let text = TextPart {
                    text,
                    synthetic: synthetic.unwrap_or(false),
                    ignored: ignored.unwrap_or(false),
                    time,
                    metadata,
                };
                stored.push((id, PartKind::Text(text)));
            }
            PartInputKind::File(file) => match files.next() {
                Some(read) => {
                    stored.extend(read.texts.into_iter().map(|text| (None, synthetic(text))));
                    // Of several files that one part became, the first is it.
                    let ids = std::iter::once(id).chain(std::iter::repeat(None));
                    stored.extend(ids.zip(read.kept.into_iter().map(PartKind::File)));
                }
                None => stored.push((id, PartKind::File(file))),
            },
            PartInputKind::Agent(agent) => {
                let note = synthetic(call_agent(&agent.name));
                stored.push((id, PartKind::Agent(agent)));
                stored.push((None, note));
            }
            PartInputKind::Subtask(task) => stored.push((id, PartKind::Subtask(task))),
        }
    }
    stored
}

/// Whether the model would be told nothing: vendors refuse a request without a word of the person's.
fn says_nothing(parts: &[PartInput]) -> bool {
    parts.iter().all(|part| match &part.kind {
        PartInputKind::Text { text, ignored, .. } => *ignored == Some(true) || text.trim().is_empty(),
        _ => false,
    })
}

fn synthetic(text: String) -> PartKind {
    PartKind::Text(TextPart { text, synthetic: true, ..TextPart::default() })
}

/// The rule that switches a tool on or off from now on.
fn switch(tool: &str, is_on: bool) -> Rule {
    Rule::new(tool, "*", if is_on { Action::Allow } else { Action::Deny })
}

/// What tells prompts of one id apart: the same content twice is one prompt.
fn content_of(body: &PromptBody) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in &body.parts {
        serde_json::to_string(&part.kind).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

/// What a file is told apart by: its url may be stored with its content.
fn name_of(file: &FilePart) -> &str {
    let of_path = || file.url.strip_prefix("file:").and_then(|path| path.rsplit('/').next());
    file.filename.as_deref().or_else(of_path).unwrap_or(&file.url)
}

/// Returns whether a stored message is what a prompt of its id says: the same own parts, in order.
pub fn same_content(stored: &MessageWithParts, body: &PromptBody) -> bool {
    let before = std::iter::once(None).chain(stored.parts.iter().map(Some));
    let own = stored.parts.iter().zip(before).filter_map(|(part, before)| match &part.kind {
        PartKind::Text(text) if !text.synthetic => Some(format!("text {}", text.text)),
        PartKind::File(file) if before.is_some_and(|before| attach::is_more_of(&before.kind, file)) => None,
        PartKind::File(file) => Some(format!("file {}", name_of(file))),
        PartKind::Agent(agent) => Some(format!("agent {}", agent.name)),
        PartKind::Subtask(task) => Some(format!("subtask {} {}", task.agent, task.prompt)),
        _ => None,
    });
    let said = body.parts.iter().filter_map(|part| match &part.kind {
        PartInputKind::Text { text, synthetic, .. } if *synthetic != Some(true) => Some(format!("text {text}")),
        PartInputKind::Text { .. } => None,
        PartInputKind::File(file) => Some(format!("file {}", name_of(file))),
        PartInputKind::Agent(agent) => Some(format!("agent {}", agent.name)),
        PartInputKind::Subtask(task) => Some(format!("subtask {} {}", task.agent, task.prompt)),
    });
    own.eq(said)
}
