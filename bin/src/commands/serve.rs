//! `serve`: the service.
//!
//! What isn't said on the command line is taken from `server` of the person's own settings, never from a project's: a
//! repository that was cloned must not open the service to others.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use server::{Access, Listen};
use storage::DataDir;

use crate::exit::Exit;
use crate::owner::{self, Ground, Owner, Resume};
use crate::signals::Stops;

#[derive(Debug, Args)]
pub struct Serve {
    /// TCP port; 0 takes a free one (default: server.port of the global config, else 4096)
    #[arg(long)]
    port: Option<u16>,
    /// Address to listen on; one that other machines can reach needs a password (default: server.hostname of the
    /// global config, else 127.0.0.1)
    #[arg(long)]
    hostname: Option<String>,
    /// Also listen on this unix socket (mode 0600)
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Let pages of this origin in (https://HOST), besides those of server.cors in the global config; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
}

/// Where it listens unless told otherwise.
const PORT: u16 = 4096;
const HOSTNAME: &str = "127.0.0.1";
/// The variables that name who may come in.
const USER: &str = "OPENCODE_SERVER_USERNAME";
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

impl Serve {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start(
            "warn,troupe=info,actors=info,server=info,storage=info,mcp=info,tools=info,providers=info",
        );
        owner::run(|ground| self.serve(ground))
    }

    async fn serve(self, ground: Ground) -> anyhow::Result<Exit> {
        let mut stops = Stops::listen()?;
        let settings = storage::config::global(&ground.places, &ground.environment).server;
        let hostname = self.hostname.or(settings.hostname);
        let address = address(hostname.as_deref().unwrap_or(HOSTNAME), self.port.or(settings.port).unwrap_or(PORT))?;
        let password = ground.environment.get(PASSWORD).map(|password| {
            let user = ground.environment.get(USER).unwrap_or("opencode");
            (user.to_owned(), password.to_owned())
        });
        let access = Access { password, origins: [self.cors, settings.cors].concat() };
        let guarded = guarded(&access, address.ip())?;
        let data = DataDir::own(&ground.places.data)?;
        let listen = Listen { addresses: vec![address], sockets: self.socket.into_iter().collect() };
        let owner = Owner::start(data, &ground, Resume::All, listen, access).await?;
        crate::say(&guarded);
        for address in &owner.server().addresses {
            // Nobody may be there to read it, or only until now.
            let _ = writeln!(std::io::stdout(), "opencode server listening on http://{address}");
            owner.data().announce(&format!("http://{address}"))?;
        }
        stops.next().await;
        owner.stop().await;
        Ok(Exit::Done)
    }
}

/// Says who may come in. Errors where anybody could, from anywhere.
fn guarded(access: &Access, ip: IpAddr) -> anyhow::Result<String> {
    match &access.password {
        Some((user, _)) => Ok(format!("Clients need the user name {user:?} and the password in {PASSWORD}.")),
        None if ip.is_loopback() => Ok(format!(
            "Warning: {PASSWORD} is not set: every program on this machine may use this server. Web pages may not, but \
             those of this machine and of origins that were named."
        )),
        None => bail!(
            "other machines could reach this server at {ip} and do what they like, for no password is set: set \
             {PASSWORD}, or listen on 127.0.0.1"
        ),
    }
}

fn address(hostname: &str, port: u16) -> anyhow::Result<SocketAddr> {
    if let Ok(ip) = hostname.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = (hostname, port).to_socket_addrs().with_context(|| format!("looking up {hostname}"))?.next();
    found.with_context(|| format!("{hostname} has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_password_only_this_machine_may_be_listened_to() {
        let open = Access::default();
        for ip in ["127.0.0.1", "127.9.9.9", "::1"] {
            let said = guarded(&open, ip.parse().expect("an address")).expect("allowed");
            assert!(said.contains("is not set"), "{said}");
        }
        for ip in ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "fe80::1", "::ffff:127.0.0.1"] {
            let error = guarded(&open, ip.parse().expect("an address")).expect_err("refused").to_string();
            assert!(error.contains(PASSWORD), "{error}");
        }
    }

    #[test]
    fn with_a_password_all_may_be_listened_to_and_it_is_never_shown() {
        let locked = Access { password: Some(("ada".into(), "SECRET".into())), origins: Vec::new() };
        let said = guarded(&locked, [0, 0, 0, 0].into()).expect("allowed");
        assert!(said.contains("ada") && !said.contains("SECRET"), "{said}");
    }
}
