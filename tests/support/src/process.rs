//! The real executable, with a home of its own.

mod child;
mod home;
mod table;
mod terminal;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nix::sys::signal::Signal;

use crate::Wire;
use child::Process;

pub use home::{Home, Ran};
pub use table::{alive, until_alive, until_gone};
pub use terminal::Terminal;

/// What `serve` prints before its address.
const LISTENING: &str = "opencode server listening on http://";

/// `troupe serve`, running or stopped. Killed when dropped; what it printed is shown if the test fails.
#[derive(Debug)]
pub struct Service {
    settings: ServiceBuilder,
    process: Option<Process>,
    address: SocketAddr,
}

/// A service to be.
#[derive(Clone, Debug)]
#[must_use = "`start` starts the service"]
pub struct ServiceBuilder {
    program: PathBuf,
    home: Home,
    dir: Option<PathBuf>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    names_port: bool,
}

impl ServiceBuilder {
    /// Runs it with this home, as other services did before.
    pub fn home(mut self, home: &Home) -> Self {
        self.home = home.clone();
        self
    }

    /// Runs it in this directory (default: its home).
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Adds an argument behind `serve --port N`.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Leaves out `--port`: the settings say which.
    pub fn without_port(mut self) -> Self {
        self.names_port = false;
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts it on a free port and waits until it listens.
    pub async fn start(self) -> Service {
        let (process, address) = self.launch(0).await;
        Service { settings: self, process: Some(process), address }
    }

    /// Starts it and waits for its end, for tests of starts that must fail.
    pub async fn start_and_end(self) -> Ran {
        Process::start(self.command(0)).run().await
    }

    fn command(&self, port: u16) -> Command {
        let mut command = self.home.command(&self.program);
        command.arg("serve");
        if self.names_port {
            command.args(["--port", &port.to_string()]);
        }
        command.args(&self.args);
        command
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.dir.as_deref().unwrap_or(self.home.dir()));
        command
    }

    async fn launch(&self, port: u16) -> (Process, SocketAddr) {
        let process = Process::start(self.command(port));
        let line = process.stdout.until(&process, |text| {
            let (_, rest) = text.split_once(LISTENING)?;
            rest.split_once('\n').map(|(address, _)| address.trim().to_owned())
        });
        let address = line.await;
        let address = address.parse().unwrap_or_else(|error| panic!("the service listens on {address:?}: {error}"));
        (process, address)
    }
}

impl Service {
    /// Begins a service that runs `program` (in tests of package `troupe`: `env!("CARGO_BIN_EXE_troupe")`), with a
    /// home of its own.
    #[expect(clippy::new_ret_no_self, reason = "it reads best as the beginning of a service")]
    pub fn new(program: impl Into<PathBuf>) -> ServiceBuilder {
        ServiceBuilder {
            program: program.into(),
            home: Home::new(),
            dir: None,
            args: Vec::new(),
            env: Vec::new(),
            names_port: true,
        }
    }

    /// Returns its address, `http://127.0.0.1:PORT`; the same after a restart.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a client of it for a directory.
    pub fn wire(&self, directory: impl AsRef<Path>) -> Wire {
        Wire::new(self.base_url(), directory)
    }

    /// Returns its home, which outlives restarts.
    pub fn home(&self) -> &Home {
        &self.settings.home
    }

    /// Returns its process id.
    pub fn pid(&self) -> i32 {
        self.running().pid.as_raw()
    }

    /// Returns what it has printed since its last start.
    pub fn stdout(&self) -> String {
        self.running().printed(|process| &process.stdout)
    }

    /// Returns what it has printed beside since its last start.
    pub fn stderr(&self) -> String {
        self.running().printed(|process| &process.stderr)
    }

    /// Kills it without warning, and returns when it is gone.
    pub async fn kill9(&mut self) {
        self.stop(Signal::SIGKILL).await;
    }

    /// Asks it to end (SIGTERM), and returns how it did.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.stop(Signal::SIGTERM).await
    }

    /// Waits for its end by itself, and returns how it ended.
    pub async fn end(&self) -> ExitStatus {
        self.running().end().await
    }

    /// Starts it again with the same home, on the same port; kills it before if it still runs.
    pub async fn restart(&mut self) {
        if self.running().status().is_none() {
            self.kill9().await;
        }
        self.show();
        let (process, address) = self.settings.launch(self.address.port()).await;
        self.address = address;
        self.process = Some(process);
    }

    /// Sets a variable of its environment from the next start on.
    pub fn set_env(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.settings.env.push((name.into(), value.into()));
    }

    /// Starts it again as [`Service::restart`] does, but waits for its end by itself: for starts that don't last.
    pub async fn restart_and_end(&mut self) -> ExitStatus {
        if self.running().status().is_none() {
            self.kill9().await;
        }
        self.show();
        self.process = Some(Process::start(self.settings.command(self.address.port())));
        self.end().await
    }

    async fn stop(&mut self, signal: Signal) -> ExitStatus {
        let process = self.running();
        process.signal(signal);
        process.end().await
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("a service has a process")
    }

    /// Prints what the process has printed. A test that passes has its output swallowed by the test runner.
    fn show(&self) {
        if let Some(process) = &self.process {
            process.show();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.process.take());
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::PATIENCE;

    /// A stand-in: a shell that runs the script `serve` in its home with the arguments `--port N`.
    /// It has a pipe `hold` to wait at without a child of its own.
    async fn stand_in(script: &str) -> ServiceBuilder {
        let service = Service::new("/bin/sh");
        std::fs::write(service.home.path("serve"), script).expect("a script");
        nix::unistd::mkfifo(&service.home.path("hold"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        service
    }

    const SCRIPT: &str = r#"
        [ "$2" = 0 ] && set -- --port 4711
        echo "told $TOLD, home ${HOME##*/home-}, user ${USER:-none}" >&2
        echo "opencode server listening on http://127.0.0.1:$2"
        read line < hold"#;

    #[tokio::test]
    async fn a_service_is_started_killed_and_started_again_on_the_same_port() {
        let mut service = stand_in(SCRIPT).await.env("TOLD", "x").start().await;
        assert_eq!(service.base_url(), "http://127.0.0.1:4711");
        let first = service.pid();
        service.kill9().await;
        service.set_env("TOLD", "y");
        service.restart().await;
        assert_eq!(service.base_url(), "http://127.0.0.1:4711");
        assert_ne!(service.pid(), first);
        assert!(!service.terminate().await.success());
        assert!(service.stderr().starts_with("told y, home "), "{}", service.stderr());
        assert!(service.stderr().ends_with("user none\n"), "the test's environment is left out");
    }

    #[tokio::test]
    async fn a_dropped_service_is_gone() {
        let mark = format!("mark-{}", std::process::id());
        let service = stand_in(SCRIPT).await.arg(&mark).start().await;
        assert_eq!(alive(&mark), [service.pid()]);
        drop(service);
        assert_eq!(alive(&mark), [0; 0]);
        until_gone(&mark, PATIENCE).await;
    }

    #[tokio::test]
    async fn a_command_gives_its_status_and_all_it_printed() {
        let ran = Home::new().run("/bin/sh", "/", &["-c", "echo out; echo err >&2; exit 3"]).await;
        assert_eq!((ran.status.code(), ran.stdout.as_str(), ran.stderr.as_str()), (Some(3), "out\n", "err\n"));
    }
}
