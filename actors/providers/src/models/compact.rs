//! What models.dev answers, as a list.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::facts::Facts;

/// What models.dev answered is no list of models.
#[derive(Debug, thiserror::Error)]
#[error("the answer is no list of models: {0}")]
pub struct BadList(String);

#[derive(Deserialize)]
struct Provider {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    npm: Option<String>,
    #[serde(default)]
    api: Option<String>,
    #[serde(default)]
    env: Vec<String>,
    models: IndexMap<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Model {
    name: Option<String>,
    family: Option<String>,
    attachment: bool,
    reasoning: bool,
    temperature: bool,
    tool_call: Option<bool>,
    interleaved: Value,
    modalities: Kinds,
    cost: Option<Price>,
    limit: Limits,
    release_date: Option<String>,
    status: Option<String>,
    provider: Spoken,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kinds {
    input: Vec<String>,
    output: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Price {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    context_over_200k: Option<Box<Price>>,
    tiers: Vec<PriceTier>,
}

#[derive(Deserialize)]
struct PriceTier {
    #[serde(flatten)]
    price: Price,
    tier: TierSize,
}

#[derive(Deserialize)]
struct TierSize {
    size: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Limits {
    context: u64,
    output: u64,
    input: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spoken {
    npm: Option<String>,
    api: Option<String>,
    shape: Option<String>,
}

/// Returns the list (see [`crate::models`]) of what models.dev answers, `api.json`, made on this day. Models that write
/// no text are left out, and so is what can't be read; nothing that can be is an error.
pub fn compact(api: &str, date: &str) -> Result<String, BadList> {
    let all: IndexMap<String, Value> = serde_json::from_str(api).map_err(|error| BadList(error.to_string()))?;
    let (mut heads, mut bodies, mut at) = (Vec::new(), Vec::new(), 0_usize);
    for (id, value) in all {
        let Ok(provider) = serde_json::from_value::<Provider>(value) else {
            tracing::warn!(provider = id, "a provider of the fetched list can't be read and is left out");
            continue;
        };
        let models: IndexMap<String, Facts> = provider
            .models
            .into_iter()
            .filter_map(|(key, value)| {
                let model: Model = serde_json::from_value(value).ok()?;
                let writes = &model.modalities.output;
                let talks = writes.is_empty() || writes.iter().any(|kind| kind == "text");
                talks.then(|| (key.clone(), model.into_facts(key)))
            })
            .collect();
        if models.is_empty() {
            continue;
        }
        let body = serde_json::to_string(&models).map_err(|error| BadList(error.to_string()))?;
        let mut head = json!({
            "id": id,
            "name": provider.name.unwrap_or_else(|| id.clone()),
            "npm": provider.npm.unwrap_or_else(|| "@ai-sdk/openai-compatible".into()),
            "env": provider.env,
            "at": at,
            "len": body.len(),
        });
        if let (Some(api), Some(head)) = (provider.api, head.as_object_mut()) {
            head.insert("api".into(), api.into());
        }
        at += body.len() + 1;
        heads.push(head.to_string());
        bodies.push(body);
    }
    if heads.is_empty() {
        return Err(BadList("it names no provider".into()));
    }
    let top = json!({ "source": "https://models.dev", "date": date, "providers": heads.len() }).to_string();
    let lines: Vec<String> = std::iter::once(top).chain(heads).chain(bodies).collect();
    Ok(lines.join("\n") + "\n")
}

impl Model {
    fn into_facts(self, key: String) -> Facts {
        let cost = self.cost.unwrap_or_default();
        let four = |price: &Price| [price.input, price.output, price.cache_read, price.cache_write];
        let mut above: Vec<(u64, [f64; 4])> =
            cost.tiers.iter().map(|tier| (tier.tier.size, four(&tier.price))).collect();
        if let Some(long) = &cost.context_over_200k
            && !above.iter().any(|(size, _)| *size == 200_000)
        {
            above.push((200_000, four(long)));
        }
        above.sort_by_key(|(size, _)| *size);
        let text_alone = |kinds: Vec<String>| if kinds == ["text"] { Vec::new() } else { kinds };
        Facts {
            name: self.name.unwrap_or(key),
            family: self.family.unwrap_or_default(),
            attachment: self.attachment,
            reasoning: self.reasoning,
            temperature: self.temperature,
            tool_call: self.tool_call.filter(|calls| !calls),
            interleaved: if self.interleaved == Value::Bool(false) { Value::Null } else { self.interleaved },
            input: text_alone(self.modalities.input),
            output: text_alone(self.modalities.output),
            cost: Some(four(&cost)).filter(|cost| cost.iter().any(|price| *price != 0.0)),
            above: above.iter().map(|(size, [a, b, c, d])| [*size as f64, *a, *b, *c, *d]).collect(),
            limit: [self.limit.context, self.limit.output].into_iter().chain(self.limit.input).collect(),
            date: self.release_date.unwrap_or_default(),
            status: self.status.unwrap_or_default(),
            npm: self.provider.npm.unwrap_or_default(),
            api: self.provider.api.unwrap_or_default(),
            shape: self.provider.shape.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::models::ModelList;

    #[test]
    fn what_models_dev_answers_becomes_a_list_with_the_same_facts() {
        let api = json!({
            "ven": { "id": "ven", "name": "Ven", "npm": "@ai-sdk/anthropic", "env": ["VEN_KEY"], "doc": "https://x",
                     "models": {
                "big": { "id": "big", "name": "Big 好", "attachment": true, "reasoning": true, "tool_call": true,
                         "temperature": true, "release_date": "2026-01-02", "interleaved": { "field": "reasoning_content" },
                         "modalities": { "input": ["text", "image", "pdf"], "output": ["text"] },
                         "limit": { "context": 200000, "output": 64000, "input": 150000 },
                         "cost": { "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75,
                                   "context_over_200k": { "input": 6, "output": 22.5 } } },
                "draws": { "name": "Draws", "modalities": { "input": ["text"], "output": ["image"] } },
                "mute": { "tool_call": false, "status": "beta", "provider": { "npm": "@ai-sdk/openai", "shape": "completions" } },
                "odd": 7,
            } },
            "broken": { "models": 7 },
            "empty": { "models": {} },
        });
        let text = compact(&api.to_string(), "2026-11-30").expect("a list");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("models.jsonl");
        std::fs::write(&path, &text).expect("written");
        let list = ModelList::read(&path).expect("a list");
        let ven = list.provider("ven").expect("a provider");
        let models = list.models(ven).expect("models");
        assert_eq!((list.date.as_str(), list.providers().count(), models.len()), ("2026-11-30", 1, 2));
        let big = &models["big"];
        assert_eq!((big.name.as_str(), big.release_date.as_str()), ("Big 好", "2026-01-02"));
        assert_eq!((big.limit.context, big.limit.input, big.limit.output), (200_000, Some(150_000), 64_000));
        assert_eq!((big.cost.input, big.cost.cache.write, big.cost.tiers.len()), (3.0, 3.75, 1));
        assert_eq!(big.cost.over_200k.map(|cost| cost.output), Some(22.5));
        assert!(big.capabilities.input.pdf && big.capabilities.attachment && !big.capabilities.output.image);
        assert_eq!(big.capabilities.interleaved, json!({ "field": "reasoning_content" }));
        let mute = &models["mute"];
        let spoken = (mute.api.npm.as_str(), mute.status.as_str());
        assert_eq!((mute.capabilities.toolcall, spoken), (false, ("@ai-sdk/openai-compatible", "beta")));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for answer in ["", "<html>", "[]", "{}", r#"{"a":{"models":{}}}"#] {
            assert!(compact(answer, "2026-11-30").is_err(), "{answer}");
        }
    }
}
