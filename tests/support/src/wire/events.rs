//! The event stream, collected as it comes.

use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::PATIENCE;
use crate::model::shortened;

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Its id line.
    pub id: Option<String>,
    /// Its JSON.
    pub data: Value,
}

impl Frame {
    /// Returns the event `{id, type, properties}`: the JSON itself, on `/global/event` its `payload`.
    pub fn event(&self) -> &Value {
        self.data.get("payload").unwrap_or(&self.data)
    }
}

/// A stream being read by a task of its own. Waits go forward: each begins behind the event the last one found, so
/// two waits for an idle session find two different events. [`Events::rewind`] begins anew.
#[derive(Debug)]
pub struct Events {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
    next: usize,
}

#[derive(Debug, Default)]
struct Seen {
    frames: Mutex<Vec<Frame>>,
    /// Whether the stream has ended; sent again with each frame.
    ended: watch::Sender<bool>,
}

impl Events {
    /// Opens a stream and waits for its first event.
    pub(super) async fn open(request: reqwest::RequestBuilder) -> Self {
        let mut events = Self::resume(request).await;
        events.wait(|event| event["type"] == "server.connected").await;
        events
    }

    /// Opens a stream.
    pub(super) async fn resume(request: reqwest::RequestBuilder) -> Self {
        let opened = tokio::time::timeout(PATIENCE, request.send()).await.expect("the event stream's headers in time");
        let response = opened.unwrap_or_else(|error| panic!("the event stream: {error:?}"));
        assert!(response.status().is_success(), "the event stream: {}", response.status());
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(read(response, seen.clone()));
        Self { seen, task, next: 0 }
    }

    /// Waits for an event that `wanted` accepts and returns it, `{id, type, properties}`. Fails after [`PATIENCE`],
    /// or when the stream ends, and says what came instead.
    #[track_caller]
    pub fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> impl Future<Output = Value> {
        let caller = Location::caller();
        async move {
            let mut changed = self.seen.ended.subscribe();
            let mut from = self.next;
            let waiting = async {
                loop {
                    let ended = *changed.borrow_and_update();
                    match self.seen.find(from, &wanted) {
                        Ok(found) => return Some(found),
                        Err(length) => from = length,
                    }
                    if ended || changed.changed().await.is_err() {
                        return None;
                    }
                }
            };
            let why = match tokio::time::timeout(PATIENCE, waiting).await {
                Ok(Some((found, event))) => {
                    self.next = found + 1;
                    return event;
                }
                Ok(None) => "the stream has ended".to_owned(),
                Err(_) => format!("{PATIENCE:?} have passed"),
            };
            panic!("{caller}: {why}, and the event was not among these:\n{}", self.listed());
        }
    }

    /// Waits for an event of this type.
    #[track_caller]
    pub fn wait_for(&mut self, kind: &str) -> impl Future<Output = Value> {
        self.wait(move |event| event["type"] == kind)
    }

    /// Waits until the session is idle.
    #[track_caller]
    pub fn until_idle(&mut self, session: &str) -> impl Future<Output = Value> {
        self.wait(move |event| event["type"] == "session.idle" && event["properties"]["sessionID"] == session)
    }

    /// Waits until the server ends the stream.
    pub async fn until_end(&self) {
        let mut ended = self.seen.ended.subscribe();
        let waited = tokio::time::timeout(PATIENCE, ended.wait_for(|ended| *ended)).await.is_ok();
        assert!(waited, "the stream has not ended; its events:\n{}", self.listed());
    }

    /// Lets the next wait begin with the first event.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Lets the next wait begin with what comes from now on.
    pub fn skip(&mut self) {
        self.next = self.seen.frames().len();
    }

    /// Returns all frames so far.
    pub fn frames(&self) -> Vec<Frame> {
        self.seen.frames()
    }

    /// Returns all events so far, `{id, type, properties}` each.
    pub fn all(&self) -> Vec<Value> {
        self.frames().iter().map(|frame| frame.event().clone()).collect()
    }

    /// Returns the types of the events of a session so far, in order.
    pub fn types(&self, session: &str) -> Vec<String> {
        let of_session = |event: &Value| event["properties"]["sessionID"] == session;
        let kind = |event: &Value| event["type"].as_str().map(str::to_owned);
        self.all().iter().filter(|event| of_session(event)).filter_map(kind).collect()
    }

    /// Returns the id of the newest frame that has one: what `Last-Event-ID` says after a break.
    pub fn last_id(&self) -> Option<String> {
        self.frames().into_iter().rev().find_map(|frame| frame.id)
    }

    fn listed(&self) -> String {
        let mark = |i: usize| if i < self.next { "seen" } else { "new " };
        let line = |(i, frame): (usize, &Frame)| {
            let event = frame.event();
            format!("  {} {} {}", mark(i), event["type"], shortened(&event["properties"].to_string()))
        };
        self.frames().iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    fn frames(&self) -> Vec<Frame> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the first event from number `from` on that is wanted, and its number; else how many there are.
    fn find(&self, from: usize, wanted: impl Fn(&Value) -> bool) -> Result<(usize, Value), usize> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = frames.iter().map(Frame::event).enumerate().skip(from);
        let found = events.find(|(_, event)| wanted(event));
        found.map(|(at, event)| (at, event.clone())).ok_or(frames.len())
    }

    fn push(&self, frame: Frame) {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
        self.ended.send_replace(false);
    }
}

/// Reads a stream to its end.
async fn read(response: reqwest::Response, seen: Arc<Seen>) {
    let mut body = response.bytes_stream();
    let mut rest = Vec::new();
    while let Some(Ok(bytes)) = body.next().await {
        rest.extend_from_slice(&bytes);
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = rest.drain(..end + 2).collect();
            if let Some(frame) = frame(&String::from_utf8_lossy(&block)) {
                seen.push(frame);
            }
        }
    }
    seen.ended.send_replace(true);
}

/// Returns the frame in a block of lines; none in a comment.
fn frame(block: &str) -> Option<Frame> {
    let field =
        |line: &str, name: &str| line.strip_prefix(name).map(|rest| rest.strip_prefix(' ').unwrap_or(rest).to_owned());
    let id = block.lines().find_map(|line| field(line, "id:"));
    let data: Vec<_> = block.lines().filter_map(|line| field(line, "data:")).collect();
    if data.is_empty() {
        return None;
    }
    let text = data.join("\n");
    Some(Frame { id, data: serde_json::from_str(&text).unwrap_or(Value::String(text)) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{Gate, Piece, ScriptedModel, Step, Wire};

    #[test]
    fn a_frame_has_its_id_and_its_json_and_a_comment_is_none() {
        let expected = Frame { id: Some("7".into()), data: json!({ "type": "x" }) };
        assert_eq!(frame("id: 7\ndata: {\"type\":\ndata: \"x\"}\n\n"), Some(expected));
        assert_eq!(frame(": keepalive\n\n"), None);
    }

    fn event(kind: &str, session: &str, n: u64) -> String {
        let event = json!({ "id": format!("evt_{n}"), "type": kind, "properties": { "sessionID": session } });
        format!("id: {n}\ndata: {event}\n\n")
    }

    /// Returns a server whose `/event` sends these pieces after `server.connected`.
    async fn server(pieces: Vec<Piece>) -> (ScriptedModel, Wire) {
        let server = ScriptedModel::start().await;
        let first = Piece::from(event("server.connected", "", 0));
        server.page("/event", Step::raw([first].into_iter().chain(pieces)));
        let wire = Wire::new(server.url(""), "/work");
        (server, wire)
    }

    #[tokio::test]
    async fn waits_go_forward_through_the_stream() {
        let gate = Gate::new();
        let idle = |n| Piece::from(event("session.idle", "ses_1", n));
        let other = Piece::from(event("session.idle", "ses_2", 2));
        let (_server, wire) = server(vec![idle(1), other, Piece::from(&gate), idle(3)]).await;
        let mut events = wire.events().await;
        assert_eq!(events.until_idle("ses_1").await["id"], "evt_1");
        gate.open();
        assert_eq!(events.until_idle("ses_1").await["id"], "evt_3");
        events.until_end().await;
        assert_eq!(events.last_id(), Some("3".into()));
        assert_eq!(events.types("ses_1"), ["session.idle", "session.idle"]);
        events.rewind();
        assert_eq!(events.wait_for("session.idle").await["id"], "evt_1");
    }

    #[tokio::test]
    #[should_panic(expected = "the stream has ended, and the event was not among these:")]
    async fn a_wait_fails_at_once_when_the_stream_has_ended() {
        let (_server, wire) = server(Vec::new()).await;
        wire.events().await.until_idle("ses_1").await;
    }

    #[test]
    fn the_event_of_a_global_frame_is_its_payload() {
        let frame = frame("data: {\"directory\":\"/d\",\"payload\":{\"type\":\"x\"}}\n\n").expect("a frame");
        assert_eq!(frame.event(), &json!({ "type": "x" }));
    }
}
