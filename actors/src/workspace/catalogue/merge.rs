//! The models of a provider: those of the list, and over them what the config says.

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::config::{ModelConfig, ProviderConfig};
use protocol::provider::{CacheCost, Capabilities, Cost, Limit, Modalities, Model, ModelApi};
use providers::models::variants;
use serde_json::{Value, json};

/// A variant with this option is none.
const DISABLED: &str = "disabled";

/// Returns the models of a provider by key. `npm` is its package where the config names none; `is_chatgpt`: it is spoken
/// to by an account of ChatGPT, which knows some models alone and costs nothing for each request.
pub(super) fn models_of(
    provider: &str,
    npm: &str,
    config: &ProviderConfig,
    listed: IndexMap<String, Model>,
    is_chatgpt: bool,
) -> IndexMap<String, Model> {
    let npm = config.npm.as_deref().unwrap_or(npm);
    let api = config.api.as_deref().unwrap_or_default();
    let is_wanted = |key: &str| {
        config.whitelist.as_ref().is_none_or(|only| only.iter().any(|other| other == key))
            && !config.blacklist.iter().flatten().any(|other| other == key)
    };
    let mut models = IndexMap::new();
    for (key, mut model) in listed.clone() {
        let is_gone = matches!(model.status.as_str(), "deprecated" | "alpha");
        if is_gone || config.models.contains_key(&key) || is_chatgpt && !is_of_chatgpt(&key) {
            continue;
        }
        if let Some(npm) = &config.npm {
            model.api.npm.clone_from(npm);
            model.variants = Some(variants(&model));
        }
        if !api.is_empty() {
            model.api.url = api.to_owned();
        }
        models.insert(key, model);
    }
    for (key, changes) in &config.models {
        let base = listed.get(changes.id.as_ref().unwrap_or(key)).or_else(|| listed.get(key));
        models.insert(key.clone(), model_info(provider, key, npm, api, changes, base));
    }
    models.retain(|key, model| is_wanted(key) && providers::speaks(&model.api.npm));
    if is_chatgpt {
        models.values_mut().for_each(|model| model.cost = Cost::default());
    }
    models
}

/// The models of ChatGPT's backend. Source: OpenCode 1.18's plugin for it.
fn is_of_chatgpt(key: &str) -> bool {
    let (family, rest) = key.split_at(key.len().min("gpt-5.".len()));
    let is_other = ["chat", "nano", "pro"].iter().any(|word| rest.contains(word));
    !is_other && (family == "gpt-5." || key.starts_with("gpt-") && key.contains("codex"))
}

/// Returns a model of the config, over the listed one where there is one. `npm` and `api` are the provider's.
pub(super) fn model_info(
    provider: &str,
    key: &str,
    npm: &str,
    api: &str,
    config: &ModelConfig,
    base: Option<&Model>,
) -> Model {
    let own = config.provider.as_ref();
    let of_base = |field: fn(&Model) -> &String| base.map(field).filter(|text| !text.is_empty()).cloned();
    let reads = config.modalities.as_ref().map(|m| modalities(&m.input));
    let writes = config.modalities.as_ref().map(|m| modalities(&m.output));
    let can = base.map(|base| base.capabilities.clone()).unwrap_or_else(|| Capabilities {
        toolcall: true,
        input: modalities(&["text".to_owned()]),
        output: modalities(&["text".to_owned()]),
        interleaved: Value::Bool(false),
        ..Capabilities::default()
    });
    let url = own.and_then(|own| own.api.clone()).or_else(|| Some(api.to_owned()).filter(|api| !api.is_empty()));
    let mut options = base.map(|base| base.options.clone()).unwrap_or_default();
    options.extend(config.options.clone());
    let mut headers = base.map(|base| base.headers.clone()).unwrap_or_default();
    headers.extend(config.headers.clone());
    let mut model = Model {
        id: key.into(),
        provider_id: provider.into(),
        api: ModelApi {
            id: config.id.clone().or_else(|| of_base(|base| &base.api.id)).unwrap_or_else(|| key.into()),
            url: url.or_else(|| of_base(|base| &base.api.url)).unwrap_or_default(),
            // One the list has may be spoken to in its own way.
            npm: own
                .and_then(|own| own.npm.clone())
                .or_else(|| of_base(|base| &base.api.npm))
                .unwrap_or_else(|| npm.into()),
        },
        name: config.name.clone().or_else(|| of_base(|base| &base.name)).unwrap_or_else(|| key.into()),
        family: Some(config.family.clone().or_else(|| base?.family.clone()).unwrap_or_default()),
        capabilities: Capabilities {
            temperature: config.temperature.unwrap_or(can.temperature),
            reasoning: config.reasoning.unwrap_or(can.reasoning),
            attachment: config.attachment.unwrap_or(can.attachment),
            toolcall: config.tool_call.unwrap_or(can.toolcall),
            input: reads.unwrap_or(can.input),
            output: writes.unwrap_or(can.output),
            interleaved: config.interleaved.clone().unwrap_or(can.interleaved),
        },
        cost: match config.cost {
            Some(cost) => Cost {
                input: cost.input,
                output: cost.output,
                cache: CacheCost { read: cost.cache_read, write: cost.cache_write },
                ..Cost::default()
            },
            None => base.map(|base| base.cost.clone()).unwrap_or_default(),
        },
        limit: match config.limit {
            Some(limit) => Limit { context: limit.context, input: limit.input, output: limit.output },
            None => base.map(|base| base.limit).unwrap_or_default(),
        },
        status: config.status.clone().or_else(|| of_base(|base| &base.status)).unwrap_or_else(|| "active".into()),
        options,
        headers,
        release_date: config.release_date.clone().or_else(|| of_base(|base| &base.release_date)).unwrap_or_default(),
        variants: None,
    };
    let mut all = variants(&model);
    for (name, own) in &config.variants {
        let variant: &mut JsonMap = all.entry(name.clone()).or_default();
        variant.extend(own.clone());
    }
    all.retain(|_, variant| variant.get(DISABLED) != Some(&json!(true)));
    all.values_mut().for_each(|variant| drop(variant.remove(DISABLED)));
    model.variants = Some(all);
    model
}

fn modalities(listed: &[String]) -> Modalities {
    let has = |kind: &str| listed.iter().any(|other| other == kind);
    Modalities { text: has("text"), audio: has("audio"), image: has("image"), video: has("video"), pdf: has("pdf") }
}
