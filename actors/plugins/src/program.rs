//! Programs that are tools: `PROGRAM --schema` prints a JSON object with a `description` and, under `parameters`, the
//! JSON schema of its arguments. A call runs the program in the session's directory with the arguments as one JSON
//! object on its standard input. What it prints is the result: text, or a JSON object with `output` and, if need be,
//! `title`, `metadata` and `attachments`. An exit code other than 0 makes it an error, with what it said on standard
//! error.
//!
//! The file's name without its ending is the tool's. Source of the idea: issue 4; OpenCode has no such thing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use protocol::JsonMap;
use protocol::model::ToolSpec;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tools::process::{Child, Processes};
use tools::{AnyTool, ToolContext, ToolError, ToolOutput, Traits};

use crate::plugins::Notices;
use crate::tool::{Output, TRAITS, ask};

/// How long a program may take to print its definition.
const SCHEMA_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a definition.
const LARGEST_SCHEMA: u64 = 256 * 1024;
/// Bytes kept of a program's output; the rest is read and thrown away.
const LARGEST_OUTPUT: u64 = 8 * 1024 * 1024;
/// Bytes kept of what it says on standard error.
const LARGEST_ERROR: u64 = 64 * 1024;
/// How long a program has to end after TERM.
const GRACE: Duration = Duration::from_millis(300);
/// Most characters of a tool's name.
const LONGEST_NAME: usize = 64;

/// Asks programs for their definitions, all at once. One that has none is named and left out.
pub async fn tools(
    programs: &[PathBuf],
    directory: &Path,
    processes: &Processes,
    notices: &Notices,
) -> Vec<Arc<dyn AnyTool>> {
    let asked = programs.iter().map(|program| async move {
        match definition(program, directory, processes).await {
            Ok(tool) => Some(Arc::new(tool) as Arc<dyn AnyTool>),
            Err(error) => {
                notices.tell(&program.to_string_lossy(), error);
                None
            }
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

#[derive(Deserialize)]
struct Definition {
    description: String,
    #[serde(default, alias = "inputSchema", alias = "input_schema")]
    parameters: Option<Value>,
}

async fn definition(program: &Path, directory: &Path, processes: &Processes) -> Result<Program, String> {
    let id = name_of(program)?;
    let call = format!("schema_{id}_{:08x}", rand::random::<u32>());
    let mut child = spawn(program, &["--schema"], directory, processes, None, &call)?;
    drop(child.process().stdin.take());
    let done = async {
        let (out, err, status) = outcome(&mut child, LARGEST_SCHEMA).await;
        status.map(|is_good| (out, err, is_good))
    };
    let done = tokio::time::timeout(SCHEMA_LIMIT, done).await;
    child.end(GRACE).await;
    let (out, err, is_good) = done
        .map_err(|_| format!("it did not answer --schema within {} s", SCHEMA_LIMIT.as_secs()))?
        .map_err(|e| e.to_string())?;
    if !is_good {
        return Err(format!("it failed when it was asked with --schema: {}", err.trim()));
    }
    let definition: Definition =
        serde_json::from_str(out.trim()).map_err(|e| format!("its answer to --schema is no definition: {e}"))?;
    let parameters = definition.parameters.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    if !parameters.is_object() {
        return Err("the `parameters` in its answer to --schema are no JSON schema".to_owned());
    }
    Ok(Program {
        spec: ToolSpec { name: id, description: definition.description, parameters },
        program: program.to_owned(),
    })
}

/// The tool's name: the file's, with what vendors don't take in names replaced.
fn name_of(program: &Path) -> Result<String, String> {
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = stem.chars().map(plain).take(LONGEST_NAME).collect();
    if name.chars().any(|c| c.is_ascii_alphanumeric()) {
        Ok(name)
    } else {
        Err("its name is no name for a tool".to_owned())
    }
}

fn spawn(
    program: &Path,
    args: &[&str],
    directory: &Path,
    processes: &Processes,
    cx: Option<&ToolContext>,
    call: &str,
) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    processes.prepare(&mut command, cx.map(|cx| &cx.session_id), call);
    let failed = |e: std::io::Error| format!("it can't be started: {e}");
    let process = command.spawn().map_err(failed)?;
    processes.adopt(process, call).map_err(failed)
}

/// Waits for a child's output, errors and whether it ended well. Something it started may hold its output open for
/// ever: its own end is what counts.
async fn outcome(child: &mut Child, largest: u64) -> (String, String, std::io::Result<bool>) {
    let (stdout, stderr) = (child.process().stdout.take(), child.process().stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let said = async { tokio::join!(keep(stdout, &mut out, largest), keep(stderr, &mut err, LARGEST_ERROR)) };
        tokio::pin!(said);
        tokio::select! {
            status = child.exited() => {
                let _ = tokio::time::timeout(GRACE, said).await;
                status
            }
            _ = &mut said => child.exited().await,
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out), text(&err), status.map(|status| status.success()))
}

/// Reads to the end, keeping so much.
async fn keep(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, largest: u64) {
    let Some(mut from) = from else { return };
    let _ = (&mut from).take(largest).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
}

/// A tool that is a program.
struct Program {
    spec: ToolSpec,
    program: PathBuf,
}

impl AnyTool for Program {
    fn id(&self) -> &str {
        &self.spec.name
    }

    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn traits(&self) -> Traits {
        TRAITS
    }

    fn permission(&self) -> &str {
        &self.spec.name
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            ask(&self.spec.name, &input, cx).await?;
            cx.begin().await?;
            let failed = |problem: String| ToolError::failed(format!("The tool {} failed: {problem}", self.spec.name));
            let arguments = serde_json::to_vec(&input).map_err(|e| failed(e.to_string()))?;
            let call = format!("{}/{}", cx.message_id, cx.call_id);
            let mut child =
                spawn(&self.program, &[], &cx.place.directory, &cx.processes, Some(cx), &call).map_err(failed)?;
            let group = child.group();
            cx.desk.process_started(group);
            let stdin = child.process().stdin.take();
            let give = async {
                if let Some(mut stdin) = stdin {
                    // One that doesn't want its arguments need not read them.
                    let _ = stdin.write_all(&arguments).await;
                }
                std::future::pending::<()>().await;
            };
            let done = tokio::select! {
                done = outcome(&mut child, LARGEST_OUTPUT) => Ok(done),
                () = give => Err(ToolError::Aborted),
                () = cx.cancel.cancelled() => Err(ToolError::Aborted),
            };
            child.end(GRACE).await;
            cx.desk.process_ended(group);
            let (out, err, status) = done?;
            match status {
                Ok(true) => Ok(output_of(out)),
                Ok(false) => {
                    let said = [err.trim(), out.trim()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
                    Err(failed(if said.is_empty() { "it ended with an error".to_owned() } else { said.join("\n") }))
                }
                Err(error) => Err(failed(error.to_string())),
            }
        })
    }
}

fn output_of(text: String) -> ToolOutput {
    if text.trim_start().starts_with('{')
        && let Ok(output) = serde_json::from_str::<Output>(text.trim())
    {
        return output.into_output();
    }
    ToolOutput::new("", text, Value::Null)
}
