//! Fetches the list of models.dev.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::DateTime;
use futures::StreamExt;
use protocol::Clock;
use sse::Client;

use super::{BadList, compact};

/// Where models.dev is.
pub const MODELS_DEV: &str = "https://models.dev";
/// Largest answer that is read.
const MOST: usize = 64 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the list can't be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// There is no answer.
    #[error("{url} can't be reached: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why.
        reason: String,
    },
    /// The answer is no list.
    #[error("{url} answered {status}, not with a list of models")]
    Refused {
        /// Where.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The answer is larger than any list.
    #[error("the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// Where.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The answer is something else.
    #[error("{url}: {reason}")]
    NoList {
        /// Where.
        url: String,
        /// What is wrong.
        reason: BadList,
    },
    /// The list can't be kept.
    #[error("the list of models can't be written to {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Fetches the list from models.dev, or what stands in for it at `base`, and keeps it in a file. Returns how many
/// providers it has.
pub async fn refresh(client: &Client, base: &str, path: &Path, clock: &dyn Clock) -> Result<usize, RefreshError> {
    let url = format!("{}/api.json", base.trim_end_matches('/'));
    let text = fetch(client, &url).await?;
    let now = i64::try_from(clock.now_ms()).ok().and_then(DateTime::from_timestamp_millis);
    let date = now.map(|now| now.format("%Y-%m-%d").to_string()).unwrap_or_default();
    let (path, url) = (path.to_owned(), url);
    let kept = tokio::task::spawn_blocking(move || {
        let list = compact(&text, &date).map_err(|reason| RefreshError::NoList { url, reason })?;
        write(&path, &list).map_err(|source| RefreshError::File { path: path.clone(), source })?;
        Ok(list.lines().skip(1).filter(|line| line.starts_with("{\"id\":")).count())
    });
    kept.await.unwrap_or_else(|panic| Err(RefreshError::File { path: PathBuf::new(), source: panic.into() }))
}

/// Writes beside it, then puts the new one in its place: a reader finds one of the two whole.
fn write(path: &Path, list: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("jsonl.new");
    std::fs::File::create(&beside)?.write_all(list.as_bytes())?;
    std::fs::rename(&beside, path)
}

/// Returns what is at `url`.
async fn fetch(client: &Client, url: &str) -> Result<String, RefreshError> {
    let lost = |error: reqwest::Error| RefreshError::Unreachable {
        url: url.to_owned(),
        reason: if error.is_timeout() { "it took too long".into() } else { error.without_url().to_string() },
    };
    let answer = client.get(url).timeout(PATIENCE).send().await.map_err(lost)?;
    if !answer.status().is_success() {
        return Err(RefreshError::Refused { url: url.to_owned(), status: answer.status().as_u16() });
    }
    let mut bytes = Vec::new();
    let mut body = answer.bytes_stream();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece.map_err(lost)?);
        if bytes.len() > MOST {
            return Err(RefreshError::TooLarge { url: url.to_owned(), limit: MOST });
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
