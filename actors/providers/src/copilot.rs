//! GitHub Copilot: chat completions, responses or Anthropic's messages by the model, and headers that say who asks.
//!
//! Source: OpenCode 1.18's plugin for it.

use protocol::model::{ModelMessage, ModelRequest, UserContent};
use sse::Client;

use crate::adapter::Adapter;
use crate::chat::Chat;
use crate::endpoint::{Endpoint, OpenError};
use crate::responses::Responses;
use crate::vendors::COPILOT;
use crate::{IdSource, ModelStream, Provider};

/// Speaks to Copilot, each model in the format it has there.
pub(crate) struct Copilot {
    chat: Adapter<Chat>,
    responses: Adapter<Responses>,
}

impl Copilot {
    pub(crate) fn new(endpoint: &Endpoint, client: Client, ids: IdSource) -> Result<Self, OpenError> {
        Ok(Self {
            chat: Adapter::new(endpoint, client.clone(), ids.clone(), Chat)?,
            responses: Adapter::new(endpoint, client, ids, Responses)?,
        })
    }
}

impl Provider for Copilot {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        if has_responses(&request.model) { self.responses.stream(request) } else { self.chat.stream(request) }
    }
}

/// Returns whether a model is spoken to by responses: gpt-5 and later, but not its mini.
pub(crate) fn has_responses(model: &str) -> bool {
    let version = model.strip_prefix("gpt-").unwrap_or_default();
    let major: String = version.chars().take_while(char::is_ascii_digit).collect();
    major.parse::<u32>().is_ok_and(|major| major >= 5) && !model.starts_with("gpt-5-mini")
}

/// Returns whether an endpoint is Copilot's, in whatever format.
pub(crate) fn is(endpoint: &Endpoint) -> bool {
    endpoint.npm == COPILOT || endpoint.provider_id.contains("github-copilot")
}

/// Returns the headers Copilot wants: what for, whether a person or an agent asks (it bills by that), and whether there
/// are pictures. None for others.
pub(crate) fn headers(endpoint: &Endpoint, request: &ModelRequest) -> Vec<(&'static str, &'static str)> {
    if !is(endpoint) {
        return Vec::new();
    }
    let is_person = request.parent_id.is_none() && matches!(request.messages.last(), Some(ModelMessage::User(_)));
    let initiator = if is_person { "user" } else { "agent" };
    let mut headers = vec![("x-initiator", initiator), ("openai-intent", "conversation-edits")];
    let is_image = |mime: &str| mime.starts_with("image/");
    let has_image = request.messages.iter().any(|message| match message {
        ModelMessage::User(parts) => {
            parts.iter().any(|part| matches!(part, UserContent::File(file) if is_image(&file.mime)))
        }
        ModelMessage::Tool(results) => results.iter().flat_map(|result| &result.files).any(|file| is_image(&file.mime)),
        ModelMessage::Assistant(_) => false,
    });
    if has_image {
        headers.push(("copilot-vision-request", "true"));
    }
    headers
}
