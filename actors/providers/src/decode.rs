//! Runs a decoder over the event stream of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt};
use protocol::model::ModelEvent;
use sse::{Idle, SseError, SseEvent};

use crate::adapter::Events;
use crate::error::{Blame, ProviderError};

/// Most time to wait for the end of a body after the last event, so that its connection can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// Most time to wait for more once the finish reason came: counts follow it at once, and some servers then leave the
/// connection open.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// A pure fold over the events of one answer.
pub(crate) trait Decode: Send + Unpin + 'static {
    /// Takes an event and adds what it says to `out`, also when it returns an error.
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Takes the end of the stream and adds what is left, [`ModelEvent::Finish`] last. Errors when the answer isn't
    /// whole; `clean` says whether the server ended the stream or it was lost.
    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Returns how far the answer is.
    fn progress(&self) -> Progress;

    /// Returns whether `Finish` was given.
    fn is_done(&self) -> bool {
        self.progress().stage == Stage::Done
    }
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    /// Another number after each event that carried something of the answer. A ping carries nothing, nor does a piece
    /// without text, thinking, arguments or reason, in whichever form a server sends its signs of life.
    pub(crate) steps: usize,
}

/// What is still to come of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    /// The finish reason came; counts may follow.
    Finished,
    /// `Finish` was given.
    Done,
}

/// A stream of [`crate::ModelStream`]'s items.
pub(crate) struct Run<D> {
    events: Option<Events>,
    decoder: D,
    blame: Blame,
    /// Most time between two events that carry something.
    limit: Duration,
    /// Since the last of them; from the first event on, for before it the events have a limit of their own.
    idle: Option<Idle>,
    /// An error that comes after the events before it.
    held: Option<ProviderError>,
}

impl<D: Decode> Run<D> {
    /// `limit` is the most time between two events that carry something of the answer.
    pub(crate) fn new(events: Events, decoder: D, blame: Blame, limit: Duration) -> Self {
        Self { events: Some(events), decoder, blame, limit, idle: None, held: None }
    }

    /// Takes events.
    fn feed(&mut self, batch: &[SseEvent], out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let before = self.decoder.progress();
        batch.iter().try_for_each(|event| self.decoder.feed(event, out))?;
        let limit = self.patience();
        let carried = self.decoder.progress() != before;
        match &mut self.idle {
            Some(idle) if carried => idle.restart(),
            // A flood of pings may never let `poll_next` look at the time.
            Some(idle) if idle.is_over(limit) => return self.give_up(out),
            Some(_) => {}
            None => self.idle = Some(Idle::new(limit)),
        }
        Ok(())
    }

    /// Returns how long to wait for something.
    fn patience(&self) -> Duration {
        match self.decoder.progress().stage {
            Stage::Finished => self.limit.min(AFTER_FINISH),
            Stage::Open | Stage::Done => self.limit,
        }
    }

    /// Nothing came for too long: an answer that has its reason is over, any other is lost.
    fn give_up(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        match self.decoder.progress().stage {
            Stage::Finished => self.decoder.end(true, out),
            Stage::Open | Stage::Done => {
                let limit_ms = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
                self.lost(SseError::Idle { limit_ms }, out)
            }
        }
    }

    /// What the decoder has may be a whole answer all the same. If not, the loss is what is reported.
    fn lost(&mut self, error: SseError, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let now_ms = self.blame.now_ms();
        self.decoder.end(false, out).map_err(|_| ProviderError::from_sse(error, now_ms))
    }
}

impl<D: Decode> Stream for Run<D> {
    type Item = Result<Vec<ModelEvent>, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(error) = this.held.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(events) = &mut this.events else { return Poll::Ready(None) };
            let result = match events.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(batch))) => this.feed(&batch, &mut out),
                Poll::Ready(Some(Err(error))) => this.lost(error, &mut out),
                Poll::Ready(None) => this.decoder.end(true, &mut out),
                Poll::Pending => {
                    let limit = this.patience();
                    let Some(idle) = &mut this.idle else { return Poll::Pending };
                    ready!(idle.poll(limit, cx));
                    this.give_up(&mut out)
                }
            };
            if let Err(error) = result {
                this.events = None;
                let error = this.blame.put(error);
                if out.is_empty() {
                    return Poll::Ready(Some(Err(error)));
                }
                this.held = Some(error);
                break;
            }
            if this.decoder.is_done() {
                if let Some(events) = this.events.take() {
                    drain(events, cx);
                }
                break;
            }
        }
        Poll::Ready(Some(Ok(out)))
    }
}

/// Reads on to the end of the body: a connection whose body wasn't read to its end is closed, and the next request
/// would have to connect again.
fn drain(mut events: Events, cx: &mut Context<'_>) {
    if !matches!(events.poll_next_unpin(cx), Poll::Pending | Poll::Ready(Some(Ok(_)))) {
        return;
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tokio::time::timeout(DRAIN, async move { while let Some(Ok(_)) = events.next().await {} }));
    }
}
