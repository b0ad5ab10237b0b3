//! Talks to model vendors: a [`ModelRequest`] in, a stream of [`ModelEvent`]s out.
//!
//! One folder a wire format, each the same three files: `wire` (the vendor's JSON), `request` (pure), `stream` (a
//! pure fold over SSE data). No config and no environment in here: an [`Endpoint`] says all an adapter needs.

use std::pin::Pin;

use futures::Stream;
use protocol::model::{ModelEvent, ModelRequest};

/// Speaks to one vendor.
pub trait Provider: Send + Sync {
    /// Sends the request and returns what is decoded of the answer. Nothing happens until the stream is polled, and
    /// dropping it ends the request. Events that came at once are one item. The stream ends after
    /// [`ModelEvent::Finish`] or its first error; it never ends without one of the two.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// What [`Provider::stream`] returns.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Vec<ModelEvent>, ProviderError>> + Send>>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[error("placeholder")]
pub struct ProviderError {}
