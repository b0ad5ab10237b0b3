//! The event stream: what was missed, what comes, heartbeats, and what waits for a person.
//!
//! Adjacent deltas of one part that a slow reader finds waiting are merged to one; what is read again after a
//! reconnect is exactly what was missed. A reader that is too slow for the ring is told so (`server.resync`) and gets
//! the durable events it missed from the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use actors::bus::{Entry, Position, Subscribe, Subscription};
use actors::permission_broker::ListWaiting;
use actors::session_registry::TellOpenPartsOfAll;
use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use futures::stream::unfold;
use protocol::Event;
use serde::Serialize;
use storage::store::LoggedEvent;
use storage::{Body, Delta, Frame};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::Server;
use crate::place::query;

/// How often a heartbeat is sent.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Most events of one write.
const BATCH: usize = 512;
/// Events read from the log at once.
const LOG_PAGE: u32 = 500;

/// Which events a stream carries.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Those of one directory, as `{id, type, properties}`.
    Directory(String),
    /// All, as `{directory, project, payload}`, with numbered copies of durable ones.
    Everything,
}

/// Answers with the stream.
pub fn stream(server: web::Data<Server>, scope: Scope, request: &HttpRequest) -> HttpResponse {
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after = last.or_else(|| query(request, "after")).and_then(|id| id.parse().ok());
    let reader = Reader { server, scope, after, state: State::Start };
    HttpResponse::Ok()
        .insert_header(("content-type", "text/event-stream"))
        .insert_header(("cache-control", "no-cache, no-transform"))
        .insert_header(("x-accel-buffering", "no"))
        .insert_header(("x-content-type-options", "nosniff"))
        .streaming(frames(reader))
}

struct Reader {
    server: web::Data<Server>,
    scope: Scope,
    /// The last event that was written.
    after: Option<Position>,
    state: State,
}

enum State {
    Start,
    Live(Box<Live>),
}

struct Live {
    events: broadcast::Receiver<Arc<Entry>>,
    boot: Arc<str>,
    heartbeat: Interval,
}

fn frames(reader: Reader) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    unfold(reader, |mut reader| async move {
        let bytes = match std::mem::replace(&mut reader.state, State::Start) {
            State::Start => reader.open(true).await?,
            State::Live(live) => reader.next(live).await?,
        };
        Some((Ok(bytes), reader))
    })
}

impl Reader {
    /// Subscribes, and writes what comes before live events. `is_new`: the client has just come.
    async fn open(&mut self, is_new: bool) -> Option<Bytes> {
        let runtime = &self.server.runtime;
        let Subscription { backlog, live, gap, head } = runtime.bus.send(Subscribe { after: self.after.clone() }).await.ok()?;
        let mut out = BytesMut::new();
        if is_new {
            self.own(&mut out, &Event::Connected {});
        }
        let resumed = self.after.clone();
        if gap {
            self.own(&mut out, &Event::Resync {});
            self.log(&mut out, resumed.as_ref().map_or(0, |p| p.row), head.row).await;
        }
        if resumed.is_none() || gap {
            self.waiting(&mut out).await;
            // The parts that are being written come whole, so that a client needn't read them.
            runtime.registry.try_send(TellOpenPartsOfAll).ok();
        }
        for entry in &backlog {
            self.entry(&mut out, &head.boot, entry, None);
        }
        self.after = Some(head.clone());
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.state = State::Live(Box::new(Live { events: live, boot: head.boot, heartbeat }));
        Some(out.freeze())
    }

    /// Waits for live events and writes all that are there.
    async fn next(&mut self, mut live: Box<Live>) -> Option<Bytes> {
        let mut out = BytesMut::new();
        while out.is_empty() {
            let first = tokio::select! {
                event = live.events.recv() => event,
                _ = live.heartbeat.tick() => {
                    self.own(&mut out, &Event::Heartbeat {});
                    break;
                }
            };
            let mut batch = VecDeque::new();
            match first {
                Ok(entry) => batch.push_back(entry),
                // Too slow, or the bus has a new life: go on after the last event.
                Err(RecvError::Lagged(_)) => return self.open(false).await,
                Err(RecvError::Closed) => return self.reopen().await,
            }
            let mut lagged = false;
            while batch.len() < BATCH {
                match live.events.try_recv() {
                    Ok(entry) => batch.push_back(entry),
                    Err(TryRecvError::Lagged(_)) => {
                        lagged = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            self.write(&mut out, &live.boot, batch);
            if lagged {
                return match self.open(false).await {
                    Some(more) => {
                        out.put(more);
                        Some(out.freeze())
                    }
                    None => None,
                };
            }
        }
        self.state = State::Live(live);
        Some(out.freeze())
    }

    /// The bus fell, or the service stops: then it does not come back.
    async fn reopen(&mut self) -> Option<Bytes> {
        let before = self.after.clone();
        let bytes = self.open(false).await?;
        let is_same = before.zip(self.after.clone()).is_some_and(|(old, new)| old.boot == new.boot);
        if is_same { None } else { Some(bytes) }
    }

    fn write(&mut self, out: &mut BytesMut, boot: &Arc<str>, batch: VecDeque<Arc<Entry>>) {
        let mut waiting: Option<(Arc<Entry>, Delta)> = None;
        for entry in batch {
            self.after = Some(Position { boot: boot.clone(), seq: entry.seq, row: entry.row });
            if let Body::Delta(delta) = &entry.frame.body {
                match &mut waiting {
                    Some((last, merged)) if merged.part_id == delta.part_id => {
                        merged.text.push_str(&delta.text);
                        *last = entry;
                        continue;
                    }
                    _ => {
                        let delta = Delta::clone(delta);
                        if let Some((last, merged)) = waiting.replace((entry, delta)) {
                            self.entry(out, boot, &last, Some(&merged));
                        }
                        continue;
                    }
                }
            }
            if let Some((last, merged)) = waiting.take() {
                self.entry(out, boot, &last, Some(&merged));
            }
            self.entry(out, boot, &entry, None);
        }
        if let Some((last, merged)) = waiting {
            self.entry(out, boot, &last, Some(&merged));
        }
    }

    /// Writes one event. `merged` stands for its own delta.
    fn entry(&self, out: &mut BytesMut, boot: &str, entry: &Entry, merged: Option<&Delta>) {
        let frame = &entry.frame;
        let is_wanted = match &self.scope {
            Scope::Directory(directory) => !entry.is_copy && frame.origin.directory == *directory,
            Scope::Everything => true,
        };
        if !is_wanted {
            return;
        }
        out.put_slice(format!("id: {boot}-{}-{}\ndata: ", entry.seq, entry.row).as_bytes());
        let payload = if entry.is_copy { copy(frame) } else { payload(frame, merged) };
        self.wrapped(out, &frame.origin.directory, &frame.origin.project, &payload);
    }

    fn wrapped(&self, out: &mut BytesMut, directory: &str, project: &str, payload: &str) {
        match self.scope {
            Scope::Directory(_) => out.put_slice(payload.as_bytes()),
            Scope::Everything => {
                let (directory, project) = (quote(directory), quote(project));
                out.put_slice(
                    format!(r#"{{"directory":{directory},"project":{project},"payload":{payload}}}"#).as_bytes(),
                );
            }
        }
        out.put_slice(b"\n\n");
    }

    /// Writes an event of the stream's own: without an id, so that a reconnect goes on after the last real one.
    fn own(&self, out: &mut BytesMut, event: &Event) {
        #[derive(Serialize)]
        struct Own<'a> {
            id: protocol::EventId,
            #[serde(flatten)]
            event: &'a Event,
        }
        let own = Own { id: self.server.runtime.ids.event(), event };
        let payload = serde_json::to_string(&own).unwrap_or_default();
        let text = match self.scope {
            Scope::Directory(_) => format!("data: {payload}\n\n"),
            Scope::Everything => format!("data: {{\"payload\":{payload}}}\n\n"),
        };
        out.put_slice(text.as_bytes());
    }

    /// Writes what waits for a person: clients show it then, and would otherwise never see it.
    async fn waiting(&self, out: &mut BytesMut) {
        let Ok(waiting) = self.server.runtime.broker.send(ListWaiting).await else { return };
        let asks = waiting.permissions.into_iter().map(|(request, origin)| (Event::PermissionAsked(request), origin));
        let questions = waiting.questions.into_iter().map(|(request, origin)| (Event::QuestionAsked(request), origin));
        for (event, origin) in asks.chain(questions) {
            match &self.scope {
                Scope::Directory(directory) if *directory == origin.directory => self.own(out, &event),
                Scope::Directory(_) => {}
                Scope::Everything => {
                    let frame = protocol::GlobalFrame {
                        directory: Some(origin.directory.clone()),
                        project: Some(origin.project.clone()),
                        payload: protocol::EventFrame { id: self.server.runtime.ids.event(), event },
                    };
                    let text = serde_json::to_string(&frame).unwrap_or_default();
                    out.put_slice(format!("data: {text}\n\n").as_bytes());
                }
            }
        }
    }

    /// Writes the durable events between two rows of the log.
    async fn log(&self, out: &mut BytesMut, mut after: u64, upto: u64) {
        while after < upto {
            let page = match self.server.runtime.store.events_after(after, LOG_PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "the event log can't be read; a client misses events");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = last.row;
            for event in page.iter().filter(|event| event.row <= upto) {
                self.logged(out, event);
            }
        }
    }

    fn logged(&self, out: &mut BytesMut, event: &LoggedEvent) {
        if matches!(&self.scope, Scope::Directory(directory) if *directory != event.directory) {
            return;
        }
        // Of no life of the bus: a reconnect after it replays the log above its row.
        out.put_slice(format!("id: log-0-{}\ndata: ", event.row).as_bytes());
        let (id, kind) = (quote(&event.id), quote(&event.kind));
        let payload = format!(r#"{{"id":{id},"type":{kind},"properties":{}}}"#, event.properties);
        self.wrapped(out, &event.directory, &event.project, &payload);
    }
}

fn payload(frame: &Frame, merged: Option<&Delta>) -> String {
    let id = frame.id.as_str();
    match (&frame.body, merged) {
        (Body::Json(properties), _) => {
            format!(r#"{{"id":"{id}","type":"{}","properties":{properties}}}"#, frame.kind)
        }
        (Body::Delta(own), merged) => {
            let delta = merged.unwrap_or(own);
            format!(
                r#"{{"id":"{id}","type":"{}","properties":{{"sessionID":"{}","messageID":"{}","partID":"{}","field":"text","delta":{}}}}}"#,
                frame.kind,
                delta.session_id,
                delta.message_id,
                delta.part_id,
                quote(&delta.text)
            )
        }
    }
}

/// The numbered copy of a durable event.
fn copy(frame: &Frame) -> String {
    let (Body::Json(data), Some(durable), Some(session)) = (&frame.body, frame.durable, &frame.session_id) else {
        return String::from("{}");
    };
    let (id, kind, seq) = (frame.id.as_str(), frame.kind, durable.seq);
    format!(
        r#"{{"type":"sync","id":"{id}","syncEvent":{{"id":"{id}","type":"{kind}.1","seq":{seq},"aggregateID":"{session}","data":{data}}}}}"#
    )
}

fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
