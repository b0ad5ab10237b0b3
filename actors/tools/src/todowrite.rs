//! `todowrite`: replaces the session's to-do list.

use protocol::Todo;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::tool::{Tool, ToolOutput, Traits};

/// Replaces the session's to-do list.
#[derive(Clone, Copy, Debug, Default)]
pub struct TodoWrite;

/// The arguments of [`TodoWrite`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TodoWriteInput {
    /// The whole list, in order; it replaces the one before
    todos: Vec<TodoInput>,
}

/// One entry of the list. All three are free text, as on the wire.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TodoInput {
    /// What is to be done, in a few words
    content: String,
    /// How far it is: pending, in_progress, completed or cancelled
    status: String,
    /// How much it matters: high, medium or low
    priority: String,
}

impl From<TodoInput> for Todo {
    fn from(input: TodoInput) -> Self {
        let TodoInput { content, status, priority } = input;
        Self { content, status, priority }
    }
}

impl Tool for TodoWrite {
    type Input = TodoWriteInput;
    const ID: &'static str = "todowrite";
    const DESCRIPTION: &'static str = include_str!("todowrite.txt");
    const TRAITS: Traits = Traits::reading("todowrite");

    async fn run(&self, input: TodoWriteInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let any = || vec!["*".to_owned()];
        cx.ask(Ask::new(Self::ID, any(), any(), protocol::JsonMap::new())).await?;
        let todos: Vec<Todo> = input.todos.into_iter().map(Todo::from).collect();
        cx.desk.todos(todos.clone()).await?;
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
    use crate::testing::{Noted, assert_schema, context};
    use crate::tool::AnyTool;

    async fn write(todos: Value) -> (Result<ToolOutput, ToolError>, Vec<Noted>) {
        let dir = tempfile::tempdir().unwrap();
        let (cx, desk) = context(dir.path());
        let Value::Object(input) = json!({ "todos": todos }) else { unreachable!() };
        (AnyTool::run(&TodoWrite, input, &cx).await, desk.noted())
    }

    #[tokio::test]
    async fn the_list_is_replaced_and_shown() {
        let list = json!([
            { "content": "a", "status": "completed", "priority": "high" },
            { "content": "b", "status": "pending", "priority": "low" }
        ]);
        let (output, noted) = write(list.clone()).await;
        let output = output.unwrap();
        assert_eq!(output.title, "1 todos");
        assert_eq!(output.output, serde_json::to_string_pretty(&list).unwrap());
        assert!(output.output.starts_with("[\n  {\n    \"content\": \"a\",\n"));
        assert_eq!(Value::Object(output.metadata), json!({ "todos": list }));
        let todo = |content: &str, status: &str, priority: &str| Todo {
            content: content.into(),
            status: status.into(),
            priority: priority.into(),
        };
        let wanted = vec![todo("a", "completed", "high"), todo("b", "pending", "low")];
        assert_eq!(noted.last(), Some(&Noted::Todos(wanted)));
    }

    #[tokio::test]
    async fn an_empty_list_is_a_list_and_a_half_entry_is_not() {
        assert_eq!(write(json!([])).await.0.unwrap().output, "[]");
        let (error, noted) = write(json!([{ "content": "a" }])).await;
        assert!(matches!(error, Err(ToolError::Arguments { .. })));
        assert_eq!(noted, []);
    }

    #[test]
    fn the_schema_is_opencodes() {
        let text = json!({ "type": "string" });
        let wanted = json!({
            "type": "object",
            "properties": { "todos": { "type": "array", "items": {
                "type": "object",
                "properties": { "content": text, "status": text, "priority": text },
                "required": ["content", "status", "priority"]
            } } },
            "required": ["todos"]
        });
        assert_schema(&AnyTool::spec(&TodoWrite).parameters, &wanted);
    }
}
