//! The answer's events to [`ModelEvent`]s.

use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::calls::{Calls, End};
use super::text::{Pieces, whole};
use super::wire::{Choice, Chunk, Delta, Usage};
use crate::IdSource;
use crate::decode::Decode;
use crate::error::{ErrorClass, ProviderError};

/// Decodes one answer.
///
/// An answer is whole when the vendor gave a finish reason, or ended it with `[DONE]`, or when calls came and the
/// arguments of all are whole; calls then count as the reason, whatever the vendor's was, but for a limit or a filter.
/// Anything less is an error to try again.
pub struct Decoder {
    ids: IdSource,
    block: Block,
    calls: Calls,
    /// Pieces so far.
    chunks: u64,
    /// Something of an answer came.
    begun: bool,
    finish: Option<FinishReason>,
    /// The vendor's finish reason was an error.
    failed: bool,
    usage: Usage,
    done: bool,
}

/// The open block.
enum Block {
    None,
    Text(Pieces),
    Reasoning(Pieces),
}

impl Decoder {
    /// Returns a decoder; `ids` names calls to which the vendor gives no id.
    pub fn new(ids: IdSource) -> Self {
        Self {
            ids,
            block: Block::None,
            calls: Calls::default(),
            chunks: 0,
            begun: false,
            finish: None,
            failed: false,
            usage: Usage::default(),
            done: false,
        }
    }

    /// Takes the data of one event and returns what it says. After `[DONE]` nothing counts.
    pub fn feed(&mut self, data: &str) -> Result<Vec<ModelEvent>, ProviderError> {
        let mut out = Vec::new();
        self.take(data, &mut out)?;
        Ok(out)
    }

    /// Takes the end of the stream and returns what is left, [`ModelEvent::Finish`] last. Errors when the answer isn't
    /// whole; `clean` says whether the server ended the stream or it was lost.
    pub fn end(&mut self, clean: bool) -> Result<Vec<ModelEvent>, ProviderError> {
        let mut out = Vec::new();
        Decode::end(self, clean, &mut out)?;
        Ok(out)
    }

    fn take(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let data = data.trim();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return self.close(true, "it is empty", out);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| {
            let start: String = data.chars().take(200).collect();
            ProviderError::new(ErrorClass::Unknown, format!("JSON parsing failed: {error}; text: {start}"))
        })?;
        self.chunks += 1;
        if chunk.error.is_some_and(is_something) || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(ProviderError::in_stream(data));
        }
        // An empty object or zeros don't replace counts that came before.
        let usage = chunk.usage.and_then(|raw| serde_json::from_str::<Usage>(raw.get()).ok());
        if let Some(usage) = usage.filter(|usage| !usage.is_empty()) {
            self.usage = usage;
        }
        match chunk.choices.as_ref().and_then(|choices| choices.first()) {
            Some(choice) => self.take_choice(choice, data, out),
            None => Ok(()),
        }
    }

    fn take_choice(&mut self, choice: &Choice<'_>, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if choice.error.is_some_and(is_something) {
            return Err(ProviderError::in_stream(choice.error.map_or(data, RawValue::get)));
        }
        if let Some(delta) = choice.delta.as_ref().or(choice.message.as_ref()) {
            self.take_delta(delta, out);
        }
        let reason = choice.finish_reason.map(|raw| whole(Some(raw))).filter(|reason| !reason.is_empty());
        if let Some(reason) = reason {
            self.begun = true;
            self.finish = Some(finish(&reason));
            self.failed = reason == "error";
            self.end_block(out);
            self.calls.close_whole(out);
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: &Delta<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(raw) = [delta.reasoning_content, delta.reasoning, delta.reasoning_text].into_iter().flatten().next()
        {
            self.reasoning(raw, out);
        }
        if let Some(raw) = delta.content.or(delta.refusal) {
            if raw.get().starts_with('[') { self.parts(raw, out) } else { self.text(raw, out) }
        }
        for call in delta.tool_calls.iter().flatten() {
            self.begun = true;
            self.end_block(out);
            self.calls.take(call, self.chunks, &self.ids, out);
        }
    }

    fn text(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        // Most servers begin with an empty one; it opens no block.
        if raw.get() == "\"\"" || !raw.get().starts_with('"') {
            return;
        }
        self.begun = true;
        if !matches!(self.block, Block::Text(_)) {
            self.end_block(out);
            self.block = Block::Text(Pieces::default());
            out.push(ModelEvent::TextStart);
        }
        if let Block::Text(pieces) = &mut self.block {
            let text = pieces.take(raw);
            if !text.is_empty() {
                out.push(ModelEvent::TextDelta(text));
            }
        }
    }

    fn reasoning(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        if raw.get() == "\"\"" || !raw.get().starts_with('"') {
            return;
        }
        self.begun = true;
        if !matches!(self.block, Block::Reasoning(_)) {
            self.end_block(out);
            self.block = Block::Reasoning(Pieces::default());
            out.push(ModelEvent::ReasoningStart);
        }
        if let Block::Reasoning(pieces) = &mut self.block {
            let text = pieces.take(raw);
            if !text.is_empty() {
                out.push(ModelEvent::ReasoningDelta(text));
            }
        }
    }

    /// Content as a list of parts, as Mistral's thinking models send it.
    fn parts(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        let parts: Vec<Part<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
        for part in parts {
            if let Some(text) = part.text {
                self.text(text, out);
            }
            let thinking = part.thinking.map(RawValue::get).unwrap_or_default();
            let thoughts: Vec<Part<'_>> = serde_json::from_str(thinking).unwrap_or_default();
            for text in thoughts.iter().filter_map(|thought| thought.text) {
                self.reasoning(text, out);
            }
        }
    }

    fn end_block(&mut self, out: &mut Vec<ModelEvent>) {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::None => {}
            Block::Text(_) => out.push(ModelEvent::TextEnd),
            Block::Reasoning(_) => out.push(ModelEvent::ReasoningEnd { metadata: None }),
        }
    }

    /// Gives what is left, or an error if the answer isn't whole. `how` says how it ended without a mark.
    fn close(&mut self, marked: bool, how: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let end = match self.finish {
            Some(_) => End::Finished,
            None if marked => End::Marked,
            None => End::Lost,
        };
        let called = !self.calls.is_empty();
        let lack = if !self.begun {
            Some(if marked { "it is empty" } else { how })
        } else if self.calls.break_off(end) {
            Some("it ended in the middle of a call")
        } else if self.failed && !called {
            Some("the vendor ended it with an error")
        } else if end == End::Lost && !called {
            Some(how)
        } else {
            None
        };
        if let Some(lack) = lack {
            return Err(ProviderError::new(ErrorClass::Retryable, format!("the model's answer isn't whole: {lack}")));
        }
        self.end_block(out);
        self.calls.close(out);
        let reason = match self.finish {
            None | Some(FinishReason::Stop | FinishReason::Unknown) if called => FinishReason::ToolCalls,
            reason => reason.unwrap_or(FinishReason::Unknown),
        };
        self.done = true;
        out.push(ModelEvent::Finish { reason, usage: self.usage.tokens() });
        Ok(())
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if event.event == "error" && !self.done {
            return Err(ProviderError::in_stream(&event.data));
        }
        self.take(&event.data, out)
    }

    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        let how = match (clean, self.begun) {
            (true, true) => "the stream ended without a finish reason",
            (true, false) => "it is empty",
            (false, _) => "the stream was cut",
        };
        self.close(false, how, out)
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// A part of content that is a list.
#[derive(serde::Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
}

impl Usage {
    fn is_empty(&self) -> bool {
        Tokens { total: None, ..self.tokens() } == Tokens::default()
    }

    /// Returns the counts without overlap: the vendor counts cached tokens among the read ones and thinking among the
    /// written ones.
    fn tokens(&self) -> Tokens {
        let count = |number: Option<f64>| number.filter(|number| *number > 0.0).map_or(0, |number| number as u64);
        let prompt = self.prompt_tokens_details.unwrap_or_default();
        let cached = prompt.cached_tokens.or(self.prompt_cache_hit_tokens).or(self.cached_tokens);
        let (read, write) = (count(cached), count(prompt.cache_write_tokens));
        let reasoning = count(self.completion_tokens_details.and_then(|details| details.reasoning_tokens));
        let (input, output) = (count(self.prompt_tokens), count(self.completion_tokens));
        let total = self.total_tokens.map(|_| count(self.total_tokens));
        // xAI counts thinking beside what is written; the total tells.
        let beside = reasoning > 0 && total == Some(input.saturating_add(output).saturating_add(reasoning));
        Tokens {
            total,
            input: input.saturating_sub(read).saturating_sub(write),
            output: if beside { output } else { output.saturating_sub(reasoning) },
            reasoning,
            cache: CacheTokens { read, write },
        }
    }
}

fn finish(reason: &str) -> FinishReason {
    match reason {
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}

/// Returns whether there is more than an empty value in an error field, which some servers send with each piece.
fn is_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "false" | "\"\"" | "{}" | "[]" | "0")
}
