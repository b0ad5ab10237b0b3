//! Turns one model request into parts: opens the stream, folds its events, tries again what may be tried again, and
//! reports to its session. One for each model step, part of the session's unit.
//! Told by: the stream's task on the I/O runtime. Tells: its [`Session`](crate::session::Session), which stores.
//!
//! What a failed stream said is taken back when the next one says something. Once a call was handed over the request
//! is never repeated: the step ends there, and the session asks again with the results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use futures::StreamExt;
use protocol::config::RetryConfig;
use protocol::message::Tokens;
use protocol::model::{FinishReason, ModelEvent, ModelRequest};
use protocol::{Clock, Ids, MessageId, Part, PartId, SessionError, SessionId};
use providers::{Provider, ProviderError};
use storage::{Delta, Journal, Room};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::provider_gate::{Gate, Visitor, Wait};

pub mod retry;
pub mod turn;

use retry::Decision;
use turn::Fold;
pub use turn::ReadyCall;

use crate::session::hooks::Refine;

/// How often text that grows is stored.
const CHECKPOINT: Duration = Duration::from_secs(1);

/// What a processor is made with.
pub struct ProcessorDeps {
    /// Names parts.
    pub ids: Arc<Ids>,
    /// Dates them.
    pub clock: Arc<dyn Clock>,
    /// Bounds how far the stream may run ahead of what is stored.
    pub journal: Journal,
    /// Lets its requests through.
    pub gate: Gate,
    /// Where the stream's task runs.
    pub io: Handle,
    /// Hears of everything.
    pub session: Recipient<StepUpdates>,
}

/// One model step.
#[derive(Clone)]
pub struct Step {
    /// The session.
    pub session_id: SessionId,
    /// The message that is made.
    pub message_id: MessageId,
    /// Who is asked.
    pub provider: Arc<dyn Provider>,
    /// The provider's key, for errors.
    pub provider_id: String,
    /// Makes the request; called on the I/O runtime, once for each try.
    pub request: Arc<dyn Fn() -> ModelRequest + Send + Sync>,
    /// What plugins make of it.
    pub refine: Option<Refine>,
    /// Who asks, at the gate.
    pub visitor: Visitor,
    /// How often, and how soon.
    pub retry: RetryConfig,
}

/// What a step did, in order.
#[derive(Message, Debug)]
#[rtype(result = "()")]
pub struct StepUpdates {
    /// The step's message.
    pub message_id: MessageId,
    /// What happened.
    pub updates: Vec<StepUpdate>,
    /// Room for it in the journal's queue.
    pub room: Option<Room>,
}

/// One thing a step did.
#[derive(Debug)]
pub enum StepUpdate {
    /// The answer begins. Once a step.
    Began,
    /// A part is there, or changed: store and tell it.
    Part(Arc<Part>),
    /// A part has grown: store it, its deltas have told it.
    Grown(Arc<Part>),
    /// Text was appended.
    Delta(Arc<Delta>),
    /// A part is taken back.
    Removed(PartId),
    /// A call can run.
    Call(Box<ReadyCall>),
    /// A try failed, and another follows.
    Retrying {
        /// Which try failed, from 1.
        attempt: u32,
        /// Why.
        message: String,
        /// When the next begins (ms since the Unix epoch).
        next: u64,
    },
    /// The next try begins.
    Trying,
    /// The request waits in a line, at this position from 1.
    Waiting(usize),
    /// The answer has ended. Nothing follows.
    Ended(StepEnd),
}

/// How an answer ended.
#[derive(Debug)]
pub enum StepEnd {
    /// As it should.
    Finished {
        /// Why.
        reason: FinishReason,
        /// What it used.
        usage: Tokens,
    },
    /// It broke off after calls were handed over.
    Cut,
    /// It failed for good.
    Failed {
        /// Why.
        error: Box<SessionError>,
        /// How many tokens the model takes, where its server said that it was too much.
        window: Option<u64>,
        /// Whether another model may answer.
        may_go_elsewhere: bool,
    },
}

/// Folds one stream.
pub struct Processor {
    deps: ProcessorDeps,
    step: Step,
    fold: Fold,
    /// From 1.
    attempt: u32,
    has_begun: bool,
    /// Dropping it ends the request.
    stream: Option<AbortOnDropHandle<()>>,
}

/// Events of a stream that came at once.
#[derive(Message)]
#[rtype(result = "()")]
struct Chunk {
    attempt: u32,
    item: Result<Vec<ModelEvent>, ProviderError>,
    room: Option<Room>,
}

/// The request waits at the gate, or no longer.
#[derive(Message)]
#[rtype(result = "()")]
struct Waiting {
    attempt: u32,
    wait: Option<Wait>,
}

/// Tell the part that grows whole: a client came in the middle.
#[derive(Message)]
#[rtype(result = "()")]
pub struct TellOpenPart;

/// Give the part that grows, whole: the step is stopped.
#[derive(Message)]
#[rtype(result = "Option<Arc<Part>>")]
pub struct TakeOpenPart;

impl Processor {
    /// Returns a processor for a step; the request is sent when it starts.
    pub fn new(deps: ProcessorDeps, step: Step) -> Self {
        let fold = Fold::new(deps.ids.clone(), step.session_id.clone(), step.message_id.clone());
        Self { deps, step, fold, attempt: 1, has_begun: false, stream: None }
    }

    fn open(&mut self, ctx: &mut Context<Self>) {
        let (provider, request, refine) =
            (self.step.provider.clone(), self.step.request.clone(), self.step.refine.clone());
        let (gate, visitor) = (self.deps.gate.clone(), self.step.visitor.clone());
        let (journal, address, attempt) = (self.deps.journal.clone(), ctx.address(), self.attempt);
        self.stream = Some(AbortOnDropHandle::new(self.deps.io.spawn(async move {
            let refined = match refine {
                Some(refine) => Some(refine(request()).await),
                None => None,
            };
            let mut was_paused = false;
            let tell = |wait| {
                was_paused |= matches!(wait, Wait::Pause { .. });
                drop(address.try_send(Waiting { attempt, wait: Some(wait) }));
            };
            let mut place = match gate.enter(visitor, tell).await {
                Ok(place) => place,
                // Another was told so; asking again would make it worse.
                Err(error) => {
                    let _ = address.send(Chunk { attempt, item: Err(error), room: None }).await;
                    return;
                }
            };
            if was_paused {
                drop(address.try_send(Waiting { attempt, wait: None }));
            }
            let mut stream = provider.stream(refined.unwrap_or_else(|| request()));
            while let Some(item) = place.hear(stream.next()).await {
                // The stream waits here when what it said can't be stored as fast.
                let room = journal.room(size_of(&item)).await.ok();
                if address.send(Chunk { attempt, item, room }).await.is_err() {
                    return;
                }
            }
        })));
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: the stream's task waits for each chunk's handler")]
    fn tell(&self, updates: Vec<StepUpdate>, room: Option<Room>) {
        if !updates.is_empty() {
            self.deps.session.do_send(StepUpdates { message_id: self.step.message_id.clone(), updates, room });
        }
    }

    fn failed(&mut self, error: ProviderError, updates: &mut Vec<StepUpdate>, ctx: &mut Context<Self>) {
        self.stream = None;
        let now = self.deps.clock.now_ms();
        if self.fold.has_handed_over() {
            self.fold.end(now, updates);
            tracing::warn!(%error, session.id = %self.step.session_id, "an answer broke off after its calls");
            updates.push(StepUpdate::Ended(StepEnd::Cut));
            return;
        }
        match retry::decide(&error, self.attempt, &self.step.retry, rand::random()) {
            Decision::Wait(wait) => {
                self.fold.fail();
                updates.push(StepUpdate::Retrying {
                    attempt: self.attempt,
                    message: error.status_text().to_owned(),
                    next: now + wait.as_millis() as u64,
                });
                ctx.run_later(wait, |processor, ctx| {
                    processor.attempt += 1;
                    processor.tell(vec![StepUpdate::Trying], None);
                    processor.open(ctx);
                });
            }
            Decision::GiveUp(reason) => {
                self.fold.end(now, updates);
                let (window, may_go_elsewhere) = (error.context_limit(), error.may_go_elsewhere());
                let mut error = error.to_session_error(&self.step.provider_id);
                if let (Some(reason), SessionError::ApiError(api)) = (reason, &mut error) {
                    api.message = format!("{} ({reason})", api.message);
                }
                updates.push(StepUpdate::Ended(StepEnd::Failed { error: Box::new(error), window, may_go_elsewhere }));
            }
        }
    }
}

impl Actor for Processor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.open(ctx);
        ctx.run_interval(CHECKPOINT, |processor, _| {
            if let Some(part) = processor.fold.checkpoint() {
                processor.tell(vec![StepUpdate::Grown(part)], None);
            }
        });
    }
}

impl Handler<Chunk> for Processor {
    type Result = ();

    fn handle(&mut self, Chunk { attempt, item, room }: Chunk, ctx: &mut Self::Context) {
        if attempt != self.attempt || self.stream.is_none() {
            return;
        }
        let mut updates = Vec::new();
        match item {
            Ok(events) => {
                if !self.has_begun {
                    self.has_begun = true;
                    updates.push(StepUpdate::Began);
                }
                let now = self.deps.clock.now_ms();
                if let Some((reason, usage)) = self.fold.apply(events, now, &mut updates) {
                    self.stream = None;
                    self.fold.end(now, &mut updates);
                    updates.push(StepUpdate::Ended(StepEnd::Finished { reason, usage }));
                }
            }
            Err(error) => self.failed(error, &mut updates, ctx),
        }
        self.tell(updates, room);
    }
}

impl Handler<Waiting> for Processor {
    type Result = ();

    fn handle(&mut self, Waiting { attempt, wait }: Waiting, _: &mut Self::Context) {
        if attempt != self.attempt {
            return;
        }
        let update = match wait {
            Some(Wait::Turn(position)) => StepUpdate::Waiting(position),
            Some(Wait::Pause { reason, until }) => {
                let left = until.saturating_duration_since(Instant::now());
                let next = self.deps.clock.now_ms() + left.as_millis() as u64;
                StepUpdate::Retrying { attempt, message: reason, next }
            }
            None => StepUpdate::Trying,
        };
        self.tell(vec![update], None);
    }
}

impl Handler<TellOpenPart> for Processor {
    type Result = ();

    fn handle(&mut self, _: TellOpenPart, _: &mut Self::Context) {
        if let Some(part) = self.fold.open_part() {
            self.tell(vec![StepUpdate::Part(part)], None);
        }
    }
}

impl Handler<TakeOpenPart> for Processor {
    type Result = Option<Arc<Part>>;

    fn handle(&mut self, _: TakeOpenPart, _: &mut Self::Context) -> Self::Result {
        self.stream = None;
        self.fold.open_part()
    }
}

/// About how much the journal's queue holds because of it.
fn size_of(item: &Result<Vec<ModelEvent>, ProviderError>) -> usize {
    let text = |event: &ModelEvent| match event {
        ModelEvent::TextDelta(text) | ModelEvent::ReasoningDelta(text) => text.len(),
        ModelEvent::CallBroken { raw, .. } => raw.len(),
        ModelEvent::Call { input, .. } => input.values().map(|v| v.as_str().map_or(16, str::len)).sum(),
        _ => 0,
    };
    item.as_ref().map_or(0, |events| events.iter().map(text).sum())
}
