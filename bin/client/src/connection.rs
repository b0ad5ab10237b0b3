//! Where the server is, and how a request is sent to it.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, ClientError};

/// Names the directory a request is about.
const DIRECTORY: HeaderName = HeaderName::from_static("x-opencode-directory");
/// Longest time of a request that doesn't wait for a turn.
const QUICK: Duration = Duration::from_secs(30);
/// Longest time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Stands for the host where the server is on a socket: servers take requests only for names of this machine.
const ON_SOCKET: &str = "http://localhost/";
/// What a header can't carry as it is.
const UNSAFE: &AsciiSet = &CONTROLS.add(b'%').add(b' ');

/// A client of one server, for one directory. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    /// For errors: the address, or the socket's path.
    pub(crate) server: String,
    pub(crate) headers: HeaderMap,
}

/// How long a request may take.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// The server answers at once.
    Quick,
    /// It answers when a turn has ended, or other servers have answered, which has limits of its own and may wait for a
    /// person.
    Turn,
}

impl Client {
    /// Returns a client of the server at `url` (`http://HOST:PORT`; a user name and password in it are sent as basic
    /// auth). Connects to nothing yet.
    pub fn tcp(url: &str) -> Result<Self, ClientError> {
        let bad = |reason: String| ClientError::Address { url: without_login(url), reason };
        let mut base = Url::parse(url).map_err(|error| bad(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(bad("only http and https are spoken".into()));
        }
        let Some(host) = base.host_str() else { return Err(bad("it names no host".into())) };
        let is_here = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        let login = match (base.username(), base.password()) {
            ("", None) => None,
            (user, password) => Some((decoded(user), decoded(password.unwrap_or_default()))),
        };
        // It is shown, so it must not hold them; neither call can fail for an http address.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        base.set_query(None);
        base.set_fragment(None);
        let server = base.as_str().trim_end_matches('/').to_owned();
        let client = if is_here {
            Self { http: local(builder())?, base, server, headers: HeaderMap::new() }
        } else {
            let http = sse::http::client(&agent()).map_err(|error| ClientError::Http(error.to_string()))?;
            Self { http, base, server, headers: HeaderMap::new() }
        };
        Ok(match login {
            Some((user, password)) => client.basic_auth(&user, &password),
            None => client,
        })
    }

    /// Returns a client of the server on a unix socket. Connects to nothing yet.
    #[cfg(unix)]
    pub fn unix(socket: &Path) -> Result<Self, ClientError> {
        let server = socket.display().to_string();
        let base = Url::parse(ON_SOCKET)
            .map_err(|error| ClientError::Address { url: server.clone(), reason: error.to_string() })?;
        Ok(Self { http: local(builder().unix_socket(socket))?, base, server, headers: HeaderMap::new() })
    }

    /// Names this directory with each request from now on (an absolute path; else the server takes its own).
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        let text = directory.as_ref().to_string_lossy();
        // Percent-encoded text always fits in a header.
        if let Ok(value) = HeaderValue::from_str(&utf8_percent_encode(&text, UNSAFE).to_string()) {
            self.headers.insert(DIRECTORY, value);
        }
        self
    }

    /// Sends this name and password with each request from now on.
    pub fn basic_auth(mut self, user: &str, password: &str) -> Self {
        let text = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        if let Ok(mut value) = HeaderValue::from_str(&text) {
            value.set_sensitive(true);
            self.headers.insert(AUTHORIZATION, value);
        }
        self
    }

    /// Returns the server's address, or its socket's path.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the address of a route.
    pub(crate) fn url(&self, path: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, ClientError> {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<T, ClientError> {
        let body = self.send(Method::GET, self.url(path, query), None, Patience::Quick).await?;
        read(Method::GET, path, &body)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        patience: Patience,
    ) -> Result<T, ClientError> {
        let answer = self.send(Method::POST, self.url(path, &[]), Some(json(path, body)?), patience).await?;
        read(Method::POST, path, &answer)
    }

    /// Sends a body to a route whose answer says nothing.
    pub(crate) async fn tell(&self, path: &[&str], body: &impl Serialize) -> Result<(), ClientError> {
        self.send(Method::POST, self.url(path, &[]), Some(json(path, body)?), Patience::Quick).await.map(drop)
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> Result<(), ClientError> {
        self.send(Method::DELETE, self.url(path, &[]), None, Patience::Quick).await.map(drop)
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let url = self.url(path, &[]);
        let answer = self.send(Method::PATCH, url, Some(json(path, body)?), Patience::Quick).await?;
        read(Method::PATCH, path, &answer)
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<Vec<u8>>,
        patience: Patience,
    ) -> Result<Vec<u8>, ClientError> {
        let mut request = self.http.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        if let Patience::Quick = patience {
            request = request.timeout(QUICK);
        }
        let failed = |error| ClientError::of_request(&self.server, error);
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(failed)?;
        if status.is_success() {
            return Ok(body.into());
        }
        Err(ApiError::read(status.as_u16(), &String::from_utf8_lossy(&body)).into())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}

fn json(path: &[&str], body: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(body)
        .map_err(|error| ClientError::Unreadable { request: format!("/{}", path.join("/")), reason: error.to_string() })
}

fn read<T: DeserializeOwned>(method: Method, path: &[&str], body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Unreadable {
        request: format!("{method} /{}", path.join("/")),
        reason: error.to_string(),
    })
}

fn agent() -> String {
    format!("troupe/{}", env!("CARGO_PKG_VERSION"))
}

/// A client for servers of this machine: no proxy is asked, no root certificates are read.
fn local(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, ClientError> {
    let built = builder.no_proxy().tls_certs_only([]).build();
    built.map_err(|error| ClientError::Http(error.to_string()))
}

fn builder() -> reqwest::ClientBuilder {
    sse::http::install_crypto();
    reqwest::Client::builder()
        .user_agent(agent())
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// For errors about addresses that can't be read: what stands before an `@` may be a password.
fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_password_in_an_address_is_sent_and_never_shown() {
        let client = Client::tcp("http://ada:se%40cret@127.0.0.1:4096/").expect("a client");
        assert_eq!(client.server(), "http://127.0.0.1:4096");
        assert_eq!(client.headers[AUTHORIZATION], format!("Basic {}", STANDARD.encode("ada:se@cret")).as_str());
        let error = Client::tcp("htp://ada:secret@host").expect_err("no such scheme").to_string();
        assert!(!error.contains("secret") && error.contains("htp://host"), "{error}");
        assert!(!format!("{client:?}").contains("cret"));
    }

    #[test]
    fn routes_are_put_behind_the_addresss_own_path() {
        let client = Client::tcp("http://localhost:1/base/").expect("a client");
        let url = client.url(&["session", "ses_1/.."], &[("limit", "5".into())]);
        assert_eq!(url.as_str(), "http://localhost:1/base/session/ses_1%2F..?limit=5");
    }

    #[test]
    fn a_directory_fits_in_a_header_whatever_its_name() {
        let client = Client::tcp("http://localhost:1").expect("a client").directory("/tmp/ä b%20");
        assert_eq!(client.headers[DIRECTORY], "/tmp/%C3%A4%20b%2520");
    }
}
