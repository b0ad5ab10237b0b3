//! Fetches the list of models.dev.

use std::time::Duration;

use futures::StreamExt;
use sse::Client;

/// Where the list is, unless config says otherwise.
pub const REFRESH_URL: &str = "https://models.dev/api.json";
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
}

/// Returns what is at `url`, the text of models.dev's `api.json`.
pub async fn fetch(client: &Client, url: &str) -> Result<String, RefreshError> {
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
