//! Events of the stream.

use std::sync::Arc;

use client::Events;
use protocol::question::QuestionRequest;
use protocol::session::SessionStatus;
use protocol::{Event, PermissionRequest, SessionError, SessionId};

use super::ask::{Ask, PermissionAsk, QuestionAsk};
use super::{App, Notice, is_of_conversation};
use crate::effect::Effect;

impl App {
    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        if self.outage.take().is_some() {
            self.is_dirty = true;
        }
        self.tree.learn(event);
        if Events::is_break(event) {
            self.catch_up();
        } else if is_of_conversation(event) {
            let is_shown = event.session_id().is_some() && event.session_id() == self.session.as_ref().map(|s| &s.id);
            self.is_dirty |= is_shown && self.conversation.event(event);
        }
        match event {
            Event::SessionUpdated { session_id, info } if self.is_current(session_id) => {
                self.session = Some((**info).clone());
                self.is_dirty = true;
            }
            Event::SessionDeleted { session_id, .. } => {
                self.statuses.remove(session_id);
                self.asks.retain(|ask| ask.session() != session_id);
                if self.is_current(session_id) {
                    self.go_home();
                    self.notice = Some(Notice::Plain("the session was deleted".into()));
                }
            }
            Event::SessionStatus { session_id, status } => self.set_status(session_id, status),
            Event::SessionError { session_id: Some(id), error } if self.is_current(id) => self.failed(error),
            Event::SessionError { session_id: None, error } => self.failed(error),
            Event::PermissionAsked(request) => self.wait_for(Ask::Permission(PermissionAsk::new(request.clone()))),
            Event::QuestionAsked(request) => self.wait_for(Ask::Question(QuestionAsk::new(request.clone()))),
            Event::PermissionReplied { request_id, .. } => self.settled(request_id.as_str()),
            Event::QuestionReplied { request_id, .. } | Event::QuestionRejected { request_id, .. } => {
                self.settled(request_id.as_str());
            }
            _ => {}
        }
    }

    /// A request is decided.
    pub(super) fn settled(&mut self, id: &str) {
        let before = self.asks.len();
        self.asks.retain(|ask| ask.id() != id);
        self.is_dirty |= before != self.asks.len();
    }

    /// Events may have been missed: reads the state anew. The first time it is being read anyway.
    fn catch_up(&mut self) {
        if !std::mem::replace(&mut self.was_connected, true) {
            return;
        }
        self.asks_before = self.asks.iter().map(|ask| ask.id().to_owned()).collect();
        self.effects.push(Effect::Waiting);
        if let Some(session) = &self.session {
            self.conversation.begin_reading();
            self.effects.push(Effect::Read(session.id.clone()));
        }
        self.do_later(Effect::Statuses);
    }

    fn set_status(&mut self, id: &SessionId, status: &SessionStatus) {
        let old = match status {
            SessionStatus::Idle { .. } => self.statuses.remove(id),
            status => self.statuses.insert(id.clone(), status.clone()),
        };
        if let (true, SessionStatus::Idle { failed: Some(why) }) = (self.is_current(id), status) {
            self.say_error(why.clone());
        }
        // A turn that works says so many times.
        self.is_dirty |=
            old.as_ref() != Some(status) && !(old.is_none() && matches!(status, SessionStatus::Idle { .. }));
    }

    fn failed(&mut self, error: &SessionError) {
        // Its message tells it, now or in a moment; that a person stopped it that person knows.
        if !matches!(error, SessionError::MessageAbortedError { .. }) && !self.is_told(error) {
            self.say_error(client::describe::error(error));
        }
    }

    /// What waits was read anew: of what was known before that, the rest is settled.
    pub(super) fn wait_for_all(&mut self, permissions: Vec<PermissionRequest>, questions: Vec<QuestionRequest>) {
        let permissions = permissions.into_iter().map(|request| Ask::Permission(PermissionAsk::new(Arc::new(request))));
        let questions = questions.into_iter().map(|request| Ask::Question(QuestionAsk::new(Arc::new(request))));
        let waiting: Vec<Ask> = permissions.chain(questions).collect();
        let before = std::mem::take(&mut self.asks_before);
        let waits = |ask: &Ask| waiting.iter().any(|waiting| waiting.id() == ask.id());
        self.asks.retain(|ask| waits(ask) || !before.iter().any(|id| id == ask.id()));
        waiting.into_iter().for_each(|ask| self.wait_for(ask));
    }

    fn wait_for(&mut self, ask: Ask) {
        if self.asks.iter().any(|known| known.id() == ask.id()) {
            return;
        }
        if let Some(shown) = &self.session
            && !self.tree.is_below(ask.session(), &shown.id)
        {
            // It may be a subagent's that was made before this client came.
            self.effects.push(Effect::Find(ask.session().clone()));
        }
        self.asks.push(ask);
        self.is_dirty = true;
    }

    fn is_current(&self, id: &SessionId) -> bool {
        self.session.as_ref().is_some_and(|session| session.id == *id)
    }
}
