//! What sessions have seen of files.

use protocol::SessionId;
use sqlx::Row;

use super::Store;
use crate::error::StorageError;

impl Store {
    /// Returns the files a session has read or written, each with the SHA-256 of its content then.
    pub async fn seen_files(&self, session: &SessionId) -> Result<Vec<(String, String)>, StorageError> {
        let rows = sqlx::query("select path, hash from seen_file where session_id = ?")
            .bind(session.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}
