//! Servers on the network, over streamable HTTP: the SDK's transport, with the shared login and what the config adds.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use crate::auth::{AuthProblem, Tokens};
use crate::config::Remote;
use crate::error::ConnectError;
use crate::message::MAX_MESSAGE;

/// Calls that are sent at once. More wait for a place.
const CONCURRENT: usize = 64;
/// Most bytes of an error that is no message.
const MAX_ERROR: usize = 4 * 1024;
/// Characters of it that are shown.
const SHOWN: usize = 300;
/// Headers that belong to the transport.
const RESERVED: [&str; 4] = ["mcp-session-id", "mcp-protocol-version", "last-event-id", "content-type"];

/// Returns the transport to a server. Connects to nothing yet.
pub fn transport(
    remote: &Remote,
    tokens: Option<Tokens>,
    http: &reqwest::Client,
) -> StreamableHttpClientTransport<LoggedIn> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
    config.custom_headers = headers(remote);
    config.max_concurrent_requests = CONCURRENT;
    config.max_sse_event_size = MAX_MESSAGE;
    config.max_json_response_size = MAX_MESSAGE;
    config.max_error_response_size = MAX_ERROR;
    // A key in the config is the login.
    let tokens = tokens.filter(|_| !remote.headers.contains_key(AUTHORIZATION));
    StreamableHttpClientTransport::with_client(LoggedIn { http: http.clone(), tokens }, config)
}

/// The headers of the config, without those that are not its to set.
pub fn headers(remote: &Remote) -> HashMap<HeaderName, HeaderValue> {
    let is_ours = |name: &HeaderName| *name == ACCEPT || RESERVED.contains(&name.as_str());
    remote
        .headers
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns what is wrong, of an error of the transports of this crate; none of any other error.
pub fn problem(error: &(dyn Error + Send + Sync + 'static)) -> Option<ConnectError> {
    // The SDK hides our own failure from the chain of causes.
    if let Some(StreamableHttpError::Client(failure)) = find::<StreamableHttpError<Failure>>(error) {
        return Some(of_failure(failure));
    }
    if let Some(failure) = find::<Failure>(error) {
        return Some(of_failure(failure));
    }
    if find::<AuthRequiredError>(error).is_some() {
        return Some(ConnectError::NeedsAuth);
    }
    if find::<InsufficientScopeError>(error).is_some() {
        return Some(ConnectError::Handshake("the login is not good for this server; log in again".into()));
    }
    match find::<StreamableHttpError<Failure>>(error)? {
        StreamableHttpError::HttpStatus(answer) => Some(of_failure(&Failure::Status(answer.status))),
        StreamableHttpError::UnexpectedServerResponse(said) => {
            Some(ConnectError::Handshake(said.chars().filter(|c| !c.is_control()).take(SHOWN).collect()))
        }
        other => Some(ConnectError::Handshake(other.to_string())),
    }
}

fn of_failure(failure: &Failure) -> ConnectError {
    match failure {
        Failure::Auth(AuthProblem::LoginNeeded) => ConnectError::NeedsAuth,
        Failure::Auth(other) => ConnectError::Auth(other.clone()),
        Failure::Status(status) => ConnectError::Handshake(format!("it answered with HTTP {status}")),
        Failure::Http(error) => match error.status() {
            Some(status) => ConnectError::Handshake(format!("it answered with HTTP {}", status.as_u16())),
            None => {
                let host = error.url().and_then(|url| url.host_str()).unwrap_or("the server").to_owned();
                ConnectError::Unreachable { host, reason: innermost(error) }
            }
        },
    }
}

/// Finds an error of a kind among an error and its causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a T> {
    let mut at: Option<&'a (dyn Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        at = error.source();
    }
    None
}

/// The cause that says something; the others only say that there is one. None of them holds the address, whose query
/// may hold a key.
fn innermost(error: &reqwest::Error) -> String {
    let mut at: &dyn Error = error;
    while let Some(source) = at.source() {
        at = source;
    }
    match at.downcast_ref::<reqwest::Error>() {
        Some(_) if error.is_timeout() => "it took too long".into(),
        Some(_) => "the request failed".into(),
        None => at.to_string(),
    }
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It could not be sent, or its answer not be read.
    #[error("the request failed")]
    Http(#[from] reqwest::Error),
    /// The login can't be used.
    #[error(transparent)]
    Auth(#[from] AuthProblem),
    /// The answer's status is no success.
    #[error("it answered with HTTP {0}")]
    Status(u16),
}

/// Sends requests with the server's login. A token the server rejects is renewed, and the request sent once more:
/// it was not taken.
#[derive(Clone)]
pub struct LoggedIn {
    http: reqwest::Client,
    tokens: Option<Tokens>,
}

type Answer<T> = Result<T, StreamableHttpError<Failure>>;

impl LoggedIn {
    async fn send<T, F, W>(&self, send: F) -> Answer<T>
    where
        F: Fn(Option<String>) -> W,
        W: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
    {
        let Some(tokens) = &self.tokens else { return send(None).await.map_err(ours) };
        let token = tokens.current().await.map_err(|problem| StreamableHttpError::Client(problem.into()))?;
        match (send(token.clone()).await.map_err(ours), token) {
            (Err(StreamableHttpError::AuthRequired(_)), Some(rejected)) => {
                let token =
                    tokens.renewed(&rejected).await.map_err(|problem| StreamableHttpError::Client(problem.into()))?;
                send(Some(token)).await.map_err(ours)
            }
            (answer, _) => answer,
        }
    }
}

impl StreamableHttpClient for LoggedIn {
    type Error = Failure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Answer<StreamableHttpPostResponse> {
        let send = |token| {
            let (uri, message, session_id, headers) =
                (uri.clone(), message.clone(), session_id.clone(), headers.clone());
            self.http.post_message_with_response_limits(uri, message, session_id, token, headers, limits)
        };
        self.send(send).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<()> {
        self.send(|token| self.http.delete_session(uri.clone(), session_id.clone(), token, headers.clone())).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth, headers, MAX_MESSAGE).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Answer<BoxStream<'static, Result<Sse, SseError>>> {
        let send = |token| {
            let (uri, session_id, last) = (uri.clone(), session_id.clone(), last_event_id.clone());
            let headers = headers.clone();
            self.http.get_stream_with_max_sse_event_size(uri, session_id, last, token, headers, max_sse_event_size)
        };
        self.send(send).await
    }
}

/// The same error with our own failures in it. A refusal without a challenge is one all the same.
fn ours(error: StreamableHttpError<reqwest::Error>) -> StreamableHttpError<Failure> {
    use StreamableHttpError as Http;
    match error {
        Http::Client(error) => Http::Client(Failure::Http(error)),
        Http::UnexpectedServerResponse(said) if said.starts_with("HTTP 401") => {
            Http::AuthRequired(AuthRequiredError::new(String::new()))
        }
        Http::UnexpectedServerResponse(said) => Http::UnexpectedServerResponse(said),
        Http::Sse(error) => Http::Sse(error),
        Http::Io(error) => Http::Io(error),
        Http::HttpStatus(error) => Http::HttpStatus(error),
        Http::UnexpectedEndOfStream => Http::UnexpectedEndOfStream,
        Http::ResponseBodyTooLarge { max_size } => Http::ResponseBodyTooLarge { max_size },
        Http::UnexpectedContentType(kind) => Http::UnexpectedContentType(kind),
        Http::ServerDoesNotSupportSse => Http::ServerDoesNotSupportSse,
        Http::ServerDoesNotSupportDeleteSession => Http::ServerDoesNotSupportDeleteSession,
        Http::Deserialize(error) => Http::Deserialize(error),
        Http::TransportChannelClosed => Http::TransportChannelClosed,
        Http::MissingSessionIdInResponse => Http::MissingSessionIdInResponse,
        Http::AuthRequired(error) => Http::AuthRequired(error),
        Http::InsufficientScope(error) => Http::InsufficientScope(error),
        Http::ReservedHeaderConflict(name) => Http::ReservedHeaderConflict(name),
        Http::SessionExpired => Http::SessionExpired,
        other => Http::UnexpectedServerResponse(other.to_string().into()),
    }
}
