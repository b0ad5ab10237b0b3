//! Where a person's browser comes back to after a login: a port of this machine, open only while somebody waits.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::AuthError;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long a browser may take to send its request.
const REQUEST: Duration = Duration::from_secs(10);
/// Most bytes of a request.
const MOST: usize = 16 * 1024;
/// How often a port is tried again, and the wait in between: the login before may just be leaving it.
const BINDS: u32 = 5;
const AGAIN: Duration = Duration::from_millis(50);

const DONE: &str = "You are logged in. You may close this page.";
const NOT_DONE: &str = "The login failed. You may close this page and try again.";

/// A port that waits for one browser. Dropping it closes the port.
pub(super) struct Callback {
    answers: mpsc::Receiver<Result<String, AuthError>>,
    serving: AbortHandle,
}

impl Callback {
    /// Opens a port (0: any) for a login with this state, and returns it with its number.
    pub(super) async fn listen(port: u16, path: &'static str, state: &str) -> Result<(Self, u16), AuthError> {
        let failed = |error: std::io::Error| {
            AuthError::Refused(format!(
                "port {port} of this machine, where the login comes back to, can't be had ({error}); end what uses it, \
                 or log in by the other way"
            ))
        };
        let listener = bind(port).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let (told, answers) = mpsc::channel(1);
        let state = state.to_owned();
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let answer = tokio::time::timeout(REQUEST, serve(connection, path, &state)).await;
                if let Ok(Some(answer)) = answer {
                    let _ = told.send(answer).await;
                    return;
                }
            }
        });
        Ok((Self { answers, serving: serving.abort_handle() }, port))
    }

    /// Waits for the code.
    pub(super) async fn wait(mut self) -> Result<String, AuthError> {
        match tokio::time::timeout(PATIENCE, self.answers.recv()).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(AuthError::Refused("the port it comes back to was closed".into())),
            Err(_) => Err(AuthError::Late { minutes: PATIENCE.as_secs() / 60 }),
        }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn bind(port: u16) -> std::io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Err(error) if tries < BINDS && error.kind() == std::io::ErrorKind::AddrInUse => {
                tries += 1;
                tokio::time::sleep(AGAIN).await;
            }
            other => return other,
        }
    }
}

/// Answers one request; returns what it brings, if it is the one that is waited for.
async fn serve(mut connection: TcpStream, path: &str, state: &str) -> Option<Result<String, AuthError>> {
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        if read.len() > MOST || connection.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&read);
    let target = head.split(' ').nth(1)?;
    let url = url::Url::parse("http://localhost").ok()?.join(target).ok()?;
    let find = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    // Another page of this machine, or a login of somebody else's making.
    let is_ours = url.path() == path && find("state").as_deref() == Some(state);
    let answer = is_ours.then(|| match (find("code"), find("error")) {
        (Some(code), None) if !code.is_empty() => Ok(code),
        (_, error) => {
            let said = find("error_description").or(error).unwrap_or_else(|| "no code came back".into());
            Err(AuthError::Refused(said.chars().take(300).collect()))
        }
    });
    let (status, said) = match &answer {
        None => ("404 Not Found", "There is nothing here."),
        Some(Ok(_)) => ("200 OK", DONE),
        Some(Err(_)) => ("400 Bad Request", NOT_DONE),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{said}",
        said.len()
    );
    let _ = connection.write_all(page.as_bytes()).await;
    let _ = connection.shutdown().await;
    answer
}
