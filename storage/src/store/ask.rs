//! What waits for a person, and what a person allowed for good.

use protocol::permission::ToolRef;
use protocol::{CallId, MessageId, SessionId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, broken};
use crate::error::StorageError;
use crate::frame::Origin;
use crate::journal::{Approval, AskRow, AskedBy, StoredAnswers, StoredReply};

impl Store {
    /// Returns all requests that wait, and those that were answered for a call that has no result yet, oldest first,
    /// each with where its session works. One that can't be read is left out: its call asks again.
    pub async fn asks(&self) -> Result<Vec<(AskRow, Origin)>, StorageError> {
        let rows = sqlx::query(
            "select ask.id, kind, ask.data, reply, message_id, call_id, session.directory, session.project_id, agent \
             from ask join session on session.id = ask.session_id order by time, ask.id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let read = |row: &SqliteRow| Some((ask(row)?, Origin { directory: row.get(6), project: row.get(7) }));
        Ok(rows.iter().filter_map(read).collect())
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

    /// Returns what a person allowed for good, oldest first. What can't be read allows nothing.
    pub async fn approvals(&self) -> Result<Vec<Approval>, StorageError> {
        let rows = sqlx::query("select id, data from approval order by time, id")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        let read = |row: &SqliteRow| broken::parsed("approval", broken::text("approval", row, 0)?, row, 1);
        Ok(rows.iter().filter_map(read).collect())
    }
}

fn ask(row: &SqliteRow) -> Option<AskRow> {
    let (id, kind) = (broken::text("request", row, 0)?, broken::text("request", row, 1)?);
    let is_answered = !matches!(row.try_get::<Option<&str>, _>(3), Ok(None));
    if kind == "question" {
        let stored: Option<StoredAnswers> =
            if is_answered { Some(broken::parsed("answer", id, row, 3)?) } else { None };
        return Some(AskRow::Question {
            request: broken::parsed("question", id, row, 2)?,
            reply: stored.map(|s| s.answers),
        });
    }
    let stored: Option<StoredReply> = if is_answered { Some(broken::parsed("reply", id, row, 3)?) } else { None };
    let message_id = MessageId::parse(broken::text("request", row, 4)?)
        .inspect_err(|error| tracing::error!(id, %error, "a permission request of the database can't be read"))
        .ok()?;
    let by = AskedBy {
        call: ToolRef { message_id, call_id: CallId::new(broken::text("request", row, 5)?) },
        agent: row.try_get(8).unwrap_or_default(),
    };
    Some(AskRow::Permission {
        request: broken::parsed("permission request", id, row, 2)?,
        by,
        reply: stored.map(|s| (s.reply, s.message)),
    })
}
