//! A request as the vendor's JSON; its messages are in [`super::contents`].

use protocol::JsonMap;
use protocol::model::{ModelRequest, ToolChoice};
use serde_json::json;

use super::contents::{contents, text};
use super::wire::{Body, Declaration, System, Tools};
use crate::options::{self, Place, Table};
use crate::schema;

/// Options by their places.
const TABLE: Table = &[
    ("thinkingConfig", Place::At(&["generationConfig", "thinkingConfig"])),
    // As some variants write it.
    ("includeThoughts", Place::At(&["generationConfig", "thinkingConfig", "includeThoughts"])),
    ("thinkingLevel", Place::At(&["generationConfig", "thinkingConfig", "thinkingLevel"])),
    ("thinkingBudget", Place::At(&["generationConfig", "thinkingConfig", "thinkingBudget"])),
    ("reasoningEffort", Place::At(&["generationConfig", "thinkingConfig", "thinkingLevel"])),
    ("responseModalities", Place::At(&["generationConfig", "responseModalities"])),
    ("mediaResolution", Place::At(&["generationConfig", "mediaResolution"])),
    ("imageConfig", Place::At(&["generationConfig", "imageConfig"])),
    ("audioTimestamp", Place::At(&["generationConfig", "audioTimestamp"])),
    ("topK", Place::At(&["generationConfig", "topK"])),
    ("seed", Place::At(&["generationConfig", "seed"])),
    ("retrievalConfig", Place::At(&["toolConfig", "retrievalConfig"])),
    ("structuredOutputs", Place::Nowhere),
    ("threshold", Place::Nowhere),
    // Of other vendors' formats.
    ("thinking", Place::Nowhere),
    ("effort", Place::Nowhere),
    ("reasoningSummary", Place::Nowhere),
    ("promptCacheKey", Place::Nowhere),
    ("store", Place::Nowhere),
    ("include", Place::Nowhere),
    ("contents", Place::Nowhere),
    ("tools", Place::Nowhere),
];

/// Returns the body of the request.
pub(super) fn body(request: &ModelRequest, options: JsonMap) -> serde_json::Result<Vec<u8>> {
    let system: Vec<_> =
        request.system.iter().filter(|said| !said.trim().is_empty()).map(|said| text(said.as_str())).collect();
    // Gemma takes no instruction of the system: it stands before what the person says.
    let is_gemma = request.model.to_ascii_lowercase().contains("gemma-");
    let mut contents = contents(request);
    let mut system_instruction = None;
    if is_gemma {
        if let Some(first) = contents.first_mut() {
            first.parts.splice(0..0, system);
        }
    } else if !system.is_empty() {
        system_instruction = Some(System { parts: system });
    }
    let declarations: Vec<Declaration> = request
        .tools
        .iter()
        .map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters: schema::gemini(&tool.parameters),
        })
        .collect();
    let tools = if declarations.is_empty() { Vec::new() } else { vec![Tools { function_declarations: declarations }] };
    serde_json::to_vec(&Body { settings: settings(request, options), system_instruction, contents, tools })
}

fn settings(request: &ModelRequest, options: JsonMap) -> JsonMap {
    let mut generation = JsonMap::new();
    if request.max_output_tokens > 0 {
        generation.insert("maxOutputTokens".into(), json!(request.max_output_tokens));
    }
    for (name, value) in [("temperature", request.temperature), ("topP", request.top_p)] {
        if let Some(value) = value {
            generation.insert(name.into(), json!(value));
        }
    }
    let mut settings = JsonMap::from_iter([("generationConfig".to_owned(), json!(generation))]);
    if !request.tools.is_empty() {
        let mode = if request.tool_choice == ToolChoice::Required { "ANY" } else { "AUTO" };
        settings.insert("toolConfig".into(), json!({ "functionCallingConfig": { "mode": mode } }));
    }
    options::merge(&mut settings, options::place(&by_budget(request, options), &[TABLE]));
    options::drop_nulls(&mut settings);
    settings
}

/// Models before Gemini 3 know no levels of effort: it is a budget, as Google's own compatible API has it.
/// Source: <https://ai.google.dev/gemini-api/docs/openai#thinking>.
fn by_budget(request: &ModelRequest, mut options: JsonMap) -> JsonMap {
    if request.model.to_ascii_lowercase().contains("gemini-3") {
        return options;
    }
    let budget = match options.get("reasoningEffort").and_then(|effort| effort.as_str()) {
        Some("none") => 0,
        Some("minimal" | "low") => 1_024,
        Some("medium") => 8_192,
        Some(_) => 24_576,
        None => return options,
    };
    options.remove("reasoningEffort");
    options.insert("thinkingBudget".into(), json!(budget));
    options
}
