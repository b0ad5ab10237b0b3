//! `lsp`: puts questions about code to the language servers of a file.

use std::path::PathBuf;

use protocol::JsonMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::path::{Access, Kind, Located};
use crate::tool::{Tool, ToolOutput, Traits};

/// Asks language servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lsp;

/// What is asked; the names are OpenCode's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Where is it defined?
    GoToDefinition,
    /// Who uses it?
    FindReferences,
    /// What is it?
    Hover,
    /// What is in the file?
    DocumentSymbol,
    /// What is in the project?
    WorkspaceSymbol,
    /// What implements it?
    GoToImplementation,
    /// Which function is it?
    PrepareCallHierarchy,
    /// Who calls it?
    IncomingCalls,
    /// What does it call?
    OutgoingCalls,
}

/// A question to the language servers of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguageQuestion {
    /// What is asked.
    pub operation: Operation,
    /// The file, absolute.
    pub path: PathBuf,
    /// The line, from 0.
    pub line: u32,
    /// The character in it, from 0, in UTF-16 units.
    pub character: u32,
    /// Part of a symbol's name.
    pub query: String,
}

/// The arguments of [`Lsp`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LspInput {
    /// What to ask
    operation: OperationName,
    /// The file; absolute, or relative to the project's directory
    file_path: String,
    /// The line of the symbol, counted from 1
    #[schemars(range(min = 1))]
    line: u32,
    /// The character in that line, counted from 1
    #[schemars(range(min = 1))]
    character: u32,
    /// For workspaceSymbol: part of a name (default: all)
    query: Option<String>,
}

/// The operation in a schema without a description for each name: one list of words is what models read best.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
struct OperationName(Operation);

impl JsonSchema for OperationName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Operation".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": [
            "goToDefinition", "findReferences", "hover", "documentSymbol", "workspaceSymbol", "goToImplementation",
            "prepareCallHierarchy", "incomingCalls", "outgoingCalls",
        ] })
    }
}

impl Tool for Lsp {
    type Input = LspInput;
    const ID: &'static str = "lsp";
    const DESCRIPTION: &'static str = include_str!("lsp.txt");
    const TRAITS: Traits = Traits::reading("lsp");

    async fn run(&self, input: LspInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let located = Located::of(cx, &input.file_path, Access::Read).await?;
        located.ask_external(cx).await?;
        let any = || vec!["*".to_owned()];
        cx.ask(Ask::new(Self::ID, any(), any(), JsonMap::new())).await?;
        if located.kind != Kind::File {
            return Err(ToolError::failed(format!("File not found: {}", located.shown.display())));
        }
        let operation = input.operation.0;
        let question = LanguageQuestion {
            operation,
            path: located.shown.clone(),
            line: input.line.saturating_sub(1),
            character: input.character.saturating_sub(1),
            query: input.query.unwrap_or_default(),
        };
        let found = tokio::select! {
            found = cx.desk.ask_language_servers(question) => found?,
            () = cx.cancel.cancelled() => return Err(ToolError::Aborted),
        };
        let name = serde_json::to_value(operation).ok().and_then(|name| name.as_str().map(str::to_owned));
        let name = name.unwrap_or_default();
        let output = if found.is_empty() {
            format!("No results found for {name}")
        } else {
            serde_json::to_string_pretty(&found).map_err(|error| ToolError::failed(error.to_string()))?
        };
        let place = match operation {
            Operation::WorkspaceSymbol => String::new(),
            Operation::DocumentSymbol => format!(" {}", located.title),
            _ => format!(" {}:{}:{}", located.title, input.line, input.character),
        };
        Ok(ToolOutput::new(format!("{name}{place}"), output, json!({ "result": Value::Array(found) })))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{assert_schema, context};
    use crate::tool::AnyTool;

    async fn ask(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let Value::Object(input) = input else { unreachable!() };
        AnyTool::run(&Lsp, input, cx).await
    }

    #[tokio::test]
    async fn a_question_is_asked_for_and_put_in_the_protocols_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("a.ts"), "let x;\n").unwrap();
        let (cx, desk) = context(&root);
        let input = json!({ "operation": "hover", "filePath": "a.ts", "line": 1, "character": 5 });
        let output = ask(&cx, input).await.unwrap();
        let asked = LanguageQuestion {
            operation: Operation::Hover,
            path: root.join("a.ts"),
            line: 0,
            character: 4,
            query: String::new(),
        };
        assert_eq!(desk.questions(), vec![asked]);
        assert_eq!(desk.asks()[0].permission, "lsp");
        assert_eq!((&*output.title, &*output.output), ("hover a.ts:1:5", "No results found for hover"));
        assert_eq!(output.metadata["result"], json!([]));
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_not_asked_about() {
        let dir = tempfile::tempdir().unwrap();
        let (cx, desk) = context(&dir.path().canonicalize().unwrap());
        let input = json!({ "operation": "hover", "filePath": "none.ts", "line": 1, "character": 5 });
        assert!(ask(&cx, input).await.unwrap_err().to_string().contains("none.ts"));
        assert_eq!(desk.questions(), vec![]);
    }

    #[test]
    fn the_schema_is_opencodes_with_a_query() {
        let spec = AnyTool::spec(&Lsp);
        let wanted = json!({
            "type": "object",
            "required": ["operation", "filePath", "line", "character"],
            "properties": {
                "operation": { "type": "string" },
                "filePath": { "type": "string" },
                "line": { "type": "integer", "minimum": 1 },
                "character": { "type": "integer", "minimum": 1 },
                "query": { "type": "string" },
            },
        });
        assert_schema(&spec.parameters, &wanted);
    }
}
