//! MCP: a client of other people's servers, and a server of our own, both on the official SDK (`rmcp`).
//!
//! The client half makes of a config entry ([`config`]) a running [`Connection`] ([`connect()`]): a child process
//! ([`tools::process::Processes`], so that it is on the guard's list and dies with its owner), a streamable HTTP
//! endpoint, or the older HTTP+SSE one. What servers say is foreign input: names are made safe ([`names`]), schemas
//! acceptable ([`schema`]), results plain and bounded ([`result`]); junk is counted, never fatal; one bad tool never
//! takes the others with it. Questions a server puts in the middle of a call go up through [`tools::Desk`]
//! ([`elicitation`]). Tokens live in `mcp-auth.json` ([`auth`]).
//!
//! [`serve`] is the other half: it offers a [`serve::Toolset`] over a pair of streams.
//!
//! It knows nothing of actors: when a server is started again, how long a prompt waits for it and what clients are
//! told is decided in `actors::mcp_host`.

pub mod auth;
pub mod config;
mod connect;
mod connection;
pub mod elicitation;
mod error;
mod handler;
mod legacy;
mod lines;
mod message;
pub mod names;
mod remote;
pub mod result;
pub mod schema;
pub mod serve;
mod status;
mod stdio;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use config::ServerConfig;
pub use connect::{Counters, Environment, Ledger, Target, connect};
pub use connection::{Changed, Connection, Offers, Prompt, PromptArgument, RemoteTool, Resource, Template};
pub use error::{CallError, ConnectError};
pub use status::Status;
