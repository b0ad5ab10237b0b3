//! What plugins may change of a prompt and of a request. Nothing of it is done where there are no plugins.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use plugins::{Hook, Plugins};
use protocol::model::ModelRequest;
use protocol::{JsonMap, Message, MessageWithParts, Part, PartId, PartKind, SessionId, UserMessage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Session;
use super::compaction::view::View;
use super::history::Entry;
use crate::workspace::{Answerer, Setup};

/// How long a request waits for plugins that are being loaded. Later ones find them.
const PATIENCE: Duration = Duration::from_secs(15);
/// What is left of a prompt's time when its plugins have had theirs.
const RESERVE: Duration = Duration::from_secs(2);

/// Changes a request before it is sent.
pub(crate) type Refine = Arc<dyn Fn(ModelRequest) -> BoxFuture<'static, ModelRequest> + Send + Sync>;

/// A request's settings, as plugins see them.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    top_k: Option<f64>,
    #[serde(default)]
    max_output_tokens: Option<f64>,
    #[serde(default)]
    options: JsonMap,
}

#[derive(Serialize, Deserialize)]
struct Headers {
    headers: IndexMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct System {
    system: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Messages {
    messages: Vec<MessageWithParts>,
}

#[derive(Serialize, Deserialize)]
struct Definition {
    description: String,
    parameters: Value,
}

/// A prompt as plugins see it.
#[derive(Serialize, Deserialize)]
struct Said {
    message: Value,
    parts: Vec<Value>,
}

impl Session {
    /// What changes a step's request before it is sent; none where no plugin may.
    pub(super) fn refine(&self, setup: &Arc<Setup>, answerer: &Answerer) -> Option<Refine> {
        let plugins = setup.plugins.clone();
        if plugins.is_none() {
            return None;
        }
        let asked = self.state.turn.as_ref()?.answering.last()?;
        let user = self.state.history.get(asked)?.info.as_user()?.clone();
        let (history, make) = (self.state.history.clone(), self.request_from(setup, answerer, &user));
        let (setup, answerer, session_id) = (setup.clone(), answerer.clone(), self.id.clone());
        Some(Arc::new(move |mut request| {
            let (plugins, setup, answerer) = (plugins.clone(), setup.clone(), answerer.clone());
            let (history, make) = (history.clone(), make.clone());
            let (user, session_id) = (user.clone(), session_id.clone());
            async move {
                plugins.ready(PATIENCE).await;
                if plugins.has(Hook::MessagesTransform) {
                    // What a summary stands for is out of their sight, as it is out of the model's.
                    let (hidden, seen) = history.entries().split_at(View::of(history.entries()).hidden);
                    let messages = seen.iter().map(Entry::seen).collect();
                    let Messages { messages } =
                        plugins.change(Hook::MessagesTransform, json!({}), Messages { messages }).await;
                    let changed = messages.into_iter().map(|m| Entry::new(m.info, m.parts));
                    let changed: Vec<Entry> = hidden.iter().cloned().chain(changed).collect();
                    request = make(&changed);
                }
                refined(request, &plugins, &setup, &answerer, &user, &session_id).await
            }
            .boxed()
        }))
    }
}

/// What plugins make of a request that is compiled.
async fn refined(
    mut request: ModelRequest,
    plugins: &Plugins,
    setup: &Setup,
    answerer: &Answerer,
    user: &UserMessage,
    session_id: &SessionId,
) -> ModelRequest {
    let model = &*answerer.chosen.model;
    if plugins.has(Hook::SystemTransform) {
        let input = json!({ "sessionID": session_id, "model": model });
        let system = System { system: std::mem::take(&mut request.system) };
        let System { system } = plugins.change(Hook::SystemTransform, input, system).await;
        request.system = system.into_iter().filter(|text| !text.trim().is_empty()).collect();
    }
    if plugins.has(Hook::ToolDefinition) {
        let definitions = request.tools.iter().map(|tool| {
            let definition = Definition { description: tool.description.clone(), parameters: tool.parameters.clone() };
            (json!({ "toolID": tool.name }), definition)
        });
        let changed = plugins.change_each(Hook::ToolDefinition, definitions.collect()).await;
        for (tool, Definition { description, parameters }) in request.tools.iter_mut().zip(changed) {
            tool.description = description;
            if parameters.is_object() {
                tool.parameters = parameters;
            }
        }
    }
    if !plugins.has(Hook::ChatParams) && !plugins.has(Hook::ChatHeaders) {
        return request;
    }
    let provider = setup.catalogue.providers().find(|provider| provider.id == answerer.model_ref.provider_id);
    let input = json!({
        "sessionID": session_id,
        "agent": answerer.agent.name,
        "model": model,
        "provider": {
            "source": provider.map(|provider| provider.source),
            "info": provider,
            "options": provider.map(|provider| &provider.options),
        },
        "message": Message::User(user.clone()),
    });
    let params = Params {
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: None,
        max_output_tokens: Some(request.max_output_tokens as f64),
        options: std::mem::take(&mut request.options),
    };
    let params = plugins.change(Hook::ChatParams, &input, params).await;
    request.temperature = params.temperature;
    request.top_p = params.top_p;
    request.options = params.options;
    if let Some(tokens) = params.max_output_tokens.filter(|tokens| *tokens >= 1.0) {
        request.max_output_tokens = tokens as u64;
    }
    if let Some(top_k) = params.top_k {
        request.options.entry("top_k").or_insert(json!(top_k));
    }
    let headers = Headers { headers: std::mem::take(&mut request.headers) };
    request.headers = plugins.change(Hook::ChatHeaders, &input, headers).await.headers;
    request
}

/// A prompt that is about to be stored, as far as plugins may change it.
pub(super) struct Draft {
    /// The message.
    pub message: UserMessage,
    /// Its parts; those without an id get one when they are stored.
    pub parts: Vec<(Option<PartId>, PartKind)>,
}

/// Shows a prompt to plugins. `left` is how long its sender waits; plugins that take longer are passed over.
pub(super) async fn shown(plugins: &Plugins, draft: Draft, left: Duration, names: impl Fn() -> PartId) -> Draft {
    let limit = left.saturating_sub(RESERVE);
    plugins.ready(limit).await;
    if !plugins.has(Hook::ChatMessage) {
        return draft;
    }
    let Draft { message, parts } = draft;
    let parts: Vec<Part> = parts
        .into_iter()
        .map(|(id, kind)| Part {
            id: id.unwrap_or_else(&names),
            session_id: message.session_id.clone(),
            message_id: message.id.clone(),
            kind,
        })
        .collect();
    let input = json!({
        "sessionID": message.session_id,
        "agent": message.agent,
        "model": { "providerID": message.model.provider_id, "modelID": message.model.model_id },
        "messageID": message.id,
        "variant": message.model.variant,
    });
    let said =
        Said { message: json!(Message::User(message.clone())), parts: parts.iter().map(|part| json!(part)).collect() };
    let changed = tokio::time::timeout(limit, plugins.change(Hook::ChatMessage, input, said)).await.ok();
    let (message, parts) = match changed {
        Some(changed) => (changed_message(message, &changed.message), changed_parts(parts, changed.parts, names)),
        None => (message, parts),
    };
    Draft { message, parts: parts.into_iter().map(|part| (Some(part.id), part.kind)).collect() }
}

/// Of a message only what its sender could have said is taken over.
fn changed_message(own: UserMessage, changed: &Value) -> UserMessage {
    let Ok(changed) = UserMessage::deserialize(changed) else { return own };
    UserMessage { system: changed.system, tools: changed.tools, ..own }
}

/// Parts that plugins add often have no id, or one of their own making.
fn changed_parts(own: Vec<Part>, changed: Vec<Value>, names: impl Fn() -> PartId) -> Vec<Part> {
    let Some(first) = own.first() else { return own };
    let (session_id, message_id) = (first.session_id.clone(), first.message_id.clone());
    let mut parts: Vec<Part> = Vec::new();
    for mut part in changed {
        let Some(map) = part.as_object_mut() else { continue };
        let given = map.get("id").and_then(Value::as_str).and_then(|id| PartId::parse(id).ok());
        let id = given.filter(|id| parts.iter().all(|part| part.id != *id)).unwrap_or_else(&names);
        map.insert("id".into(), json!(id));
        map.insert("sessionID".into(), json!(session_id));
        map.insert("messageID".into(), json!(message_id));
        match serde_json::from_value(part) {
            Ok(part) => parts.push(part),
            Err(error) => tracing::warn!(%error, "a part that a plugin made is left out"),
        }
    }
    if parts.is_empty() { own } else { parts }
}
