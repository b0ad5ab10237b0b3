//! Opens event streams: the vendors' answers, and the server's own `/event` for its clients.
//!
//! [`open`] is the one way in. It runs `eventsource-client` over a `reqwest` client ([`http::client`] builds it) and
//! adds what that crate leaves to its user:
//!
//! - an answer that is no event stream, or no success, is a typed error with its status, headers and (cut) body;
//! - a header time limit, and an idle limit that only real events reset: comments are no progress;
//! - a limit to the bytes of one event, and text for bytes that are none;
//! - a stream that ended is told from one that was cut, also when the cut looks like an end;
//! - nothing comes after the first error, or, if asked for, the stream opens again from the last event's id.
//!
//! It knows nothing of what the events say. `eventsource-client` and its transport log headers and event data through
//! `log` at debug level: whoever sets up logging keeps `eventsource_client` at info or above.

mod batch;
mod boundary;
mod error;
pub mod http;
mod idle;
mod lossy;
mod request;
mod stream;
mod transport;

#[cfg(test)]
mod tests;

pub use batch::{BATCH, batches};
pub use error::{Answer, SseError};
pub use idle::Idle;
pub use request::{Reconnect, SseRequest};
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Client, Method, Url};
pub use stream::{EventStream, SseEvent, open, recorded};
pub use transport::body;
