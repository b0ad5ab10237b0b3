//! Gemini's `streamGenerateContent`, at Google's own API and at Vertex.
//!
//! Source: <https://ai.google.dev/api/generate-content>, <https://ai.google.dev/gemini-api/docs/thought-signatures>,
//! <https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference>.

mod contents;
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
use crate::{IdSource, defaults};

/// The format.
pub(crate) struct Gemini;

impl Format for Gemini {
    type Decoder = Decoder;

    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, _: &Access) -> Result<Post, ProviderError> {
        let options = defaults::with(endpoint, request);
        let body = request::body(request, options).map_err(|error| no_json(&error))?;
        let mut path: Vec<String> = match request.model.contains('/') {
            true => request.model.split('/').map(str::to_owned).collect(),
            false => vec!["models".to_owned(), request.model.clone()],
        };
        if let Some(last) = path.last_mut() {
            last.push_str(":streamGenerateContent");
        }
        Ok(Post { path, query: vec![("alt", "sse".to_owned())], body, ..Post::default() })
    }

    fn decoder(&self, _endpoint: &Endpoint, ids: IdSource) -> Decoder {
        Decoder::new(ids)
    }

    fn authorize(&self, _endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
        match secret {
            Secret::Key(key) => Some(("x-goog-api-key", key.clone())),
            Secret::Bearer(token) => Some(("authorization", format!("Bearer {token}"))),
            Secret::None | Secret::Signing(_) => None,
        }
    }
}
