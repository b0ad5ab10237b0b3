//! Providers and their models (`provider`).

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::JsonMap;

/// A provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// Its name.
    pub name: Option<String>,
    /// The client package OpenCode would use; it names the protocol.
    pub npm: Option<String>,
    /// Base url; `options.baseURL` goes before it.
    pub api: Option<String>,
    /// Environment variables that may hold its key.
    pub env: Option<Vec<String>>,
    /// Settings of the connection.
    pub options: ProviderOptions,
    /// Models by key.
    pub models: IndexMap<String, ModelConfig>,
    /// Models that alone are used.
    pub whitelist: Option<Vec<String>>,
    /// Models that are not used.
    pub blacklist: Option<Vec<String>>,
}

/// Settings of a provider's connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderOptions {
    /// The key.
    #[serde(rename = "apiKey")]
    pub api_key: Option<String>,
    /// Where it is.
    #[serde(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Most ms of a whole request; `false`: no limit (the default).
    pub timeout: Option<Value>,
    /// Most ms between two real events of a stream (default 120000).
    #[serde(rename = "chunkTimeout")]
    pub chunk_timeout: Option<u64>,
    /// Most ms until the first byte of an answer (default 300000).
    #[serde(rename = "headerTimeout")]
    pub header_timeout: Option<u64>,
    /// What isn't named here, for the adapter of the provider's package: it reads what it knows (`resourceName`,
    /// `setCacheKey`, `region`…) and ignores the rest. Nothing of it is put into a request's body; what is to go there
    /// stands under a model's or an agent's `options`.
    #[serde(flatten)]
    pub rest: JsonMap,
}

/// A model, or changes to one of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// Its name on the wire (default: the key).
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its family.
    pub family: Option<String>,
    /// `YYYY-MM-DD`.
    pub release_date: Option<String>,
    /// Takes files.
    pub attachment: Option<bool>,
    /// Thinks.
    pub reasoning: Option<bool>,
    /// Takes a temperature.
    pub temperature: Option<bool>,
    /// Calls tools.
    pub tool_call: Option<bool>,
    /// How thinking goes back to it.
    pub interleaved: Option<Value>,
    /// Prices.
    pub cost: Option<CostConfig>,
    /// Limits.
    pub limit: Option<LimitConfig>,
    /// What it reads and writes.
    pub modalities: Option<ModalitiesConfig>,
    /// `alpha`, `beta`, `deprecated` or `active`.
    pub status: Option<String>,
    /// Passed on to the vendor.
    pub options: JsonMap,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Another client package than the provider's.
    pub provider: Option<ModelProviderConfig>,
    /// Named sets of options.
    pub variants: IndexMap<String, JsonMap>,
}

/// Another client package than the provider's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModelProviderConfig {
    /// The package.
    pub npm: Option<String>,
    /// Base url.
    pub api: Option<String>,
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CostConfig {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of what is read from the prompt cache.
    pub cache_read: f64,
    /// Of what is written to the prompt cache.
    pub cache_write: f64,
}

/// Limits in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitConfig {
    /// All of a request and its answer.
    pub context: u64,
    /// A request alone.
    pub input: Option<u64>,
    /// An answer.
    pub output: u64,
}

/// What a model reads and writes: `text`, `audio`, `image`, `video`, `pdf`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ModalitiesConfig {
    /// Reads.
    pub input: Vec<String>,
    /// Writes.
    pub output: Vec<String>,
}
