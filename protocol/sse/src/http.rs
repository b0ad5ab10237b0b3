//! The process's HTTP client.

use std::time::Duration;

use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Client, ClientBuilder};

/// Most redirects followed.
const REDIRECTS: usize = 5;

/// Makes ring the process's provider of TLS cryptography. A second call does nothing.
pub fn install_crypto() {
    // The error is the provider that is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a client; one for the whole process is right, it pools connections. No limit to the time of a whole request:
/// a stream may run for hours, and [`crate::open`] has limits of its own.
///
/// It reads the machine's root certificates, which takes some ms, so build it when it is first needed. Where there are
/// none it is built without any: `http:` then works, `https:` fails when it connects.
pub fn client(user_agent: &str) -> Result<Client, reqwest::Error> {
    install_crypto();
    builder(user_agent).build().or_else(|_| builder(user_agent).tls_certs_only([]).build())
}

fn builder(user_agent: &str) -> ClientBuilder {
    Client::builder()
        .user_agent(user_agent)
        .redirect(Policy::custom(follow))
        .connect_timeout(Duration::from_secs(30))
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_secs(90))
        .pool_max_idle_per_host(64)
        .gzip(true)
}

/// Follows redirects on one host only: reqwest takes `authorization` out on the way to another, but no vendor's own key
/// header.
fn follow(attempt: Attempt<'_>) -> Action {
    let from = attempt.previous().last().and_then(|url| url.host_str());
    if attempt.previous().len() > REDIRECTS {
        attempt.error("too many redirects")
    } else if from == attempt.url().host_str() {
        attempt.follow()
    } else {
        attempt.stop()
    }
}
