//! Numbers events and hands them to whoever listens. An exit, not a corridor: nothing is decided by what passes here.
//! Told by: the journal, after the commit. Asked by: the HTTP edge, for each event stream.
//!
//! One order for all listeners. What is live goes over one broadcast; what was missed is in a ring, and one message
//! answers with both, so that nothing is lost or doubled in between. A listener that is too slow for the broadcast
//! subscribes again after its last event; one that is too slow for the ring is told that there is a gap.

use std::collections::VecDeque;
use std::sync::Arc;

use actix::prelude::*;
use futures::FutureExt;
use futures::future::BoxFuture;
use storage::{Frame, Sink};
use tokio::sync::broadcast;

/// Most events the ring holds.
const RING: usize = 16_384;
/// Most bytes the ring holds.
const RING_BYTES: usize = 8 * 1024 * 1024;
/// Most events a listener may be behind before it has to subscribe again.
const LIVE: usize = 256;

/// Publish these, in order.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Publish(pub Vec<Frame>);

/// Listen from here on, or from after an event.
#[derive(Message)]
#[rtype(result = "Subscription")]
pub struct Subscribe {
    /// The last event the listener has.
    pub after: Option<Position>,
}

/// An event's place on the stream: `<boot>-<seq>-<row>` on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which life of the bus numbered it.
    pub boot: Arc<str>,
    /// Its number in that life.
    pub seq: u64,
    /// The newest row of the durable log by then.
    pub row: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.boot, self.seq, self.row)
    }
}

impl std::str::FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        let mut fields = text.trim().splitn(3, '-');
        let mut next = || fields.next().ok_or(BadPosition);
        let (boot, seq, row) = (next()?, next()?, next()?);
        Ok(Self {
            boot: boot.into(),
            seq: seq.parse().map_err(|_| BadPosition)?,
            row: row.parse().map_err(|_| BadPosition)?,
        })
    }
}

/// A text that is no position on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an event id of this server")]
pub struct BadPosition;

/// What a listener gets.
#[derive(Debug, MessageResponse)]
pub struct Subscription {
    /// What it missed, in order.
    pub backlog: Vec<Arc<Entry>>,
    /// What comes.
    pub live: broadcast::Receiver<Arc<Entry>>,
    /// Whether what it missed is not all there.
    pub gap: bool,
    /// The newest event.
    pub head: Position,
}

/// A numbered event.
#[derive(Debug)]
pub struct Entry {
    /// Its number in this life of the bus.
    pub seq: u64,
    /// The newest row of the durable log by then.
    pub row: u64,
    /// The event.
    pub frame: Frame,
    /// The numbered copy of a durable event, for `/global/event` only.
    pub is_copy: bool,
}

impl Entry {
    /// Returns about how much memory it takes, in bytes. A copy shares the event's text.
    pub fn size(&self) -> usize {
        if self.is_copy { 64 } else { self.frame.size() }
    }
}

/// Numbers events and hands them out.
pub struct Bus {
    boot: Arc<str>,
    seq: u64,
    row: u64,
    ring: VecDeque<Arc<Entry>>,
    ring_bytes: usize,
    live: broadcast::Sender<Arc<Entry>>,
}

impl Bus {
    /// Returns a bus that has published nothing yet. `row` is the newest row of the durable log.
    pub fn new(row: u64) -> Self {
        Self { boot: new_boot(), seq: 0, row, ring: VecDeque::new(), ring_bytes: 0, live: broadcast::channel(LIVE).0 }
    }

    fn number(&mut self, frame: Frame) {
        if let Some(durable) = frame.durable {
            self.row = durable.row;
        }
        let copy = frame.durable.is_some().then(|| frame.clone());
        self.push(frame, false);
        if let Some(frame) = copy {
            self.push(frame, true);
        }
    }

    fn push(&mut self, frame: Frame, is_copy: bool) {
        self.seq += 1;
        let entry = Arc::new(Entry { seq: self.seq, row: self.row, frame, is_copy });
        self.ring_bytes += entry.size();
        self.ring.push_back(entry.clone());
        while self.ring.len() > RING || (self.ring_bytes > RING_BYTES && self.ring.len() > 1) {
            if let Some(old) = self.ring.pop_front() {
                self.ring_bytes -= old.size();
            }
        }
        // Nobody listens: that is fine.
        let _ = self.live.send(entry);
    }

    fn head(&self) -> Position {
        Position { boot: self.boot.clone(), seq: self.seq, row: self.row }
    }
}

impl Actor for Bus {
    type Context = Context<Self>;
}

impl Supervised for Bus {
    fn restarting(&mut self, _: &mut Self::Context) {
        // A new life: listeners see their stream end and come back with a position of the old one.
        self.boot = new_boot();
        self.seq = 0;
        self.ring.clear();
        self.ring_bytes = 0;
        self.live = broadcast::channel(LIVE).0;
    }
}

impl Handler<Publish> for Bus {
    type Result = ();

    fn handle(&mut self, Publish(frames): Publish, _: &mut Self::Context) {
        frames.into_iter().for_each(|frame| self.number(frame));
    }
}

impl Handler<Subscribe> for Bus {
    type Result = Subscription;

    fn handle(&mut self, Subscribe { after }: Subscribe, _: &mut Self::Context) -> Subscription {
        let (mut backlog, mut gap) = (Vec::new(), false);
        if let Some(after) = after {
            let oldest = self.ring.front().map_or(self.seq + 1, |entry| entry.seq);
            gap = after.boot != self.boot || after.seq > self.seq || after.seq + 1 < oldest;
            if !gap {
                let from = (after.seq + 1 - oldest) as usize;
                backlog = self.ring.iter().skip(from).cloned().collect();
            }
        }
        Subscription { backlog, live: self.live.subscribe(), gap, head: self.head() }
    }
}

/// How many listen.
#[derive(Message)]
#[rtype(result = "usize")]
pub struct CountListeners;

impl Handler<CountListeners> for Bus {
    type Result = usize;

    fn handle(&mut self, _: CountListeners, _: &mut Self::Context) -> usize {
        self.live.receiver_count()
    }
}

/// End all streams: the service stops.
#[derive(Message)]
#[rtype(result = "()")]
pub struct CloseStreams;

impl Handler<CloseStreams> for Bus {
    type Result = ();

    fn handle(&mut self, _: CloseStreams, _: &mut Self::Context) {
        self.live = broadcast::channel(1).0;
    }
}

fn new_boot() -> Arc<str> {
    // Unlikely to repeat is enough: a position of another life must not look like one of this.
    format!("{:08x}", rand::random::<u32>()).into()
}

/// The journal's way to the bus.
pub struct BusSink(pub Addr<Bus>);

impl Sink for BusSink {
    fn publish(&self, frames: Vec<Frame>) -> BoxFuture<'_, ()> {
        self.0
            .send(Publish(frames))
            .map(|sent| {
                if sent.is_err() {
                    tracing::error!("events were lost: the bus crashed on them");
                }
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::{Ids, SystemClock};
    use storage::frame::Durable;
    use storage::{Body, Origin};

    use super::*;

    fn frame(ids: &Ids, durable: Option<Durable>) -> Frame {
        Frame {
            id: ids.event(),
            kind: "session.status",
            origin: Arc::new(Origin { directory: "/d".into(), project: "p".into() }),
            session_id: None,
            durable,
            body: Body::Json(storage::Properties::whole("{}".into())),
        }
    }

    fn bus() -> (Addr<Bus>, Ids) {
        (Bus::new(7).start(), Ids::new(Arc::new(SystemClock), 0))
    }

    async fn subscribe(bus: &Addr<Bus>, after: Option<Position>) -> Subscription {
        bus.send(Subscribe { after }).await.expect("a subscription")
    }

    #[actix::test]
    async fn what_was_missed_and_what_comes_join_without_a_gap() {
        let (bus, ids) = bus();
        let start = subscribe(&bus, None).await.head;
        let durable = Durable { seq: 0, row: 8 };
        bus.send(Publish(vec![frame(&ids, None), frame(&ids, Some(durable))])).await.expect("published");
        let mut again = subscribe(&bus, Some(start)).await;
        assert!(!again.gap);
        let seen: Vec<_> = again.backlog.iter().map(|e| (e.seq, e.row, e.is_copy)).collect();
        assert_eq!(seen, [(1, 7, false), (2, 8, false), (3, 8, true)]);
        bus.send(Publish(vec![frame(&ids, None)])).await.expect("published");
        assert_eq!(again.live.recv().await.expect("live").seq, 4);
    }

    #[actix::test]
    async fn a_position_of_another_life_or_older_than_the_ring_is_a_gap() {
        let (bus, ids) = bus();
        let start = subscribe(&bus, None).await.head;
        let foreign = Position { boot: "other".into(), ..start.clone() };
        assert!(subscribe(&bus, Some(foreign)).await.gap);
        let many = (0..=RING).map(|_| frame(&ids, None)).collect();
        bus.send(Publish(many)).await.expect("published");
        assert!(subscribe(&bus, Some(start)).await.gap);
    }

    #[test]
    fn a_position_is_read_back_from_its_text() {
        let position = Position { boot: "00ab".into(), seq: 12, row: 3 };
        assert_eq!(position.to_string().parse(), Ok(position));
        assert_eq!("x-1".parse::<Position>(), Err(BadPosition));
    }
}
