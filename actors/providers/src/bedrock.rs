//! Amazon Bedrock's Converse, for the models of all vendors there.
//!
//! Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>, and OpenCode 1.18's
//! client package. It is Anthropic's format in other words, so the conversation and the settings come from
//! [`crate::anthropic`]; the answer comes in frames of AWS's own.

mod frames;
mod request;
mod stream;
mod wire;

#[cfg(test)]
mod tests;

use futures::{FutureExt, StreamExt};
use protocol::model::ModelRequest;
use sse::{BATCH, Client, SseRequest, batches};

use self::stream::Decoder;
use crate::adapter::{Events, Format, Post, no_json};
use crate::credential::Access;
use crate::endpoint::Endpoint;
use crate::error::ProviderError;
use crate::vendors::region;
use crate::{IdSource, defaults};

/// Under which name data is kept with parts.
const VENDOR: &str = "bedrock";

/// The format.
pub(crate) struct Bedrock;

impl Format for Bedrock {
    type Decoder = Decoder;

    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, _: &Access) -> Result<Post, ProviderError> {
        let options = defaults::with(endpoint, request);
        let body = request::body(request, &options).map_err(|error| no_json(&error))?;
        let model = request::model_in(&request.model, region(endpoint));
        Ok(Post {
            path: vec!["model".to_owned(), model, "converse-stream".to_owned()],
            headers: vec![("accept", frames::MEDIA.to_owned())],
            body,
            ..Post::default()
        })
    }

    fn decoder(&self, _endpoint: &Endpoint, ids: IdSource) -> Decoder {
        Decoder::new(ids)
    }

    fn events(&self, client: &Client, request: SseRequest) -> Events {
        let client = client.clone();
        let limits = frames::Limits { bytes: request.max_event_bytes, time: request.event_timeout };
        let pieces = async move {
            match sse::body(&client, &request, frames::MEDIA).await {
                Ok(pieces) => pieces.left_stream(),
                Err(error) => futures::stream::iter([Err(error)]).right_stream(),
            }
        };
        Box::pin(batches(frames::events(Box::pin(pieces.flatten_stream()), limits), BATCH))
    }
}
