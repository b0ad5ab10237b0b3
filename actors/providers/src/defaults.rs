//! What OpenCode asks of a model when nobody said otherwise; the request's own options go before it.
//!
//! Source: OpenCode 1.18, `provider/transform.ts`, `options`, and its requests on the wire.

use protocol::JsonMap;
use protocol::model::ModelRequest;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::options::merge;
use crate::vendors::{ANTHROPIC, AZURE, COPILOT, GOOGLE, MANTLE, OPENAI, OPENROUTER, VERTEX, VERTEX_ANTHROPIC};

/// What thinking models of OpenAI's give back in place of their thoughts.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// Returns the options of a request over the defaults for its model.
pub(crate) fn with(endpoint: &Endpoint, request: &ModelRequest) -> JsonMap {
    let mut options = defaults(endpoint, request);
    merge(&mut options, request.options.clone());
    options
}

fn defaults(endpoint: &Endpoint, request: &ModelRequest) -> JsonMap {
    let mut options = JsonMap::new();
    let mut set = |name: &str, value: Value| drop(options.insert(name.to_owned(), value));
    let (npm, provider) = (endpoint.npm.as_str(), endpoint.provider_id.as_str());
    let model = request.model.to_ascii_lowercase();
    let thinks = request.reasoning.is_some();
    let session = || json!(request.session_id.as_str());
    let is_openai = matches!(npm, OPENAI | AZURE | MANTLE);
    let on_azures_chat = npm == AZURE && endpoint.is_set("useCompletionUrls");

    if (is_openai && !on_azures_chat) || npm == COPILOT && crate::copilot::has_responses(&model) {
        set("store", json!(false));
    }
    match npm {
        VERTEX_ANTHROPIC => set("toolStreaming", json!(false)),
        ANTHROPIC if !model.contains("claude") => set("toolStreaming", json!(false)),
        OPENROUTER => {
            set("usage", json!({ "include": true }));
            if model.contains("gemini-3") {
                set("reasoning", json!({ "effort": "high" }));
            }
        }
        GOOGLE | VERTEX if thinks => {
            let mut thinking = json!({ "includeThoughts": true });
            if model.contains("gemini-3") {
                thinking["thinkingLevel"] = json!("high");
            }
            set("thinkingConfig", thinking);
        }
        _ => {}
    }
    if matches!(npm, ANTHROPIC | VERTEX_ANTHROPIC) && thinks {
        // These speak Anthropic's format, but think only when asked to, and by effort.
        if ["kimi", "moonshot"].iter().any(|name| model.contains(name) || provider.contains(name)) {
            set("thinking", json!({ "type": "adaptive", "display": "summarized" }));
            set("effort", json!("high"));
        } else if model.contains("minimax-m3") {
            set("thinking", json!({ "type": "adaptive" }));
        }
    }
    if npm == "@ai-sdk/openai-compatible" {
        if ["zai", "zhipuai"].iter().any(|name| provider.contains(name)) {
            set("thinking", json!({ "type": "enabled", "clear_thinking": false }));
        }
        if provider == "alibaba-cn" && thinks && !model.contains("kimi-k2-thinking") {
            set("enable_thinking", json!(true));
        }
    }
    if provider == "baseten" || provider == "opencode" && ["kimi-k2-thinking", "glm-4.6"].contains(&model.as_str()) {
        set("chat_template_args", json!({ "enable_thinking": true }));
    }
    let cache_key = endpoint.options.get("setCacheKey").and_then(Value::as_bool);
    let knows_cache_keys = is_openai
        || matches!(
            npm,
            "@ai-sdk/cerebras" | "@ai-sdk/deepinfra" | "@ai-sdk/mistral" | "@ai-sdk/xai" | "venice-ai-sdk-provider"
        );
    if cache_key.unwrap_or(knows_cache_keys) {
        set("promptCacheKey", session());
    }
    gpt_5(npm, provider, &model, on_azures_chat, &mut set);
    options
}

fn gpt_5(npm: &str, provider: &str, model: &str, on_azures_chat: bool, set: &mut impl FnMut(&str, Value)) {
    if !model.contains("gpt-5") || model.contains("gpt-5-chat") {
        return;
    }
    if on_azures_chat {
        // From 5.5 on they take no effort there.
        let minor = model.split_once("gpt-5.").and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
        if minor.and_then(|minor| minor.parse::<u32>().ok()).is_none_or(|minor| minor < 5) {
            set("reasoningEffort", json!("medium"));
        }
        return;
    }
    if !model.contains("gpt-5-pro") {
        set("reasoningEffort", json!("medium"));
        if matches!(npm, OPENAI | AZURE | MANTLE | COPILOT) {
            set("reasoningSummary", json!("auto"));
        }
        if matches!(npm, OPENAI | MANTLE) {
            set("include", json!([ENCRYPTED]));
        }
    }
    let has_verbosity = model.contains("gpt-5.") && !model.contains("codex") && !model.contains("-chat");
    if has_verbosity && provider != "azure" {
        set("textVerbosity", json!("low"));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::model::Reasoning;

    use super::*;
    use crate::testing::request;

    fn of(provider: &str, npm: &str, model: &str, thinks: bool) -> Value {
        let mut request = request(Vec::new());
        request.model = model.into();
        request.reasoning = thinks.then(Reasoning::default);
        with(&Endpoint::new(provider, npm, ""), &request).into()
    }

    #[test]
    fn each_package_has_its_defaults() {
        let gpt = json!({ "store": false, "promptCacheKey": "ses_1", "reasoningEffort": "medium",
                          "reasoningSummary": "auto", "include": [ENCRYPTED] });
        assert_eq!(of("oai", OPENAI, "gpt-5-x", true), gpt);
        assert_eq!(of("oai", OPENAI, "gpt-5.1", true)["textVerbosity"], "low");
        assert_eq!(of("oai", OPENAI, "gpt-4.1", false), json!({ "store": false, "promptCacheKey": "ses_1" }));
        assert_eq!(of("p", "@ai-sdk/openai-compatible", "m", true), json!({}));
        assert_eq!(of("p", GOOGLE, "gemini-2.5", true), json!({ "thinkingConfig": { "includeThoughts": true } }));
        assert_eq!(of("p", GOOGLE, "gemini-2.0", false), json!({}));
        assert_eq!(of("p", GOOGLE, "gemini-3-pro", true)["thinkingConfig"]["thinkingLevel"], "high");
        assert_eq!(of("p", OPENROUTER, "x/y", true), json!({ "usage": { "include": true } }));
        assert_eq!(of("p", ANTHROPIC, "claude-x", true), json!({}));
        assert_eq!(of("p", ANTHROPIC, "glm", false), json!({ "toolStreaming": false }));
        assert_eq!(of("p", COPILOT, "gpt-4.1", false), json!({}));
    }

    #[test]
    fn the_requests_options_go_before_them_and_merge_deeply() {
        let mut request = request(Vec::new());
        request.model = "gemini-3-pro".into();
        request.reasoning = Some(Reasoning::default());
        let own = json!({ "thinkingConfig": { "thinkingLevel": "low" }, "x": 1 });
        request.options = own.as_object().cloned().expect("an object");
        let options = with(&Endpoint::new("p", GOOGLE, ""), &request);
        let want = json!({ "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "low" }, "x": 1 });
        assert_eq!(Value::from(options), want);
    }

    #[test]
    fn a_cache_key_is_sent_where_config_says_so() {
        let mut endpoint = Endpoint::new("p", "@ai-sdk/openai-compatible", "");
        endpoint.options.insert("setCacheKey".into(), json!(true));
        assert_eq!(with(&endpoint, &request(Vec::new()))["promptCacheKey"], "ses_1");
        let mut endpoint = Endpoint::new("p", OPENAI, "");
        endpoint.options.insert("setCacheKey".into(), json!(false));
        assert!(!with(&endpoint, &request(Vec::new())).contains_key("promptCacheKey"));
    }
}
