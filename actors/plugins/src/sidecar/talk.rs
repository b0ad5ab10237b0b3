//! The tasks of a sidecar: writing to it, reading from it, keeping its process.

use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;
use tools::process::Child;

use super::{At, Ending, LONGEST, Shared, lock};
use crate::hook::Problem;

/// Most time for one message to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// How long a sidecar has to end by itself when its line is closed.
const GRACE: Duration = Duration::from_millis(1500);
/// How long a process that has closed its line may go on before it is ended.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Bytes of a printed line that are logged.
const LONGEST_PRINTED: usize = 4 * 1024;
/// Characters of a line that are shown in an error.
const SHOWN: usize = 300;

/// What a running call says.
#[derive(Debug)]
pub enum FromCall {
    /// How far it is.
    Progress {
        /// For a person.
        title: Option<String>,
        /// For clients.
        metadata: Option<Value>,
    },
    /// It wants a permission.
    Ask {
        /// Of the request, for the reply.
        id: String,
        /// What it wants.
        request: Value,
    },
}

/// Starts the tasks. `end` is told how it ends; `stop` ends it.
pub fn begin(
    mut child: Child,
    line: UnixStream,
    to_write: mpsc::Receiver<Vec<u8>>,
    shared: &Arc<Shared>,
    stop: CancellationToken,
    end: watch::Sender<Option<Ending>>,
) {
    let (reader, writer) = line.into_split();
    let (said, last_said) = watch::channel(None);
    if let Some(output) = child.process().stdout.take() {
        tokio::spawn(listen(output, |line| tracing::info!(target: "plugins::printed", "{line}")));
    }
    if let Some(errors) = child.process().stderr.take() {
        tokio::spawn(listen(errors, move |line| {
            tracing::info!(target: "plugins::printed", "{line}");
            if !line.trim().is_empty() {
                said.send_replace(Some(line.chars().take(SHOWN).collect::<String>()));
            }
        }));
    }
    let (stuck, shared) = (shared.stuck.clone(), Arc::downgrade(shared));
    let silent = CancellationToken::new();
    tokio::spawn(write(writer, to_write, stuck.clone(), stop.clone()));
    tokio::spawn({
        let (shared, silent, stop) = (shared.clone(), silent.clone(), stop.clone());
        async move {
            tokio::select! {
                () = read(reader, &shared) => {}
                () = stop.cancelled() => {}
            }
            silent.cancel();
        }
    });
    tokio::spawn(async move {
        let how = keep(&mut child, &stop, &stuck, &silent).await;
        if let Some(shared) = shared.upgrade() {
            // What it wrote last is taken along.
            let _ = tokio::time::timeout(LAST_WORDS, silent.cancelled()).await;
            let (at, said) = (shared.at.borrow().clone(), last_said.borrow().clone());
            let ending = Ending { how, was_stuck: shared.stuck.is_cancelled(), at, said };
            end.send_replace(Some(ending));
            lock(&shared.pending).clear();
        }
        child.end(GRACE).await;
    });
}

/// Waits until the process has ended, or must.
async fn keep(
    child: &mut Child,
    stop: &CancellationToken,
    stuck: &CancellationToken,
    silent: &CancellationToken,
) -> String {
    tokio::select! {
        status = child.exited() => status.map_or_else(|error| error.to_string(), |status| how(&status)),
        () = stuck.cancelled() => {
            child.end(Duration::ZERO).await;
            "it was stuck and was killed".to_owned()
        }
        () = async {
            silent.cancelled().await;
            tokio::time::sleep(LAST_WORDS).await;
        } => match tokio::time::timeout(GRACE, child.exited()).await {
            Ok(Ok(status)) => how(&status),
            _ if stop.is_cancelled() => "it was stopped".to_owned(),
            _ => "it closed its line".to_owned(),
        },
    }
}

fn how(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Writes messages until nobody sends any more. When it returns, the line is closed.
async fn write(
    mut line: OwnedWriteHalf,
    mut messages: mpsc::Receiver<Vec<u8>>,
    stuck: CancellationToken,
    stop: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = stop.cancelled() => None,
        };
        let Some(message) = message else { return };
        match tokio::time::timeout(WRITE_LIMIT, line.write_all(&message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => return stuck.cancel(),
        }
    }
}

/// A message of the sidecar.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
}

/// Reads messages until the line ends or breaks.
async fn read(line: OwnedReadHalf, shared: &Weak<Shared>) {
    let mut lines = FramedRead::new(line, LinesCodec::new_with_max_length(LONGEST));
    while let Some(Ok(line)) = lines.next().await {
        let Some(shared) = shared.upgrade() else { return };
        match serde_json::from_str(&line) {
            Ok(message) => take(message, &shared),
            Err(error) => tracing::warn!(%error, "the plugin process said something that is no message"),
        }
    }
}

fn take(message: Message, shared: &Shared) {
    match (message.method.as_deref(), message.id) {
        (None, Some(id)) => {
            let waiting = id.as_u64().and_then(|id| lock(&shared.pending).remove(&id));
            let answer = message.error.map_or(Ok(message.result), |error| Err(error.message));
            if let Some(pending) = waiting {
                // Whoever asked may have gone.
                let _ = pending.answer.send(answer);
            }
        }
        (Some("ask"), Some(Value::String(id))) => {
            to_call(&message.params, shared, |request| FromCall::Ask { id, request })
        }
        (Some("progress"), None) => to_call(&message.params, shared, |said| FromCall::Progress {
            title: said.get("title").and_then(Value::as_str).map(str::to_owned),
            metadata: said.get("metadata").cloned(),
        }),
        (Some("at"), None) => {
            if let Ok(at) = serde_json::from_value::<At>(message.params) {
                shared.at.send_replace(Some(at));
            }
        }
        (Some("problem"), None) => {
            if let Ok(problem) = serde_json::from_value::<Problem>(message.params) {
                let _ = shared.problems.try_send(problem);
            }
        }
        _ => {}
    }
}

fn to_call(params: &Value, shared: &Shared, say: impl FnOnce(Value) -> FromCall) {
    let call = params.get("call").and_then(Value::as_u64);
    let line = call.and_then(|id| lock(&shared.pending).get(&id).and_then(|pending| pending.call.clone()));
    if let Some(line) = line {
        // A call that says more than is taken loses signs of progress; an ask that is lost is withdrawn with its call.
        let _ = line.try_send(say(params.clone()));
    }
}

/// Reads what is printed, line by line; what is too long is cut.
async fn listen(mut from: impl AsyncRead + Unpin, mut say: impl FnMut(&str)) {
    let mut buffer = vec![0; 8 * 1024];
    let mut line: Vec<u8> = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        for byte in buffer.get(..count).unwrap_or_default() {
            match byte {
                b'\n' => {
                    say(&String::from_utf8_lossy(&line));
                    line.clear();
                }
                byte if line.len() < LONGEST_PRINTED => line.push(*byte),
                _ => {}
            }
        }
    }
    if !line.is_empty() {
        say(&String::from_utf8_lossy(&line));
    }
}
