//! The commands, one file each.

pub mod auth;
pub mod mcp;
pub mod models;
pub mod run;
pub mod serve;
pub mod tui;
