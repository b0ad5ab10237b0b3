//! The write connection: one transaction a batch, and one a command where a batch is refused.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::{Clock, Ids, SessionId};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use super::fold::{Counters, Fold};
use super::meter::Meter;
use super::tables::Tables;
use super::{Change, Fence, JournalError, Record};
use crate::database::{Damage, Database};
use crate::error::StorageError;
use crate::frame::Frame;

/// How long a batch is tried again while the disk is full, busy or failing.
const PATIENCE: Duration = Duration::from_secs(30);
/// First wait between two such tries; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The log is trimmed each time this many rows were added.
const TRIM_EVERY: u64 = 4096;
/// Most rows of the log.
const KEEP_ROWS: u64 = 100_000;
/// Most bytes of the log.
const KEEP_BYTES: i64 = 64 * 1024 * 1024;
/// Oldest rows of the log, in ms.
const KEEP_MS: u64 = 24 * 60 * 60 * 1000;

/// What became of one command of a batch: what it tells, or why nothing of it is stored.
pub type Outcome = Result<Vec<Frame>, JournalError>;

/// Owns the write connection.
pub struct Writer {
    connection: SqliteConnection,
    counters: Counters,
    trimmed_at: u64,
    meter: Arc<Meter>,
    ids: Arc<Ids>,
    clock: Arc<dyn Clock>,
    damage: Damage,
}

impl Writer {
    /// Opens the write connection.
    pub async fn open(
        database: &Database,
        meter: Arc<Meter>,
        ids: Arc<Ids>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StorageError> {
        let mut connection = database.writer().await?;
        let row: i64 = sqlx::query_scalar("select coalesce(max(seq), 0) from sqlite_sequence where name = 'event'")
            .fetch_one(&mut connection)
            .await?;
        let counters = Counters { row: row.max(0) as u64, next: HashMap::new() };
        Ok(Self { connection, trimmed_at: counters.row, counters, meter, ids, clock, damage: database.damage() })
    }

    /// Names and dates what the queue tells without storing it.
    pub fn ids(&self) -> (Arc<Ids>, Arc<dyn Clock>) {
        (self.ids.clone(), self.clock.clone())
    }

    /// Commits the batch in one transaction; where the database refuses that, each command in one of its own.
    pub async fn commit(&mut self, batch: &[Record]) -> Vec<Outcome> {
        if let Err(error) = self.learn_counters(batch).await {
            let reason = self.damage.note(error);
            let failed = if reason.is_damage() { JournalError::Refused } else { JournalError::Unwritable };
            return batch.iter().map(|_| Err(failed(reason.to_string()))).collect();
        }
        let outcomes = match self.try_commit(batch).await {
            Ok(frames) => frames.into_iter().map(Ok).collect(),
            Err(Failure::Unwritable(reason)) => {
                batch.iter().map(|_| Err(JournalError::Unwritable(reason.clone()))).collect()
            }
            Err(Failure::Refused(_)) => self.commit_one_by_one(batch).await,
        };
        if self.counters.row >= self.trimmed_at + TRIM_EVERY {
            self.trim().await;
        }
        outcomes
    }

    /// Forgets the numbers of a session that is not live any more.
    pub fn forget(&mut self, session_id: &SessionId) {
        self.counters.next.remove(session_id);
    }

    /// Closes the connection; the file is whole afterwards.
    pub async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::warn!(%error, "the database did not close cleanly");
        }
    }

    async fn commit_one_by_one(&mut self, batch: &[Record]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut failed: Vec<(Fence, String)> = Vec::new();
        for record in batch {
            let earlier = failed.iter().find(|(fence, _)| record.fence.as_ref() == Some(fence));
            if let Some((_, cause)) = earlier {
                outcomes.push(Err(JournalError::Poisoned(cause.clone())));
                continue;
            }
            match self.try_commit(std::slice::from_ref(record)).await {
                Ok(mut frames) => outcomes.push(Ok(frames.pop().unwrap_or_default())),
                Err(failure) => {
                    let error = match failure {
                        Failure::Refused(reason) => JournalError::Refused(reason),
                        Failure::Unwritable(reason) => JournalError::Unwritable(reason),
                    };
                    failed.extend(record.fence.clone().map(|fence| (fence, error.to_string())));
                    outcomes.push(Err(error));
                }
            }
        }
        outcomes
    }

    /// Writes the records in one transaction. The numbers move on only when it is committed.
    async fn try_commit(&mut self, records: &[Record]) -> Result<Vec<Vec<Frame>>, Failure> {
        let mut fold = Fold::new(self.counters.clone(), &self.ids, self.clock.now_ms());
        let mut frames = Vec::with_capacity(records.len());
        for record in records {
            let told = fold.add(&record.origin, &record.changes).map_err(|e| Failure::Refused(e.to_string()))?;
            frames.push(told);
        }
        let (tables, counters) = (fold.tables, fold.counters);
        let begun = Instant::now();
        self.write(&tables).await?;
        self.meter.add(records.len(), begun.elapsed());
        self.counters = counters;
        Ok(frames)
    }

    async fn write(&mut self, tables: &Tables) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut wait = FIRST_WAIT;
        loop {
            // Made anew for each try: kept, it would double what a large batch takes.
            let Some((sql, parameters)) = tables.statements() else { return Ok(()) };
            let query = parameters.into_iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, json| query.bind(json));
            let Err(error) = query.execute(&mut self.connection).await else { return Ok(()) };
            // The transaction may be open still; when it isn't, this fails and that is fine.
            let _ = sqlx::query("rollback").execute(&mut self.connection).await;
            if !is_passing(&error) {
                return Err(Failure::Refused(self.damage.note(error).to_string()));
            }
            if tokio::time::Instant::now() + wait > deadline {
                tracing::error!(%error, "the database can't be written; what waited for it has failed");
                return Err(Failure::Unwritable(error.to_string()));
            }
            tracing::warn!(%error, "the database can't be written now; trying again");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Reads the next number of each session of the batch that isn't known yet.
    async fn learn_counters(&mut self, batch: &[Record]) -> Result<(), sqlx::Error> {
        let unknown: BTreeSet<&SessionId> = batch
            .iter()
            .flat_map(|record| record.changes.iter().filter_map(Change::logs_to))
            .filter(|id| !self.counters.next.contains_key(*id))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let ids = serde_json::to_string(&unknown).unwrap_or_default();
        let rows = sqlx::query(
            "select session_id, next from event_sequence where session_id in (select value from json_each(?))",
        )
        .bind(ids)
        .fetch_all(&mut self.connection)
        .await?;
        for id in unknown {
            let stored = rows.iter().find(|row| row.get::<&str, _>(0) == id.as_str());
            self.counters.next.insert(id.clone(), stored.map_or(0, |row| row.get::<i64, _>(1).max(0) as u64));
        }
        Ok(())
    }

    async fn trim(&mut self) {
        self.trimmed_at = self.counters.row;
        let oldest_row = self.counters.row.saturating_sub(KEEP_ROWS) as i64;
        let oldest_time = self.clock.now_ms().saturating_sub(KEEP_MS) as i64;
        let trimmed = sqlx::query(
            "delete from event where row <= max(?1, coalesce((select max(row) from event where time < ?2), 0), \
             coalesce((select row from (select row, sum(size) over (order by row desc) as total from event) \
             where total > ?3 limit 1), 0))",
        )
        .bind(oldest_row)
        .bind(oldest_time)
        .bind(KEEP_BYTES)
        .execute(&mut self.connection)
        .await;
        if let Err(error) = trimmed {
            tracing::warn!(%error, "the event log could not be trimmed");
        }
    }
}

enum Failure {
    /// The content is wrong: trying again gives the same.
    Refused(String),
    /// The disk is: nothing of the content is to blame.
    Unwritable(String),
}

/// SQLITE_BUSY (5), LOCKED (6), NOMEM (7), READONLY (8), IOERR (10), FULL (13), CANTOPEN (14): may pass.
fn is_passing(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code()).and_then(|c| c.parse::<u32>().ok());
    code.is_some_and(|code| matches!(code & 0xff, 5 | 6 | 7 | 8 | 10 | 13 | 14))
}
