//! The terminal client: sessions, their messages as they come, and what waits for the person.
//!
//! Knows the client and the protocol, nothing of the server: whoever starts it hands it a client and a [`Host`].
//! State and drawing are apart: [`app`] is what is known and what keys and events make of it, [`view`] is how it
//! looks, [`driver`](run) brings both together with the terminal. Start at [`run`].

mod app;
mod conversation;
mod driver;
mod effect;
mod input;
mod keyboard;
#[cfg(test)]
mod samples;
mod terminal;
mod view;

pub use app::Start;
pub use driver::{End, Host, TuiError, run};
