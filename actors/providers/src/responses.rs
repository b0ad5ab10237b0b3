//! OpenAI's responses, at OpenAI, at Azure, at Copilot, and at the ChatGPT backend.
//!
//! Source: <https://platform.openai.com/docs/api-reference/responses>,
//! <https://platform.openai.com/docs/api-reference/responses-streaming>, and OpenCode 1.18 on the wire.

mod input;
mod request;
mod stream;
mod wire;

#[cfg(test)]
mod tests;

use protocol::model::ModelRequest;

use self::stream::Decoder;
use crate::adapter::{Format, Post, no_json};
use crate::credential::{Access, Secret};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::vendors::{AZURE, COPILOT};
use crate::{IdSource, azure, defaults};

/// The format.
pub(crate) struct Responses;

impl Format for Responses {
    type Decoder = Decoder;

    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, access: &Access) -> Result<Post, ProviderError> {
        let options = defaults::with(endpoint, request);
        let target = request::Target {
            vendor: vendor(endpoint),
            on_chatgpt: is_chatgpt(endpoint, access),
            // As its own clients do.
            has_limit: endpoint.npm != COPILOT || !request.model.contains("gpt"),
        };
        let body = request::body(request, &options, &target).map_err(|error| no_json(&error))?;
        let mut post = Post { path: vec!["responses".into()], body, ..Post::default() };
        azure::place(endpoint, request, &mut post);
        Ok(post)
    }

    fn decoder(&self, endpoint: &Endpoint, ids: IdSource) -> Decoder {
        Decoder::new(ids, vendor(endpoint))
    }

    fn authorize(&self, endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
        azure::authorize(endpoint, secret)
    }
}

/// Under which name data is kept with parts.
fn vendor(endpoint: &Endpoint) -> &'static str {
    match endpoint.npm.as_str() {
        AZURE => "azure",
        COPILOT => "copilot",
        _ => "openai",
    }
}

/// Returns whether the request goes to the backend of ChatGPT, for accounts that have no key.
fn is_chatgpt(endpoint: &Endpoint, access: &Access) -> bool {
    access.base_url.as_deref().unwrap_or(&endpoint.base_url).starts_with("https://chatgpt.com/")
}
