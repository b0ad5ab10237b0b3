//! One model stream to parts. Pure: events in, updates out; ids and the time come in from outside.

use std::sync::Arc;

use protocol::message::Tokens;
use protocol::model::{FinishReason, ModelEvent};
use protocol::part::{ReasoningPart, Span, TextPart, ToolPart};
use protocol::{CallId, Ids, JsonMap, MessageId, Part, PartId, PartKind, SessionId, ToolState};
use serde_json::Value;
use storage::Delta;

use super::StepUpdate;

/// From how many bytes on a text is taken for one that never ends.
const RUNAWAY: usize = 1024 * 1024;

/// The parts of one stream as far as they have come.
pub struct Fold {
    ids: Arc<Ids>,
    session_id: SessionId,
    message_id: MessageId,
    /// Text or thinking that grows.
    open: Option<Part>,
    /// By how many bytes it grew since it was last stored.
    unstored: usize,
    /// Calls whose arguments are still coming.
    pending: Vec<(CallId, Part)>,
    /// Text and thinking of this stream, which a new try replaces.
    made: Vec<PartId>,
    /// A call was handed over: the request is never repeated.
    handed_over: bool,
    /// The stream before this one failed, and what it said is still there.
    is_stale: bool,
}

/// A call whose arguments are complete.
#[derive(Clone, Debug)]
pub struct ReadyCall {
    /// Its part, still pending.
    pub part: Part,
    /// The tool, as the model spelt it.
    pub tool: String,
    /// Its arguments, or what is wrong with them.
    pub input: Result<JsonMap, String>,
    /// The vendor's data to send back with it.
    pub metadata: Option<JsonMap>,
}

impl Fold {
    /// Returns a fold for a stream that begins.
    pub fn new(ids: Arc<Ids>, session_id: SessionId, message_id: MessageId) -> Self {
        Self {
            ids,
            session_id,
            message_id,
            open: None,
            unstored: 0,
            pending: Vec::new(),
            made: Vec::new(),
            handed_over: false,
            is_stale: false,
        }
    }

    /// Returns whether a call was handed over.
    pub fn has_handed_over(&self) -> bool {
        self.handed_over
    }

    /// Takes events that came at once. Deltas that follow each other are one.
    pub fn apply(
        &mut self,
        events: Vec<ModelEvent>,
        now: u64,
        updates: &mut Vec<StepUpdate>,
    ) -> Option<(FinishReason, Tokens)> {
        if self.is_stale {
            self.discard(updates);
        }
        let mut finish = None;
        let mut text = String::new();
        for event in events {
            if let ModelEvent::TextDelta(more) | ModelEvent::ReasoningDelta(more) = &event {
                self.begin_if_none(&event, now, updates);
                text.push_str(more);
                continue;
            }
            self.grow(&mut text, updates);
            match event {
                ModelEvent::TextStart { metadata } => self.begin(text_part(now, metadata), updates),
                ModelEvent::ReasoningStart => self.begin(reasoning_part(now), updates),
                ModelEvent::TextEnd { metadata } => self.end_open(metadata, now, updates),
                ModelEvent::ReasoningEnd { metadata } => self.end_open(metadata, now, updates),
                ModelEvent::CallStart { id, tool } => self.call_started(id, tool, updates),
                ModelEvent::Call { id, tool, input, metadata } => {
                    self.call_ready(id, tool, Ok(input), metadata, updates);
                }
                ModelEvent::CallBroken { id, tool, raw, error } => {
                    let shown: String = raw.chars().take(200).collect();
                    self.call_ready(id, tool, Err(format!("{error} (they begin with {shown:?})")), None, updates);
                }
                ModelEvent::Finish { reason, usage } => finish = Some((reason, usage)),
                ModelEvent::TextDelta(_) | ModelEvent::ReasoningDelta(_) => {}
            }
        }
        self.grow(&mut text, updates);
        finish
    }

    /// Ends what is open: the stream is over. Calls without complete arguments become errors.
    pub fn end(&mut self, now: u64, updates: &mut Vec<StepUpdate>) {
        self.end_open(None, now, updates);
        for (_, mut part) in std::mem::take(&mut self.pending) {
            if let PartKind::Tool(tool) = &mut part.kind {
                tool.state = ToolState::Error {
                    input: Value::Object(JsonMap::new()),
                    error: "The answer ended before the arguments of this call were complete. It was not run.".into(),
                    metadata: Some(protocol::event::interrupted()),
                    time: protocol::part::Ran { start: now, end: now, compacted: None },
                };
            }
            updates.push(StepUpdate::Part(Arc::new(part)));
        }
    }

    /// The stream has failed and another will follow: what this one said is taken back when that one says something.
    pub fn fail(&mut self) {
        self.is_stale = true;
    }

    fn discard(&mut self, updates: &mut Vec<StepUpdate>) {
        self.is_stale = false;
        self.open = None;
        self.unstored = 0;
        let pending = std::mem::take(&mut self.pending).into_iter().map(|(_, part)| part.id);
        updates.extend(std::mem::take(&mut self.made).into_iter().chain(pending).map(StepUpdate::Removed));
    }

    /// Returns the part that grows, if it grew since it was last stored. It is stored whole: one that never ends is
    /// given ever more seldom.
    pub fn checkpoint(&mut self) -> Option<Arc<Part>> {
        let part = self.open.as_ref().filter(|part| {
            let size = match &part.kind {
                PartKind::Text(text) => text.text.len(),
                PartKind::Reasoning(thought) => thought.text.len(),
                _ => 0,
            };
            self.unstored > 0 && (size < RUNAWAY || self.unstored > size / 4)
        })?;
        self.unstored = 0;
        Some(Arc::new(part.clone()))
    }

    /// Returns the part that grows, for clients that came in the middle.
    pub fn open_part(&mut self) -> Option<Arc<Part>> {
        self.unstored = 0;
        self.open.clone().map(Arc::new)
    }

    /// Vendors send deltas of blocks they did not begin.
    fn begin_if_none(&mut self, delta: &ModelEvent, now: u64, updates: &mut Vec<StepUpdate>) {
        let is_text = matches!(delta, ModelEvent::TextDelta(_));
        let fits = match self.open.as_ref().map(|part| &part.kind) {
            Some(PartKind::Text(_)) => is_text,
            Some(PartKind::Reasoning(_)) => !is_text,
            _ => false,
        };
        if !fits {
            self.begin(if is_text { text_part(now, None) } else { reasoning_part(now) }, updates);
        }
    }

    fn begin(&mut self, kind: PartKind, updates: &mut Vec<StepUpdate>) {
        let now = match &kind {
            PartKind::Text(TextPart { time: Some(time), .. }) | PartKind::Reasoning(ReasoningPart { time, .. }) => {
                time.start
            }
            _ => 0,
        };
        self.end_open(None, now, updates);
        let part = self.part(kind);
        self.made.push(part.id.clone());
        updates.push(StepUpdate::Part(Arc::new(part.clone())));
        self.open = Some(part);
    }

    fn grow(&mut self, more: &mut String, updates: &mut Vec<StepUpdate>) {
        if more.is_empty() {
            return;
        }
        let more = std::mem::take(more);
        let Some(part) = &mut self.open else { return };
        self.unstored += more.len();
        match &mut part.kind {
            PartKind::Text(text) => text.text.push_str(&more),
            PartKind::Reasoning(thought) => thought.text.push_str(&more),
            _ => return,
        }
        updates.push(StepUpdate::Delta(Arc::new(Delta {
            session_id: self.session_id.clone(),
            message_id: self.message_id.clone(),
            part_id: part.id.clone(),
            text: more,
        })));
    }

    fn end_open(&mut self, metadata: Option<JsonMap>, now: u64, updates: &mut Vec<StepUpdate>) {
        let Some(mut part) = self.open.take() else { return };
        self.unstored = 0;
        match &mut part.kind {
            PartKind::Text(text) => {
                if let Some(time) = &mut text.time {
                    time.end = Some(now.max(time.start));
                }
                text.metadata = metadata.or(text.metadata.take());
            }
            PartKind::Reasoning(thought) => {
                thought.time.end = Some(now.max(thought.time.start));
                thought.metadata = metadata.or(thought.metadata.take());
            }
            _ => {}
        }
        updates.push(StepUpdate::Part(Arc::new(part)));
    }

    fn call_started(&mut self, id: CallId, tool: String, updates: &mut Vec<StepUpdate>) {
        let state = ToolState::Pending { input: Value::Object(JsonMap::new()), raw: String::new() };
        let part = self.part(PartKind::Tool(ToolPart { call_id: id.clone(), tool, state, metadata: None }));
        updates.push(StepUpdate::Part(Arc::new(part.clone())));
        self.pending.push((id, part));
    }

    fn call_ready(
        &mut self,
        id: CallId,
        tool: String,
        input: Result<JsonMap, String>,
        metadata: Option<JsonMap>,
        updates: &mut Vec<StepUpdate>,
    ) {
        if !self.pending.iter().any(|(other, _)| *other == id) {
            self.call_started(id.clone(), tool.clone(), updates);
        }
        let Some(at) = self.pending.iter().position(|(other, _)| *other == id) else { return };
        let (_, part) = self.pending.remove(at);
        self.handed_over = true;
        updates.push(StepUpdate::Call(Box::new(ReadyCall { part, tool, input, metadata })));
    }

    fn part(&self, kind: PartKind) -> Part {
        Part { id: self.ids.part(), session_id: self.session_id.clone(), message_id: self.message_id.clone(), kind }
    }
}

fn text_part(now: u64, metadata: Option<JsonMap>) -> PartKind {
    PartKind::Text(TextPart { time: Some(Span { start: now, end: None }), metadata, ..TextPart::default() })
}

fn reasoning_part(now: u64) -> PartKind {
    PartKind::Reasoning(ReasoningPart { text: String::new(), metadata: None, time: Span { start: now, end: None } })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::SystemClock;

    use super::*;

    fn fold() -> Fold {
        let ids = Arc::new(Ids::new(Arc::new(SystemClock), 0));
        let session = SessionId::parse("ses_1").expect("an id");
        Fold::new(ids, session, MessageId::parse("msg_1").expect("an id"))
    }

    fn seen(updates: &[StepUpdate]) -> Vec<String> {
        updates
            .iter()
            .map(|update| match update {
                StepUpdate::Part(part) => match &part.kind {
                    PartKind::Text(t) => format!("text {:?} {}", t.text, t.time.is_some_and(|t| t.end.is_some())),
                    PartKind::Reasoning(r) => format!("reasoning {:?} {}", r.text, r.time.end.is_some()),
                    PartKind::Tool(t) => format!("tool {} {}", t.tool, matches!(t.state, ToolState::Pending { .. })),
                    _ => "other".into(),
                },
                StepUpdate::Delta(delta) => format!("delta {:?}", delta.text),
                StepUpdate::Call(call) => format!("call {} {:?}", call.tool, call.input.is_ok()),
                StepUpdate::Removed(_) => "removed".into(),
                _ => "other".into(),
            })
            .collect()
    }

    fn call(id: &str) -> ModelEvent {
        ModelEvent::Call { id: CallId::new(id), tool: "read".into(), input: JsonMap::new(), metadata: None }
    }

    #[test]
    fn blocks_become_parts_and_neighbouring_deltas_one() {
        let mut fold = fold();
        let mut updates = Vec::new();
        let events = vec![
            ModelEvent::ReasoningStart,
            ModelEvent::ReasoningDelta("h".into()),
            ModelEvent::ReasoningDelta("m".into()),
            ModelEvent::ReasoningEnd { metadata: None },
            ModelEvent::TextStart { metadata: None },
            ModelEvent::TextDelta("hi".into()),
            ModelEvent::CallStart { id: CallId::new("a"), tool: "read".into() },
            call("a"),
            ModelEvent::TextEnd { metadata: None },
            ModelEvent::Finish { reason: FinishReason::ToolCalls, usage: Tokens::default() },
        ];
        let finish = fold.apply(events, 5, &mut updates);
        assert_eq!(finish.map(|(reason, _)| reason), Some(FinishReason::ToolCalls));
        assert_eq!(
            seen(&updates),
            [
                "reasoning \"\" false",
                "delta \"hm\"",
                "reasoning \"hm\" true",
                "text \"\" false",
                "delta \"hi\"",
                "tool read true",
                "call read true",
                "text \"hi\" true",
            ]
        );
        assert!(fold.has_handed_over());
    }

    #[test]
    fn a_new_try_takes_back_what_the_last_one_said() {
        let mut fold = fold();
        let mut updates = Vec::new();
        fold.apply(vec![ModelEvent::TextDelta("half".into())], 1, &mut updates);
        fold.apply(vec![ModelEvent::CallStart { id: CallId::new("a"), tool: "read".into() }], 1, &mut updates);
        updates.clear();
        fold.fail();
        fold.apply(vec![ModelEvent::TextDelta("whole".into())], 2, &mut updates);
        assert_eq!(seen(&updates), ["removed", "removed", "text \"\" false", "delta \"whole\""]);
    }

    #[test]
    fn an_end_closes_text_and_fails_half_calls() {
        let mut fold = fold();
        let mut updates = Vec::new();
        fold.apply(
            vec![
                ModelEvent::TextDelta("x".into()),
                ModelEvent::CallStart { id: CallId::new("a"), tool: "read".into() },
            ],
            1,
            &mut updates,
        );
        updates.clear();
        fold.end(2, &mut updates);
        assert_eq!(seen(&updates), ["text \"x\" true", "tool read false"]);
    }

    #[test]
    fn growing_text_is_stored_once_until_it_grows_again() {
        let mut fold = fold();
        fold.apply(vec![ModelEvent::TextDelta("x".into())], 1, &mut Vec::new());
        assert_eq!(fold.checkpoint().and_then(|p| p.as_text().map(str::to_owned)).as_deref(), Some("x"));
        assert!(fold.checkpoint().is_none());
    }

    #[test]
    fn text_that_never_ends_is_stored_ever_more_seldom() {
        let mut fold = fold();
        let stored = (0..64).filter(|_| {
            fold.apply(vec![ModelEvent::TextDelta("x".repeat(RUNAWAY))], 1, &mut Vec::new());
            fold.checkpoint().is_some()
        });
        assert!((10..20).contains(&stored.count()));
    }
}
