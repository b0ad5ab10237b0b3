//! Sessions, their messages, and work for them.

use std::collections::HashMap;

use protocol::message::MessageWithParts;
use protocol::prompt::{CommandBody, PromptBody, ShellBody};
use protocol::session::{CreateSession, SessionStatus, UpdateSession};
use protocol::{MessageId, Session, SessionId};
use serde::Serialize;
use serde_json::json;

use crate::connection::{Client, Patience};
use crate::error::ClientError;

/// Which sessions are listed, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionsQuery {
    /// Those of the whole project, not of the directory alone.
    pub is_of_project: bool,
    /// Only those that are no subagents.
    pub is_roots: bool,
    /// Words in the title.
    pub search: Option<String>,
    /// Prompted since (ms since the Unix epoch).
    pub since: Option<u64>,
    /// Most of them (the server's default: 100).
    pub limit: Option<u32>,
}

impl SessionsQuery {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        if self.is_of_project {
            pairs.push(("scope", "project".to_owned()));
        }
        if self.is_roots {
            pairs.push(("roots", "true".to_owned()));
        }
        pairs.extend(self.search.clone().map(|search| ("search", search)));
        pairs.extend(self.since.map(|since| ("start", since.to_string())));
        pairs.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        pairs
    }
}

impl Client {
    /// Makes a session in the client's directory.
    pub async fn create_session(&self, body: &CreateSession) -> Result<Session, ClientError> {
        self.post(&["session"], body, Patience::Quick).await
    }

    /// Returns a session.
    pub async fn session(&self, id: &SessionId) -> Result<Session, ClientError> {
        self.get(&["session", id.as_str()]).await
    }

    /// Returns the sessions of the client's directory, the last prompted first.
    pub async fn sessions(&self, query: &SessionsQuery) -> Result<Vec<Session>, ClientError> {
        self.get_with(&["session"], &query.pairs()).await
    }

    /// Returns what the sessions of the client's directory are doing; those that are idle are left out.
    pub async fn statuses(&self) -> Result<HashMap<SessionId, SessionStatus>, ClientError> {
        self.get(&["session", "status"]).await
    }

    /// Changes a session.
    pub async fn update_session(&self, id: &SessionId, body: &UpdateSession) -> Result<Session, ClientError> {
        self.patch(&["session", id.as_str()], body).await
    }

    /// Copies a session, up to before a message where one is named.
    pub async fn fork(&self, id: &SessionId, before: Option<&MessageId>) -> Result<Session, ClientError> {
        #[derive(Serialize)]
        struct Body<'a> {
            #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
            message_id: Option<&'a MessageId>,
        }
        self.post(&["session", id.as_str(), "fork"], &Body { message_id: before }, Patience::Quick).await
    }

    /// Gives a session a prompt and returns the answer when the turn has ended; one that failed says so in its
    /// message. A turn goes on when the caller goes away.
    pub async fn prompt(&self, id: &SessionId, body: &PromptBody) -> Result<MessageWithParts, ClientError> {
        self.post(&["session", id.as_str(), "message"], body, Patience::Turn).await
    }

    /// Gives a session a prompt. Returns when it is stored.
    pub async fn prompt_async(&self, id: &SessionId, body: &PromptBody) -> Result<(), ClientError> {
        self.tell(&["session", id.as_str(), "prompt_async"], body).await
    }

    /// Runs a command template in a session and returns the answer when the turn has ended.
    pub async fn command(&self, id: &SessionId, body: &CommandBody) -> Result<MessageWithParts, ClientError> {
        self.post(&["session", id.as_str(), "command"], body, Patience::Turn).await
    }

    /// Runs a shell command of the person's in a session and returns its message when it has ended.
    pub async fn shell(&self, id: &SessionId, body: &ShellBody) -> Result<MessageWithParts, ClientError> {
        self.post(&["session", id.as_str(), "shell"], body, Patience::Turn).await
    }

    /// Stops a session's turn, its subagents' with it.
    pub async fn abort(&self, id: &SessionId) -> Result<(), ClientError> {
        self.tell(&["session", id.as_str(), "abort"], &json!({})).await
    }

    /// Returns a session's newest messages (all where no limit is given), oldest first.
    pub async fn messages(&self, id: &SessionId, limit: Option<u32>) -> Result<Vec<MessageWithParts>, ClientError> {
        let query: Vec<_> = limit.map(|limit| ("limit", limit.to_string())).into_iter().collect();
        self.get_with(&["session", id.as_str(), "message"], &query).await
    }
}
