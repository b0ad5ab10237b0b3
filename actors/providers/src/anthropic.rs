//! Anthropic's messages, at Anthropic, at Vertex, at Copilot, and at servers that speak the same (Kimi, MiniMax, Z.ai).
//!
//! Source: <https://docs.anthropic.com/en/api/messages>, <https://docs.anthropic.com/en/api/messages-streaming>,
//! <https://docs.anthropic.com/en/api/claude-on-vertex-ai>, and OpenCode 1.18 on the wire.

mod cache;
pub(crate) mod messages;
mod model;
pub(crate) mod request;
mod stream;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use protocol::model::ModelRequest;

use self::stream::Decoder;
use crate::adapter::{BETA, Format, Post, no_json};
use crate::credential::{Access, Secret};
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::vendors::VERTEX_ANTHROPIC;
use crate::{IdSource, copilot, defaults};

/// Returns whether a Claude model decides by itself how long it thinks.
pub(crate) fn adapts(model: &str) -> bool {
    model::adapts(model)
}

const VERSION: &str = "2023-06-01";
/// The version where it goes into the body.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// The format.
pub(crate) struct Anthropic;

impl Format for Anthropic {
    type Decoder = Decoder;

    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, _: &Access) -> Result<Post, ProviderError> {
        let on_vertex = endpoint.npm == VERTEX_ANTHROPIC;
        let options = defaults::with(endpoint, request);
        let betas = request::betas(request, &options, on_vertex);
        let version = on_vertex.then_some(VERTEX_VERSION);
        let body = request::body(request, &options, version).map_err(|error| no_json(&error))?;
        let path = if on_vertex { format!("{}:streamRawPredict", request.model) } else { "messages".to_owned() };
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        if !betas.is_empty() {
            headers.push((BETA, betas.join(",")));
        }
        Ok(Post { path: vec![path], headers, body, ..Post::default() })
    }

    fn decoder(&self, _endpoint: &Endpoint, ids: IdSource) -> Decoder {
        Decoder::new(ids)
    }

    fn authorize(&self, endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
        let wants_bearer = endpoint.npm == VERTEX_ANTHROPIC || copilot::is(endpoint);
        match (secret, endpoint.setting("authToken")) {
            (Secret::Key(key), _) if !wants_bearer => Some(("x-api-key", key.clone())),
            (Secret::Key(secret) | Secret::Bearer(secret), _) => Some(("authorization", format!("Bearer {secret}"))),
            (Secret::None, Some(token)) => Some(("authorization", format!("Bearer {token}"))),
            (Secret::None | Secret::Signing(_), _) => None,
        }
    }
}
