//! A model of the list, as it is written there.

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::provider::{CacheCost, Capabilities, Cost, CostTier, Limit, Modalities, Model, ModelApi, Tier};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Listed, variants};
use crate::vendors::{COMPATIBLE, COPILOT, OPENAI};

/// A model as the list has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) family: String,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) attachment: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) reasoning: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) temperature: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call: Option<bool>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) interleaved: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) input: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) output: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<[f64; 4]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) above: Vec<[f64; 5]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) limit: Vec<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) date: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) npm: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) shape: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// From this many tokens on OpenCode has a name of its own for the price.
const LONG: u64 = 200_000;

impl Facts {
    /// Returns the model as clients see it.
    pub fn into_model(self, key: &str, provider: &Listed) -> Model {
        let npm = match (self.npm.is_empty(), provider.id.starts_with("github-copilot")) {
            (false, _) => self.npm,
            (true, true) => COPILOT.to_owned(),
            (true, false) => provider.npm.clone(),
        };
        // The package names the wire format.
        let npm = match (self.shape.as_str(), npm.as_str()) {
            ("responses", COMPATIBLE) => OPENAI.to_owned(),
            ("completions", OPENAI) => COMPATIBLE.to_owned(),
            _ => npm,
        };
        let [input, output, read, write] = self.cost.unwrap_or_default();
        let tiers: Vec<CostTier> = self
            .above
            .iter()
            .map(|[size, input, output, read, write]| CostTier {
                input: *input,
                output: *output,
                cache: CacheCost { read: *read, write: *write },
                tier: Tier::context(*size as u64),
            })
            .collect();
        let long = tiers.iter().find(|tier| tier.tier.size == LONG);
        let cost = Cost {
            input,
            output,
            cache: CacheCost { read, write },
            over_200k: long.map(|tier| protocol::provider::LongCost {
                input: tier.input,
                output: tier.output,
                cache: tier.cache,
            }),
            tiers,
        };
        let mut model = Model {
            id: key.to_owned(),
            provider_id: provider.id.clone(),
            api: ModelApi {
                id: key.to_owned(),
                url: if self.api.is_empty() { provider.api.clone().unwrap_or_default() } else { self.api },
                npm,
            },
            name: self.name,
            family: Some(self.family),
            capabilities: Capabilities {
                temperature: self.temperature,
                reasoning: self.reasoning,
                attachment: self.attachment,
                toolcall: self.tool_call.unwrap_or(true),
                input: modalities(&self.input),
                output: modalities(&self.output),
                interleaved: if self.interleaved.is_null() { Value::Bool(false) } else { self.interleaved },
            },
            cost,
            limit: Limit {
                context: self.limit.first().copied().unwrap_or(0),
                output: self.limit.get(1).copied().unwrap_or(0),
                input: self.limit.get(2).copied(),
            },
            status: if self.status.is_empty() { "active".into() } else { self.status },
            options: JsonMap::new(),
            headers: IndexMap::new(),
            release_date: self.date,
            variants: None,
        };
        model.variants = Some(variants(&model));
        model
    }
}

fn modalities(listed: &[String]) -> Modalities {
    let has = |kind: &str| listed.iter().any(|other| other == kind);
    Modalities {
        text: listed.is_empty() || has("text"),
        audio: has("audio"),
        image: has("image"),
        video: has("video"),
        pdf: has("pdf"),
    }
}
