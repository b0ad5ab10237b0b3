//! Turns whose answer must have a shape: the model is offered one more tool, whose arguments are the answer.

use std::sync::Arc;

use protocol::message::{OutputFormat, UserMessage};
use protocol::{AssistantMessage, MessageId, SessionError, ToolState};
use serde_json::Value;
use tools::structured_output::{ID, StructuredOutput};

use super::Session;
use crate::workspace::Toolkit;

/// How often a model may give an answer of another shape, where the prompt doesn't say.
const RETRIES: u32 = 2;

/// Returns the tools of a step that answers this prompt.
pub fn with_answer(toolkit: &Arc<Toolkit>, user: &UserMessage) -> Arc<Toolkit> {
    let Some(OutputFormat::JsonSchema { schema, .. }) = &user.format else { return toolkit.clone() };
    let mut kit = Toolkit::clone(toolkit);
    kit.tools.push(Arc::new(StructuredOutput::new(schema.clone())));
    Arc::new(kit)
}

/// What a step means for the shape its turn's answer must have.
pub enum Shaped {
    /// Nothing: any text will do, or it is still to come.
    Open,
    /// Here it is.
    Given(Value),
    /// It did not come.
    Missing(SessionError),
}

impl Session {
    /// Looks whether a step gave the answer, or whether it can still be hoped for.
    pub(super) fn shaped(&self, message: &AssistantMessage, goes_on: bool) -> Shaped {
        let asked = self.state.history.get(&message.parent_id).and_then(|entry| entry.info.as_user());
        let Some(Some(OutputFormat::JsonSchema { retry_count, .. })) = asked.map(|user| &user.format) else {
            return Shaped::Open;
        };
        if let Some(answer) = self.answers(&message.id).find_map(|state| match state {
            ToolState::Completed { input, .. } => Some(input.clone()),
            _ => None,
        }) {
            return Shaped::Given(answer);
        }
        let failed = self
            .state
            .history
            .entries()
            .iter()
            .filter(|entry| entry.info.as_assistant().is_some_and(|answer| answer.parent_id == message.parent_id));
        let failed = failed.flat_map(|entry| self.answers(entry.info.id())).count();
        let failed = u32::try_from(failed).unwrap_or(u32::MAX);
        if goes_on && failed <= retry_count.unwrap_or(RETRIES) {
            return Shaped::Open;
        }
        let retries = failed.saturating_sub(u32::from(goes_on));
        let message = "The model gave no answer of the shape that was asked for.".to_owned();
        Shaped::Missing(SessionError::StructuredOutputError { message, retries })
    }

    /// The calls of a message that give the answer.
    fn answers(&self, message: &MessageId) -> impl Iterator<Item = &ToolState> {
        let parts = self.state.history.get(message).into_iter().flat_map(|entry| &entry.parts);
        parts.filter_map(|part| part.as_tool()).filter(|tool| tool.tool == ID).map(|tool| &tool.state)
    }
}
