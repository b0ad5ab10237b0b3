//! What the model answers to one request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::gate::Gate;

/// One answer of the model. Made by [`Step::text`] and its like, then refined.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) body: Body,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) marks: Vec<(At, Mark)>,
    /// Between the pieces of a text or a raw body.
    pub(super) every: Option<Duration>,
    /// Before the headers.
    pub(super) first: Option<Duration>,
    /// Answers to give first, each that many times.
    pub(super) before: Vec<(u32, Step)>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Turn(Turn),
    Raw { pieces: Vec<Piece>, bytewise: bool },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) reasoning: Option<String>,
    pub(super) text: Option<String>,
    pub(super) chunks: Chunks,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Chunks {
    /// The text in so many pieces.
    Split(usize),
    /// The whole text so many times.
    Repeat(usize),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Split(1)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) enum Finish {
    /// `tool_calls` where there are calls, else `stop`.
    #[default]
    Fitting,
    Reason(String),
    /// The stream ends without a finish reason.
    Missing,
}

/// What an answer does at some point, besides going on.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Gate(Gate),
    Hang,
    Cut,
    Reset,
}

/// A point of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before the status line and the headers.
    Head,
    /// After the headers, before anything of the model.
    Start,
    /// After so many pieces of the text (from 1) or of a raw body.
    Text(usize),
    /// After the name of this call (from 0), before its arguments.
    CallName(usize),
    /// After this call (from 0) is complete.
    Call(usize),
    /// After all text and calls, before the finish reason.
    End,
}

/// The tokens an answer says it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Read, cached ones included.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Of those read, from a cache.
    pub cached: Option<u64>,
    /// Of those written, thinking.
    pub reasoning: Option<u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 20, cached: None, reasoning: None }
    }
}

/// A tool call of an answer.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) id: Option<String>,
    pub(super) pieces: usize,
}

/// Returns a call of tool `name`, its id made up, its arguments streamed in two pieces.
pub fn call(name: impl Into<String>, arguments: Value) -> Call {
    Call { name: name.into(), arguments: arguments.to_string(), id: None, pieces: 2 }
}

impl Call {
    /// Sends `text` as the arguments, be it JSON or not.
    pub fn raw_arguments(mut self, text: impl Into<String>) -> Self {
        self.arguments = text.into();
        self
    }

    /// Gives the call this id.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Streams the arguments in this many pieces.
    pub fn pieces(mut self, pieces: usize) -> Self {
        self.pieces = pieces;
        self
    }
}

/// A piece of a raw body.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Sent as they are, in one write.
    Bytes(Bytes),
    /// Waits until the gate is open.
    Gate(Gate),
    /// Waits.
    Wait(Duration),
}

impl From<&'static str> for Piece {
    fn from(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<&Gate> for Piece {
    fn from(gate: &Gate) -> Self {
        Self::Gate(gate.clone())
    }
}

impl From<Duration> for Piece {
    fn from(time: Duration) -> Self {
        Self::Wait(time)
    }
}

impl Step {
    fn new(body: Body) -> Self {
        Self { body, status: 200, headers: Vec::new(), marks: Vec::new(), every: None, first: None, before: Vec::new() }
    }

    /// Answers with a text, in one piece unless [`Step::chunks`] says otherwise.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Body::Turn(Turn { text: Some(text.into()), ..Turn::default() }))
    }

    /// Answers with tool calls.
    pub fn calls(calls: impl IntoIterator<Item = Call>) -> Self {
        Self::new(Body::Turn(Turn { calls: calls.into_iter().collect(), ..Turn::default() }))
    }

    /// Answers with thinking and nothing else.
    pub fn reasoning(text: impl Into<String>) -> Self {
        Self::new(Body::Turn(Turn { reasoning: Some(text.into()), ..Turn::default() }))
    }

    /// Answers with a finish reason and nothing else.
    pub fn empty() -> Self {
        Self::new(Body::Turn(Turn::default()))
    }

    /// Sends the headers, then nothing for ever.
    pub fn hang() -> Self {
        Self::empty().hang_at(At::Start)
    }

    /// Takes the request and answers nothing, not even headers.
    pub fn silent() -> Self {
        Self::empty().hang_at(At::Head)
    }

    /// Answers with this HTTP status and an error in OpenAI's shape; [`Step::body`] says another.
    pub fn status(status: u16) -> Self {
        let error = json!({ "error": { "message": "scripted failure", "type": "server_error" } });
        Self { status, ..Self::raw([error.to_string()]) }.header("content-type", "application/json")
    }

    /// Sends this body, each piece written (and, as far as the network allows, read) alone. Status 200 and
    /// `text/event-stream` unless said otherwise.
    pub fn raw<P: Into<Piece>>(pieces: impl IntoIterator<Item = P>) -> Self {
        Self::new(Body::Raw { pieces: pieces.into_iter().map(Into::into).collect(), bytewise: false })
    }

    /// Sends these values as server-sent events, each written alone; a string is sent bare (`[DONE]`).
    pub fn events(values: impl IntoIterator<Item = Value>) -> Self {
        Self::raw(values.into_iter().map(|value| super::stream::frame(&value)))
    }

    /// Adds text (it comes before the calls).
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.turn("with_text").text = Some(text.into());
        self
    }

    /// Adds thinking (it comes first).
    pub fn with_reasoning(mut self, text: impl Into<String>) -> Self {
        self.turn("with_reasoning").reasoning = Some(text.into());
        self
    }

    /// Adds tool calls.
    pub fn with_calls(mut self, calls: impl IntoIterator<Item = Call>) -> Self {
        self.turn("with_calls").calls.extend(calls);
        self
    }

    /// Streams the text in this many pieces of about equal length.
    pub fn chunks(mut self, count: usize) -> Self {
        self.turn("chunks").chunks = Chunks::Split(count);
        self
    }

    /// Streams the whole text this many times.
    pub fn repeat(mut self, count: usize) -> Self {
        self.turn("repeat").chunks = Chunks::Repeat(count);
        self
    }

    /// Gives this finish reason (`stop`, `length`, `content_filter`…).
    pub fn finish(mut self, reason: impl Into<String>) -> Self {
        self.turn("finish").finish = Finish::Reason(reason.into());
        self
    }

    /// Ends the stream without a finish reason.
    pub fn no_finish(mut self) -> Self {
        self.turn("no_finish").finish = Finish::Missing;
        self
    }

    /// Says that this many tokens were used.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.turn("usage").usage = usage;
        self
    }

    /// Waits this long between the pieces of the text or the raw body.
    pub fn every(mut self, time: Duration) -> Self {
        self.every = Some(time);
        self
    }

    /// Waits this long before the headers.
    pub fn after(mut self, time: Duration) -> Self {
        self.first = Some(time);
        self
    }

    /// Replaces the body of a [`Step::status`] or [`Step::raw`] by this JSON.
    pub fn body(mut self, body: Value) -> Self {
        self.body = Body::Raw { pieces: vec![body.to_string().into()], bytewise: false };
        self
    }

    /// Writes each byte of a raw body alone.
    pub fn bytewise(mut self) -> Self {
        match &mut self.body {
            Body::Raw { bytewise, .. } => *bytewise = true,
            Body::Turn(_) => panic!("`bytewise` is for raw bodies"),
        }
        self
    }

    /// Sets the HTTP status.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sets a response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    /// Holds the stream at its start, after the headers, until the gate is open.
    pub fn gate(self, gate: &Gate) -> Self {
        self.gate_at(At::Start, gate)
    }

    /// Holds the stream there until the gate is open.
    pub fn gate_at(self, at: At, gate: &Gate) -> Self {
        self.mark(at, Mark::Gate(gate.clone()))
    }

    /// Sends nothing more from there on, and leaves the connection open.
    pub fn hang_at(self, at: At) -> Self {
        self.mark(at, Mark::Hang)
    }

    /// Closes the connection there, so that the body is visibly incomplete.
    pub fn cut_at(self, at: At) -> Self {
        self.mark(at, Mark::Cut)
    }

    /// Resets the connection there.
    pub fn reset_at(self, at: At) -> Self {
        self.mark(at, Mark::Reset)
    }

    /// Answers the first `times` requests for this step with an HTTP status instead.
    pub fn fail(self, times: u32, status: u16) -> Self {
        self.fail_with(times, Self::status(status))
    }

    /// Answers the first `times` requests for this step with another one instead. Several add up, in order.
    pub fn fail_with(mut self, times: u32, step: Step) -> Self {
        self.before.push((times, step));
        self
    }

    fn mark(mut self, at: At, mark: Mark) -> Self {
        self.marks.push((at, mark));
        self
    }

    fn turn(&mut self, method: &str) -> &mut Turn {
        match &mut self.body {
            Body::Turn(turn) => turn,
            Body::Raw { .. } => panic!("`{method}` is not for raw bodies"),
        }
    }
}
