//! Providers and their models; and logins, which nobody is ever shown.

use std::collections::HashMap;

use actix_web::http::header::ContentType;
use actix_web::{HttpResponse, web};
use actors::workspace::Setup;
use actors::workspace::auth::{self, Forgotten, Login};
use actors::workspace::catalogue::first_model;
use actors::workspace::models::ModelList;
use bytes::Bytes;
use futures::{StreamExt, stream};
use protocol::provider::Provider;
use serde::Deserialize;
use serde_json::{Value, json};

use super::get;
use super::settings::setup;
use crate::body::Json;
use crate::error::ApiError;
use crate::place::Place;
use crate::{Server, secrets};

/// Most providers of a long list that wait for the client to read them.
const PIECES: usize = 4;
/// What a login looks like.
const LOGIN: &str = "a login is {\"type\": \"api\", \"key\"}, {\"type\": \"oauth\", \"refresh\", \"access\", \"expires\"} \
                     or {\"type\": \"wellknown\", \"key\", \"token\"}";

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/config/providers", get().to(in_use))
        .route("/provider", get().to(all))
        .route("/provider/auth", get().to(methods))
        .route("/provider/{provider}/oauth/authorize", web::post().to(authorize))
        .route("/provider/{provider}/oauth/callback", web::post().to(callback))
        .route("/auth/{provider}", web::put().to(log_in))
        .route("/auth/{provider}", web::delete().to(log_out));
}

fn shown(provider: &Provider) -> Value {
    let mut shown = serde_json::to_value(provider).unwrap_or_default();
    secrets::hide_in_provider(&mut shown);
    shown
}

/// Tells the providers in use and the model each offers first.
async fn in_use(server: web::Data<Server>, place: Place) -> Result<web::Json<Value>, ApiError> {
    let setup = setup(&server, &place).await?;
    let providers: Vec<Value> = setup.catalogue.providers().map(shown).collect();
    Ok(web::Json(json!({ "providers": providers, "default": setup.catalogue.defaults() })))
}

/// Tells all providers that are known, and which of them are in use. The list is long: it is written off the arbiter,
/// one provider at a time, as fast as the client reads.
async fn all(server: web::Data<Server>, place: Place) -> Result<HttpResponse, ApiError> {
    let setup = setup(&server, &place).await?;
    let models = server.runtime.vendors.models.clone();
    let (written, mut pieces) = tokio::sync::mpsc::channel::<Bytes>(PIECES);
    server.runtime.io().spawn_blocking(move || {
        // It fails when the client has gone.
        let _ = write_all(&setup, &models.list(), |piece| written.blocking_send(piece.into()).is_ok());
    });
    let body = stream::poll_fn(move |cx| pieces.poll_recv(cx)).map(Ok::<_, ApiError>);
    Ok(HttpResponse::Ok().content_type(ContentType::json()).streaming(body))
}

/// Writes the answer in pieces, until `write` says that nobody reads.
fn write_all(setup: &Setup, list: &ModelList, mut write: impl FnMut(String) -> bool) -> Option<()> {
    let in_use = || setup.catalogue.providers();
    let mut default = setup.catalogue.defaults();
    let mut before = "{\"all\":[";
    let mut put = |provider: String| {
        let piece = format!("{before}{provider}");
        before = ",";
        write(piece).then_some(())
    };
    for provider in in_use() {
        put(shown(provider).to_string())?;
    }
    for provider in setup.catalogue.unused(setup.config(), list) {
        // Nothing in it is a person's.
        put(serde_json::to_string(&provider).ok()?)?;
        if let Some(first) = first_model(&provider.models) {
            default.insert(provider.id, first);
        }
    }
    let connected: Vec<&str> = in_use().map(|provider| provider.id.as_str()).collect();
    write(format!("],\"default\":{},\"connected\":{}}}", json!(default), json!(connected))).then_some(())
}

/// Tells how one may log in, by provider.
async fn methods() -> web::Json<Value> {
    web::Json(auth::methods())
}

#[derive(Deserialize)]
struct Authorize {
    /// Its place among the provider's methods.
    method: usize,
    #[serde(default)]
    inputs: HashMap<String, String>,
}

/// Begins a login, and tells where the person goes.
async fn authorize(
    server: web::Data<Server>,
    provider: web::Path<String>,
    Json(body): Json<Authorize>,
) -> Result<web::Json<Value>, ApiError> {
    let (logins, provider) = (server.runtime.vendors.logins.clone(), provider.into_inner());
    // It may leave a port open that waits for a browser: not on an arbiter.
    let begun = server.runtime.io().spawn(async move { logins.begin(&provider, body.method, &body.inputs).await });
    let begun = begun.await.map_err(|error| ApiError::Internal(error.to_string()))??;
    Ok(web::Json(json!({ "url": begun.url, "method": "auto", "instructions": begun.instructions })))
}

#[derive(Deserialize)]
struct Callback {
    #[serde(default, rename = "method")]
    _method: Option<usize>,
    /// What the vendor showed the person, where it couldn't come back by itself.
    #[serde(default)]
    code: Option<String>,
}

/// Waits until the person has logged in. That goes on though the client goes.
async fn callback(
    server: web::Data<Server>,
    provider: web::Path<String>,
    Json(body): Json<Callback>,
) -> Result<web::Json<bool>, ApiError> {
    let (logins, provider) = (server.runtime.vendors.logins.clone(), provider.into_inner());
    let done = server.runtime.io().spawn(async move { logins.finish(&provider, body.code.as_deref()).await });
    done.await.map_err(|error| ApiError::Internal(error.to_string()))??;
    Ok(web::Json(true))
}

/// Keeps a login.
async fn log_in(
    server: web::Data<Server>,
    provider: web::Path<String>,
    Json(body): Json<Value>,
) -> Result<web::Json<bool>, ApiError> {
    // What serde says would quote the key.
    let login: Login = serde_json::from_value(body).map_err(|_| ApiError::payload(LOGIN))?;
    server.runtime.vendors.logins.set(&provider, login).await?;
    Ok(web::Json(true))
}

/// Forgets a login.
async fn log_out(server: web::Data<Server>, provider: web::Path<String>) -> Result<web::Json<bool>, ApiError> {
    match server.runtime.vendors.logins.remove(&provider).await? {
        Forgotten::Gone | Forgotten::Nothing => Ok(web::Json(true)),
        Forgotten::KeptByOpenCode(path) => Err(ApiError::Conflict(format!(
            "the login of {provider} is OpenCode's own, in {}: log out there, or name it in `disabled_providers`",
            path.display()
        ))),
    }
}
