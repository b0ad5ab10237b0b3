//! Runs git, bounded in time, with nothing of the caller's git environment.

#[cfg(unix)]
mod stall;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::error::StorageError;

/// How long a git command may run.
const LIMIT: Duration = Duration::from_secs(60);

/// A git command.
#[derive(Debug)]
pub struct Git {
    command: Command,
    directory: PathBuf,
    name: String,
    input: Option<Vec<u8>>,
}

/// What a git command printed.
#[derive(Debug)]
pub struct GitOutput {
    /// Whether it ended with code 0.
    pub success: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error, for messages.
    pub stderr: String,
}

impl Git {
    /// Returns the command `git NAME` in a directory.
    pub fn new(directory: &Path, name: &str) -> Self {
        Self::with_options(directory, &[] as &[&str], name)
    }

    /// Returns the command `git OPTIONS NAME` in a directory.
    pub fn with_options(directory: &Path, options: &[impl AsRef<OsStr>], name: &str) -> Self {
        let mut command = Command::new("git");
        for (key, _) in std::env::vars_os() {
            if key.as_encoded_bytes().starts_with(b"GIT_") {
                command.env_remove(key);
            }
        }
        command
            .current_dir(directory)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .args(options)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(target_os = "linux")]
        die_with_us(&mut command);
        Self { command, directory: directory.to_owned(), name: name.to_owned(), input: None }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Gives it something to read.
    pub fn input(mut self, bytes: Vec<u8>) -> Self {
        self.command.stdin(Stdio::piped());
        self.input = Some(bytes);
        self
    }

    /// Runs it. Errors when it can't be started or takes too long; a failure of git's own is in the output.
    pub async fn run(mut self) -> Result<GitOutput, StorageError> {
        let failed = |name: &str, message: String| StorageError::Git { command: name.to_owned(), message };
        let mut child = self.command.spawn().map_err(|e| failed(&self.name, e.to_string()))?;
        let stdin = child.stdin.take();
        let input = self.input.take().unwrap_or_default();
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A git that doesn't read to the end says why with its exit code.
                let _ = stdin.write_all(&input).await;
            }
        };
        let both = async { tokio::join!(feed, child.wait_with_output()).1 };
        match tokio::time::timeout(LIMIT, relieved(self.directory, both)).await {
            Ok(Ok(output)) => Ok(GitOutput {
                success: output.status.success(),
                stdout: output.stdout,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
            Ok(Err(error)) => Err(failed(&self.name, error.to_string())),
            Err(_) => Err(failed(&self.name, format!("no end within {} s", LIMIT.as_secs()))),
        }
    }

    /// Runs it and returns its output; any failure is an error.
    pub async fn stdout(self) -> Result<Vec<u8>, StorageError> {
        let name = self.name.clone();
        let output = self.run().await?;
        if output.success {
            Ok(output.stdout)
        } else {
            Err(StorageError::Git { command: name, message: output.stderr })
        }
    }

    /// Runs it and returns its output as one trimmed text; any failure is an error.
    pub async fn line(self) -> Result<String, StorageError> {
        Ok(String::from_utf8_lossy(&self.stdout().await?).trim().to_owned())
    }
}

/// Waits for git's end, and sees to it that what it waits for has one.
async fn relieved<T>(directory: PathBuf, end: impl Future<Output = T>) -> T {
    #[cfg(unix)]
    return tokio::select! {
        ended = end => ended,
        never = stall::relieve(directory) => never,
    };
    #[cfg(not(unix))]
    end.await
}

/// Lets the kernel end git when this process is killed: it starts no children of its own, and one that went on would
/// write into the index of the service's next life.
#[cfg(target_os = "linux")]
fn die_with_us(command: &mut Command) {
    let set = || nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(std::io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call and touches no memory but its own.
    unsafe { command.pre_exec(set) };
}
