//! Replies of people: stored, then told to who asked.

use std::sync::Arc;

use actix::prelude::*;
use protocol::permission::{Reply, Scope};
use protocol::question::Answers;
use storage::journal::AskRow;
use storage::{Change, JournalError, Origin};
use tools::Refusal;

use super::{Held, Judgement, PermissionBroker, Waiter};

/// A person's reply to a permission request.
#[derive(Message, Clone)]
#[rtype(result = "Result<(), ReplyError>")]
pub struct ReplyPermission {
    /// Which.
    pub id: String,
    /// The reply.
    pub reply: Reply,
    /// Feedback for the model.
    pub message: Option<String>,
    /// How far `always` reaches.
    pub scope: Scope,
}

/// A person's answers to questions; none: they are dismissed.
#[derive(Message, Clone)]
#[rtype(result = "Result<(), ReplyError>")]
pub struct ReplyQuestions {
    /// Which.
    pub id: String,
    /// The answers.
    pub answers: Option<Answers>,
}

/// Why a reply was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// There is no such request.
    #[error("no request {0} is waiting")]
    NotFound(String),
    /// Somebody has answered it.
    #[error("request {0} has been answered already")]
    Answered(String),
    /// It could not be stored.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl PermissionBroker {
    /// Why a reply finds nothing that waits.
    fn missing(&self, id: &str) -> ReplyError {
        let answered = self.held.contains_key(id) || self.answered.iter().any(|other| other == id);
        if answered { ReplyError::Answered(id.to_owned()) } else { ReplyError::NotFound(id.to_owned()) }
    }

    /// The other open requests that a reply decides along: all of the session when it rejects, those that are
    /// allowed now when it allows for good.
    fn cascade(&self, id: &str, reply: Reply) -> Vec<String> {
        let Some(session) = self.held.get(id).map(|held| held.row.session_id().clone()) else { return Vec::new() };
        let decided = |held: &Held| match (&held.row, reply) {
            (AskRow::Permission { .. }, Reply::Reject) => *held.row.session_id() == session,
            (AskRow::Permission { .. }, Reply::Always) => match &held.waiter {
                Some(Waiter::Permission { asker, ask, .. }) => matches!(self.judge(asker, ask), Judgement::Allowed),
                _ => false,
            },
            _ => false,
        };
        let open = |other: &&String| *other != id && self.held.get(*other).is_some_and(|h| h.is_open() && decided(h));
        self.order.iter().filter(open).cloned().collect()
    }

    /// Notes a reply and returns what to store.
    fn note(&mut self, id: &str, reply: Reply, feedback: Option<String>) -> Option<(Arc<Origin>, Change)> {
        let held = self.held.get_mut(id)?;
        let AskRow::Permission { request, by, reply: noted } = &mut held.row else { return None };
        *noted = Some((reply, feedback.clone()));
        let change = Change::PermissionReplied { request: request.clone(), by: by.clone(), reply, message: feedback };
        Some((held.origin.clone(), change))
    }

    /// Tells the asker, if there is one. The reply stays noted until the call has its result.
    fn tell(&mut self, id: &str) {
        self.was_answered(id);
        let Some(held) = self.held.get_mut(id) else { return };
        match (held.waiter.take(), &held.row) {
            (Some(Waiter::Permission { answer, .. }), AskRow::Permission { reply: Some(reply), .. }) => {
                // An asker that is gone asks again, and finds the reply.
                let _ = answer.send(verdict(reply));
            }
            (Some(Waiter::Question { answer }), AskRow::Question { reply: Some(reply), .. }) => {
                let _ = answer.send(reply.clone().ok_or(Refusal::Dismissed));
            }
            _ => {}
        }
    }

    /// Takes a note back: it could not be stored.
    fn unnote(&mut self, id: &str) {
        match self.held.get_mut(id).map(|held| &mut held.row) {
            Some(AskRow::Permission { reply, .. }) => *reply = None,
            Some(AskRow::Question { reply, .. }) => *reply = None,
            None => {}
        }
    }
}

/// What an asker hears of a reply.
pub(super) fn verdict((reply, feedback): &(Reply, Option<String>)) -> Result<(), Refusal> {
    match (reply, feedback) {
        (Reply::Once | Reply::Always, _) => Ok(()),
        (Reply::Reject, Some(text)) if !text.trim().is_empty() => Err(Refusal::Corrected(text.clone())),
        (Reply::Reject, _) => Err(Refusal::Rejected),
    }
}

impl Handler<ReplyPermission> for PermissionBroker {
    type Result = ResponseActFuture<Self, Result<(), ReplyError>>;

    fn handle(&mut self, message: ReplyPermission, _: &mut Self::Context) -> Self::Result {
        let ReplyPermission { id, reply, message: feedback, scope } = message;
        let open = |held: &&Held| held.is_open() && matches!(held.row, AskRow::Permission { .. });
        let Some(held) = self.held.get(&id).filter(open) else {
            let error = self.missing(&id);
            return Box::pin(fut::ready(Err(error)));
        };
        let origin = held.origin.clone();
        let approvals = if reply == Reply::Always { self.approvals_of(held, scope) } else { Vec::new() };
        let mut changes: Vec<Change> = approvals.iter().cloned().map(Change::Approved).collect();
        let made: Vec<String> = approvals.iter().map(|approval| approval.id.clone()).collect();
        self.approvals.extend(approvals);
        let mut decided = vec![id.clone()];
        changes.extend(self.note(&id, reply, feedback).map(|(_, change)| change));
        // The others are told of the plain reply; the feedback speaks of this call.
        let mut elsewhere = Vec::new();
        for other in self.cascade(&id, reply) {
            if let Some((at, change)) = self.note(&other, reply, None) {
                if at == origin {
                    changes.push(change)
                } else {
                    elsewhere.push((at, change))
                }
                decided.push(other);
            }
        }
        let stored = self.record(&origin, None, changes);
        for (at, change) in elsewhere {
            self.record(&at, None, vec![change]).detach();
        }
        Box::pin(stored.into_actor(self).map(move |stored, desk, _| match stored {
            Ok(()) => {
                decided.iter().for_each(|id| desk.tell(id));
                Ok(())
            }
            Err(error) => {
                decided.iter().for_each(|id| desk.unnote(id));
                desk.approvals.retain(|approval| !made.contains(&approval.id));
                Err(error.into())
            }
        }))
    }
}

impl Handler<ReplyQuestions> for PermissionBroker {
    type Result = ResponseActFuture<Self, Result<(), ReplyError>>;

    fn handle(&mut self, ReplyQuestions { id, answers }: ReplyQuestions, _: &mut Self::Context) -> Self::Result {
        let Some(Held { origin, row: AskRow::Question { request, reply: reply @ None }, .. }) = self.held.get_mut(&id)
        else {
            let error = self.missing(&id);
            return Box::pin(fut::ready(Err(error)));
        };
        *reply = Some(answers.clone());
        let change = match answers {
            Some(answers) => Change::QuestionReplied(request.clone(), answers),
            None => Change::QuestionRejected(request.clone()),
        };
        let origin = origin.clone();
        let stored = self.record(&origin, None, vec![change]);
        Box::pin(stored.into_actor(self).map(move |stored, desk, _| match stored {
            Ok(()) => {
                desk.tell(&id);
                Ok(())
            }
            Err(error) => {
                desk.unnote(&id);
                Err(error.into())
            }
        }))
    }
}
