//! The older transport of servers on the network, HTTP+SSE: one event stream brings everything the server says, its
//! first event tells where requests are posted to. The SDK no longer has it. Source: MCP 2024-11-05, "Transports".

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use sse::{EventStream, SseError, SseRequest};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::auth::{AuthProblem, Tokens};
use crate::config::Remote;
use crate::connect::Counters;
use crate::error::ConnectError;
use crate::message::{self, Incoming, MAX_MESSAGE};
use crate::remote::{self, Failure};

/// How long the stream may take to tell where requests go.
const BEGINNING: Duration = Duration::from_secs(10);
/// How long a request may take to be taken.
const POST: Duration = Duration::from_secs(30);
/// The longest silence: such servers have no heartbeat that counts. A dead one is found by the next request.
const SILENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Messages that wait to be taken.
const QUEUE: usize = 64;

/// The two directions of a connection.
pub struct Legacy {
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    sender: Sender,
    _stop: DropGuard,
}

#[derive(Clone)]
struct Sender {
    http: reqwest::Client,
    endpoint: Url,
    headers: HeaderMap,
    tokens: Option<Tokens>,
}

/// Opens the stream of a server and waits until it tells where requests go.
pub async fn open(
    name: &str,
    remote: &Remote,
    tokens: Option<Tokens>,
    http: &reqwest::Client,
    counters: Arc<Counters>,
) -> Result<Legacy, ConnectError> {
    let headers: HeaderMap = remote::headers(remote).into_iter().collect();
    let tokens = tokens.filter(|_| !headers.contains_key(AUTHORIZATION));
    let token = match &tokens {
        Some(tokens) => tokens.current().await?,
        None => None,
    };
    let (stream, endpoint) = match stream(remote, &headers, token.as_deref(), http).await {
        Err(ConnectError::NeedsAuth) => match (&tokens, &token) {
            (Some(tokens), Some(rejected)) => {
                let token = tokens.renewed(rejected).await?;
                stream(remote, &headers, Some(&token), http).await?
            }
            _ => return Err(ConnectError::NeedsAuth),
        },
        opened => opened?,
    };
    let (to, incoming) = mpsc::channel(QUEUE);
    let stop = CancellationToken::new();
    let (name, stopped) = (name.to_owned(), stop.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = read(&name, stream, to, &counters) => {}
            () = stopped.cancelled() => {}
        }
    });
    Ok(Legacy { incoming, sender: Sender { http: http.clone(), endpoint, headers, tokens }, _stop: stop.drop_guard() })
}

async fn stream(
    remote: &Remote,
    headers: &HeaderMap,
    token: Option<&str>,
    http: &reqwest::Client,
) -> Result<(EventStream, Url), ConnectError> {
    let mut request = SseRequest::get(remote.url.clone());
    request.headers = headers.clone();
    if let Some(bearer) = token.and_then(bearer) {
        request.headers.insert(AUTHORIZATION, bearer);
    }
    request.header_timeout = BEGINNING;
    request.event_timeout = SILENCE;
    request.max_event_bytes = MAX_MESSAGE;
    let mut stream = sse::open(http, request);
    let first = tokio::time::timeout(BEGINNING, async {
        loop {
            match stream.next().await {
                Some(Ok(event)) if event.event == "endpoint" => return Ok(event.data),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(opening(&error)),
                None => return Err(ConnectError::Handshake("its event stream ended at once".into())),
            }
        }
    });
    let slow = ConnectError::Handshake("its event stream does not tell where requests go".into());
    let endpoint = first.await.unwrap_or(Err(slow))?;
    let endpoint = remote.url.join(endpoint.trim());
    let odd = || ConnectError::Handshake("it sends requests to another server".into());
    // What is sent holds the login.
    let endpoint = endpoint.ok().filter(|endpoint| endpoint.origin() == remote.url.origin()).ok_or_else(odd)?;
    Ok((stream, endpoint))
}

fn opening(error: &SseError) -> ConnectError {
    match error.answer().map(|answer| answer.status) {
        Some(401) => ConnectError::NeedsAuth,
        Some(status) => ConnectError::Handshake(format!("it answered with HTTP {status}")),
        None => ConnectError::Handshake(error.to_string()),
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reads the server's stream until it ends.
async fn read(name: &str, mut stream: EventStream, to: mpsc::Sender<ServerJsonRpcMessage>, counters: &Counters) {
    while let Some(Ok(event)) = stream.next().await {
        if event.event != "message" {
            continue;
        }
        for incoming in message::read(event.data.as_bytes()) {
            match incoming {
                Incoming::Message(message) => {
                    if to.send(*message).await.is_err() {
                        return;
                    }
                }
                Incoming::Ignored => {}
                Incoming::Junk => counters.junk_came(name),
            }
        }
    }
}

impl Sender {
    async fn post(&self, body: Vec<u8>) -> Result<(), Failure> {
        let token = match &self.tokens {
            Some(tokens) => tokens.current().await?,
            None => None,
        };
        let status = self.post_once(body.clone(), token.as_deref()).await?;
        let status = match (&self.tokens, token) {
            (Some(tokens), Some(rejected)) if status == StatusCode::UNAUTHORIZED => {
                let token = tokens.renewed(&rejected).await?;
                self.post_once(body, Some(&token)).await?
            }
            _ => status,
        };
        match status {
            StatusCode::UNAUTHORIZED => Err(AuthProblem::LoginNeeded.into()),
            status if status.is_success() => Ok(()),
            status => Err(Failure::Status(status.as_u16())),
        }
    }

    async fn post_once(&self, body: Vec<u8>, token: Option<&str>) -> Result<StatusCode, reqwest::Error> {
        let mut request = self.http.post(self.endpoint.clone()).headers(self.headers.clone()).timeout(POST);
        if let Some(bearer) = token.and_then(bearer) {
            request = request.header(AUTHORIZATION, bearer);
        }
        let answer = request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body).send().await?;
        Ok(answer.status())
    }
}

impl Transport<RoleClient> for Legacy {
    type Error = Failure;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sender = self.sender.clone();
        // A message of ours always has a form.
        let body = serde_json::to_vec(&item).unwrap_or_default();
        async move { sender.post(body).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.incoming.close();
        Ok(())
    }
}
