//! What waits for a person: permissions and questions; and which session it belongs to in the end.

use std::collections::HashMap;

use protocol::permission::ReplyBody;
use protocol::question::{Answers, QuestionRequest};
use protocol::{Event, PermissionId, PermissionRequest, QuestionId, Session, SessionId};
use serde::Serialize;
use serde_json::json;

use crate::connection::Client;
use crate::error::ClientError;

/// Most parents that are looked up for one session: a circle of parents must end somewhere.
const DEPTH: usize = 64;

impl Client {
    /// Returns the permissions that wait in the client's directory.
    pub async fn permissions(&self) -> Result<Vec<PermissionRequest>, ClientError> {
        self.get(&["permission"]).await
    }

    /// Answers a permission.
    pub async fn reply_permission(&self, id: &PermissionId, body: &ReplyBody) -> Result<(), ClientError> {
        self.tell(&["permission", id.as_str(), "reply"], body).await
    }

    /// Returns the questions that wait in the client's directory.
    pub async fn questions(&self) -> Result<Vec<QuestionRequest>, ClientError> {
        self.get(&["question"]).await
    }

    /// Answers a question: for each of its questions, in order, the labels or texts chosen.
    pub async fn reply_question(&self, id: &QuestionId, answers: &Answers) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            answers: &'a Answers,
        }
        self.tell(&["question", id.as_str(), "reply"], &Body { answers }).await
    }

    /// Leaves a question unanswered for good.
    pub async fn reject_question(&self, id: &QuestionId) -> Result<(), ClientError> {
        self.tell(&["question", id.as_str(), "reject"], &json!({})).await
    }
}

/// Which session is whose subagent, as far as it is known. What a subagent asks is asked of whoever watches the
/// session at the top of its tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    parents: HashMap<SessionId, Option<SessionId>>,
}

impl Tree {
    /// Learns what an event tells.
    pub fn learn(&mut self, event: &Event) {
        match event {
            Event::SessionCreated { info, .. } | Event::SessionUpdated { info, .. } => self.add(info),
            Event::SessionDeleted { session_id, .. } => drop(self.parents.remove(session_id)),
            _ => {}
        }
    }

    /// Learns of a session.
    pub fn add(&mut self, session: &Session) {
        self.parents.insert(session.id.clone(), session.parent_id.clone());
    }

    /// Returns whether `id` is `root` or below it, as far as is known.
    pub fn is_below(&self, id: &SessionId, root: &SessionId) -> bool {
        let mut at = Some(id);
        for _ in 0..DEPTH {
            match at {
                Some(id) if id == root => return true,
                Some(id) => at = self.parents.get(id).and_then(Option::as_ref),
                None => return false,
            }
        }
        false
    }

    /// Returns whether `id` is `root` or below it; asks the server for sessions that aren't known.
    pub async fn find(&mut self, client: &Client, id: &SessionId, root: &SessionId) -> Result<bool, ClientError> {
        let mut at = id.clone();
        for _ in 0..DEPTH {
            if at == *root {
                return Ok(true);
            }
            if !self.parents.contains_key(&at) {
                match client.session(&at).await {
                    Ok(session) => self.add(&session),
                    Err(error) if error.status() == Some(404) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            match self.parents.get(&at).cloned().flatten() {
                Some(parent) => at = parent,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::parse(&format!("ses_{name}")).expect("an id")
    }

    #[test]
    fn descendants_are_found_and_a_circle_ends() {
        let mut tree = Tree::default();
        for (child, parent) in [("b", Some("a")), ("c", Some("b")), ("x", Some("y")), ("y", Some("x")), ("a", None)] {
            tree.parents.insert(id(child), parent.map(id));
        }
        assert!(tree.is_below(&id("a"), &id("a")));
        assert!(tree.is_below(&id("c"), &id("a")));
        assert!(!tree.is_below(&id("a"), &id("c")));
        assert!(!tree.is_below(&id("x"), &id("a")));
        assert!(!tree.is_below(&id("unknown"), &id("a")));
    }
}
