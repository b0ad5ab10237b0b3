//! Prompts of servers: a command of a person's becomes what the server makes of it.

use std::time::Duration;

use actix::prelude::*;
use mcp::{Prompt, names, result};
use protocol::JsonMap;
use protocol::part::FilePart;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::McpHost;
use super::tool::Line;

/// How long a server may take to fill a prompt in.
const LIMIT: Duration = Duration::from_secs(30);

/// What does a server make of this prompt?
#[derive(Message, Clone)]
#[rtype(result = "Result<Filled, FillError>")]
pub struct FillPrompt {
    /// The command it is offered as.
    pub command: String,
    /// The words a person typed after it.
    pub words: Vec<String>,
}

/// A prompt that was filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filled {
    /// What it says.
    pub text: String,
    /// What is attached, as `data:` urls.
    pub files: Vec<FilePart>,
}

/// Why a prompt was not filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// No server has it any more.
    #[error("no MCP server offers the prompt {0:?} now")]
    Gone(String),
    /// An argument is missing.
    #[error("the prompt {command:?} needs {missing:?}; it takes, in this order: {}", takes.join(", "))]
    Missing {
        /// The command.
        command: String,
        /// The first argument that isn't there.
        missing: String,
        /// All it takes.
        takes: Vec<String>,
    },
    /// The server could not be asked, or said no.
    #[error("{0}")]
    Server(String),
}

impl Handler<FillPrompt> for McpHost {
    type Result = ResponseFuture<Result<Filled, FillError>>;

    fn handle(&mut self, FillPrompt { command, words }: FillPrompt, _: &mut Self::Context) -> Self::Result {
        let found = self.slots.values().find_map(|slot| {
            let offers = slot.condition.borrow().offers.clone();
            let prompt =
                offers.prompts.iter().find(|prompt| names::command_name(&slot.name, &prompt.name) == command)?;
            Some((Line { server: slot.name.clone(), condition: slot.condition.subscribe() }, prompt.clone()))
        });
        let Some((line, prompt)) = found else { return Box::pin(async { Err(FillError::Gone(command)) }) };
        let arguments = match arguments(&command, &prompt, &words) {
            Ok(arguments) => arguments,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        let filled = self.deps.io.spawn(fill(line, prompt, arguments));
        Box::pin(async move {
            filled.await.unwrap_or_else(|_| Err(FillError::Server("the MCP server could not be asked".into())))
        })
    }
}

async fn fill(line: Line, prompt: Prompt, arguments: JsonMap) -> Result<Filled, FillError> {
    let server = |error: &dyn std::fmt::Display| FillError::Server(error.to_string());
    let asked = async {
        let connection = line.connection(&CancellationToken::new()).await.map_err(|error| server(&error))?;
        connection.prompt(&prompt.name, arguments).await.map_err(|error| server(&error))
    };
    let late = |_| FillError::Server(format!("the MCP server {} took longer than 30 s", line.server));
    let answer = tokio::time::timeout(LIMIT, asked).await.map_err(late)??;
    let shaped = result::prompt(&answer);
    Ok(Filled { text: shaped.text, files: shaped.attachments })
}

/// The words as the prompt's arguments, in their order; the last takes all that are left.
fn arguments(command: &str, prompt: &Prompt, words: &[String]) -> Result<JsonMap, FillError> {
    let mut given = JsonMap::new();
    let last = prompt.arguments.len().saturating_sub(1);
    for (index, argument) in prompt.arguments.iter().enumerate() {
        let value = match index == last {
            true => words.get(index..).map(|rest| rest.join(" ")).filter(|text| !text.is_empty()),
            false => words.get(index).cloned(),
        };
        match value {
            Some(value) => drop(given.insert(argument.name.clone(), Value::from(value))),
            None if argument.is_required => {
                return Err(FillError::Missing {
                    command: command.to_owned(),
                    missing: argument.name.clone(),
                    takes: prompt.arguments.iter().map(|argument| argument.name.clone()).collect(),
                });
            }
            None => {}
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use mcp::PromptArgument;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_arguments_in_order_and_the_last_takes_the_rest() {
        let argument = |name: &str, is_required| PromptArgument { name: name.into(), is_required };
        let prompt = Prompt {
            name: "hey".into(),
            description: None,
            arguments: vec![argument("a", true), argument("b", false)],
        };
        let given = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            arguments("s:hey", &prompt, &words).map(Value::Object).map_err(|error| error.to_string())
        };
        assert_eq!(given(&["x", "y", "z"]), Ok(json!({ "a": "x", "b": "y z" })));
        assert_eq!(given(&["x"]), Ok(json!({ "a": "x" })));
        assert_eq!(given(&[]), Err(r#"the prompt "s:hey" needs "a"; it takes, in this order: a, b"#.into()));
    }
}
