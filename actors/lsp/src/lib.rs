//! A client of language servers: programs that know a language and say what is wrong with a file, where a symbol is
//! defined, who uses it.
//!
//! A server is started when a file of its language is first read, written or asked about, once for each root (the
//! directory of `Cargo.toml`, `go.mod`…). Known ones are used when they are installed, in the project or in `PATH`
//! ([`known`]); config adds others ([`config`]). Nothing is ever downloaded.
//!
//! Servers are strangers: what they write may be junk, too large or late, and they may end at any time. Nothing they
//! do costs more than a bounded wait; one that ended is told of once and started again when it is next needed, a few
//! times.
//!
//! This crate knows nothing of actors. Start at [`servers`]: all servers of a directory. Then [`client`]: one that
//! runs; [`connection`] and [`frame`]: how one speaks to it; [`query`]: questions about code.

pub mod client;
pub mod config;
pub mod connection;
pub mod error;
pub mod frame;
pub mod known;
pub mod language;
pub mod query;
pub mod remark;
pub mod root;
pub mod servers;

mod document;
mod start;
mod typescript;

#[cfg(test)]
mod testing;

pub use config::Settings;
pub use error::LspError;
pub use servers::{Place, ServerStatus, Servers};
