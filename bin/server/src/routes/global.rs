//! The server as a whole: its health, and the events of all directories.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};

use crate::Server;
use crate::events::{Scope, stream};
use crate::place::Place;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/global/health", web::get().to(health))
        .route("/global/event", web::get().to(global_events))
        .route("/event", web::get().to(events));
}

async fn health(server: web::Data<Server>) -> web::Json<Value> {
    web::Json(json!({ "healthy": true, "version": &*server.runtime.version }))
}

async fn global_events(server: web::Data<Server>, request: HttpRequest) -> HttpResponse {
    stream(server, Scope::Everything, &request)
}

async fn events(server: web::Data<Server>, place: Place, request: HttpRequest) -> HttpResponse {
    let directory = place.0.to_string_lossy().into_owned();
    stream(server, Scope::Directory(directory), &request)
}
