//! What can be read. Reads see what is committed, so never less than what was told or acknowledged.

mod ask;
mod event;
mod message;
mod seen_file;
mod session;
mod spent;
mod turn;

use serde::de::DeserializeOwned;
use sqlx::SqlitePool;

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
    /// come after it.
    pub async fn newest_time(&self) -> Result<u64, StorageError> {
        let newest: i64 = sqlx::query_scalar(
            "select max(coalesce((select max(time_created) from message), 0), \
             coalesce((select max(time_updated) from session), 0), \
             coalesce((select time from event order by row desc limit 1), 0))",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(newest.max(0) as u64)
    }
}

/// Reads the JSON of a row.
fn parse<T: DeserializeOwned>(what: &'static str, id: &str, json: &str) -> Result<T, StorageError> {
    serde_json::from_str(json).map_err(|source| StorageError::Row { what, id: id.to_owned(), source })
}
