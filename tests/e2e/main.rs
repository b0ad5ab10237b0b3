//! Troupe as its users meet it: the real executable over HTTP, with a scripted model. One file an area.

mod abort;
mod crash;
mod edit;
mod events;
mod http;
mod isolation;
mod permission;
mod plugins;
mod question;
mod queue;
mod retry;
mod run;
mod sdk;
mod search;
mod service;
mod shell;
mod soak;
mod store;
mod stream;
mod subagent;
mod tools;
mod turn;
mod world;
