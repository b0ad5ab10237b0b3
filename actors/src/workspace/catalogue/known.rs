//! One provider in use: its models, and who speaks to them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::config::{ModelConfig, ProviderConfig};
use protocol::provider::{Model, Provider, ProviderSource};
use providers::auth::Login;
use providers::models::{Listed, ModelList};
use providers::{Endpoint, GOOGLE_PROJECTS, OpenError};
use serde_json::{Value, json};
use storage::places::Environment;

use super::merge::{model_info, models_of};
use super::{HIDDEN, ModelError, Vendors};

/// The package of a provider that names none.
const CHAT: &str = "@ai-sdk/openai-compatible";
/// A token of GitHub's in the environment is hardly one of Copilot's: it needs a login.
const NOT_BY_ENVIRONMENT: [&str; 1] = ["github-copilot"];
/// Variables that name where Google computes.
const LOCATIONS: [&str; 3] = ["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"];
/// Settings some packages take from the environment, by provider: the option, and its variables.
const SETTINGS: [(&str, &str, &[&str]); 6] = [
    ("azure", "resourceName", &["AZURE_RESOURCE_NAME"]),
    ("azure-cognitive-services", "resourceName", &["AZURE_COGNITIVE_SERVICES_RESOURCE_NAME"]),
    ("google-vertex", "project", &GOOGLE_PROJECTS),
    ("google-vertex", "location", &LOCATIONS),
    ("google-vertex-anthropic", "project", &GOOGLE_PROJECTS),
    ("google-vertex-anthropic", "location", &LOCATIONS),
];

/// How a model is spoken to: its package and its address.
type Way = (String, String);

/// A provider in use.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) info: Provider,
    /// What its vendor counts together.
    pub(super) account: Arc<str>,
    /// The adapter of each way its models are spoken to.
    opened: HashMap<Way, Result<Arc<dyn providers::Provider>, OpenError>>,
}

/// What opens a provider.
#[derive(Clone)]
enum Key {
    None,
    /// A key, and where it comes from.
    Text(String),
    /// Asked for each request.
    Login,
}

impl Known {
    pub(super) fn new(
        id: &str,
        config: Option<&ProviderConfig>,
        list: &ModelList,
        login: Option<&Login>,
        environment: &Environment,
        vendors: &Vendors,
    ) -> Self {
        let listed = list.provider(id);
        let nothing = ProviderConfig::default();
        let (config, is_configured) = (config.unwrap_or(&nothing), config.is_some());
        let env = config.env.clone().or_else(|| listed.map(|listed| listed.env.clone())).unwrap_or_default();
        let from_env = match &config.env {
            Some(names) => {
                names.iter().filter(|name| !signs(name)).find_map(|name| environment.get(name)).map(str::to_owned)
            }
            None => env_key(id, &env, environment),
        };
        let credential = vendors.logins.credential(id);
        let (key, source) = match (&config.options.api_key, login) {
            (Some(key), _) => (Key::Text(key.clone()), ProviderSource::Config),
            (None, Some(Login::Api { key, .. })) => (Key::Text(key.clone()), ProviderSource::Api),
            (None, Some(Login::OAuth { .. })) if credential.is_some() => (Key::Login, ProviderSource::Custom),
            (None, _) => match from_env {
                Some(key) => (Key::Text(key), ProviderSource::Env),
                None if listed.is_some_and(|listed| is_ambient(listed, environment)) => {
                    (Key::None, ProviderSource::Env)
                }
                None => (Key::None, ProviderSource::Config),
            },
        };
        let is_chatgpt = matches!(key, Key::Login) && id == "openai";
        let known = listed.and_then(|listed| list.models(listed).inspect_err(|error| tracing::warn!(%error)).ok());
        let npm = listed.map_or_else(|| CHAT.to_owned(), |listed| listed.npm.clone());
        let models = models_of(id, &npm, config, known.unwrap_or_default(), is_chatgpt);

        let mut settings = JsonMap::new();
        for (_, option, variables) in SETTINGS.iter().filter(|(provider, ..)| *provider == id) {
            if let Some(value) = variables.iter().find_map(|name| environment.get(name)) {
                settings.insert((*option).to_owned(), json!(value));
            }
        }
        if let Some(Login::Api { metadata: Some(metadata), .. }) = login {
            settings.extend(metadata.iter().map(|(name, value)| (name.clone(), json!(value))));
        }
        let mut opened = HashMap::new();
        for model in models.values() {
            opened.entry(way(model)).or_insert_with(|| {
                let mut endpoint = endpoint(id, model, config, environment);
                for (name, value) in &settings {
                    endpoint.options.entry(name.clone()).or_insert_with(|| value.clone());
                }
                match &key {
                    Key::None => {}
                    Key::Text(key) => endpoint.api_key = Some(key.clone()),
                    Key::Login => endpoint.credential = credential.clone(),
                }
                providers::add_ambient(&mut endpoint, &|name| environment.get(name).map(str::to_owned));
                providers::open(&endpoint, vendors.http.client())
            });
        }
        let name = config.name.clone().or_else(|| Some(listed?.name.clone())).unwrap_or_else(|| id.to_owned());
        // As on the wire: what the config names comes from it, unless its key is elsewhere.
        let source = if is_configured && source != ProviderSource::Env { ProviderSource::Config } else { source };
        let info = Provider { id: id.into(), name, source, env, options: shown_options(config), models };
        let secret = match (&key, login) {
            (Key::Text(key), _) => Some(key.as_str()),
            // Its access token changes, the account doesn't.
            (Key::Login, Some(Login::OAuth { account_id: Some(account), .. })) => Some(account.as_str()),
            _ => None,
        };
        Self { account: account(id, config, secret), info, opened }
    }

    pub(super) fn demo(client: &sse::Client) -> Self {
        let npm = providers::demo::NPM.to_owned();
        let config = ModelConfig {
            name: Some("Tour (demo, no real model)".into()),
            limit: Some(protocol::config::LimitConfig { context: 128_000, input: None, output: 8_192 }),
            ..ModelConfig::default()
        };
        let model = model_info("demo", "tour", &npm, "", &config, None);
        let endpoint = Endpoint::new("demo", npm, "");
        let opened = HashMap::from([(way(&model), providers::open(&endpoint, client.clone()))]);
        let models = IndexMap::from([("tour".to_owned(), model)]);
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

    /// Returns who speaks to one of its models.
    pub(super) fn open(&self, model: &Model) -> Result<Arc<dyn providers::Provider>, ModelError> {
        match self.opened.get(&way(model)) {
            Some(opened) => Ok(opened.clone()?),
            None => Err(ModelError::BadName(format!("{}/{}", model.provider_id, model.id))),
        }
    }
}

/// The key goes in as a hash: the name may be shown.
fn account(id: &str, config: &ProviderConfig, secret: Option<&str>) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    let address = config.options.base_url.as_deref().or(config.api.as_deref()).unwrap_or_default();
    format!("{id} {address} {:016x}", hasher.finish()).into()
}

fn way(model: &Model) -> Way {
    (model.api.npm.clone(), model.api.url.clone())
}

/// Returns the key of a listed provider that the environment holds. Of its variables some are settings.
pub(super) fn env_key(id: &str, names: &[String], environment: &Environment) -> Option<String> {
    if NOT_BY_ENVIRONMENT.contains(&id) {
        return None;
    }
    let is_key =
        |name: &str| ["KEY", "TOKEN", "SECRET", "PAT"].iter().any(|word| name.split('_').any(|part| part == *word));
    let keys = names.iter().filter(|name| !signs(name) && (is_key(name) || names.len() == 1));
    keys.into_iter().find_map(|name| environment.get(name)).map(str::to_owned)
}

/// Returns whether a listed provider is in use by what its cloud's own tools find on this machine.
pub(super) fn is_ambient(listed: &Listed, environment: &Environment) -> bool {
    providers::is_ambient(&listed.npm, &|name| environment.get(name).map(str::to_owned))
}

/// Keys of AWS sign requests; they are never sent.
fn signs(name: &str) -> bool {
    ["AWS_ACCESS", "AWS_SECRET", "AWS_SESSION"].iter().any(|start| name.starts_with(start))
}

/// Returns a listed provider as it is shown while it isn't used.
pub(super) fn unused(listed: &Listed, models: IndexMap<String, Model>) -> Provider {
    Provider {
        id: listed.id.clone(),
        name: listed.name.clone(),
        source: ProviderSource::Custom,
        env: listed.env.clone(),
        options: JsonMap::new(),
        models,
    }
}

fn endpoint(id: &str, model: &Model, config: &ProviderConfig, environment: &Environment) -> Endpoint {
    let options = &config.options;
    let listed = Some(&model.api.url).filter(|url| !url.is_empty());
    let address = options.base_url.clone().or_else(|| listed.map(|url| filled(url, environment))).unwrap_or_default();
    let mut endpoint = Endpoint::new(id, model.api.npm.clone(), address);
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

/// Puts variables into an address: `https://${NAME}.example`. One that isn't set stays, and the address is refused.
fn filled(url: &str, environment: &Environment) -> String {
    let mut filled = String::new();
    let mut rest = url;
    while let Some((before, behind)) = rest.split_once("${") {
        filled.push_str(before);
        let Some((name, after)) = behind.split_once('}') else {
            rest = behind;
            filled.push_str("${");
            continue;
        };
        match environment.get(name) {
            Some(value) => filled.push_str(value),
            None => filled.push_str(&format!("${{{name}}}")),
        }
        rest = after;
    }
    filled + rest
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
