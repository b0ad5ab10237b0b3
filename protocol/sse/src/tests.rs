//! Against a server that writes raw HTTP.

use std::pin::pin;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const END: &str = "0\r\n\r\n";

enum Step {
    Send(Vec<u8>),
    /// Again and again until the client goes.
    Every(Duration, Vec<u8>),
    /// Nothing more, with the connection open until the client goes.
    Hang,
}

/// One list of steps a connection; the connection is closed after the last.
struct Server {
    url: Url,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(connections: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1?key=secret", listener.local_addr().expect("an address"));
        let (told, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for steps in connections {
                let (socket, _) = listener.accept().await.expect("a connection");
                tokio::spawn(play(socket, steps, told.clone()));
            }
        });
        Self { url: url.parse().expect("a url"), requests }
    }

    fn get(&self) -> SseRequest {
        SseRequest { event_timeout: Duration::from_secs(5), ..SseRequest::get(self.url.clone()) }
    }
}

async fn play(mut socket: TcpStream, steps: Vec<Step>, told: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if socket.read_buf(&mut request).await.is_ok_and(|n| n == 0) {
            return;
        }
    }
    let _ = told.send(String::from_utf8_lossy(&request).into_owned());
    for step in steps {
        match step {
            Step::Send(bytes) => drop(socket.write_all(&bytes).await),
            Step::Every(pause, bytes) => {
                let mut clock = tokio::time::interval(pause);
                while socket.write_all(&bytes).await.is_ok() {
                    clock.tick().await;
                }
            }
            Step::Hang => drop(socket.read(&mut [0]).await),
        }
    }
}

fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// A piece of a chunked body.
fn piece(bytes: &[u8]) -> Step {
    Step::Send(chunk(bytes))
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn whole(status: &str, headers: &str, body: &str) -> Step {
    send(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

fn plain() -> Client {
    http::client("test/1").expect("a client")
}

async fn all(request: SseRequest) -> (Vec<String>, Option<SseError>) {
    let mut events = open(&plain(), request);
    let mut data = Vec::new();
    let mut error = None;
    while let Some(item) = events.next().await {
        assert!(error.is_none(), "something came after the error");
        match item {
            Ok(event) => data.push(event.data),
            Err(lost) => error = Some(lost),
        }
    }
    (data, error)
}

#[tokio::test]
async fn events_come_in_order_and_a_clean_end_is_no_error() {
    let pieces = vec![send(STREAM), piece(b"data: one\n\ndata: t"), piece(b"wo\n\n: done\n"), send(END)];
    let mut server = Server::start(vec![pieces]).await;
    let (data, error) = all(server.get()).await;
    assert_eq!(data, ["one", "two"]);
    assert!(error.is_none(), "{error:?}");
    let request = server.requests.recv().await.expect("a request").to_lowercase();
    assert!(request.starts_with("get /v1?key=secret"), "{request}");
    assert!(request.contains("accept: text/event-stream") && request.contains("user-agent: test/1"), "{request}");
}

#[tokio::test]
async fn a_post_sends_its_body_and_headers() {
    let mut server = Server::start(vec![vec![send(STREAM), send(END)]]).await;
    let mut request = SseRequest::post(server.url.clone(), r#"{"a":1}"#);
    request.headers.insert("authorization", HeaderValue::from_static("Bearer k"));
    assert!(!format!("{request:?}").contains("Bearer k") && !format!("{request:?}").contains("secret"));
    assert!(all(request).await.0.is_empty());
    let request = server.requests.recv().await.expect("a request");
    assert!(request.starts_with("POST") && request.contains("authorization: Bearer k"), "{request}");
    assert!(request.contains("content-length: 7"), "{request}");
}

#[tokio::test]
async fn characters_cut_between_pieces_stay_whole() {
    let bytes = "data: x好y\n\n".as_bytes();
    let mut steps = vec![send(STREAM)];
    steps.extend(bytes.chunks(1).map(piece));
    steps.push(send(END));
    let (data, _) = all(Server::start(vec![steps]).await.get()).await;
    assert_eq!(data, ["x好y"]);
}

#[tokio::test]
async fn an_event_cut_by_a_clean_close_or_a_broken_one_is_a_cut() {
    for end in [send(END), send("")] {
        for text in ["data: {\"a\"", "data: {\"a\":1}\n"] {
            let steps = vec![send(STREAM), piece(b"data: one\n\n"), piece(text.as_bytes())];
            let end = if let Step::Send(bytes) = &end { send(bytes.clone()) } else { unreachable!() };
            let server = Server::start(vec![steps.into_iter().chain([end]).collect()]).await;
            let (data, error) = all(server.get()).await;
            assert_eq!(data, ["one"]);
            assert!(matches!(error, Some(SseError::Cut(_))), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_closes_between_events_without_an_end_is_a_cut() {
    let (data, error) = all(Server::start(vec![vec![send(STREAM), piece(b"data: one\n\n")]]).await.get()).await;
    assert_eq!(data, ["one"]);
    assert!(matches!(error, Some(SseError::Cut(_))), "{error:?}");
}

#[tokio::test]
async fn silence_and_comments_alone_end_at_the_idle_limit() {
    let keepalive = Step::Every(Duration::from_millis(5), chunk(b": keepalive\n\n"));
    for step in [Step::Hang, keepalive] {
        let server = Server::start(vec![vec![send(STREAM), piece(b"data: one\n\n"), step]]).await;
        let mut request = server.get();
        request.event_timeout = Duration::from_millis(80);
        let begun = std::time::Instant::now();
        let (data, error) = all(request).await;
        assert_eq!(data, ["one"]);
        assert!(matches!(error, Some(SseError::Idle { limit_ms: 80 })), "{error:?}");
        assert!(begun.elapsed() >= Duration::from_millis(80));
    }
}

#[tokio::test]
async fn events_that_keep_coming_never_are_idle() {
    let steps = vec![send(STREAM), Step::Every(Duration::from_millis(10), chunk(b"data: x\n\n"))];
    let mut request = Server::start(vec![steps]).await.get();
    request.event_timeout = Duration::from_millis(100);
    let events: Vec<_> = open(&plain(), request).take(30).collect().await;
    assert!(events.iter().all(Result::is_ok));
}

#[tokio::test]
async fn an_answer_that_does_not_begin_is_a_header_time_out() {
    let mut request = Server::start(vec![vec![Step::Hang]]).await.get();
    request.header_timeout = Duration::from_millis(50);
    let (_, error) = all(request).await;
    assert!(matches!(error, Some(SseError::HeaderTimeout { limit_ms: 50 })), "{error:?}");
}

#[tokio::test]
async fn a_200_that_is_no_stream_is_an_error_with_its_body() {
    let page = whole("200 OK", "content-type: text/html\r\nset-cookie: a=secret\r\n", "<html>sign in</html>");
    let (_, error) = all(Server::start(vec![vec![page]]).await.get()).await;
    let Some(SseError::NotAStream(answer)) = &error else { panic!("{error:?}") };
    assert_eq!((answer.status, answer.content_type()), (200, Some("text/html")));
    assert_eq!(answer.body, "<html>sign in</html>");
    assert!(!format!("{error:?}").contains("secret"));
}

#[tokio::test]
async fn events_that_were_announced_as_something_vague_are_events_and_other_text_is_not() {
    for kind in ["text/plain", "application/octet-stream", "", "text/plain; charset=utf-8"] {
        let headers = format!("content-type: {kind}\r\n");
        let server = Server::start(vec![
            vec![whole("200 OK", &headers, "data: one\n\n")],
            vec![whole("200 OK", &headers, "\n: a comment\n\nevent: x\ndata: one\n\n")],
            vec![whole("200 OK", &headers, "no such page")],
        ])
        .await;
        assert_eq!(all(server.get()).await.0, ["one"], "{kind}");
        assert_eq!(all(server.get()).await.0, ["one"], "{kind}");
        let (_, error) = all(server.get()).await;
        assert!(matches!(&error, Some(SseError::NotAStream(page)) if page.body == "no such page"), "{kind}: {error:?}");
    }
}

#[tokio::test]
async fn a_byte_that_is_no_text_spoils_one_character_and_not_the_stream() {
    let pieces = vec![send(STREAM), piece(b"data: a\xffb\xe5"), piece(b"\n\ndata: two\n\n"), send(END)];
    let (data, error) = all(Server::start(vec![pieces]).await.get()).await;
    assert_eq!(data, ["a\u{fffd}b\u{fffd}", "two"]);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn bare_json_in_an_announced_stream_is_no_stream() {
    let steps = vec![send(STREAM), piece(b"\n"), piece(br#"{"error":"#), piece(br#"{"message":"no"}}"#), send(END)];
    let (_, error) = all(Server::start(vec![steps]).await.get()).await;
    let Some(SseError::NotAStream(answer)) = &error else { panic!("{error:?}") };
    assert_eq!(answer.body, r#"{"error":{"message":"no"}}"#);
}

#[tokio::test]
async fn an_error_answer_keeps_status_headers_and_a_bounded_body() {
    let server = Server::start(vec![
        vec![whole("429 Too Many Requests", "retry-after: 7\r\n", "slow down")],
        vec![whole("500 Oops", "", &"x".repeat(200_000))],
    ]);
    let server = server.await;
    let (_, error) = all(server.get()).await;
    let answer = error.as_ref().and_then(SseError::answer).expect("an answer");
    assert_eq!((answer.status, answer.header("retry-after"), answer.body.as_str()), (429, Some("7"), "slow down"));
    let (_, error) = all(server.get()).await;
    let error = error.expect("an error");
    assert_eq!((error.status(), error.may_pass()), (Some(500), true));
    assert_eq!(error.answer().map(|answer| answer.body.len()), Some(64 << 10));
}

#[tokio::test]
async fn a_big_event_comes_whole_and_one_over_the_limit_is_an_error() {
    let big = "x".repeat(1 << 20);
    let steps = || vec![send(STREAM), piece(format!("data: {big}\n\n").as_bytes()), send(END)];
    let server = Server::start(vec![steps(), steps()]).await;
    assert_eq!(all(server.get()).await.0, std::slice::from_ref(&big));
    let (_, error) = all(SseRequest { max_event_bytes: 1 << 20, ..server.get() }).await;
    assert!(matches!(error, Some(SseError::TooBig { limit: 1_048_576 })), "{error:?}");
}

#[tokio::test]
async fn nobody_listening_is_a_connect_error_that_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/?key=secret", listener.local_addr().expect("an address"));
    drop(listener);
    let (_, error) = all(SseRequest::get(url.parse().expect("a url"))).await;
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(error, Some(SseError::Connect(_))), "{error:?}");
    assert!(text.contains("refused") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let step = whole("307 Temporary Redirect", "location: http://localhost:1/\r\n", "");
    let (_, error) = all(Server::start(vec![vec![step]]).await.get()).await;
    assert_eq!(error.and_then(|error| error.status()), Some(307));
}

#[tokio::test]
async fn a_lost_stream_opens_again_from_the_last_id_also_after_a_connection_without_ids() {
    let mut server = Server::start(vec![
        vec![send(STREAM), piece(b"id: b-7\ndata: one\n\n")],
        vec![send(STREAM), piece(b"data: hello\n\n"), send(END)],
        vec![whole("503 Service Unavailable", "", "")],
        vec![send(STREAM), piece(b"id: b-8\ndata: two\n\n"), Step::Hang],
    ])
    .await;
    let request = SseRequest {
        reconnect: Some(Reconnect { first: Duration::from_millis(1), longest: Duration::from_millis(5) }),
        ..server.get()
    };
    let mut seen = Vec::new();
    let mut events = open(&plain(), request);
    while seen.last() != Some(&"two".to_owned()) {
        seen.push(match events.next().await.expect("the stream goes on") {
            Ok(event) => event.data,
            Err(error) => error.status().map_or("lost".into(), |status| status.to_string()),
        });
    }
    assert_eq!(seen, ["one", "lost", "hello", "lost", "503", "two"]);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let request = server.requests.recv().await.expect("a request").to_lowercase();
        ids.push(request.lines().find_map(|line| line.strip_prefix("last-event-id: ").map(str::to_owned)));
    }
    assert_eq!(ids, [None, Some("b-7".into()), Some("b-7".into()), Some("b-7".into())]);
}

#[tokio::test]
async fn a_refusal_ends_the_stream_also_with_reconnect() {
    let server = Server::start(vec![vec![whole("401 Unauthorized", "", "")]]).await;
    let (_, error) = all(SseRequest { reconnect: Some(Reconnect::default()), ..server.get() }).await;
    assert_eq!(error.and_then(|error| error.status()), Some(401));
}

#[tokio::test]
async fn a_batch_is_what_is_there_and_the_error_comes_after_it() {
    let event = |data: &str| Ok(SseEvent { id: None, event: "message".into(), data: data.into() });
    let items = vec![event("1"), event("2"), event("3"), Err(SseError::Idle { limit_ms: 1 })];
    let mut events = pin!(batches(futures::stream::iter(items), 2));
    let mut sizes = Vec::new();
    while let Some(item) = events.next().await {
        sizes.push(item.map_or(0, |batch| batch.len()));
    }
    assert_eq!(sizes, [2, 1, 0]);
}

#[tokio::test]
async fn a_batch_has_all_that_came_though_it_is_handed_over_one_by_one() {
    let (mut one_by_one, events) = futures::channel::mpsc::channel(0);
    tokio::spawn(async move {
        for data in ["1", "2", "3", "4", "5"] {
            let event = SseEvent { id: None, event: "message".into(), data: data.into() };
            one_by_one.send(Ok(event)).await.expect("a reader");
        }
    });
    let sizes = batches(events, 256).map(|item| item.map_or(0, |batch| batch.len()));
    assert_eq!(sizes.collect::<Vec<_>>().await, [5]);
}

#[tokio::test]
async fn a_batch_of_large_events_ends_soon() {
    let event = || Ok(SseEvent { id: None, event: "message".into(), data: "x".repeat(10_000) });
    let sizes = batches(futures::stream::iter([event(), event(), event()]), 256);
    let sizes = sizes.map(|item| item.map_or(0, |batch| batch.len()));
    assert_eq!(sizes.collect::<Vec<_>>().await, [2, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_reads_the_same_however_it_is_cut(
        texts in proptest::collection::vec("[a-z好😀 :]{1,12}", 1..6),
        sizes in proptest::collection::vec(1_usize..9, 1..40),
        end in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        let body: String = texts.iter().map(|text| format!("data: {text}{end}{end}")).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (data, error) = runtime.block_on(async {
            let mut steps = vec![send(STREAM)];
            let mut rest = body.as_bytes();
            for size in sizes.iter().cycle() {
                let (now, later) = rest.split_at((*size).min(rest.len()));
                steps.push(piece(now));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            steps.push(send(END));
            all(Server::start(vec![steps]).await.get()).await
        });
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(data, texts);
    }
}
