//! What becomes of one prompt: events in, things to tell out. Pure; what was told once is never told again, so the
//! state may be read anew at any time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use protocol::message::{Message, MessageWithParts};
use protocol::permission::Reply;
use protocol::question::QuestionRequest;
use protocol::session::SessionStatus;
use protocol::{Event, MessageId, Part, PartId, PartKind, PermissionId, PermissionRequest};
use protocol::{QuestionId, SessionError, SessionId};

use crate::exit::Exit;

/// Something a person or a program wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An answer begins.
    Author(Arc<Message>),
    /// A part is all there: a step's begin or end, a text, thinking, a tool call with its result.
    Part(Arc<Part>),
    /// A permission was asked for and is decided.
    Permission(Arc<PermissionRequest>, Reply),
    /// A question was asked, and nobody answers it.
    Question(Arc<QuestionRequest>),
    /// The turn failed.
    Error(SessionError),
}

/// One prompt and the turn that answers it.
pub struct Turn {
    session: SessionId,
    prompt: MessageId,
    /// When the prompt was stored; none until then.
    stored: Option<u64>,
    is_idle: bool,
    /// The prompt, and later ones that joined the turn.
    users: HashSet<MessageId>,
    answers: HashMap<MessageId, Answer>,
    newest: Option<Arc<Message>>,
    told: HashSet<PartId>,
    permissions: HashMap<PermissionId, Arc<PermissionRequest>>,
    questions: HashMap<QuestionId, Arc<QuestionRequest>>,
    is_refused: bool,
    errors: Vec<SessionError>,
}

/// How far an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Running,
    /// More comes: it called tools.
    Step,
    Last,
}

impl Turn {
    /// Returns the turn of a prompt that isn't stored yet.
    pub fn new(session: SessionId, prompt: MessageId) -> Self {
        Self {
            session,
            prompt,
            stored: None,
            is_idle: false,
            users: HashSet::new(),
            answers: HashMap::new(),
            newest: None,
            told: HashSet::new(),
            permissions: HashMap::new(),
            questions: HashMap::new(),
            is_refused: false,
            errors: Vec::new(),
        }
    }

    /// Returns the session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns whether the turn has ended and nothing else runs in the session.
    pub fn is_over(&self) -> bool {
        self.stored.is_some() && self.is_idle
    }

    /// Returns how it ended.
    pub fn exit(&self) -> Exit {
        match (self.errors.is_empty(), self.is_refused) {
            (false, _) => Exit::Failed,
            (true, true) => Exit::Refused,
            (true, false) => Exit::Done,
        }
    }

    /// Takes an event in.
    pub fn event(&mut self, event: &Event) -> Vec<Told> {
        match event {
            Event::PermissionReplied { request_id, reply, .. } => return self.replied(request_id, *reply),
            Event::QuestionRejected { request_id, .. } => return self.rejected(request_id),
            Event::QuestionReplied { request_id, .. } => drop(self.questions.remove(request_id)),
            _ => {}
        }
        if event.session_id() != Some(&self.session) {
            return Vec::new();
        }
        match event {
            Event::MessageUpdated { info, .. } => self.message(info),
            Event::PartUpdated { part, .. } => self.part(part),
            Event::SessionError { error, .. } if self.stored.is_some() => self.failed(error),
            Event::SessionStatus { status, .. } => {
                self.is_idle = matches!(status, SessionStatus::Idle { .. }) && self.stored.is_some();
                Vec::new()
            }
            Event::SessionIdle { .. } => {
                self.is_idle = self.stored.is_some();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Takes the session's state in, read after events may have been missed. Returns what is new, and whether the
    /// state is clear: an idle session without an answer may be about to go on.
    pub fn read(&mut self, messages: &[MessageWithParts], status: Option<&SessionStatus>) -> (Vec<Told>, bool) {
        let mut told = Vec::new();
        for message in messages {
            told.extend(self.message(&message.info));
            for part in &message.parts {
                told.extend(self.part(part));
            }
        }
        let is_busy = !matches!(status, None | Some(SessionStatus::Idle { .. }));
        let is_answered = self.answers.values().any(|answer| *answer == Answer::Last)
            && !self.answers.values().any(|answer| *answer == Answer::Running);
        self.is_idle = !is_busy && is_answered && self.stored.is_some();
        // The event that told of it was missed. An answer before the newest may have failed and been made up for.
        let newest = self.newest.clone().filter(|_| self.is_idle);
        if let Some(error) = newest.as_deref().and_then(Message::as_assistant).and_then(|answer| answer.error.as_ref())
        {
            told.extend(self.failed(error));
        }
        (told, is_busy || self.is_idle)
    }

    /// A permission is asked for in the session's tree.
    pub fn permission(&mut self, request: Arc<PermissionRequest>) {
        self.permissions.insert(request.id.clone(), request);
    }

    /// A question is asked in the session's tree.
    pub fn question(&mut self, request: Arc<QuestionRequest>) {
        self.questions.insert(request.id.clone(), request);
    }

    /// A permission is decided.
    pub fn replied(&mut self, id: &PermissionId, reply: Reply) -> Vec<Told> {
        let Some(request) = self.permissions.remove(id) else { return Vec::new() };
        self.is_refused |= reply == Reply::Reject;
        vec![Told::Permission(request, reply)]
    }

    /// A question stays without an answer.
    pub fn rejected(&mut self, id: &QuestionId) -> Vec<Told> {
        let Some(request) = self.questions.remove(id) else { return Vec::new() };
        self.is_refused = true;
        vec![Told::Question(request)]
    }

    /// The turn failed.
    pub fn failed(&mut self, error: &SessionError) -> Vec<Told> {
        // The same error comes by event and in the message.
        if self.errors.contains(error) {
            return Vec::new();
        }
        self.errors.push(error.clone());
        vec![Told::Error(error.clone())]
    }

    fn message(&mut self, info: &Arc<Message>) -> Vec<Told> {
        match &**info {
            Message::User(user) => {
                if user.id == self.prompt {
                    self.stored = Some(user.time.created);
                }
                if self.stored.is_some_and(|stored| user.time.created >= stored) {
                    self.users.insert(user.id.clone());
                }
                Vec::new()
            }
            // Answers of earlier turns, and summaries the runtime makes for itself, are not this prompt's.
            Message::Assistant(answer) if self.users.contains(&answer.parent_id) && !answer.summary => {
                let is_new = !self.answers.contains_key(&answer.id);
                let state = match (&answer.time.completed, answer.finish.as_deref(), &answer.error) {
                    (None, ..) => Answer::Running,
                    (Some(_), Some("tool-calls"), None) => Answer::Step,
                    _ => Answer::Last,
                };
                self.answers.insert(answer.id.clone(), state);
                if self.newest.as_ref().is_none_or(|newest| newest.created() <= answer.time.created) {
                    self.newest = Some(info.clone());
                }
                if is_new { vec![Told::Author(info.clone())] } else { Vec::new() }
            }
            Message::Assistant(_) => Vec::new(),
        }
    }

    fn part(&mut self, part: &Arc<Part>) -> Vec<Told> {
        let is_whole = match &part.kind {
            PartKind::StepStart { .. } | PartKind::StepFinish { .. } => true,
            PartKind::Text(text) => text.time.is_some_and(|time| time.end.is_some()) && !text.ignored,
            PartKind::Reasoning(reasoning) => reasoning.time.end.is_some(),
            PartKind::Tool(tool) => !tool.state.is_open(),
            _ => false,
        };
        let is_ours = self.answers.contains_key(&part.message_id);
        if !is_whole || !is_ours || !self.told.insert(part.id.clone()) {
            return Vec::new();
        }
        vec![Told::Part(part.clone())]
    }
}

#[cfg(test)]
mod tests;
