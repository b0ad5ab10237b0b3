//! The commands, one file each.

pub mod mcp;
pub mod run;
pub mod serve;
pub mod tui;
