//! The client against a server that says what the test wrote.

use std::path::{Path, PathBuf};

use futures::StreamExt;
use pretty_assertions::assert_eq;
use protocol::SessionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

use crate::{Client, ClientError};

/// Answers one request a connection, each with the next of `answers`, and hands the requests on.
struct Fake {
    socket: PathBuf,
    requests: mpsc::UnboundedReceiver<String>,
    _dir: tempfile::TempDir,
}

impl Fake {
    fn start(answers: Vec<String>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("s.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    let mut piece = [0; 1024];
                    let count = stream.read(&mut piece).await.expect("a request");
                    request.extend_from_slice(&piece[..count]);
                }
                sender
                    .send(String::from_utf8(request).expect("text").to_ascii_lowercase())
                    .expect("a test that listens");
                stream.write_all(answer.as_bytes()).await.expect("an answer");
            }
        });
        Self { socket, requests, _dir: dir }
    }

    async fn request(&mut self) -> String {
        self.requests.recv().await.expect("a request")
    }
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

fn id() -> SessionId {
    SessionId::parse("ses_1").expect("an id")
}

#[tokio::test]
async fn a_request_goes_over_the_socket_with_directory_and_login() {
    let mut fake = Fake::start(vec![answer("200 OK", r#"{"healthy":true,"version":"1"}"#)]);
    let client = Client::unix(&fake.socket).expect("a client").directory("/p").basic_auth("a", "b");
    assert_eq!(client.health().await.expect("an answer").version, "1");
    let request = fake.request().await;
    for part in ["get /global/health http/1.1", "host: localhost", "x-opencode-directory: /p", "authorization: basic "]
    {
        assert!(request.contains(part), "{part:?} is not in {request}");
    }
}

#[tokio::test]
async fn a_refusal_carries_status_name_and_message() {
    let body = r#"{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}"#;
    let fake = Fake::start(vec![answer("404 Not Found", body), answer("200 OK", "[]")]);
    let client = Client::unix(&fake.socket).expect("a client");
    let error = client.session(&id()).await.expect_err("refused");
    let refusal = error.refusal().expect("a refusal");
    assert_eq!((refusal.status, refusal.name.as_str()), (404, "NotFoundError"));
    assert_eq!(error.to_string(), "Session not found: ses_1");
    let error = client.session(&id()).await.expect_err("no session");
    assert!(matches!(&error, ClientError::Unreadable { request, .. } if request == "GET /session/ses_1"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_refuses() {
    let client = Client::unix(Path::new("/nowhere/s.sock")).expect("a client");
    let error = client.health().await.expect_err("nobody there");
    assert!(error.is_gone() && matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().starts_with("the server at /nowhere/s.sock can't be reached: "), "{error}");
}

#[tokio::test]
async fn a_lost_stream_goes_on_after_the_last_event_and_unknown_events_are_skipped() {
    let connected = "data: {\"id\":\"evt_1\",\"type\":\"server.connected\",\"properties\":{}}\n\n";
    let idle = |number: u32, id: &str| {
        format!(
            "id: b-{number}-0\ndata: {{\"id\":\"evt_2\",\"type\":\"session.idle\",\"properties\":{{\"sessionID\":\"{id}\"}}}}\n\n"
        )
    };
    let unknown = "id: b-2-0\ndata: {\"id\":\"evt_3\",\"type\":\"plugin.added\",\"properties\":{}}\n\n";
    let first = format!("{connected}{}{unknown}", idle(1, "ses_a"));
    let second = format!("{connected}{}", idle(3, "ses_b"));
    let mut fake = Fake::start(vec![stream(&first), stream(&second)]);
    let client = Client::unix(&fake.socket).expect("a client");
    let mut events = client.events().await.expect("a stream");
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(match events.next().await.expect("no end") {
            Ok(frame) => format!("{} {}", frame.event.kind(), frame.event.session_id().map_or("", |id| id.as_str())),
            Err(error) => format!("lost {}", error.is_gone()),
        });
    }
    let expected = ["server.connected ", "session.idle ses_a", "lost true", "server.connected ", "session.idle ses_b"];
    assert_eq!(seen, expected);
    assert!(!fake.request().await.contains("last-event-id"));
    assert!(fake.request().await.contains("last-event-id: b-2-0"));
}
