//! Why storage failed.

use std::path::PathBuf;

/// Why storage failed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A file of the data directory can't be used.
    #[error("{action} {} failed: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Another process owns the data directory.
    #[error(
        "the data directory {} is in use by process {pid} ({address}); stop it, attach to it, \
         or name another directory with TROUPE_DATA_DIR",
        path.display()
    )]
    Owned {
        /// The data directory.
        path: PathBuf,
        /// The owner.
        pid: u32,
        /// Where it listens.
        address: String,
    },
    /// The database refused something.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
    /// The database holds pages that can't be read.
    #[error(
        "the database {} is damaged: start troupe again, which keeps a copy of it and carries over what can be read",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The database was made by a later version.
    #[error(
        "the database {} was made by a newer troupe: use that one, or name another directory with TROUPE_DATA_DIR",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The database is of another version.
    #[error("the database {} can't be brought to this version: {source}", path.display())]
    Migration {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// A row holds what this version can't read.
    #[error("the database holds a {what} ({id}) that can't be read: {source}")]
    Row {
        /// The kind of row.
        what: &'static str,
        /// Its key.
        id: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// The disk is nearly full.
    #[error("the disk of {} has only {free} bytes left, {wanted} are wanted: free some, or lower \
             troupe.snapshot.min_free_bytes", path.display())]
    LowDisk {
        /// What should have been written there.
        path: PathBuf,
        /// What is left.
        free: u64,
        /// What has to be left.
        wanted: u64,
    },
    /// A git command failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// The subcommand.
        command: String,
        /// What it said.
        message: String,
    },
}

impl StorageError {
    /// Returns a closure for `map_err` on file operations.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Returns whether the database was closed, for the process stops.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::PoolClosed))
    }

    /// Returns whether the database file itself is damaged.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Database(error) => is_damage(error),
            Self::Migration { source: sqlx::migrate::MigrateError::Execute(error), .. } => is_damage(error),
            _ => false,
        }
    }
}

/// SQLITE_CORRUPT (11) and SQLITE_NOTADB (26), with their extended codes in the upper bits.
pub(crate) fn is_damage(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()).and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| matches!(code & 0xff, 11 | 26))
}

/// SQLITE_ERROR (1): of a statement that is right in itself, a table or column that isn't there.
pub(crate) fn is_missing(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "1")
}
