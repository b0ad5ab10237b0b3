//! `todoread`: the session's to-do list as it is, for instance after its history was shortened.

use protocol::JsonMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::tool::{Tool, ToolOutput, Traits};

/// Gives the model the session's to-do list.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoRead;

/// The arguments of [`TodoRead`]: none.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TodoReadInput {}

impl Tool for TodoRead {
    type Input = TodoReadInput;
    const ID: &'static str = "todoread";
    const DESCRIPTION: &'static str = "Gives you the to-do list of this conversation as it was last written. You need it \
                                       only when the list is no longer in the conversation.";
    // Who may not write the list has none to read.
    const TRAITS: Traits = Traits::reading("todowrite");

    async fn run(&self, _: TodoReadInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let any = || vec!["*".to_owned()];
        cx.ask(Ask::new(Self::ID, any(), any(), JsonMap::new())).await?;
        let todos = cx.desk.todo_list().await?;
        let open = todos.iter().filter(|todo| todo.status != "completed").count();
        let output = serde_json::to_string_pretty(&todos).map_err(|e| ToolError::failed(e.to_string()))?;
        Ok(ToolOutput::new(format!("{open} todos"), output, json!({ "todos": todos })))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;
    use crate::testing::context;
    use crate::todowrite::TodoWrite;
    use crate::tool::AnyTool;

    #[tokio::test]
    async fn the_list_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, _) = context(dir.path());
        let read = async || AnyTool::run(&TodoRead, JsonMap::new(), &cx).await.unwrap();
        assert_eq!((&*read().await.output, &*read().await.title), ("[]", "0 todos"));
        let list = json!({ "todos": [{ "content": "a", "status": "pending", "priority": "high" }] });
        let Value::Object(input) = list else { unreachable!() };
        let written = AnyTool::run(&TodoWrite, input, &cx).await.unwrap();
        assert_eq!(read().await, written);
    }
}
