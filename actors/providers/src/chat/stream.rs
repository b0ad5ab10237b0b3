//! The answer's events to [`ModelEvent`]s.

use protocol::JsonMap;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::calls::{self, Key};
use super::vendor_data::VendorData;
use super::wire::{CallDelta, Choice, Chunk, Delta, Usage};
use crate::IdSource;
use crate::answer::{Answer, Heard, Kind, is_something, unreadable};
use crate::decode::{Decode, Progress};
use crate::error::ProviderError;
use crate::lenient::lenient;
use crate::text::{number, whole};

/// Decodes one answer. It is over with `[DONE]`, or with the stream.
pub(crate) struct Decoder {
    ids: IdSource,
    answer: Answer<Key>,
    /// Pieces so far.
    chunks: u64,
    choices: Choices,
    /// Under which name the vendor's data is kept.
    vendor: &'static str,
    data: VendorData,
}

impl Decoder {
    pub(super) fn new(ids: IdSource, vendor: &'static str) -> Self {
        Self {
            ids,
            answer: Answer::default(),
            chunks: 0,
            choices: Choices::default(),
            vendor,
            data: VendorData::default(),
        }
    }

    fn take(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        self.chunks += 1;
        let groq = chunk.x_groq.unwrap_or_default();
        let failed = chunk.error.or(groq.error).is_some_and(is_something);
        if failed || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            return Err(ProviderError::in_stream(data));
        }
        let inner = chunk.choices.iter().map(|choice| choice.usage.as_ref());
        let usage = [chunk.usage.as_ref(), groq.usage.as_ref()].into_iter().chain(inner).flatten();
        // An empty object or zeros don't replace counts that came before.
        let nothing = |tokens: &Tokens| Tokens { total: None, ..*tokens } == Tokens::default();
        if let Some(tokens) = usage.map(Usage::tokens).find(|tokens| !nothing(tokens)) {
            self.answer.usage = tokens;
        }
        let mut choices = chunk.choices;
        choices.sort_by_key(Choice::index);
        if !self.choices.begin(&choices, data) {
            self.answer.step();
            return Ok(());
        }
        choices.iter().try_for_each(|choice| match self.choices.is_other(choice) {
            true => Ok(()),
            false => self.take_choice(choice, data, out),
        })
    }

    /// Takes what was put off, where nothing came that goes before it.
    fn catch_up(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.choices.begun = true;
        let early = std::mem::take(&mut self.choices.early);
        early.iter().try_for_each(|(_, data)| self.take(data, out))
    }

    fn take_choice(&mut self, choice: &Choice<'_>, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if choice.error.is_some_and(is_something) {
            return Err(ProviderError::in_stream(choice.error.map_or(data, RawValue::get)));
        }
        if let Some(delta) = choice.delta.as_ref().or(choice.message.as_ref()) {
            self.take_delta(delta, out);
        } else if let Some(raw) = choice.text {
            self.text(raw, out);
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
        if let Some(raw) = delta.reasoning_details
            && self.data.take_details(raw)
        {
            self.answer.step();
        }
        if let Some(raw) = delta.reasoning_opaque
            && self.data.take_opaque(raw)
        {
            self.answer.step();
        }
        let named = [delta.reasoning_content, delta.reasoning, delta.reasoning_text];
        match named.into_iter().flatten().find(|raw| raw.get() != "\"\"") {
            Some(raw) => self.answer.add(Kind::Reasoning, raw, out),
            None => self.details(delta.reasoning_details, out),
        }
        let said = delta.content.filter(|raw| !matches!(raw.get(), "\"\"" | "[]"));
        if let Some(raw) = said.or(delta.refusal) {
            if raw.get().starts_with(['[', '{']) { self.parts(raw, out) } else { self.text(raw, out) }
        }
        for call in &delta.tool_calls {
            self.take_call(call, out);
        }
        if delta.tool_calls.is_empty()
            && let Some(function) = &delta.function_call
        {
            self.take_call(&CallDelta { function: Some(*function), ..CallDelta::default() }, out);
        }
        if !self.data.is_empty()
            && let Some((_, call)) =
                self.answer.calls.newest(|_, call| !call.is_closed()).and_then(|at| self.answer.calls.get_mut(at))
        {
            call.metadata.get_or_insert_default().extend(self.data.give(self.vendor));
        }
    }

    fn take_call(&mut self, call: &CallDelta<'_>, out: &mut Vec<ModelEvent>) {
        self.settle(out);
        self.answer.begun = true;
        self.answer.end_block(out);
        calls::take(&mut self.answer.calls, call, self.chunks, &self.ids, out);
    }

    fn text(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        if raw.get() != "\"\"" && raw.get().starts_with('"') {
            self.settle(out);
            self.answer.add(Kind::Text, raw, out);
        }
    }

    /// Thinking that comes in OpenRouter's details alone.
    fn details(&mut self, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let details: Vec<Part<'_>> = raw.and_then(|raw| lenient(raw).ok()).unwrap_or_default();
        for text in details.iter().filter_map(|detail| detail.text.or(detail.summary)) {
            self.answer.add(Kind::Reasoning, text, out);
        }
    }

    /// Content as a list of parts, as Mistral's thinking models send it.
    fn parts(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        for part in Part::all(Some(raw)) {
            if let Some(text) = part.text {
                self.text(text, out);
            }
            for text in Part::all(part.thinking).iter().filter_map(|thought| thought.text) {
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
        match self.answer.hear(event)? {
            Heard::Nothing => Ok(()),
            Heard::Done => {
                self.catch_up(out)?;
                self.settle(out);
                self.answer.mark(out)
            }
            Heard::Json(data) => self.take(data, out),
        }
    }

    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.catch_up(out)?;
        self.settle(out);
        self.answer.end(clean, out)
    }

    fn progress(&self) -> Progress {
        self.answer.progress()
    }
}

/// Which of the choices are the answer. By the vendor's documents the one with index 0 is, and others are other answers,
/// which nobody asked for. In the field there are servers that count from 1, and some versions of LiteLLM gave thinking, text and
/// each call of one answer an index of its own, so a choice is another answer only if both have text.
#[derive(Default)]
struct Choices {
    /// One with index 0 came.
    begun: bool,
    /// What came before it: index and data.
    early: Vec<(u64, String)>,
    /// Which has the text.
    text: Option<u64>,
    others: Vec<u64>,
}

impl Choices {
    /// Returns whether choices are to be read now. Those before the first with index 0 are not, and are other answers if
    /// one comes.
    fn begin(&mut self, choices: &[Choice<'_>], data: &str) -> bool {
        let Some(first) = choices.first().filter(|_| !self.begun) else { return true };
        self.begun = first.index() == 0;
        if self.begun {
            self.others.extend(self.early.drain(..).map(|(index, _)| index));
        } else {
            self.early.push((first.index(), data.to_owned()));
        }
        self.begun
    }

    fn is_other(&mut self, choice: &Choice<'_>) -> bool {
        let index = choice.index();
        let known = self.others.contains(&index);
        if !known && choice.has_text() && *self.text.get_or_insert(index) != index {
            self.others.push(index);
            return true;
        }
        known
    }
}

impl Choice<'_> {
    /// Missing, it is 0.
    fn index(&self) -> u64 {
        number(self.index).unwrap_or(0)
    }

    fn has_text(&self) -> bool {
        let said = self
            .delta
            .as_ref()
            .or(self.message.as_ref())
            .map_or([self.text, None], |delta| [delta.content, delta.refusal]);
        said.into_iter().flatten().any(|raw| !matches!(raw.get(), "\"\"" | "null" | "[]"))
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

impl<'a> Part<'a> {
    /// Returns the parts of a list; one may be a bare text, and one that is alone in no list.
    fn all(raw: Option<&'a RawValue>) -> Vec<Self> {
        let Some(raw) = raw else { return Vec::new() };
        let one = |raw: &'a RawValue| match raw.get().starts_with('"') {
            true => Some(Self { text: Some(raw), summary: None, thinking: None }),
            false => lenient(raw).unwrap_or_default(),
        };
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(parts) => parts.into_iter().filter_map(one).collect(),
            Err(_) => one(raw).into_iter().collect(),
        }
    }
}

impl Usage<'_> {
    /// Returns the counts without overlap: the vendor counts cached tokens among the read ones and thinking among the
    /// written ones.
    fn tokens(&self) -> Tokens {
        let count = |raw: Option<&RawValue>| number(raw).unwrap_or(0);
        let (prompt, written) = (
            self.prompt_tokens_details.as_ref().or(self.input_tokens_details.as_ref()),
            self.completion_tokens_details.as_ref().or(self.output_tokens_details.as_ref()),
        );
        let cached = prompt.and_then(|details| details.cached_tokens);
        let read = count(cached.or(self.prompt_cache_hit_tokens).or(self.cached_tokens));
        let write = count(prompt.and_then(|details| details.cache_write_tokens));
        let reasoning = count(written.and_then(|details| details.reasoning_tokens));
        let input = count(self.prompt_tokens.or(self.input_tokens));
        let output = count(self.completion_tokens.or(self.output_tokens));
        let total = self.total_tokens.map(|total| count(Some(total)));
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
