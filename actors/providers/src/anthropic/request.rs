//! A request as the vendor's JSON; its messages are in [`super::messages`].

use std::borrow::Cow;

use protocol::JsonMap;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, ToolChoice};
use serde_json::{Value, json};

use super::cache::mark_system;
use super::messages::{VENDOR, messages, signed};
use super::model;
use super::wire::{Block, Body, Kind, Tool};
use crate::options::{self, Place, Table};
use crate::schema;

/// Options by their places.
const TABLE: Table = &[
    ("thinking", Place::Snake(&["thinking"])),
    ("effort", Place::At(&["output_config", "effort"])),
    ("reasoningEffort", Place::At(&["output_config", "effort"])),
    ("disableParallelToolUse", Place::At(&["tool_choice", "disable_parallel_tool_use"])),
    ("cacheControl", Place::Snake(&["cache_control"])),
    ("contextManagement", Place::Snake(&["context_management"])),
    ("mcpServers", Place::Snake(&["mcp_servers"])),
    ("metadata", Place::Snake(&["metadata"])),
    ("container", Place::Snake(&["container"])),
    ("serviceTier", Place::At(&["service_tier"])),
    ("inferenceGeo", Place::At(&["inference_geo"])),
    ("topK", Place::At(&["top_k"])),
    ("anthropicBeta", Place::Nowhere),
    ("sendReasoning", Place::Nowhere),
    ("structuredOutputMode", Place::Nowhere),
    ("toolStreaming", Place::Nowhere),
    // Of OpenAI's formats.
    ("reasoningSummary", Place::Nowhere),
    ("promptCacheKey", Place::Nowhere),
    ("store", Place::Nowhere),
    ("include", Place::Nowhere),
    ("messages", Place::Nowhere),
    ("system", Place::Nowhere),
    ("tools", Place::Nowhere),
    ("stream", Place::Nowhere),
];

/// Most tokens of an answer where nobody says; the vendor wants a number.
const MOST: u64 = 4_096;
/// Fewest tokens of thinking the vendor takes.
const LEAST_THINKING: u64 = 1_024;

/// Returns the body of the request. `version` is the vendor's where it goes into the body, and the model then doesn't.
pub(super) fn body(
    request: &ModelRequest,
    options: &JsonMap,
    version: Option<&'static str>,
) -> serde_json::Result<Vec<u8>> {
    let placed = place(options);
    let has_own_cache = placed.contains_key("cache_control");
    let sends_thinking = options.get("sendReasoning").and_then(Value::as_bool).unwrap_or(true);
    let mut system: Vec<Block> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| Block { kind: Kind::Text { text: text.into() }, cache_control: None })
        .collect();
    if !has_own_cache {
        mark_system(&mut system);
    }
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: schema::object(&tool.parameters),
        })
        .collect();
    serde_json::to_vec(&Body {
        settings: settings(request, placed, VENDOR, version, sends_thinking),
        system,
        messages: messages(request, VENDOR, sends_thinking, !has_own_cache),
        tools,
        stream: true,
    })
}

/// Returns the options at their places.
pub(crate) fn place(options: &JsonMap) -> JsonMap {
    options::place(options, &[TABLE])
}

/// Returns all of the body but the conversation and the tools. `vendor`: under which name signatures are kept.
pub(crate) fn settings(
    request: &ModelRequest,
    options: JsonMap,
    vendor: &str,
    version: Option<&'static str>,
    sends_thinking: bool,
) -> JsonMap {
    let mut settings = JsonMap::new();
    match version {
        Some(version) => settings.insert("anthropic_version".into(), json!(version)),
        None => settings.insert("model".into(), json!(request.model)),
    };
    settings.insert("max_tokens".into(), json!(limit(request)));
    for (name, value) in [("temperature", request.temperature), ("top_p", request.top_p)] {
        if let Some(value) = value {
            settings.insert(name.into(), json!(value));
        }
    }
    if !request.tools.is_empty() {
        let choice = if request.tool_choice == ToolChoice::Required { "any" } else { "auto" };
        settings.insert("tool_choice".into(), json!({ "type": choice }));
    }
    options::merge(&mut settings, options);
    if request.tools.is_empty() {
        settings.remove("tool_choice");
    }
    think(request, &mut settings, vendor, sends_thinking);
    options::drop_nulls(&mut settings);
    settings
}

fn limit(request: &ModelRequest) -> u64 {
    let most = model::most_tokens(&request.model);
    match request.max_output_tokens {
        0 => most.unwrap_or(MOST).min(32_000),
        wanted => most.map_or(wanted, |most| wanted.min(most)),
    }
}

/// Brings thinking and what it excludes into agreement.
fn think(request: &ModelRequest, settings: &mut JsonMap, vendor: &str, sends_thinking: bool) {
    let kind = settings.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
    let budgeted = kind == Some("enabled");
    let mut thinks = budgeted || kind == Some("adaptive");
    if budgeted {
        thinks = !breaks_off_thinking(request, vendor, sends_thinking) && fit_budget(request, settings);
    }
    if budgeted && !thinks {
        settings.remove("thinking");
    }
    if thinks {
        // While it thinks, a tool can't be forced, and samples are as they are.
        if let Some(choice) = settings.get_mut("tool_choice").and_then(Value::as_object_mut) {
            choice.insert("type".into(), json!("auto"));
        }
        ["temperature", "top_p", "top_k"].iter().for_each(|name| drop(settings.remove(*name)));
    } else if model::refuses_sampling(&request.model) {
        ["temperature", "top_p", "top_k"].iter().for_each(|name| drop(settings.remove(*name)));
    } else if settings.get("temperature").is_some_and(|value| !value.is_null()) {
        // Newer models refuse both.
        settings.remove("top_p");
    }
}

/// Adds the budget to the limit, within the model's; returns whether there is room to think.
fn fit_budget(request: &ModelRequest, settings: &mut JsonMap) -> bool {
    let budget = settings.get("thinking").and_then(|thinking| thinking.get("budget_tokens")).and_then(Value::as_u64);
    let budget = budget.unwrap_or(LEAST_THINKING);
    let limit = settings.get("max_tokens").and_then(Value::as_u64).unwrap_or(MOST);
    let whole = limit.saturating_add(budget);
    let whole = model::most_tokens(&request.model).map_or(whole, |most| whole.min(most));
    let budget = budget.min(whole.saturating_sub(1));
    if let Some(Value::Object(thinking)) = settings.get_mut("thinking") {
        thinking.insert("budget_tokens".into(), json!(budget));
    }
    if budget < LEAST_THINKING {
        return false;
    }
    settings.insert("max_tokens".into(), json!(whole));
    true
}

/// Returns whether the model waits for results of calls it made without thinking, or whose thinking can't go back: the
/// vendor then refuses to let it think until the turn is over.
fn breaks_off_thinking(request: &ModelRequest, vendor: &str, sends_thinking: bool) -> bool {
    let of_turn = request.messages.iter().rev().take_while(|message| !matches!(message, ModelMessage::User(_)));
    let mut steps = of_turn.filter_map(|message| match message {
        ModelMessage::Assistant(parts) => Some(parts),
        _ => None,
    });
    let begins_with_thinking = |parts: &Vec<AssistantContent>| match parts.first() {
        Some(AssistantContent::Reasoning { metadata, .. }) => {
            sends_thinking && signed(metadata.as_ref(), vendor).is_some()
        }
        _ => false,
    };
    steps.any(|parts| !begins_with_thinking(parts))
}

/// Returns the betas the request needs.
pub(super) fn betas(request: &ModelRequest, options: &JsonMap, on_vertex: bool) -> Vec<String> {
    let has = |name: &str| options.get(name).is_some_and(|value| !value.is_null());
    let is_claude = request.model.contains("claude");
    let streams_tools = options.get("toolStreaming").and_then(Value::as_bool).unwrap_or(true);
    let mut betas: Vec<Cow<'_, str>> = Vec::new();
    if is_claude && !on_vertex && !request.tools.is_empty() {
        betas.push("interleaved-thinking-2025-05-14".into());
        if streams_tools {
            betas.push("fine-grained-tool-streaming-2025-05-14".into());
        }
    }
    if is_claude && (has("effort") || has("reasoningEffort")) {
        betas.push("effort-2025-11-24".into());
    }
    if options.get("speed").is_some_and(|speed| speed == "fast") {
        betas.push("fast-mode-2026-02-01".into());
    }
    if has("contextManagement") {
        betas.push("context-management-2025-06-27".into());
    }
    if has("mcpServers") {
        betas.push("mcp-client-2025-04-04".into());
    }
    let own = options.get("anthropicBeta").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    betas.extend(own.map(Cow::from));
    betas.into_iter().map(Cow::into_owned).collect()
}
