//! Providers and models as clients see them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;

/// A provider, as `GET /provider` and `GET /config/providers` list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    /// Its key in the config.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: ProviderSource,
    /// Environment variables that may hold its key.
    pub env: Vec<String>,
    /// Its options, secrets left out.
    pub options: JsonMap,
    /// Its models by key.
    pub models: IndexMap<String, Model>,
}

/// Where a provider comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    /// A key in the environment.
    Env,
    /// The config.
    Config,
    /// Built in.
    Custom,
    /// A stored key.
    Api,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Its key below the provider.
    pub id: String,
    /// The provider's key.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// How it is spoken to.
    pub api: ModelApi,
    /// Its name.
    pub name: String,
    /// Its family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// In US dollars per million tokens.
    pub cost: Cost,
    /// In tokens.
    pub limit: Limit,
    /// `alpha`, `beta`, `deprecated` or `active`.
    pub status: String,
    /// Passed on to the provider.
    pub options: JsonMap,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// `YYYY-MM-DD`, or empty.
    pub release_date: String,
    /// Named sets of options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<IndexMap<String, JsonMap>>,
}

/// How a model is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelApi {
    /// The model's name on the wire.
    pub id: String,
    /// The base url, where the catalogue knows it.
    pub url: String,
    /// The client package OpenCode would use; it names the protocol.
    pub npm: String,
}

/// What a model can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Takes a temperature.
    pub temperature: bool,
    /// Thinks.
    pub reasoning: bool,
    /// Takes files.
    pub attachment: bool,
    /// Calls tools.
    pub toolcall: bool,
    /// What it reads.
    pub input: Modalities,
    /// What it writes.
    pub output: Modalities,
    /// How thinking goes back to it: `false`, `true` or `{field}`.
    pub interleaved: Value,
}

/// Kinds of content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modalities {
    /// Text.
    pub text: bool,
    /// Sound.
    pub audio: bool,
    /// Pictures.
    pub image: bool,
    /// Films.
    pub video: bool,
    /// PDF files.
    pub pdf: bool,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of the prompt cache.
    pub cache: CacheCost,
}

/// Prices of the prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheCost {
    /// Of what is read from it.
    pub read: f64,
    /// Of what is written to it.
    pub write: f64,
}

/// Limits in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// All of a request and its answer; 0 where nobody knows.
    pub context: u64,
    /// A request alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// An answer.
    pub output: u64,
}
