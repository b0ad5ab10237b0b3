//! What a directory is set up with: settings, providers, agents, commands, skills, tools.

use std::path::Path;
use std::sync::Arc;

use actix_web::web;
use actors::workspace::Setup;
use protocol::agent::Agent;
use protocol::command::Command;
use serde_json::{Value, json};
use storage::places::Environment;
use tools::format::FormatterStatus;
use tools::skill::Skill;

use super::get;
use crate::error::ApiError;
use crate::place::Place;
use crate::{Server, secrets};

/// Where the shape of the settings is described.
const SCHEMA: &str = "https://opencode.ai/config.json";
/// The order in which OpenCode lists its tools; others come after them.
const TOOL_ORDER: [&str; 14] = [
    "invalid",
    "question",
    "bash",
    "read",
    "glob",
    "grep",
    "edit",
    "write",
    "task",
    "webfetch",
    "todowrite",
    "websearch",
    "skill",
    "apply_patch",
];

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/config", get().to(config))
        .route("/global/config", get().to(global_config))
        .route("/agent", get().to(agents))
        .route("/command", get().to(commands))
        .route("/skill", get().to(skills))
        .route("/experimental/tool/ids", get().to(tool_ids))
        // Filled by their clients, of which there are none yet.
        .route("/mcp", get().to(nothing))
        .route("/lsp", get().to(none))
        .route("/formatter", get().to(formatters));
}

/// Returns what a directory is set up with.
pub(super) async fn setup(server: &Server, place: &Place) -> Result<Arc<Setup>, ApiError> {
    Ok(server.runtime.setup(&place.0).await?)
}

/// Tells the settings of a directory, all files merged, secrets hidden.
async fn config(server: web::Data<Server>, place: Place) -> Result<web::Json<Value>, ApiError> {
    let setup = setup(&server, &place).await?;
    let mut shown = setup.settings.merged.clone();
    with_defaults(&mut shown, &server.runtime.environment);
    secrets::hide_in_settings(&mut shown);
    Ok(web::Json(shown))
}

/// Adds what clients read without asking whether it is there.
fn with_defaults(settings: &mut Value, environment: &Environment) {
    let Some(settings) = settings.as_object_mut() else { return };
    let user = environment.get("USER").or_else(|| environment.get("LOGNAME")).unwrap_or("unknown");
    let defaults = [
        ("$schema", json!(SCHEMA)),
        ("agent", json!({})),
        ("mode", json!({})),
        ("plugin", json!([])),
        ("username", json!(user)),
    ];
    for (key, value) in defaults {
        settings.entry(key).or_insert(value);
    }
}

/// Tells the settings that hold for all directories.
async fn global_config(server: web::Data<Server>) -> Result<web::Json<Value>, ApiError> {
    let places = server.runtime.places.clone();
    let home = places.home.to_string_lossy().into_owned();
    // The global files alone: no project's, and none that the environment names.
    let environment = Environment::from_iter([("HOME", home.as_str()), ("OPENCODE_DISABLE_PROJECT_CONFIG", "1")]);
    let load = move || storage::config::load(&places.config, Path::new("/"), &places, &environment);
    let loaded = tokio::task::spawn_blocking(load).await.map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut shown = loaded.map_err(|broken| ApiError::Config(broken.error.into()))?.merged;
    if let Some(settings) = shown.as_object_mut() {
        settings.entry("$schema").or_insert_with(|| json!(SCHEMA));
    }
    secrets::hide_in_settings(&mut shown);
    Ok(web::Json(shown))
}

async fn agents(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Arc<Agent>>>, ApiError> {
    Ok(web::Json(setup(&server, &place).await?.agents.values().cloned().collect()))
}

async fn commands(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Command>>, ApiError> {
    Ok(web::Json(setup(&server, &place).await?.commands.clone()))
}

async fn skills(server: web::Data<Server>, place: Place) -> Result<web::Json<Arc<Vec<Skill>>>, ApiError> {
    Ok(web::Json(setup(&server, &place).await?.skills.clone()))
}

async fn tool_ids(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<String>>, ApiError> {
    let setup = setup(&server, &place).await?;
    // The name under which calls are kept that fit no tool.
    let mut ids = vec!["invalid".to_owned()];
    ids.extend(setup.tools.iter().map(|tool| tool.id().to_owned()));
    ids.sort_by_key(|id| TOOL_ORDER.iter().position(|name| name == id).unwrap_or(TOOL_ORDER.len()));
    ids.dedup();
    Ok(web::Json(ids))
}

async fn formatters(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<FormatterStatus>>, ApiError> {
    let place = setup(&server, &place).await?.place.clone();
    let status = tokio::task::spawn_blocking(move || tools::format::status(&place)).await;
    Ok(web::Json(status.map_err(|error| ApiError::Internal(error.to_string()))?))
}

async fn nothing() -> web::Json<Value> {
    web::Json(json!({}))
}

async fn none() -> web::Json<Value> {
    web::Json(json!([]))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_clients_expect_is_there_and_what_is_set_stays() {
        let mut settings = json!({ "username": "ada", "agent": { "x": {} } });
        with_defaults(&mut settings, &Environment::from_iter([("USER", "bob")]));
        let wanted = json!({
            "$schema": SCHEMA, "agent": { "x": {} }, "mode": {}, "plugin": [], "username": "ada",
        });
        assert_eq!(settings, wanted);
    }
}
