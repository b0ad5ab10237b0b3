//! What can be read. Reads see what is committed, so never less than what was told or acknowledged.

mod ask;
mod broken;
mod event;
mod message;
mod seen_file;
mod session;
mod spent;
mod turn;

use protocol::EventId;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlitePool};

use crate::database::{Damage, Database};
use crate::error::StorageError;

pub use event::LoggedEvent;
pub use message::{Cursor, RawMessage, StoredPart};
pub use session::SessionFilter;
pub use spent::{Spender, Spent};

/// Reads the database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
    damage: Damage,
}

impl Store {
    /// Returns the read side of a database.
    pub fn new(database: &Database) -> Self {
        Self { pool: database.readers().clone(), damage: database.damage() }
    }

    /// Returns the newest time the database holds (ms since the Unix epoch; 0 when it is empty): ids made later must
    /// come after it. Where a clock was set back, ids went on and times did not, so the id of the newest event counts.
    pub async fn newest_time(&self) -> Result<u64, StorageError> {
        let newest: i64 = sqlx::query_scalar(
            "select max(coalesce((select max(time_created) from message), 0), \
             coalesce((select max(time_updated) from session), 0))",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let newest: u64 = newest.try_into().unwrap_or(0);
        let last = sqlx::query("select id, time from event order by row desc limit 1").fetch_optional(&self.pool).await;
        // A bad page there is mended by the next start; this one needs none of it.
        let last = last.map_err(|error| self.damage.note(error)).inspect_err(|error| {
            tracing::error!(%error, "the newest event can't be read: new ids may sort before old ones");
        });
        let time_of = |row: &SqliteRow| {
            let time: u64 = row.try_get::<i64, _>(1).ok()?.try_into().ok()?;
            let minted = EventId::parse(row.try_get(0).ok()?).ok()?.minted_near(time);
            Some(time.max(minted.unwrap_or(0)))
        };
        Ok(last.ok().flatten().as_ref().and_then(time_of).map_or(newest, |time| time.max(newest)))
    }
}

/// Reads the JSON of a row.
fn parse<T: DeserializeOwned>(what: &'static str, id: &str, json: &str) -> Result<T, StorageError> {
    serde_json::from_str(json).map_err(|source| StorageError::Row { what, id: id.to_owned(), source })
}
