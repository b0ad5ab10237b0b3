//! Servers that are child processes: started on the guard's list, in a group of their own, spoken to over their
//! standard input and output. What they write to their standard error is read on and its end kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::process::{Child, ProcessGroup};

use crate::config::Local;
use crate::connect::{Counters, Environment, Ledger};
use crate::error::ConnectError;
use crate::lines::{Line, Lines};
use crate::message::{self, Incoming, MAX_MESSAGE};

/// How long a server has to end when its standard input is closed, and again after TERM.
const GRACE: Duration = Duration::from_millis(500);
/// How long the rest of a server's processes may hold its output after the first of them has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a server may leave its standard input unread.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes kept of the end of its standard error.
const SAID: usize = 4 * 1024;
/// Characters of it shown in an error.
const SHOWN: usize = 300;
/// Shortest value of the environment that is kept out of what is shown.
const SECRET: usize = 6;
/// Messages that wait to be taken.
const QUEUE: usize = 64;

/// The two ends of a server's pipes.
pub struct Pipes<W> {
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    input: Arc<tokio::sync::Mutex<Option<W>>>,
    _stop: DropGuard,
}

/// A line of the ledger, as long as there may be anything of the child.
struct Written {
    group: ProcessGroup,
    ledger: Option<Arc<dyn Ledger>>,
}

impl Written {
    fn new(child: &Child, ledger: Option<Arc<dyn Ledger>>) -> Self {
        let group = child.group();
        if let Some(ledger) = &ledger {
            ledger.started(group);
        }
        Self { group, ledger }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.ended(self.group);
        }
    }
}

/// What is known of a child.
#[derive(Clone)]
pub struct Fate {
    ended: watch::Receiver<Option<String>>,
    /// Its standard error has been read to the end.
    heard: CancellationToken,
    said: Arc<Mutex<Vec<u8>>>,
    secrets: Arc<Vec<String>>,
}

/// Starts a server. Must be called within a tokio runtime.
pub fn start(
    name: &str,
    config: &Local,
    directory: &Path,
    environment: &Environment,
    counters: &Arc<Counters>,
) -> Result<(Pipes<tokio::process::ChildStdin>, Fate), ConnectError> {
    let program = PathBuf::from(config.command.first().map(String::as_str).unwrap_or_default());
    let failed = |source| ConnectError::Spawn { program: program.clone(), source };
    let cwd = config.cwd.as_ref().map_or_else(|| directory.to_owned(), |cwd| directory.join(cwd));
    let mut command = Command::new(&program);
    command
        .args(config.command.iter().skip(1))
        .current_dir(&cwd)
        .envs(config.environment.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Tells its processes from those of an earlier start, wherever they went.
    let call = format!("mcp_{}_{:08x}", crate::names::safe(name), rand::random::<u32>());
    let processes = &environment.processes;
    processes.prepare(&mut command, None, &call);
    let process = command.spawn().map_err(|source| {
        // A directory that is not there reads like a program that is not.
        if cwd.is_dir() {
            failed(source)
        } else {
            failed(std::io::Error::other(format!("{} is no directory", cwd.display())))
        }
    })?;
    drop(command);
    let mut child = processes.adopt(process, &call).map_err(failed)?;
    let process = child.process();
    let (Some(input), Some(output), Some(errors)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(failed(std::io::Error::other("it has no pipes")));
    };
    let (ended_sender, ended) = watch::channel(None);
    let said = Arc::<Mutex<Vec<u8>>>::default();
    let secrets = config.environment.values().filter(|value| value.len() >= SECRET).cloned().collect();
    let heard = CancellationToken::new();
    let (all, end) = (heard.clone().drop_guard(), said.clone());
    tokio::spawn(async move {
        let _all = all;
        listen(errors, end).await;
    });
    let (pipes, stop, silent) = Pipes::new(name, output, input, counters.clone());
    let written = Written::new(&child, environment.ledger.clone());
    tokio::spawn(async move {
        keep(child, stop, silent, ended_sender).await;
        drop(written);
    });
    Ok((pipes, Fate { ended, heard, said, secrets: Arc::new(secrets) }))
}

impl<W: AsyncWrite + Send + Unpin + 'static> Pipes<W> {
    /// Returns the transport over a server's pipes, and two signs: it is done with; the server closed its output.
    pub fn new(
        name: &str,
        output: impl AsyncRead + Send + Unpin + 'static,
        input: W,
        counters: Arc<Counters>,
    ) -> (Self, CancellationToken, CancellationToken) {
        let (sender, incoming) = mpsc::channel(QUEUE);
        let (stop, silent) = (CancellationToken::new(), CancellationToken::new());
        let (name, is_silent, is_stopped) = (name.to_owned(), silent.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = read(&name, output, sender, &counters) => {}
                () = is_stopped.cancelled() => {}
            }
            is_silent.cancel();
        });
        let input = Arc::new(tokio::sync::Mutex::new(Some(input)));
        (Self { incoming, input, _stop: stop.clone().drop_guard() }, stop, silent)
    }
}

impl Fate {
    /// Returns how the child ended, once it has; waits a moment for it.
    pub async fn ending(&self) -> Option<(String, Option<String>)> {
        let mut ended = self.ended.clone();
        let status = tokio::time::timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await.ok()?.ok()?.clone()?;
        // What it wrote last may still be on its way, and others of it hold the pipe open.
        let _ = tokio::time::timeout(LAST_WORDS, self.heard.cancelled()).await;
        Some((status, self.last_line()))
    }

    /// Returns the last line it wrote to its standard error, without values of its own environment.
    fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&lock(&self.said)).into_owned();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        let mut line: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        for secret in self.secrets.iter() {
            line = line.replace(secret.as_str(), "***");
        }
        Some(line)
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient> for Pipes<W> {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let closed = || std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the server takes no more messages");
            let Some(pipe) = input.as_mut() else { return Err(closed()) };
            let written = tokio::time::timeout(WRITE_LIMIT, async {
                pipe.write_all(&line).await?;
                pipe.flush().await
            });
            match written.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error),
                Err(_) => {
                    // Half a message is in the pipe: nothing that comes after it could be read.
                    *input = None;
                    Err(closed())
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // Not waited for: a message that nobody reads must not hold the end up.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
        self.incoming.close();
        Ok(())
    }
}

/// Reads a server's output until it ends.
async fn read(name: &str, output: impl AsyncRead + Unpin, to: mpsc::Sender<ServerJsonRpcMessage>, counters: &Counters) {
    let mut lines = Lines::new(BufReader::with_capacity(64 * 1024, output), MAX_MESSAGE);
    while let Some(line) = lines.next().await {
        let incoming = match line {
            Line::Whole(line) => message::read(&line),
            Line::TooLong(head) => {
                tracing::warn!(server = name, "a message of an MCP server is too large and is skipped");
                vec![message::too_long(&head)]
            }
        };
        for incoming in incoming {
            match incoming {
                Incoming::Message(message) => {
                    if to.send(*message).await.is_err() {
                        return;
                    }
                }
                Incoming::Ignored => {}
                Incoming::Junk => counters.junk_came(name),
            }
        }
    }
}

/// Reads a server's standard error until it ends, and keeps its end.
async fn listen(mut errors: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut said = lock(&said);
        said.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if let Some(surplus) = said.len().checked_sub(SAID) {
            said.drain(..surplus);
        }
    }
}

/// Keeps the child until it ends or is no longer wanted, and sees to it that nothing of it stays.
async fn keep(
    mut child: Child,
    stop: CancellationToken,
    silent: CancellationToken,
    ended: watch::Sender<Option<String>>,
) {
    let status = tokio::select! {
        status = child.exited() => Some(status),
        // Its input is closed: most servers end by themselves then.
        () = stop.cancelled() => tokio::time::timeout(GRACE, child.exited()).await.ok(),
    };
    if let Some(status) = status {
        ended.send_replace(Some(status.map_or_else(|error| error.to_string(), |status| how(&status))));
        let over = async {
            tokio::select! {
                () = silent.cancelled() => {}
                () = stop.cancelled() => {}
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, over).await;
    }
    child.end(GRACE).await;
}

fn how(status: &std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
