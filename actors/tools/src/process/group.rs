//! Process groups and signals.

use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// A process group, by its leader's process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGroup(pub i32);

impl ProcessGroup {
    /// Sends a signal to all members; false when there are none.
    ///
    /// Numbers below 2 mean other things to the kernel (our own group, everybody) and are never sent to.
    pub(crate) fn signal(self, signal: Signal) -> bool {
        self.0 > 1 && signal::killpg(Pid::from_raw(self.0), signal).is_ok()
    }

    /// Returns whether the kernel knows the group. Dead members that nobody has waited for count.
    pub(crate) fn exists(self) -> bool {
        self.0 > 1 && signal::killpg(Pid::from_raw(self.0), None) != Err(Errno::ESRCH)
    }
}

/// Sends a signal to one process; false when it is gone.
pub(crate) fn signal_process(pid: i32, signal: Signal) -> bool {
    pid > 1 && signal::kill(Pid::from_raw(pid), signal).is_ok()
}
