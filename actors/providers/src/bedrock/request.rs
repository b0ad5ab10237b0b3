//! A request as the vendor's JSON.

use std::borrow::Cow;

use protocol::JsonMap;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest};
use serde_json::{Value, json};

use super::VENDOR;
use super::wire::{Block, Body, Schema, Tool, ToolConfig, messages};
use crate::anthropic::messages as theirs;
use crate::anthropic::request;
use crate::names::tool_name;
use crate::{options, schema};

/// Options that are fields of the request, not the model's own.
const OWN: [&str; 7] = [
    "additionalModelRequestFields",
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "performanceConfig",
    "promptVariables",
    "requestMetadata",
    "serviceTier",
];

/// Begin the ids of models that are answered in several regions.
const PREFIXES: [&str; 6] = ["global.", "us.", "eu.", "jp.", "apac.", "au."];

/// Models before prompts could be kept.
const NO_CACHE: [&str; 6] =
    ["claude-v2", "claude-instant", "claude-3-haiku", "claude-3-sonnet", "claude-3-opus", "claude-3-5-sonnet"];

/// Returns the id of a model in a region: some are only to be had in several at once, by an id with a prefix.
/// Source: OpenCode 1.18, `provider/provider.ts`, `amazon-bedrock`.
pub(super) fn model_in(model: &str, region: &str) -> String {
    let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
    let is_named = PREFIXES.iter().any(|prefix| model.starts_with(prefix)) || model.starts_with("arn:");
    let novas = ["claude", "nova-lite", "nova-micro", "nova-pro"];
    let prefix = match region.split('-').next().unwrap_or_default() {
        _ if is_named => None,
        "us" if region.starts_with("us-gov") => None,
        "us" => is(&["nova-micro", "nova-lite", "nova-pro", "nova-premier", "nova-2", "claude", "deepseek.r1"])
            .then_some("us"),
        "eu" => is(&["claude", "nova-lite", "nova-micro", "llama3", "pixtral"]).then_some("eu"),
        "ap" => match region {
            "ap-southeast-2" | "ap-southeast-4" if is(&["anthropic.claude-sonnet-4-5", "anthropic.claude-haiku"]) => {
                Some("au")
            }
            "ap-southeast-2" | "ap-southeast-4" => None,
            "ap-northeast-1" => is(&novas).then_some("jp"),
            _ => is(&novas).then_some("apac"),
        },
        _ => None,
    };
    match prefix {
        Some(prefix) => format!("{prefix}.{model}"),
        None => model.to_owned(),
    }
}

/// Returns the body of the request.
pub(super) fn body(request: &ModelRequest, options: &JsonMap) -> serde_json::Result<Vec<u8>> {
    let is_claude = request.model.contains("claude");
    let sends_thinking = options.get("sendReasoning").and_then(Value::as_bool).unwrap_or(true);
    let marks = is_claude && !NO_CACHE.iter().any(|name| request.model.contains(name));
    let mut settings = settings(request, options, is_claude, sends_thinking);
    let mut tool_choice = settings.remove("toolChoice").unwrap_or_else(|| json!({ "auto": {} }));
    let mut system: Vec<Block<'_>> = Vec::new();
    for said in request.system.iter().filter(|said| !said.trim().is_empty()) {
        system.push(Block::Text(said.into()));
    }
    if marks && !system.is_empty() {
        system.push(Block::CachePoint { r#type: "default" });
        if system.len() > 2 {
            system.insert(1, Block::CachePoint { r#type: "default" });
        }
    }
    let conversation = messages(theirs::messages(request, VENDOR, sends_thinking, marks));
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| spec(tool.name.as_str().into(), &tool.description, schema::object(&tool.parameters)))
        .collect();
    if tools.is_empty() {
        // Calls in the history are refused without a tool on offer.
        tool_choice = json!({ "auto": {} });
        tools.extend(
            called(request).into_iter().map(|name| {
                spec(name.into(), "No longer there: don't call it.", Cow::Owned(json!({ "type": "object" })))
            }),
        );
    }
    let tool_config = (!tools.is_empty()).then_some(ToolConfig { tools, tool_choice });
    serde_json::to_vec(&Body { settings, system, messages: conversation, tool_config })
}

fn spec<'a>(name: Cow<'a, str>, description: &'a str, json: Cow<'a, Value>) -> Tool<'a> {
    Tool::ToolSpec { name, description: description.trim(), input_schema: Schema { json } }
}

/// Returns the names of the tools the history has calls to.
fn called(request: &ModelRequest) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for message in &request.messages {
        let ModelMessage::Assistant(parts) = message else { continue };
        for part in parts {
            let AssistantContent::Call { tool, .. } = part else { continue };
            let name = tool_name(tool);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the fields but the conversation and the tools, and `toolChoice` among them. What they exclude is brought into
/// agreement by Anthropic's rules; all that this vendor has no field for goes to the model.
fn settings(request: &ModelRequest, options: &JsonMap, is_claude: bool, sends_thinking: bool) -> JsonMap {
    let mut options = options.clone();
    let mut own = JsonMap::new();
    for name in OWN {
        own.extend(options.remove_entry(name));
    }
    let betas = options.remove("anthropicBeta");
    let stop = options.remove("stopSequences");
    // A default for OpenAI's models, which has no word here.
    options.remove("textVerbosity");
    let mut of_model = JsonMap::new();
    let mut unset = false;
    if let Some(Value::Object(thinking)) = options.remove("reasoningConfig") {
        unset = reason(request, thinking, is_claude, &mut options, &mut of_model);
    } else if !is_claude
        && let Some(effort) = options.remove("reasoningEffort")
        && request.model.contains("openai.")
    {
        of_model.insert("reasoning_effort".into(), effort);
    }
    let mut theirs = request::settings(request, request::place(&options), VENDOR, Some(""), sends_thinking);
    for name in ["anthropic_version", "cache_control", "metadata", "service_tier", "container", "mcp_servers"] {
        theirs.remove(name);
    }
    let mut inference = JsonMap::new();
    let mut own_choice = None;
    for (name, value) in theirs {
        match name.as_str() {
            "max_tokens" => drop(inference.insert("maxTokens".into(), value)),
            "temperature" => drop(inference.insert("temperature".into(), value)),
            "top_p" => drop(inference.insert("topP".into(), value)),
            "tool_choice" => own_choice = value.get("type").and_then(Value::as_str).map(|kind| json!({ kind: {} })),
            "output_config" if !is_claude => {}
            _ => drop(of_model.insert(name, value)),
        }
    }
    if let (false, Some(top_p)) = (is_claude, request.top_p) {
        // Only Claude refuses it beside a temperature.
        inference.insert("topP".into(), json!(top_p));
    }
    if let Some(stop) = stop.filter(Value::is_array) {
        inference.insert("stopSequences".into(), stop);
    }
    if let Some(betas) = betas.filter(Value::is_array) {
        of_model.insert("anthropic_beta".into(), betas);
    }
    if unset {
        inference.clear();
    }
    let mut settings = JsonMap::new();
    if !inference.is_empty() {
        settings.insert("inferenceConfig".into(), inference.into());
    }
    if !of_model.is_empty() {
        settings.insert("additionalModelRequestFields".into(), of_model.into());
    }
    options::merge(&mut settings, own);
    options::drop_nulls(&mut settings);
    if let Some(choice) = own_choice {
        settings.insert("toolChoice".into(), choice);
    }
    settings
}

/// Puts OpenCode's word for thinking into those of the model's vendor. Returns whether nothing else may be set.
/// Source: <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html> for Amazon's own.
fn reason(
    request: &ModelRequest,
    mut thinking: JsonMap,
    is_claude: bool,
    options: &mut JsonMap,
    of_model: &mut JsonMap,
) -> bool {
    let effort = thinking.remove("maxReasoningEffort").filter(|effort| !effort.is_null());
    if is_claude {
        if thinking.contains_key("type") {
            options.insert("thinking".into(), thinking.into());
        }
        if let Some(effort) = effort {
            options.insert("effort".into(), effort);
        }
        return false;
    }
    options.remove("reasoningEffort");
    if request.model.contains("openai.") {
        of_model.extend(effort.map(|effort| ("reasoning_effort".to_owned(), effort)));
        return false;
    }
    let unset = effort.as_ref().is_some_and(|effort| effort == "high");
    if request.model.contains("amazon.") {
        thinking.remove("budgetTokens");
        thinking.extend(effort.map(|effort| ("maxReasoningEffort".to_owned(), effort)));
        of_model.insert("reasoningConfig".into(), thinking.into());
        return unset;
    }
    false
}
