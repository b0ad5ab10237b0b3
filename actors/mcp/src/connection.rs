//! A server that has answered the handshake: what it offers ([`Offers`]), and calls of it.

use std::sync::Arc;
use std::time::Duration;

use protocol::JsonMap;
use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, PingRequest, ReadResourceRequestParams, Request,
    ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, RunningService, RunningServiceCancellationToken};
use rmcp::{Peer, ServiceError};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tools::Desk;

use crate::error::{CallError, ConnectError};
use crate::handler::{Calls, Handler};
use crate::remote;
use crate::stdio::Fate;

mod offers;

pub use offers::{Offers, Prompt, PromptArgument, RemoteTool, Resource, Template};

/// Most time of a request that is no tool call.
const REQUEST: Duration = Duration::from_secs(60);
/// How long a server may take to a ping before it counts as dead.
const PING: Duration = Duration::from_secs(5);

/// A connected server. Cheap to clone; the server is let go when the last clone is dropped.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    server: String,
    peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    closed: CancellationToken,
    changes: Mutex<mpsc::Receiver<Changed>>,
    /// What becomes of the child; none for a server on the network.
    fate: Option<Fate>,
    stop: std::sync::Mutex<Option<RunningServiceCancellationToken>>,
    /// Dropping it ends the connection.
    _service: RunningService<RoleClient, Handler>,
}

/// A list of the server is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The tools.
    Tools,
    /// The resources and their templates.
    Resources,
    /// The prompts.
    Prompts,
}

impl Connection {
    pub(crate) fn new(
        server: &str,
        service: RunningService<RoleClient, Handler>,
        calls: Arc<Calls>,
        closed: CancellationToken,
        changes: mpsc::Receiver<Changed>,
        fate: Option<Fate>,
    ) -> Self {
        let inner = Inner {
            server: server.to_owned(),
            peer: service.peer().clone(),
            calls,
            closed,
            changes: Mutex::new(changes),
            fate,
            stop: std::sync::Mutex::new(Some(service.cancellation_token())),
            _service: service,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Waits until the server is gone.
    pub async fn closed(&self) {
        self.inner.closed.cancelled().await;
    }

    /// Returns whether the server is gone.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.is_cancelled()
    }

    /// Lets the server go, whoever still holds a clone: calls that run fail.
    pub fn close(&self) {
        self.inner.closed.cancel();
        let stop = self.inner.stop.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(stop) = stop {
            stop.cancel();
        }
    }

    /// Returns how a server that is gone ended; waits a moment for it.
    pub async fn ending(&self) -> String {
        match &self.inner.fate {
            None => "the connection was closed".into(),
            Some(fate) => match fate.ending().await {
                Some((status, Some(said))) => format!("it ended ({status}); it said: {said}"),
                Some((status, None)) => format!("it ended ({status})"),
                None => "it closed its output".into(),
            },
        }
    }

    /// Returns whether the server has resources at all.
    pub fn has_resources(&self) -> bool {
        self.inner.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Waits until a list of the server changes. One waiter gets each change.
    pub async fn changed(&self) -> Changed {
        match self.inner.changes.lock().await.recv().await {
            Some(changed) => changed,
            // The server is gone; that is told elsewhere.
            None => std::future::pending().await,
        }
    }

    /// Returns what the server tells models about itself.
    pub fn instructions(&self) -> Option<String> {
        self.inner.peer.peer_info().and_then(|info| info.instructions.clone())
    }

    /// Returns whether the server still answers.
    pub async fn is_alive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        let ping =
            ClientRequest::PingRequest(PingRequest { method: Default::default(), extensions: Default::default() });
        // An error is an answer too.
        matches!(self.request_within(ping, PING).await, Ok(_) | Err(CallError::Refused { .. }))
    }

    /// Calls a tool by the server's own name and returns the result as it came ([`crate::result::shape`] reads it).
    ///
    /// Waits without a limit, or where there is a `silence`, until that long nothing was heard of the call: neither an
    /// answer nor progress, while no person is asked. What the server asks meanwhile goes to `desk`, and how far it is.
    /// When the wait is over, `cancel` is cancelled or the future is dropped, the server is told that nobody waits any
    /// more.
    pub async fn call(
        &self,
        tool: &str,
        arguments: JsonMap,
        desk: Arc<dyn Desk>,
        silence: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<Value, CallError> {
        let running = self.inner.calls.enter(desk);
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut pending = self.send(ClientRequest::CallToolRequest(Request::new(params))).await?;
        if let Some(handle) = &pending.handle {
            running.bind(handle.id.clone(), handle.progress_token.clone());
        }
        let mut signs = running.signs();
        loop {
            let limit = silence.filter(|_| *signs.borrow_and_update() == 0);
            tokio::select! {
                biased;
                answer = pending.answer() => return answer,
                () = self.inner.closed.cancelled() => return Err(CallError::Lost),
                () = cancel.cancelled() => {
                    pending.cancel().await;
                    return Err(CallError::Cancelled);
                }
                Ok(()) = signs.changed(), if silence.is_some() => {}
                () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() => {
                    pending.cancel().await;
                    return Err(CallError::Silent { limit_ms: limit.unwrap_or_default().as_millis() as u64 });
                }
            }
        }
    }

    /// Reads a resource and returns the result as it came ([`crate::result::resource`] reads it).
    pub async fn read_resource(&self, uri: &str) -> Result<Value, CallError> {
        let params = ReadResourceRequestParams::new(uri);
        self.request(ClientRequest::ReadResourceRequest(Request::new(params))).await
    }

    /// Returns a prompt filled in, as it came ([`crate::result::prompt`] reads it).
    pub async fn prompt(&self, name: &str, arguments: JsonMap) -> Result<Value, CallError> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        self.request(ClientRequest::GetPromptRequest(Request::new(params))).await
    }

    async fn request(&self, request: ClientRequest) -> Result<Value, CallError> {
        self.request_within(request, REQUEST).await
    }

    async fn request_within(&self, request: ClientRequest, limit: Duration) -> Result<Value, CallError> {
        let work = async {
            let mut pending = self.send(request).await?;
            tokio::select! {
                biased;
                answer = pending.answer() => answer,
                () = self.inner.closed.cancelled() => Err(CallError::Lost),
            }
        };
        let slow = CallError::Slow { limit_ms: limit.as_millis() as u64 };
        tokio::time::timeout(limit, work).await.unwrap_or(Err(slow))
    }

    async fn send(&self, request: ClientRequest) -> Result<Pending, CallError> {
        let sent = self.inner.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        Ok(Pending { handle: Some(sent.map_err(|error| failure(&error))?) })
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.inner.server).field("closed", &self.is_closed()).finish()
    }
}

/// A request that was sent. When it is dropped unanswered, the server is told.
struct Pending {
    handle: Option<RequestHandle<RoleClient>>,
}

impl Pending {
    async fn answer(&mut self) -> Result<Value, CallError> {
        let Some(handle) = &mut self.handle else { return Err(CallError::Lost) };
        let answer = (&mut handle.rx).await;
        self.handle = None;
        match answer {
            // Whichever kind the SDK took it for: it is read with patience elsewhere.
            Ok(Ok(result)) => raw(result),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(CallError::Lost),
        }
    }

    async fn cancel(&mut self) {
        if let Some(handle) = self.handle.take() {
            // Whoever can't be told is not working on it either.
            let _ = handle.cancel(Some("the call was stopped".into())).await;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(handle.cancel(Some("nobody waits for the answer".into())));
        }
    }
}

fn raw(result: ServerResult) -> Result<Value, CallError> {
    match result {
        ServerResult::CustomResult(value) => Ok(value.0),
        other => serde_json::to_value(other).map_err(|error| CallError::Transport(error.to_string())),
    }
}

fn failure(error: &ServiceError) -> CallError {
    match error {
        ServiceError::McpError(data) => CallError::Refused { code: data.code.0, message: data.message.to_string() },
        ServiceError::TransportClosed => CallError::Lost,
        ServiceError::Cancelled { .. } => CallError::Cancelled,
        ServiceError::TransportSend(inner) => match remote::problem(&*inner.error) {
            Some(ConnectError::NeedsAuth) => CallError::NeedsAuth,
            Some(problem) => CallError::Transport(problem.to_string()),
            // A pipe that nobody reads any more.
            None => CallError::Lost,
        },
        other => CallError::Transport(other.to_string()),
    }
}
