//! The one writer. Commands queue here; whatever queued during the last commit is the next transaction; after it the
//! events of its commands go out, in order.
//!
//! - An event is published only after what it tells is committed; a command is acknowledged only then.
//! - Commands of one session keep their order, its deltas among them. A command that stores nothing waits only for
//!   earlier ones of its own session and passes a commit that is running.
//! - A command carries the epoch of its session. A newer [`Journal::fence`] makes older commands void, and after one
//!   command of an epoch failed the rest of that epoch is void too: so what outlives its actor writes nothing.
//! - The queue is bounded by bytes: what may be large asks for [`Journal::room`] first.

mod change;
mod fold;
mod meter;
mod queue;
mod tables;
mod writer;

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use protocol::{Clock, Ids, SessionId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::database::Database;
use crate::error::StorageError;
use crate::frame::{Origin, Sink};

pub use change::{Approval, AskRow, AskedBy, Change, ProcessRow, TurnKind, TurnRow};
pub(crate) use change::{StoredAnswers, StoredReply};
pub use meter::Commits;
use meter::Meter;
use queue::Queue;
use writer::Writer;

/// Most bytes that wait in the queue.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// What one permit of the queue's semaphore stands for, in bytes.
const GRAIN: usize = 1024;

/// The way to the one writer.
#[derive(Clone)]
pub struct Journal {
    queue: mpsc::UnboundedSender<Command>,
    room: Arc<Semaphore>,
    epochs: Arc<AtomicU64>,
    meter: Arc<Meter>,
}

/// A stretch of a session's life: from one start, abort or delete to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// What a command of a session carries: void once the session has a newer epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The session.
    pub session_id: SessionId,
    /// Its epoch.
    pub epoch: Epoch,
}

/// Room in the queue, held until the command is written.
#[derive(Debug)]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

/// One command: stored in one transaction, then seen.
#[derive(Debug)]
pub struct Record {
    /// The session and epoch it belongs to; none for what belongs to no session.
    pub fence: Option<Fence>,
    /// Where its events happened.
    pub origin: Arc<Origin>,
    /// What is stored and told, in order.
    pub changes: Vec<Change>,
    /// Room it was given beforehand, for large ones.
    pub room: Option<Room>,
}

/// Why a command was not carried out. Nothing of it is stored or seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The session has a newer epoch.
    #[error("the command belongs to an earlier start of its session")]
    Stale,
    /// An earlier command of the same epoch failed.
    #[error("an earlier command of the session failed: {0}")]
    Poisoned(String),
    /// The database refused it.
    #[error("the database refused it: {0}")]
    Refused(String),
    /// The disk is full, or the file can't be written, and did not recover.
    #[error("the database can't be written: {0}")]
    Unwritable(String),
    /// The service is stopping.
    #[error("the service is stopping")]
    Closed,
}

/// What becomes of a command.
#[derive(Debug)]
#[must_use = "a command may fail; await it, or say why not"]
pub struct Ack(oneshot::Receiver<Result<(), JournalError>>);

impl Future for Ack {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(JournalError::Closed)))
    }
}

impl Ack {
    /// Goes on without waiting: a later command of the same epoch will fail if this one does.
    pub fn detach(self) {}
}

/// What goes through the queue.
enum Command {
    Fence(Fence),
    Release(Fence),
    Record { record: Record, answer: oneshot::Sender<Result<(), JournalError>> },
    Close(oneshot::Sender<()>),
}

impl Journal {
    /// Starts the writer on the current tokio runtime. `ids` names the events, `clock` dates them.
    pub async fn start(
        database: &Database,
        sink: Arc<dyn Sink>,
        ids: Arc<Ids>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StorageError> {
        let meter = Arc::new(Meter::default());
        let writer = Writer::open(database, meter.clone(), ids, clock).await?;
        let (queue, commands) = mpsc::unbounded_channel();
        tokio::spawn(Queue::new(writer, sink).run(commands));
        let room = Arc::new(Semaphore::new(QUEUE_BYTES / GRAIN));
        Ok(Self { queue, room, epochs: Arc::new(AtomicU64::new(1)), meter })
    }

    /// Returns what was committed since the start.
    pub fn commits(&self) -> Commits {
        self.meter.read()
    }

    /// Begins a new epoch of a session: commands of older ones that come after this are void.
    pub fn fence(&self, session_id: &SessionId) -> Fence {
        let epoch = Epoch(self.epochs.fetch_add(1, Ordering::Relaxed));
        let fence = Fence { session_id: session_id.clone(), epoch };
        self.send(Command::Fence(fence.clone()));
        fence
    }

    /// Ends an epoch for good: nothing of the session is accepted until its next [`Journal::fence`].
    pub fn release(&self, fence: Fence) {
        self.send(Command::Release(fence));
    }

    /// Waits until the queue has room for a command of about `bytes`.
    pub async fn room(&self, bytes: usize) -> Result<Room, JournalError> {
        let grains = (bytes / GRAIN + 1).min(QUEUE_BYTES / GRAIN) as u32;
        let permit = self.room.clone().acquire_many_owned(grains).await.map_err(|_| JournalError::Closed)?;
        Ok(Room { _permit: permit })
    }

    /// Queues a command. It is carried out whether or not the [`Ack`] is awaited.
    pub fn record(&self, record: Record) -> Ack {
        let (answer, ack) = oneshot::channel();
        self.send(Command::Record { record, answer });
        Ack(ack)
    }

    /// Writes what is queued, closes the database's write side and returns. Later commands fail.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.send(Command::Close(done));
        let _ = closed.await;
    }

    fn send(&self, command: Command) {
        // A closed queue drops the command and with it the answer's sender: the ack says `Closed`.
        let _ = self.queue.send(command);
    }
}
