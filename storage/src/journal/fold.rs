//! Commands to rows and frames. Pure: numbers, ids and the time come in.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::permission::{PermissionRequest, Reply};
use protocol::question::QuestionRequest;
use protocol::{Event, EventId, Ids, Message, Part, Session, SessionId};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::change::{Approval, AskedBy, Change, ProcessRow, StoredAnswers, StoredReply, TurnRow};
use super::tables::{Tables, quote};
use crate::frame::{Body, Durable, Frame, Origin};

/// The numbers of the durable log.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The newest row of the log.
    pub row: u64,
    /// The next number of each session's own count.
    pub next: HashMap<SessionId, u64>,
}

/// A value that could not be made JSON: never seen, but no reason to panic.
#[derive(Debug, thiserror::Error)]
#[error("a {what} can't be written as JSON: {source}")]
pub struct Unwritable {
    what: &'static str,
    source: serde_json::Error,
}

/// Folds commands into the rows of one transaction.
pub struct Fold<'a> {
    pub tables: Tables,
    pub counters: Counters,
    ids: &'a Ids,
    now: u64,
}

impl<'a> Fold<'a> {
    /// Returns a fold that goes on from these numbers.
    pub fn new(counters: Counters, ids: &'a Ids, now: u64) -> Self {
        Self { tables: Tables::default(), counters, ids, now }
    }

    /// Adds a command and returns what it tells.
    pub fn add(&mut self, origin: &Arc<Origin>, changes: &[Change]) -> Result<Vec<Frame>, Unwritable> {
        let mut frames = Vec::with_capacity(changes.len());
        for change in changes {
            if let Some(frame) = self.change(origin, change)? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    fn change(&mut self, origin: &Arc<Origin>, change: &Change) -> Result<Option<Frame>, Unwritable> {
        Ok(match change {
            Change::SessionCreated(session) => Some(self.session(origin, "session.created", session)?),
            Change::SessionUpdated(session) => Some(self.session(origin, "session.updated", session)?),
            Change::SessionDeleted(session) => Some(self.session_deleted(origin, session)?),
            Change::MessageUpdated(message) => Some(self.message(origin, message)?),
            Change::MessageRemoved(session, message) => {
                self.tables.part.forget(|columns| column_is(columns, 1, message.as_str()));
                self.tables.message.remove(message.as_str());
                let event = Event::MessageRemoved { session_id: session.clone(), message_id: message.clone() };
                Some(self.durable(origin, session, &event)?)
            }
            Change::PartUpdated(part) => Some(self.part(origin, part)?),
            Change::PartStored(part) => {
                let data = json("part", &**part)?;
                self.put_part(part, &data);
                None
            }
            Change::PartRemoved(session, message, part) => {
                self.tables.part.remove(part.as_str());
                let event = Event::PartRemoved {
                    session_id: session.clone(),
                    message_id: message.clone(),
                    part_id: part.clone(),
                };
                Some(self.durable(origin, session, &event)?)
            }
            Change::CallStarted(_, part) => {
                self.tables.started.put(part.as_str(), quote(part.as_str()));
                None
            }
            Change::Todos(session, todos) => {
                let columns = [quote(session.as_str()), json("to-do list", todos)?];
                self.tables.todo.put(session.as_str(), row(columns));
                let event = Event::TodoUpdated { session_id: session.clone(), todos: todos.clone() };
                Some(self.notice(origin, &event)?)
            }
            Change::Turn(turn) => {
                self.tables.turn.put(turn.message_id.as_str(), turn_columns(turn));
                None
            }
            Change::TurnClosed(_, message) => {
                self.tables.turn.remove(message.as_str());
                None
            }
            Change::PermissionAsked { request, by } => {
                self.put_permission(request, by, None)?;
                Some(self.notice(origin, &Event::PermissionAsked(request.clone()))?)
            }
            Change::PermissionReplied { request, by, reply, message } => {
                let stored = StoredReply { reply: *reply, message: message.clone() };
                self.put_permission(request, by, Some(json("reply", &stored)?))?;
                let event = Event::PermissionReplied {
                    session_id: request.session_id.clone(),
                    request_id: request.id.clone(),
                    reply: *reply,
                };
                Some(self.notice(origin, &event)?)
            }
            Change::QuestionAsked(request) => {
                self.put_question(request, None)?;
                Some(self.notice(origin, &Event::QuestionAsked(request.clone()))?)
            }
            Change::QuestionReplied(request, answers) => {
                let stored = StoredAnswers { answers: Some(answers.clone()) };
                self.put_question(request, Some(json("answer", &stored)?))?;
                let event = Event::QuestionReplied {
                    session_id: request.session_id.clone(),
                    request_id: request.id.clone(),
                    answers: answers.clone(),
                };
                Some(self.notice(origin, &event)?)
            }
            Change::QuestionRejected(request) => {
                self.put_question(request, Some(json("answer", &StoredAnswers { answers: None })?))?;
                let (session_id, request_id) = (request.session_id.clone(), request.id.clone());
                Some(self.notice(origin, &Event::QuestionRejected { session_id, request_id })?)
            }
            Change::PermissionWithdrawn(session, id) => {
                self.tables.ask.remove(id.as_str());
                let event = Event::PermissionReplied {
                    session_id: session.clone(),
                    request_id: id.clone(),
                    reply: Reply::Reject,
                };
                Some(self.notice(origin, &event)?)
            }
            Change::QuestionWithdrawn(session, id) => {
                self.tables.ask.remove(id.as_str());
                let event = Event::QuestionRejected { session_id: session.clone(), request_id: id.clone() };
                Some(self.notice(origin, &event)?)
            }
            Change::AsksForgotten(session, call) => {
                self.tables
                    .ask
                    .forget(|columns| column_is(columns, 1, session.as_str()) && column_is(columns, 3, call.as_str()));
                self.tables.asks_of_call.remove(format!("{session} {call}"));
                None
            }
            Change::Approved(approval) => {
                self.tables.approval.put(&approval.id, approval_columns(approval)?);
                None
            }
            Change::ApprovalRemoved(id) => {
                self.tables.approval.remove(id);
                None
            }
            Change::ProcessStarted(process) => {
                let columns = [
                    process.pgid.to_string(),
                    quote(&process.boot_id),
                    quote(process.session_id.as_str()),
                    process.started.to_string(),
                ];
                self.tables.process.put(process_key(process), row(columns));
                None
            }
            Change::ProcessEnded(process) => {
                self.tables.process.remove(process_key(process));
                None
            }
            Change::Project(project) => {
                let data = json("project", project)?;
                let columns = [quote(&project.id), project.time.updated.to_string(), data];
                self.tables.project.put(&project.id, row(columns));
                Some(self.notice(origin, &Event::ProjectUpdated(project.clone()))?)
            }
            Change::Notice(event) => Some(self.notice(origin, event)?),
            Change::Delta(delta) => Some(Frame {
                id: self.ids.event(),
                kind: "message.part.delta",
                origin: origin.clone(),
                session_id: Some(delta.session_id.clone()),
                durable: None,
                body: Body::Delta(delta.clone()),
            }),
        })
    }

    fn session(&mut self, origin: &Arc<Origin>, kind: &'static str, session: &Session) -> Result<Frame, Unwritable> {
        let data = json("session", session)?;
        let columns = [
            quote(session.id.as_str()),
            quote(&session.project_id),
            optional(session.parent_id.as_ref().map(SessionId::as_str)),
            quote(&session.directory),
            optional(session.path.as_deref()),
            quote(&session.title),
            session.time.created.to_string(),
            session.time.updated.to_string(),
            self.now.to_string(),
            data.clone(),
        ];
        self.tables.session.put(session.id.as_str(), row(columns));
        let properties = format!(r#"{{"sessionID":{},"info":{data}}}"#, quote(session.id.as_str()));
        Ok(self.log(origin, &session.id, kind, properties))
    }

    fn session_deleted(&mut self, origin: &Arc<Origin>, session: &Session) -> Result<Frame, Unwritable> {
        let key = session.id.as_str();
        // Rows of this transaction that belong to it would outlive it where no reference takes them along.
        let tables = &mut self.tables;
        for rows in [&mut tables.message, &mut tables.turn, &mut tables.ask] {
            rows.forget(|columns| column_is(columns, 1, key));
        }
        tables.part.forget(|columns| column_is(columns, 2, key));
        tables.todo.forget(|columns| column_is(columns, 0, key));
        tables.session.remove(session.id.as_str());
        let data = json("session", session)?;
        let properties = format!(r#"{{"sessionID":{},"info":{data}}}"#, quote(key));
        let frame = self.log(origin, &session.id, "session.deleted", properties);
        self.tables.event_sequence.forget(|columns| column_is(columns, 0, key));
        Ok(frame)
    }

    fn message(&mut self, origin: &Arc<Origin>, message: &Message) -> Result<Frame, Unwritable> {
        let data = json("message", message)?;
        let session = message.session_id();
        let columns =
            [quote(message.id().as_str()), quote(session.as_str()), message.created().to_string(), data.clone()];
        self.tables.message.put(message.id().as_str(), row(columns));
        let properties = format!(r#"{{"sessionID":{},"info":{data}}}"#, quote(session.as_str()));
        Ok(self.log(origin, session, "message.updated", properties))
    }

    fn part(&mut self, origin: &Arc<Origin>, part: &Part) -> Result<Frame, Unwritable> {
        let data = json("part", part)?;
        self.put_part(part, &data);
        let session = quote(part.session_id.as_str());
        let properties = format!(r#"{{"sessionID":{session},"part":{data},"time":{}}}"#, self.now);
        Ok(self.log(origin, &part.session_id, "message.part.updated", properties))
    }

    fn put_part(&mut self, part: &Part, data: &str) {
        let columns = [
            quote(part.id.as_str()),
            quote(part.message_id.as_str()),
            quote(part.session_id.as_str()),
            data.to_owned(),
        ];
        self.tables.part.put(part.id.as_str(), row(columns));
    }

    fn put_permission(
        &mut self,
        request: &PermissionRequest,
        by: &AskedBy,
        reply: Option<String>,
    ) -> Result<(), Unwritable> {
        let columns = [
            quote(request.id.as_str()),
            quote(request.session_id.as_str()),
            quote(by.call.message_id.as_str()),
            quote(by.call.call_id.as_str()),
            quote(&by.agent),
            quote("permission"),
            json("permission request", request)?,
            reply.unwrap_or_else(|| "null".to_owned()),
            self.now.to_string(),
        ];
        self.tables.ask.put(request.id.as_str(), row(columns));
        Ok(())
    }

    fn put_question(&mut self, request: &QuestionRequest, reply: Option<String>) -> Result<(), Unwritable> {
        let call = request.tool.as_ref();
        let columns = [
            quote(request.id.as_str()),
            quote(request.session_id.as_str()),
            optional(call.map(|c| c.message_id.as_str())),
            optional(call.map(|c| c.call_id.as_str())),
            "null".to_owned(),
            quote("question"),
            json("question", request)?,
            reply.unwrap_or_else(|| "null".to_owned()),
            self.now.to_string(),
        ];
        self.tables.ask.put(request.id.as_str(), row(columns));
        Ok(())
    }

    /// An event that has a row of its own in the durable log.
    fn durable(&mut self, origin: &Arc<Origin>, session: &SessionId, event: &Event) -> Result<Frame, Unwritable> {
        let (kind, properties) = parts_of(event)?;
        Ok(self.log(origin, session, kind, properties))
    }

    fn log(&mut self, origin: &Arc<Origin>, session: &SessionId, kind: &'static str, properties: String) -> Frame {
        let next = self.counters.next.entry(session.clone()).or_default();
        let seq = *next;
        *next += 1;
        self.counters.row += 1;
        let (row_number, id) = (self.counters.row, self.ids.event());
        let columns = [
            row_number.to_string(),
            quote(session.as_str()),
            seq.to_string(),
            quote(id.as_str()),
            quote(kind),
            quote(&origin.directory),
            quote(&origin.project),
            self.now.to_string(),
            properties.len().to_string(),
            properties.clone(),
        ];
        self.tables.event.put(row_number.to_string(), row(columns));
        let columns = [quote(session.as_str()), (seq + 1).to_string()];
        self.tables.event_sequence.put(session.as_str(), row(columns));
        Frame {
            id,
            kind,
            origin: origin.clone(),
            session_id: Some(session.clone()),
            durable: Some(Durable { seq, row: row_number }),
            body: Body::Json(properties.into()),
        }
    }

    /// An event that is only told.
    fn notice(&mut self, origin: &Arc<Origin>, event: &Event) -> Result<Frame, Unwritable> {
        frame(self.ids.event(), origin, event)
    }
}

/// Returns the frame of an event that is only told.
pub fn frame(id: EventId, origin: &Arc<Origin>, event: &Event) -> Result<Frame, Unwritable> {
    let (kind, properties) = parts_of(event)?;
    let session_id = event.session_id().cloned();
    Ok(Frame { id, kind, origin: origin.clone(), session_id, durable: None, body: Body::Json(properties.into()) })
}

/// The type and the properties of an event, each as the wire has it.
fn parts_of(event: &Event) -> Result<(&'static str, String), Unwritable> {
    #[derive(serde::Deserialize)]
    struct Tagged<'a> {
        #[serde(borrow)]
        properties: &'a RawValue,
    }
    let text = json("event", event)?;
    let tagged: Tagged<'_> = serde_json::from_str(&text).map_err(|source| Unwritable { what: "event", source })?;
    Ok((event.kind(), tagged.properties.get().to_owned()))
}

fn json(what: &'static str, value: &impl Serialize) -> Result<String, Unwritable> {
    serde_json::to_string(value).map_err(|source| Unwritable { what, source })
}

fn row<const N: usize>(columns: [String; N]) -> String {
    format!("[{}]", columns.join(","))
}

fn optional(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quote)
}

fn turn_columns(turn: &TurnRow) -> String {
    row([
        quote(turn.message_id.as_str()),
        quote(turn.session_id.as_str()),
        quote(turn.kind.as_str()),
        turn.attempt.to_string(),
        turn.resets.to_string(),
        turn.time.to_string(),
    ])
}

fn approval_columns(approval: &Approval) -> Result<String, Unwritable> {
    let scope = json("scope", &approval.scope)?;
    let session = match approval.scope {
        protocol::permission::Scope::Session => quote(approval.session_id.as_str()),
        protocol::permission::Scope::Project => "null".to_owned(),
    };
    let data = json("approval", approval)?;
    Ok(row([quote(&approval.id), scope, quote(&approval.project_id), session, data, approval.time.to_string()]))
}

fn process_key(process: &ProcessRow) -> String {
    format!("{}:{}", process.pgid, process.boot_id)
}

/// Whether column `index` of a row made by [`row`] is this text.
fn column_is(columns: &str, index: usize, text: &str) -> bool {
    serde_json::from_str::<Vec<Value>>(columns)
        .ok()
        .and_then(|all| all.into_iter().nth(index))
        .is_some_and(|value| value == text)
}
