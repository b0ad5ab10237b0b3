//! `webfetch`: reads a page of the web.

mod body;
mod dom;
mod html;
mod reach;

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol::config::Config;
use protocol::part::FilePart;
use protocol::{Action, JsonMap};
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, USER_AGENT};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::looking;
use crate::tool::{Tool, ToolOutput, Traits};
use reach::{Reach, Target};

/// How long a fetch may take, unless the call says otherwise, and at most.
const TIMEOUT_SECONDS: (f64, f64) = (30.0, 120.0);

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(30);

/// Most redirects from one host to another.
const REDIRECTS: usize = 5;

/// What we say we are. Sites that know only browsers answer this.
const AGENT: &str = concat!("Mozilla/5.0 (compatible; Troupe/", env!("CARGO_PKG_VERSION"), ")");

/// Media types of images that models take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Reads a page of the web.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebFetch;

/// The arguments of [`WebFetch`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WebFetchInput {
    /// The address to fetch, http or https
    url: String,
    /// What the page is to become: markdown, its text alone, or html as it came
    #[serde(default)]
    #[schemars(schema_with = "formats")]
    format: Format,
    /// Time limit in seconds, at most 120
    #[serde(default)]
    #[schemars(schema_with = "seconds")]
    timeout: Option<f64>,
}

fn seconds(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "number" })
}

fn formats(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "enum": ["text", "markdown", "html"], "default": "markdown" })
}

/// What a page is turned into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Its text alone.
    Text,
    /// Markdown.
    #[default]
    Markdown,
    /// HTML as it came.
    Html,
}

impl Format {
    /// Returns what we would rather be given.
    fn accept(self) -> &'static str {
        match self {
            Self::Text => "text/plain;q=1.0, text/markdown;q=0.9, text/html;q=0.8, */*;q=0.1",
            Self::Markdown => {
                "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1"
            }
            Self::Html => "text/html;q=1.0, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.1",
        }
    }
}

impl Tool for WebFetch {
    type Input = WebFetchInput;
    const ID: &'static str = "webfetch";
    const DESCRIPTION: &'static str = include_str!("webfetch.txt");
    const TRAITS: Traits = Traits::reading("webfetch");

    async fn run(&self, input: WebFetchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let url = parse(&input.url)?;
        let limit = limit(input.timeout)?;
        let target = reach::of(url).await;
        cx.ask(ask(&input, &target.url, target.reach, &cx.place.config)).await?;
        cx.begin().await?;
        tokio::select! {
            () = cx.cancel.cancelled() => Err(ToolError::Aborted),
            page = tokio::time::timeout(limit, fetch(cx, target, input.format)) => match page {
                Ok(page) => show(cx, input, page?).await,
                Err(_) => Err(ToolError::TimedOut { tool: Self::ID.into(), limit_ms: limit.as_millis() as u64 }),
            },
        }
    }
}

/// A page as it came.
struct Page {
    content_type: String,
    bytes: Vec<u8>,
}

fn parse(url: &str) -> Result<Url, ToolError> {
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(ToolError::failed("The url must begin with http:// or https://"));
    }
    Url::parse(url).map_err(|e| ToolError::failed(format!("{url} is no url: {e}.")))
}

fn limit(timeout: Option<f64>) -> Result<Duration, ToolError> {
    let (usual, most) = TIMEOUT_SECONDS;
    let seconds = timeout.unwrap_or(usual).min(most);
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| ToolError::failed("The timeout must be a number of seconds above 0."))
}

/// A page of the person's network is asked for whatever the rules for the web say, unless the config names it.
fn ask(input: &WebFetchInput, url: &Url, reach: Reach, config: &Config) -> Ask {
    let mut metadata = JsonMap::new();
    metadata.insert("url".into(), Value::from(input.url.clone()));
    metadata.insert("format".into(), json!(input.format));
    if let Some(timeout) = input.timeout {
        metadata.insert("timeout".into(), json!(timeout));
    }
    let ask = Ask::new(WebFetch::ID, vec![input.url.clone()], vec!["*".into()], metadata);
    match reach {
        Reach::Private if !reach::is_named(config, url) => Ask { always: Vec::new(), floor: Action::Ask, ..ask },
        _ => ask,
    }
}

async fn fetch(cx: &ToolContext, target: Target, format: Format) -> Result<Page, ToolError> {
    let Target { reach, .. } = target;
    let mut target = target;
    let mut response = get(cx, &target, format).await?;
    // The client may follow redirects on one host by itself; it stops at others.
    for _ in 0..REDIRECTS {
        let Some(next) = reach::next(&target.url, &response)? else { break };
        let there = reach::of(next).await;
        if there.reach != Reach::Public && there.reach != reach {
            return Err(ToolError::failed(format!(
                "{} leads to {}, which is not on the public web. Fetch that address itself if you mean it.",
                body::shown(&target.url),
                body::shown(&there.url)
            )));
        }
        target = there;
        response = get(cx, &target, format).await?;
    }
    let Target { url, .. } = target;
    let status = response.status();
    if status.is_redirection() && reach::next(&url, &response)?.is_some() {
        return Err(ToolError::failed(format!("{} could not be fetched: too many redirects.", body::shown(&url))));
    }
    if !status.is_success() {
        let code = status.as_u16();
        return Err(ToolError::failed(format!("StatusCode: non 2xx status code ({code} GET {})", body::shown(&url))));
    }
    let content_type = header(response.headers());
    let bytes = body::read(&url, response).await?;
    Ok(Page { content_type, bytes })
}

async fn get(cx: &ToolContext, Target { url, addresses, .. }: &Target, format: Format) -> Result<Response, ToolError> {
    let client = match (url.domain(), addresses) {
        (Some(name), Some(addresses)) => pinned(name, addresses).map_err(|e| body::failure(url, &e))?,
        _ => cx.http.clone(),
    };
    let request = client
        .get(url.clone())
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, format.accept())
        .header(ACCEPT_LANGUAGE, "en-US,en;q=0.9");
    request.send().await.map_err(|e| match addresses.as_deref() {
        Some([]) if e.is_connect() => {
            ToolError::failed(format!("{} could not be fetched: nobody knows its name.", body::shown(url)))
        }
        _ => body::failure(url, &e),
    })
}

/// Returns a client that connects to these addresses where it is to connect to that name. Where a proxy is set it is
/// the proxy that looks the name up.
fn pinned(name: &str, addresses: &[SocketAddr]) -> Result<Client, reqwest::Error> {
    let builder = || {
        Client::builder().redirect(Policy::none()).connect_timeout(CONNECT).gzip(true).resolve_to_addrs(name, addresses)
    };
    // Where the machine has no root certificates `http:` works all the same.
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}

fn header(headers: &HeaderMap) -> String {
    headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// Turns a page into what was wished for.
async fn show(cx: &ToolContext, input: WebFetchInput, page: Page) -> Result<ToolOutput, ToolError> {
    let Page { content_type, bytes } = page;
    let title = format!("{} ({content_type})", input.url);
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if IMAGES.contains(&&*media) {
        let url = format!("data:{media};base64,{}", BASE64_STANDARD.encode(&bytes));
        let image = FilePart { mime: media, filename: None, url, source: None };
        return Ok(ToolOutput {
            attachments: vec![image],
            ..ToolOutput::new(title, "Image fetched successfully", json!({}))
        });
    }
    if !body::is_text(&media, &bytes) {
        return Err(ToolError::failed(format!(
            "{} is not a text but {} ({} bytes). Download it with a command if you need it.",
            input.url,
            if media.is_empty() { "binary" } else { &media },
            bytes.len()
        )));
    }
    let format = input.format;
    let text = looking(cx, move |cancel| {
        let text = body::decode(&content_type, &bytes);
        let is_html = matches!(&*media, "text/html" | "application/xhtml+xml")
            || (media.is_empty() && body::looks_like_html(&text));
        match format {
            Format::Markdown if is_html => html::to_markdown(&text, cancel),
            Format::Text if is_html => html::to_text(&text, cancel),
            _ => Ok(text),
        }
    });
    Ok(ToolOutput::new(title, text.await?, json!({})))
}

#[cfg(test)]
mod tests;
