//! How hard a model may be told to think: its variants, each a set of options in the words of its package.
//!
//! | package | variants |
//! |---|---|
//! | OpenAI, Azure, Bedrock's mantle | efforts by the model's age, summaries and sealed thoughts with them |
//! | Copilot | the same; a budget for Claude, none for Gemini |
//! | Anthropic, Vertex | four efforts for models that adapt, else two budgets within the limit |
//! | Bedrock | four efforts for Claude that adapts, two budgets for older ones, else three efforts |
//! | Gemini, Vertex | two levels for Gemini 3, two budgets for 2.5 |
//! | OpenRouter, gateways | efforts, for the models they know them of |
//! | Groq | low, medium, high, none |
//! | Mistral, Cohere, Perplexity | none |
//! | others | low, medium, high |
//!
//! Models that think as they like (DeepSeek, GLM, Kimi, MiniMax, Mistral, most Grok) have none. Source: OpenCode 1.18,
//! `provider/transform.ts`, `variants`.

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::provider::Model;
use serde_json::{Value, json};

use crate::vendors::{
    ANTHROPIC, AZURE, BEDROCK, COPILOT, GOOGLE, MANTLE, OPENAI, OPENROUTER, VERTEX, VERTEX_ANTHROPIC,
};

/// Efforts most models know.
const COMMON: [&str; 3] = ["low", "medium", "high"];
/// All there are.
const ALL: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];

type Variants = IndexMap<String, JsonMap>;

/// Returns the variants of a model by name; none for one that doesn't think, or not by order.
pub fn variants(model: &Model) -> Variants {
    if !model.capabilities.reasoning {
        return Variants::new();
    }
    let id = model.id.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| id.contains(name));
    let npm = model.api.npm.as_str();
    if is(&["grok-3-mini"]) {
        return efforts(&["low", "high"], |effort| match npm {
            OPENROUTER => json!({ "reasoning": { "effort": effort } }),
            _ => json!({ "reasoningEffort": effort }),
        });
    }
    // On any server but one that passes an effort on by its own rules.
    let is_free = is(&["deepseek", "glm", "grok", "k2p5", "kimi", "minimax", "mistral"]);
    if is_free {
        return Variants::new();
    }
    match npm {
        OPENROUTER if is(&["gpt", "gemini-3", "claude"]) => {
            efforts(&ALL, |effort| json!({ "reasoning": { "effort": effort } }))
        }
        OPENROUTER => Variants::new(),
        "@ai-sdk/gateway" if is(&["anthropic", "claude"]) => anthropic(model, &id),
        "@ai-sdk/gateway" if is(&["gemini"]) => gemini(&id),
        "@ai-sdk/gateway" => efforts(&ALL, |effort| json!({ "reasoningEffort": effort })),
        COPILOT if is(&["gemini"]) => Variants::new(),
        COPILOT if is(&["claude"]) => Variants::from_iter([named("thinking", json!({ "thinking_budget": 4_000 }))]),
        COPILOT if is(&["5.1-codex-max", "5.2", "5.3", "5.4", "5.5", "5.6"]) => {
            efforts(&["low", "medium", "high", "xhigh"], sealed)
        }
        COPILOT => efforts(&COMMON, sealed),
        OPENAI | AZURE | MANTLE => openai(model, &id),
        ANTHROPIC | VERTEX_ANTHROPIC => anthropic(model, &id),
        BEDROCK => bedrock(&id),
        GOOGLE | VERTEX => gemini(&id),
        "@ai-sdk/groq" => efforts(&["none", "low", "medium", "high"], |effort| json!({ "reasoningEffort": effort })),
        "@ai-sdk/mistral" | "@ai-sdk/cohere" | "@ai-sdk/perplexity" => Variants::new(),
        _ => efforts(&COMMON, |effort| json!({ "reasoningEffort": effort })),
    }
}

fn named(name: &str, options: Value) -> (String, JsonMap) {
    let options = if let Value::Object(options) = options { options } else { JsonMap::new() };
    (name.to_owned(), options)
}

fn efforts(names: &[&str], options: impl Fn(&str) -> Value) -> Variants {
    names.iter().map(|name| named(name, options(name))).collect()
}

/// An effort, with the thoughts summarised for people and sealed for the model.
fn sealed(effort: &str) -> Value {
    json!({ "reasoningEffort": effort, "reasoningSummary": "auto", "include": ["reasoning.encrypted_content"] })
}

fn openai(model: &Model, id: &str) -> Variants {
    if id == "gpt-5-pro" || id == "o1-mini" {
        return Variants::new();
    }
    let version = minor(id);
    let is_codex = id.contains("codex");
    let mut names: Vec<&str> = COMMON.to_vec();
    if !is_codex && (id == "gpt-5" || id.starts_with("gpt-5-")) {
        names.insert(0, "minimal");
    }
    // Known by the date, or where that is unknown by the version.
    let since = |date: &str, first: u32| match model.release_date.as_str() {
        "" => version.is_some_and(|minor| minor >= first),
        released => released >= date,
    };
    let by_date = model.api.npm != AZURE && !is_codex;
    if by_date && since("2025-11-13", 1) {
        names.insert(0, "none");
    }
    let codex_may = is_codex && version.is_some_and(|minor| minor >= 2);
    if codex_may || by_date && since("2025-12-04", 2) {
        names.push("xhigh");
    }
    efforts(&names, sealed)
}

/// Returns the number behind `gpt-5.`.
fn minor(id: &str) -> Option<u32> {
    let (_, behind) = id.split_once("gpt-5.")?;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn anthropic(model: &Model, id: &str) -> Variants {
    if crate::anthropic::adapts(id) {
        return efforts(
            &["low", "medium", "high", "max"],
            |effort| json!({ "thinking": { "type": "adaptive" }, "effort": effort }),
        );
    }
    let output = model.limit.output.max(2);
    let budget = |most: u64| json!({ "thinking": { "type": "enabled", "budgetTokens": most } });
    Variants::from_iter([
        named("high", budget((output / 2).saturating_sub(1).min(16_000))),
        named("max", budget((output - 1).min(31_999))),
    ])
}

fn bedrock(id: &str) -> Variants {
    let config = |config: Value| json!({ "reasoningConfig": config });
    if crate::anthropic::adapts(id) {
        return efforts(&["low", "medium", "high", "max"], |effort| {
            config(json!({ "type": "adaptive", "maxReasoningEffort": effort }))
        });
    }
    if id.contains("anthropic") {
        let budget = |name, most: u64| named(name, config(json!({ "type": "enabled", "budgetTokens": most })));
        return Variants::from_iter([budget("high", 16_000), budget("max", 31_999)]);
    }
    efforts(&COMMON, |effort| config(json!({ "type": "enabled", "maxReasoningEffort": effort })))
}

fn gemini(id: &str) -> Variants {
    let thinking = |name: &str, value: Value| json!({ "thinkingConfig": { "includeThoughts": true, name: value } });
    if id.contains("2.5") {
        return Variants::from_iter([
            named("high", thinking("thinkingBudget", json!(16_000))),
            named("max", thinking("thinkingBudget", json!(24_576))),
        ]);
    }
    efforts(&["low", "high"], |level| thinking("thinkingLevel", json!(level)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::models::ModelList;

    fn of(npm: &str, id: &str, date: &str) -> Value {
        let list = ModelList::built_in();
        let listed = list.provider("anthropic").expect("a provider");
        let (_, mut model) = list.models(listed).expect("models").into_iter().next().expect("a model");
        (model.id, model.api.npm, model.release_date) = (id.into(), npm.into(), date.into());
        (model.capabilities.reasoning, model.limit.output) = (true, 64_000);
        json!(variants(&model))
    }

    fn names(npm: &str, id: &str, date: &str) -> Vec<String> {
        of(npm, id, date).as_object().expect("an object").keys().cloned().collect()
    }

    #[test]
    fn each_package_has_its_own() {
        assert_eq!(names(OPENAI, "gpt-5", "2025-08-07"), ["minimal", "low", "medium", "high"]);
        assert_eq!(names(OPENAI, "gpt-5.1", ""), ["none", "low", "medium", "high"]);
        assert_eq!(names(OPENAI, "gpt-5.4", ""), ["none", "low", "medium", "high", "xhigh"]);
        assert_eq!(names(OPENAI, "gpt-5.3-codex", ""), ["low", "medium", "high", "xhigh"]);
        assert_eq!(names(OPENAI, "o3", "2025-04-16"), COMMON);
        assert_eq!(names(AZURE, "gpt-5.4", ""), COMMON);
        assert_eq!(names(ANTHROPIC, "claude-sonnet-4-5", ""), ["high", "max"]);
        assert_eq!(names(ANTHROPIC, "claude-opus-4-6", ""), ["low", "medium", "high", "max"]);
        assert_eq!(names(BEDROCK, "eu.anthropic.claude-opus-4-6-v1", ""), ["low", "medium", "high", "max"]);
        assert_eq!(names(BEDROCK, "anthropic.claude-haiku-4-5-20251001-v1:0", ""), ["high", "max"]);
        assert_eq!(names(BEDROCK, "amazon.nova-2-lite-v1:0", ""), COMMON);
        assert_eq!(names(GOOGLE, "gemini-2.5-pro", ""), ["high", "max"]);
        assert_eq!(names(GOOGLE, "gemini-3-pro", ""), ["low", "high"]);
        assert_eq!(names(OPENROUTER, "openai/gpt-5", ""), ALL);
        assert_eq!(names("@ai-sdk/openai-compatible", "thinker", ""), COMMON);
        for (npm, id) in [(OPENROUTER, "x/y"), ("@ai-sdk/openai-compatible", "deepseek-r1"), (COPILOT, "gemini-3")] {
            assert_eq!(names(npm, id, ""), [""; 0], "{npm} {id}");
        }
    }

    #[test]
    fn a_variant_brings_the_options_of_its_package() {
        assert_eq!(
            of(BEDROCK, "us.anthropic.claude-sonnet-4-6", "")["max"],
            json!({ "reasoningConfig": { "type": "adaptive", "maxReasoningEffort": "max" } })
        );
        assert_eq!(
            of(OPENAI, "gpt-5", "2025-08-07")["low"],
            json!({ "reasoningEffort": "low", "reasoningSummary": "auto", "include": ["reasoning.encrypted_content"] })
        );
        assert_eq!(
            of(ANTHROPIC, "claude-sonnet-4-5", "")["max"],
            json!({ "thinking": { "type": "enabled", "budgetTokens": 31_999 } })
        );
        assert_eq!(
            of(GOOGLE, "gemini-2.5-flash", "")["max"],
            json!({ "thinkingConfig": { "includeThoughts": true, "thinkingBudget": 24_576 } })
        );
    }
}
