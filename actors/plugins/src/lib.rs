//! Tools and hooks of the person's own: programs, and modules written for OpenCode.
//!
//! - Programs in a `tool` directory answer `--schema` with their definition and take arguments on their standard input
//!   ([`program`]).
//! - JavaScript and TypeScript tools and plugins run in one process of Node or Bun for each directory, the sidecar
//!   ([`sidecar`]), which loads what was found ([`found`]) and speaks JSON lines.
//!
//! The crate knows nothing of actors. Whoever uses it starts a [`Sidecar`], hands out [`Plugins`], and starts the next
//! sidecar when one ends. Through [`Plugins`] hooks are run and tools are found; without any plugin both cost nothing.
//! A hook that fails is named and passed over: no function here fails because of one.

pub mod found;
pub mod hook;
pub mod plugins;
pub mod program;
pub mod runtime;
pub mod sidecar;

mod tool;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use found::Found;
pub use hook::{Hook, Refused};
pub use plugins::{Loaded, Notice, Notices, Plugins, State};
pub use sidecar::{Ending, Sidecar, Start, StartError};
