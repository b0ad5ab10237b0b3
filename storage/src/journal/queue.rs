//! What waits to be written: which commands are void, which make the next transaction, which pass it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use protocol::{Clock, Ids, SessionId};
use tokio::sync::{mpsc, oneshot};

use super::fold::Counters;
use super::fold::Fold;
use super::writer::{Outcome, Writer};
use super::{Change, Command, Epoch, Fence, JournalError, Record};
use crate::frame::{Frame, Sink};

/// Most commands of one transaction.
const BATCH: usize = 256;
/// A transaction takes no more commands once it has this many bytes: it is in memory several times while written.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The journal's task.
pub struct Queue {
    /// None while a commit runs.
    writer: Option<Writer>,
    sink: Arc<dyn Sink>,
    ids: Arc<Ids>,
    clock: Arc<dyn Clock>,
    /// Accepted, not yet begun, in order.
    waiting: VecDeque<Entry>,
    /// How many commands of a session wait or are being written: its later ones must wait too.
    pending: HashMap<SessionId, usize>,
    live: HashMap<SessionId, Live>,
    /// Sessions whose numbers the writer may forget.
    released: Vec<SessionId>,
    closing: Option<oneshot::Sender<()>>,
}

/// The accepted epoch of a session.
struct Live {
    epoch: Epoch,
    /// Why nothing of it is taken any more.
    poisoned: Option<String>,
}

struct Entry {
    record: Record,
    answer: oneshot::Sender<Result<(), JournalError>>,
}

struct Committed {
    writer: Writer,
    batch: Vec<Record>,
    outcomes: Vec<Outcome>,
    answers: Vec<oneshot::Sender<Result<(), JournalError>>>,
}

impl Queue {
    /// Returns a queue before this writer.
    pub fn new(writer: Writer, sink: Arc<dyn Sink>) -> Self {
        let (ids, clock) = writer.ids();
        Self {
            writer: Some(writer),
            sink,
            ids,
            clock,
            waiting: VecDeque::new(),
            pending: HashMap::new(),
            live: HashMap::new(),
            released: Vec::new(),
            closing: None,
        }
    }

    /// Works until it is closed, or until all handles are gone.
    pub async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut running: Option<BoxFuture<'static, Committed>> = None;
        let mut taken = Vec::with_capacity(BATCH);
        let mut open = true;
        loop {
            if running.is_none() {
                running = self.begin().await;
            }
            match (&mut running, open) {
                (None, false) => break,
                (None, true) => open = commands.recv_many(&mut taken, BATCH).await > 0,
                (Some(commit), false) => {
                    let done = commit.await;
                    running = None;
                    self.end(done).await;
                }
                (Some(commit), true) => tokio::select! {
                    done = commit => {
                        running = None;
                        self.end(done).await;
                    }
                    count = commands.recv_many(&mut taken, BATCH) => open = count > 0,
                },
            }
            self.take(&mut taken).await;
            open = open && self.closing.is_none();
        }
        if let Some(writer) = self.writer.take() {
            writer.close().await;
        }
        if let Some(closing) = self.closing.take() {
            let _ = closing.send(());
        }
    }

    /// Sorts what came: void, at once, or into the queue.
    async fn take(&mut self, taken: &mut Vec<Command>) {
        let mut passing = Vec::new();
        for command in taken.drain(..) {
            match command {
                Command::Fence(Fence { session_id, epoch }) => {
                    self.live.insert(session_id, Live { epoch, poisoned: None });
                }
                Command::Release(Fence { session_id, epoch }) => {
                    if self.live.get(&session_id).is_some_and(|live| live.epoch == epoch) {
                        self.live.remove(&session_id);
                        self.released.push(session_id);
                    }
                }
                Command::Close(done) => self.closing = Some(done),
                Command::Record { record, answer } => self.accept(Entry { record, answer }, &mut passing),
            }
        }
        self.tell(passing).await;
    }

    fn accept(&mut self, entry: Entry, passing: &mut Vec<Entry>) {
        if let Err(error) = self.check(&entry.record) {
            let _ = entry.answer.send(Err(error));
            return;
        }
        let stores = entry.record.changes.iter().any(Change::is_stored);
        let session_waits = entry.record.fence.as_ref().is_some_and(|f| self.pending.contains_key(&f.session_id));
        if !stores && !session_waits {
            passing.push(entry);
            return;
        }
        if let Some(fence) = &entry.record.fence {
            *self.pending.entry(fence.session_id.clone()).or_default() += 1;
        }
        self.waiting.push_back(entry);
    }

    fn check(&self, record: &Record) -> Result<(), JournalError> {
        let Some(fence) = &record.fence else { return Ok(()) };
        match self.live.get(&fence.session_id) {
            Some(live) if live.epoch == fence.epoch => {
                live.poisoned.clone().map_or(Ok(()), |cause| Err(JournalError::Poisoned(cause)))
            }
            _ => Err(JournalError::Stale),
        }
    }

    /// Begins the next transaction, if there is anything to store. What stores nothing and has no earlier command of
    /// its session in that transaction is told before it.
    async fn begin(&mut self) -> Option<BoxFuture<'static, Committed>> {
        let mut passing = Vec::new();
        let mut batch = Vec::new();
        let mut answers = Vec::new();
        let mut sessions: HashSet<SessionId> = HashSet::new();
        let mut bytes = 0;
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(entry) = self.waiting.pop_front() else { break };
            // It was checked when it came; meanwhile an earlier command of its epoch may have failed.
            if let Some(cause) = self.poison_of(&entry.record) {
                self.settle(&entry.record);
                let _ = entry.answer.send(Err(JournalError::Poisoned(cause)));
                continue;
            }
            let session = entry.record.fence.as_ref().map(|f| f.session_id.clone());
            let stores = entry.record.changes.iter().any(Change::is_stored);
            if !stores && !session.as_ref().is_some_and(|s| sessions.contains(s)) {
                self.settle(&entry.record);
                passing.push(entry);
                continue;
            }
            sessions.extend(session);
            bytes += entry.record.changes.iter().map(Change::size).sum::<usize>();
            batch.push(entry.record);
            answers.push(entry.answer);
        }
        self.tell(passing).await;
        if batch.is_empty() {
            return None;
        }
        let mut writer = self.writer.take()?;
        for session_id in self.released.drain(..) {
            writer.forget(&session_id);
        }
        Some(
            async move {
                let outcomes = writer.commit(&batch).await;
                Committed { writer, batch, outcomes, answers }
            }
            .boxed(),
        )
    }

    /// Tells what the transaction's commands tell, then acknowledges them.
    async fn end(&mut self, done: Committed) {
        let Committed { writer, batch, outcomes, answers } = done;
        self.writer = Some(writer);
        let mut frames = Vec::new();
        let mut acks = Vec::with_capacity(answers.len());
        for ((record, outcome), answer) in batch.into_iter().zip(outcomes).zip(answers) {
            self.settle(&record);
            match outcome {
                Ok(told) => {
                    frames.extend(told);
                    acks.push((answer, Ok(())));
                }
                Err(error) => {
                    tracing::error!(%error, session.id = ?record.fence.as_ref().map(|f| &f.session_id), "a command was not stored");
                    self.poison(&record, &error);
                    acks.push((answer, Err(error)));
                }
            }
        }
        self.publish(frames).await;
        for (answer, result) in acks {
            let _ = answer.send(result);
        }
    }

    /// Tells what is not stored.
    async fn tell(&mut self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut fold = Fold::new(Counters::default(), &self.ids, self.clock.now_ms());
        let mut frames = Vec::new();
        let mut acks = Vec::with_capacity(entries.len());
        for Entry { record, answer } in entries {
            match fold.add(&record.origin, &record.changes) {
                Ok(told) => {
                    frames.extend(told);
                    acks.push((answer, Ok(())));
                }
                Err(error) => acks.push((answer, Err(JournalError::Refused(error.to_string())))),
            }
        }
        self.publish(frames).await;
        for (answer, result) in acks {
            let _ = answer.send(result);
        }
    }

    async fn publish(&self, frames: Vec<Frame>) {
        if !frames.is_empty() {
            self.sink.publish(frames).await;
        }
    }

    /// A command of its session waits no longer.
    fn settle(&mut self, record: &Record) {
        let Some(fence) = &record.fence else { return };
        if let Some(count) = self.pending.get_mut(&fence.session_id) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(&fence.session_id);
            }
        }
    }

    fn poison_of(&self, record: &Record) -> Option<String> {
        let fence = record.fence.as_ref()?;
        self.live.get(&fence.session_id).filter(|live| live.epoch == fence.epoch)?.poisoned.clone()
    }

    fn poison(&mut self, record: &Record, error: &JournalError) {
        let Some(fence) = &record.fence else { return };
        if let Some(live) = self.live.get_mut(&fence.session_id).filter(|live| live.epoch == fence.epoch) {
            live.poisoned.get_or_insert_with(|| error.to_string());
        }
    }
}
