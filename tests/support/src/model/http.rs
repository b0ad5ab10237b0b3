//! One connection: HTTP/1.1, just enough of it, with the freedom to break off anywhere.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::Shared;
use super::request::{Outcome, Request};
use super::step::Step;
use super::stream::{Action, actions};

/// Ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request as read from the socket.
struct Incoming {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// How an answer ended.
enum Ending {
    /// The connection may carry another request.
    Whole,
    Cut,
    Reset,
}

/// Answers requests until either side closes. Errors of the socket end it: the client may go at any time.
pub(super) async fn serve(mut socket: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        let reset = {
            let (mut from, mut to) = socket.split();
            let Some(incoming) = next(&mut from, &mut read).await? else { return Ok(()) };
            let (actions, number) = answer(incoming, &shared);
            let ended = tokio::select! {
                // An answer that is out counts, even if the client has gone right after it.
                biased;
                ended = play(&mut to, actions) => Some(ended),
                () = gone(&mut from, &mut read) => None,
            };
            let whole = matches!(ended, Some(Ok(_)));
            if let Some(number) = number {
                shared.settle(number, if whole { Outcome::Answered } else { Outcome::Dropped });
            }
            match ended {
                Some(Ok(Ending::Whole)) => continue,
                Some(Ok(Ending::Reset)) => true,
                Some(Err(error)) => return Err(error),
                Some(Ok(Ending::Cut)) | None => false,
            }
        };
        if reset {
            socket.set_zero_linger()?;
        }
        return Ok(());
    }
}

/// Reads the next request; none when the client has closed between requests.
async fn next(from: &mut ReadHalf<'_>, read: &mut Vec<u8>) -> io::Result<Option<Incoming>> {
    loop {
        if let Some((mut incoming, head)) = head(read)? {
            let length = incoming.headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
            while read.len() < head + length {
                if from.read_buf(read).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            incoming.body = read.drain(..head + length).skip(head).collect();
            return Ok(Some(incoming));
        }
        if from.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Parses a request's head and returns it with its length; none while it is incomplete.
fn head(read: &[u8]) -> io::Result<Option<(Incoming, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut headers);
    let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let httparse::Status::Complete(length) = parsed.parse(read).map_err(bad)? else { return Ok(None) };
    let headers: BTreeMap<_, _> = parsed
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    if headers.contains_key("transfer-encoding") {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the scripted model reads no chunked requests"));
    }
    let method = parsed.method.unwrap_or_default().to_owned();
    let path = parsed.path.unwrap_or_default().to_owned();
    Ok(Some((Incoming { method, path, headers, body: Vec::new() }, length)))
}

/// Returns what answers a request, and the request's number if it was one to the model.
fn answer(incoming: Incoming, shared: &Shared) -> (Vec<Action>, Option<usize>) {
    let path = incoming.path.split('?').next().unwrap_or_default();
    if incoming.method == "POST" {
        let request = Request {
            body: serde_json::from_slice(&incoming.body).unwrap_or(Value::Null),
            headers: incoming.headers,
            at: Instant::now(),
            outcome: Outcome::Open,
            step: None,
        };
        if path.ends_with("/chat/completions") {
            let model = request.body["model"].as_str().unwrap_or_default().to_owned();
            let (step, number) = shared.take(request);
            return (actions(&step, super::serial(), &model), Some(number));
        }
        if let Some(step) = shared.posted(path, request) {
            return (actions(&step, 0, ""), None);
        }
    }
    let step = shared.page(path).unwrap_or_else(|| {
        let text = Step::raw([format!("no such page: {path}")]);
        text.with_status(404).header("content-type", "text/plain")
    });
    (actions(&step, 0, ""), None)
}

/// Does what the step says. An error is the client's going away.
async fn play(to: &mut WriteHalf<'_>, actions: Vec<Action>) -> io::Result<Ending> {
    let mut actions = actions.into_iter().peekable();
    while let Some(action) = actions.next() {
        match action {
            Action::Head { status, headers } => {
                let mut head = format!("HTTP/1.1 {status} scripted\r\ntransfer-encoding: chunked\r\n");
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                head.push_str("\r\n");
                to.write_all(head.as_bytes()).await?;
            }
            // An empty chunk would end the body.
            Action::Write(bytes) if bytes.is_empty() => {}
            Action::Write(bytes) => {
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(&bytes);
                chunk.extend_from_slice(b"\r\n");
                if actions.peek().is_none() {
                    // In one write, so that a client that closes at `[DONE]` has not left before the end.
                    chunk.extend_from_slice(LAST_CHUNK);
                    to.write_all(&chunk).await?;
                    return Ok(Ending::Whole);
                }
                to.write_all(&chunk).await?;
                // Gives a client on another thread the chance to read each piece alone.
                tokio::task::yield_now().await;
            }
            Action::Wait(time) => tokio::time::sleep(time).await,
            Action::Gate(gate) => gate.pass().await,
            Action::Hang => std::future::pending().await,
            Action::Cut => return Ok(Ending::Cut),
            Action::Reset => return Ok(Ending::Reset),
        }
    }
    to.write_all(LAST_CHUNK).await?;
    Ok(Ending::Whole)
}

/// Ends when the client has closed the connection.
async fn gone(from: &mut ReadHalf<'_>, read: &mut Vec<u8>) {
    while matches!(from.read_buf(read).await, Ok(n) if n > 0) {}
}
