//! A thin HTTP client: JSON in, JSON out, for one directory of one server.

mod events;

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

pub use events::{Events, Frame};
pub use reqwest::{Method, RequestBuilder};

/// Longest time of one request: a test that hangs has to end.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// A client of one server for one directory.
#[derive(Clone, Debug)]
pub struct Wire {
    client: Client,
    base: String,
    directory: PathBuf,
    authorization: Option<String>,
}

impl Wire {
    /// Returns a client of the server at `base` (`http://127.0.0.1:4096`) that names `directory` with each request.
    pub fn new(base: impl Into<String>, directory: impl AsRef<Path>) -> Self {
        let base = base.into().trim_end_matches('/').to_owned();
        Self { client: http_client(), base, directory: directory.as_ref().to_owned(), authorization: None }
    }

    /// Sends this name and password with each request.
    pub fn with_password(mut self, user: &str, password: &str) -> Self {
        let request = self.client.get(&self.base).basic_auth(user, Some(password)).build().expect("a request");
        let value = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        self.authorization = value.map(str::to_owned);
        self
    }

    /// Returns the server's address.
    pub fn base_url(&self) -> &str {
        &self.base
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Begins a request; for what the other methods don't cover.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut directory = HeaderValue::from_str(&self.directory.to_string_lossy()).expect("a directory in ASCII");
        directory.set_sensitive(false);
        let request = self.client.request(method, format!("{}{path}", self.base));
        let request = request.header("x-opencode-directory", directory);
        match &self.authorization {
            Some(value) => request.header("authorization", value),
            None => request,
        }
    }

    /// Sends a request and returns the status and the body: as JSON, as a string where it is none, `null` where it is
    /// empty. An error means that there was no whole answer, for tests that stop the server.
    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> reqwest::Result<(u16, Value)> {
        let mut request = self.request(method, path).timeout(REQUEST_LIMIT);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        let body = match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        Ok((status, body))
    }

    /// GETs a path: status and body.
    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.must(Method::GET, path, None).await
    }

    /// POSTs a body: status and body.
    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.must(Method::POST, path, Some(&body)).await
    }

    /// PATCHes with a body: status and body.
    pub async fn patch(&self, path: &str, body: Value) -> (u16, Value) {
        self.must(Method::PATCH, path, Some(&body)).await
    }

    /// PUTs a body: status and body.
    pub async fn put(&self, path: &str, body: Value) -> (u16, Value) {
        self.must(Method::PUT, path, Some(&body)).await
    }

    /// DELETEs a path: status and body.
    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.must(Method::DELETE, path, None).await
    }

    /// Creates a session and returns its id.
    pub async fn create_session(&self) -> String {
        text(&self.create_session_with(json!({})).await["id"])
    }

    /// Creates a session and returns it.
    pub async fn create_session_with(&self, body: Value) -> Value {
        self.expect(200, Method::POST, "/session", Some(&body)).await
    }

    /// Returns a session.
    pub async fn session(&self, session: &str) -> Value {
        self.expect(200, Method::GET, &format!("/session/{session}"), None).await
    }

    /// Prompts, waits for the end of the turn, and returns the last assistant message `{info, parts}`.
    pub async fn prompt(&self, session: &str, text: &str) -> Value {
        self.prompt_with(session, prompt(text)).await
    }

    /// Prompts with a whole body, as [`Wire::prompt`].
    pub async fn prompt_with(&self, session: &str, body: Value) -> Value {
        self.expect(200, Method::POST, &format!("/session/{session}/message"), Some(&body)).await
    }

    /// Prompts and returns when the prompt is accepted.
    pub async fn prompt_async(&self, session: &str, text: &str) {
        self.prompt_async_with(session, prompt(text)).await;
    }

    /// Prompts with a whole body, as [`Wire::prompt_async`].
    pub async fn prompt_async_with(&self, session: &str, body: Value) {
        self.expect(204, Method::POST, &format!("/session/{session}/prompt_async"), Some(&body)).await;
    }

    /// Aborts what a session does.
    pub async fn abort(&self, session: &str) {
        self.expect(200, Method::POST, &format!("/session/{session}/abort"), None).await;
    }

    /// Returns a session's messages, `{info, parts}` each, from old to new.
    pub async fn messages(&self, session: &str) -> Vec<Value> {
        list(self.expect(200, Method::GET, &format!("/session/{session}/message"), None).await)
    }

    /// Returns the parts of all messages of a session, from old to new.
    pub async fn parts(&self, session: &str) -> Vec<Value> {
        self.messages(session).await.into_iter().flat_map(|mut message| list(message["parts"].take())).collect()
    }

    /// Returns the permission requests that wait.
    pub async fn permissions(&self) -> Vec<Value> {
        list(self.expect(200, Method::GET, "/permission", None).await)
    }

    /// Replies to a permission request: `once`, `always` or `reject`.
    pub async fn reply(&self, permission: &str, reply: &str) {
        let body = json!({ "reply": reply });
        self.expect(200, Method::POST, &format!("/permission/{permission}/reply"), Some(&body)).await;
    }

    /// Opens the directory's event stream; returns when its first event, `server.connected`, is there.
    pub async fn events(&self) -> Events {
        Events::open(self.request(Method::GET, "/event")).await
    }

    /// Opens the stream of all directories' events, as [`Wire::events`].
    pub async fn global_events(&self) -> Events {
        Events::open(self.request(Method::GET, "/global/event")).await
    }

    /// Opens the stream at `path` (`/event` or `/global/event`) behind the frame with this id.
    pub async fn events_after(&self, path: &str, last: &str) -> Events {
        Events::resume(self.request(Method::GET, path).header("last-event-id", last)).await
    }

    async fn expect(&self, status: u16, method: Method, path: &str, body: Option<&Value>) -> Value {
        let (got, answer) = self.must(method.clone(), path, body).await;
        assert_eq!(got, status, "{method} {path} answered {answer}");
        answer
    }

    async fn must(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let sent = self.send(method.clone(), path, body).await;
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
    }
}

/// Returns a string value's text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        other => panic!("not a list: {other}"),
    }
}

fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// Returns an HTTP client without proxies. It will not speak TLS to anyone, so it needs no certificates. Each request
/// has a connection of its own: one kept from before a restart would fail at random.
pub(crate) fn http_client() -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Another crate under test may have installed one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(0).build().expect("an HTTP client")
}
