//! Providers and models in use: those of the config, those there is a login for, and those whose key is in the
//! environment; or the embedded demo where there are none.
//!
//! What a model is and costs comes from the list of models (`providers::models`); config goes over it.
//!
//! | of the key of a provider | counts |
//! |---|---|
//! | `options.apiKey` of the config | first |
//! | a login (`auth.json`) | then |
//! | its variables in the environment | last |

mod known;
mod merge;
mod vendors;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::config::Config;
use protocol::message::ModelRef;
use protocol::provider::{Model, Provider};
use providers::OpenError;
use providers::auth::Login;
use providers::models::{Listed, ModelList};
use storage::places::Environment;

pub use storage::config::change::HIDDEN;

pub use vendors::{Models, Vendors};

use self::known::Known;

/// Models that come first when nobody chose one. Source: OpenCode `provider/provider.ts`, `sort`.
const PREFERRED: [&str; 4] = ["gpt-5", "claude-sonnet-4", "big-pickle", "gemini-3-pro"];
/// Models for titles and the like, better ones first. Source: OpenCode `provider/provider.ts`, `getSmallModel`.
const SMALL: [&str; 7] = [
    "claude-haiku-4-5",
    "claude-haiku-4.5",
    "3-5-haiku",
    "3.5-haiku",
    "gemini-3-flash",
    "gemini-2.5-flash",
    "gpt-5-nano",
];
/// Providers and models in use.
#[derive(Clone)]
pub struct Catalogue {
    providers: IndexMap<String, Known>,
    /// Windows that servers named: the configured size, and theirs.
    learned: HashMap<ModelRef, (u64, u64)>,
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
    /// Returns the catalogue of a config. Blocks.
    pub fn new(config: &Config, environment: &Environment, vendors: &Vendors) -> Self {
        let list = vendors.models.list();
        let logins = vendors.logins.all().unwrap_or_else(|error| {
            tracing::warn!(%error, "no login is used");
            IndexMap::new()
        });
        // The config's first, then those a person logged in to, then those whose key is just there.
        let named = config.provider.keys();
        let logged_in = logins.keys().filter(|id| list.provider(id).is_some());
        let has_key = |listed: &&Listed| {
            known::env_key(&listed.id, &listed.env, environment).is_some() || known::is_ambient(listed, environment)
        };
        let from_env = list.providers().filter(has_key).map(|listed| &listed.id);
        let mut providers = IndexMap::new();
        for id in named.chain(logged_in).chain(from_env) {
            if providers.contains_key(id) || !is_in_use(config, id) {
                continue;
            }
            let login =
                logins.get(id).map(|(login, _)| login).filter(|login| !matches!(login, Login::WellKnown { .. }));
            let known = Known::new(id, config.provider.get(id), &list, login, environment, vendors);
            if !known.info.models.is_empty() {
                providers.insert(id.clone(), known);
            }
        }
        if providers.is_empty() {
            providers.insert("demo".into(), Known::demo(&vendors.http.client()));
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
        let first = |known: &Known| first_model(&known.info.models).map(|model| (known.info.id.clone(), model));
        self.providers.values().filter_map(first).collect()
    }

    /// Returns the model of prompts where nobody chose one.
    pub fn default_model(&self) -> Option<ModelRef> {
        let (provider, model) = self.defaults().into_iter().next()?;
        Some(ModelRef { provider_id: provider, model_id: model, variant: None })
    }

    /// Returns the other providers of a list (that of [`Models::list`]), one by one: there are many. Blocks.
    pub fn unused<'a>(&'a self, config: &'a Config, list: &'a ModelList) -> impl Iterator<Item = Provider> + 'a {
        let unused = list.providers().filter(|listed| !self.providers.contains_key(&listed.id));
        unused.filter(|listed| is_in_use(config, &listed.id)).filter_map(|listed| match list.models(listed) {
            Ok(models) => Some(known::unused(listed, models)),
            Err(error) => {
                tracing::warn!(%error, provider = listed.id, "a provider is left out");
                None
            }
        })
    }

    /// Returns a model of a provider's that is good enough for titles and the like, if one is known to be.
    pub fn small_model(&self, provider: &str) -> Option<ModelRef> {
        let models = &self.providers.get(provider)?.info.models;
        let id = SMALL.iter().find_map(|name| models.keys().find(|id| id.contains(name)))?;
        Some(ModelRef { provider_id: provider.to_owned(), model_id: id.clone(), variant: None })
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
        let provider = known.open(model)?;
        let named = wanted.variant.as_deref().and_then(|name| model.variants.as_ref()?.get(name));
        let (model, variant) = (Arc::new(model.clone()), named.cloned().unwrap_or_default());
        Ok(Chosen { model, variant, provider, account: known.account.clone() })
    }
}

/// A model whatever its variant.
fn plain(model: &ModelRef) -> ModelRef {
    ModelRef { variant: None, ..model.clone() }
}

fn is_in_use(config: &Config, id: &str) -> bool {
    config.enabled_providers.as_ref().is_none_or(|only| only.iter().any(|other| other == id))
        && !config.disabled_providers.iter().any(|other| other == id)
}

/// Returns the model a provider offers first: the preferred ones, then what is called the latest, then the highest id,
/// which is the vendor's newest.
pub fn first_model(models: &IndexMap<String, Model>) -> Option<String> {
    let rank = |id: &str| PREFERRED.iter().position(|name| id.contains(name)).unwrap_or(PREFERRED.len());
    let key = |id: &str| (rank(id), !id.contains("latest"));
    let talks = models.values().filter(|model| model.capabilities.toolcall).map(|model| &model.id);
    let first = talks.min_by(|a, b| key(a).cmp(&key(b)).then_with(|| b.cmp(a)));
    // One that calls no tools is better than none.
    first.or_else(|| models.keys().min_by(|a, b| key(a).cmp(&key(b)).then_with(|| b.cmp(a)))).cloned()
}
