//! A typed client of the server's own protocol, over TCP or a unix socket: requests and answers in the shapes of
//! `protocol`, the event stream with reconnecting, and errors with the server's words.
//!
//! The command line, the terminal client and tests stand on it. It decides nothing and keeps nothing: what a session
//! is doing is the server's to know.
//!
//! Start at [`Client`]; [`Events`] is the stream. [`describe`] has the one-line texts for people that several clients
//! show.

mod asks;
mod connection;
pub mod describe;
mod error;
mod events;
mod mcp;
mod sessions;
mod setup;

#[cfg(test)]
mod tests;

pub use asks::Tree;
pub use connection::Client;
pub use error::{ApiError, ClientError};
pub use events::Events;
pub use mcp::{LoginBegun, McpServer, McpStatus, McpTool};
pub use sessions::SessionsQuery;
pub use setup::{Health, Providers};
