//! Talks to model vendors: a [`ModelRequest`] in, a stream of [`ModelEvent`]s out.
//!
//! One folder a wire format, each the same three files: `wire` (the vendor's JSON), `request` (pure), `stream` (a
//! pure fold over the events of the answer). `vendors` says which package speaks which format, `adapter` does the POST
//! for all of them, `answer` and `call` are what their decoders share. No config and no environment in
//! here: an [`Endpoint`] says all an adapter needs ([`add_ambient`] puts in what a cloud's own tools would find), and
//! [`open`] picks the adapter. Nothing is tried again here but a request
//! whose key was refused and could be refreshed ([`Credential`]): an error says of which [`ErrorClass`] it is, and the
//! Processor decides. Start at `chat`, the format most servers speak; [`demo`] needs no server at all.
//! [`models`] is what is known of vendors' models, [`auth`] the logins that are kept.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use protocol::CallId;
use protocol::model::{ModelEvent, ModelRequest};

mod adapter;
mod ambient;
mod answer;
mod anthropic;
pub mod auth;
mod aws;
mod azure;
mod bedrock;
mod call;
mod chat;
mod copilot;
mod credential;
mod decode;
mod defaults;
pub mod demo;
mod endpoint;
mod error;
mod gemini;
mod google;
mod lenient;
mod media;
pub mod models;
mod names;
mod options;
mod responses;
mod schema;
#[cfg(test)]
mod testing;
mod text;
mod vendors;

pub use ambient::{GOOGLE_PROJECTS, Variables, add_ambient, is_ambient};
pub use credential::{Access, Credential, Secret, SigningKeys};
pub use endpoint::{Endpoint, OpenError};
pub use error::{ErrorClass, ProviderError};
pub use vendors::{open, speaks};

/// Speaks to one vendor.
pub trait Provider: Send + Sync {
    /// Sends the request and returns what is decoded of the answer. Nothing happens until the stream is polled, and
    /// dropping it ends the request. Events that came at once are one item. The stream ends after
    /// [`ModelEvent::Finish`] or its first error; it never ends without one of the two.
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// What [`Provider::stream`] returns.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Vec<ModelEvent>, ProviderError>> + Send>>;

/// Makes ids for calls to which the vendor gave none.
pub type IdSource = Arc<dyn Fn() -> CallId + Send + Sync>;
