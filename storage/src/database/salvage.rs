//! What is left of a damaged database.

pub(super) mod schema;

use std::path::{Path, PathBuf};

use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::error::StorageError;

/// All tables, owners before what refers to them.
pub const TABLES: [&str; 13] = [
    "project",
    "session",
    "message",
    "part",
    "todo",
    "seen_file",
    "turn",
    "ask",
    "approval",
    "process",
    "event",
    "event_sequence",
    "_sqlx_migrations",
];

/// What the names of the files of a database end with.
const BESIDE: [&str; 3] = ["", "-wal", "-shm"];

/// Those without a column of JSON.
const PLAIN: [&str; 5] = ["turn", "process", "event_sequence", "seen_file", "_sqlx_migrations"];

/// Returns what holds of each row worth carrying over: pages that are gone read as zeros, and one such message would
/// make its whole session unreadable.
fn sound(table: &str) -> &'static str {
    if PLAIN.contains(&table) { "true" } else { "json_valid(data)" }
}

/// Moves the file, and what SQLite keeps beside it, out of the way. Returns where it is.
pub fn set_aside(path: &Path, now_ms: u64) -> Result<PathBuf, StorageError> {
    let kept = with(path, &format!(".damaged-{now_ms}"));
    for suffix in BESIDE {
        let beside = with(path, suffix);
        if beside.exists() {
            std::fs::rename(&beside, with(&kept, suffix)).map_err(StorageError::file("keeping a copy of", &beside))?;
        }
    }
    Ok(kept)
}

/// Returns whether the file is missing or empty while the log beside it is not: SQLite would throw that away and begin
/// anew without a word.
pub fn is_emptied(path: &Path) -> bool {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    length(path) == 0 && length(&with(path, "-wal")) > 0
}

pub fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Copies the rows that can be read into `to`, the new database at `path`. What can't is counted in the log; nothing
/// here fails. Returns how many rows came over.
pub async fn carry_over(from: &Path, path: &Path, to: &mut SqliteConnection) -> u64 {
    // Lets SQLite open a file that was cut, or whose list of tables is damaged in places.
    set_lenient(to, true).await;
    let list = schema::List::of(path);
    let (mut rows, is_whole) = copy_all(from, to).await;
    if !is_whole {
        let mended = with(from, ".mending");
        match list.and_then(|list| transplant(&list, from, &mended)) {
            Ok(()) => rows += copy_all(&mended, to).await.0,
            Err(error) => tracing::error!(%error, "the list of tables could not be put right in a copy"),
        }
        for suffix in BESIDE {
            // Not there is fine.
            let _ = std::fs::remove_file(with(&mended, suffix));
        }
    }
    set_lenient(to, false).await;
    rows
}

/// Makes a copy with a list of tables that is sound, and of the log beside it.
fn transplant(list: &schema::List, from: &Path, to: &Path) -> std::io::Result<()> {
    list.transplant(from, to)?;
    match std::fs::copy(with(from, "-wal"), with(to, "-wal")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies the rows of all tables. Returns how many there were, and whether all tables were found and read to their
/// ends.
async fn copy_all(from: &Path, to: &mut SqliteConnection) -> (u64, bool) {
    // Read-only, so that the copy stays as it was found.
    let path: String = url_path(from);
    let attached = sqlx::query("attach database ? as damaged").bind(format!("file:{path}?mode=ro"));
    if let Err(error) = attached.execute(&mut *to).await {
        tracing::error!(%error, path = %from.display(), "the damaged database can't be opened");
        return (0, false);
    }
    let (mut copied, mut is_whole) = (0, true);
    for table in TABLES.into_iter().filter(|table| !table.starts_with('_')) {
        match copy_table(table, to).await {
            Ok(rows) => {
                tracing::info!(table, rows, "rows were carried over from the damaged database");
                copied += rows;
            }
            Err(error) => {
                let rows = copy_row_by_row(table, to).await;
                tracing::error!(%error, table, rows, "only some rows could be carried over");
                copied += rows;
                is_whole = false;
            }
        }
    }
    if let Err(error) = sqlx::query("detach database damaged").execute(&mut *to).await {
        tracing::warn!(%error, "the damaged database stays attached until the next start");
    }
    (copied, is_whole)
}

async fn set_lenient(connection: &mut SqliteConnection, is_lenient: bool) {
    let sql = if is_lenient { "pragma writable_schema = on" } else { "pragma writable_schema = off" };
    if let Err(error) = sqlx::query(sql).execute(connection).await {
        tracing::debug!(%error, "the strictness about damage could not be changed");
    }
}

/// Returns a path as SQLite reads it in an address.
fn url_path(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    bytes.map(|byte| if is_plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") }).collect()
}

async fn copy_table(table: &str, to: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let sql = format!("insert or ignore into main.{table} select * from damaged.{table} where {}", sound(table));
    Ok(sqlx::query(AssertSqlSafe(sql)).execute(to).await?.rows_affected())
}

/// Copies each row by its own key from whichever end of the table can be walked; a bad page costs its rows only.
async fn copy_row_by_row(table: &str, to: &mut SqliteConnection) -> u64 {
    let mut copied = 0;
    for order in ["asc", "desc"] {
        let keys = format!("select rowid from damaged.{table} order by rowid {order}");
        let mut found = Vec::new();
        {
            use futures::TryStreamExt;
            let mut rows = sqlx::query(AssertSqlSafe(keys)).fetch(&mut *to);
            while let Ok(Some(row)) = rows.try_next().await {
                found.push(row.get::<i64, _>(0));
            }
        }
        for key in found {
            let sql = format!(
                "insert or ignore into main.{table} select * from damaged.{table} where rowid = ? and {}",
                sound(table)
            );
            if let Ok(done) = sqlx::query(AssertSqlSafe(sql)).bind(key).execute(&mut *to).await {
                copied += done.rows_affected();
            }
        }
    }
    copied
}
