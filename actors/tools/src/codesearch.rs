//! `codesearch`: finds code and documentation of public projects, by Exa.

use std::time::Duration;

use protocol::JsonMap;
use protocol::provider::Model;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::remote;
use crate::tool::{Tool, ToolOutput, Traits};
use crate::websearch::SearchSettings;

/// How long a search may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How much is wanted where the call doesn't say, in tokens; at least and at most.
const TOKENS: (f64, f64, f64) = (5_000.0, 1_000.0, 50_000.0);

/// Finds code and documentation.
#[derive(Clone, Debug, Default)]
pub struct CodeSearch {
    settings: SearchSettings,
}

impl CodeSearch {
    /// Returns the tool with its settings.
    pub fn new(settings: SearchSettings) -> Self {
        Self { settings }
    }
}

/// The arguments of [`CodeSearch`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CodeSearchInput {
    /// What to look for: an interface, a library, a pattern, with the language where it matters
    query: String,
    /// How much to give, in tokens: 1000 to 50000 (default: 5000)
    #[serde(default)]
    #[schemars(schema_with = "tokens")]
    tokens_num: Option<f64>,
}

fn tokens(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "number", "minimum": TOKENS.1, "maximum": TOKENS.2, "default": TOKENS.0 })
}

impl Tool for CodeSearch {
    type Input = CodeSearchInput;
    const ID: &'static str = "codesearch";
    const DESCRIPTION: &'static str = "Finds how others use a library or an interface: examples and documentation of public projects, as text. \
         Use it before you write against an interface you are not sure of. For the code of this project use grep.";
    const TRAITS: Traits = Traits::reading("codesearch");

    fn suits(&self, model: &Model) -> bool {
        self.settings.suits(model)
    }

    async fn run(&self, input: CodeSearchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let query = input.query.trim();
        if query.is_empty() {
            return Err(ToolError::failed("The query is empty. Say what to look for."));
        }
        let (usual, least, most) = TOKENS;
        let tokens = input.tokens_num.unwrap_or(usual).clamp(least, most) as u64;
        let metadata =
            JsonMap::from_iter([("query".to_owned(), json!(query)), ("tokensNum".to_owned(), json!(tokens))]);
        cx.ask(Ask::new(Self::ID, vec![query.to_owned()], vec!["*".into()], metadata)).await?;
        cx.begin().await?;
        let url = self.settings.exa();
        let call = remote::Call {
            service: "Exa Code Search",
            url: &url,
            key: None,
            tool: "get_code_context_exa",
            arguments: json!({ "query": query, "tokensNum": tokens }),
            limit: LIMIT,
        };
        let found = remote::call(cx, call).await?;
        let output = found.unwrap_or_else(|| "Nothing was found. Name the library or the language.".to_owned());
        Ok(ToolOutput::new(format!("Code search: {query}"), output, json!({})))
    }
}
