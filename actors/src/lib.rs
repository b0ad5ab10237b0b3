//! The actors.

pub mod bus;
pub mod permission_broker;
pub mod supervisor;
