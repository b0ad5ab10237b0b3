//! What waits for a person, and what a person allowed for good.

use protocol::permission::ToolRef;
use protocol::{CallId, MessageId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, parse};
use crate::error::StorageError;
use crate::journal::{Approval, AskRow, StoredAnswers, StoredReply};

impl Store {
    /// Returns all requests that wait, and those that were answered for a call that has no result yet, oldest first.
    pub async fn asks(&self) -> Result<Vec<AskRow>, StorageError> {
        let rows = sqlx::query("select id, kind, data, reply, message_id, call_id from ask order by time, id")
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(ask).collect()
    }

    /// Returns what a person allowed for good, oldest first.
    pub async fn approvals(&self) -> Result<Vec<Approval>, StorageError> {
        let rows = sqlx::query("select id, data from approval order by time, id").fetch_all(&self.pool).await?;
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
    let call = match (row.get::<Option<&str>, _>(4), row.get::<Option<&str>, _>(5)) {
        (Some(message), Some(call)) => {
            MessageId::parse(message).ok().map(|message_id| ToolRef { message_id, call_id: CallId::new(call) })
        }
        _ => None,
    };
    Ok(AskRow::Permission {
        request: parse("permission request", id, data)?,
        call,
        reply: stored.map(|s| (s.reply, s.message)),
    })
}
