//! `serve`: the service.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use actors::runtime::{Options, Runtime};
use anyhow::Context;
use clap::Args;
use server::{Access, Listen, Server};
use storage::DataDir;
use storage::places::{Environment, Places};
use tokio::signal::unix::{SignalKind, signal};

/// Threads of the I/O runtime.
const IO_THREADS: usize = 2;

#[derive(Debug, Args)]
pub struct Serve {
    /// TCP port; 0 takes a free one
    #[arg(long, default_value_t = 4096)]
    port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    hostname: String,
    /// Also listen on this unix socket (mode 0600)
    #[arg(long)]
    socket: Option<PathBuf>,
}

impl Serve {
    pub fn run(self) -> anyhow::Result<()> {
        crate::logging::start("warn,troupe=info,actors=info,server=info,storage=info,tools=info,providers=info");
        sse::http::install_crypto();
        let io = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("io")
            .enable_all()
            .build()
            .context("starting the I/O runtime")?;
        let handle = io.handle().clone();
        let system = actix::System::new();
        system.block_on(self.serve(handle))
    }

    async fn serve(self, io: tokio::runtime::Handle) -> anyhow::Result<()> {
        let environment = Environment::of_process();
        let places = Places::of(&environment);
        let data = DataDir::own(&places.data)?;
        let options = Options {
            places,
            environment,
            program: std::env::current_exe().ok(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let runtime = Runtime::start(&data, options, io).await?;
        runtime.recover(None).await;
        let listen = Listen {
            addresses: vec![address(&self.hostname, self.port)?],
            sockets: std::iter::once(data.socket()).chain(self.socket.clone()).collect(),
        };
        let server = Server {
            runtime: runtime.clone(),
            start_directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            access: Access::default(),
        };
        let running = server::listen(server, &listen).with_context(|| format!("listening on {}", listen.addresses[0]))?;
        for address in &running.addresses {
            println!("opencode server listening on http://{address}");
            data.announce(&format!("http://{address}"))?;
        }
        stopped().await?;
        runtime.stop().await;
        running.handle.stop(true).await;
        Ok(())
    }
}

fn address(hostname: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if let Ok(ip) = hostname.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = (hostname, port).to_socket_addrs().with_context(|| format!("looking up {hostname}"))?.next();
    found.with_context(|| format!("{hostname} has no address"))
}

/// Waits for a signal to stop.
async fn stopped() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}
