//! What waits for a person, and what a person allowed for good.

use protocol::permission::ToolRef;
use protocol::{CallId, MessageId, SessionId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, parse};
use crate::error::StorageError;
use crate::frame::Origin;
use crate::journal::{Approval, AskRow, AskedBy, StoredAnswers, StoredReply};

impl Store {
    /// Returns all requests that wait, and those that were answered for a call that has no result yet, oldest first,
    /// each with where its session works.
    pub async fn asks(&self) -> Result<Vec<(AskRow, Origin)>, StorageError> {
        let rows = sqlx::query(
            "select ask.id, kind, ask.data, reply, message_id, call_id, session.directory, session.project_id, agent \
             from ask join session on session.id = ask.session_id order by time, ask.id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        rows.iter().map(|row| Ok((ask(row)?, Origin { directory: row.get(6), project: row.get(7) }))).collect()
    }

    /// Returns whether a session waits for a person.
    pub async fn has_open_ask(&self, session: &SessionId) -> Result<bool, StorageError> {
        let found: Option<i64> = sqlx::query_scalar("select 1 from ask where session_id = ? and reply is null limit 1")
            .bind(session.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(found.is_some())
    }

    /// Returns what a person allowed for good, oldest first.
    pub async fn approvals(&self) -> Result<Vec<Approval>, StorageError> {
        let rows = sqlx::query("select id, data from approval order by time, id")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        rows.iter().map(|row| parse("approval", row.get(0), row.get(1))).collect()
    }
}

fn ask(row: &SqliteRow) -> Result<AskRow, StorageError> {
    let (id, kind, data): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
    let reply: Option<&str> = row.get(3);
    if kind == "question" {
        let stored = reply.map(|json| parse::<StoredAnswers>("answer", id, json)).transpose()?;
        return Ok(AskRow::Question { request: parse("question", id, data)?, reply: stored.map(|s| s.answers) });
    }
    let stored = reply.map(|json| parse::<StoredReply>("reply", id, json)).transpose()?;
    let by = AskedBy {
        call: ToolRef {
            message_id: MessageId::parse(row.get(4)).map_err(|e| bad(id, e))?,
            call_id: CallId::new(row.get::<&str, _>(5)),
        },
        agent: row.get::<Option<String>, _>(8).unwrap_or_default(),
    };
    Ok(AskRow::Permission {
        request: parse("permission request", id, data)?,
        by,
        reply: stored.map(|s| (s.reply, s.message)),
    })
}

fn bad(id: &str, error: impl std::fmt::Display) -> StorageError {
    StorageError::Row { what: "request", id: id.to_owned(), source: serde::de::Error::custom(error) }
}
