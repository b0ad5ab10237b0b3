//! A request as the vendor's JSON; its messages are in [`super::messages`].

use std::borrow::Cow;

use protocol::JsonMap;
use protocol::model::{ModelRequest, ToolChoice};
use serde_json::{Value, json};

use super::dialect::{Counts, Dialect, Limit, Schemas};
use super::messages::messages;
use super::wire::{Body, FunctionSpec, StreamOptions, Tool};
use crate::options::{self, Place, Table};
use crate::schema;

/// Options that have another name on the wire, that are for the client alone, or that would break what is decided here.
const TABLE: Table = &[
    ("reasoningEffort", Place::At(&["reasoning_effort"])),
    ("textVerbosity", Place::At(&["verbosity"])),
    ("parallelToolCalls", Place::At(&["parallel_tool_calls"])),
    ("promptCacheKey", Place::At(&["prompt_cache_key"])),
    ("promptCacheRetention", Place::At(&["prompt_cache_retention"])),
    ("safetyIdentifier", Place::At(&["safety_identifier"])),
    ("serviceTier", Place::At(&["service_tier"])),
    ("logitBias", Place::At(&["logit_bias"])),
    ("maxCompletionTokens", Place::At(&["max_completion_tokens"])),
    // Groq's.
    ("reasoningFormat", Place::At(&["reasoning_format"])),
    // Alibaba's.
    ("enableThinking", Place::At(&["enable_thinking"])),
    ("thinkingBudget", Place::At(&["thinking_budget"])),
    // Mistral's.
    ("safePrompt", Place::At(&["safe_prompt"])),
    ("documentImageLimit", Place::At(&["document_image_limit"])),
    ("documentPageLimit", Place::At(&["document_page_limit"])),
    // xAI's.
    ("searchParameters", Place::Snake(&["search_parameters"])),
    // Venice's.
    ("veniceParameters", Place::Snake(&["venice_parameters"])),
    // Of OpenAI's responses.
    ("reasoningSummary", Place::Nowhere),
    ("forceReasoning", Place::Nowhere),
    ("structuredOutputs", Place::Nowhere),
    ("strictJsonSchema", Place::Nowhere),
    ("toolStreaming", Place::Nowhere),
    ("messages", Place::Nowhere),
    ("tools", Place::Nowhere),
    ("stream", Place::Nowhere),
];

/// OpenRouter has effort in an object.
const OPENROUTER: Table = &[("reasoningEffort", Place::At(&["reasoning", "effort"]))];
/// Returns the body of the request. `usage` asks for the token counts.
pub(super) fn body(
    request: &ModelRequest,
    options: JsonMap,
    dialect: &Dialect,
    usage: bool,
) -> serde_json::Result<Vec<u8>> {
    let first: Table = if dialect.counts == Counts::Usage { OPENROUTER } else { &[] };
    let options = options::place(&options, &[first, TABLE]);
    let ours = |name: &str| !options.contains_key(name);
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| Tool {
            kind: "function",
            function: FunctionSpec {
                name: &tool.name,
                description: &tool.description,
                parameters: parameters(&tool.parameters, dialect.schemas),
            },
        })
        .collect();
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => dialect.required,
    };
    serde_json::to_vec(&Body {
        messages: messages(request, dialect),
        tool_choice: (!tools.is_empty() && ours("tool_choice")).then_some(choice),
        tools,
        stream: true,
        stream_options: (usage && dialect.counts == Counts::StreamOptions && ours("stream_options"))
            .then_some(StreamOptions { include_usage: true }),
        settings: settings(request, options, dialect),
    })
}

/// Returns the fields before the messages: the request's own, over them the options; `null` takes one out.
fn settings(request: &ModelRequest, options: JsonMap, dialect: &Dialect) -> JsonMap {
    let mut settings = JsonMap::from_iter([("model".to_owned(), json!(request.model))]);
    let limit = match dialect.limit {
        Limit::MaxTokens => Some("max_tokens"),
        Limit::MaxCompletionTokens => Some("max_completion_tokens"),
        Limit::Not => None,
    };
    if let Some(limit) = limit.filter(|_| request.max_output_tokens > 0) {
        settings.insert(limit.into(), json!(request.max_output_tokens));
    }
    // OpenAI's thinking models refuse them.
    let samples = dialect.limit != Limit::MaxCompletionTokens || request.reasoning.is_none();
    let sampling = [("temperature", request.temperature), ("top_p", request.top_p)];
    for (name, value) in sampling.into_iter().filter(|_| samples) {
        if let Some(value) = value {
            settings.insert(name.into(), json!(value));
        }
    }
    options::merge(&mut settings, options);
    options::drop_nulls(&mut settings);
    settings
}

fn parameters(schema: &Value, whose: Schemas) -> Cow<'_, Value> {
    match whose {
        Schemas::Plain => schema::object(schema),
        Schemas::Moonshot => Cow::Owned(schema::moonshot(schema)),
        Schemas::Gemini => {
            Cow::Owned(schema::gemini(schema).unwrap_or_else(|| json!({ "type": "object", "properties": {} })))
        }
    }
}
