//! The title a model gives to a session: asked for beside the first step, by the small model.

use std::sync::Arc;

use actix::prelude::*;
use futures::StreamExt;
use protocol::agent::Agent;
use protocol::model::{ModelEvent, ModelMessage, ModelRequest, Reasoning, ToolChoice, UserContent};
use protocol::{JsonMap, MessageId, SessionId};

use super::Session;
use super::history::Entry;
use super::offer::output_limit;
use crate::provider_gate::{Gate, Visitor};
use crate::workspace::catalogue::Chosen;
use crate::workspace::{Answerer, Setup};

/// Longest title, in characters.
const MAX_CHARS: usize = 100;
/// What the model is asked, before the person's own words.
const ASK: &str = "Name the conversation that begins with this:\n";

/// Returns the title of a session that was given none.
pub fn default_title(now_ms: u64, is_child: bool) -> String {
    let time = chrono::DateTime::<chrono::Utc>::from_timestamp_millis(now_ms as i64).unwrap_or_default();
    let kind = if is_child { "Child session" } else { "New session" };
    format!("{kind} - {}", time.format("%Y-%m-%dT%H:%M:%S%.3fZ"))
}

/// Returns whether a session was given no title yet.
pub fn is_default(title: &str) -> bool {
    let date = title.strip_prefix("New session - ").or_else(|| title.strip_prefix("Child session - "));
    date.is_some_and(|date| chrono::DateTime::parse_from_rfc3339(date).is_ok())
}

/// Returns the request for a title.
pub fn request(session_id: &SessionId, agent: &Agent, chosen: &Chosen, text: String) -> ModelRequest {
    let model = &chosen.model;
    let said = |text: String| ModelMessage::User(vec![UserContent::Text(text)]);
    ModelRequest {
        session_id: session_id.clone(),
        parent_id: None,
        model: model.api.id.clone(),
        system: agent.prompt.clone().into_iter().collect(),
        messages: vec![said(ASK.to_owned()), said(text)],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: model.limit.output.min(output_limit(model)),
        temperature: agent.temperature.filter(|_| model.capabilities.temperature),
        top_p: agent.top_p,
        reasoning: Reasoning::of(&model.capabilities),
        options: JsonMap::new(),
        headers: model.headers.clone(),
    }
}

/// Asks for a title. None when the model gives none: the session keeps the one it has.
pub async fn ask(
    gate: Gate,
    visitor: Visitor,
    provider: Arc<dyn providers::Provider>,
    request: ModelRequest,
) -> Option<String> {
    let mut place = gate.enter(visitor, |_| {}).await.ok()?;
    let mut stream = provider.stream(request);
    let mut said = String::new();
    while let Some(events) = place.hear(stream.next()).await {
        for event in events.inspect_err(|error| tracing::debug!(%error, "no title")).ok()? {
            if let ModelEvent::TextDelta(text) = event {
                said.push_str(&text);
            }
        }
        if said.len() > 16 * MAX_CHARS {
            break;
        }
    }
    clean(&said)
}

/// The first line that says something, at a readable length.
fn clean(said: &str) -> Option<String> {
    let after_thinking = said.rsplit("</think>").next().unwrap_or(said);
    let line = after_thinking.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ']);
    let title: String = line.chars().take(MAX_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

impl Session {
    /// A session without a title of its own is given one, beside its first step.
    pub(super) fn ask_for_title(
        &mut self,
        setup: &Setup,
        answerer: &Answerer,
        user: &MessageId,
        ctx: &mut Context<Self>,
    ) {
        if self.state.asked_for_title || self.state.info.parent_id.is_some() {
            return;
        }
        self.state.asked_for_title = true;
        if !is_default(&self.state.info.title) {
            return;
        }
        let (Ok(chosen), Some(agent)) = (setup.small_model(&answerer.model_ref), setup.agents.get("title")) else {
            return;
        };
        let text = self.state.history.get(user).map(Entry::own_text).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let request = request(&self.id, agent, &chosen, text);
        let visitor = self.visitor(setup, &chosen.model.provider_id, &chosen);
        let asked = self.deps.io.spawn(ask(self.deps.gate.clone(), visitor, chosen.provider, request));
        ctx.spawn(asked.into_actor(self).map(|title, session, _| {
            // A person may have given one meanwhile.
            if let Ok(Some(title)) = title
                && is_default(&session.state.info.title)
            {
                let change = session.change_info(|info| info.title = title);
                session.record(vec![change]).detach();
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_default_title_is_known_as_one() {
        let title = default_title(1_700_000_000_000, false);
        assert_eq!(title, "New session - 2023-11-14T22:13:20.000Z");
        assert!(is_default(&title) && is_default(&default_title(0, true)));
        assert!(!is_default("New session - about dates"));
    }

    #[test]
    fn a_title_is_the_first_line_without_thinking_and_marks() {
        assert_eq!(clean("<think>hm\nhm</think>\n\n\"Fix the parser\"\nmore").as_deref(), Some("Fix the parser"));
        assert_eq!(clean(" \n"), None);
        assert_eq!(clean(&"x".repeat(300)).map(|t| t.len()), Some(MAX_CHARS));
    }
}
