//! A server's process: on the guard's list, in a group of its own; what it writes to its standard error is read on and
//! its end kept.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tools::process::{Child, Processes};

use crate::config::Server;
use crate::error::LspError;
use crate::root::Launch;

/// Bytes kept of the end of its standard error.
const SAID: usize = 4 * 1024;
/// Characters of it shown in the log.
const SHOWN: usize = 300;
/// Shortest value of the environment that is kept out of what is shown.
const SECRET: usize = 6;

/// A server's process and its pipes.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) output: ChildStdout,
    pub(crate) input: ChildStdin,
    pub(crate) said: Said,
}

/// The end of what it wrote to its standard error.
#[derive(Clone, Default)]
pub(crate) struct Said {
    end: Arc<Mutex<Vec<u8>>>,
    secrets: Vec<String>,
}

/// Starts a server. Needs a tokio runtime around it.
pub(crate) fn start(server: &Server, launch: &Launch, processes: &Processes) -> Result<Started, LspError> {
    let failed = |source| LspError::Spawn { program: launch.program.clone(), source };
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .current_dir(&launch.root)
        .envs(server.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Tells its processes from those of an earlier start, wherever they went.
    let call = format!("lsp_{:016x}", rand::random::<u64>());
    processes.prepare(&mut command, None, &call);
    let process = command.spawn().map_err(failed)?;
    drop(command);
    let mut child = processes.adopt(process, &call).map_err(failed)?;
    let process = child.process();
    let (Some(input), Some(output), Some(errors)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(failed(std::io::Error::other("it has no pipes")));
    };
    let secrets = server.env.iter().map(|(_, value)| value).filter(|value| value.len() >= SECRET).cloned().collect();
    let said = Said { end: Arc::default(), secrets };
    tokio::spawn(listen(errors, said.clone()));
    Ok(Started { child, output, input, said })
}

impl Said {
    /// Returns the last line, without values of the server's own environment.
    pub(crate) fn last_line(&self) -> String {
        let text = String::from_utf8_lossy(&lock(&self.end)).into_owned();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        self.secrets.iter().fold(line, |line, secret| line.replace(secret.as_str(), "***"))
    }
}

async fn listen(mut errors: impl AsyncRead + Unpin, said: Said) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut end = lock(&said.end);
        end.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if let Some(surplus) = end.len().checked_sub(SAID) {
            end.drain(..surplus);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
