//! Instructions that are pages of the web: fetched within limits, kept for a while.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;
use url::Url;

use super::Instruction;

/// How long a page may take. Source: OpenCode `session/instruction.ts`.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest page that is taken, in bytes.
const MAX_BYTES: usize = 256 * 1024;
/// Most pages of one directory, and how many are fetched at once.
const MAX_PAGES: usize = 20;
const AT_ONCE: usize = 4;
/// How long a page is kept.
const FRESH: Duration = Duration::from_secs(600);
/// How long it is before one that failed is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// The pages that were fetched. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pages(Arc<HashMap<String, Page>>);

#[derive(Clone, Debug)]
struct Page {
    /// The last text there was.
    text: Option<Arc<str>>,
    /// When it is fetched again.
    until: Instant,
}

/// What is to be done for pages before they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    None,
    /// One was never fetched: it is waited for.
    Now,
    /// Some are old: they are told as they are, and fetched meanwhile.
    Later,
}

impl Pages {
    /// Returns what is to be done before these are told.
    pub fn need(&self, addresses: &[String]) -> Need {
        let now = Instant::now();
        let known = |address: &String| self.0.get(address);
        let addresses = || addresses.iter().take(MAX_PAGES);
        if addresses().any(|address| known(address).is_none()) {
            Need::Now
        } else if addresses().any(|address| known(address).is_some_and(|page| page.until <= now)) {
            Need::Later
        } else {
            Need::None
        }
    }

    /// Fetches what is new or old of these, and forgets all others. A page that fails keeps its last text.
    pub async fn refreshed(self, addresses: &[String], http: &reqwest::Client) -> Self {
        let now = Instant::now();
        let known = &self.0;
        let fetch = |address: &String| {
            let (address, known) = (address.clone(), known.get(address).cloned());
            async move {
                match known {
                    Some(page) if page.until > now => (address, page),
                    known => {
                        let page = match get(&address, http).await {
                            Ok(text) => Page { text: Some(text.into()), until: Instant::now() + FRESH },
                            Err(problem) => {
                                tracing::warn!(host = host(&address), problem, "a page of instructions is left out");
                                Page { text: known.and_then(|page| page.text), until: Instant::now() + AGAIN }
                            }
                        };
                        (address, page)
                    }
                }
            }
        };
        let wanted = addresses.iter().take(MAX_PAGES).map(fetch).collect::<Vec<_>>();
        let pages: HashMap<String, Page> = futures::stream::iter(wanted).buffer_unordered(AT_ONCE).collect().await;
        Self(Arc::new(pages))
    }

    /// Returns the instructions of these pages, in their order.
    pub fn told(&self, addresses: &[String]) -> Vec<Instruction> {
        let told = |address: &String| {
            let text = self.0.get(address)?.text.as_deref()?;
            Some(Instruction { source: shown(address), text: text.to_owned() })
        };
        addresses.iter().filter_map(told).collect()
    }
}

/// Fetches a page. The error says nothing that may be secret.
async fn get(address: &str, http: &reqwest::Client) -> Result<String, String> {
    let fetch = async {
        let response = http.get(address).send().await.map_err(|error| told(&error))?;
        if response.status().is_redirection() {
            return Err("it redirects to another host; name that one".to_owned());
        }
        if !response.status().is_success() {
            return Err(format!("the server answers {}", response.status()));
        }
        let mut body = response.bytes_stream();
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| told(&error))?;
            if bytes.len() + piece.len() > MAX_BYTES {
                return Err("it is larger than 256 KiB".to_owned());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    tokio::time::timeout(PATIENCE, fetch).await.unwrap_or_else(|_| Err("it took longer than 5 s".to_owned()))
}

fn told(error: &reqwest::Error) -> String {
    if error.is_connect() { "the server can't be reached".into() } else { "the answer broke off".into() }
}

/// Where an address goes; its path may hold a token.
fn host(address: &str) -> String {
    let url = Url::parse(address).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_else(|| "(no address)".into())
}

/// An address without what may be secret in it.
fn shown(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return "(no address)".into() };
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// Answers each connection with the next of these, and says which paths were asked for.
    async fn server(answers: Vec<String>) -> (String, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.expect("a request");
                let line = String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned();
                let _ = asked.send(line);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (address, seen)
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn pages_are_fetched_once_and_a_failed_one_is_left_out() {
        let (base, mut asked) = server(vec![answer("200 OK", "be kind"), answer("404 Not Found", "no")]).await;
        let http = sse::http::client("test").expect("a client");
        let one = vec![format!("{base}/rules.md?token=hush")];
        let pages = Pages::default();
        assert_eq!(pages.need(&one), Need::Now);
        let pages = pages.refreshed(&one, &http).await;
        let told = pages.told(&one);
        assert_eq!((told[0].text.as_str(), told[0].source.as_str()), ("be kind", format!("{base}/rules.md").as_str()));
        assert_eq!(asked.recv().await.as_deref(), Some("GET /rules.md?token=hush HTTP/1.1"));
        assert_eq!(pages.need(&one), Need::None);

        let two = vec![one[0].clone(), format!("{base}/gone.md")];
        assert_eq!(pages.need(&two), Need::Now);
        let pages = pages.refreshed(&two, &http).await;
        assert_eq!(pages.told(&two).len(), 1);
        assert_eq!(asked.recv().await.as_deref(), Some("GET /gone.md HTTP/1.1"));
        assert_eq!(pages.need(&two), Need::None, "one that failed isn't asked for at each use");
    }

    #[tokio::test]
    async fn an_old_page_is_told_until_there_is_a_newer_one() {
        let (base, _asked) =
            server(vec![answer("200 OK", "old"), answer("500 Oops", ""), answer("200 OK", "new")]).await;
        let http = sse::http::client("test").expect("a client");
        let addresses = vec![format!("{base}/x")];
        let mut pages = Pages::default().refreshed(&addresses, &http).await;
        for wanted in ["old", "new"] {
            let known = pages.0.iter().map(|(k, page)| (k.clone(), Page { until: Instant::now(), ..page.clone() }));
            pages = Pages(Arc::new(known.collect()));
            assert_eq!(pages.need(&addresses), Need::Later);
            pages = pages.refreshed(&addresses, &http).await;
            assert_eq!(pages.told(&addresses)[0].text, wanted);
        }
    }

    #[tokio::test]
    async fn a_page_that_is_too_long_is_left_out() {
        let (base, _asked) = server(vec![answer("200 OK", &"x".repeat(MAX_BYTES + 1))]).await;
        let http = sse::http::client("test").expect("a client");
        assert_eq!(get(&base, &http).await, Err("it is larger than 256 KiB".into()));
    }
}
