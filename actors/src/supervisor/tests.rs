use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;

use super::*;

/// Counts what it was told; its state is lost with a crash, `starts` is kept outside.
struct Counter {
    starts: Arc<AtomicUsize>,
    told: usize,
    lifeline: Lifeline,
    child: Option<Linked<Bomb>>,
}

struct Bomb {
    dropped: Arc<AtomicUsize>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Actor for Counter {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        self.starts.fetch_add(1, Ordering::SeqCst);
    }
}

impl Supervised for Counter {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.told = 0;
        self.child = None;
    }
}

impl Actor for Bomb {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "usize")]
enum Tell {
    Count,
    Panic,
    StartChild(Arc<AtomicUsize>),
    PanicInChild,
}

#[derive(Message)]
#[rtype(result = "()")]
struct Explode;

impl Handler<Explode> for Bomb {
    type Result = ();

    fn handle(&mut self, _: Explode, _: &mut Self::Context) {
        panic!("boom in the child");
    }
}

impl Handler<Tell> for Counter {
    type Result = usize;

    #[expect(clippy::disallowed_methods, reason = "a test")]
    fn handle(&mut self, tell: Tell, _: &mut Self::Context) -> usize {
        self.told += 1;
        match tell {
            Tell::Count => {}
            Tell::Panic => panic!("boom"),
            Tell::StartChild(dropped) => self.child = Some(self.lifeline.start(Bomb { dropped })),
            Tell::PanicInChild => self.child.iter().for_each(|child| child.address.do_send(Explode)),
        }
        self.told
    }
}

struct Parent(mpsc::UnboundedSender<Fate>);

impl Actor for Parent {
    type Context = Context<Self>;
}

impl Handler<Fate> for Parent {
    type Result = ();

    fn handle(&mut self, fate: Fate, _: &mut Self::Context) {
        let _ = self.0.send(fate);
    }
}

struct World {
    counter: Addr<Counter>,
    starts: Arc<AtomicUsize>,
    fates: mpsc::UnboundedReceiver<Fate>,
}

fn world(max: usize) -> World {
    let (sender, fates) = mpsc::unbounded_channel();
    let parent = FateLine::default();
    parent.bind(Parent(sender).start().recipient());
    let starts = Arc::new(AtomicUsize::new(0));
    let intensity = Intensity { max, base: Duration::from_millis(1), ..Intensity::default() };
    let counted = starts.clone();
    let make = move |lifeline| Counter { starts: counted, told: 0, lifeline, child: None };
    let counter = start(&Arbiter::current(), Name::Bus, intensity, &parent, 16, make);
    World { counter, starts, fates }
}

#[actix::test]
async fn a_panic_in_a_handler_restarts_the_actor_and_keeps_what_was_queued() {
    let mut world = world(5);
    assert_eq!(world.counter.send(Tell::Count).await.ok(), Some(1));
    let crash = world.counter.send(Tell::Panic);
    let behind = world.counter.send(Tell::Count);
    let (crash, behind) = futures::join!(crash, behind);
    assert!(matches!(crash, Err(MailboxError::Closed)));
    assert_eq!(behind.ok(), Some(1), "answered by the fresh state");
    assert_eq!(world.starts.load(Ordering::SeqCst), 2);
    let fate = world.fates.recv().await.expect("a fate");
    assert!(matches!(fate.kind, FateKind::Restarting { reason } if reason == "boom"));
}

#[actix::test]
async fn a_panic_in_a_linked_child_restarts_the_owner_and_drops_the_child() {
    let mut world = world(5);
    let dropped = Arc::new(AtomicUsize::new(0));
    world.counter.send(Tell::StartChild(dropped.clone())).await.expect("started");
    world.counter.send(Tell::PanicInChild).await.expect("told");
    let fate = world.fates.recv().await.expect("a fate");
    assert!(matches!(fate.kind, FateKind::Restarting { reason } if reason == "boom in the child"));
    assert_eq!(world.counter.send(Tell::Count).await.ok(), Some(1), "the owner's state is fresh");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[actix::test]
async fn a_child_goes_when_its_owner_crashes() {
    let mut world = world(5);
    let dropped = Arc::new(AtomicUsize::new(0));
    world.counter.send(Tell::StartChild(dropped.clone())).await.expect("started");
    let _ = world.counter.send(Tell::Panic).await;
    world.fates.recv().await.expect("a fate");
    world.counter.send(Tell::Count).await.expect("alive");
    tokio::task::yield_now().await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[actix::test]
async fn after_too_many_crashes_it_is_given_up() {
    let mut world = world(2);
    for _ in 0..3 {
        let _ = world.counter.send(Tell::Panic).await;
    }
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(world.fates.recv().await.expect("a fate").kind);
    }
    assert!(matches!(kinds[2], FateKind::GaveUp { .. }), "{kinds:?}");
    assert!(world.counter.send(Tell::Count).await.is_err());
}
