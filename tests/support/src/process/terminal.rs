//! A program in a terminal of its own, as a person's is, which can go away.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::PATIENCE;

/// A program in a terminal. It is killed when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    pid: Pid,
    ended: watch::Receiver<Option<ExitStatus>>,
    shown: Arc<Shown>,
    /// Holds our end of the terminal.
    reading: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shown {
    bytes: Mutex<Vec<u8>>,
    grown: watch::Sender<()>,
}

impl Terminal {
    /// Starts a command that takes its input for its terminal (`setsid --ctty …`) with a terminal as all of its input
    /// and output.
    pub(super) fn start(mut command: Command) -> Self {
        // No other process may get a copy of our end: the terminal would stay open.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let master = posix_openpt(flags).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("the terminal's other end");
        let name = ptsname_r(&master).expect("the terminal's name");
        let slave = File::options().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name);
        let slave = slave.expect("the terminal's other end");
        let end = || slave.try_clone().expect("the terminal's other end");
        command.stdin(end()).stdout(end()).stderr(end());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // Else our own copies would keep the terminal open.
        drop((command, slave));
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        let (sender, ended) = watch::channel(None);
        std::thread::spawn(move || sender.send_replace(wait(&mut child)));
        let shown = Arc::new(Shown::default());
        let reading = tokio::spawn(read(master.into(), shown.clone()));
        Self { pid, ended, shown, reading }
    }

    /// Returns what it has shown so far, as it came: with the codes that move the cursor.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until what it has shown is as `wanted` says.
    pub async fn until(&self, wanted: impl Fn(&str) -> bool) {
        let mut grown = self.shown.grown.subscribe();
        let waiting = async {
            while !wanted(&self.shown()) {
                let _ = grown.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await.is_ok();
        assert!(waited, "it has not shown what it should have, but: {:?}", self.shown());
    }

    /// Closes the terminal, as a person does who closes its window, and returns how the program ended.
    pub async fn hang_up(mut self) -> ExitStatus {
        self.reading.abort();
        let _ = (&mut self.reading).await;
        let mut ended = self.ended.clone();
        let status = match tokio::time::timeout(PATIENCE, ended.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => *status,
            _ => None,
        };
        status.unwrap_or_else(|| panic!("process {} outlives its terminal by {PATIENCE:?}", self.pid))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.reading.abort();
        if self.ended.borrow().is_none() {
            let _ = kill(self.pid, Signal::SIGKILL);
        }
        if std::thread::panicking() {
            println!("--- terminal of process {}\n{:?}", self.pid, self.shown());
        }
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    child.wait().ok()
}

/// Reads what a program shows until it has closed its end.
async fn read(master: OwnedFd, shown: Arc<Shown>) {
    // SAFETY: the descriptor is owned by what is registered, and stays the same until both are dropped.
    let master = unsafe { AsyncFd::register(master) }.expect("a terminal to wait for");
    let mut piece = [0; 8192];
    loop {
        let Ok(mut ready) = master.readable().await else { return };
        let read = ready.try_io(|master| nix::unistd::read(master, &mut piece).map_err(std::io::Error::from));
        match read {
            Ok(Ok(length @ 1..)) => {
                let part = piece.get(..length).unwrap_or_default();
                shown.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(part);
                shown.grown.send_replace(());
            }
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            // No more than that it is not there yet.
            Err(_) => {}
            Ok(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Home;

    #[tokio::test]
    async fn a_program_sees_a_terminal_and_its_end() {
        let home = Home::new();
        // It may read the end before the signal is there.
        let script =
            "tty -s && stty size && trap 'echo gone > gone; exit 5' HUP && echo ready; while :; do read line; done";
        let terminal = home.run_in_terminal("/bin/sh", home.dir(), &["-c", script]);
        terminal.until(|shown| shown.contains("30 100") && shown.contains("ready")).await;
        assert_eq!(terminal.hang_up().await.code(), Some(5));
        assert!(home.path("gone").exists());
    }
}
