//! Bad pages that are met while the service runs: noted, so that the next start looks through the whole file, which
//! takes too long to be done at each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::SqliteConnection;

use crate::error::{StorageError, is_damage};

/// Where bad pages of a database are noted. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    path: Arc<Path>,
    mark: Arc<Path>,
}

impl Damage {
    /// Returns where bad pages of the database at `path` are noted.
    pub(crate) fn of(path: &Path) -> Self {
        let mut mark = path.as_os_str().to_owned();
        mark.push(".suspect");
        Self { path: path.into(), mark: PathBuf::from(mark).into() }
    }

    /// Makes an error of storage of one of the database's, and notes it where it tells of a bad page.
    pub(crate) fn note(&self, error: sqlx::Error) -> StorageError {
        if !is_damage(&error) {
            return error.into();
        }
        let path = self.path.to_path_buf();
        if !self.mark.exists() {
            tracing::error!(%error, path = %path.display(), "the database is damaged: the next start keeps a copy and carries over what can be read");
            if let Err(error) = std::fs::write(&self.mark, "") {
                tracing::error!(%error, "that the database is damaged could not be noted");
            }
        }
        StorageError::Damaged { path }
    }

    /// Looks through the whole file where a bad page was noted.
    pub(super) async fn look_through(&self, connection: &mut SqliteConnection) -> Result<(), StorageError> {
        if !self.mark.exists() {
            return Ok(());
        }
        let said: String = sqlx::query_scalar("pragma quick_check(1)").fetch_one(connection).await?;
        if said == "ok" { Ok(()) } else { Err(StorageError::Damaged { path: self.path.to_path_buf() }) }
    }

    /// Forgets what was noted: it is mended, or was no fault of the file.
    pub(super) fn forget(&self) {
        if self.mark.exists()
            && let Err(error) = std::fs::remove_file(&self.mark)
        {
            tracing::warn!(%error, "the note of a damaged database stays, and each start looks through it");
        }
    }
}
