//! Projects, places, and what git says of them.

use actix_web::{HttpResponse, web};
use actors::session::CommandError;
use protocol::project::{Places, Project, ProjectTime, VcsInfo};
use serde_json::{Value, json};
use storage::project::Identity;

use super::get;
use crate::error::ApiError;
use crate::place::Place;
use crate::{Server, changes};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/path", get().to(places))
        .route("/project", get().to(list))
        .route("/project/current", get().to(current))
        .route("/vcs", get().to(branches))
        .route("/vcs/status", get().to(status));
}

/// Returns which project a directory belongs to; also where its settings are broken, which have no say in that.
pub async fn identity(server: &Server, place: &Place) -> Result<Identity, ApiError> {
    match server.runtime.setup(&place.0).await {
        Ok(setup) => Ok(setup.identity.clone()),
        Err(CommandError::Setup(_)) => Ok(storage::project::identify(&place.0).await),
        Err(error) => Err(error.into()),
    }
}

async fn places(server: web::Data<Server>, place: Place) -> Result<web::Json<Places>, ApiError> {
    let identity = identity(&server, &place).await?;
    let places = &server.runtime.places;
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    Ok(web::Json(Places {
        home: text(&places.home),
        state: text(&places.state),
        config: text(&places.config),
        worktree: text(&identity.worktree),
        directory: place.text(),
    }))
}

async fn list(server: web::Data<Server>) -> Result<HttpResponse, ApiError> {
    Ok(HttpResponse::Ok().json(server.runtime.store.projects().await?))
}

async fn current(server: web::Data<Server>, place: Place) -> Result<web::Json<Project>, ApiError> {
    let identity = identity(&server, &place).await?;
    if let Some(project) = server.runtime.store.project(&identity.project_id).await? {
        return Ok(web::Json(project));
    }
    // Used for the first time: it is on its way to the database.
    let now = server.runtime.clock.now_ms();
    Ok(web::Json(Project {
        id: identity.project_id,
        worktree: identity.worktree.to_string_lossy().into_owned(),
        vcs: identity.is_repository.then(|| "git".into()),
        name: None,
        time: ProjectTime { created: now, updated: now, initialized: None },
        sandboxes: Vec::new(),
    }))
}

async fn branches(server: web::Data<Server>, place: Place) -> Result<web::Json<VcsInfo>, ApiError> {
    let identity = identity(&server, &place).await?;
    if !identity.is_repository {
        return Ok(web::Json(VcsInfo::default()));
    }
    Ok(web::Json(storage::project::branches(&identity.worktree).await))
}

async fn status(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Value>>, ApiError> {
    let identity = identity(&server, &place).await?;
    if !identity.is_repository {
        return Ok(web::Json(Vec::new()));
    }
    let changed = changes::since_commit(&identity.worktree).await?.into_iter();
    let shown = changed.map(
        |file| json!({ "file": file.path, "additions": file.added, "deletions": file.removed, "status": file.status }),
    );
    Ok(web::Json(shown.collect()))
}
