//! Sessions.

use actix_web::web;
use protocol::session::CreateSession;
use protocol::{Session, SessionId};
use storage::store::SessionFilter;

use crate::Server;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/session", web::post().to(create)).route("/session/{id}/abort", web::post().to(abort));
}

async fn create(server: web::Data<Server>, place: Place, body: Json<CreateSession>) -> Result<web::Json<Session>, ApiError> {
    let _ = SessionFilter::default();
    Ok(web::Json(server.runtime.create(&place.0, body.0).await?))
}

async fn abort(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<bool>, ApiError> {
    let id = session_id(&id)?;
    let abort = actors::session_registry::AbortSession(id);
    server.runtime.registry.send(abort).await??;
    Ok(web::Json(true))
}

/// Reads a session's id from a path.
pub fn session_id(text: &str) -> Result<SessionId, ApiError> {
    SessionId::parse(text).map_err(|error| ApiError::params(error.to_string()))
}
