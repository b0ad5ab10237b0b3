//! JSON-RPC with a server over two pipes: requests and their answers, notices, and what the server asks of us.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::LspError;
use crate::frame::{self, Frame};

/// Messages that wait to be written.
const QUEUE: usize = 256;
/// How long a server may leave its input unread.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Most characters of a server's words in an error.
const SHOWN: usize = 500;
/// The protocol's code of a method that is not known.
const UNKNOWN_METHOD: i64 = -32601;

/// Hears what a server says by itself. Called while the pipe is read: must not wait.
pub trait Listener: Send + Sync + 'static {
    /// The server says something.
    fn notified(&self, method: &str, params: Value);

    /// The server asks something; none: this is not known here.
    fn asked(&self, method: &str, params: Value) -> Option<Value>;
}

type Answer = Result<Value, (i64, String)>;
type Pending = Arc<Mutex<HashMap<i64, oneshot::Sender<Answer>>>>;

/// The line to a server. It is cut when this is dropped.
#[derive(Debug)]
pub struct Connection {
    server: String,
    out: mpsc::Sender<Vec<u8>>,
    pending: Pending,
    next: AtomicI64,
    closed: CancellationToken,
    _cut: DropGuard,
}

impl Connection {
    /// Takes up the line over a server's pipes. Needs a tokio runtime around it.
    pub fn new(
        server: &str,
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        listener: Arc<dyn Listener>,
    ) -> Self {
        let (out, queue) = mpsc::channel(QUEUE);
        let (pending, closed) = (Pending::default(), CancellationToken::new());
        let reader = Reader { server: server.to_owned(), out: out.downgrade(), pending: pending.clone(), listener };
        let is_closed = closed.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = reader.read(output) => {}
                () = is_closed.cancelled() => {}
            }
            is_closed.cancel();
            // Nobody will answer those any more.
            lock(&reader.pending).clear();
        });
        let is_closed = closed.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = write(queue, input) => {}
                () = is_closed.cancelled() => {}
            }
            is_closed.cancel();
        });
        let cut = closed.clone().drop_guard();
        Self { server: server.to_owned(), out, pending, next: AtomicI64::new(1), closed, _cut: cut }
    }

    /// Resolves when the server says no more, or takes no more.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Says something.
    pub async fn notify(&self, method: &str, params: Value) -> Result<(), LspError> {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Asks something and waits for the answer.
    pub async fn request(&self, method: &str, params: Value, limit: Duration) -> Result<Value, LspError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        let _forget = Forget { pending: &self.pending, id };
        if self.closed.is_cancelled() {
            return Err(self.ended());
        }
        let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        // `null` is no legal value of params.
        if let (Some(message), false) = (message.as_object_mut(), params.is_null()) {
            message.insert("params".into(), params);
        }
        let exchange = async {
            self.send(message).await?;
            match answer.await {
                Ok(Ok(result)) => Ok(result),
                Ok(Err((code, message))) => {
                    Err(LspError::Refused { server: self.server.clone(), method: method.to_owned(), code, message })
                }
                Err(_) => Err(self.ended()),
            }
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(done) => done,
            Err(_) => {
                let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": id } });
                let _ = self.out.try_send(frame::framed(cancel.to_string().as_bytes()));
                Err(LspError::Late { server: self.server.clone(), method: method.to_owned(), limit })
            }
        }
    }

    async fn send(&self, message: Value) -> Result<(), LspError> {
        let frame = frame::framed(message.to_string().as_bytes());
        tokio::select! {
            sent = self.out.send(frame) => sent.map_err(|_| self.ended()),
            () = self.closed.cancelled() => Err(self.ended()),
        }
    }

    fn ended(&self) -> LspError {
        LspError::Ended { server: self.server.clone() }
    }
}

/// Takes a request off the list when nobody waits for its answer.
struct Forget<'a> {
    pending: &'a Pending,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.pending).remove(&self.id);
    }
}

struct Reader {
    server: String,
    out: mpsc::WeakSender<Vec<u8>>,
    pending: Pending,
    listener: Arc<dyn Listener>,
}

impl Reader {
    async fn read(&self, output: impl AsyncRead + Unpin) {
        let server = &*self.server;
        let mut output = BufReader::with_capacity(64 * 1024, output);
        loop {
            match frame::read(&mut output).await {
                Ok(Some(Frame::Message(message))) => match serde_json::from_slice(&message) {
                    Ok(message) => {
                        if !self.take(message) {
                            return;
                        }
                    }
                    Err(error) => tracing::debug!(server, %error, "a message that is no JSON is skipped"),
                },
                Ok(Some(Frame::TooLarge(bytes))) => {
                    tracing::warn!(server, bytes, "a message of a language server is too large and is skipped");
                }
                Ok(None) => return,
                Err(error) => return tracing::warn!(server, %error, "a language server can't be followed any more"),
            }
        }
    }

    /// Takes a message; false when the server must be given up.
    fn take(&self, mut message: Value) -> bool {
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let mut part = |name: &str| message.get_mut(name).map(Value::take).unwrap_or_default();
        match (id, method) {
            (Some(id), Some(method)) => {
                let answer = match self.listener.asked(&method, part("params")) {
                    Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                    None => {
                        let error = json!({ "code": UNKNOWN_METHOD, "message": format!("{method} is not known here") });
                        json!({ "jsonrpc": "2.0", "id": id, "error": error })
                    }
                };
                // Waiting here, with a server that waits for us to read, would be for ever.
                let answer = frame::framed(answer.to_string().as_bytes());
                return self.out.upgrade().is_some_and(|out| out.try_send(answer).is_ok());
            }
            (None, Some(method)) => self.listener.notified(&method, part("params")),
            (Some(id), None) => {
                let Some(sender) = id.as_i64().and_then(|id| lock(&self.pending).remove(&id)) else { return true };
                let error = part("error");
                let answer = match error.as_object() {
                    Some(error) => {
                        let words = error.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
                        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
                        Err((code, words.chars().take(SHOWN).collect()))
                    }
                    None => Ok(part("result")),
                };
                let _ = sender.send(answer);
            }
            (None, None) => tracing::debug!(server = self.server, "a message that says nothing is skipped"),
        }
        true
    }
}

/// Writes what is queued until the line is cut or the server doesn't read.
async fn write(mut queue: mpsc::Receiver<Vec<u8>>, mut input: impl AsyncWrite + Unpin) {
    while let Some(frame) = queue.recv().await {
        let written = tokio::time::timeout(WRITE_LIMIT, async {
            input.write_all(&frame).await?;
            input.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
