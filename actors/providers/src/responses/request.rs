//! A request as the vendor's JSON; its items are in [`super::input`].

use protocol::JsonMap;
use protocol::model::{ModelRequest, ToolChoice};
use serde_json::{Value, json};

use super::input::{Shape, input};
use super::wire::{Body, Tool};
use crate::options::{self, Place, Table};
use crate::schema;

/// Options by their places.
const TABLE: Table = &[
    ("reasoningEffort", Place::At(&["reasoning", "effort"])),
    ("reasoningSummary", Place::At(&["reasoning", "summary"])),
    ("textVerbosity", Place::At(&["text", "verbosity"])),
    ("maxToolCalls", Place::At(&["max_tool_calls"])),
    ("parallelToolCalls", Place::At(&["parallel_tool_calls"])),
    ("previousResponseId", Place::At(&["previous_response_id"])),
    ("promptCacheKey", Place::At(&["prompt_cache_key"])),
    ("promptCacheRetention", Place::At(&["prompt_cache_retention"])),
    ("safetyIdentifier", Place::At(&["safety_identifier"])),
    ("serviceTier", Place::At(&["service_tier"])),
    ("contextManagement", Place::Snake(&["context_management"])),
    ("forceReasoning", Place::Nowhere),
    ("strictJsonSchema", Place::Nowhere),
    ("systemMessageMode", Place::Nowhere),
    ("toolStreaming", Place::Nowhere),
    ("thinking", Place::Nowhere),
    ("effort", Place::At(&["reasoning", "effort"])),
    ("input", Place::Nowhere),
    ("tools", Place::Nowhere),
    ("stream", Place::Nowhere),
];

/// What thinking models give back in place of their thoughts.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// What the server wants.
pub(super) struct Target {
    /// Under which name data is kept with parts.
    pub(super) vendor: &'static str,
    /// The system texts are instructions, and there is no limit.
    pub(super) on_chatgpt: bool,
    /// The most tokens of the answer are said.
    pub(super) has_limit: bool,
}

/// Returns the body of the request.
pub(super) fn body(request: &ModelRequest, options: &JsonMap, target: &Target) -> serde_json::Result<Vec<u8>> {
    let placed = options::place(options, &[TABLE]);
    let thinks = thinks(request, options);
    let stores = placed.get("store").and_then(Value::as_bool).unwrap_or(true);
    let system: Vec<&str> = request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let system = system.join("\n");
    let mode = options.get("systemMessageMode").and_then(Value::as_str);
    let role = match mode {
        Some("system") => "system",
        Some("developer") => "developer",
        _ if thinks => "developer",
        _ => "system",
    };
    let shape = Shape {
        vendor: target.vendor,
        stores,
        system: (!system.is_empty() && !target.on_chatgpt && mode != Some("remove")).then_some((role, system.clone())),
    };
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| Tool {
            kind: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: schema::openai(&tool.parameters),
            strict: false,
        })
        .collect();
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
    };
    let mut settings = JsonMap::from_iter([("model".to_owned(), json!(request.model))]);
    if target.on_chatgpt {
        settings.insert("instructions".into(), json!(system));
    } else if target.has_limit && request.max_output_tokens > 0 {
        settings.insert("max_output_tokens".into(), json!(request.max_output_tokens));
    }
    sample(request, options, thinks, &mut settings);
    let ours = |name: &str| !placed.contains_key(name);
    let tool_choice = (!tools.is_empty() && ours("tool_choice")).then_some(choice);
    options::merge(&mut settings, placed);
    include(thinks && !stores, &mut settings);
    if !thinks {
        // A model that doesn't think refuses to be told how to.
        settings.remove("reasoning");
    }
    options::drop_nulls(&mut settings);
    serde_json::to_vec(&Body { settings, input: input(request, shape), tools, tool_choice, stream: true })
}

/// Returns whether the model thinks, by what is said of it or by its name.
fn thinks(request: &ModelRequest, options: &JsonMap) -> bool {
    let model = request.model.rsplit('/').next().unwrap_or_default();
    let is_named = ["o1", "o3", "o4-mini", "codex-mini", "computer-use", "gpt-5", "gpt-6"]
        .iter()
        .any(|name| model.starts_with(name))
        && !model.starts_with("gpt-5-chat");
    let is_told = ["reasoningEffort", "reasoningSummary", "reasoning"]
        .iter()
        .any(|name| options.get(*name).is_some_and(|value| !value.is_null()));
    request.reasoning.is_some() || is_named || is_told
}

/// Thinking models refuse to be told how to sample, unless they are told not to think.
fn sample(request: &ModelRequest, options: &JsonMap, thinks: bool, settings: &mut JsonMap) {
    let rests = options.get("reasoningEffort").is_some_and(|effort| effort == "none");
    if thinks && !rests {
        return;
    }
    for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            settings.insert(name.into(), json!(value));
        }
    }
}

/// What isn't kept at the vendor must come to us, to go back.
fn include(wanted: bool, settings: &mut JsonMap) {
    let included = settings.entry("include").or_insert_with(|| json!([]));
    if let Value::Array(names) = included {
        if wanted && !names.iter().any(|name| name == ENCRYPTED) {
            names.push(json!(ENCRYPTED));
        }
        if names.is_empty() {
            settings.remove("include");
        }
    }
}
