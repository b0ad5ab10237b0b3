//! Where a person's browser comes back to after a login: a port of this machine, open only while somebody waits.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::AuthProblem;
use super::flow::Begun;

/// OpenCode's port: clients that were registered by hand for it work here too.
pub(super) const CALLBACK_PORT: u16 = 19876;
/// OpenCode's path.
pub(super) const CALLBACK_PATH: &str = "/mcp/oauth/callback";
/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long a browser may take to send its request.
const REQUEST: Duration = Duration::from_secs(10);
/// Most bytes of a request.
const MAX_REQUEST: usize = 16 * 1024;
/// How often a port is tried again, and the wait in between.
const BINDS: u32 = 5;
const AGAIN: Duration = Duration::from_millis(50);
/// Connections at once.
const CONNECTIONS: usize = 16;

/// What a person comes back with.
#[derive(Clone, PartialEq, Eq)]
pub struct Callback {
    /// Good for tokens, once.
    pub code: String,
    /// Who gave it, where it says so.
    pub issuer: Option<String>,
}

/// The ports that are open, and who waits.
#[derive(Clone, Default)]
pub struct Callbacks {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By the login's state.
    waiting: HashMap<String, Waiting>,
    /// By port.
    listeners: HashMap<u16, CancellationToken>,
}

struct Waiting {
    port: u16,
    answer: oneshot::Sender<Result<Callback, AuthProblem>>,
}

impl Callbacks {
    /// Waits until a person comes back for this login.
    pub async fn wait(&self, begun: &Begun) -> Result<Callback, AuthProblem> {
        let port = Url::parse(&begun.redirect_uri).ok().and_then(|url| {
            let is_here = matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
            url.port_or_known_default().filter(|_| is_here)
        });
        // Somebody else takes it there; the code comes by hand.
        let Some(port) = port else { return Err(AuthProblem::Refused("it comes back to another machine".into())) };
        let (answer, callback) = oneshot::channel();
        lock(&self.state).waiting.insert(begun.state.clone(), Waiting { port, answer });
        let _leaves = Leaves { callbacks: self, state: &begun.state, port };
        self.listen(port).await?;
        match tokio::time::timeout(PATIENCE, callback).await {
            Ok(Ok(callback)) => callback,
            Ok(Err(_)) => Err(AuthProblem::NotBegun),
            Err(_) => Err(AuthProblem::Late { limit_ms: PATIENCE.as_millis() as u64 }),
        }
    }

    async fn listen(&self, port: u16) -> Result<(), AuthProblem> {
        if lock(&self.state).listeners.contains_key(&port) {
            return Ok(());
        }
        let listener = bind(port).await.map_err(|error| {
            AuthProblem::Refused(format!(
                "port {port} of this machine, where the login comes back to, can't be had: {error}"
            ))
        })?;
        let stop = CancellationToken::new();
        {
            let mut state = lock(&self.state);
            if state.listeners.contains_key(&port) {
                return Ok(());
            }
            state.listeners.insert(port, stop.clone());
        }
        let callbacks = self.clone();
        tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            loop {
                let connection = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let Ok((connection, _)) = connection else { continue };
                let callbacks = callbacks.clone();
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(REQUEST, callbacks.serve(connection)).await;
                    drop(place);
                });
            }
        });
        Ok(())
    }

    async fn serve(&self, mut connection: TcpStream) {
        let mut bytes = Vec::new();
        let target = loop {
            let mut buffer = [0; 2048];
            let Ok(count @ 1..) = connection.read(&mut buffer).await else { return };
            bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&bytes) {
                Ok(httparse::Status::Complete(_)) => break request.path.unwrap_or_default().to_owned(),
                Ok(httparse::Status::Partial) if bytes.len() < MAX_REQUEST => {}
                _ => return,
            }
        };
        let (status, text) = self.take(&target);
        let page = format!("<!doctype html><meta charset=utf-8><title>Troupe</title><p>{text}</p>");
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
            page.len()
        );
        let _ = connection.write_all(answer.as_bytes()).await;
        let _ = connection.shutdown().await;
    }

    /// Reads a request's target and hands on what it brings. Returns the answer; it quotes nothing of the request.
    fn take(&self, target: &str) -> (&'static str, &'static str) {
        let Ok(url) = Url::parse("http://127.0.0.1").and_then(|base| base.join(target)) else {
            return ("400 Bad Request", "This is no request.");
        };
        let query = |key: &str| url.query_pairs().find(|(name, _)| name == key).map(|(_, value)| value.into_owned());
        let Some(state) = query("state") else { return ("404 Not Found", "There is nothing here.") };
        let Some(waiting) = lock(&self.state).waiting.remove(&state) else {
            return ("400 Bad Request", "Nobody waits for this login. Begin it again.");
        };
        let (result, answer) = match (query("code"), query("error")) {
            (Some(code), None) => {
                let answer = ("200 OK", "The login is done. You can close this page.");
                (Ok(Callback { code, issuer: query("iss") }), answer)
            }
            (_, error) => {
                let said = query("error_description").or(error).unwrap_or_else(|| "it came back without a code".into());
                (Err(AuthProblem::Refused(said.chars().take(300).collect())), ("400 Bad Request", "The login failed."))
            }
        };
        let _ = waiting.answer.send(result);
        answer
    }
}

/// Takes a port. The listener of a login that ended a moment ago may still have it.
async fn bind(port: u16) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && tries < BINDS => tries += 1,
            bound => return bound,
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Takes a waiter out, and closes its port behind the last one.
struct Leaves<'a> {
    callbacks: &'a Callbacks,
    state: &'a str,
    port: u16,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.callbacks.state);
        state.waiting.remove(self.state);
        if !state.waiting.values().any(|waiting| waiting.port == self.port)
            && let Some(listener) = state.listeners.remove(&self.port)
        {
            listener.cancel();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
