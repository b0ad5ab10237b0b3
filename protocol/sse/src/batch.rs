//! Events that came at once, as one item: a reader then works, and wakes its own reader, once for all of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;

use crate::error::SseError;
use crate::stream::SseEvent;

/// A good limit for [`batches`].
pub const BATCH: usize = 256;

/// Returns the events of `events` in batches: as many as are there, at least one, at most `most`. An error comes alone,
/// after the events before it. It never waits to fill a batch.
pub fn batches<S>(events: S, most: usize) -> Batches<S>
where
    S: Stream<Item = Result<SseEvent, SseError>> + Unpin,
{
    Batches { events, most: most.max(1), held: None, over: false }
}

/// What [`batches`] returns.
#[must_use = "streams do nothing unless polled"]
pub struct Batches<S> {
    events: S,
    most: usize,
    /// An error that came behind events.
    held: Option<SseError>,
    over: bool,
}

impl<S> Stream for Batches<S>
where
    S: Stream<Item = Result<SseEvent, SseError>> + Unpin,
{
    type Item = Result<Vec<SseEvent>, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(error) = self.held.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut batch = Vec::new();
        while !self.over && batch.len() < self.most {
            match Pin::new(&mut self.events).poll_next(cx) {
                Poll::Ready(Some(Ok(event))) => batch.push(event),
                Poll::Ready(Some(Err(error))) if batch.is_empty() => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Err(error))) => {
                    self.held = Some(error);
                    break;
                }
                Poll::Ready(None) => self.over = true,
                Poll::Pending if batch.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready((!batch.is_empty()).then_some(Ok(batch)))
    }
}
