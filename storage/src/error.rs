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

    /// Returns whether the database file itself is damaged.
    pub fn is_damage(&self) -> bool {
        let code = |e: &sqlx::Error| e.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned());
        match self {
            Self::Database(e) => is_damage_code(code(e).as_deref()),
            Self::Migration { source: sqlx::migrate::MigrateError::Execute(e), .. } => {
                is_damage_code(code(e).as_deref())
            }
            _ => false,
        }
    }
}

/// SQLITE_CORRUPT (11) and SQLITE_NOTADB (26), with their extended codes in the upper bits.
fn is_damage_code(code: Option<&str>) -> bool {
    code.and_then(|c| c.parse::<u32>().ok()).is_some_and(|c| matches!(c & 0xff, 11 | 26))
}
