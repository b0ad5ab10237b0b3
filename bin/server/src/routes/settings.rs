//! What a directory is set up with: settings, providers, agents, commands, skills, tools.

use std::sync::Arc;

use actix_web::web;
use actors::workspace::commands::with_offered;
use actors::workspace::languages::LanguageServerStatus;
use actors::workspace::{GetTools, Patience, Setup};
use protocol::agent::Agent;
use protocol::command::Command;
use protocol::skill::Skill;
use serde_json::{Value, json};
use storage::config::Settings;
use storage::config::change::{self, HIDDEN, SCHEMA, Target};
use storage::places::Environment;
use tools::format::FormatterStatus;

use super::get;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;
use crate::{Server, secrets};

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
        .route("/config", web::patch().to(change_config))
        .route("/global/config", get().to(global_config))
        .route("/global/config", web::patch().to(change_global_config))
        .route("/troupe/config", get().to(warnings))
        .route("/agent", get().to(agents))
        .route("/command", get().to(commands))
        .route("/skill", get().to(skills))
        .route("/experimental/tool/ids", get().to(tool_ids))
        .route("/lsp", get().to(language_servers))
        .route("/formatter", get().to(formatters));
}

/// Returns what a directory is set up with.
pub(super) async fn setup(server: &Server, place: &Place) -> Result<Arc<Setup>, ApiError> {
    Ok(server.runtime.setup(&place.0).await?)
}

/// Tells the settings of a directory, all files merged, secrets hidden.
async fn config(server: web::Data<Server>, place: Place) -> Result<web::Json<Value>, ApiError> {
    let setup = setup(&server, &place).await?;
    let mut shown = shown(&setup.settings);
    with_defaults(&mut shown, &server.runtime.environment);
    Ok(web::Json(shown))
}

fn shown(settings: &Settings) -> Value {
    let mut shown = settings.merged.clone();
    secrets::hide_in_settings(&mut shown);
    settings.secrets.hide_in(&mut shown, HIDDEN);
    shown
}

/// Changes the directory's own settings file. As on the wire it answers with the change, and tells clients to read
/// anew; running turns and streams go on.
async fn change_config(
    server: web::Data<Server>,
    place: Place,
    body: Json<Value>,
) -> Result<web::Json<Value>, ApiError> {
    checked(&body.0)?;
    let target = Target::Directory(place.0.clone());
    server.runtime.change_settings(&place.0, target, body.0.clone()).await?;
    let origin = setup(&server, &place).await.map(|setup| setup.origin.clone());
    server.runtime.disposed(vec![place.0.clone()], origin.ok());
    Ok(web::Json(body.0))
}

/// Changes the settings that hold for all directories, and answers with them.
async fn change_global_config(server: web::Data<Server>, body: Json<Value>) -> Result<web::Json<Value>, ApiError> {
    checked(&body.0)?;
    let at = server.runtime.places.config.clone();
    server.runtime.change_settings(&at, Target::Global, body.0).await?;
    server.runtime.all_disposed();
    global_config(server).await
}

fn checked(patch: &Value) -> Result<(), ApiError> {
    let problems = change::problems(patch);
    if problems.is_empty() { Ok(()) } else { Err(ApiError::payload(problems.join("\n"))) }
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
    let (places, environment) = (server.runtime.places.clone(), server.runtime.environment.clone());
    let load = move || storage::config::load_global(&places, &environment);
    let loaded = tokio::task::spawn_blocking(load).await.map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut shown = shown(&loaded.map_err(|broken| ApiError::Config(broken.error.into()))?);
    if let Some(settings) = shown.as_object_mut() {
        settings.entry("$schema").or_insert_with(|| json!(SCHEMA));
    }
    Ok(web::Json(shown))
}

/// Tells what is odd about the directory's settings: each line names a file, what is wrong in it, and what to do.
async fn warnings(server: web::Data<Server>, place: Place) -> Result<web::Json<Value>, ApiError> {
    Ok(web::Json(json!({ "warnings": setup(&server, &place).await?.warnings })))
}

async fn agents(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Value>>, ApiError> {
    let setup = setup(&server, &place).await?;
    let shown = |agent: &Arc<Agent>| {
        let mut shown = serde_json::to_value(agent).unwrap_or_default();
        // As on the wire: what the config could have said of an agent it names, and didn't, is null.
        if let Some(shown) = shown.as_object_mut().filter(|_| setup.config().agent.contains_key(&agent.name)) {
            for key in ["hidden", "topP", "temperature", "color", "variant", "steps"] {
                shown.entry(key).or_insert(Value::Null);
            }
        }
        shown
    };
    Ok(web::Json(setup.agents.values().map(shown).collect()))
}

async fn commands(server: web::Data<Server>, place: Place) -> Result<web::Json<Vec<Command>>, ApiError> {
    let setup = setup(&server, &place).await?;
    let workspace = server.runtime.workspace(&place.0).await?;
    let toolkit = workspace.send(GetTools { patience: Patience::Step }).await?;
    Ok(web::Json(with_offered(&setup.commands, &toolkit.commands)))
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

/// Tells the language servers of a directory that run, or did. None is started for it.
async fn language_servers(server: web::Data<Server>, place: Place) -> Result<web::Json<Value>, ApiError> {
    let workspace = server.runtime.workspace(&place.0).await?;
    let status = workspace.send(LanguageServerStatus).await.unwrap_or_default();
    Ok(web::Json(serde_json::to_value(status).unwrap_or_default()))
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
