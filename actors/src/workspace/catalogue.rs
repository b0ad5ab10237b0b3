//! Providers and models in use: those of the config, or the embedded demo where there are none.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::config::{Config, ModelConfig, ProviderConfig};
use protocol::message::ModelRef;
use protocol::provider::{CacheCost, Capabilities, Cost, Limit, Modalities, Model, ModelApi, Provider, ProviderSource};
use providers::{Endpoint, OpenError};
use serde_json::{Value, json};
use storage::places::Environment;

/// The package of a provider that names none.
const CHAT: &str = "@ai-sdk/openai-compatible";
/// Models that come first when nobody chose one. Source: OpenCode `provider/provider.ts`, `sort`.
const PREFERRED: [&str; 4] = ["gpt-5", "claude-sonnet-4", "big-pickle", "gemini-3-pro"];
/// What stands for a secret where settings are shown.
pub const HIDDEN: &str = "***";

/// Providers and models in use.
#[derive(Clone)]
pub struct Catalogue {
    providers: IndexMap<String, Known>,
    /// Windows that servers named: the configured size, and theirs.
    learned: HashMap<ModelRef, (u64, u64)>,
}

#[derive(Clone)]
struct Known {
    info: Provider,
    account: Arc<str>,
    /// The adapter of each package its models use.
    opened: HashMap<String, Result<Arc<dyn providers::Provider>, OpenError>>,
}

/// A model, and the way to it.
#[derive(Clone)]
pub struct Chosen {
    /// The model.
    pub model: Arc<Model>,
    /// The variant's options; empty where none was chosen.
    pub variant: JsonMap,
    /// Who speaks to it.
    pub provider: Arc<dyn providers::Provider>,
    /// What its vendor counts together: provider, address and key.
    pub account: Arc<str>,
}

/// Why a model can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// There is no such provider.
    #[error("provider {provider:?} is not known; there are: {}", known.join(", "))]
    NoProvider {
        /// The one asked for.
        provider: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The provider has no such model.
    #[error("provider {provider:?} has no model {model:?}; it has: {}", known.join(", "))]
    NoModel {
        /// The provider.
        provider: String,
        /// The one asked for.
        model: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A text that should name a model doesn't.
    #[error("{0:?} names no model; write it as provider/model")]
    BadName(String),
    /// The provider can't be spoken to.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Catalogue {
    /// Returns the catalogue of a config.
    pub fn new(config: &Config, environment: &Environment, http: &sse::Client) -> Self {
        let in_use = |id: &str| {
            config.enabled_providers.as_ref().is_none_or(|only| only.iter().any(|other| other == id))
                && !config.disabled_providers.iter().any(|other| other == id)
        };
        let mut providers: IndexMap<String, Known> = config
            .provider
            .iter()
            .filter(|(id, provider)| in_use(id) && !provider.models.is_empty())
            .map(|(id, provider)| (id.clone(), Known::new(id, provider, environment, http)))
            .collect();
        if providers.is_empty() {
            providers.insert("demo".into(), Known::demo(http));
        }
        Self { providers, learned: HashMap::new() }
    }

    /// Notes that a server says that a model takes this many tokens. From then on that is the model's limit.
    pub fn learn(&mut self, model: &ModelRef, tokens: u64) {
        let known = self.providers.get_mut(&model.provider_id).and_then(|p| p.info.models.get_mut(&model.model_id));
        let Some(known) = known else { return };
        let configured = self.learned.get(&plain(model)).map_or(known.limit.context, |(configured, _)| *configured);
        known.limit.context = tokens;
        known.limit.output = known.limit.output.min(tokens / 2);
        self.learned.insert(plain(model), (configured, tokens));
    }

    /// Returns the configured window of a model and the one its server named, where it named one.
    pub fn learned(&self, model: &ModelRef) -> Option<(u64, u64)> {
        self.learned.get(&plain(model)).copied()
    }

    /// Returns all providers, secrets left out.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values().map(|known| &known.info)
    }

    /// Returns the model each provider offers first.
    pub fn defaults(&self) -> IndexMap<String, String> {
        let first = |known: &Known| first_model(&known.info).map(|model| (known.info.id.clone(), model));
        self.providers.values().filter_map(first).collect()
    }

    /// Returns the model of prompts where nobody chose one.
    pub fn default_model(&self) -> Option<ModelRef> {
        let (provider, model) = self.defaults().into_iter().next()?;
        Some(ModelRef { provider_id: provider, model_id: model, variant: None })
    }

    /// Returns whether a model is known.
    pub fn has(&self, model: &ModelRef) -> bool {
        self.choose(model).is_ok()
    }

    /// Returns a model and the way to it.
    pub fn choose(&self, wanted: &ModelRef) -> Result<Chosen, ModelError> {
        let known = self.providers.get(&wanted.provider_id).ok_or_else(|| ModelError::NoProvider {
            provider: wanted.provider_id.clone(),
            known: self.providers.keys().cloned().collect(),
        })?;
        let model = known.info.models.get(&wanted.model_id).ok_or_else(|| ModelError::NoModel {
            provider: wanted.provider_id.clone(),
            model: wanted.model_id.clone(),
            known: known.info.models.keys().cloned().collect(),
        })?;
        let provider = match known.opened.get(&model.api.npm) {
            Some(Ok(provider)) => provider.clone(),
            Some(Err(error)) => return Err(error.clone().into()),
            None => return Err(ModelError::BadName(format!("{}/{}", wanted.provider_id, wanted.model_id))),
        };
        let named = wanted.variant.as_deref().and_then(|name| model.variants.as_ref()?.get(name));
        let (model, variant) = (Arc::new(model.clone()), named.cloned().unwrap_or_default());
        Ok(Chosen { model, variant, provider, account: known.account.clone() })
    }
}

/// A model whatever its variant.
fn plain(model: &ModelRef) -> ModelRef {
    ModelRef { variant: None, ..model.clone() }
}

impl Known {
    fn new(id: &str, config: &ProviderConfig, environment: &Environment, http: &sse::Client) -> Self {
        let npm = config.npm.clone().unwrap_or_else(|| CHAT.into());
        let env = config.env.clone().unwrap_or_default();
        let from_env = env.iter().find_map(|name| environment.get(name)).map(str::to_owned);
        let source = if config.options.api_key.is_none() && from_env.is_some() {
            ProviderSource::Env
        } else {
            ProviderSource::Config
        };
        let in_use = |model: &str| {
            config.whitelist.as_ref().is_none_or(|only| only.iter().any(|other| other == model))
                && !config.blacklist.iter().flatten().any(|other| other == model)
        };
        let models: IndexMap<String, Model> = config
            .models
            .iter()
            .filter(|(key, _)| in_use(key))
            .map(|(key, model)| (key.clone(), model_info(id, key, &npm, model)))
            .collect();
        let mut opened = HashMap::new();
        for model in models.values() {
            opened.entry(model.api.npm.clone()).or_insert_with(|| {
                let endpoint = endpoint(id, &model.api.npm, config, from_env.clone());
                providers::open(&endpoint, http.clone())
            });
        }
        let name = config.name.clone().unwrap_or_else(|| id.to_owned());
        let info = Provider { id: id.into(), name, source, env, options: shown_options(config), models };
        let account = account(id, config, from_env.as_deref());
        Self { info, account, opened }
    }

    fn demo(http: &sse::Client) -> Self {
        let npm = providers::demo::NPM.to_owned();
        let config = ModelConfig {
            name: Some("Tour (demo, no real model)".into()),
            limit: Some(protocol::config::LimitConfig { context: 128_000, input: None, output: 8_192 }),
            ..ModelConfig::default()
        };
        let models = IndexMap::from([("tour".to_owned(), model_info("demo", "tour", &npm, &config))]);
        let endpoint = Endpoint::new("demo", npm.clone(), "");
        let opened = HashMap::from([(npm, providers::open(&endpoint, http.clone()))]);
        let info = Provider {
            id: "demo".into(),
            name: "Demo".into(),
            source: ProviderSource::Custom,
            env: Vec::new(),
            options: JsonMap::new(),
            models,
        };
        Self { info, account: "demo".into(), opened }
    }
}

/// The key goes in as a hash: the name may be shown.
fn account(id: &str, config: &ProviderConfig, from_env: Option<&str>) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    config.options.api_key.as_deref().or(from_env).hash(&mut hasher);
    let address = config.options.base_url.as_deref().or(config.api.as_deref()).unwrap_or_default();
    format!("{id} {address} {:016x}", hasher.finish()).into()
}

fn endpoint(id: &str, npm: &str, config: &ProviderConfig, from_env: Option<String>) -> Endpoint {
    let options = &config.options;
    let address = options.base_url.clone().or_else(|| config.api.clone()).unwrap_or_default();
    let mut endpoint = Endpoint::new(id, npm, address);
    endpoint.api_key = options.api_key.clone().or(from_env);
    endpoint.headers = options.headers.clone();
    if let Some(ms) = options.chunk_timeout {
        endpoint.chunk_timeout = Duration::from_millis(ms);
    }
    if let Some(ms) = options.header_timeout {
        endpoint.header_timeout = Duration::from_millis(ms);
    }
    endpoint.options = options.rest.clone();
    endpoint
}

/// The options as clients see them: secrets hidden.
fn shown_options(config: &ProviderConfig) -> JsonMap {
    let options = &config.options;
    let mut shown = options.rest.clone();
    if let Some(url) = &options.base_url {
        shown.insert("baseURL".into(), json!(url));
    }
    if options.api_key.is_some() {
        shown.insert("apiKey".into(), json!(HIDDEN));
    }
    if let Some(ms) = options.chunk_timeout {
        shown.insert("chunkTimeout".into(), json!(ms));
    }
    if let Some(ms) = options.header_timeout {
        shown.insert("headerTimeout".into(), json!(ms));
    }
    if !options.headers.is_empty() {
        let hidden: JsonMap = options.headers.keys().map(|name| (name.clone(), json!(HIDDEN))).collect();
        shown.insert("headers".into(), Value::Object(hidden));
    }
    shown
}

fn model_info(provider: &str, key: &str, npm: &str, config: &ModelConfig) -> Model {
    let reads = config.modalities.as_ref().map(|m| m.input.as_slice());
    let writes = config.modalities.as_ref().map(|m| m.output.as_slice());
    let reasoning = config.reasoning.unwrap_or(false);
    let own = config.provider.as_ref();
    Model {
        id: key.into(),
        provider_id: provider.into(),
        api: ModelApi {
            id: config.id.clone().unwrap_or_else(|| key.into()),
            url: own.and_then(|p| p.api.clone()).unwrap_or_default(),
            npm: own.and_then(|p| p.npm.clone()).unwrap_or_else(|| npm.into()),
        },
        name: config.name.clone().unwrap_or_else(|| key.into()),
        family: Some(config.family.clone().unwrap_or_default()),
        capabilities: Capabilities {
            temperature: config.temperature.unwrap_or(false),
            reasoning,
            attachment: config.attachment.unwrap_or(false),
            toolcall: config.tool_call.unwrap_or(true),
            input: modalities(reads),
            output: modalities(writes),
            interleaved: config.interleaved.clone().unwrap_or(Value::Bool(false)),
        },
        cost: config.cost.map_or_else(Cost::default, |cost| Cost {
            input: cost.input,
            output: cost.output,
            cache: CacheCost { read: cost.cache_read, write: cost.cache_write },
            ..Cost::default()
        }),
        limit: config.limit.map_or_else(Limit::default, |limit| Limit {
            context: limit.context,
            input: limit.input,
            output: limit.output,
        }),
        status: config.status.clone().unwrap_or_else(|| "active".into()),
        options: config.options.clone(),
        headers: config.headers.clone(),
        release_date: config.release_date.clone().unwrap_or_default(),
        variants: Some(variants(reasoning, config)),
    }
}

/// A thinking model has three efforts, unless the config says otherwise.
fn variants(reasoning: bool, config: &ModelConfig) -> IndexMap<String, JsonMap> {
    let mut variants = IndexMap::new();
    if reasoning {
        for effort in ["low", "medium", "high"] {
            variants.insert(effort.to_owned(), JsonMap::from_iter([("reasoningEffort".to_owned(), json!(effort))]));
        }
    }
    variants.extend(config.variants.clone());
    variants
}

fn modalities(listed: Option<&[String]>) -> Modalities {
    let has = |kind: &str| listed.is_some_and(|kinds| kinds.iter().any(|other| other == kind));
    Modalities {
        text: listed.is_none() || has("text"),
        audio: has("audio"),
        image: has("image"),
        video: has("video"),
        pdf: has("pdf"),
    }
}

/// The preferred models first, then the highest id: vendors' newest.
fn first_model(provider: &Provider) -> Option<String> {
    let rank = |id: &str| PREFERRED.iter().position(|name| id.contains(name)).unwrap_or(PREFERRED.len());
    let mut ids: Vec<&String> = provider.models.keys().collect();
    ids.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.cmp(a)));
    ids.first().map(|id| (*id).clone())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn catalogue(config: Value) -> Catalogue {
        let config = serde_json::from_value(config).expect("a config");
        let environment = Environment::from_iter([("SOME_KEY", "from the environment")]);
        Catalogue::new(&config, &environment, &sse::http::client("test").expect("a client"))
    }

    fn mock() -> Value {
        json!({ "provider": { "mock": {
            "name": "Mock", "env": ["SOME_KEY"],
            "options": { "baseURL": "http://127.0.0.1:1/v1", "apiKey": "secret", "headers": { "x-key": "secret" } },
            "models": { "mock": { "limit": { "context": 128000, "output": 8192 } }, "small": {}, "vision": { "reasoning": true } },
        } } })
    }

    #[test]
    fn without_a_provider_there_is_the_demo() {
        let catalogue = catalogue(json!({}));
        let model = catalogue.default_model().expect("a model");
        assert_eq!((model.provider_id.as_str(), model.model_id.as_str()), ("demo", "tour"));
        assert!(catalogue.has(&model));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let catalogue = catalogue(mock());
        let shown = serde_json::to_string(&catalogue.providers().collect::<Vec<_>>()).expect("JSON");
        assert!(!shown.contains("secret") && !shown.contains("environment"), "{shown}");
    }

    #[test]
    fn an_unknown_model_is_named_with_those_there_are() {
        let catalogue = catalogue(mock());
        let error = |name: &str| {
            let wanted = ModelRef::parse(name).expect("a name");
            catalogue.choose(&wanted).err().expect("an error").to_string()
        };
        assert_eq!(error("mock/nope"), r#"provider "mock" has no model "nope"; it has: mock, small, vision"#);
        assert_eq!(error("zzz/x"), r#"provider "zzz" is not known; there are: mock"#);
    }

    #[test]
    fn the_last_model_by_name_is_the_default_and_a_variant_brings_its_options() {
        let catalogue = catalogue(mock());
        assert_eq!(catalogue.defaults()["mock"], "vision");
        let wanted = ModelRef { variant: Some("high".into()), ..ModelRef::parse("mock/vision").expect("a name") };
        let Ok(chosen) = catalogue.choose(&wanted) else { panic!("not chosen") };
        assert_eq!(chosen.variant["reasoningEffort"], "high");
    }
}
