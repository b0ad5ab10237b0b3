//! Runs a decoder over the event stream of an answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt};
use protocol::model::ModelEvent;
use sse::SseEvent;

use crate::adapter::Events;
use crate::error::{Blame, ProviderError};

/// Most time to wait for the end of a body after the last event, so that its connection can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// A pure fold over the events of one answer.
pub(crate) trait Decode: Send + Unpin + 'static {
    /// Takes an event and adds what it says to `out`, also when it returns an error.
    fn feed(&mut self, event: &SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Takes the end of the stream and adds what is left, [`ModelEvent::Finish`] last. Errors when the answer isn't
    /// whole; `clean` says whether the server ended the stream or it was lost.
    fn end(&mut self, clean: bool, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError>;

    /// Returns whether `Finish` was given.
    fn is_done(&self) -> bool;
}

/// A stream of [`crate::ModelStream`]'s items.
pub(crate) struct Run<D> {
    events: Option<Events>,
    decoder: D,
    blame: Blame,
    /// An error that comes after the events before it.
    held: Option<ProviderError>,
}

impl<D: Decode> Run<D> {
    pub(crate) fn new(events: Events, decoder: D, blame: Blame) -> Self {
        Self { events: Some(events), decoder, blame, held: None }
    }
}

impl<D: Decode> Stream for Run<D> {
    type Item = Result<Vec<ModelEvent>, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(error) = this.held.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        let mut out = Vec::new();
        while out.is_empty() {
            let result = match ready!(events.poll_next_unpin(cx)) {
                Some(Ok(batch)) => batch.iter().try_for_each(|event| this.decoder.feed(event, &mut out)),
                // What the decoder has may be a whole answer all the same. If not, the loss is what is reported.
                Some(Err(lost)) => {
                    this.decoder.end(false, &mut out).map_err(|_| ProviderError::from_sse(lost, this.blame.now_ms()))
                }
                None => this.decoder.end(true, &mut out),
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
