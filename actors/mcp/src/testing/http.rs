//! A scripted server on the network: streamable HTTP or the older HTTP+SSE, open or behind a login with tokens of which
//! each refreshes once.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::script::{Script, Server};

/// What was asked of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub refreshes: usize,
    /// Refresh tokens that came a second time.
    pub reused: usize,
    pub calls: usize,
    pub unauthorized: usize,
    pub registrations: usize,
    /// Headers of the last message.
    pub headers: HashMap<String, String>,
    /// The form of the last request for tokens.
    pub token_request: HashMap<String, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Tokens are demanded.
    pub login: bool,
    /// Seconds that access tokens last.
    pub expires: u64,
    /// Clients are not registered.
    pub no_registration: bool,
    /// The older transport.
    pub legacy: bool,
    /// Answers come as event streams.
    pub streams: bool,
}

pub struct HttpServer {
    pub port: u16,
    state: Arc<State>,
    _task: AbortOnDropHandle<()>,
}

struct State {
    base: String,
    options: Options,
    server: Server,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    stats: Stats,
    serial: usize,
    access: HashSet<String>,
    refresh: HashSet<String>,
    used: HashSet<String>,
    /// The event stream of the older transport.
    stream: Option<mpsc::UnboundedSender<Value>>,
}

impl HttpServer {
    pub async fn start(script: Script, options: Options) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        Self::on(listener, script, options)
    }

    pub fn on(listener: TcpListener, script: Script, options: Options) -> Self {
        let port = listener.local_addr().expect("an address").port();
        let base = format!("http://127.0.0.1:{port}");
        let state = Arc::new(State { base, options, server: Server::new(script), inner: Mutex::default() });
        let serving = state.clone();
        let task = tokio::spawn(async move {
            // Dropped with it: a server that is gone has no connections left.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                let state = serving.clone();
                connections.spawn(async move { state.serve(connection).await });
            }
        });
        Self { port, state, _task: AbortOnDropHandle::new(task) }
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.state.base)
    }

    pub fn stats(&self) -> Stats {
        self.state.inner.lock().expect("a lock").stats.clone()
    }

    /// All access tokens are worn out from now on.
    pub fn expire(&self) {
        self.state.inner.lock().expect("a lock").access.clear();
    }

    /// All tokens are from now on.
    pub fn revoke(&self) {
        let mut inner = self.state.inner.lock().expect("a lock");
        inner.access.clear();
        inner.refresh.clear();
    }
}

struct Request {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl State {
    async fn serve(self: Arc<Self>, mut connection: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(request) = read(&mut connection, &mut buffer).await {
            if request.path == "/mcp" && request.method == "GET" && self.options.legacy {
                return self.stream(connection).await;
            }
            let (status, headers, body) = self.answer(request).await;
            let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            if connection.write_all(head.as_bytes()).await.is_err() || connection.write_all(&body).await.is_err() {
                return;
            }
        }
    }

    /// The event stream of the older transport, until the client hangs up.
    async fn stream(&self, mut connection: TcpStream) {
        let (sender, mut messages) = mpsc::unbounded_channel();
        self.inner.lock().expect("a lock").stream = Some(sender);
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages?session=1\n\n";
        let _ = connection.write_all(head.as_bytes()).await;
        while let Some(message) = messages.recv().await {
            let event = format!("event: message\ndata: {message}\n\n");
            if connection.write_all(event.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, request: Request) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        let base = &self.base;
        match (request.method.as_str(), path.as_str()) {
            ("GET", path) if path.starts_with("/.well-known/oauth-protected-resource") && self.options.login => answer(
                200,
                json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["mcp"] }),
            ),
            ("GET", path) if path.starts_with("/.well-known/") && self.options.login => {
                let mut metadata = json!({
                    "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token"),
                    "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"]
                });
                if !self.options.no_registration {
                    metadata["registration_endpoint"] = json!(format!("{base}/register"));
                }
                answer(200, metadata)
            }
            ("POST", "/register") => {
                self.inner.lock().expect("a lock").stats.registrations += 1;
                let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                answer(201, json!({ "client_id": "registered", "redirect_uris": asked["redirect_uris"] }))
            }
            ("POST", "/token") => self.token(&request.body).await,
            ("POST", "/mcp") if self.options.legacy => answer(405, json!({})),
            ("POST", "/messages") => {
                self.note(&request);
                let out = self.inner.lock().expect("a lock").stream.clone();
                let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                if let Some(out) = out {
                    self.server.take(message, &out).await;
                }
                (202, Vec::new(), Vec::new())
            }
            ("POST", "/mcp") => self.message(&request).await,
            ("GET" | "DELETE", "/mcp") if self.is_let_in(&request) => answer(405, json!({})),
            (_, "/mcp") => self.refusal(),
            _ => answer(404, json!({})),
        }
    }

    async fn message(&self, request: &Request) -> (u16, Vec<(String, String)>, Vec<u8>) {
        self.note(request);
        if !self.is_let_in(request) {
            return self.refusal();
        }
        let Ok(message) = serde_json::from_slice::<Value>(&request.body) else { return answer(400, json!({})) };
        if message["id"].is_null() || message["method"].is_null() {
            let (out, _) = mpsc::unbounded_channel();
            self.server.take(message, &out).await;
            return (202, Vec::new(), Vec::new());
        }
        let (out, mut said) = mpsc::unbounded_channel();
        self.server.take(message.clone(), &out).await;
        drop(out);
        let mut all = Vec::new();
        while let Some(message) = said.recv().await {
            all.push(message);
        }
        if self.options.streams {
            let text: String = all.iter().map(|message| format!("data: {message}\n\n")).collect();
            return (200, vec![("content-type".into(), "text/event-stream".into())], text.into());
        }
        let own = all.into_iter().find(|answer| answer["id"] == message["id"]).unwrap_or_default();
        answer(200, own)
    }

    fn note(&self, request: &Request) {
        let mut inner = self.inner.lock().expect("a lock");
        inner.stats.headers = request.headers.clone();
        if String::from_utf8_lossy(&request.body).contains("\"tools/call\"") {
            inner.stats.calls += 1;
        }
    }

    fn is_let_in(&self, request: &Request) -> bool {
        let token = request.headers.get("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let mut inner = self.inner.lock().expect("a lock");
        let is_in = !self.options.login || token.is_some_and(|token| inner.access.contains(token));
        if !is_in {
            inner.stats.unauthorized += 1;
        }
        is_in
    }

    fn refusal(&self) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let challenge = format!("Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource\"", self.base);
        let (status, mut headers, body) = answer(401, json!({ "error": "invalid_token" }));
        headers.push(("www-authenticate".into(), challenge));
        (status, headers, body)
    }

    async fn token(&self, body: &[u8]) -> (u16, Vec<(String, String)>, Vec<u8>) {
        let form: HashMap<String, String> = reqwest::Url::parse(&format!("x:/?{}", String::from_utf8_lossy(body)))
            .map(|url| url.query_pairs().into_owned().collect())
            .unwrap_or_default();
        self.inner.lock().expect("a lock").stats.token_request = form.clone();
        if form.get("grant_type").is_some_and(|kind| kind == "refresh_token") {
            self.inner.lock().expect("a lock").stats.refreshes += 1;
            // Long enough for others to come in the meantime.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let mut inner = self.inner.lock().expect("a lock");
            let token = form.get("refresh_token").cloned().unwrap_or_default();
            if inner.used.contains(&token) {
                inner.stats.reused += 1;
            }
            if !inner.refresh.remove(&token) {
                return answer(400, json!({ "error": "invalid_grant" }));
            }
            inner.used.insert(token);
        } else if form.get("code").is_none_or(|code| code != "good") {
            return answer(400, json!({ "error": "invalid_grant" }));
        }
        let mut inner = self.inner.lock().expect("a lock");
        inner.serial += 1;
        let (access, refresh) = (format!("access{}", inner.serial), format!("refresh{}", inner.serial));
        inner.access.insert(access.clone());
        inner.refresh.insert(refresh.clone());
        answer(
            200,
            json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": self.options.expires }),
        )
    }
}

fn answer(status: u16, body: Value) -> (u16, Vec<(String, String)>, Vec<u8>) {
    (status, vec![("content-type".into(), "application/json".into())], body.to_string().into_bytes())
}

async fn read(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        if let Ok(httparse::Status::Complete(head)) = request.parse(buffer) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let headers: HashMap<String, String> =
                request.headers.iter().map(|h| (h.name.to_ascii_lowercase(), text(h.value))).collect();
            let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if buffer.len() >= head + length {
                let (method, path) = (request.method?.to_owned(), request.path?.to_owned());
                let body = buffer[head..head + length].to_vec();
                buffer.drain(..head + length);
                return Some(Request { method, path, headers, body });
            }
        }
        let mut more = [0; 16 * 1024];
        match connection.read(&mut more).await {
            Ok(count @ 1..) => buffer.extend_from_slice(&more[..count]),
            _ => return None,
        }
    }
}
