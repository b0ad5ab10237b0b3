//! Commands to rows and frames. Pure: numbers, ids and the time come in.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::permission::{PermissionRequest, Reply, Scope};
use protocol::question::QuestionRequest;
use protocol::{Event, EventId, Ids, Message, Part, Session, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;

use super::change::{Approval, AskedBy, Change, ProcessRow, StoredAnswers, StoredReply, TurnRow};
use super::tables::{Column, Row, Tables, quote};
use crate::frame::{Body, Durable, Frame, Origin, Properties};

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
                self.tables.part.forget(1, message.as_str());
                self.tables.message.remove(message.as_str());
                let event = Event::MessageRemoved { session_id: session.clone(), message_id: message.clone() };
                Some(self.durable(origin, session, &event)?)
            }
            Change::PartUpdated(part) => Some(self.part(origin, part)?),
            Change::PartStored(part) => {
                let data = json("part", &**part)?;
                self.put_part(part, data);
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
                self.tables.started.put(part.as_str(), vec![Column::text(part.as_str())]);
                None
            }
            Change::FilesSeen(session, files) => {
                for (path, hash) in files {
                    let key = json("seen file", &(session.as_str(), path))?;
                    match hash {
                        Some(hash) => {
                            let row = vec![Column::text(session.as_str()), Column::text(path), Column::text(hash)];
                            self.tables.seen_file.put(&*key, row);
                        }
                        None => self.tables.seen_file.remove(&*key),
                    }
                }
                None
            }
            Change::Todos(session, todos) => {
                let row = vec![Column::text(session.as_str()), Column::Json(json("to-do list", todos)?)];
                self.tables.todo.put(session.as_str(), row);
                let event = Event::TodoUpdated { session_id: session.clone(), todos: todos.clone() };
                Some(self.notice(origin, &event)?)
            }
            Change::Turn(turn) => {
                self.tables.turn.put(turn.message_id.as_str(), turn_row(turn));
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
                self.tables.ask.forget(3, call.as_str());
                self.tables.asks_of_call.remove(format!("{session} {call}"));
                None
            }
            Change::Approved(approval) => {
                self.tables.approval.put(&approval.id, approval_row(approval)?);
                None
            }
            Change::ApprovalRemoved(id) => {
                self.tables.approval.remove(id);
                None
            }
            Change::ProcessStarted(process) => {
                let row = vec![
                    Column::Number(process.pgid.unsigned_abs().into()),
                    Column::text(&process.boot_id),
                    Column::text(process.session_id.as_str()),
                    Column::Number(process.started),
                ];
                self.tables.process.put(process_key(process), row);
                None
            }
            Change::ProcessEnded(process) => {
                self.tables.process.remove(process_key(process));
                None
            }
            Change::Project(project) => {
                let data = json("project", project)?;
                let row = vec![Column::text(&project.id), Column::Number(project.time.updated), Column::Json(data)];
                self.tables.project.put(&project.id, row);
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
        let row = vec![
            Column::text(session.id.as_str()),
            Column::text(&session.project_id),
            Column::optional(session.parent_id.as_ref().map(SessionId::as_str)),
            Column::text(&session.directory),
            Column::optional(session.path.as_deref()),
            Column::text(&session.title),
            Column::Number(session.time.created),
            Column::Number(session.time.updated),
            Column::Number(self.now),
            Column::Json(data.clone()),
        ];
        self.tables.session.put(session.id.as_str(), row);
        Ok(self.log(origin, &session.id, kind, about(&session.id, "info", data, String::new())))
    }

    fn session_deleted(&mut self, origin: &Arc<Origin>, session: &Session) -> Result<Frame, Unwritable> {
        let id = session.id.as_str();
        // Rows of this transaction that belong to it would outlive it where no reference takes them along.
        self.tables.message.forget(1, id);
        self.tables.turn.forget(1, id);
        self.tables.ask.forget(1, id);
        self.tables.part.forget(2, id);
        self.tables.todo.forget(0, id);
        self.tables.seen_file.forget(0, id);
        self.tables.session.remove(id);
        let properties = about(&session.id, "info", json("session", session)?, String::new());
        let frame = self.log(origin, &session.id, "session.deleted", properties);
        self.tables.event_sequence.forget(0, id);
        Ok(frame)
    }

    fn message(&mut self, origin: &Arc<Origin>, message: &Message) -> Result<Frame, Unwritable> {
        let data = json("message", message)?;
        let session = message.session_id();
        let row = vec![
            Column::text(message.id().as_str()),
            Column::text(session.as_str()),
            Column::Number(message.created()),
            Column::Json(data.clone()),
        ];
        self.tables.message.put(message.id().as_str(), row);
        Ok(self.log(origin, session, "message.updated", about(session, "info", data, String::new())))
    }

    fn part(&mut self, origin: &Arc<Origin>, part: &Part) -> Result<Frame, Unwritable> {
        let data = json("part", part)?;
        self.put_part(part, data.clone());
        let properties = about(&part.session_id, "part", data, format!(r#","time":{}"#, self.now));
        Ok(self.log(origin, &part.session_id, "message.part.updated", properties))
    }

    fn put_part(&mut self, part: &Part, data: Arc<str>) {
        let row = vec![
            Column::text(part.id.as_str()),
            Column::text(part.message_id.as_str()),
            Column::text(part.session_id.as_str()),
            Column::Json(data),
        ];
        self.tables.part.put(part.id.as_str(), row);
    }

    fn put_permission(
        &mut self,
        request: &PermissionRequest,
        by: &AskedBy,
        reply: Option<Arc<str>>,
    ) -> Result<(), Unwritable> {
        let row = vec![
            Column::text(request.id.as_str()),
            Column::text(request.session_id.as_str()),
            Column::text(by.call.message_id.as_str()),
            Column::text(by.call.call_id.as_str()),
            Column::text(&by.agent),
            Column::text("permission"),
            Column::Json(json("permission request", request)?),
            reply.map_or(Column::Null, Column::Json),
            Column::Number(self.now),
        ];
        self.tables.ask.put(request.id.as_str(), row);
        Ok(())
    }

    fn put_question(&mut self, request: &QuestionRequest, reply: Option<Arc<str>>) -> Result<(), Unwritable> {
        let call = request.tool.as_ref();
        let row = vec![
            Column::text(request.id.as_str()),
            Column::text(request.session_id.as_str()),
            Column::optional(call.map(|c| c.message_id.as_str())),
            Column::optional(call.map(|c| c.call_id.as_str())),
            Column::Null,
            Column::text("question"),
            Column::Json(json("question", request)?),
            reply.map_or(Column::Null, Column::Json),
            Column::Number(self.now),
        ];
        self.tables.ask.put(request.id.as_str(), row);
        Ok(())
    }

    /// An event that has a row of its own in the durable log.
    fn durable(&mut self, origin: &Arc<Origin>, session: &SessionId, event: &Event) -> Result<Frame, Unwritable> {
        let (kind, properties) = parts_of(event)?;
        Ok(self.log(origin, session, kind, properties))
    }

    fn log(&mut self, origin: &Arc<Origin>, session: &SessionId, kind: &'static str, properties: Properties) -> Frame {
        let next = self.counters.next.entry(session.clone()).or_default();
        let seq = *next;
        *next += 1;
        self.counters.row += 1;
        let (row, id) = (self.counters.row, self.ids.event());
        let columns = vec![
            Column::Number(row),
            Column::text(session.as_str()),
            Column::Number(seq),
            Column::text(id.as_str()),
            Column::text(kind),
            Column::text(&origin.directory),
            Column::text(&origin.project),
            Column::Number(self.now),
            Column::Number(properties.len() as u64),
            Column::Pieces(properties.clone()),
        ];
        self.tables.event.put(row.to_string(), columns);
        let columns = vec![Column::text(session.as_str()), Column::Number(seq + 1)];
        self.tables.event_sequence.put(session.as_str(), columns);
        Frame {
            id,
            kind,
            origin: origin.clone(),
            session_id: Some(session.clone()),
            durable: Some(Durable { seq, row }),
            body: Body::Json(properties),
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
    Ok(Frame { id, kind, origin: origin.clone(), session_id, durable: None, body: Body::Json(properties) })
}

/// The properties of an event about one thing of a session.
fn about(session: &SessionId, name: &str, data: Arc<str>, more: String) -> Properties {
    Properties {
        head: format!(r#"{{"sessionID":{},"{name}":"#, quote(session.as_str())).into(),
        data,
        tail: (more + "}").into(),
    }
}

/// The type and the properties of an event, each as the wire has it.
fn parts_of(event: &Event) -> Result<(&'static str, Properties), Unwritable> {
    #[derive(serde::Deserialize)]
    struct Tagged<'a> {
        #[serde(borrow)]
        properties: &'a RawValue,
    }
    let text = json("event", event)?;
    let tagged: Tagged<'_> = serde_json::from_str(&text).map_err(|source| Unwritable { what: "event", source })?;
    Ok((event.kind(), Properties::whole(tagged.properties.get().to_owned())))
}

fn json(what: &'static str, value: &impl Serialize) -> Result<Arc<str>, Unwritable> {
    serde_json::to_string(value).map(Arc::from).map_err(|source| Unwritable { what, source })
}

fn turn_row(turn: &TurnRow) -> Row {
    vec![
        Column::text(turn.message_id.as_str()),
        Column::text(turn.session_id.as_str()),
        Column::text(turn.kind.as_str()),
        Column::Number(turn.attempt.into()),
        Column::Number(turn.resets.into()),
        Column::Number(turn.time),
    ]
}

fn approval_row(approval: &Approval) -> Result<Row, Unwritable> {
    let session = match approval.scope {
        Scope::Session => Column::text(approval.session_id.as_str()),
        Scope::Project => Column::Null,
    };
    Ok(vec![
        Column::text(&approval.id),
        Column::Json(json("scope", &approval.scope)?),
        Column::text(&approval.project_id),
        session,
        Column::Json(json("approval", approval)?),
        Column::Number(approval.time),
    ])
}

fn process_key(process: &ProcessRow) -> String {
    format!("{}:{}", process.pgid, process.boot_id)
}
