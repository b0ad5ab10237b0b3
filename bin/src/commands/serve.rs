//! `serve`: the service.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use server::{Access, Listen};
use storage::DataDir;

use crate::exit::Exit;
use crate::owner::{self, Ground, Owner, Resume};
use crate::signals::Stops;

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
    /// Let pages of this origin in (https://HOST); may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
}

/// The variables that name who may come in.
const USER: &str = "OPENCODE_SERVER_USERNAME";
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

impl Serve {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start("warn,troupe=info,actors=info,server=info,storage=info,tools=info,providers=info");
        owner::run(|ground| self.serve(ground))
    }

    async fn serve(self, ground: Ground) -> anyhow::Result<Exit> {
        let mut stops = Stops::listen()?;
        let data = DataDir::own(&ground.places.data)?;
        let listen =
            Listen { addresses: vec![address(&self.hostname, self.port)?], sockets: self.socket.into_iter().collect() };
        let password = ground.environment.get(PASSWORD).map(|password| {
            let user = ground.environment.get(USER).unwrap_or("opencode");
            (user.to_owned(), password.to_owned())
        });
        if password.is_none() && listen.addresses.iter().any(|address| !address.ip().is_loopback()) {
            tracing::warn!("other machines can reach this server, and {PASSWORD} is not set: whoever does may use it");
        }
        let access = Access { password, origins: self.cors };
        let owner = Owner::start(data, &ground, Resume::All, listen, access).await?;
        for address in &owner.server().addresses {
            println!("opencode server listening on http://{address}");
            owner.data().announce(&format!("http://{address}"))?;
        }
        stops.next().await;
        owner.stop().await;
        Ok(Exit::Done)
    }
}

fn address(hostname: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if let Ok(ip) = hostname.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = (hostname, port).to_socket_addrs().with_context(|| format!("looking up {hostname}"))?.next();
    found.with_context(|| format!("{hostname} has no address"))
}
