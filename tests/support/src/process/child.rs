//! One process: its output collected, its end awaited, killed with its owner.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

use super::home::Ran;
use crate::PATIENCE;

/// How long the output of an ended process may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A process, its output being collected by threads of its own.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    ended: watch::Receiver<Option<ExitStatus>>,
    waiter: Option<JoinHandle<()>>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Output(Arc<Printed>);

#[derive(Debug, Default)]
struct Printed {
    bytes: Mutex<Vec<u8>>,
    /// Whether the pipe is closed; sent again with each piece.
    closed: watch::Sender<bool>,
    /// The same for those who can't await.
    at_end: Condvar,
}

impl Process {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = Output::collect(child.stdout.take().expect("a pipe"));
        let stderr = Output::collect(child.stderr.take().expect("a pipe"));
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        let (sender, ended) = watch::channel(None);
        let waiter = std::thread::spawn(move || {
            sender.send_replace(wait(&mut child));
        });
        Self { pid, ended, waiter: Some(waiter), stdout, stderr }
    }

    pub(super) fn status(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    pub(super) fn signal(&self, signal: Signal) {
        if self.status().is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    pub(super) async fn end(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        let status = match tokio::time::timeout(PATIENCE, ended.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => *status,
            _ => None,
        };
        status.unwrap_or_else(|| panic!("process {} has not ended within {PATIENCE:?}", self.pid))
    }

    pub(super) async fn run(self) -> Ran {
        let status = self.end().await;
        let text = async |output: &Output| {
            // A process it left behind may keep the pipe open.
            let mut closed = output.0.closed.subscribe();
            let _ = tokio::time::timeout(LAST_WORDS, closed.wait_for(|closed| *closed)).await;
            output.text()
        };
        Ran { status, stdout: text(&self.stdout).await, stderr: text(&self.stderr).await }
    }

    /// Returns what has been printed to one of the outputs: all of it, once the process has ended.
    pub(super) fn printed(&self, output: impl Fn(&Self) -> &Output) -> String {
        let output = output(self);
        if self.status().is_some() {
            output.drain();
        }
        output.text()
    }

    pub(super) fn show(&self) {
        for (name, output) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            println!("--- {name} of process {}\n{}", self.pid, output.text());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
        if std::thread::panicking() {
            self.stdout.drain();
            self.stderr.drain();
            self.show();
        }
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    child.wait().ok()
}

impl Output {
    /// Reads a pipe to its end. Nobody waits for the thread: what the process leaves behind may keep the pipe open.
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let printed = output.0.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                let part = buffer.get(..count).unwrap_or_default();
                printed.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(part);
                printed.closed.send_replace(false);
            }
            let _bytes = printed.bytes.lock();
            printed.closed.send_replace(true);
            printed.at_end.notify_all();
        });
        output
    }

    /// Waits a little for what a process that has ended printed last.
    fn drain(&self) {
        let bytes = self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.0.at_end.wait_timeout_while(bytes, LAST_WORDS, |_| !*self.0.closed.borrow());
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until `found` finds something in the text. Fails after [`PATIENCE`], or when the process ends.
    pub(super) async fn until<T>(&self, process: &Process, found: impl Fn(&str) -> Option<T>) -> T {
        let mut grown = self.0.closed.subscribe();
        let mut ended = process.ended.clone();
        let waiting = async {
            loop {
                if let Some(value) = found(&self.text()) {
                    return Some(value);
                }
                tokio::select! {
                    _ = grown.changed() => {}
                    _ = ended.wait_for(Option::is_some) => {
                        let _ = tokio::time::timeout(LAST_WORDS, grown.wait_for(|closed| *closed)).await;
                        return found(&self.text());
                    }
                }
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Some(value)) => value,
            _ => panic!("the process never said what it should have, and ended with {:?}", process.status()),
        }
    }
}
