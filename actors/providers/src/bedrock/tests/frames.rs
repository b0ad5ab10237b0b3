//! What frames are read as.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use sse::{SseError, SseEvent};

use super::*;
use crate::bedrock::frames::{Limits, events};

/// Reads a body that comes in pieces of these sizes.
fn read(body: &[u8], sizes: &[usize], bytes: usize) -> (Vec<SseEvent>, Option<SseError>) {
    let mut pieces = Vec::new();
    let mut rest = body;
    for size in sizes.iter().cycle() {
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        pieces.push(Ok(Bytes::copy_from_slice(piece)));
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    let limits = Limits { bytes, time: Duration::from_secs(60) };
    let all = events(futures::stream::iter(pieces), limits).collect::<Vec<_>>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (mut read, mut lost) = (Vec::new(), None);
    for item in runtime.block_on(all) {
        assert!(lost.is_none(), "something came after the error");
        match item {
            Ok(event) => read.push(event),
            Err(error) => lost = Some(error),
        }
    }
    (read, lost)
}

fn body() -> Vec<u8> {
    answer().iter().flat_map(framed).collect()
}

#[test]
fn a_frame_is_an_event_by_its_type_and_an_exception_an_error_object() {
    let mut body = framed(&text("hi"));
    body.extend(exception("throttlingException", "slow down"));
    body.extend(frame(&[(":message-type", "error"), (":error-code", "Oops"), (":error-message", "lost")], ""));
    let (events, error) = read(&body, &[body.len()], 1 << 20);
    assert!(error.is_none(), "{error:?}");
    let data: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
    assert_eq!(
        data,
        [
            text("hi").to_string().as_str(),
            r#"{"error":{"type":"throttlingException","message":"slow down"}}"#,
            r#"{"error":{"type":"Oops","message":"lost"}}"#,
        ]
    );
    assert_eq!(events[0].event, "contentBlockDelta");
}

#[test]
fn a_body_that_is_cut_damaged_or_too_big_is_an_error_after_what_was_whole() {
    let whole = body();
    let (events, error) = read(&whole[..whole.len() - 3], &[50], 1 << 20);
    assert_eq!((events.len(), error.is_some_and(|error| matches!(error, SseError::Cut(_)))), (13, true));
    let mut damaged = whole.clone();
    let last = damaged.len() - 20;
    damaged[last] ^= 1;
    let (events, error) = read(&damaged, &[50], 1 << 20);
    assert_eq!((events.len(), error.is_some_and(|error| matches!(error, SseError::Malformed(_)))), (13, true));
    let big = framed(&text(&"x".repeat(5_000)));
    let (events, error) = read(&big, &[64], 1_000);
    assert_eq!(
        (events.len(), error.is_some_and(|error| matches!(error, SseError::TooBig { limit: 1_000 }))),
        (0, true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_idle_after_the_limit() {
    let pieces = futures::stream::iter([Ok(Bytes::from(framed(&text("hi"))))]).chain(futures::stream::pending());
    let mut events = events(pieces, Limits { bytes: 1 << 20, time: Duration::from_secs(7) });
    assert!(events.next().await.is_some_and(|event| event.is_ok()));
    assert!(matches!(events.next().await, Some(Err(SseError::Idle { limit_ms: 7_000 }))));
    assert!(events.next().await.is_none());
}

proptest! {
    #[test]
    fn a_body_is_read_the_same_however_it_is_cut(sizes in proptest::collection::vec(1_usize..90, 1..20)) {
        let body = body();
        let (events, error) = read(&body, &sizes, 1 << 20);
        prop_assert!(error.is_none());
        let want: Vec<String> = answer().iter().map(Value::to_string).collect();
        prop_assert_eq!(events.into_iter().map(|event| event.data).collect::<Vec<_>>(), want);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
        length in proptest::option::of(0_u8..120),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3),
    ) {
        if let Some(length) = length {
            bytes.splice(0..0, [0, 0, 0, length]);
        }
        read(&bytes, &[7], 1 << 10);
        let mut body = body();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        read(&body, &[64], 1 << 20);
    }
}
