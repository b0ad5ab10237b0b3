//! Files of a directory: finding, listing, reading, and which of them changed.

use std::time::Duration;

use actix_web::web;
use protocol::file::{ChangedFile, FileContent, FileNode, FoundLine};
use serde_json::{Value, json};
use tokio::sync::SemaphorePermit;
use tools::search::{Entries, SearchError, file_content, find_files, find_lines, list_directory};

use super::get;
use super::project::identity;
use crate::error::ApiError;
use crate::place::Place;
use crate::query::Query;
use crate::{Searches, Server, changes};

/// How many lines, and how many files, are found where nobody says.
const FOUND: usize = 10;
/// Most files that are found.
const MOST_FOUND: u64 = 200;
/// How long a search waits for others to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/find", get().to(lines))
        .route("/find/file", get().to(files))
        .route("/find/symbol", get().to(symbols))
        .route("/file", get().to(list))
        .route("/file/content", get().to(content))
        .route("/file/status", get().to(status));
}

/// A place for a search. It is given back when the search has ended, or its client has gone.
async fn turn(searches: &Searches) -> Result<SemaphorePermit<'_>, ApiError> {
    match tokio::time::timeout(PATIENCE, searches.0.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(ApiError::Unavailable("too many searches are running; send it again".into())),
    }
}

/// Finds lines by a regular expression.
async fn lines(
    searches: web::Data<Searches>,
    place: Place,
    query: Query,
) -> Result<web::Json<Vec<FoundLine>>, ApiError> {
    let pattern = query.needed("pattern")?;
    let _turn = turn(&searches).await?;
    Ok(web::Json(find_lines(&place.0, pattern, FOUND).await?))
}

/// Finds files by a few letters of their paths; with `dirs=true` directories too, with `type` the one or the other.
async fn files(searches: web::Data<Searches>, place: Place, query: Query) -> Result<web::Json<Vec<String>>, ApiError> {
    let kind = query.one_of("type", &[("file", Entries::Files), ("directory", Entries::Directories)])?;
    let entries = match (kind, query.flag("dirs")?) {
        (Some(kind), _) => kind,
        (None, Some(true)) => Entries::Both,
        (None, _) => Entries::Files,
    };
    let limit = query.number("limit", 1, MOST_FOUND)?.map_or(FOUND, |limit| limit as usize);
    let text = query.needed("query")?;
    let _turn = turn(&searches).await?;
    Ok(web::Json(find_files(&place.0, text, entries, limit).await?))
}

/// No language server is asked.
async fn symbols(query: Query) -> Result<web::Json<Value>, ApiError> {
    query.needed("query")?;
    Ok(web::Json(json!([])))
}

async fn list(place: Place, query: Query) -> Result<web::Json<Vec<FileNode>>, ApiError> {
    let path = query.needed("path")?.to_owned();
    blocking(move || list_directory(&place.0, &path)).await.map(web::Json)
}

async fn content(place: Place, query: Query) -> Result<web::Json<FileContent>, ApiError> {
    let path = query.needed("path")?.to_owned();
    let wanted = path.clone();
    let found = blocking(move || file_content(&place.0, &path)).await?;
    found.map(web::Json).ok_or_else(|| ApiError::NotFound(format!("File not found: {wanted}")))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SearchError> + Send + 'static,
) -> Result<T, ApiError> {
    Ok(tokio::task::spawn_blocking(work).await.unwrap_or(Err(SearchError::Broken))?)
}

async fn status(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<ChangedFile>>, ApiError> {
    let identity = identity(&server, &place).await?;
    if !identity.is_repository {
        return Ok(web::Json(Vec::new()));
    }
    Ok(web::Json(changes::since_commit(&identity.worktree).await?))
}
