//! The actors of Troupe, and what they are to each other.
//!
//! The path of one prompt: the HTTP edge finds the [`session`] in the [`session_registry`]'s directory and sends it
//! the prompt. The session stores it by the journal and begins a turn: for each step it asks its [`workspace`] for
//! agents, models and tools, compiles the history to a request, and starts a [`processor`], which streams the
//! model's answer back as parts. Calls go to the [`tool_executor`], which asks the [`permission_broker`] where rules
//! or people must decide, and brings back results. When an answer makes no calls the turn is closed. Whatever is
//! stored goes out over the [`bus`], after it is stored.
//!
//! Invariants:
//! - The session is the only writer of its messages and parts: it stores, then tells.
//! - The bus is an exit, not a corridor: no actor listens to it.
//! - A stopped turn leaves every tool part completed or in error, and every call with its result.
//! - `send().await` goes only down this rank: edge, registry, session, executor, processor, broker, workspace, MCP
//!   host, journal, bus. Upward go replies to what was asked, and `do_send` of a bounded number.
//! - Nothing that waits runs on an arbiter: streams, processes and files are on the I/O runtime, and come back as
//!   messages.
//!
//! [`runtime`] composes all of it. Everything is restarted by the [`supervisor`].

pub mod bus;
pub mod faults;
pub mod language_servers;
pub mod mcp_host;
pub mod permission_broker;
pub mod plugin_host;
pub mod processor;
pub mod provider_gate;
pub mod runtime;
pub mod session;
pub mod session_registry;
pub mod slug;
pub mod supervisor;
pub mod tool_executor;
pub mod workspace;
