//! Child processes that never outlive their owner.

/// Starts child processes in groups of their own and reports each to the guard.
#[derive(Clone, Debug)]
pub struct Processes {}

/// A process group, by its leader's process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGroup(pub i32);
