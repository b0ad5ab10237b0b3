//! The event stream, opened again from the last event when it is lost.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Stream, StreamExt};
use protocol::{Event, EventFrame};
use serde::Deserialize;
use sse::{EventStream, Reconnect, SseRequest};

use crate::connection::Client;
use crate::error::ClientError;

/// Longest time between two events; heartbeats come every 10 s.
const SILENCE: Duration = Duration::from_secs(35);
/// Longest time until the stream begins.
const BEGINNING: Duration = Duration::from_secs(10);
/// How a lost stream is opened again: these are servers of one's own, mostly of the same machine.
const RECONNECT: Reconnect = Reconnect { first: Duration::from_millis(100), longest: Duration::from_secs(2) };

/// The events of one directory. Never ends by itself as long as there may be a server: an error tells that the
/// stream was lost, and the next poll opens it again from the last event. After an error for which that is no help
/// the stream is over.
///
/// [`Event::Connected`] comes at the beginning and after each loss. A server that still has all that was missed gives
/// it; else [`Event::Resync`] follows, or, after a loss before the first numbered event, nothing: so after a second
/// `Connected` the state is best read anew.
#[must_use = "events come by polling"]
pub struct Events {
    stream: EventStream,
    first: Option<EventFrame>,
    server: String,
}

impl Client {
    /// Opens the event stream of the directory. Returns once the server has begun to send: whatever is asked of it
    /// from then on is seen in the stream.
    pub async fn events(&self) -> Result<Events, ClientError> {
        let mut request = SseRequest::get(self.url(&["event"], &[]));
        request.headers = self.headers.clone();
        request.header_timeout = BEGINNING;
        request.event_timeout = SILENCE;
        request.reconnect = Some(RECONNECT);
        let mut stream = sse::open(&self.http, request);
        loop {
            match stream.next().await {
                Some(Ok(event)) => {
                    if let Some(first) = read(&event.data) {
                        return Ok(Events { stream, first: Some(first), server: self.server.clone() });
                    }
                }
                Some(Err(error)) => return Err(ClientError::of_stream(&self.server, &error)),
                None => {
                    let reason = "the event stream ended before it began".into();
                    return Err(ClientError::Lost { server: self.server.clone(), reason });
                }
            }
        }
    }
}

impl Stream for Events {
    type Item = Result<EventFrame, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        loop {
            match ready!(self.stream.poll_next_unpin(cx)) {
                Some(Ok(event)) => {
                    if let Some(frame) = read(&event.data) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(ClientError::of_stream(&self.server, &error)))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Returns the event, or none for a kind that this version doesn't know.
fn read(data: &str) -> Option<EventFrame> {
    match serde_json::from_str::<EventFrame>(data) {
        Ok(frame) => Some(frame),
        Err(error) => {
            #[derive(Deserialize)]
            struct Kind {
                #[serde(rename = "type")]
                kind: String,
            }
            let kind = serde_json::from_str::<Kind>(data).map(|kind| kind.kind).unwrap_or_default();
            // Content may be in what serde says of a known kind, so only its place is told.
            tracing::debug!(kind, line = error.line(), column = error.column(), "an event was skipped");
            None
        }
    }
}

impl Events {
    /// Returns whether `event` tells that events may have been missed.
    pub fn is_break(event: &Event) -> bool {
        matches!(event, Event::Connected {} | Event::Resync {} | Event::InstanceDisposed { .. })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn events_of_other_versions_are_skipped() {
        let known = r#"{"id":"evt_1","type":"session.idle","properties":{"sessionID":"ses_1"}}"#;
        assert_eq!(read(known).map(|frame| frame.event.kind()), Some("session.idle"));
        assert_eq!(read(r#"{"id":"evt_1","type":"plugin.added","properties":{"id":"x"}}"#), None);
        assert_eq!(read("not json"), None);
    }
}
