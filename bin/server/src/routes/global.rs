//! The server as a whole: its health, its log, a directory's settings read anew.

use std::sync::Arc;

use actix_web::web;
use protocol::Event;
use protocol::prompt::{LogBody, LogLevel};
use serde_json::{Value, json};
use storage::{Change, Origin, Record};

use super::get;
use super::project::identity;
use crate::Server;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;

/// Most characters of a client's log line, and of the data with it.
const LOG_LINE: usize = 8_000;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/global/health", get().to(health))
        .route("/log", web::post().to(log))
        .route("/instance/dispose", web::post().to(dispose));
}

async fn health(server: web::Data<Server>) -> web::Json<Value> {
    web::Json(json!({ "healthy": true, "version": &*server.runtime.version }))
}

/// Writes a client's line to the server's log.
async fn log(body: Json<LogBody>) -> web::Json<bool> {
    let LogBody { service, level, message, extra } = body.0;
    let (service, text) = (cut(&service), cut(&message));
    let extra = extra.map(|extra| cut(&extra.to_string())).unwrap_or_default();
    match level {
        LogLevel::Debug => tracing::debug!(service, text, extra, "a client says"),
        LogLevel::Info => tracing::info!(service, text, extra, "a client says"),
        LogLevel::Warn => tracing::warn!(service, text, extra, "a client says"),
        LogLevel::Error => tracing::error!(service, text, extra, "a client says"),
    }
    web::Json(true)
}

fn cut(text: &str) -> String {
    text.chars().take(LOG_LINE).collect()
}

/// Tells clients to read a directory's settings again. The server itself reads them again by itself when a file has
/// changed, so nothing is thrown away and no stream is closed.
async fn dispose(server: web::Data<Server>, place: Place) -> Result<web::Json<bool>, ApiError> {
    let directory = place.text();
    let project = identity(&server, &place).await?.project_id;
    let origin = Arc::new(Origin { directory: directory.clone(), project });
    let changes = vec![Change::Notice(Event::InstanceDisposed { directory })];
    server.runtime.journal.record(Record { fence: None, origin, changes, room: None }).await?;
    Ok(web::Json(true))
}
