//! The runtime and its server in this process: started and stopped in one way, whichever command owns the data
//! directory.

use std::future::Future;
use std::path::PathBuf;

use actors::runtime::{Options, Runtime};
use anyhow::Context;
use server::{Access, Listen, Running, Server};
use storage::DataDir;
use storage::places::{Environment, Places};
use tokio::runtime::Handle;

/// Threads of the I/O runtime.
const IO_THREADS: usize = 2;

/// Where and with what this process was started.
#[derive(Clone)]
pub struct Ground {
    /// What it was started with.
    pub environment: Environment,
    /// Where things are.
    pub places: Places,
    /// Where everything runs that waits.
    pub io: Handle,
}

/// Which turns that a crash or a stop left open go on at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// All, before the first request is taken.
    All,
    /// None but those of sessions that are used, or named later with [`Owner::recover`].
    AsUsed,
}

/// The data directory, and the runtime and the server that this process runs on it.
pub struct Owner {
    runtime: Runtime,
    server: Running,
    /// Held until all has stopped: whoever takes the directory then finds it at rest.
    data: DataDir,
}

/// Runs a command where actors can run.
pub fn run<F, W, T>(work: F) -> anyhow::Result<T>
where
    F: FnOnce(Ground) -> W,
    W: Future<Output = anyhow::Result<T>>,
{
    sse::http::install_crypto();
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(IO_THREADS)
        .thread_name("io")
        .enable_all()
        .build()
        .context("starting the I/O runtime")?;
    let environment = Environment::of_process();
    let places = Places::of(&environment);
    let ground = Ground { environment, places, io: io.handle().clone() };
    let result = actix::System::new().block_on(work(ground));
    // Not waited for: what still runs there is stored, or is nothing that lasts.
    io.shutdown_background();
    result
}

impl Owner {
    /// Starts the runtime on a data directory, and its server: on the directory's socket, and where else `listen`
    /// says.
    pub async fn start(
        data: DataDir,
        ground: &Ground,
        resume: Resume,
        mut listen: Listen,
        access: Access,
    ) -> anyhow::Result<Self> {
        let options = Options {
            places: ground.places.clone(),
            environment: ground.environment.clone(),
            program: std::env::current_exe().ok(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let runtime = Runtime::start(&data, options, ground.io.clone()).await?;
        if resume == Resume::All {
            runtime.recover(None).await;
        }
        listen.sockets.insert(0, data.socket());
        let server = Server {
            runtime: runtime.clone(),
            start_directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            access,
        };
        let server = server::listen(server, &listen).with_context(|| match listen.addresses.first() {
            Some(address) => format!("listening on {address}"),
            None => format!("listening on {}", data.socket().display()),
        })?;
        Ok(Self { runtime, server, data })
    }

    /// Returns the runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the data directory.
    pub fn data(&self) -> &DataDir {
        &self.data
    }

    /// Returns the server.
    pub fn server(&self) -> &Running {
        &self.server
    }

    /// Stops: turns stay open and go on at the next start. Returns when all is stored and the directory is free.
    pub async fn stop(self) {
        self.runtime.stop().await;
        self.server.handle.stop(true).await;
        drop(self.data);
    }
}
