//! For tests: servers that do as they are told, and a desk that answers as it is told.
//!
//! A [`Script`] says what a server offers and how it misbehaves. As a child process ([`Script::local`]) it is the test
//! binary itself, started again for one test that calls [`run_if_child`]. On the network it is [`HttpServer`].

#![allow(missing_docs, reason = "for tests only")]

mod desk;
mod http;
mod log;
mod script;

pub use desk::FakeDesk;
pub use http::{HttpServer, Options, Stats};
pub use log::Log;
pub use script::{Later, Script, ScriptedTool, run_if_child};
