//! Sessions.

use actix_web::{HttpResponse, web};
use actors::session::command::{Fork, StopReason, Update};
use actors::session_registry::{AbortSession, DeleteSession};
use indexmap::IndexMap;
use protocol::session::{CreateSession, FileDiff, UpdateSession};
use protocol::{Message, MessageId, Session, SessionId, SessionStatus, Todo};
use serde::Deserialize;
use storage::store::SessionFilter;

use super::get;
use super::project::identity;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;
use crate::query::Query;
use crate::{Server, diff, ids};

/// How many sessions a list has where nobody says.
const LISTED: u64 = 100;
/// The latest time a query may name: what a JavaScript number holds exactly.
const LATEST: u64 = 1 << 53;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/session", get().to(list))
        .route("/session", web::post().to(create))
        // Before the routes with an id: the first that fits is taken.
        .route("/session/status", get().to(status))
        .route("/session/{id}", get().to(read))
        .route("/session/{id}", web::patch().to(update))
        .route("/session/{id}", web::delete().to(delete))
        .route("/session/{id}/children", get().to(children))
        .route("/session/{id}/todo", get().to(todo))
        .route("/session/{id}/diff", get().to(changes))
        .route("/session/{id}/fork", web::post().to(fork))
        .route("/session/{id}/abort", web::post().to(abort));
}

/// Returns a stored session.
pub async fn known(server: &Server, id: &SessionId) -> Result<Session, ApiError> {
    let found = server.runtime.store.session(id).await?;
    found.ok_or_else(|| ApiError::NotFound(format!("Session not found: {id}")))
}

/// Lists the sessions of a directory; with `scope=project` those of its project; with `path` those of its project in a
/// directory of it (relative to the worktree) or below.
async fn list(server: web::Data<Server>, place: Place, query: Query) -> Result<HttpResponse, ApiError> {
    let scope = query.one_of("scope", &[("project", ())])?;
    let path = query.given("path").map(|path| path.trim_matches('/').to_owned());
    let of_project = scope.is_some() || path.is_some();
    let filter = SessionFilter {
        project_id: if of_project { Some(identity(&server, &place).await?.project_id) } else { None },
        directory: (!of_project).then(|| place.text()),
        path,
        roots: query.flag("roots")?.unwrap_or(false),
        start: query.number("start", 0, LATEST)?,
        search: query.text("search").map(str::to_owned),
        limit: Some(query.number("limit", 0, u64::from(u32::MAX))?.unwrap_or(LISTED) as u32),
    };
    Ok(HttpResponse::Ok().json(server.runtime.store.sessions(&filter).await?))
}

async fn create(
    server: web::Data<Server>,
    place: Place,
    body: Result<Json<CreateSession>, ApiError>,
) -> Result<web::Json<Session>, ApiError> {
    let body = body.map_err(ApiError::tagged)?;
    Ok(web::Json(server.runtime.create(&place.0, body.0).await?))
}

/// Tells what the sessions of a directory are doing; idle ones are left out.
async fn status(server: web::Data<Server>, place: Place) -> web::Json<IndexMap<SessionId, SessionStatus>> {
    let directory = place.text();
    let busy = server.runtime.directory.busy().into_iter();
    web::Json(busy.filter(|(.., at)| **at == *directory).map(|(id, status, _)| (id, status)).collect())
}

async fn read(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<Session>, ApiError> {
    Ok(web::Json(known(&server, &ids::session(&id)?).await?))
}

async fn update(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<UpdateSession>,
) -> Result<web::Json<Session>, ApiError> {
    let id = ids::session(&id)?;
    let changed = server.runtime.ask(&id, |ticket| Update { body: body.0.clone(), ticket }).await?;
    Ok(web::Json(changed))
}

async fn delete(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<bool>, ApiError> {
    server.runtime.registry.send(DeleteSession(ids::session(&id)?)).await??;
    Ok(web::Json(true))
}

async fn children(server: web::Data<Server>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let id = ids::session(&id)?;
    known(&server, &id).await?;
    Ok(HttpResponse::Ok().json(server.runtime.store.children(&id).await?))
}

async fn todo(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<Vec<Todo>>, ApiError> {
    let id = ids::session(&id)?;
    known(&server, &id).await?;
    Ok(web::Json(server.runtime.store.todos(&id).await?))
}

/// Tells what a prompt's turn changed; without `messageID` what the session changed as a whole.
async fn changes(
    server: web::Data<Server>,
    id: web::Path<String>,
    query: Query,
) -> Result<web::Json<Vec<FileDiff>>, ApiError> {
    let id = ids::session(&id)?;
    let session = known(&server, &id).await?;
    let store = &server.runtime.store;
    if let Some(message) = query.text("messageID") {
        let message = ids::message(message)?;
        let found = store.message_info(&id, &message).await?;
        return match found {
            None => Err(ApiError::NotFound(format!("Message not found: {message}"))),
            Some(Message::User(user)) => Ok(web::Json(user.summary.map(|summary| summary.diffs).unwrap_or_default())),
            Some(Message::Assistant(_)) => Ok(web::Json(Vec::new())),
        };
    }
    // What was undone is no change.
    let undone = session.revert.map(|revert| revert.message_id);
    Ok(web::Json(diff::merge(store.turn_diffs(&id, undone.as_ref()).await?)))
}

/// The body of `POST /session/:id/fork`.
#[derive(Deserialize)]
struct ForkBody {
    /// The first message that is not copied; none: all are.
    #[serde(default, rename = "messageID")]
    message_id: Option<MessageId>,
}

async fn fork(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<ForkBody>,
) -> Result<web::Json<Session>, ApiError> {
    let id = ids::session(&id)?;
    let before = body.0.message_id;
    let copy = server.runtime.ask(&id, |ticket| Fork { before: before.clone(), ticket }).await?;
    Ok(web::Json(copy))
}

async fn abort(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<bool>, ApiError> {
    let id = ids::session(&id)?;
    if server.runtime.directory.session(&id).is_none() {
        known(&server, &id).await?;
    }
    server.runtime.registry.send(AbortSession { session_id: id, reason: StopReason::Asked }).await??;
    Ok(web::Json(true))
}
