//! A server that writes raw HTTP.

use std::time::Duration;

use futures::StreamExt;
use protocol::model::ModelRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::short;
use crate::{Provider, ProviderError};

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// What follows an answer.
#[derive(Clone)]
enum Then {
    Close,
    Hold,
    /// This again and again, with a pause between, until the client goes.
    Every(String, Duration),
}

/// Serves this answer and then an event with this data again and again; returns its address and what it is sent.
pub(crate) async fn every(answer: String, data: &str, pause: Duration) -> (String, mpsc::UnboundedReceiver<String>) {
    let event = format!("data: {data}\n\n");
    serve(vec![answer], Then::Every(format!("{:x}\r\n{event}\r\n", event.len()), pause)).await
}

/// Serves these answers, the last one to all further requests, then closes, or holds the connection; returns its
/// address and what it is sent.
pub(crate) async fn server<A>(answers: Vec<A>, hold: bool) -> (String, mpsc::UnboundedReceiver<String>)
where
    A: AsRef<[u8]> + Clone + Send + 'static,
{
    serve(answers, if hold { Then::Hold } else { Then::Close }).await
}

async fn serve<A>(answers: Vec<A>, then: Then) -> (String, mpsc::UnboundedReceiver<String>)
where
    A: AsRef<[u8]> + Clone + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (told, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut answers = answers.into_iter().peekable();
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answers.next().expect("an answer");
            if answers.peek().is_none() {
                answers = vec![answer.clone()].into_iter().peekable();
            }
            let (told, then) = (told.clone(), then.clone());
            tokio::spawn(async move {
                let mut sent = Vec::new();
                while !sent.ends_with(b"}") {
                    if socket.read_buf(&mut sent).await.is_ok_and(|n| n == 0) {
                        return;
                    }
                }
                let _ = told.send(String::from_utf8_lossy(&sent).into_owned());
                let _ = socket.write_all(answer.as_ref()).await;
                match then {
                    Then::Close => {}
                    Then::Hold => drop(socket.read(&mut [0]).await),
                    Then::Every(bytes, pause) => {
                        let mut clock = tokio::time::interval(pause);
                        while socket.write_all(bytes.as_bytes()).await.is_ok() {
                            clock.tick().await;
                        }
                    }
                }
            });
        }
    });
    (format!("http://{address}/v1"), requests)
}

/// Returns the answer with these events, without its end.
pub(crate) fn body(events: &[String]) -> String {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("{STREAM}{:x}\r\n{body}\r\n", body.len())
}

/// Asks: what was said in short, and the error.
pub(crate) async fn ask(provider: &dyn Provider, request: ModelRequest) -> (Vec<String>, Option<ProviderError>) {
    let mut stream = provider.stream(request);
    let (mut events, mut error) = (Vec::new(), None);
    while let Some(item) = stream.next().await {
        assert!(error.is_none(), "something came after the error");
        match item {
            Ok(batch) => events.extend(short(&batch)),
            Err(failed) => error = Some(failed),
        }
    }
    (events, error)
}
