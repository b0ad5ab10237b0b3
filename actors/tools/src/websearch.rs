//! `websearch`: searches the web, by Exa or Parallel. Which one, and whether at all, is a setting.

use std::fmt;
use std::time::Duration;

use protocol::JsonMap;
use protocol::config::SearchProvider;
use protocol::provider::Model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{Ask, Progress, ToolContext};
use crate::error::ToolError;
use crate::remote::{self, with_key};
use crate::tool::{Tool, ToolOutput, Traits};

const EXA: &str = "https://mcp.exa.ai/mcp";
const PARALLEL: &str = "https://search.parallel.ai/mcp";
/// How long a search may take.
const LIMIT: Duration = Duration::from_secs(25);
/// What a search gives where the call doesn't say.
const RESULTS: f64 = 8.0;
/// The providers whose models may search without a setting. Source: OpenCode `tool/registry.ts`.
const HOSTED: [&str; 2] = ["opencode", "opencode-go"];

/// How the web is searched.
#[derive(Clone, Default)]
pub struct SearchSettings {
    /// The service; none leaves searching to models of OpenCode's own providers.
    pub provider: Option<SearchProvider>,
    /// Where Exa is, if not at its own address.
    pub exa_url: Option<String>,
    /// Exa's key.
    pub exa_key: Option<String>,
    /// Where Parallel is, if not at its own address.
    pub parallel_url: Option<String>,
    /// Parallel's key.
    pub parallel_key: Option<String>,
}

impl fmt::Debug for SearchSettings {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchSettings").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl SearchSettings {
    /// Returns whether a model is offered to search.
    pub(crate) fn suits(&self, model: &Model) -> bool {
        self.provider.is_some() || HOSTED.contains(&model.provider_id.as_str())
    }

    /// Returns where Exa is, with its key.
    pub(crate) fn exa(&self) -> String {
        with_key(self.exa_url.as_deref().unwrap_or(EXA), "exaApiKey", self.exa_key.as_deref())
    }
}

/// Searches the web.
#[derive(Clone, Debug, Default)]
pub struct WebSearch {
    settings: SearchSettings,
}

impl WebSearch {
    /// Returns the tool with its settings.
    pub fn new(settings: SearchSettings) -> Self {
        Self { settings }
    }
}

/// The arguments of [`WebSearch`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebSearchInput {
    /// What to search for
    query: String,
    /// How many results (default: 8)
    #[serde(default)]
    #[schemars(with = "f64")]
    num_results: Option<f64>,
    /// Whether pages are fetched anew: only where there is no copy (fallback, the default), or rather than a copy (preferred)
    #[serde(default)]
    #[schemars(with = "Livecrawl")]
    livecrawl: Option<Livecrawl>,
    /// How thorough: auto (the default), fast or deep
    #[serde(default, rename = "type")]
    #[schemars(with = "Depth")]
    depth: Option<Depth>,
    /// Most characters of all results (default: 10000)
    #[serde(default)]
    #[schemars(with = "f64")]
    context_max_characters: Option<f64>,
}

/// Whether pages are fetched anew.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Livecrawl {
    /// Where there is no copy.
    #[default]
    Fallback,
    /// Rather than a copy.
    Preferred,
}

/// How thorough a search is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// The service decides.
    #[default]
    Auto,
    /// Quick.
    Fast,
    /// Thorough.
    Deep,
}

impl Tool for WebSearch {
    type Input = WebSearchInput;
    const ID: &'static str = "websearch";
    const DESCRIPTION: &'static str = include_str!("websearch.txt");
    const TRAITS: Traits = Traits::reading("websearch");

    fn suits(&self, model: &Model) -> bool {
        self.settings.suits(model)
    }

    async fn run(&self, input: WebSearchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let query = input.query.trim();
        if query.is_empty() {
            return Err(ToolError::failed("The query is empty. Say what to search for."));
        }
        let provider = self.settings.provider.unwrap_or(SearchProvider::Exa);
        let label = match provider {
            SearchProvider::Exa => "Exa Web Search",
            SearchProvider::Parallel => "Parallel Web Search",
        };
        let metadata = JsonMap::from_iter([("provider".to_owned(), json!(provider))]);
        cx.desk.progress(Progress { title: Some(format!("{label} \"{query}\"")), metadata: metadata.clone() });
        cx.ask(ask(&input, provider)).await?;
        cx.begin().await?;
        let exa = self.settings.exa();
        let call = match provider {
            SearchProvider::Exa => remote::Call {
                service: label,
                url: &exa,
                key: None,
                tool: "web_search_exa",
                arguments: exa_arguments(&input),
                limit: LIMIT,
            },
            SearchProvider::Parallel => remote::Call {
                service: label,
                url: self.settings.parallel_url.as_deref().unwrap_or(PARALLEL),
                key: self.settings.parallel_key.as_deref(),
                tool: "web_search",
                arguments: json!({ "objective": query, "search_queries": [query], "session_id": cx.session_id }),
                limit: LIMIT,
            },
        };
        let found = remote::call(cx, call).await?;
        let output = found.unwrap_or_else(|| "Nothing was found. Try other words.".to_owned());
        Ok(ToolOutput { title: format!("{label}: {query}"), output, metadata, ..ToolOutput::default() })
    }
}

fn exa_arguments(input: &WebSearchInput) -> Value {
    let mut arguments = json!({
        "query": input.query.trim(),
        "type": input.depth.unwrap_or_default(),
        "numResults": input.num_results.unwrap_or(RESULTS) as u32,
        "livecrawl": input.livecrawl.unwrap_or_default(),
    });
    if let (Some(most), Some(arguments)) = (input.context_max_characters, arguments.as_object_mut()) {
        arguments.insert("contextMaxCharacters".into(), json!(most as u64));
    }
    arguments
}

fn ask(input: &WebSearchInput, provider: SearchProvider) -> Ask {
    let mut metadata = JsonMap::from_iter([("query".to_owned(), json!(input.query))]);
    let optional = [
        ("numResults", input.num_results.map(|n| json!(n))),
        ("livecrawl", input.livecrawl.map(|l| json!(l))),
        ("type", input.depth.map(|d| json!(d))),
        ("contextMaxCharacters", input.context_max_characters.map(|n| json!(n))),
    ];
    metadata.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    metadata.insert("provider".into(), json!(provider));
    Ask::new(WebSearch::ID, vec![input.query.clone()], vec!["*".into()], metadata)
}

#[cfg(test)]
mod tests;
