//! OpenAI chat completions: what OpenAI began and most servers speak (Ollama, vLLM, LM Studio, OpenRouter, DeepSeek…).
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>, and OpenCode 1.18 on the wire.

mod calls;
mod request;
mod stream;
mod text;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream as streams};
use protocol::model::ModelRequest;
use sse::{Client, HeaderMap, SseRequest, Url};

pub use stream::Decoder;

use crate::decode::Run;
use crate::endpoint::{Endpoint, OpenError, set};
use crate::error::{Blame, ErrorClass, ProviderError};
use crate::{IdSource, ModelStream, Provider};

/// Speaks to one endpoint.
pub struct Chat {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    url: Url,
    headers: HeaderMap,
    endpoint: Endpoint,
    ids: IdSource,
}

impl Chat {
    /// Returns the adapter for `endpoint`; `ids` names calls to which the vendor gives no id.
    pub fn new(endpoint: &Endpoint, client: Client, ids: IdSource) -> Result<Self, OpenError> {
        let url = endpoint.url(&["chat", "completions"])?;
        let headers = endpoint.bearer_headers()?;
        Ok(Self { shared: Arc::new(Shared { client, url, headers, endpoint: endpoint.clone(), ids }) })
    }
}

impl Provider for Chat {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let shared = self.shared.clone();
        // Put off to the first poll: encoding a long history takes a while, and the caller may be an actor.
        async move {
            match shared.request(&request) {
                Ok(sent) => {
                    let blame = Blame::new(shared.url.clone(), shared.endpoint.secrets());
                    let events = sse::open(&shared.client, sent);
                    Run::new(events, Decoder::new(shared.ids.clone()), blame).left_stream()
                }
                Err(error) => streams::iter([Err(error)]).right_stream(),
            }
        }
        .flatten_stream()
        .boxed()
    }
}

impl Shared {
    fn request(&self, request: &ModelRequest) -> Result<SseRequest, ProviderError> {
        let usage = self.endpoint.options.get("includeUsage").and_then(serde_json::Value::as_bool).unwrap_or(true);
        let body = request::body(request, usage)
            .map_err(|error| ProviderError::new(ErrorClass::BadRequest, format!("the request is no JSON: {error}")))?;
        let mut headers = self.headers.clone();
        let session = [
            ("x-session-affinity", Some(request.session_id.as_str())),
            ("x-session-id", Some(request.session_id.as_str())),
            ("x-parent-session-id", request.parent_id.as_ref().map(|id| id.as_str())),
        ];
        let session = session.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let own = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in session.chain(own) {
            set(&mut headers, name, value).ok_or_else(|| {
                let text = format!("header {name:?} of the model has a name or value that can't be sent");
                ProviderError::new(ErrorClass::BadRequest, text)
            })?;
        }
        Ok(SseRequest {
            headers,
            header_timeout: self.endpoint.header_timeout,
            event_timeout: self.endpoint.chunk_timeout,
            ..SseRequest::post(self.url.clone(), body)
        })
    }
}
