//! A tool of a module: its calls run in the sidecar.

use std::time::Duration;

use futures::future::BoxFuture;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use protocol::part::FilePart;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tools::{AnyTool, Ask, Progress, ToolContext, ToolError, ToolOutput, Traits};

use crate::plugins::Plugins;
use crate::sidecar::{FromCall, Request, RequestError, Sidecar, ToolDefinition};

/// How long a call waits for a sidecar that is being started.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an aborted call has to end by itself.
const GRACE: Duration = Duration::from_millis(400);
/// Signs of a call that wait to be taken.
const QUEUE: usize = 64;

/// What a custom tool does to the world is not known, so: everything. Its permission is its name.
pub(crate) const TRAITS: Traits = Traits::writing("custom");

/// A tool of a module.
pub(crate) struct ModuleTool {
    definition: ToolDefinition,
    plugins: Plugins,
}

impl ModuleTool {
    pub fn new(definition: ToolDefinition, plugins: Plugins) -> Self {
        Self { definition, plugins }
    }
}

/// Asks for the permission to use a custom tool: its own name.
pub(crate) async fn ask(id: &str, input: &JsonMap, cx: &ToolContext) -> Result<(), ToolError> {
    let anything = || vec!["*".to_owned()];
    let metadata = JsonMap::from_iter([("input".to_owned(), Value::Object(input.clone()))]);
    cx.ask(Ask::new(id, anything(), anything(), metadata)).await
}

impl AnyTool for ModuleTool {
    fn id(&self) -> &str {
        &self.definition.id
    }

    fn spec(&self) -> ToolSpec {
        let ToolDefinition { id, description, parameters, .. } = self.definition.clone();
        ToolSpec { name: id, description, parameters }
    }

    fn traits(&self) -> Traits {
        TRAITS
    }

    fn permission(&self) -> &str {
        &self.definition.id
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            ask(&self.definition.id, &input, cx).await?;
            let gone = |why| ToolError::failed(format!("The tool {} can't be run now: {why}", self.definition.id));
            let sidecar = self.plugins.sidecar_within(PATIENCE).await.map_err(gone)?;
            cx.begin().await?;
            let params = json!({
                "tool": self.definition.id,
                "args": input,
                "context": {
                    "sessionID": cx.session_id,
                    "messageID": cx.message_id,
                    "callID": cx.call_id,
                    "agent": cx.agent,
                },
            });
            let (line, said) = mpsc::channel(QUEUE);
            let failed =
                |error: RequestError| ToolError::failed(format!("The tool {} failed: {error}", self.definition.id));
            let request = sidecar.call(params, line).await.map_err(failed)?;
            let answer = follow(request, said, &sidecar, cx).await;
            let value = answer?.map_err(failed)?;
            output_of(&self.definition.id, value)
        })
    }
}

/// Waits for the answer of a call, and answers what it asks meanwhile.
async fn follow(
    mut request: Request,
    mut said: mpsc::Receiver<FromCall>,
    sidecar: &Sidecar,
    cx: &ToolContext,
) -> Result<Result<Value, RequestError>, ToolError> {
    loop {
        tokio::select! {
            // What it said before its answer comes first.
            biased;
            () = cx.cancel.cancelled() => {
                request.cancel();
                return match tokio::time::timeout(GRACE, request.wait()).await {
                    Ok(Ok(value)) => Ok(Ok(value)),
                    _ => Err(ToolError::Aborted),
                };
            }
            Some(said) = said.recv() => match said {
                FromCall::Progress { title, metadata } => {
                    let metadata = match metadata {
                        Some(Value::Object(map)) => map,
                        _ => JsonMap::new(),
                    };
                    cx.desk.progress(Progress { title, metadata });
                }
                FromCall::Ask { id, request } => match ask_of(request) {
                    Ok(ask) => {
                        let verdict = cx.ask(ask).await;
                        sidecar.reply(&id, verdict.as_ref().copied().map_err(ToString::to_string)).await;
                        if let Err(error @ ToolError::Refused(_)) = verdict
                            && matches!(&error, ToolError::Refused(refusal) if refusal.stops_turn())
                        {
                            // The tool may catch it; the person's word counts all the same.
                            return Err(error);
                        }
                    }
                    Err(problem) => sidecar.reply(&id, Err(problem)).await,
                },
            },
            answer = request.wait() => return Ok(answer),
        }
    }
}

fn ask_of(request: Value) -> Result<Ask, String> {
    #[derive(Deserialize)]
    struct Request {
        permission: String,
        #[serde(default)]
        patterns: Vec<String>,
        #[serde(default)]
        always: Vec<String>,
        #[serde(default)]
        metadata: JsonMap,
    }
    let Request { permission, mut patterns, always, metadata } =
        serde_json::from_value(request).map_err(|e| format!("ask() was given something else than a request: {e}"))?;
    if patterns.is_empty() {
        patterns.push("*".to_owned());
    }
    Ok(Ask::new(permission, patterns, always, metadata))
}

/// What a custom tool gives: a text, or more.
#[derive(Deserialize)]
pub(crate) struct Output {
    #[serde(default)]
    title: Option<String>,
    output: String,
    #[serde(default)]
    metadata: Option<JsonMap>,
    #[serde(default)]
    attachments: Option<Vec<FilePart>>,
}

impl Output {
    pub fn into_output(self) -> ToolOutput {
        ToolOutput {
            title: self.title.unwrap_or_default(),
            output: self.output,
            metadata: self.metadata.unwrap_or_default(),
            attachments: self.attachments.unwrap_or_default(),
            truncated: None,
        }
    }
}

fn output_of(tool: &str, mut value: Value) -> Result<ToolOutput, ToolError> {
    if let Some(invalid) = value.get_mut("invalid") {
        let text = |key: &str| invalid.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        return Err(ToolError::Arguments { tool: tool.to_owned(), path: text("path"), problem: text("message") });
    }
    let output: Output = serde_json::from_value(value)
        .map_err(|e| ToolError::failed(format!("The tool {tool} gave something that is no result: {e}")))?;
    Ok(output.into_output())
}
