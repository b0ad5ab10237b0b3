//! The event stream: what was missed, what comes, heartbeats, and what waits for a person.
//!
//! - It subscribes before it says that it is connected, so nothing falls between.
//! - What a client missed comes from the bus's ring, exactly as it was; where the ring no longer has it, a
//!   `server.resync` says so and the durable events come from the log.
//! - A reader that is slow finds adjacent deltas of one part merged; one that is too slow for the broadcast subscribes
//!   again after its last event; one that is too slow for the ring is told so and cut off: it comes back, and finds
//!   what it missed. Nothing is written before the client takes it: however slow it is, one piece of the stream is
//!   all that waits in memory.
//! - An empty piece would end the response, so none is ever given.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use actors::bus::{Entry, Position, Subscribe};
use actors::permission_broker::ListWaiting;
use actors::session_registry::TellOpenPartsOfAll;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::stream::unfold;
use protocol::{Event, EventFrame};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::Server;
use crate::query::Query;

mod frame;

use frame::Frames;
pub use frame::Scope;

/// How often a heartbeat is sent.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Most events of one piece.
const BATCH: usize = 512;
/// Bytes after which a piece ends.
const PIECE: usize = 64 * 1024;

/// Answers with the stream.
pub fn stream(server: web::Data<Server>, scope: Scope, request: &HttpRequest) -> HttpResponse {
    let last = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let last = last.filter(|id| !id.is_empty()).map(str::to_owned);
    let after = last.or_else(|| Query::of(request.query_string()).text("after").map(str::to_owned));
    let reader = Reader {
        server,
        frames: Frames { scope },
        // An id of another server is none.
        after: after.and_then(|id| id.parse().ok()),
        heartbeat: heartbeat(),
        state: State::Subscribe(Why::New),
    };
    HttpResponse::Ok()
        .insert_header(("content-type", "text/event-stream"))
        .insert_header(("cache-control", "no-cache, no-transform"))
        .insert_header(("x-accel-buffering", "no"))
        .insert_header(("x-content-type-options", "nosniff"))
        .streaming(pieces(reader))
}

fn heartbeat() -> Interval {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat
}

struct Reader {
    server: web::Data<Server>,
    frames: Frames,
    /// The last event that was looked at.
    after: Option<Position>,
    heartbeat: Interval,
    state: State,
}

enum State {
    /// It has to subscribe.
    Subscribe(Why),
    /// The log is read again, and then it goes on live.
    Log {
        from: u64,
        upto: u64,
        live: Live,
    },
    Live(Live),
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The client has just come.
    New,
    /// It is too slow for the broadcast.
    Slow,
    /// The broadcast has ended: the bus fell and has a new life, or the service stops.
    Ended,
}

struct Live {
    boot: Arc<str>,
    /// What was missed and is still to be written.
    missed: VecDeque<Arc<Entry>>,
    /// Each missed event is written by itself: the client counts on it.
    is_exact: bool,
    events: broadcast::Receiver<Arc<Entry>>,
}

fn pieces(reader: Reader) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    unfold(reader, |mut reader| async move {
        let mut out = BytesMut::new();
        while out.is_empty() {
            reader.state = match std::mem::replace(&mut reader.state, State::End) {
                State::Subscribe(why) => reader.subscribe(&mut out, why).await,
                State::Log { from, upto, live } => reader.log(&mut out, from, upto, live).await,
                State::Live(live) => reader.live(&mut out, live).await,
                State::End => return None,
            };
        }
        Some((Ok(out.freeze()), reader))
    })
}

impl Reader {
    /// Subscribes, and writes what comes before all events.
    async fn subscribe(&mut self, out: &mut BytesMut, why: Why) -> State {
        let before = self.after.clone();
        let Ok(subscription) = self.server.runtime.bus.send(Subscribe { after: before.clone() }).await else {
            // The client comes back, and finds what it missed.
            return State::End;
        };
        let (head, gap) = (subscription.head, subscription.gap);
        if why == Why::Ended && before.as_ref().is_some_and(|before| before.boot == head.boot) {
            return State::End;
        }
        if why == Why::New {
            self.frames.own(out, &self.frame(Event::Connected {}));
        }
        let live = Live {
            boot: head.boot.clone(),
            missed: subscription.backlog.into(),
            is_exact: why == Why::New,
            events: subscription.live,
        };
        let is_fresh = before.is_none() || gap;
        let from = before.map_or(head.row, |before| before.row);
        let upto = head.row;
        if live.missed.is_empty() {
            self.after = Some(head);
        }
        if gap {
            self.frames.own(out, &self.frame(Event::Resync {}));
            return if why == Why::Slow { State::End } else { State::Log { from, upto, live } };
        }
        if is_fresh {
            self.introduce(out).await;
        }
        State::Live(live)
    }

    /// Tells what waits for a person, which clients show then and would otherwise never see; and makes busy sessions
    /// tell the parts that are being written whole, so that a client needn't read them.
    async fn introduce(&mut self, out: &mut BytesMut) {
        let runtime = &self.server.runtime;
        if let Ok(waiting) = runtime.broker.send(ListWaiting).await {
            for (request, origin) in waiting.permissions {
                self.frames.elsewhere(out, &origin, self.frame(Event::PermissionAsked(request)));
            }
            for (request, origin) in waiting.questions {
                self.frames.elsewhere(out, &origin, self.frame(Event::QuestionAsked(request)));
            }
        }
        // A registry whose mailbox is full is busy with clients that came a moment ago, for whom it does the same.
        let _ = runtime.registry.try_send(TellOpenPartsOfAll);
    }

    /// Writes a page of the durable log.
    async fn log(&mut self, out: &mut BytesMut, from: u64, upto: u64, live: Live) -> State {
        let page = match self.server.runtime.store.events_after(from, PIECE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the event log can't be read; a client misses events");
                Vec::new()
            }
        };
        let wanted = page.iter().filter(|event| event.row <= upto);
        wanted.for_each(|event| self.frames.logged(out, event));
        match page.last() {
            Some(last) if last.row < upto => State::Log { from: last.row, upto, live },
            _ => {
                self.introduce(out).await;
                State::Live(live)
            }
        }
    }

    /// Writes what was missed, or waits for what comes and writes all that is there.
    async fn live(&mut self, out: &mut BytesMut, mut live: Live) -> State {
        if !live.missed.is_empty() {
            self.missed(out, &mut live);
            return State::Live(live);
        }
        let first = tokio::select! {
            event = live.events.recv() => event,
            _ = self.heartbeat.tick() => {
                self.frames.own(out, &self.frame(Event::Heartbeat {}));
                return State::Live(live);
            }
        };
        let first = match first {
            Ok(first) => first,
            Err(RecvError::Lagged(_)) => return State::Subscribe(Why::Slow),
            Err(RecvError::Closed) => return State::Subscribe(Why::Ended),
        };
        let mut bytes = first.size();
        let mut batch = vec![first];
        let mut is_slow = false;
        while batch.len() < BATCH && bytes < PIECE {
            match live.events.try_recv() {
                Ok(entry) => {
                    bytes += entry.size();
                    batch.push(entry);
                }
                Err(TryRecvError::Lagged(_)) => {
                    is_slow = true;
                    break;
                }
                // That it has ended is found at the next look.
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.write(out, &live.boot, &batch);
        if is_slow { State::Subscribe(Why::Slow) } else { State::Live(live) }
    }

    fn missed(&mut self, out: &mut BytesMut, live: &mut Live) {
        let (mut bytes, mut batch) = (0, Vec::new());
        while batch.len() < BATCH
            && bytes < PIECE
            && let Some(entry) = live.missed.pop_front()
        {
            bytes += entry.size();
            batch.push(entry);
        }
        let most = if live.is_exact { 1 } else { BATCH };
        batch.chunks(most).for_each(|entries| self.write(out, &live.boot, entries));
    }

    fn write(&mut self, out: &mut BytesMut, boot: &Arc<str>, batch: &[Arc<Entry>]) {
        self.frames.entries(out, boot, batch);
        if let Some(last) = batch.last() {
            self.after = Some(Position { boot: boot.clone(), seq: last.seq, row: last.row });
        }
    }

    /// An event of the stream's own.
    fn frame(&self, event: Event) -> EventFrame {
        EventFrame { id: self.server.runtime.ids.event(), event }
    }
}
