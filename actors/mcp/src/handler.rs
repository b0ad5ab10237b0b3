//! What servers ask of us and tell us between our own requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::JsonMap;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, RequestId,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tools::{Desk, Progress};

use crate::connection::Changed;
use crate::elicitation;

/// The calls that run, each with the desk of its session.
#[derive(Default)]
pub struct Calls {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    running: HashMap<u64, Entry>,
}

struct Entry {
    desk: Arc<dyn Desk>,
    id: Option<RequestId>,
    token: Option<ProgressToken>,
    signs: Signs,
}

/// Signs of life of a call: how many of its questions wait for a person, sent anew with each sign of progress.
type Signs = watch::Sender<usize>;

/// A question waits for a person; it no longer does when this is dropped.
struct Waiting(Signs);

impl Waiting {
    fn new(signs: Signs) -> Self {
        signs.send_modify(|waiting| *waiting += 1);
        Self(signs)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

/// A call that runs; it no longer does when this is dropped.
pub struct Running {
    calls: Arc<Calls>,
    number: u64,
}

impl Calls {
    /// Notes a call before it is sent, so that whatever the server does about it finds its desk.
    pub fn enter(self: &Arc<Self>, desk: Arc<dyn Desk>) -> Running {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state.running.insert(number, Entry { desk, id: None, token: None, signs: Signs::default() });
        Running { calls: self.clone(), number }
    }

    fn of_token(&self, token: &ProgressToken) -> Option<Arc<dyn Desk>> {
        let state = self.lock();
        let entry = state.running.values().find(|entry| entry.token.as_ref() == Some(token))?;
        entry.signs.send_modify(|_| {});
        Some(entry.desk.clone())
    }

    /// The desk of the call a question belongs to: the one on whose answer stream it came, or whose token it names.
    /// Over pipes it has neither, and MCP does not say which call it came up in: where several run it is the one that
    /// began last.
    fn asking(&self, stream: Option<&RequestId>, token: Option<&ProgressToken>) -> Option<(Arc<dyn Desk>, Waiting)> {
        let state = self.lock();
        let is_named = |entry: &Entry| {
            let (Some(id), Some(own)) = (&entry.id, &entry.token) else { return false };
            stream == Some(id) || token == Some(own)
        };
        let named = state.running.values().find(|entry| is_named(entry));
        let last = || state.running.iter().max_by_key(|(number, _)| **number).map(|(_, entry)| entry);
        named.or_else(last).map(|entry| (entry.desk.clone(), Waiting::new(entry.signs.clone())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Returns the signs of life of the call: how many of its questions wait for a person.
    pub fn signs(&self) -> watch::Receiver<usize> {
        let state = self.calls.lock();
        state.running.get(&self.number).map_or_else(|| watch::channel(0).1, |entry| entry.signs.subscribe())
    }

    /// Notes how the server knows the call.
    pub fn bind(&self, id: RequestId, token: ProgressToken) {
        if let Some(entry) = self.calls.lock().running.get_mut(&self.number) {
            entry.id = Some(id);
            entry.token = Some(token);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.calls.lock().running.remove(&self.number);
    }
}

/// The client's side of a connection.
pub struct Handler {
    server: String,
    version: Arc<str>,
    calls: Arc<Calls>,
    changes: mpsc::Sender<Changed>,
}

impl Handler {
    /// Returns the client's side of a connection to a server.
    pub fn new(server: &str, version: Arc<str>, calls: Arc<Calls>, changes: mpsc::Sender<Changed>) -> Self {
        Self { server: server.to_owned(), version, calls, changes }
    }

    fn changed(&self, what: Changed) {
        // Where several wait already, what is listed next is as new as this notice.
        let _ = self.changes.try_send(what);
    }

    async fn elicit(&self, params: &Value, stream: Option<RequestId>, token: Option<ProgressToken>) -> ElicitResult {
        match self.calls.asking(stream.as_ref(), token.as_ref()) {
            Some((desk, _waiting)) => elicitation::ask(&*desk, &self.server, params).await,
            None => {
                tracing::warn!(
                    server = self.server,
                    "an MCP server asks something outside of any call; it is declined"
                );
                ElicitResult::new(ElicitationAction::Decline)
            }
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let elicitation = ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
        capabilities.elicitation = Some(elicitation);
        let client = Implementation::new("troupe", &*self.version);
        // The newest revision that has a handshake; servers of the one after it still take this one.
        ClientConfig::new(capabilities, client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let Some(desk) = self.calls.of_token(&params.progress_token) else { return };
        let mut metadata = JsonMap::new();
        metadata.insert("progress".into(), json!(params.progress));
        if let Some(total) = params.total {
            metadata.insert("total".into(), json!(total));
        }
        let title = params.message.map(|message| message.chars().take(200).collect::<String>());
        if let Some(title) = &title {
            metadata.insert("message".into(), json!(title));
        }
        desk.progress(Progress { title, metadata });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed(Changed::Tools);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed(Changed::Resources);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed(Changed::Prompts);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(&request).unwrap_or_default();
        let stream = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
            _ => None,
        };
        Ok(self.elicit(&params, stream, context.meta.get_progress_token()).await)
    }

    /// Takes elicitations too whose form the SDK can't read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "elicitation/create" {
            return Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let result = self.elicit(&request.params.unwrap_or_default(), None, None).await;
        Ok(CustomResult(serde_json::to_value(result).unwrap_or_default()))
    }
}
