//! The other half: tools of our own, offered to another agent over a pair of streams.

use std::future::Future;
use std::sync::Arc;

use protocol::JsonMap;
use protocol::model::ToolSpec;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, ServerHandler};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Tools that are offered.
pub trait Toolset: Send + Sync + 'static {
    /// Returns them, in the order they are listed.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Returns what agents are told about all of them.
    fn instructions(&self) -> &str;

    /// Runs one. The result is a JSON object; an error is for the caller's model. `cancel` is cancelled when the caller
    /// no longer waits.
    fn call(
        &self,
        tool: &str,
        arguments: JsonMap,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Value, String>> + Send;
}

/// Why nothing more is offered.
#[derive(Debug, thiserror::Error)]
#[error("the client does not speak MCP: {0}")]
pub struct ServeError(String);

/// Offers tools over a pair of streams until the client hangs up, or the future is dropped. Must be called within a
/// tokio runtime.
pub async fn serve<T: Toolset>(
    toolset: Arc<T>,
    version: &str,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let server = Server { toolset, version: version.to_owned() };
    let transport = AsyncRwTransport::<RoleServer, _, _>::new(input, output);
    match server.serve(transport).await {
        Ok(running) => {
            // A panic of the SDK's loop ends it as well.
            let _ = running.waiting().await;
            Ok(())
        }
        // It hung up before it said anything: `troupe mcp serve </dev/null`.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(ServeError(error.to_string())),
    }
}

struct Server<T> {
    toolset: Arc<T>,
    version: String,
}

impl<T: Toolset> ServerHandler for Server<T> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("troupe", &self.version))
            .with_instructions(self.toolset.instructions())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |spec: ToolSpec| {
            let schema = match spec.parameters {
                Value::Object(schema) => schema,
                _ => JsonMap::new(),
            };
            Tool::new(spec.name, spec.description, Arc::new(schema))
        };
        Ok(ListToolsResult::with_all_items(self.toolset.tools().into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.toolset.tools().iter().any(|spec| spec.name == request.name) {
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}", request.name), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let result = match self.toolset.call(&request.name, arguments, context.ct.clone()).await {
            // The same as text, for clients that read no structures.
            Ok(value) => {
                let text = serde_json::to_string_pretty(&value).unwrap_or_default();
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = value.is_object().then_some(value);
                result
            }
            Err(said) => CallToolResult::error(vec![ContentBlock::text(said)]),
        };
        Ok(result.into())
    }
}
