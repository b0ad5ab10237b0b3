//! The frames an answer comes in, as events.
//!
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html>, which tells of the form.

use std::pin::Pin;
use std::time::Duration;

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::event_stream::Message;
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use serde_json::{Value, json};
use sse::{SseError, SseEvent};
use tokio::time::{Instant, timeout_at};

/// The answer's media type.
pub(super) const MEDIA: &str = "application/vnd.amazon.eventstream";

/// Limits of one frame.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Most bytes.
    pub(super) bytes: usize,
    /// Most time until it is there, from the one before.
    pub(super) time: Duration,
}

struct Frames<S> {
    pieces: S,
    limits: Limits,
    decoder: MessageFrameDecoder,
    read: BytesMut,
    /// Bytes of a frame came that isn't whole.
    in_frame: bool,
}

/// Returns the events of a body: `{type: payload}`. An exception is an `error` object, as other vendors send it. An
/// error is the last item.
pub(super) fn events<S>(pieces: S, limits: Limits) -> Pin<Box<dyn Stream<Item = Result<SseEvent, SseError>> + Send>>
where
    S: Stream<Item = Result<Bytes, SseError>> + Send + Unpin + 'static,
{
    let frames = Frames { pieces, limits, decoder: MessageFrameDecoder::new(), read: BytesMut::new(), in_frame: false };
    Box::pin(futures::stream::unfold(Some(frames), |frames| async move {
        let mut frames = frames?;
        match frames.next().await? {
            Ok(event) => Some((Ok(event), Some(frames))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

impl<S: Stream<Item = Result<Bytes, SseError>> + Unpin> Frames<S> {
    async fn next(&mut self) -> Option<Result<SseEvent, SseError>> {
        let end = Instant::now() + self.limits.time;
        loop {
            match self.decoder.decode_frame(&mut self.read) {
                Ok(DecodedFrame::Complete(message)) => {
                    self.in_frame = !self.read.is_empty();
                    return Some(Ok(event(&message)));
                }
                Ok(DecodedFrame::Incomplete) if self.read.len() > self.limits.bytes => {
                    return Some(Err(SseError::TooBig { limit: self.limits.bytes }));
                }
                Ok(DecodedFrame::Incomplete) => {}
                Err(error) => return Some(Err(SseError::Malformed(error.to_string()))),
            }
            match timeout_at(end, self.pieces.next()).await {
                Ok(Some(Ok(piece))) => {
                    self.in_frame = self.in_frame || !piece.is_empty();
                    self.read.extend_from_slice(&piece);
                }
                Ok(Some(Err(error))) => return Some(Err(error)),
                Ok(None) if self.in_frame => {
                    return Some(Err(SseError::Cut("the stream ended in the middle of a frame".into())));
                }
                Ok(None) => return None,
                Err(_) => {
                    let limit_ms = u64::try_from(self.limits.time.as_millis()).unwrap_or(u64::MAX);
                    return Some(Err(SseError::Idle { limit_ms }));
                }
            }
        }
    }
}

fn event(message: &Message) -> SseEvent {
    let header = |name: &str| {
        let header = message.headers().iter().find(|header| header.name().as_str() == name)?;
        header.value().as_string().ok().map(|value| value.as_str().to_owned())
    };
    let payload = String::from_utf8_lossy(message.payload());
    let kind = header(":event-type").unwrap_or_default();
    if header(":message-type").as_deref().unwrap_or("event") == "event" {
        let payload = if payload.trim().is_empty() { "null" } else { &payload };
        let data = format!("{{{}:{payload}}}", Value::from(kind.as_str()));
        return SseEvent { id: None, event: kind, data };
    }
    let code = header(":exception-type").or_else(|| header(":error-code")).unwrap_or(kind);
    let said = serde_json::from_str::<Value>(&payload).ok();
    let said = said.and_then(|said| Some(said.get("message").or_else(|| said.get("Message"))?.as_str()?.to_owned()));
    let said = said.or_else(|| header(":error-message"));
    let text = said.unwrap_or_else(|| format!("the vendor ended its stream with {code}"));
    SseEvent {
        id: None,
        event: "error".into(),
        data: json!({ "error": { "type": code, "message": text } }).to_string(),
    }
}
