//! What plugins say before a call and after it, and of the environment of commands.

use std::path::Path;

use indexmap::IndexMap;
use plugins::Hook;
use protocol::{Ids, JsonMap};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tools::{ToolError, ToolOutput};

use super::{Call, Outcome, bounds};
use crate::permission_broker::Asker;

/// What plugins may change of a result.
#[derive(Serialize, Deserialize)]
struct Shown {
    title: String,
    output: String,
    #[serde(default)]
    metadata: JsonMap,
}

#[derive(Serialize, Deserialize)]
struct Variables {
    env: IndexMap<String, String>,
}

/// Returns a call's arguments as plugins want them. One may refuse the call; that is told to the model.
pub async fn before(asker: &Asker, tool: &str, input: JsonMap) -> Result<JsonMap, ToolError> {
    if !asker.plugins.has(Hook::ToolBefore) {
        return Ok(input);
    }
    match asker.plugins.before_call(about(asker, tool), Value::Object(input.clone())).await {
        Ok(Value::Object(changed)) => Ok(changed),
        Ok(_) => Ok(input),
        Err(refused) => Err(ToolError::failed(refused.message)),
    }
}

/// Returns an output as plugins want it.
pub async fn after(asker: &Asker, tool: &str, input: JsonMap, output: ToolOutput) -> ToolOutput {
    if !asker.plugins.has(Hook::ToolAfter) {
        return output;
    }
    let ToolOutput { title, output, metadata, attachments, truncated } = output;
    let length = output.len();
    let mut about = about(asker, tool);
    about["args"] = Value::Object(input);
    let shown = asker.plugins.change(Hook::ToolAfter, about, Shown { title, output, metadata }).await;
    let Shown { title, output, metadata } = shown;
    // What it has grown by counts like the tool's own.
    let truncated = truncated.filter(|_| output.len() <= length);
    ToolOutput { title, output, metadata, attachments, truncated }
}

/// Returns a call's outcome as plugins want it, within its bounds again.
pub async fn after_call(call: &Call, input: JsonMap, outcome: Outcome, ids: &Ids) -> Outcome {
    let asker = &call.asker;
    let Outcome::Completed { title, output, metadata, attachments } = outcome else { return outcome };
    if !asker.plugins.has(Hook::ToolAfter) {
        return Outcome::Completed { title, output, metadata, attachments };
    }
    let truncated = metadata.get("truncated").and_then(Value::as_bool);
    let output = ToolOutput { title, output, metadata, attachments, truncated };
    let output = after(asker, call.tool.id(), input, output).await;
    bounds::bounded(output, &call.place.spill, ids).await
}

/// Returns the variables plugins want a command to have.
pub async fn shell_env(asker: &Asker, directory: &Path) -> Vec<(String, String)> {
    if !asker.plugins.has(Hook::ShellEnv) {
        return Vec::new();
    }
    let input = json!({ "cwd": directory, "sessionID": asker.fence.session_id, "callID": asker.call_id });
    let changed = asker.plugins.change(Hook::ShellEnv, input, Variables { env: IndexMap::new() }).await;
    changed.env.into_iter().filter(|(name, value)| is_variable(name, value)).collect()
}

/// Whether a process can be given it; a name that can't would end the call.
fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

fn about(asker: &Asker, tool: &str) -> Value {
    json!({ "tool": tool, "sessionID": asker.fence.session_id, "callID": asker.call_id })
}
