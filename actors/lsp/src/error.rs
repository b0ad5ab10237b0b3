//! What goes wrong with language servers.

use std::path::PathBuf;
use std::time::Duration;

/// What went wrong with a language server.
#[derive(Debug, thiserror::Error)]
pub enum LspError {
    /// No server is there for the file.
    #[error("no language server is there for {}; install one, or name one in the config under `lsp`", path.display())]
    NoServer {
        /// The file.
        path: PathBuf,
    },
    /// The program did not start.
    #[error("{} can't be started: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server ended, or takes no more messages.
    #[error("the language server {server} has ended")]
    Ended {
        /// Its name.
        server: String,
    },
    /// The server did not answer in time.
    #[error("the language server {server} did not answer {method} within {} ms", limit.as_millis())]
    Late {
        /// Its name.
        server: String,
        /// What it was asked.
        method: String,
        /// How long it had.
        limit: Duration,
    },
    /// The server answered with an error.
    #[error("the language server {server} can't do {method}: {message} ({code})")]
    Refused {
        /// Its name.
        server: String,
        /// What it was asked.
        method: String,
        /// The protocol's code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// The server is not ready yet.
    #[error("the language server {server} is still starting; ask again in a while")]
    Starting {
        /// Its name.
        server: String,
    },
    /// The file can't be given to a server.
    #[error("{} can't be given to a language server: {problem}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}
