//! The locks of files that are being written, and what a session has seen of them.

/// A session's view of the files it reads and writes. The locks are shared by all sessions of the process.
#[derive(Clone, Debug, Default)]
pub struct Files {}
