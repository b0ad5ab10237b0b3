//! Which adapter speaks to a provider, and at what address, by the client package OpenCode would use.
//!
//! | package | format | address, if the config gives none |
//! |---|---|---|
//! | `@ai-sdk/openai` | [`crate::responses`] | api.openai.com |
//! | `@ai-sdk/azure` | responses; chat with `useCompletionUrls` | by `resourceName` |
//! | `@ai-sdk/anthropic` | [`crate::anthropic`] | api.anthropic.com |
//! | `@ai-sdk/google` | [`crate::gemini`] | generativelanguage.googleapis.com |
//! | `@ai-sdk/google-vertex` | gemini | by `project` and `location` |
//! | `@ai-sdk/google-vertex/anthropic` | anthropic | by `project` and `location` |
//! | `@ai-sdk/amazon-bedrock` | [`crate::bedrock`] | `endpoint`, else by `region` |
//! | `@ai-sdk/amazon-bedrock/mantle` | responses | by `region` |
//! | `@ai-sdk/github-copilot` | responses for gpt-5 and later, else chat | api.githubcopilot.com |
//! | `demo` | [`crate::demo`] | |
//! | `@ai-sdk/cohere`, GitLab's, IBM's, SAP's | not spoken | |
//! | any other | [`crate::chat`], most likely spoken by a server of unknown make | that of the package, if it has one |

use std::sync::Arc;

use protocol::{Ids, SystemClock};
use sse::Client;

use crate::adapter::Adapter;
use crate::anthropic::Anthropic;
use crate::bedrock::Bedrock;
use crate::chat::Chat;
use crate::copilot::Copilot;
use crate::demo::{self, Demo};
use crate::endpoint::{Endpoint, OpenError};
use crate::gemini::Gemini;
use crate::responses::Responses;
use crate::{IdSource, Provider};

pub(crate) const ANTHROPIC: &str = "@ai-sdk/anthropic";
pub(crate) const AZURE: &str = "@ai-sdk/azure";
pub(crate) const BEDROCK: &str = "@ai-sdk/amazon-bedrock";
pub(crate) const COMPATIBLE: &str = "@ai-sdk/openai-compatible";
pub(crate) const COPILOT: &str = "@ai-sdk/github-copilot";
pub(crate) const GOOGLE: &str = "@ai-sdk/google";
pub(crate) const MANTLE: &str = "@ai-sdk/amazon-bedrock/mantle";
pub(crate) const OPENAI: &str = "@ai-sdk/openai";
pub(crate) const OPENROUTER: &str = "@openrouter/ai-sdk-provider";
pub(crate) const VERTEX: &str = "@ai-sdk/google-vertex";
pub(crate) const VERTEX_ANTHROPIC: &str = "@ai-sdk/google-vertex/anthropic";

/// Packages whose wire format no adapter speaks.
const NOT_SPOKEN: [&str; 6] = [
    "@ai-sdk/cohere",
    "@gitlab/gitlab-ai-provider",
    "@jerome-benoit/sap-ai-provider",
    "@jerome-benoit/sap-ai-provider-v2",
    "gitlab-ai-provider",
    "watsonx-ai-provider",
];

/// Addresses that packages carry.
const BASE_URLS: [(&str, &str); 19] = [
    ("@ai-sdk/alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    (ANTHROPIC, "https://api.anthropic.com/v1"),
    ("@ai-sdk/cerebras", "https://api.cerebras.ai/v1"),
    ("@ai-sdk/deepinfra", "https://api.deepinfra.com/v1/openai"),
    ("@ai-sdk/deepseek", "https://api.deepseek.com/v1"),
    ("@ai-sdk/fireworks", "https://api.fireworks.ai/inference/v1"),
    ("@ai-sdk/gateway", "https://ai-gateway.vercel.sh/v1"),
    (COPILOT, "https://api.githubcopilot.com"),
    (GOOGLE, "https://generativelanguage.googleapis.com/v1beta"),
    ("@ai-sdk/groq", "https://api.groq.com/openai/v1"),
    ("@ai-sdk/mistral", "https://api.mistral.ai/v1"),
    ("@ai-sdk/moonshotai", "https://api.moonshot.ai/v1"),
    (OPENAI, "https://api.openai.com/v1"),
    ("@ai-sdk/perplexity", "https://api.perplexity.ai"),
    ("@ai-sdk/togetherai", "https://api.together.xyz/v1"),
    ("@ai-sdk/vercel", "https://api.v0.dev/v1"),
    ("@ai-sdk/xai", "https://api.x.ai/v1"),
    (OPENROUTER, "https://openrouter.ai/api/v1"),
    ("venice-ai-sdk-provider", "https://api.venice.ai/api/v1"),
];

/// Returns the adapter that speaks to `endpoint`. `client` is shared by all.
pub fn open(endpoint: &Endpoint, client: Client) -> Result<Arc<dyn Provider>, OpenError> {
    let npm = endpoint.npm.as_str();
    if npm == demo::NPM {
        return Ok(Arc::new(Demo::new(call_ids())));
    }
    if NOT_SPOKEN.contains(&npm) {
        return Err(OpenError::NotSpoken { provider_id: endpoint.provider_id.clone(), npm: npm.to_owned() });
    }
    Ok(match npm {
        AZURE if endpoint.is_set("useCompletionUrls") => Arc::new(Adapter::new(endpoint, client, call_ids(), Chat)?),
        BEDROCK => Arc::new(Adapter::new(endpoint, client, call_ids(), Bedrock)?),
        OPENAI | AZURE | MANTLE => Arc::new(Adapter::new(endpoint, client, call_ids(), Responses)?),
        ANTHROPIC | VERTEX_ANTHROPIC => Arc::new(Adapter::new(endpoint, client, call_ids(), Anthropic)?),
        GOOGLE | VERTEX => Arc::new(Adapter::new(endpoint, client, call_ids(), Gemini)?),
        COPILOT => Arc::new(Copilot::new(endpoint, client, call_ids())?),
        _ => Arc::new(Adapter::new(endpoint, client, call_ids(), Chat)?),
    })
}

/// Returns whether the wire format of a package is spoken.
pub fn speaks(npm: &str) -> bool {
    !NOT_SPOKEN.contains(&npm)
}

fn call_ids() -> IdSource {
    let ids = Ids::new(Arc::new(SystemClock), 0);
    Arc::new(move || ids.call())
}

/// Returns the address of a provider whose config gives none.
pub(crate) fn base_url(endpoint: &Endpoint) -> Result<String, OpenError> {
    let lacks = |option| OpenError::NoBaseUrl { provider_id: endpoint.provider_id.clone(), option };
    match endpoint.npm.as_str() {
        AZURE => {
            let resource = endpoint.setting("resourceName").ok_or_else(|| lacks("resourceName"))?;
            Ok(format!("https://{resource}.openai.azure.com/openai"))
        }
        VERTEX | VERTEX_ANTHROPIC => vertex(endpoint).ok_or_else(|| lacks("project")),
        BEDROCK => {
            let region = region(endpoint);
            let china = if region.starts_with("cn-") { ".cn" } else { "" };
            Ok(format!("https://bedrock-runtime.{region}.amazonaws.com{china}"))
        }
        MANTLE => Ok(format!("https://bedrock-mantle.{}.api.aws/v1", region(endpoint))),
        npm => {
            let known = BASE_URLS.iter().find(|(package, _)| *package == npm);
            known.map(|(_, url)| (*url).to_owned()).ok_or_else(|| lacks("baseURL"))
        }
    }
}

/// Returns the region of AWS.
pub(crate) fn region(endpoint: &Endpoint) -> &str {
    endpoint.setting("region").unwrap_or("us-east-1")
}

/// Source: <https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations>.
fn vertex(endpoint: &Endpoint) -> Option<String> {
    let project = endpoint.setting("project");
    let (version, publisher, default) = match endpoint.npm.as_str() {
        VERTEX_ANTHROPIC => ("v1", "anthropic", "global"),
        _ => ("v1beta1", "google", "us-central1"),
    };
    let Some(project) = project else {
        // With a key of the express mode there is no project.
        let express = endpoint.npm == VERTEX && endpoint.api_key.as_ref().is_some_and(|key| !key.is_empty());
        return express.then(|| format!("https://aiplatform.googleapis.com/v1/publishers/{publisher}"));
    };
    let location = endpoint.setting("location").unwrap_or(default);
    let host = match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "eu" | "us" => format!("aiplatform.{location}.rep.googleapis.com"),
        _ => format!("{location}-aiplatform.googleapis.com"),
    };
    let models = if publisher == "anthropic" { "/models" } else { "" };
    Some(format!("https://{host}/{version}/projects/{project}/locations/{location}/publishers/{publisher}{models}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn endpoint(npm: &str, options: serde_json::Value) -> Endpoint {
        let mut endpoint = Endpoint::new("p", npm, "");
        endpoint.options = options.as_object().cloned().expect("an object");
        endpoint
    }

    #[test]
    fn addresses_are_made_of_the_settings() {
        let base = |npm: &str, options| base_url(&endpoint(npm, options)).map_err(|error| error.to_string());
        for (npm, options, url) in [
            (AZURE, json!({ "resourceName": "r" }), "https://r.openai.azure.com/openai"),
            (
                VERTEX,
                json!({ "project": "p" }),
                "https://us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google",
            ),
            (
                VERTEX_ANTHROPIC,
                json!({ "project": "p", "location": "eu" }),
                "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models",
            ),
            (
                VERTEX_ANTHROPIC,
                json!({ "project": "p" }),
                "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic/models",
            ),
            (BEDROCK, json!({}), "https://bedrock-runtime.us-east-1.amazonaws.com"),
            (BEDROCK, json!({ "region": "cn-north-1" }), "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
            (MANTLE, json!({ "region": "eu-west-1" }), "https://bedrock-mantle.eu-west-1.api.aws/v1"),
            (OPENAI, json!({}), "https://api.openai.com/v1"),
        ] {
            assert_eq!(base(npm, options).as_deref(), Ok(url));
        }
        assert!(base(AZURE, json!({})).expect_err("no address").contains("options.resourceName"));
        assert!(base(VERTEX, json!({})).expect_err("no address").contains("options.project"));
        let mut express = endpoint(VERTEX, json!({}));
        express.api_key = Some("k".into());
        assert_eq!(base_url(&express).as_deref(), Ok("https://aiplatform.googleapis.com/v1/publishers/google"));
    }

    #[test]
    fn a_package_that_is_not_spoken_is_refused_and_a_way_out_is_named() {
        let client = || sse::http::client("test").expect("a client");
        for npm in NOT_SPOKEN {
            let error = open(&Endpoint::new("p", npm, "http://h"), client()).err().expect("an error").to_string();
            assert!(error.contains(npm) && error.contains("@ai-sdk/openai-compatible"), "{error}");
        }
        for npm in
            [OPENAI, AZURE, ANTHROPIC, BEDROCK, GOOGLE, VERTEX, VERTEX_ANTHROPIC, COPILOT, MANTLE, "some-package"]
        {
            assert!(open(&Endpoint::new("p", npm, "http://h"), client()).is_ok(), "{npm}");
        }
    }
}
