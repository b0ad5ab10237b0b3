//! The answer's events to [`ModelEvent`]s.

use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::messages::VENDOR;
use super::wire::{BlockStart, Delta, Event, Start, Usage};
use crate::IdSource;
use crate::answer::{Answer, Heard, Kind, is_something, unreadable};
use crate::decode::{Decode, Progress};
use crate::error::ProviderError;
use crate::text::{elements, number, read, whole};

/// Decodes one answer. It is over with `message_stop`, or with the stream.
///
/// By the vendor's documents blocks follow each other, each with an index, a start and an end. In the field starts, ends
/// and indexes are missing; what a delta holds tells what it goes on with.
pub(crate) struct Decoder {
    ids: IdSource,
    answer: Answer<Key>,
    /// The newest block.
    current: Current,
}

/// What a call is told by.
struct Key {
    index: Option<u64>,
    /// Its arguments came with its start; pieces that follow replace them.
    given: bool,
}

struct Current {
    index: Option<u64>,
    /// It is of a kind nobody asked for.
    ignored: bool,
}

impl Decoder {
    pub(super) fn new(ids: IdSource) -> Self {
        Self { ids, answer: Answer::default(), current: Current { index: None, ignored: false } }
    }

    fn take(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        let kind = whole(event.kind);
        let kind = if kind.is_empty() { name } else { &kind };
        if kind == "error" || event.error.is_some_and(is_something) {
            return Err(ProviderError::in_stream(data));
        }
        let index = number(event.index);
        match kind {
            "message_start" => {
                let start: Start<'_> = read(event.message);
                self.count(start.usage);
                let blocks = elements(start.content);
                for (at, block) in blocks.into_iter().enumerate() {
                    self.start(Some(at as u64), &read(Some(block)), out);
                }
            }
            "content_block_start" => self.start(index, &read(event.content_block), out),
            "content_block_delta" => self.delta(index, &read(event.delta), out),
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                self.count(event.usage);
                let delta: Delta<'_> = read(event.delta);
                let reason = whole(delta.stop_reason);
                if !reason.is_empty() {
                    if reason == "error" {
                        self.answer.fail(reason, out);
                    } else {
                        self.answer.finish(finish(&reason), out);
                    }
                    self.answer.calls.close_whole(out);
                }
            }
            "message_stop" => return self.answer.mark(out),
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: Option<u64>, block: &BlockStart<'_>, out: &mut Vec<ModelEvent>) {
        let kind = whole(block.kind);
        // One that doesn't say what it is: its pieces will.
        if kind.is_empty() {
            return;
        }
        self.answer.end_block(out);
        self.answer.step();
        self.current = Current { index, ignored: false };
        match kind.as_str() {
            "text" => self.add(Kind::Text, block.text, out),
            "thinking" => {
                self.add(Kind::Reasoning, block.thinking, out);
                self.sign(block.signature, out);
            }
            "redacted_thinking" => {
                self.answer.begin(Kind::Reasoning, None, out);
                self.answer.note(VENDOR, "redactedData", whole(block.data));
                self.answer.end_block(out);
            }
            "tool_use" => {
                self.answer.begun = true;
                self.answer.calls.close_whole(out);
                let given = block.input.filter(|raw| !matches!(raw.get(), "{}" | "null" | "\"\""));
                let key = Key { index, given: given.is_some() };
                let at = self.answer.calls.begin(key, &whole(block.id), &self.ids);
                if let Some((_, call)) = self.answer.calls.get_mut(at) {
                    call.name(&whole(block.name), out);
                    if let Some(raw) = given {
                        call.add(raw);
                    }
                }
            }
            _ => self.current.ignored = true,
        }
    }

    fn delta(&mut self, index: Option<u64>, delta: &Delta<'_>, out: &mut Vec<ModelEvent>) {
        if index.is_some() && index != self.current.index {
            self.answer.end_block(out);
            self.current = Current { index, ignored: false };
        }
        if self.current.ignored {
            if [delta.text, delta.thinking, delta.partial_json].into_iter().flatten().any(|raw| raw.get() != "\"\"") {
                self.answer.step();
            }
            return;
        }
        if let Some(raw) = delta.partial_json {
            self.arguments(index, raw, out);
        }
        self.add(Kind::Reasoning, delta.thinking, out);
        self.add(Kind::Text, delta.text, out);
        self.sign(delta.signature, out);
    }

    fn add(&mut self, kind: Kind, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        if let Some(raw) = raw {
            self.answer.add(kind, raw, out);
        }
    }

    /// Keeps the signature of the open thinking, which may have no text.
    fn sign(&mut self, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let signature = whole(raw);
        if signature.is_empty() {
            return;
        }
        if self.answer.open_kind() != Some(Kind::Reasoning) {
            self.answer.begin(Kind::Reasoning, None, out);
        }
        self.answer.step();
        self.answer.note(VENDOR, "signature", signature);
    }

    fn arguments(&mut self, index: Option<u64>, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        let calls = &mut self.answer.calls;
        let at = calls
            .newest(|key, call| !call.is_closed() && (index.is_none() || key.index == index))
            // A call whose start was lost: it breaks for want of a name, and the model is told.
            .or_else(|| (raw.get() != "\"\"").then(|| calls.begin(Key { index, given: false }, "", &self.ids)));
        let Some((key, call)) = at.and_then(|at| self.answer.calls.get_mut(at)) else { return };
        if std::mem::take(&mut key.given) && raw.get() != "\"\"" {
            call.replace(raw);
        } else {
            call.add(raw);
        }
        self.answer.begun = true;
        self.answer.end_block(out);
    }

    fn stop(&mut self, index: Option<u64>, out: &mut Vec<ModelEvent>) {
        if index.is_none() || index == self.current.index {
            self.answer.end_block(out);
        }
        let ended = |key: &Key| index.is_none() || key.index == index;
        if let Some(at) = self.answer.calls.newest(|key, call| !call.is_closed() && ended(key))
            && let Some((_, call)) = self.answer.calls.get_mut(at)
        {
            call.close(out);
        }
    }

    /// Takes counts. They are those of the whole answer so far; a later zero for what was counted is no count.
    fn count(&mut self, raw: Option<&RawValue>) {
        let usage: Usage<'_> = read(raw);
        let known = self.answer.usage;
        let most = |known: u64, raw: Option<&RawValue>| known.max(number(raw).unwrap_or(0));
        let (input, output) = (most(known.input, usage.input_tokens), most(known.output, usage.output_tokens));
        let read = most(known.cache.read, usage.cache_read_input_tokens);
        let write = most(known.cache.write, usage.cache_creation_input_tokens);
        let total = [input, output, read, write].into_iter().fold(0, u64::saturating_add);
        let total = (total > 0).then_some(total);
        self.answer.usage = Tokens { total, input, output, reasoning: 0, cache: CacheTokens { read, write } };
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.answer.hear(event)? {
            Heard::Nothing => Ok(()),
            Heard::Done => self.answer.mark(out),
            Heard::Json(data) => self.take(&event.event, data, out),
        }
    }

    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.answer.end(clean, out)
    }

    fn progress(&self) -> Progress {
        self.answer.progress()
    }
}

/// Source: <https://docs.anthropic.com/en/docs/build-with-claude/handling-stop-reasons>.
fn finish(reason: &str) -> FinishReason {
    match reason {
        "end_turn" | "stop_sequence" | "pause_turn" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}
