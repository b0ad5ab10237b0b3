//! Restarts what crashes. actix's own `Supervisor` does not: it never sees a panic, so ours polls an actor's future
//! itself and catches what unwinds out of it.
//!
//! - One for one: a panic drops the actor's state and everything it spawned, and starts it again from what is stored.
//!   Its address stays valid, queued messages stay queued; the message it crashed on is answered with
//!   `MailboxError::Closed`, which means: outcome unknown.
//! - After too many crashes it gives up and says so to its parent.
//! - [`Linked`] children are part of their owner's unit: a panic in one counts as a panic of the owner, and they go
//!   when the owner's state goes.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context as Poller, Poll, ready};
use std::time::Duration;

use actix::dev::ContextFut;
use actix::prelude::*;
use protocol::SessionId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// How often an actor may crash before it is given up, and how long the waits between are.
#[derive(Clone, Copy, Debug)]
pub struct Intensity {
    /// Most crashes…
    pub max: usize,
    /// …within this time.
    pub within: Duration,
    /// First wait before a restart; doubles.
    pub base: Duration,
    /// Longest wait.
    pub cap: Duration,
}

impl Default for Intensity {
    fn default() -> Self {
        Self { max: 5, within: Duration::from_secs(60), base: Duration::from_millis(20), cap: Duration::from_secs(1) }
    }
}

/// Which actor it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// One for each live session.
    Session(SessionId),
    /// One for each directory in use.
    Workspace(String),
    /// One for each directory with MCP servers.
    McpHost(String),
    /// One for each directory with plugins or custom tools.
    Plugins(String),
    /// One for each directory in which language servers were needed.
    LanguageServers(String),
    /// One.
    Registry,
    /// One.
    Broker,
    /// One.
    Gate,
    /// One.
    Bus,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "session {id}"),
            Self::Workspace(directory) => write!(f, "workspace {directory}"),
            Self::McpHost(directory) => write!(f, "MCP host of {directory}"),
            Self::Plugins(directory) => write!(f, "plugins of {directory}"),
            Self::LanguageServers(directory) => write!(f, "language servers of {directory}"),
            Self::Registry => f.write_str("registry"),
            Self::Broker => f.write_str("broker"),
            Self::Gate => f.write_str("gate"),
            Self::Bus => f.write_str("bus"),
        }
    }
}

/// What became of an actor.
#[derive(Message, Clone, Debug)]
#[rtype(result = "()")]
pub struct Fate {
    /// Which.
    pub name: Name,
    /// What.
    pub kind: FateKind,
}

/// What became of an actor.
#[derive(Clone, Debug)]
pub enum FateKind {
    /// It crashed and starts again after a wait.
    Restarting {
        /// What it died of.
        reason: String,
    },
    /// It crashed too often.
    GaveUp {
        /// What it died of last.
        reason: String,
    },
    /// It ended as it was asked to.
    Exited,
    /// It went on without something that failed, which a person should hear of.
    Warned {
        /// What failed, and why.
        reason: String,
    },
}

/// Where fates are told. Bound once its listener is up, since what it listens to is started first.
#[derive(Clone, Debug, Default)]
pub struct FateLine(Arc<OnceLock<Recipient<Fate>>>);

impl FateLine {
    /// Sets who hears of fates; the first one stays.
    pub fn bind(&self, listener: Recipient<Fate>) {
        let _ = self.0.set(listener);
    }

    /// Tells a fate. Whoever tells of more than crashes bounds how often.
    #[expect(clippy::disallowed_methods, reason = "bounded: one for each crash, and crashes are")]
    pub fn tell(&self, fate: Fate) {
        if let Some(listener) = self.0.get() {
            listener.do_send(fate);
        }
    }
}

/// An actor that can be started again. `Supervised::restarting` must throw all state away; `Actor::started`, which
/// runs again after it, loads what is stored.
pub trait Restartable: Supervised + Actor<Context = Context<Self>> + Unpin {}

impl<A: Supervised + Actor<Context = Context<A>> + Unpin> Restartable for A {}

/// Starts an actor under supervision on an arbiter. `make` is run there. `parent` hears of its fate.
pub fn start<A: Restartable>(
    arbiter: &ArbiterHandle,
    name: Name,
    intensity: Intensity,
    parent: &FateLine,
    mailbox: usize,
    make: impl FnOnce(Lifeline) -> A + Send + 'static,
) -> Addr<A> {
    let (sender, receiver) = actix::dev::channel::channel(mailbox);
    let parent = parent.clone();
    arbiter.spawn_fn(move || {
        let (lifeline, broken) = mpsc::unbounded_channel();
        let actor = make(Lifeline(lifeline));
        let future = Context::with_receiver(receiver).into_future(actor);
        let supervisor =
            Supervisor { name, future: Some(future), broken, crashes: VecDeque::new(), intensity, parent, wait: None };
        actix::spawn(supervisor);
    });
    Addr::new(sender)
}

/// Lets an actor start [`Linked`] children.
#[derive(Clone, Debug)]
pub struct Lifeline(mpsc::UnboundedSender<String>);

impl Lifeline {
    /// Starts a child on the current arbiter.
    pub fn start<A: Actor<Context = Context<A>> + Unpin>(&self, actor: A) -> Linked<A> {
        let (sender, receiver) = actix::dev::channel::channel(64);
        let (alive, dead) = oneshot::channel();
        let future = Context::with_receiver(receiver).into_future(actor);
        actix::spawn(LinkedFuture { future: Some(future), dead, lifeline: self.clone() });
        Linked { address: Addr::new(sender), _alive: alive }
    }
}

/// A child that falls with its owner, and its owner with it. Dropping it ends the child at once.
#[derive(Debug)]
pub struct Linked<A: Actor> {
    /// Where it takes messages.
    pub address: Addr<A>,
    _alive: oneshot::Sender<()>,
}

struct LinkedFuture<A: Actor<Context = Context<A>>> {
    future: Option<ContextFut<A, Context<A>>>,
    dead: oneshot::Receiver<()>,
    lifeline: Lifeline,
}

impl<A: Actor<Context = Context<A>> + Unpin> Future for LinkedFuture<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Poller<'_>) -> Poll<()> {
        let this = &mut *self;
        if Pin::new(&mut this.dead).poll(cx).is_ready() {
            drop_quietly(&mut this.future);
            return Poll::Ready(());
        }
        let Some(future) = this.future.as_mut() else { return Poll::Ready(()) };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(()),
            Err(panic) => {
                // The owner may be gone already; then nobody has to hear of it.
                let _ = this.lifeline.0.send(reason(&*panic));
                drop_quietly(&mut this.future);
                Poll::Ready(())
            }
        }
    }
}

struct Supervisor<A: Restartable> {
    name: Name,
    future: Option<ContextFut<A, Context<A>>>,
    /// Panics of linked children.
    broken: mpsc::UnboundedReceiver<String>,
    crashes: VecDeque<Instant>,
    intensity: Intensity,
    parent: FateLine,
    /// The wait before a restart; messages queue meanwhile.
    wait: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<A: Restartable> Future for Supervisor<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Poller<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if let Some(wait) = &mut this.wait {
                ready!(wait.as_mut().poll(cx));
                this.wait = None;
                // Panics of children of the state that is thrown away now have been counted with it.
                while this.broken.try_recv().is_ok() {}
                let Some(future) = this.future.as_mut() else { return Poll::Ready(()) };
                match catch_unwind(AssertUnwindSafe(|| future.restart())) {
                    Ok(true) => {}
                    Ok(false) => return this.finish(FateKind::Exited),
                    Err(panic) if this.crashed(reason(&*panic)).is_ready() => return Poll::Ready(()),
                    Err(_) => continue,
                }
            }
            if let Poll::Ready(Some(reason)) = this.broken.poll_recv(cx) {
                if this.crashed(reason).is_ready() {
                    return Poll::Ready(());
                }
                continue;
            }
            let Some(future) = this.future.as_mut() else { return Poll::Ready(()) };
            match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => return this.finish(FateKind::Exited),
                Err(panic) if this.crashed(reason(&*panic)).is_ready() => return Poll::Ready(()),
                Err(_) => {}
            }
        }
    }
}

impl<A: Restartable> Supervisor<A> {
    /// Counts a crash: a wait before the restart, or the end.
    fn crashed(&mut self, reason: String) -> Poll<()> {
        let now = Instant::now();
        self.crashes.retain(|crash| now.duration_since(*crash) < self.intensity.within);
        self.crashes.push_back(now);
        let count = self.crashes.len();
        tracing::error!(actor = %self.name, %reason, count, "an actor crashed");
        if count > self.intensity.max {
            return self.finish(FateKind::GaveUp { reason });
        }
        let doubled = self.intensity.base.saturating_mul(1 << (count - 1).min(16));
        self.wait = Some(Box::pin(tokio::time::sleep(doubled.min(self.intensity.cap))));
        self.tell(FateKind::Restarting { reason });
        Poll::Pending
    }

    fn finish(&mut self, kind: FateKind) -> Poll<()> {
        drop_quietly(&mut self.future);
        self.tell(kind);
        Poll::Ready(())
    }

    fn tell(&self, kind: FateKind) {
        self.parent.tell(Fate { name: self.name.clone(), kind });
    }
}

/// Drops an actor; its `stopped` runs on a state that may be torn, and must not take the arbiter along.
fn drop_quietly<F>(future: &mut Option<F>) {
    if let Some(future) = future.take()
        && catch_unwind(AssertUnwindSafe(move || drop(future))).is_err()
    {
        tracing::error!("an actor panicked while it was dropped");
    }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests;
