//! The durable event log.

use sqlx::Row;

use super::Store;
use crate::error::StorageError;

/// An event of the durable log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Its row.
    pub row: u64,
    /// Its session.
    pub session_id: String,
    /// Its number within the session.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// Its type on the wire.
    pub kind: String,
    /// Where it happened.
    pub directory: String,
    /// The directory's project.
    pub project: String,
    /// Its properties as JSON.
    pub properties: String,
}

impl Store {
    /// Returns events above a row, oldest first: at most 256, and no more once they have `bytes` of properties.
    pub async fn events_after(&self, row: u64, bytes: usize) -> Result<Vec<LoggedEvent>, StorageError> {
        let rows = sqlx::query(
            "select row, session_id, seq, id, kind, directory, project, data from event where row > ?1 and row <= \
             (select max(row) from (select row, sum(size) over (order by row) - size as before from \
             (select row, size from event where row > ?1 order by row limit 256)) where before < ?2) order by row",
        )
        .bind(row as i64)
        .bind(bytes as i64)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(rows
            .iter()
            .map(|row| LoggedEvent {
                row: row.get::<i64, _>(0).max(0) as u64,
                session_id: row.get::<Option<String>, _>(1).unwrap_or_default(),
                seq: row.get::<Option<i64>, _>(2).unwrap_or(0).max(0) as u64,
                id: row.get(3),
                kind: row.get(4),
                directory: row.get(5),
                project: row.get(6),
                properties: row.get(7),
            })
            .collect())
    }

    /// Returns the newest row of the log.
    pub async fn newest_row(&self) -> Result<u64, StorageError> {
        let row: Option<i64> = sqlx::query_scalar("select max(row) from event")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(row.unwrap_or(0).max(0) as u64)
    }
}
