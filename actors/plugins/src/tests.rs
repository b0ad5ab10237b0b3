//! With a real Node (or Bun).

mod hooks;
mod modules;
mod packages;
mod programs;
mod trouble;
