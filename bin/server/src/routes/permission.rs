//! Permission requests that wait for a person, and what people allowed for good.

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use actors::permission_broker::{ListApprovals, ListWaiting, RemoveApproval, ReplyPermission};
use protocol::permission::{PermissionRequest, Reply, ReplyBody, Scope};
use serde::Deserialize;
use serde_json::{Value, json};
use storage::journal::Approval;

use super::get;
use super::session::known;
use crate::body::Json;
use crate::error::{ApiError, Asked};
use crate::place::Place;
use crate::query::Query;
use crate::{Server, ids};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/permission", get().to(list))
        .route("/permission/{id}/reply", web::post().to(reply))
        .route("/session/{session}/permissions/{id}", web::post().to(respond))
        .route("/api/permission/saved", get().to(saved))
        .route("/api/permission/saved/{id}", web::delete().to(forget));
}

async fn list(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Arc<PermissionRequest>>>, ApiError> {
    let directory = place.text();
    let waiting = server.runtime.broker.send(ListWaiting).await?.permissions.into_iter();
    Ok(web::Json(waiting.filter(|(_, at)| at.directory == directory).map(|(request, _)| request).collect()))
}

async fn reply(
    server: web::Data<Server>,
    id: web::Path<String>,
    body: Json<ReplyBody>,
) -> Result<web::Json<bool>, ApiError> {
    let ReplyBody { reply, message, scope } = body.0;
    let id = ids::permission(&id)?.to_string();
    answer(&server, ReplyPermission { id, reply, message, scope: scope.unwrap_or_default() }).await
}

/// The body of the older route.
#[derive(Deserialize)]
struct Response {
    response: Reply,
}

async fn respond(
    server: web::Data<Server>,
    path: web::Path<(String, String)>,
    body: Json<Response>,
) -> Result<web::Json<bool>, ApiError> {
    let (session, id) = (ids::session(&path.0)?, ids::permission(&path.1)?.to_string());
    known(&server, &session).await?;
    answer(&server, ReplyPermission { id, reply: body.0.response, message: None, scope: Scope::Session }).await
}

async fn answer(server: &Server, reply: ReplyPermission) -> Result<web::Json<bool>, ApiError> {
    server.runtime.broker.send(reply).await?.map_err(|error| Asked::Permission.error(error))?;
    Ok(web::Json(true))
}

/// Lists what people allowed for good; with `projectID` in that project.
async fn saved(server: web::Data<Server>, query: Query) -> Result<web::Json<Value>, ApiError> {
    let project = query.text("projectID");
    let approvals = server.runtime.broker.send(ListApprovals).await?.into_iter();
    let wanted = approvals.filter(|approval| project.is_none_or(|project| approval.project_id == project));
    Ok(web::Json(json!({ "data": wanted.map(shown).collect::<Vec<Value>>() })))
}

fn shown(approval: Approval) -> Value {
    let mut shown = json!({
        "id": approval.id,
        "scope": approval.scope,
        "projectID": approval.project_id,
        "action": approval.rule.permission,
        "resource": approval.rule.pattern,
        "origin": { "sessionID": approval.session_id, "agent": approval.agent },
        "time": { "created": approval.time },
    });
    if approval.scope == Scope::Session {
        shown["sessionID"] = json!(approval.session_id);
    }
    shown
}

async fn forget(server: web::Data<Server>, id: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let id = id.into_inner();
    if server.runtime.broker.send(RemoveApproval(id.clone())).await?? {
        Ok(HttpResponse::NoContent().finish())
    } else {
        Err(ApiError::NotFound(format!("Saved permission not found: {id}")))
    }
}
