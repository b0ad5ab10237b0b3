//! Why a server can't be used, and why a call of it failed.

use std::path::PathBuf;

use crate::auth::AuthProblem;

/// Why there is no connection to a server. The texts follow the server's name.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its program can't be started.
    #[error("{}, posix_spawn '{}'", in_words(source), program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The child ended before it was ready.
    #[error("it ended before it was ready ({status}){}", said.as_ref().map(|said| format!("; it said: {said}")).unwrap_or_default())]
    Ended {
        /// `exit code 1`, `signal 9`…
        status: String,
        /// The last line it wrote to its standard error.
        said: Option<String>,
    },
    /// It did not answer the handshake in time.
    #[error("it was not ready within {limit_ms} ms")]
    Slow {
        /// The limit.
        limit_ms: u64,
    },
    /// Nobody answers at its address.
    #[error("{host} can't be reached: {reason}")]
    Unreachable {
        /// Where.
        host: String,
        /// Why not.
        reason: String,
    },
    /// Whoever answers does not speak MCP, or refused.
    #[error("the handshake failed: {0}")]
    Handshake(String),
    /// It wants a login, and there is none, or it no longer holds.
    #[error("it wants a login; `troupe mcp auth` begins one")]
    NeedsAuth,
    /// It wants a login, and takes only clients that were registered by hand.
    #[error("it takes only registered clients; put its `oauth.clientId` into the config")]
    NeedsClientRegistration,
    /// The login it has can't be used.
    #[error(transparent)]
    Auth(#[from] AuthProblem),
}

/// As clients know it: the code, then the system's words.
fn in_words(error: &std::io::Error) -> String {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => "ENOENT: ",
        std::io::ErrorKind::PermissionDenied => "EACCES: ",
        _ => "",
    };
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or_default();
    let mut characters = said.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().fold(code.to_owned(), |mut text, first| {
        text.push(first);
        text
    }) + characters.as_str()
}

impl ConnectError {
    /// Returns whether trying again by itself can't help.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Spawn { source, .. } => !matches!(
                source.kind(),
                std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory
            ),
            Self::Slow { .. } | Self::NeedsAuth | Self::NeedsClientRegistration => true,
            Self::Auth(problem) => problem.is_final(),
            Self::Ended { .. } | Self::Unreachable { .. } | Self::Handshake(_) => false,
        }
    }
}

/// Why a request to a server failed. The texts are for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server went away before it answered.
    #[error("The MCP server went away during the call; whether it was done is not known.")]
    Lost,
    /// The server says no: a wrong argument, an unknown tool…
    #[error("The MCP server refused the call: {message} (code {code})")]
    Refused {
        /// JSON-RPC's.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// The server wants a login.
    #[error("The MCP server wants a login; a person has to run `troupe mcp auth`.")]
    NeedsAuth,
    /// The request could not be sent, or its answer not be read.
    #[error("The MCP server could not be asked: {0}")]
    Transport(String),
    /// It did not answer in time.
    #[error("The MCP server did not answer within {limit_ms} ms.")]
    Slow {
        /// The limit.
        limit_ms: u64,
    },
    /// A call was given up; the server was told.
    #[error(
        "The MCP server neither answered nor showed any progress for {limit_ms} ms, so the call was given up; whether \
         it was done is not known."
    )]
    Silent {
        /// The limit.
        limit_ms: u64,
    },
    /// The call was stopped; the server was told.
    #[error("The call was stopped.")]
    Cancelled,
}
