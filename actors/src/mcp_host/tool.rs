//! A tool of a server, as sessions call it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcp::schema::Accepted;
use mcp::{CallError, Connection, Status};
use protocol::JsonMap;
use protocol::model::ToolSpec;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::{AnyTool, Ask, ToolContext, ToolError, ToolOutput, Traits};

use super::server::Condition;

/// How long a call waits for a server that is being started again.
const COMES_BACK: Duration = Duration::from_secs(15);

/// The way to a server, through all its lives.
#[derive(Clone)]
pub struct Line {
    /// Its name in the config.
    pub server: Arc<str>,
    /// How it is.
    pub condition: watch::Receiver<Condition>,
}

impl Line {
    /// Returns the connection; waits a while for one that is being made.
    pub async fn connection(&self, cancel: &CancellationToken) -> Result<Connection, ToolError> {
        let mut condition = self.condition.clone();
        let is_settled =
            |condition: &Condition| condition.connection.is_some() || condition.status != Status::Connecting;
        let settled = tokio::select! {
            () = cancel.cancelled() => return Err(ToolError::Aborted),
            settled = tokio::time::timeout(COMES_BACK, condition.wait_for(is_settled)) => settled,
        };
        let found = match settled {
            Ok(Ok(condition)) => condition.connection.clone().ok_or_else(|| condition.status.clone()),
            Ok(Err(_)) => Err(Status::Disabled),
            Err(_) => Err(Status::Connecting),
        };
        found.map_err(|status| ToolError::failed(format!("The MCP server {} {}.", self.server, absent(&status))))
    }
}

fn absent(status: &Status) -> String {
    match status {
        Status::Connected | Status::Connecting => "is being started and not ready yet; try again later".into(),
        Status::Disabled => "was switched off; the call was not made".into(),
        Status::Failed { error } => format!("can't be used: {error}"),
        Status::NeedsAuth | Status::NeedsClientRegistration { .. } => {
            "wants a login; a person has to run `troupe mcp auth`".into()
        }
    }
}

/// A tool of a server.
pub struct McpTool {
    /// Its name for models and rules.
    pub id: String,
    /// The server's own name for it.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// What the server demands, as vendors take it.
    pub accepted: Accepted,
    /// How long nothing may be heard of a call; none: the executor's limit holds.
    pub silence: Option<Duration>,
    /// The way to the server.
    pub line: Line,
}

impl McpTool {
    async fn call(&self, input: JsonMap, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        cx.ask(Ask::new(&self.id, vec!["*".into()], vec!["*".into()], JsonMap::new())).await?;
        let connection = self.line.connection(&cx.cancel).await?;
        // What a server does is not known: nothing of it may be done twice.
        let _begun = cx.begin().await?;
        let arguments = self.accepted.arguments(input);
        let result = connection.call(&self.name, arguments, cx.desk.clone(), self.silence, &cx.cancel).await;
        let result = result.map_err(|error| match error {
            CallError::Cancelled => ToolError::Aborted,
            other => ToolError::failed(other.to_string()),
        })?;
        let shaped = mcp::result::shape(&result).map_err(ToolError::failed)?;
        Ok(ToolOutput { attachments: shaped.attachments, ..ToolOutput::new("", shaped.text, json!({})) })
    }
}

impl AnyTool for McpTool {
    fn id(&self) -> &str {
        &self.id
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.id.clone(),
            description: self.description.clone(),
            parameters: self.accepted.schema.clone(),
        }
    }

    /// It may do anything.
    fn traits(&self) -> Traits {
        Traits::writing("mcp")
    }

    fn bounds_itself(&self) -> bool {
        self.silence.is_some()
    }

    fn permission(&self) -> &str {
        &self.id
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        self.call(input, cx).boxed()
    }
}
