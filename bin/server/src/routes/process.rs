//! What a session's commands left running: a development server, a watcher.
//!
//! OpenCode has no such routes; the shape follows its terminals (`/pty`).

use actix_web::web;
use actors::session::StopProcess;
use protocol::SessionId;
use serde::Serialize;
use tools::process::{BackgroundId, BackgroundProcess, Excerpt};

use super::get;
use super::session::known;
use crate::error::ApiError;
use crate::query::Query;
use crate::{Server, ids};

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/session/{session}/process", get().to(list))
        .route("/session/{session}/process/{process}", get().to(read))
        .route("/session/{session}/process/{process}", web::delete().to(stop));
}

/// A process as clients are told of it. It is listed as long as it runs.
#[derive(Serialize)]
struct Process {
    id: String,
    /// The command that left it running.
    command: String,
    cwd: String,
    status: &'static str,
    /// Its process group.
    pid: i32,
    time: Time,
}

#[derive(Serialize)]
struct Time {
    /// When the command started, in ms since the Unix epoch.
    created: u64,
}

impl From<BackgroundProcess> for Process {
    fn from(BackgroundProcess { id, group, left }: BackgroundProcess) -> Self {
        Self {
            id: id.to_string(),
            command: left.command,
            cwd: left.directory.to_string_lossy().into_owned(),
            status: "running",
            pid: group.0,
            time: Time { created: left.started_ms },
        }
    }
}

/// A process and what it printed: the newest 64 KB, or what came from the place `from` on.
#[derive(Serialize)]
struct WithOutput {
    #[serde(flatten)]
    process: Process,
    output: String,
    /// Where `output` begins, in bytes.
    start: u64,
    /// Where it ends: the next `from`.
    end: u64,
}

async fn list(server: web::Data<Server>, id: web::Path<String>) -> Result<web::Json<Vec<Process>>, ApiError> {
    let id = ids::session(&id)?;
    known(&server, &id).await?;
    Ok(web::Json(server.runtime.processes.background(&id).into_iter().map(Process::from).collect()))
}

async fn read(
    server: web::Data<Server>,
    path: web::Path<(String, String)>,
    query: Query,
) -> Result<web::Json<WithOutput>, ApiError> {
    let (session, id) = place(&server, &path).await?;
    let from = query.number("from", 0, u64::MAX)?.unwrap_or_default();
    let processes = &server.runtime.processes;
    let listed = processes.background(&session).into_iter().find(|process| process.id == id);
    let (Some(process), Some(output)) = (listed, processes.background_output(&session, id, from)) else {
        return Err(missing(&path.1));
    };
    let Excerpt { text, start, end } = output;
    Ok(web::Json(WithOutput { process: process.into(), output: text, start, end }))
}

/// Ends a process with all that came from it; answered when it is gone.
async fn stop(server: web::Data<Server>, path: web::Path<(String, String)>) -> Result<web::Json<bool>, ApiError> {
    let (session, id) = place(&server, &path).await?;
    match server.runtime.ask(&session, |ticket| StopProcess { id, ticket }).await? {
        true => Ok(web::Json(true)),
        false => Err(missing(&path.1)),
    }
}

async fn place(server: &Server, path: &(String, String)) -> Result<(SessionId, BackgroundId), ApiError> {
    let session = ids::session(&path.0)?;
    known(server, &session).await?;
    BackgroundId::parse(&path.1).map(|id| (session, id)).ok_or_else(|| missing(&path.1))
}

fn missing(id: &str) -> ApiError {
    ApiError::NotFound(format!("Process not found: {id}"))
}
