//! The answer's events to [`ModelEvent`]s.

use protocol::JsonMap;
use protocol::message::{CacheTokens, Tokens};
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use super::wire::{AnswerItem, AnswerPart, Event, Incomplete, Usage, UsageDetails, Whole};
use crate::IdSource;
use crate::answer::{Answer, Heard, Kind, is_something, note, unreadable};
use crate::call::{Call, argument_text};
use crate::decode::{Decode, Progress};
use crate::error::ProviderError;
use crate::text::{Pieces, elements, number, read, whole};

/// Decodes one answer. It is over with `response.completed` or `response.incomplete`, or with the stream.
///
/// Items follow each other. An item that was not streamed is read from its end, and an answer of which nothing was
/// streamed from its own end.
pub(crate) struct Decoder {
    ids: IdSource,
    /// Under which name data is kept with parts.
    vendor: &'static str,
    answer: Answer<Place>,
    /// The open item.
    item: Item,
    /// Places of items that were given, so that one that is sent again is known.
    given: Vec<Place>,
    /// Places of items of which something was given in pieces.
    streamed: Vec<Place>,
    has_text: bool,
}

/// Added to the places of items that only the end of the answer has.
const LATE: u64 = 1 << 32;

/// Which item it is. Copilot gives one item a new id in each event, others leave out the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    index: Option<u64>,
    id: String,
}

#[derive(Default)]
struct Item {
    place: Place,
    /// Of the text, for its start.
    metadata: Option<JsonMap>,
    /// Something of it came.
    streamed: bool,
}

impl Place {
    fn is(&self, other: &Self) -> bool {
        match (self.index, other.index) {
            (Some(one), Some(two)) => one == two,
            _ => !self.id.is_empty() && self.id == other.id,
        }
    }
}

impl Decoder {
    pub(super) fn new(ids: IdSource, vendor: &'static str) -> Self {
        Self {
            ids,
            vendor,
            answer: Answer::default(),
            item: Item::default(),
            given: Vec::new(),
            streamed: Vec::new(),
            has_text: false,
        }
    }

    fn take(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| unreadable(data, &error))?;
        let kind = whole(event.kind);
        let kind = if kind.is_empty() { name } else { &kind };
        let place = Place { index: number(event.output_index), id: whole(event.item_id) };
        match kind {
            "response.output_item.added" => self.added(place, &read(event.item), out),
            "response.output_item.done" => self.done(place, &read(event.item), out),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.said(Kind::Text, &place, event.delta, out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.said(Kind::Reasoning, &place, event.delta, out);
            }
            // Where a server gives a text at its end alone.
            "response.output_text.done" => self.said_whole(Kind::Text, place, event.text, out),
            "response.refusal.done" => self.said_whole(Kind::Text, place, event.refusal, out),
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
                self.said_whole(Kind::Reasoning, place, event.text, out);
            }
            "response.reasoning_summary_part.added" => self.end_thought(out),
            "response.function_call_arguments.delta" => self.arguments(&place, event.delta, false),
            "response.function_call_arguments.done" => self.arguments(&place, event.arguments, true),
            "response.completed" | "response.done" | "response.incomplete" => {
                let response: Whole<'_> = read(event.response);
                let status = whole(response.status);
                if status == "failed" || response.error.is_some_and(is_something) {
                    return Err(failed(data, &event));
                }
                let is_whole = kind != "response.incomplete" && status != "incomplete";
                return self.over(&response, is_whole, out);
            }
            "response.failed" | "error" => return Err(failed(data, &event)),
            _ if event.error.is_some_and(is_something) => return Err(failed(data, &event)),
            "response.created" | "response.in_progress" | "response.queued" => {}
            // Work of the vendor's own tools.
            _ if kind.starts_with("response.") => self.answer.step(),
            _ => {}
        }
        Ok(())
    }

    fn added(&mut self, mut place: Place, item: &AnswerItem<'_>, out: &mut Vec<ModelEvent>) {
        self.answer.end_block(out);
        self.answer.step();
        if place.id.is_empty() {
            place.id = whole(item.id);
        }
        let kind = whole(item.kind);
        self.item = Item { place: place.clone(), metadata: None, streamed: false };
        match kind.as_str() {
            "message" => self.item.metadata = self.text_data(item),
            "function_call" => self.call(place, item, out),
            _ => {}
        }
    }

    fn text_data(&self, item: &AnswerItem<'_>) -> Option<JsonMap> {
        let mut metadata = None;
        for (name, value) in [("itemId", whole(item.id)), ("phase", whole(item.phase))] {
            if !value.is_empty() {
                note(&mut metadata, self.vendor, name, value);
            }
        }
        metadata
    }

    /// A call begins, with some or none of its arguments.
    fn call(&mut self, place: Place, item: &AnswerItem<'_>, out: &mut Vec<ModelEvent>) {
        self.answer.begun = true;
        self.answer.calls.close_whole(out);
        let id = whole(item.id);
        let at = self.answer.calls.begin(place, &whole(item.call_id), &self.ids);
        if let Some((_, call)) = self.answer.calls.get_mut(at) {
            call.name(&whole(item.name), out);
            if !id.is_empty() {
                note(&mut call.metadata, self.vendor, "itemId", id);
            }
            if let Some(raw) = item.arguments {
                call.add(raw);
            }
        }
    }

    /// More of a text or of thinking.
    fn said(&mut self, kind: Kind, place: &Place, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let Some(raw) = raw.filter(|raw| raw.get().starts_with('"') && raw.get() != "\"\"") else { return };
        let known = place.index.is_some() || !place.id.is_empty();
        if known && !self.item.place.is(place) {
            self.answer.end_block(out);
            self.item = Item { place: place.clone(), metadata: None, streamed: false };
        }
        if !std::mem::replace(&mut self.item.streamed, true) {
            self.streamed.push(self.item.place.clone());
        }
        self.has_text |= kind == Kind::Text;
        if self.answer.open_kind() != Some(kind) {
            let metadata = self.item.metadata.clone().filter(|_| kind == Kind::Text);
            self.answer.begin(kind, metadata, out);
        }
        self.answer.add(kind, raw, out);
    }

    /// A text or thinking, whole; nothing where it came in pieces before.
    fn said_whole(&mut self, kind: Kind, place: Place, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let among = |places: &[Place]| places.iter().any(|other| other.is(&place));
        let by_index = place.index.is_some() && self.item.place.index.is_some();
        let heard = among(&self.streamed) || among(&self.given) || !by_index && self.item.streamed;
        if !heard {
            self.said(kind, &place, raw, out);
        }
    }

    /// A part of thinking ends and its item goes on: the parts share its id.
    fn end_thought(&mut self, out: &mut Vec<ModelEvent>) {
        if self.answer.open_kind() == Some(Kind::Reasoning) {
            self.answer.note(self.vendor, "itemId", self.item.place.id.clone());
            self.answer.end_block(out);
        }
    }

    fn arguments(&mut self, place: &Place, raw: Option<&RawValue>, whole: bool) {
        let Some(raw) = raw else { return };
        let calls = &mut self.answer.calls;
        let open = calls.newest(|known, call| !call.is_closed() && known.is(place));
        let unknown = place.index.is_none() && place.id.is_empty();
        let at = open.or_else(|| calls.newest(|_, call| !call.is_closed()).filter(|_| unknown));
        if let Some((_, call)) = at.and_then(|at| calls.get_mut(at)) {
            if whole { call.replace(raw) } else { call.add(raw) }
        }
    }

    fn done(&mut self, mut place: Place, item: &AnswerItem<'_>, out: &mut Vec<ModelEvent>) {
        if place.id.is_empty() {
            place.id = whole(item.id);
        }
        if self.given.iter().any(|given| given.is(&place)) {
            return;
        }
        let is_open = self.item.place.is(&place);
        let kind = whole(item.kind);
        match kind.as_str() {
            "message" => {
                if !(is_open && self.item.streamed) {
                    self.added(place.clone(), item, out);
                    self.parts(Kind::Text, item.content, out);
                }
                self.answer.begun = true;
                self.answer.end_block(out);
            }
            "reasoning" => self.thought(is_open, &place, item, out),
            "function_call" => {
                self.answer.end_block(out);
                let known = self.answer.calls.newest(|known, _| known.is(&place));
                if known.is_none() {
                    self.call(place.clone(), item, out);
                }
                let at = self.answer.calls.newest(|known, call| !call.is_closed() && known.is(&place));
                if let Some((_, call)) = at.and_then(|at| self.answer.calls.get_mut(at)) {
                    if let Some(raw) = item.arguments {
                        call.replace(raw);
                    }
                    call.name(&whole(item.name), out);
                    call.close(out);
                }
            }
            _ => {}
        }
        self.given.push(place);
        self.item = Item::default();
    }

    /// Thinking ends, with what stands for it when it goes back. It may have no text at all.
    fn thought(&mut self, is_open: bool, place: &Place, item: &AnswerItem<'_>, out: &mut Vec<ModelEvent>) {
        let encrypted = whole(item.encrypted_content);
        let streamed = is_open && self.item.streamed;
        if !streamed {
            self.answer.end_block(out);
            self.item = Item { place: place.clone(), metadata: None, streamed: false };
            self.parts(Kind::Reasoning, item.summary, out);
        }
        if self.answer.open_kind() != Some(Kind::Reasoning) {
            if encrypted.is_empty() {
                return;
            }
            self.answer.begin(Kind::Reasoning, None, out);
        }
        // The newest id is the one the encrypted content belongs to.
        let id = whole(item.id);
        let id = if id.is_empty() || streamed { self.item.place.id.clone() } else { id };
        if !id.is_empty() {
            self.answer.note(self.vendor, "itemId", id);
        }
        if !encrypted.is_empty() {
            self.answer.note(self.vendor, "reasoningEncryptedContent", encrypted);
        }
        self.answer.end_block(out);
    }

    /// Text of an item that was not streamed.
    fn parts(&mut self, kind: Kind, raw: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        let parts = elements(raw);
        let place = self.item.place.clone();
        for part in parts {
            let part: AnswerPart<'_> = read(Some(part));
            if kind == Kind::Reasoning {
                self.end_thought(out);
            }
            self.said(kind, &place, part.text.or(part.refusal), out);
        }
    }

    /// The answer is over.
    fn over(&mut self, response: &Whole<'_>, is_whole: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let items = elements(response.output);
        let (begun, had_text) = (self.answer.begun, self.has_text);
        for (at, item) in items.iter().enumerate() {
            let item: AnswerItem<'_> = read(Some(item));
            if !begun {
                self.done(Place { index: Some(at as u64), id: String::new() }, &item, out);
                continue;
            }
            // Of an answer that was streamed the list may lack items and give others a new id: neither place nor id
            // tells whether an item was heard.
            let is_new = match whole(item.kind).as_str() {
                "message" => !had_text,
                "function_call" => !self.knows_call(&item),
                _ => false,
            };
            if is_new {
                self.done(Place { index: Some(LATE + at as u64), id: String::new() }, &item, out);
            }
        }
        self.count(response.usage);
        let details: Incomplete<'_> = read(response.incomplete_details);
        let reason = if is_whole { FinishReason::Stop } else { incomplete(&whole(details.reason)) };
        // A call whose end was lost counts: the answer is whole.
        self.answer.finish(reason, out);
        self.answer.mark(out)
    }

    /// Returns whether a call of the whole answer was heard before: under its id, or the same under another.
    fn knows_call(&self, item: &AnswerItem<'_>) -> bool {
        let (id, tool) = (whole(item.call_id), whole(item.name));
        let arguments = item.arguments.map(|raw| argument_text(&mut Pieces::default(), raw)).unwrap_or_default();
        let same = |call: &Call| {
            !id.is_empty() && call.id.as_str() == id
                || call.tool == tool && (call.arguments() == arguments || !call.is_closed())
        };
        self.answer.calls.newest(|_, call| same(call)).is_some()
    }

    fn count(&mut self, raw: Option<&RawValue>) {
        let usage: Usage<'_> = read(raw);
        let read_details: UsageDetails<'_> = read(usage.input_tokens_details);
        let written_details: UsageDetails<'_> = read(usage.output_tokens_details);
        let count = |raw| number(raw).unwrap_or(0);
        let (cached, written) = (count(read_details.cached_tokens), count(read_details.cache_write_tokens));
        let reasoning = count(written_details.reasoning_tokens);
        self.answer.usage = Tokens {
            total: number(usage.total_tokens),
            input: count(usage.input_tokens).saturating_sub(cached).saturating_sub(written),
            output: count(usage.output_tokens).saturating_sub(reasoning),
            reasoning,
            cache: CacheTokens { read: cached, write: written },
        };
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

/// The error object is in the event, or in its response, or is the event itself.
fn failed(data: &str, event: &Event<'_>) -> ProviderError {
    let response: Whole<'_> = read(event.response);
    match response.error.filter(|error| is_something(error)) {
        Some(error) => ProviderError::in_stream(&format!("{{\"error\":{}}}", error.get())),
        None => ProviderError::in_stream(data),
    }
}

fn incomplete(reason: &str) -> FinishReason {
    match reason {
        "max_output_tokens" | "max_tokens" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Unknown,
    }
}
