//! Open turns and running process groups: what recovery starts from.

use protocol::{MessageId, SessionId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::Store;
use crate::error::StorageError;
use crate::journal::{ProcessRow, TurnKind, TurnRow};

impl Store {
    /// Returns the open turns of a session, in the order they were accepted; those the loop gave itself with the one it
    /// answers.
    pub async fn turns(&self, session: &SessionId) -> Result<Vec<TurnRow>, StorageError> {
        let rows = sqlx::query(
            "select turn.message_id, turn.session_id, turn.kind, turn.attempt, turn.resets, turn.time from turn \
             left join message on message.id = turn.message_id where turn.session_id = ? \
             order by turn.time, message.time_created, turn.message_id",
        )
        .bind(session.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(rows.iter().filter_map(turn).collect())
    }

    /// Returns the open turns of all sessions.
    pub async fn open_turns(&self) -> Result<Vec<TurnRow>, StorageError> {
        let rows = sqlx::query(
            "select message_id, session_id, kind, attempt, resets, time from turn order by time, message_id",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(rows.iter().filter_map(turn).collect())
    }

    /// Returns whether a call of a session waits for the subagent that works in another.
    pub async fn has_open_task(&self, parent: &SessionId, child: &SessionId) -> Result<bool, StorageError> {
        let found: Option<i64> = sqlx::query_scalar(
            "select 1 from part where session_id = ? and iif(json_valid(data), data->>'tool' = 'task' \
             and data->'state'->>'status' = 'running' and data->'state'->'metadata'->>'sessionId' = ?, false) limit 1",
        )
        .bind(parent.as_str())
        .bind(child.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(found.is_some())
    }

    /// Returns the process groups that were started and not seen to end.
    pub async fn processes(&self) -> Result<Vec<ProcessRow>, StorageError> {
        let rows = sqlx::query("select pgid, boot_id, session_id, started from process")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(rows
            .iter()
            .filter_map(|row| {
                Some(ProcessRow {
                    pgid: i32::try_from(row.get::<i64, _>(0)).ok()?,
                    boot_id: row.get(1),
                    session_id: SessionId::parse(row.get(2)).ok()?,
                    started: row.get::<i64, _>(3).max(0) as u64,
                })
            })
            .collect())
    }
}

fn turn(row: &SqliteRow) -> Option<TurnRow> {
    let kinds = [TurnKind::Prompt, TurnKind::Shell, TurnKind::Compact];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == row.get::<&str, _>(2))?;
    Some(TurnRow {
        message_id: MessageId::parse(row.get(0)).ok()?,
        session_id: SessionId::parse(row.get(1)).ok()?,
        kind,
        attempt: row.get::<i64, _>(3).max(0) as u32,
        resets: row.get::<i64, _>(4).max(0) as u32,
        time: row.get::<i64, _>(5).max(0) as u64,
    })
}
