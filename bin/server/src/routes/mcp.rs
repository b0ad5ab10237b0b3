//! MCP servers: how they are, switching them, logging in at them.

use actix_web::web::{self, Path};
use actors::mcp_host::reading::{ListResources, ListedResource};
use actors::mcp_host::{
    AddServer, Authenticate, BeginLogin, Connect, Disconnect, FinishLogin, Forget, GetServers, McpHost, ServerReport,
    Status,
};
use actors::workspace::Patience;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::get;
use crate::Server;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/mcp", get().to(statuses))
        .route("/mcp", web::post().to(add))
        .route("/mcp/{name}/connect", web::post().to(connect))
        .route("/mcp/{name}/disconnect", web::post().to(disconnect))
        .route("/mcp/{name}/auth", web::post().to(begin_login))
        .route("/mcp/{name}/auth", web::delete().to(forget_login))
        .route("/mcp/{name}/auth/callback", web::post().to(finish_login))
        .route("/mcp/{name}/auth/authenticate", web::post().to(authenticate))
        .route("/experimental/resource", get().to(resources))
        .route("/troupe/mcp", get().to(reports));
}

type Statuses = web::Json<IndexMap<String, Status>>;

async fn host(server: &Server, place: &Place) -> Result<actix::Addr<McpHost>, ApiError> {
    Ok(server.runtime.mcp_host(&place.0).await?)
}

async fn known(server: &Server, place: &Place, patience: Patience) -> Result<Vec<ServerReport>, ApiError> {
    Ok(host(server, place).await?.send(GetServers { patience }).await?)
}

async fn statuses(server: web::Data<Server>, place: Place) -> Result<Statuses, ApiError> {
    let known = known(&server, &place, Patience::Step).await?;
    Ok(web::Json(known.into_iter().map(|server| (server.name, server.status)).collect()))
}

/// Tells also what servers' tools are called here, and how often they were started. Troupe's own.
async fn reports(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<ServerReport>>, ApiError> {
    Ok(web::Json(known(&server, &place, Patience::Step).await?))
}

/// Lists what can be given along with a prompt.
async fn resources(
    server: web::Data<Server>,
    place: Place,
) -> Result<web::Json<IndexMap<String, ListedResource>>, ApiError> {
    Ok(web::Json(host(&server, &place).await?.send(ListResources).await?))
}

#[derive(Deserialize)]
struct Addition {
    name: String,
    config: Value,
}

async fn add(server: web::Data<Server>, place: Place, body: Json<Addition>) -> Result<Statuses, ApiError> {
    let Json(Addition { name, config }) = body;
    host(&server, &place).await?.send(AddServer { name, entry: config }).await??;
    statuses(server, place).await
}

async fn connect(server: web::Data<Server>, place: Place, name: Path<String>) -> Result<web::Json<bool>, ApiError> {
    host(&server, &place).await?.send(Connect(name.into_inner())).await??;
    Ok(web::Json(true))
}

async fn disconnect(server: web::Data<Server>, place: Place, name: Path<String>) -> Result<web::Json<bool>, ApiError> {
    host(&server, &place).await?.send(Disconnect(name.into_inner())).await??;
    Ok(web::Json(true))
}

async fn begin_login(
    server: web::Data<Server>,
    place: Place,
    name: Path<String>,
) -> Result<web::Json<Value>, ApiError> {
    let begun = host(&server, &place).await?.send(BeginLogin(name.into_inner())).await??;
    Ok(web::Json(json!({ "authorizationUrl": begun.authorization_url, "oauthState": begun.state })))
}

async fn forget_login(
    server: web::Data<Server>,
    place: Place,
    name: Path<String>,
) -> Result<web::Json<Value>, ApiError> {
    host(&server, &place).await?.send(Forget(name.into_inner())).await??;
    Ok(web::Json(json!({ "success": true })))
}

#[derive(Deserialize)]
struct Callback {
    code: String,
    /// Checked where it is given.
    state: Option<String>,
}

async fn finish_login(
    server: web::Data<Server>,
    place: Place,
    name: Path<String>,
    body: Json<Callback>,
) -> Result<web::Json<Status>, ApiError> {
    let Json(Callback { code, state }) = body;
    let finish = FinishLogin { name: name.into_inner(), code, state };
    Ok(web::Json(host(&server, &place).await?.send(finish).await??))
}

async fn authenticate(
    server: web::Data<Server>,
    place: Place,
    name: Path<String>,
) -> Result<web::Json<Status>, ApiError> {
    Ok(web::Json(host(&server, &place).await?.send(Authenticate(name.into_inner())).await??))
}
