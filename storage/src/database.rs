//! The database file: opening it, bringing it to this version, and what is done when it is damaged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::config::{Damaged, Durability};
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use crate::error::{StorageError, is_damage, is_missing};

mod damage;
mod log;
mod salvage;

pub(crate) use damage::Damage;
#[cfg(test)]
pub(crate) use salvage::schema::pages as schema_pages;

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// Most read connections.
const READERS: u32 = 4;

/// An open database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    path: PathBuf,
    durability: Durability,
    readers: SqlitePool,
}

impl Database {
    /// Opens the file, or makes it. A damaged one is kept beside it (`NAME.damaged-TIME`), what can be read of it is
    /// carried over (unless `damaged` says otherwise), and the log says what was lost. That it is damaged is seen now
    /// where it begins; the rest is looked at when the last life of the service met a bad page.
    pub async fn open(
        path: &Path,
        durability: Durability,
        damaged: Damaged,
        now_ms: u64,
    ) -> Result<Self, StorageError> {
        let is_emptied = salvage::is_emptied(path);
        match log::look(path, now_ms)? {
            log::Log::Sound => {}
            log::Log::Gone => tracing::error!(
                path = %path.display(),
                "the database's write-ahead log (-wal) is gone; what was stored last, and only there, is lost"
            ),
            log::Log::Kept(kept) => tracing::error!(
                path = %path.display(),
                kept = %kept.display(),
                "the database's write-ahead log is damaged; a copy is kept, and what was stored last, and only there, is \
                 lost"
            ),
        }
        let sound = match is_emptied {
            true => Err(StorageError::Damaged { path: path.to_owned() }),
            false => Self::open_sound(path, durability).await,
        };
        let opened = match sound {
            Err(error) if error.is_damage() => {
                let kept = salvage::set_aside(path, now_ms)?;
                tracing::error!(%error, path = %path.display(), kept = %kept.display(), "the database is damaged; a copy is kept");
                let database = Self::open_sound(path, durability).await?;
                if damaged == Damaged::Salvage && !is_emptied {
                    let rows = salvage::carry_over(&kept, path, &mut database.writer().await?).await;
                    say_what_came_over(&kept, rows);
                } else {
                    tracing::error!(kept = %kept.display(), "nothing was carried over from the damaged database");
                }
                Ok(database)
            }
            other => other,
        }?;
        opened.damage().forget();
        Ok(opened)
    }

    async fn open_sound(path: &Path, durability: Durability) -> Result<Self, StorageError> {
        let mut writer = write_options(path, durability).connect().await.map_err(|error| match is_damage(&error) {
            true => error.into(),
            // SQLite's own words name no file.
            false => StorageError::file("opening", path)(std::io::Error::other(error)),
        })?;
        let mut checked = prepare(path, &mut writer).await;
        if checked.is_ok() {
            checked = Damage::of(path).look_through(&mut writer).await;
        }
        writer.close().await?;
        checked?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .idle_timeout(Duration::from_secs(60))
            .connect_lazy_with(base_options(path).read_only(true).create_if_missing(false));
        Ok(Self { path: path.to_owned(), durability, readers })
    }

    /// Returns a connection that writes. The journal owns the only one.
    pub(crate) async fn writer(&self) -> Result<SqliteConnection, StorageError> {
        Ok(write_options(&self.path, self.durability).connect().await?)
    }

    /// Returns the connections that read.
    pub(crate) fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    /// Returns where bad pages are noted.
    pub(crate) fn damage(&self) -> Damage {
        Damage::of(&self.path)
    }

    /// Closes the read connections, and brings all into the one file: the journal is closed before.
    pub async fn close(&self) {
        self.readers.close().await;
        // The last connection that can write does it; those that read can't.
        let merged = async { self.writer().await?.close().await.map_err(StorageError::from) };
        if let Err(error) = merged.await {
            tracing::debug!(%error, "the write-ahead log stays beside the database");
        }
    }
}

fn say_what_came_over(kept: &Path, rows: u64) {
    let kept = kept.display();
    if rows == 0 {
        tracing::error!(
            %kept,
            "nothing of the damaged database could be read, so this one is empty: put a backup in its place while \
             troupe is stopped, or go on with the empty one; the damaged file is kept"
        );
    } else {
        tracing::error!(%kept, rows, "what could be read of the damaged database is here; the damaged file is kept");
    }
}

/// Brings the file to this version and looks at the root page of each table, so that a broken file is known now.
async fn prepare(path: &Path, connection: &mut SqliteConnection) -> Result<(), StorageError> {
    MIGRATIONS.run(&mut *connection).await.map_err(|source| match source {
        MigrateError::VersionMissing(_) => StorageError::Newer { path: path.to_owned() },
        source => StorageError::Migration { path: path.to_owned(), source },
    })?;
    for table in salvage::TABLES {
        let looked = sqlx::query(sqlx::AssertSqlSafe(format!("select 1 from {table} limit 1")));
        looked.execute(&mut *connection).await.map_err(|error| match is_missing(&error) {
            // All of them are made with the file.
            true => StorageError::Damaged { path: path.to_owned() },
            false => error.into(),
        })?;
    }
    Ok(())
}

fn base_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .statement_cache_capacity(128)
        .disable_statement_logging()
}

fn write_options(path: &Path, durability: Durability) -> SqliteConnectOptions {
    let synchronous = match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    base_options(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .pragma("wal_autocheckpoint", "4000")
        .pragma("cache_size", "-4000")
        .pragma("temp_store", "memory")
        .pragma("journal_size_limit", "67108864")
}
