//! A home for the processes of a test.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

use super::child::Process;
use super::terminal::Terminal;

/// The variables of the test's own environment that a process gets too; all others are left out.
const PASSED_ON: &[&str] = &["PATH", "TMPDIR", "LANG", "RUST_BACKTRACE", "RUST_LOG", "LLVM_PROFILE_FILE"];

/// A home directory with the XDG directories in it. Clones are the same one; it is gone with the last of them.
#[derive(Clone, Debug)]
pub struct Home(Arc<TempDir>);

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Makes an empty home.
    pub fn new() -> Self {
        let temporary = std::env::temp_dir().canonicalize().expect("a directory for temporary files");
        let dir = tempfile::Builder::new().prefix("home-").tempdir_in(temporary).expect("a temporary directory");
        Self(Arc::new(dir))
    }

    /// Returns the home directory.
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Returns a path below the home directory.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(file)
    }

    /// Returns a command that runs `program` with this home, without the test's environment, nothing to read.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("HOME", self.dir());
        let places = [("DATA", ".local/share"), ("CONFIG", ".config"), ("STATE", ".local/state"), ("CACHE", ".cache")];
        command.envs(places.map(|(name, below)| (format!("XDG_{name}_HOME"), self.path(below))));
        command.stdin(Stdio::null());
        command
    }

    /// Runs `program` in `dir` to its end, within [`PATIENCE`](crate::PATIENCE).
    pub async fn run(&self, program: impl AsRef<Path>, dir: impl AsRef<Path>, args: &[&str]) -> Ran {
        let mut command = self.command(program);
        command.args(args).current_dir(dir);
        Process::start(command).run().await
    }

    /// Starts `program` in `dir` in a terminal of its own, of 100 columns and 30 rows.
    pub fn run_in_terminal(&self, program: impl AsRef<Path>, dir: impl AsRef<Path>, args: &[&str]) -> Terminal {
        let mut command = self.command("setsid");
        command.args(["--ctty", "/bin/sh", "-c", "stty cols 100 rows 30; exec \"$0\" \"$@\""]);
        command.arg(program.as_ref()).args(args).current_dir(dir).env("TERM", "xterm-256color");
        Terminal::start(command)
    }
}

/// What became of a command.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it printed beside.
    pub stderr: String,
}
