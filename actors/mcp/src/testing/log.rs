//! What scripted servers get, told to the test as it comes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Nothing in tests takes as long.
const LIMIT: Duration = Duration::from_secs(20);

/// The lines of all servers that were given its [`Log::path`]: `start`, then a line a message.
pub struct Log {
    path: PathBuf,
    lines: watch::Sender<Vec<String>>,
    _task: AbortOnDropHandle<()>,
}

impl Log {
    /// Begins a log in a directory of the test's own.
    pub fn new(dir: &Path) -> Self {
        let path = dir.join("log");
        let listener = UnixListener::bind(&path).expect("a socket");
        let lines = watch::Sender::new(Vec::new());
        let sender = lines.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(stream).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        sender.send_modify(|all| all.push(line));
                    }
                });
            }
        });
        Self { path, lines, _task: AbortOnDropHandle::new(task) }
    }

    /// For [`Script::log`](super::Script::log).
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Returns how many lines hold this text so far.
    pub fn count(&self, text: &str) -> usize {
        count(&self.lines.borrow(), text)
    }

    /// Waits until so many lines hold this text.
    pub async fn until(&self, times: usize, text: &str) {
        let mut lines = self.lines.subscribe();
        let come = tokio::time::timeout(LIMIT, lines.wait_for(|lines| count(lines, text) >= times)).await.is_ok();
        assert!(come, "{text} did not come {times} times: {:#?}", self.lines.borrow());
    }
}

fn count(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| line.contains(text)).count()
}
