//! HTTP and SSE over the actors, in OpenCode's protocol (v1).
//!
//! A route reads a request, sends a message to an actor or reads storage, and writes the answer. What changes state
//! is a message. Nothing lives in a handler: it is dropped when its client hangs up.
//!
//! Start at [`routes`], one file a resource; [`events`] is the event stream; [`guard`] decides who may come in.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};
use actors::runtime::Runtime;
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

mod body;
mod changes;
mod diff;
pub mod error;
pub mod events;
pub mod guard;
mod ids;
mod place;
mod query;
mod routes;
mod secrets;
mod wait;

pub use guard::Access;

/// What all routes share.
pub struct Server {
    /// The actors.
    pub runtime: Runtime,
    /// The directory of requests that name none.
    pub start_directory: PathBuf,
    /// Who may come in.
    pub access: Access,
}

/// Where a server listens.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// TCP addresses.
    pub addresses: Vec<SocketAddr>,
    /// Unix sockets; made with mode 0600. An old one nobody listens on is replaced, anything else is an error.
    pub sockets: Vec<PathBuf>,
}

/// Places for searches of files.
struct Searches(Semaphore);

/// A server that listens.
pub struct Running {
    /// Stops it.
    pub handle: ServerHandle,
    /// The TCP addresses it listens on: the port is the system's choice where 0 was asked for.
    pub addresses: Vec<SocketAddr>,
    /// Ends when it has stopped.
    pub ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// Searches of files that run at once; each may use several threads.
const SEARCHES: usize = 4;
/// Threads that read and write HTTP.
const WORKERS: usize = 2;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Bytes that the system keeps for a client that doesn't read. Its own limit is megabytes; an event stream that is that
/// far behind would be cut off much later than the client can tell.
const SEND_BUFFER: u32 = 128 * 1024;
/// Seconds that open requests have to end when it stops.
const SHUTDOWN_SECONDS: u64 = 2;

/// Starts listening. Call it within an actix system.
pub fn listen(server: Server, listen: &Listen) -> std::io::Result<Running> {
    let address = server.runtime.address.clone();
    let server = web::Data::new(server);
    let searches = web::Data::new(Searches(Semaphore::new(SEARCHES)));
    let mut http = HttpServer::new(move || {
        App::new()
            .app_data(server.clone())
            .app_data(searches.clone())
            .wrap(actix_web::middleware::from_fn(guard::guard))
            .configure(routes::configure)
            .default_service(web::to(routes::not_found))
    })
    .on_connect(guard::on_connect)
    .workers(WORKERS)
    .shutdown_timeout(SHUTDOWN_SECONDS)
    .disable_signals()
    // Without this the going of an idle event stream's client is not noticed before the next write.
    .h1_allow_half_closed(false);
    for address in &listen.addresses {
        http = http.listen(tcp_listener(*address)?)?;
    }
    let addresses = http.addrs();
    if let Some(first) = addresses.first() {
        // A second server of one runtime is for tests.
        let _ = address.set(format!("http://{first}"));
    }
    #[cfg(unix)]
    for socket in &listen.sockets {
        http = http.listen_uds(unix_socket(socket)?)?;
    }
    let running = http.run();
    Ok(Running { handle: running.handle(), addresses, ended: tokio::task::spawn_local(running) })
}

fn tcp_listener(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows it would let two services have one port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(unix)]
fn unix_socket(path: &Path) -> std::io::Result<std::os::unix::net::UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let taken = |what: &str| {
        let text = format!("{} is {what}; name another path for the socket", path.display());
        std::io::Error::new(std::io::ErrorKind::AlreadyExists, text)
    };
    if let Some(parent) = path.parent() {
        storage::data_dir::make_private(parent).map_err(std::io::Error::other)?;
    }
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(there) if !there.file_type().is_socket() => return Err(taken("there already, and no socket")),
        // The owner of the directory's own socket holds its lock; one of another path may be anybody's.
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(taken("in use by another server"));
        }
        Ok(_) => std::fs::remove_file(path)?,
    }
    let socket = tokio::net::UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Before it listens: nobody else can connect in between.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(test)]
mod tests;
