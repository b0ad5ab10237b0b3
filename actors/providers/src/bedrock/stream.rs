//! The answer's events to [`ModelEvent`]s.

use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::VENDOR;
use super::wire::{Event, Metadata, OfBlock, Piece, Stop, Thought, ToolUse, Usage};
use crate::IdSource;
use crate::answer::{Answer, Heard, Kind, is_something, unreadable};
use crate::decode::{Decode, Progress};
use crate::error::ProviderError;
use crate::text::{number, read, whole};

/// Decodes one answer. It has no mark of its end, for the counts come behind the reason: it is over with the stream.
pub(crate) struct Decoder {
    ids: IdSource,
    /// Calls are told by the index of their block.
    answer: Answer<Option<u64>>,
    /// The newest block.
    current: Option<u64>,
}

impl Decoder {
    pub(super) fn new(ids: IdSource) -> Self {
        Self { ids, answer: Answer::default(), current: None }
    }

    fn take(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        if event.error.is_some_and(is_something) {
            return Err(ProviderError::in_stream(data));
        }
        if let Some(raw) = event.content_block_start {
            let start: OfBlock<'_> = read(Some(raw));
            self.go_to(number(start.content_block_index), out);
            let piece: Piece<'_> = read(start.start);
            if let Some(raw) = piece.tool_use {
                self.call(&read(Some(raw)), out);
            }
        }
        if let Some(raw) = event.content_block_delta {
            let more: OfBlock<'_> = read(Some(raw));
            let index = number(more.content_block_index);
            // Only calls have a start.
            if index.is_some() && index != self.current {
                self.go_to(index, out);
            }
            self.more(&read(more.delta), out);
        }
        if let Some(raw) = event.content_block_stop {
            let stop: OfBlock<'_> = read(Some(raw));
            self.stop(number(stop.content_block_index), out);
        }
        if let Some(raw) = event.message_stop {
            let stop: Stop<'_> = read(Some(raw));
            let reason = whole(stop.stop_reason);
            match finish(&reason) {
                Some(known) => self.answer.finish(known, out),
                None => self.answer.fail(reason, out),
            }
            self.answer.calls.close_whole(out);
        }
        let metadata: Metadata<'_> = read(event.metadata);
        self.count(metadata.usage);
        Ok(())
    }

    fn go_to(&mut self, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        self.answer.end_block(out);
        self.current = index;
    }

    fn call(&mut self, called: &ToolUse<'_>, out: &mut Vec<ModelEvent>) {
        self.answer.begun = true;
        self.answer.end_block(out);
        self.answer.calls.close_whole(out);
        let at = self.answer.calls.begin(self.current, &whole(called.tool_use_id), &self.ids);
        if let Some((_, call)) = self.answer.calls.get_mut(at) {
            call.name(&whole(called.name), out);
            if let Some(raw) = called.input {
                call.add(raw);
            }
        }
    }

    fn more(&mut self, piece: &Piece<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(raw) = piece.text {
            self.answer.add(Kind::Text, raw, out);
        }
        let thought: Thought<'_> = read(piece.reasoning_content);
        if let Some(raw) = thought.text {
            self.answer.add(Kind::Reasoning, raw, out);
        }
        for (name, raw) in [("signature", thought.signature), ("redactedData", thought.redacted_content)] {
            let value = whole(raw);
            if !value.is_empty() {
                if self.answer.open_kind() != Some(Kind::Reasoning) {
                    self.answer.begin(Kind::Reasoning, None, out);
                }
                self.answer.step();
                self.answer.note(VENDOR, name, value);
            }
        }
        let called: ToolUse<'_> = read(piece.tool_use);
        if let Some(raw) = called.input {
            self.arguments(raw, out);
        }
    }

    fn arguments(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        let index = self.current;
        let calls = &mut self.answer.calls;
        let at = calls
            .newest(|key, call| !call.is_closed() && (index.is_none() || *key == index))
            // A call whose start was lost: it breaks for want of a name, and the model is told.
            .or_else(|| (raw.get() != "\"\"").then(|| calls.begin(index, "", &self.ids)));
        let Some((_, call)) = at.and_then(|at| self.answer.calls.get_mut(at)) else { return };
        call.add(raw);
        self.answer.begun = true;
        self.answer.end_block(out);
    }

    fn stop(&mut self, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        if index.is_none() || index == self.current {
            self.answer.end_block(out);
        }
        if let Some(at) = self.answer.calls.newest(|key, call| !call.is_closed() && (index.is_none() || *key == index))
            && let Some((_, call)) = self.answer.calls.get_mut(at)
        {
            call.close(out);
        }
    }

    fn count(&mut self, raw: Option<&RawValue>) {
        let usage: Usage<'_> = read(raw);
        let count = |raw| number(raw).unwrap_or(0);
        let cache =
            CacheTokens { read: count(usage.cache_read_input_tokens), write: count(usage.cache_write_input_tokens) };
        let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
        let sum = [input, output, cache.read, cache.write].into_iter().fold(0, u64::saturating_add);
        if sum > 0 {
            let total = Some(number(usage.total_tokens).unwrap_or(sum));
            self.answer.usage = Tokens { total, input, output, reasoning: 0, cache };
        }
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.answer.hear(event)? {
            Heard::Nothing => Ok(()),
            Heard::Done => self.answer.mark(out),
            Heard::Json(data) => self.take(data, out),
        }
    }

    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.answer.end(clean, out)
    }

    fn progress(&self) -> Progress {
        self.answer.progress()
    }
}

/// Returns none for a reason that says that the answer is broken.
/// Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_MessageStopEvent.html>.
fn finish(reason: &str) -> Option<FinishReason> {
    Some(match reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "content_filtered" | "guardrail_intervened" => FinishReason::ContentFilter,
        "malformed_model_output" | "malformed_tool_use" => return None,
        _ => FinishReason::Unknown,
    })
}
