//! The answer's events to [`ModelEvent`]s.

use protocol::JsonMap;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::calls::{self, Key};
use super::vendor_data::VendorData;
use super::wire::{Choice, Chunk, Delta, Usage};
use crate::IdSource;
use crate::answer::{Answer, Kind, is_something, unreadable};
use crate::decode::Decode;
use crate::error::ProviderError;
use crate::text::whole;

/// Decodes one answer. It is over with `[DONE]`, or with the stream.
pub(crate) struct Decoder {
    ids: IdSource,
    answer: Answer<Key>,
    /// Pieces so far.
    chunks: u64,
    usage: Usage,
    /// Under which name the vendor's data is kept.
    vendor: &'static str,
    data: VendorData,
}

impl Decoder {
    pub(super) fn new(ids: IdSource, vendor: &'static str) -> Self {
        Self { ids, answer: Answer::default(), chunks: 0, usage: Usage::default(), vendor, data: VendorData::default() }
    }

    /// Takes the data of one event. After `[DONE]` nothing counts.
    pub(super) fn take(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let data = data.trim();
        if self.answer.is_done() || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.settle(out);
            return self.answer.mark(out);
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        self.chunks += 1;
        let groq = chunk.x_groq.unwrap_or_default();
        let failed = chunk.error.or(groq.error).is_some_and(is_something);
        if failed || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(ProviderError::in_stream(data));
        }
        // An empty object or zeros don't replace counts that came before.
        let usage = [chunk.usage, groq.usage].into_iter().flatten();
        let usage =
            usage.filter_map(|raw| serde_json::from_str::<Usage>(raw.get()).ok()).find(|usage| !usage.is_empty());
        if let Some(usage) = usage {
            self.usage = usage;
            self.answer.usage = usage.tokens();
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
            self.settle(out);
            if reason == "error" {
                self.answer.fail(reason, out)
            } else {
                self.answer.finish(finish(&reason), out)
            }
            self.answer.calls.close_whole(out);
        }
        Ok(())
    }

    fn take_delta(&mut self, delta: &Delta<'_>, out: &mut Vec<ModelEvent>) {
        if let Some(raw) = delta.reasoning_details {
            self.data.take_details(raw);
        }
        if let Some(raw) = delta.reasoning_opaque {
            self.data.take_opaque(raw);
        }
        let named = [delta.reasoning_content, delta.reasoning, delta.reasoning_text];
        match named.into_iter().flatten().find(|raw| raw.get() != "\"\"") {
            Some(raw) => self.answer.add(Kind::Reasoning, raw, out),
            None => self.details(delta.reasoning_details, out),
        }
        if let Some(raw) = delta.content.or(delta.refusal) {
            if raw.get().starts_with('[') { self.parts(raw, out) } else { self.text(raw, out) }
        }
        for call in delta.tool_calls.iter().flatten() {
            self.settle(out);
            self.answer.begun = true;
            self.answer.end_block(out);
            calls::take(&mut self.answer.calls, call, self.chunks, &self.ids, out);
        }
        if !self.data.is_empty()
            && let Some((_, call)) =
                self.answer.calls.newest(|_, call| !call.is_closed()).and_then(|at| self.answer.calls.get_mut(at))
        {
            call.metadata.get_or_insert_default().extend(self.data.give(self.vendor));
        }
    }

    fn text(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        if raw.get() != "\"\"" && raw.get().starts_with('"') {
            self.settle(out);
            self.answer.add(Kind::Text, raw, out);
        }
    }

    /// Thinking that comes in OpenRouter's details alone.
    fn details(&mut self, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let details: Vec<Part<'_>> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        for text in details.iter().filter_map(|detail| detail.text.or(detail.summary)) {
            self.answer.add(Kind::Reasoning, text, out);
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
                self.answer.add(Kind::Reasoning, text, out);
            }
        }
    }

    /// Gives the vendor's data to the thinking that is about to end.
    fn settle(&mut self, out: &mut Vec<ModelEvent>) {
        if self.data.is_empty() {
            return;
        }
        if self.answer.open_kind() == Some(Kind::Reasoning) {
            let data = self.data.give(self.vendor);
            self.answer.keep(data);
        } else if self.answer.calls.is_empty() && self.answer.open_kind().is_none() {
            let data: JsonMap = self.data.give(self.vendor);
            self.answer.begin(Kind::Reasoning, None, out);
            self.answer.keep(data);
        }
    }
}

impl Decode for Decoder {
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if event.event == "error" && !self.answer.is_done() {
            return Err(ProviderError::in_stream(&event.data));
        }
        self.take(&event.data, out)
    }

    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.settle(out);
        self.answer.end(clean, out)
    }

    fn is_done(&self) -> bool {
        self.answer.is_done()
    }
}

/// A part of content that is a list.
#[derive(serde::Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
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
        "length" | "model_length" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}
