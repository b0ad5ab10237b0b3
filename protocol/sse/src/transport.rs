//! reqwest as the transport of `eventsource-client`, with the checks that crate leaves out.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use launchdarkly_sdk_transport::{ByteStream, HttpTransport, ResponseFuture, TransportError};
use reqwest::Client;
use sync_wrapper::{SyncFuture, SyncStream};

use crate::boundary::Boundary;
use crate::error::{Answer, MAX_BODY, SseError, causes, content_type};
use crate::lossy::Lossy;
use crate::request::SseRequest;

/// Most time to read the body of an answer that is no event stream. It comes with its headers, or hangs.
const BODY_TIMEOUT: Duration = Duration::from_secs(3);

/// Media type of an event stream.
const EVENTS: &str = "text/event-stream";

/// What an event stream begins with.
const BEGINNINGS: [&[u8]; 5] = [b":", b"data", b"event", b"id", b"retry"];

/// Sends the request. Its errors are [`SseError`]s inside a [`TransportError`].
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) source: Source,
    pub(crate) request: SseRequest,
}

/// Where the answer comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Network(Client),
    /// A body in the pieces it came in.
    Recorded(Vec<Bytes>),
}

impl HttpTransport for Transport {
    /// Takes only the headers of `outer` (`accept`, `last-event-id`…): method, url and body are ours. That crate
    /// reads urls by another parser and holds bodies as strings.
    fn request(&self, outer: http::Request<Option<Bytes>>) -> ResponseFuture {
        let Self { source, request } = self.clone();
        Box::pin(SyncFuture::new(async move {
            let mut headers = outer.into_parts().0.headers;
            headers.extend(request.headers.clone());
            let body = match source {
                Source::Network(client) => send(&client, &request, headers).await.map_err(TransportError::new)?,
                Source::Recorded(pieces) => replay(pieces, &request),
            };
            Ok(http::Response::new(body))
        }))
    }
}

async fn send(client: &Client, request: &SseRequest, headers: http::HeaderMap) -> Result<ByteStream, SseError> {
    let (head, pieces) = begin(client, request, headers, EVENTS).await?;
    Ok(checked(head, pieces, request.max_event_bytes))
}

/// Sends a request whose answer is a stream of another kind, `media`, and returns its body in the pieces it comes in.
/// The time until the headers is limited, and what is no success or of another kind is an error, as with [`crate::open`].
/// The rest is for the reader: how much of it belongs together, and how long it may take.
pub async fn body(
    client: &Client,
    request: &SseRequest,
    media: &str,
) -> Result<impl Stream<Item = Result<Bytes, SseError>> + Send + Unpin + use<>, SseError> {
    let (_, pieces) = begin(client, request, request.headers.clone(), media).await?;
    Ok(pieces.map(|piece| piece.map_err(|error| SseError::Cut(causes(error)))))
}

/// Waits for the headers and looks at them.
async fn begin(
    client: &Client,
    request: &SseRequest,
    headers: http::HeaderMap,
    media: &str,
) -> Result<(Head, impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + Unpin + use<>), SseError> {
    let mut builder = client.request(request.method.clone(), request.url.clone()).headers(headers);
    if let Some(body) = &request.body {
        builder = builder.body(body.clone());
    }
    let limit = request.header_timeout;
    let answer = tokio::time::timeout(limit, builder.send())
        .await
        .map_err(|_| SseError::HeaderTimeout { limit_ms: millis(limit) })?
        .map_err(not_sent)?;
    let headers = answer.headers().clone();
    let announced = Announced::of(content_type(&headers).unwrap_or_default(), media);
    let head = Head { status: answer.status().as_u16(), headers, announced };
    let success = answer.status().is_success();
    let pieces = answer.bytes_stream();
    if !success {
        return Err(SseError::Http(Box::new(head.with(&[], pieces).await)));
    }
    if announced == Announced::Other {
        return Err(SseError::NotAStream(Box::new(head.with(&[], pieces).await)));
    }
    Ok((head, pieces))
}

fn replay(pieces: Vec<Bytes>, request: &SseRequest) -> ByteStream {
    let head = Head { status: 200, headers: http::HeaderMap::new(), announced: Announced::Right };
    checked(head, stream::iter(pieces.into_iter().map(Ok)), request.max_event_bytes)
}

/// Passes the body on and ends with an error where it is cut, where an event is too big, or at once where it isn't what
/// its content type says: some servers write an error as bare JSON into a stream that they have announced.
fn checked<S>(head: Head, pieces: S, limit: usize) -> ByteStream
where
    S: Stream<Item = Result<Bytes, reqwest::Error>> + Send + Unpin + 'static,
{
    let state = (pieces, Boundary::new(limit), Lossy::default(), Some(head));
    let body = stream::unfold(Some(state), move |state| async move {
        let (mut pieces, mut boundary, mut lossy, head) = state?;
        let error = match (pieces.next().await, head) {
            (Some(Ok(piece)), Some(head)) if !head.announced.allows(&piece) => {
                SseError::NotAStream(Box::new(head.with(&piece, pieces).await))
            }
            (Some(Ok(piece)), head) if boundary.take(&piece) => {
                let head = head.filter(|_| piece.trim_ascii().is_empty());
                let piece = lossy.take(piece);
                return Some((Ok(piece), Some((pieces, boundary, lossy, head))));
            }
            (Some(Ok(_)), _) => SseError::TooBig { limit },
            (Some(Err(error)), _) => SseError::Cut(causes(error)),
            (None, _) if boundary.in_event() => SseError::Cut("the stream ended in the middle of an event".into()),
            (None, _) => return None,
        };
        Some((Err(error), None))
    });
    Box::pin(SyncStream::new(body.map(|piece| piece.map_err(TransportError::new))))
}

/// An answer whose body isn't read.
struct Head {
    status: u16,
    headers: http::HeaderMap,
    announced: Announced,
}

/// What the headers say that the body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announced {
    /// What it should be.
    Right,
    /// Nothing, or no more than that it is text or bytes: it may be right, simple servers don't say.
    Nothing,
    Other,
}

impl Announced {
    fn of(content_type: &str, media: &str) -> Self {
        match content_type.to_ascii_lowercase().as_str() {
            right if right == media => Self::Right,
            "" | "application/octet-stream" | "binary/octet-stream" => Self::Nothing,
            "text/plain" if media == EVENTS => Self::Nothing,
            _ => Self::Other,
        }
    }

    /// Returns whether a body with this first piece may be events.
    fn allows(self, piece: &[u8]) -> bool {
        let start = piece.trim_ascii_start();
        let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start);
        match self {
            Self::Nothing => {
                BEGINNINGS.iter().any(|beginning| start.starts_with(beginning) || beginning.starts_with(start))
            }
            Self::Right | Self::Other => !matches!(start.first(), Some(b'{' | b'[' | b'<')),
        }
    }
}

impl Head {
    /// Reads the answer as far as it is worth keeping; `first` was read before. What breaks on the way doesn't matter:
    /// the status says enough.
    async fn with<S>(self, first: &[u8], mut pieces: S) -> Answer
    where
        S: Stream<Item = Result<Bytes, reqwest::Error>> + Unpin,
    {
        let mut body = first.to_vec();
        let reading = async {
            while body.len() < MAX_BODY
                && let Some(Ok(piece)) = pieces.next().await
            {
                body.extend_from_slice(&piece);
            }
        };
        let _ = tokio::time::timeout(BODY_TIMEOUT, reading).await;
        body.truncate(MAX_BODY);
        Answer::new(self.status, self.headers, String::from_utf8_lossy(&body).into_owned())
    }
}

fn not_sent(error: reqwest::Error) -> SseError {
    if error.is_connect() || error.is_builder() || error.is_redirect() {
        SseError::Connect(causes(error))
    } else {
        SseError::Cut(causes(error))
    }
}

/// Returns the whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
