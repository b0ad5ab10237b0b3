//! `task`: gives work to a subagent.

use futures::future::BoxFuture;
use protocol::agent::{Agent, AgentMode};
use protocol::model::ToolSpec;
use protocol::{JsonMap, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Ask, Delegation, ToolContext};
use crate::error::ToolError;
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

/// Its name.
const ID: &str = "task";
/// What the model reads of a subagent that nobody waits for.
const IN_BACKGROUND: &str = "The subagent works in the background. When it has ended, its answer comes to you in a \
    message, also after the end of your turn: don't wait or look for it. Go on with what doesn't need it.";

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TaskInput {
    /// What it is about, in three to five words
    description: String,
    /// What the subagent is told
    prompt: String,
    /// The agent that does it
    subagent_type: String,
    /// The id a subagent answered with before, to go on with it; without one a new subagent is started
    #[serde(default)]
    task_id: Option<String>,
    /// Don't wait for its answer: the call returns at once, and the answer comes in a message when there is one
    #[serde(default)]
    background: Option<bool>,
    /// The command that asked for this
    #[serde(default)]
    #[expect(dead_code, reason = "part of the schema; kept with the call's input")]
    command: Option<String>,
}

/// The tool, with the agents it can choose from.
#[derive(Clone, Debug)]
pub struct Task {
    /// Each agent's name and what it is for.
    agents: Vec<(String, String)>,
}

impl Task {
    /// Returns the tool for these agents; those that are only for the person are left out.
    pub fn new<'a>(agents: impl Iterator<Item = &'a Agent>) -> Self {
        Self::of(agents.filter(|agent| agent.mode != AgentMode::Primary))
    }

    /// Returns the tool for work that the person gives themself: any agent may do it that they may choose.
    pub fn given<'a>(agents: impl Iterator<Item = &'a Agent>) -> Self {
        Self::of(agents)
    }

    fn of<'a>(agents: impl Iterator<Item = &'a Agent>) -> Self {
        let agents = agents.filter(|agent| !agent.hidden).map(|agent| {
            let about = agent.description.as_deref().unwrap_or("Only when the person names it.");
            (agent.name.clone(), about.to_owned())
        });
        Self { agents: agents.collect() }
    }

    async fn delegate(&self, input: TaskInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let names: Vec<&str> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
        if !names.contains(&input.subagent_type.as_str()) {
            let known = names.join(", ");
            return Err(ToolError::failed(format!(
                "There is no subagent {:?}. There are: {known}",
                input.subagent_type
            )));
        }
        let resume = match input.task_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => {
                let bad = |_| ToolError::failed(format!("{id:?} is no task_id; use one that a subagent answered with"));
                Some(SessionId::parse(id).map_err(bad)?)
            }
            None => None,
        };
        let metadata = JsonMap::from_iter([
            ("description".to_owned(), json!(input.description)),
            ("subagent_type".to_owned(), json!(input.subagent_type)),
        ]);
        cx.ask(Ask::new(ID, vec![input.subagent_type.clone()], vec!["*".into()], metadata)).await?;
        let delegation = Delegation {
            description: input.description.clone(),
            prompt: input.prompt,
            agent: input.subagent_type,
            resume,
            background: input.background == Some(true),
        };
        let is_background = delegation.background;
        let done = cx.desk.delegate(delegation).await?;
        let id = &done.session_id;
        match done.answer {
            Ok(_) if is_background => {
                let output = format!("<task id=\"{id}\" state=\"running\">\n{IN_BACKGROUND}\n</task>");
                let metadata = json!({ "sessionId": id, "background": true });
                Ok(ToolOutput::new(input.description, output, metadata))
            }
            Ok(text) => {
                let output =
                    format!("<task id=\"{id}\" state=\"completed\">\n<task_result>\n{text}\n</task_result>\n</task>");
                Ok(ToolOutput::new(input.description, output, json!({ "sessionId": id })))
            }
            Err(error) => Err(ToolError::failed(format!("Subagent failed (task_id: {id}): {error}"))),
        }
    }
}

impl AnyTool for Task {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        self.spec_under(&|_| false)
    }

    fn spec_under(&self, is_denied: &dyn Fn(&str) -> bool) -> ToolSpec {
        let mut description = include_str!("task.txt").trim_end().to_owned();
        for (name, about) in self.agents.iter().filter(|(name, _)| !is_denied(name)) {
            description.push_str(&format!("\n- {name}: {about}"));
        }
        ToolSpec { name: ID.into(), description, parameters: schema::<TaskInput>() }
    }

    fn traits(&self) -> Traits {
        // Not itself: what its subagent changes is seen between the parent's steps all the same. After a crash the call
        // finds its subagent again, so running it again does no harm.
        Traits { permission: ID, changes_files: true, repeatable: true }
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.delegate(arguments(ID, Value::Object(input))?, cx).await })
    }
}
