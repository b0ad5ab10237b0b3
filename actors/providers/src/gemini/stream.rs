//! The answer's events to [`ModelEvent`]s.

use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::contents::VENDOR;
use super::wire::{AnswerPart, Called, Candidate, Chunk, Feedback, Said, Usage};
use crate::IdSource;
use crate::answer::{Answer, Heard, Kind, is_something, note, unreadable};
use crate::decode::{Decode, Progress};
use crate::error::{ErrorClass, ProviderError};
use crate::text::{elements, number, read, whole};

/// Decodes one answer. It has no mark of its end: it is over with the stream.
pub(crate) struct Decoder {
    ids: IdSource,
    answer: Answer<Key>,
    /// Which of the candidates is read, where there are several: the lowest index the answer begins with.
    candidate: Option<u64>,
}

/// What a call is told by, to know one that is sent again.
struct Key {
    vendor_id: String,
    arguments: String,
}

impl Decoder {
    pub(super) fn new(ids: IdSource) -> Self {
        Self { ids, answer: Answer::default(), candidate: None }
    }

    fn take(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        // Google's server for its own tools has each piece in an object.
        let inner = chunk.response.filter(|raw| chunk.candidates.is_none() && raw.get().starts_with('{'));
        let (data, chunk) = match inner.and_then(|raw| Some((raw.get(), serde_json::from_str(raw.get()).ok()?))) {
            Some(inner) => inner,
            None => (data, chunk),
        };
        if chunk.error.is_some_and(is_something) {
            return Err(ProviderError::in_stream(data));
        }
        self.count(chunk.usage_metadata);
        let candidates = elements(chunk.candidates);
        let candidates: Vec<Candidate<'_>> = candidates.into_iter().map(|raw| read(Some(raw))).collect();
        let index = |candidate: &Candidate<'_>| number(candidate.index).unwrap_or(0);
        let Some(first) = candidates.iter().map(index).min() else { return blocked(&read(chunk.prompt_feedback)) };
        let chosen = *self.candidate.get_or_insert(first);
        candidates.iter().filter(|candidate| index(candidate) == chosen).for_each(|candidate| {
            self.take_candidate(candidate, out);
        });
        Ok(())
    }

    fn take_candidate(&mut self, candidate: &Candidate<'_>, out: &mut Vec<ModelEvent>) {
        let said: Said<'_> = read(candidate.content);
        let parts = elements(said.parts);
        for raw in parts {
            let part: AnswerPart<'_> = read(Some(raw));
            // Files, programs and what they said: nobody asked for them, but they are no silence.
            if part.text.is_none() && raw.get().starts_with('{') && raw.get() != "{}" {
                self.answer.step();
            }
            self.part(&part, out);
        }
        let reason = whole(candidate.finish_reason);
        if reason.is_empty() || reason == "FINISH_REASON_UNSPECIFIED" {
            return;
        }
        match finish(&reason) {
            Some(known) => self.answer.finish(known, out),
            None => {
                let message = whole(candidate.finish_message);
                let said = if message.is_empty() { reason } else { format!("{reason}: {message}") };
                self.answer.fail(said, out);
            }
        }
    }

    fn part(&mut self, part: &AnswerPart<'_>, out: &mut Vec<ModelEvent>) {
        let signature = whole(part.thought_signature);
        if let Some(raw) = part.function_call {
            self.call(&read(Some(raw)), signature, out);
            return;
        }
        let is_thought = part.thought.is_some_and(|raw| raw.get() == "true");
        let kind = if is_thought { Kind::Reasoning } else { Kind::Text };
        if let Some(raw) = part.text {
            self.answer.add(kind, raw, out);
        }
        // It may come behind the text, with an empty one.
        if !signature.is_empty() {
            self.answer.step();
            self.answer.note(VENDOR, "thoughtSignature", signature);
        }
    }

    fn call(&mut self, called: &Called<'_>, signature: String, out: &mut Vec<ModelEvent>) {
        let (vendor_id, name) = (whole(called.id), whole(called.name));
        let arguments = called.args.map_or("{}", RawValue::get).to_owned();
        let again = self.answer.calls.newest(|key, call| {
            !vendor_id.is_empty() && key.vendor_id == vendor_id && key.arguments == arguments && call.tool == name
        });
        if again.is_some() {
            return;
        }
        self.answer.begun = true;
        self.answer.end_block(out);
        let key = Key { vendor_id: vendor_id.clone(), arguments };
        let at = self.answer.calls.begin(key, &vendor_id, &self.ids);
        let Some((_, call)) = self.answer.calls.get_mut(at) else { return };
        call.name(&name, out);
        if !signature.is_empty() {
            note(&mut call.metadata, VENDOR, "thoughtSignature", signature);
        }
        if !vendor_id.is_empty() {
            note(&mut call.metadata, VENDOR, "callId", vendor_id);
        }
        if let Some(raw) = called.args {
            call.add(raw);
        }
        call.close(out);
    }

    /// Takes counts; the last ones that say something count.
    fn count(&mut self, raw: Option<&RawValue>) {
        let usage: Usage<'_> = read(raw);
        let count = |raw| number(raw).unwrap_or(0);
        let prompt = count(usage.prompt_token_count).saturating_add(count(usage.tool_use_prompt_token_count));
        let cached = count(usage.cached_content_token_count);
        let tokens = Tokens {
            total: number(usage.total_token_count),
            input: prompt.saturating_sub(cached),
            output: count(usage.candidates_token_count),
            reasoning: count(usage.thoughts_token_count),
            cache: CacheTokens { read: cached, write: 0 },
        };
        if (Tokens { total: None, ..tokens }) != Tokens::default() {
            self.answer.usage = tokens;
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

/// The vendor's filter refused the request.
fn blocked(feedback: &Feedback<'_>) -> Result<(), ProviderError> {
    let reason = whole(feedback.block_reason);
    if reason.is_empty() {
        return Ok(());
    }
    let message = whole(feedback.block_reason_message);
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    let text = format!("the vendor's filter refused the request ({reason}{message})");
    Err(ProviderError::new(ErrorClass::ContentFilter, text))
}

/// Returns none for a reason that says that the answer is broken.
/// Source: <https://ai.google.dev/api/generate-content#FinishReason>.
fn finish(reason: &str) -> Option<FinishReason> {
    Some(match reason {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "LANGUAGE"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => FinishReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" | "MISSING_THOUGHT_SIGNATURE" => {
            return None;
        }
        _ => FinishReason::Unknown,
    })
}
