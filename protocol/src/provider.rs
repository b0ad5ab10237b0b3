//! Providers and models as clients see them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonMap;
use crate::message::Tokens;

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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of the prompt cache.
    pub cache: CacheCost,
    /// Of larger requests, from smaller to larger ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<CostTier>,
    /// The tier of requests above 200,000 tokens, once more.
    #[serde(default, rename = "experimentalOver200K", skip_serializing_if = "Option::is_none")]
    pub over_200k: Option<LongCost>,
}

/// Prices of requests above a size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostTier {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of the prompt cache.
    pub cache: CacheCost,
    /// From when on they hold.
    pub tier: Tier,
}

/// When prices hold.
#[derive(Clone, Debug, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// What is counted.
    #[serde(rename = "type")]
    pub kind: TierKind,
    /// They hold above this many.
    pub size: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierKind {
    /// The tokens of the request, cached ones included.
    Context,
}

impl Tier {
    /// Returns the tier above this many tokens of a request.
    pub fn context(size: u64) -> Self {
        Self { kind: TierKind::Context, size }
    }
}

/// Prices of requests above 200,000 tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LongCost {
    /// Of what it reads.
    pub input: f64,
    /// Of what it writes.
    pub output: f64,
    /// Of the prompt cache.
    pub cache: CacheCost,
}

impl Cost {
    /// Returns what these tokens of one request cost, in US dollars. Thinking costs what writing does; the size of the
    /// request decides which tier holds.
    pub fn of(&self, tokens: &Tokens) -> f64 {
        let size = tokens.input.saturating_add(tokens.cache.read);
        let tier = self.tiers.iter().filter(|tier| size > tier.tier.size).max_by_key(|tier| tier.tier.size);
        let (input, output, cache) = match tier {
            Some(tier) => (tier.input, tier.output, tier.cache),
            None => (self.input, self.output, self.cache),
        };
        let each = [
            (tokens.input, input),
            (tokens.output.saturating_add(tokens.reasoning), output),
            (tokens.cache.read, cache.read),
            (tokens.cache.write, cache.write),
        ];
        each.iter().map(|(count, price)| *count as f64 * price / 1_000_000.0).sum()
    }
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::message::CacheTokens;

    #[test]
    fn a_request_costs_what_its_size_says() {
        let cache = CacheCost { read: 0.5, write: 4.0 };
        let tier = CostTier { input: 6.0, output: 20.0, cache, tier: Tier::context(200_000) };
        let cost = Cost { input: 3.0, output: 10.0, cache, tiers: vec![tier], over_200k: None };
        let tokens = |input| Tokens {
            total: None,
            input,
            output: 1_000,
            reasoning: 1_000,
            cache: CacheTokens { read: 100_000, write: 1_000 },
        };
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} is not {other}");
        close(cost.of(&tokens(100_000)), 0.3 + 0.02 + 0.05 + 0.004);
        close(cost.of(&tokens(100_001)), 0.600_006 + 0.04 + 0.05 + 0.004);
        assert_eq!(Cost::default().of(&tokens(5)), 0.0);
    }
}
