//! What the runtime tells of itself; Troupe's own routes.

use std::fmt::Write;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use actors::bus::CountListeners;
use actors::permission_broker::ListWaiting;
use actors::session_registry::GetReport;
use serde_json::{Value, json};

use super::get;
use crate::Server;
use crate::error::ApiError;

/// Adds the routes.
pub fn configure(app: &mut web::ServiceConfig) {
    app.route("/troupe/supervision", get().to(supervision)).route("/metrics", get().to(metrics));
}

/// Tells what crashed and was started again; and, in builds that have them, the points where faults can be set.
async fn supervision(server: web::Data<Server>) -> Result<web::Json<Value>, ApiError> {
    let runtime = &server.runtime;
    let report = runtime.registry.send(GetReport).await?;
    let mut shown = serde_json::to_value(report).map_err(|error| ApiError::Internal(error.to_string()))?;
    shown["subscribers"] = json!(runtime.bus.send(CountListeners).await?);
    let points = runtime.faults.points();
    if !points.is_empty() {
        shown["faults"] = json!(points);
    }
    Ok(web::Json(shown))
}

/// Tells the state of the runtime as Prometheus text.
async fn metrics(server: web::Data<Server>) -> Result<HttpResponse, ApiError> {
    let runtime = &server.runtime;
    let report = runtime.registry.send(GetReport).await?;
    let waiting = runtime.broker.send(ListWaiting).await?;
    let commits = runtime.journal.commits();
    let micros = |time: Duration| time.as_micros() as u64;
    let figures = [
        Figure::gauge("event_subscribers", "Open event streams.", runtime.bus.send(CountListeners).await?),
        Figure::gauge("sessions_live", "Sessions in memory.", report.sessions),
        Figure::gauge("sessions_busy", "Sessions that run a turn.", runtime.directory.busy().len()),
        Figure::gauge("workspaces", "Directories in use.", report.workspaces),
        Figure::gauge("permissions_waiting", "Permission requests that wait.", waiting.permissions.len()),
        Figure::gauge("questions_waiting", "Questions that wait.", waiting.questions.len()),
        Figure::gauge("event_log_row", "Newest row of the durable event log.", runtime.store.newest_row().await?),
        Figure::counter("journal_commits_total", "Transactions committed.", commits.count),
        Figure::counter("journal_commands_total", "Commands in them.", commits.commands),
        Figure::counter("journal_commit_microseconds_total", "Time they took together.", micros(commits.took)),
        Figure::gauge("journal_commit_slowest_microseconds", "The slowest of them.", micros(commits.slowest)),
        Figure::gauge("mcp_connections", "MCP servers that are connected.", runtime.mcp.figures.connections()),
        Figure::counter("mcp_starts_total", "Starts of MCP servers.", runtime.mcp.figures.starts()),
        Figure::counter("mcp_junk_total", "Output of MCP servers that is no message.", runtime.mcp.figures.junk()),
        Figure::counter("actor_restarts_total", "Actors that crashed and were started again.", report.restarts),
    ];
    let text: String = figures.iter().map(Figure::text).collect();
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text))
}

struct Figure {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    value: u64,
}

impl Figure {
    fn gauge(name: &'static str, help: &'static str, value: impl TryInto<u64>) -> Self {
        Self { name, help, kind: "gauge", value: value.try_into().unwrap_or(u64::MAX) }
    }

    fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, kind: "counter", value }
    }

    fn text(&self) -> String {
        let Self { name, help, kind, value } = self;
        let mut text = String::new();
        // Writing to a string has no errors.
        let _ = writeln!(text, "# HELP troupe_{name} {help}\n# TYPE troupe_{name} {kind}\ntroupe_{name} {value}");
        text
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_figure_is_three_lines() {
        let text = Figure::gauge("event_subscribers", "Open event streams.", 3_usize).text();
        let wanted = "# HELP troupe_event_subscribers Open event streams.\n# TYPE troupe_event_subscribers gauge\ntroupe_event_subscribers 3\n";
        assert_eq!(text, wanted);
    }
}
