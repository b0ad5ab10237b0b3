//! How full the model's window is. Pure. Sizes are in tokens, estimated at four bytes each where nobody counted.
//! Source of the limits: OpenCode `session/overflow.ts`, `session/compaction.ts`.

use std::sync::Arc;

use protocol::config::CompactionConfig;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, UserContent};
use protocol::part::{FilePart, PartKind};
use protocol::provider::Model;
use protocol::{Part, ToolState};

use crate::session::history::Entry;

/// What a picture or another file takes, where nobody counted.
const FILE: u64 = 1_600;
/// Bytes of a token.
const BYTES: u64 = 4;
/// A guess is wrong by this part of it.
const GUESS: u64 = 10;
/// Less than this is no answer.
const MIN_ANSWER: u64 = 1_024;
/// What is kept free of a window whose input has a limit of its own.
const RESERVED: u64 = 20_000;

/// Returns how much a request may take, its answer's room left out: at least half of the window, unless the config
/// reserves more. None where the window's size is unknown.
pub fn usable(model: &Model, config: &CompactionConfig, max_output: u64) -> Option<u64> {
    let limit = &model.limit;
    if limit.context == 0 {
        return None;
    }
    // What leaves nothing is a mistake.
    let reserved = |of: u64| config.reserved.filter(|tokens| *tokens < of);
    let answer = max_output.min(limit.context / 2);
    let whole = limit.context - reserved(limit.context).unwrap_or(0).max(answer);
    let input = limit.input.filter(|input| *input > 0);
    let input = input.map(|input| input - reserved(input).unwrap_or(RESERVED.min(max_output).min(input / 2)));
    Some(input.map_or(whole, |input| input.min(whole)))
}

/// Returns the most tokens an answer may have beside a request of about so many, in a window of this size (0: unknown).
pub fn room_for_answer(wanted: u64, context: u64, request: u64) -> u64 {
    if context == 0 {
        return wanted;
    }
    // The request's size is a guess.
    let free = context.saturating_sub(request.saturating_add(request / GUESS));
    free.max(MIN_ANSWER).min(wanted)
}

/// Returns about how much the next request takes: what the last answer's request and answer took, by its vendor's
/// count, and what came after it. `None` where no answer of this model is in sight: the request itself must be
/// looked at.
pub fn next_request(seen: &[&Entry]) -> Option<u64> {
    let counted = |entry: &Entry| entry.info.as_assistant().filter(|m| !m.summary).map(|m| m.tokens.all());
    let at = seen.iter().rposition(|entry| counted(entry).is_some_and(|tokens| tokens > 0))?;
    let (last, after) = (seen.get(at)?, seen.get(at + 1..)?);
    // The answer's own words are counted already, the results of its calls are not.
    let results: u64 = last.parts.iter().map(|part| result_size(part)).sum();
    Some(counted(last)? + results + after.iter().map(|entry| size(entry)).sum::<u64>())
}

/// Returns about how much a message takes.
pub fn size(entry: &Entry) -> u64 {
    entry.parts.iter().map(part_size).sum()
}

fn part_size(part: &Arc<Part>) -> u64 {
    match &part.kind {
        PartKind::Text(text) if !text.ignored => tokens(&text.text),
        PartKind::Reasoning(thought) => tokens(&thought.text),
        PartKind::File(file) => file_size(file),
        PartKind::Subtask(task) => tokens(&task.prompt),
        PartKind::Tool(tool) => json_tokens(tool.state.input()) + result_size(part),
        _ => 0,
    }
}

fn result_size(part: &Part) -> u64 {
    match part.as_tool().map(|tool| &tool.state) {
        Some(ToolState::Completed { time, .. }) if time.compacted.is_some() => 20,
        Some(ToolState::Completed { output, attachments, .. }) => {
            tokens(output) + attachments.iter().flatten().count() as u64 * FILE
        }
        Some(ToolState::Error { error, .. }) => tokens(error),
        _ => 0,
    }
}

/// Text files are told by the text beside them.
fn file_size(file: &FilePart) -> u64 {
    if file.mime.starts_with("text/") { 0 } else { FILE }
}

/// Returns about how many tokens a text has.
pub fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES)
}

fn json_tokens(value: &serde_json::Value) -> u64 {
    tokens(&value.to_string())
}

/// What fills a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// System prompt and instructions.
    pub system: u64,
    /// Definitions of tools.
    pub tools: u64,
    /// The conversation.
    pub messages: u64,
}

impl Filling {
    /// Looks at a request.
    pub fn of(request: &ModelRequest) -> Self {
        Self {
            system: request.system.iter().map(|text| tokens(text)).sum(),
            tools: request.tools.iter().map(|tool| serde_json::to_string(tool).map_or(0, |t| tokens(&t))).sum(),
            messages: request.messages.iter().map(message).sum(),
        }
    }

    /// Returns all of it.
    pub fn total(self) -> u64 {
        self.system + self.tools + self.messages
    }
}

fn message(message: &ModelMessage) -> u64 {
    match message {
        ModelMessage::User(content) => content.iter().map(said).sum(),
        ModelMessage::Assistant(content) => content
            .iter()
            .map(|content| match content {
                AssistantContent::Text { text, .. } | AssistantContent::Reasoning { text, .. } => tokens(text),
                AssistantContent::Call { input, .. } => json_tokens(input),
            })
            .sum(),
        ModelMessage::Tool(results) => results.iter().map(|result| tokens(&result.output)).sum(),
    }
}

fn said(content: &UserContent) -> u64 {
    match content {
        UserContent::Text(text) => tokens(text),
        UserContent::File { .. } => FILE,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use protocol::provider::Limit;

    use super::*;
    use crate::session::offer::output_limit;
    use crate::session::samples;

    fn model(context: u64, output: u64, input: Option<u64>) -> Model {
        Model { limit: Limit { context, input, output }, ..samples::model("m") }
    }

    fn usable_of(context: u64, output: u64, input: Option<u64>) -> Option<u64> {
        let model = model(context, output, input);
        usable(&model, &CompactionConfig::default(), output_limit(&model))
    }

    #[test]
    fn the_answer_takes_half_of_the_window_at_most() {
        assert_eq!(usable_of(128_000, 8_192, None), Some(119_808));
        assert_eq!(usable_of(20_000, 2_000, None), Some(18_000));
        for output in [0, 32_768, 100_000] {
            assert_eq!(usable_of(32_768, output, None), Some(16_384), "{output}");
        }
        assert_eq!(usable_of(8_192, 16_384, None), Some(4_096));
        assert_eq!(usable_of(400_000, 128_000, Some(272_000)), Some(252_000));
        assert_eq!(usable_of(32_768, 32_768, Some(100)), Some(50));
        assert_eq!(usable_of(32_768, 8_000, Some(0)), Some(24_768));
        assert_eq!(usable_of(0, 8_000, Some(100)), None);
    }

    #[test]
    fn what_the_config_reserves_stays_free() {
        let reserving = |reserved| CompactionConfig { reserved: Some(reserved), ..CompactionConfig::default() };
        let model = model(100_000, 8_000, None);
        assert_eq!(usable(&model, &reserving(70_000), 8_000), Some(30_000));
        assert_eq!(usable(&model, &reserving(100_000), 8_000), Some(92_000));
    }

    proptest! {
        #[test]
        fn something_is_usable_and_its_answer_fits(context in 2u64..1_000_000, output: u32, input: Option<u32>) {
            let model = model(context, output.into(), input.map(u64::from));
            let asked = output_limit(&model);
            let usable = usable(&model, &CompactionConfig::default(), asked).expect("a window");
            prop_assert!((usable > 0 || input == Some(1)) && usable + asked <= context, "{usable} and {asked}");
            prop_assert!(room_for_answer(asked, context, usable) <= asked);
        }
    }
}
