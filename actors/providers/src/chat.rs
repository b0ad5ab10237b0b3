//! OpenAI chat completions: what OpenAI began and most servers speak (Ollama, vLLM, LM Studio, OpenRouter, DeepSeek…),
//! each in a dialect of its own; see [`dialect`].
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>, and OpenCode 1.18 on the wire.

mod calls;
mod dialect;
mod messages;
mod request;
mod stream;
mod vendor_data;
mod wire;

#[cfg(test)]
mod tests;

use protocol::model::ModelRequest;

pub(crate) use stream::Decoder;

use self::dialect::Dialect;
use crate::adapter::{Format, Post, no_json};
use crate::credential::{Access, Secret};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::{IdSource, azure, defaults};

/// The format.
pub(crate) struct Chat;

impl Format for Chat {
    type Decoder = Decoder;

    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, _: &Access) -> Result<Post, ProviderError> {
        let dialect = Dialect::of(endpoint, &request.model);
        let usage = endpoint.options.get("includeUsage").and_then(serde_json::Value::as_bool).unwrap_or(true);
        let options = defaults::with(endpoint, request);
        let body = request::body(request, options, &dialect, usage).map_err(|error| no_json(&error))?;
        let mut post = Post { path: vec!["chat".into(), "completions".into()], body, ..Post::default() };
        azure::place(endpoint, request, &mut post);
        Ok(post)
    }

    fn decoder(&self, endpoint: &Endpoint, ids: IdSource) -> Decoder {
        Decoder::new(ids, dialect::vendor(endpoint))
    }

    fn authorize(&self, endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
        azure::authorize(endpoint, secret)
    }
}
