//! Events that came at once, as one item: a reader then works, and wakes its own reader, once for all of them.

use futures::stream::{Fuse, unfold};
use futures::{Stream, StreamExt};
use tokio::task::yield_now;

use crate::error::SseError;
use crate::stream::SseEvent;

/// A good limit for [`batches`].
pub const BATCH: usize = 256;
/// A batch takes no more events once their data is this long: what is made of it waits in queues that count items.
const BYTES: usize = 16 * 1024;

/// Returns the events of `events` in batches: as many as are there, at least one, at most `most`, and none more after
/// 16 KiB of data. An error comes alone, after the events before it.
///
/// It never waits to fill a batch, but lets the connection go on between two events: that hands over one piece of the
/// body at a time, so there is never more than one ready before it has had its turn.
pub fn batches<S>(events: S, most: usize) -> impl Stream<Item = Result<Vec<SseEvent>, SseError>>
where
    S: Stream<Item = Result<SseEvent, SseError>> + Unpin,
{
    unfold((events.fuse(), None), move |(mut events, held)| async move {
        let item = match held {
            Some(error) => Err(error),
            None => events.next().await?,
        };
        Some(match item {
            Ok(first) => {
                let (batch, held) = fill(&mut events, first, most).await;
                (Ok(batch), (events, held))
            }
            Err(error) => (Err(error), (events, None)),
        })
    })
    .fuse()
}

/// Returns `first` and what is there behind it, and the error that came behind that.
async fn fill<S>(events: &mut Fuse<S>, first: SseEvent, most: usize) -> (Vec<SseEvent>, Option<SseError>)
where
    S: Stream<Item = Result<SseEvent, SseError>> + Unpin,
{
    let mut bytes = first.data.len();
    let mut batch = vec![first];
    while batch.len() < most && bytes < BYTES {
        let next = tokio::select! {
            biased;
            next = events.next() => next,
            () = yield_now() => break,
        };
        match next {
            Some(Ok(event)) => {
                bytes += event.data.len();
                batch.push(event);
            }
            Some(Err(error)) => return (batch, Some(error)),
            None => break,
        }
    }
    (batch, None)
}
