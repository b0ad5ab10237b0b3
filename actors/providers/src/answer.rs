//! What the decoders of all vendors share: the open block, the calls, and the judgement whether an answer is whole.
//!
//! An answer is whole when the vendor gave a finish reason, or marked its end, or when calls came and the arguments of
//! all are whole; calls then count as the reason, whatever the vendor's was, but for a limit or a filter. Anything less
//! is an error to try again.

use protocol::JsonMap;
use protocol::message::Tokens;
use protocol::model::{FinishReason, ModelEvent};
use serde_json::value::RawValue;
use sse::SseEvent;

use crate::call::{Calls, End};
use crate::decode::{Progress, Stage};
use crate::error::{ErrorClass, ProviderError};
use crate::options;
use crate::text::Pieces;

/// An answer so far. `K` is what the vendor tells its calls by.
pub(crate) struct Answer<K> {
    block: Option<Block>,
    pub(crate) calls: Calls<K>,
    /// Something of an answer came.
    pub(crate) begun: bool,
    finish: Option<FinishReason>,
    /// The vendor's finish reason, where it is an error.
    failed: Option<String>,
    pub(crate) usage: Tokens,
    done: bool,
    /// Pieces so far, but for those of calls.
    steps: usize,
}

/// What an event of an answer says.
pub(crate) enum Heard<'a> {
    /// Nothing: it is a ping, has no data, or data that is no JSON object.
    Nothing,
    /// That the answer is over.
    Done,
    /// This, which begins as a JSON object does.
    Json(&'a str),
}

/// Names of events that only show that the server lives.
const PINGS: [&str; 4] = ["ping", "keepalive", "keep-alive", "heartbeat"];

/// The open block.
struct Block {
    kind: Kind,
    pieces: Pieces,
    /// Given at its end.
    metadata: Option<JsonMap>,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Reasoning,
}

impl<K> Default for Answer<K> {
    fn default() -> Self {
        Self {
            block: None,
            calls: Calls::default(),
            begun: false,
            finish: None,
            failed: None,
            usage: Tokens::default(),
            done: false,
            steps: 0,
        }
    }
}

impl<K> Answer<K> {
    /// Returns what an event says, or its error: one named so is one, JSON or not.
    pub(crate) fn hear<'e>(&self, event: &'e SseEvent) -> Result<Heard<'e>, ProviderError> {
        let data = event.data.trim();
        if self.done || PINGS.contains(&event.event.as_str()) {
            Ok(Heard::Nothing)
        } else if event.event == "error" {
            Err(ProviderError::in_stream(data))
        } else if data == "[DONE]" {
            Ok(Heard::Done)
        } else {
            // A server asked for another form sends a list.
            let inner = data.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let data = inner.map_or(data, str::trim);
            Ok(if data.starts_with('{') { Heard::Json(data) } else { Heard::Nothing })
        }
    }

    /// Returns how far it is.
    pub(crate) fn progress(&self) -> Progress {
        let stage = match (self.done, self.finish) {
            (true, _) => Stage::Done,
            (false, Some(_)) => Stage::Finished,
            (false, None) => Stage::Open,
        };
        Progress { stage, steps: self.steps.wrapping_add(self.calls.size()) }
    }

    /// Takes note that something of the answer came.
    pub(crate) fn step(&mut self) {
        self.steps = self.steps.wrapping_add(1);
    }

    /// Returns what the open block holds.
    pub(crate) fn open_kind(&self) -> Option<Kind> {
        self.block.as_ref().map(|block| block.kind)
    }

    /// Begins a block; one that is open ends.
    pub(crate) fn begin(&mut self, kind: Kind, metadata: Option<JsonMap>, out: &mut Vec<ModelEvent>) {
        self.end_block(out);
        self.begun = true;
        self.step();
        self.block = Some(Block { kind, pieces: Pieces::default(), metadata: None });
        out.push(match kind {
            Kind::Text => ModelEvent::TextStart { metadata },
            Kind::Reasoning => ModelEvent::ReasoningStart,
        });
    }

    /// Adds a piece to the open block of this kind, or begins one. An empty piece, or one that is no string, does
    /// nothing: most servers begin with one.
    pub(crate) fn add(&mut self, kind: Kind, raw: &RawValue, out: &mut Vec<ModelEvent>) {
        if raw.get() == "\"\"" || !raw.get().starts_with('"') {
            return;
        }
        if self.open_kind() != Some(kind) {
            self.begin(kind, None, out);
        }
        if let Some(block) = &mut self.block {
            self.steps = self.steps.wrapping_add(1);
            let text = block.pieces.take(raw);
            if !text.is_empty() {
                out.push(match kind {
                    Kind::Text => ModelEvent::TextDelta(text),
                    Kind::Reasoning => ModelEvent::ReasoningDelta(text),
                });
            }
        }
    }

    /// Keeps data of the vendor's under its name, to be given at the end of the open block.
    pub(crate) fn note(&mut self, vendor: &str, name: &str, value: impl Into<serde_json::Value>) {
        if let Some(block) = &mut self.block {
            note(&mut block.metadata, vendor, name, value);
        }
    }

    /// Keeps data of the vendor's, likewise.
    pub(crate) fn keep(&mut self, metadata: JsonMap) {
        if let Some(block) = &mut self.block {
            options::merge(block.metadata.get_or_insert_default(), metadata);
        }
    }

    /// Ends the open block.
    pub(crate) fn end_block(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some(Block { kind, metadata, .. }) = self.block.take() {
            out.push(match kind {
                Kind::Text => ModelEvent::TextEnd { metadata },
                Kind::Reasoning => ModelEvent::ReasoningEnd { metadata },
            });
        }
    }

    /// Takes the finish reason.
    pub(crate) fn finish(&mut self, reason: FinishReason, out: &mut Vec<ModelEvent>) {
        self.begun = true;
        self.step();
        self.finish = Some(reason);
        self.end_block(out);
    }

    /// Takes a finish reason that says that the vendor failed. What came counts all the same if it has calls.
    pub(crate) fn fail(&mut self, reason: String, out: &mut Vec<ModelEvent>) {
        self.finish(FinishReason::Unknown, out);
        self.failed = Some(reason);
    }

    /// Takes a mark of the vendor's that the answer is over: gives what is left, or an error if it isn't whole.
    pub(crate) fn mark(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.close(End::Marked, "it is empty", out)
    }

    /// Takes the end of the stream, likewise. `clean` says whether the server ended it or it was lost.
    pub(crate) fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let how = match (clean, self.begun) {
            (true, true) => "the stream ended without a finish reason",
            (true, false) => "it is empty",
            (false, _) => "the stream was cut",
        };
        self.close(End::Lost, how, out)
    }

    fn close(&mut self, end: End, how: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        let end = if self.finish.is_some() { End::Finished } else { end };
        let called = !self.calls.is_empty();
        let lack = if !self.begun {
            Some(how.to_owned())
        } else if self.calls.break_off(end) {
            Some("it ended in the middle of a call".to_owned())
        } else if let Some(reason) = self.failed.as_ref().filter(|_| !called) {
            Some(format!("the vendor ended it with an error ({reason})"))
        } else if end == End::Lost && !called {
            Some(how.to_owned())
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
        out.push(ModelEvent::Finish { reason, usage: self.usage });
        Ok(())
    }
}

/// Sets a value in a vendor's data.
pub(crate) fn note(metadata: &mut Option<JsonMap>, vendor: &str, name: &str, value: impl Into<serde_json::Value>) {
    let entry = metadata.get_or_insert_default().entry(vendor).or_insert_with(|| JsonMap::new().into());
    if let Some(object) = entry.as_object_mut() {
        object.insert(name.to_owned(), value.into());
    }
}

/// Returns the error for data that is no JSON, or not of the vendor's form.
pub(crate) fn unreadable(data: &str, error: &serde_json::Error) -> ProviderError {
    let start: String = data.chars().take(200).collect();
    ProviderError::new(ErrorClass::Unknown, format!("JSON parsing failed: {error}; text: {start}"))
}

/// Returns whether there is more than an empty value in an error field, which some servers send with each piece.
pub(crate) fn is_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "false" | "\"\"" | "{}" | "[]" | "0")
}
