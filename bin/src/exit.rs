//! Exit codes. All are chosen here.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed: a failed turn, an unknown session, a bad model, no message, a server that can't be reached |
//! | 2 | wrong options (clap's own) |
//! | 3 | the turn ended well, but a part of the work was refused: a permission or a question was rejected |
//! | 129, 130, 143 | ended by SIGHUP, SIGINT, SIGTERM |

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All was done.
    Done,
    /// It failed, and said so.
    Failed,
    /// A part of the work was refused.
    Refused,
    /// The terminal went away.
    HungUp,
    /// A person stopped it.
    Interrupted,
    /// It was told to end.
    Terminated,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Refused => 3,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        })
    }
}
