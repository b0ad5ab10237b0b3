//! The stream of events of one request, and its re-opening.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use eventsource_client::{BoxStream, Client as _, ClientBuilder, Error, SSE};
use futures::{Stream, ready};
use reqwest::Client;
use tokio::time::{Sleep, sleep};

use crate::error::SseError;
use crate::idle::Idle;
use crate::request::{Reconnect, SseRequest};
use crate::transport::{Source, Transport, millis};

/// Stands for the url inside `eventsource-client`; the transport knows the real one.
const NO_URL: &str = "http://event.stream/";
/// The shortest wait a server can ask for by `retry:`.
const SHORTEST: Duration = Duration::from_millis(10);

/// An event. Its data is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The newest id of the stream, this event's or an earlier one's.
    pub id: Option<String>,
    /// Its type, `message` where it has none.
    pub event: String,
    /// Its data lines.
    pub data: String,
}

/// Returns the events of the answer to `request`. Nothing is sent before the first poll, and dropping the stream ends
/// the request. An error is the last item; a stream that just ends was closed by the server between two events.
///
/// With [`SseRequest::reconnect`] an error only tells of a loss: the next poll waits and opens the stream again,
/// from the last event's id. An end counts as a loss too. An error for which that is no help is still the last item.
pub fn open(client: &Client, request: SseRequest) -> EventStream {
    EventStream::new(Source::Network(client.clone()), request)
}

/// Returns the events of a body as if it came over the network in these pieces. For tests of what reads them.
pub fn recorded(pieces: Vec<Bytes>, request: SseRequest) -> EventStream {
    EventStream::new(Source::Recorded(pieces), request)
}

/// What [`open`] returns.
#[must_use = "nothing is sent before the first poll"]
pub struct EventStream {
    transport: Transport,
    last_event_id: Option<String>,
    retry: Backoff,
    state: State,
}

enum State {
    /// Not sent.
    Closed,
    Waiting(Pin<Box<Sleep>>),
    Open {
        events: BoxStream<Result<SSE, Error>>,
        /// Since the headers, then since the last event.
        idle: Option<Idle>,
    },
    Over,
}

struct Backoff {
    first: Duration,
    failures: u32,
}

impl Stream for EventStream {
    type Item = Result<SseEvent, SseError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Over => return Poll::Ready(None),
                State::Closed => match this.connect() {
                    Ok(events) => this.state = State::Open { events, idle: None },
                    Err(error) => return this.lose(error),
                },
                State::Waiting(wait) => {
                    ready!(wait.as_mut().poll(cx));
                    this.state = State::Closed;
                }
                State::Open { events, idle } => {
                    let limit = this.transport.request.event_timeout;
                    match events.as_mut().poll_next(cx) {
                        Poll::Ready(Some(Ok(SSE::Event(event)))) => {
                            if let Some(idle) = idle {
                                idle.restart();
                            }
                            return Poll::Ready(Some(Ok(this.received(event))));
                        }
                        Poll::Ready(Some(Ok(SSE::Connected(_)))) => *idle = Some(Idle::new(limit)),
                        // A flood of comments never leaves this loop by `Pending`, so the time is looked at here too.
                        Poll::Ready(Some(Ok(SSE::Comment(_)))) => {
                            if idle.as_ref().is_some_and(|idle| idle.is_over(limit)) {
                                return this.lose(SseError::Idle { limit_ms: millis(limit) });
                            }
                        }
                        Poll::Ready(None | Some(Err(Error::Eof))) => return this.end(),
                        Poll::Ready(Some(Err(error))) => return this.lose(translate(error)),
                        Poll::Pending => {
                            let Some(idle) = idle else { return Poll::Pending };
                            ready!(idle.poll(limit, cx));
                            return this.lose(SseError::Idle { limit_ms: millis(limit) });
                        }
                    }
                }
            }
        }
    }
}

impl EventStream {
    fn new(source: Source, request: SseRequest) -> Self {
        Self {
            last_event_id: request.last_event_id.clone(),
            retry: Backoff { first: request.reconnect.unwrap_or_default().first, failures: 0 },
            transport: Transport { source, request },
            state: State::Closed,
        }
    }

    /// Its own reconnecting stays off: it forgets the last id at the first event without one, and it turns the end
    /// of a body into endless equal errors.
    fn connect(&self) -> Result<BoxStream<Result<SSE, Error>>, SseError> {
        let mut builder = ClientBuilder::for_url(NO_URL)
            .map_err(translate)?
            .reconnect(eventsource_client::ReconnectOptions::reconnect(false).retry_initial(false).build());
        // An id that fits in no header came from a confused server; going on without it is better than not at all.
        if let Some(id) = self.last_event_id.as_ref().filter(|id| http::HeaderValue::from_str(id).is_ok()) {
            builder = builder.last_event_id(id.clone());
        }
        Ok(builder.build_with_transport(self.transport.clone()).stream())
    }

    fn received(&mut self, event: eventsource_client::Event) -> SseEvent {
        self.retry.failures = 0;
        if let Some(ms) = event.retry {
            self.retry.first = Duration::from_millis(ms).max(SHORTEST);
        }
        if self.transport.request.reconnect.is_some() && event.id.is_some() {
            self.last_event_id.clone_from(&event.id);
        }
        SseEvent { id: event.id, event: event.event_type, data: event.data }
    }

    fn end(&mut self) -> Poll<Option<Result<SseEvent, SseError>>> {
        if self.transport.request.reconnect.is_some() {
            return self.lose(SseError::Cut("the server closed the stream".into()));
        }
        self.state = State::Over;
        Poll::Ready(None)
    }

    fn lose(&mut self, error: SseError) -> Poll<Option<Result<SseEvent, SseError>>> {
        self.state = match self.transport.request.reconnect {
            Some(reconnect) if error.may_pass() => State::Waiting(Box::pin(sleep(self.retry.next(reconnect)))),
            _ => State::Over,
        };
        Poll::Ready(Some(Err(error)))
    }
}

impl Backoff {
    /// Returns the next wait: doubled, at most the longest, of which a random part up to a half is left out so that
    /// the clients of a restarted server don't come all at once.
    fn next(&mut self, reconnect: Reconnect) -> Duration {
        let wait = self.first.saturating_mul(1 << self.failures.min(16)).min(reconnect.longest);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(rand::random_range(0.5..=1.0))
    }
}

fn translate(error: Error) -> SseError {
    match error {
        Error::Transport(error) => match error.inner().downcast_ref::<SseError>() {
            Some(error) => error.clone(),
            None => SseError::Cut(error.to_string()),
        },
        // Of these the transport tells first; here in case it once doesn't.
        Error::Eof | Error::UnexpectedEof => SseError::Cut("the stream ended in the middle of an event".into()),
        error => SseError::Malformed(error.to_string()),
    }
}
