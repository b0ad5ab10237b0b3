//! Where and how a provider is spoken to, and which adapter speaks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use protocol::{Ids, JsonMap, SystemClock};
use sse::{Client, HeaderMap, HeaderName, HeaderValue, Url};

use crate::chat::Chat;
use crate::demo::{self, Demo};
use crate::{IdSource, Provider};

/// Sent with each request.
const USER_AGENT: &str = concat!("troupe/", env!("CARGO_PKG_VERSION"));

/// Packages whose wire format no adapter speaks yet. A name that isn't here is taken for chat completions, which is
/// what a server of unknown make most likely speaks.
const NOT_SPOKEN: [&str; 10] = [
    "@ai-sdk/amazon-bedrock",
    "@ai-sdk/anthropic",
    "@ai-sdk/azure",
    "@ai-sdk/cohere",
    "@ai-sdk/google",
    "@ai-sdk/google-vertex",
    "@ai-sdk/google-vertex/anthropic",
    "@ai-sdk/openai",
    "@gitlab/gitlab-ai-provider",
    "gitlab-ai-provider",
];

/// Where the packages that carry their own address send chat completions.
const BASE_URLS: [(&str, &str); 8] = [
    ("@ai-sdk/cerebras", "https://api.cerebras.ai/v1"),
    ("@ai-sdk/deepinfra", "https://api.deepinfra.com/v1/openai"),
    ("@ai-sdk/groq", "https://api.groq.com/openai/v1"),
    ("@ai-sdk/mistral", "https://api.mistral.ai/v1"),
    ("@ai-sdk/perplexity", "https://api.perplexity.ai"),
    ("@ai-sdk/togetherai", "https://api.together.xyz/v1"),
    ("@ai-sdk/xai", "https://api.x.ai/v1"),
    ("@openrouter/ai-sdk-provider", "https://openrouter.ai/api/v1"),
];

/// All an adapter needs to know of a provider.
#[derive(Clone)]
pub struct Endpoint {
    /// Its key in the config.
    pub provider_id: String,
    /// The client package OpenCode would use; it names the wire format.
    pub npm: String,
    /// Its address; empty where the package carries its own.
    pub base_url: String,
    /// Its key; local servers have none.
    pub api_key: Option<String>,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Added to each url.
    pub query: IndexMap<String, String>,
    /// Most time between two events of an answer.
    pub chunk_timeout: Duration,
    /// Most time until an answer begins.
    pub header_timeout: Duration,
    /// The adapter's own settings (`includeUsage`); what goes into the body comes with the request.
    pub options: JsonMap,
}

/// Why a provider can't be spoken to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No adapter speaks its wire format.
    #[error(
        "provider {provider_id:?} uses {npm:?}, which is not spoken yet; spoken are \"@ai-sdk/openai-compatible\" and \
         other packages for OpenAI chat completions: if the server offers those, set `npm` to the former and \
         `options.baseURL` to its address"
    )]
    NotSpoken {
        /// The provider.
        provider_id: String,
        /// Its package.
        npm: String,
    },
    /// It has no address.
    #[error("provider {provider_id:?} has no address; set its `options.baseURL`")]
    NoBaseUrl {
        /// The provider.
        provider_id: String,
    },
    /// Its address is no http url.
    #[error("`options.baseURL` of provider {provider_id:?} is not an http or https url")]
    BadBaseUrl {
        /// The provider.
        provider_id: String,
    },
    /// A header can't be sent, or its key can't be sent in one.
    #[error("header {name:?} of provider {provider_id:?} has a name or value that can't be sent; correct or remove it")]
    BadHeader {
        /// The provider.
        provider_id: String,
        /// The header.
        name: String,
    },
}

/// Returns the adapter that speaks to `endpoint`. `client` is shared by all.
pub fn open(endpoint: &Endpoint, client: Client) -> Result<Arc<dyn Provider>, OpenError> {
    if endpoint.npm == demo::NPM {
        return Ok(Arc::new(Demo::new(call_ids())));
    }
    if NOT_SPOKEN.contains(&endpoint.npm.as_str()) {
        return Err(OpenError::NotSpoken { provider_id: endpoint.provider_id.clone(), npm: endpoint.npm.clone() });
    }
    Ok(Arc::new(Chat::new(endpoint, client, call_ids())?))
}

fn call_ids() -> IdSource {
    let ids = Ids::new(Arc::new(SystemClock), 0);
    Arc::new(move || ids.call())
}

impl Endpoint {
    /// Returns an endpoint with the default time limits (120 s between events, 300 s until the answer begins).
    pub fn new(provider_id: impl Into<String>, npm: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            provider_id: provider_id.into(),
            npm: npm.into(),
            base_url: base_url.into(),
            api_key: None,
            headers: IndexMap::new(),
            query: IndexMap::new(),
            chunk_timeout: Duration::from_secs(120),
            header_timeout: Duration::from_secs(300),
            options: JsonMap::new(),
        }
    }

    /// Returns the url of `path` below the provider's address.
    pub(crate) fn url(&self, path: &[&str]) -> Result<Url, OpenError> {
        let known = BASE_URLS.iter().find(|(npm, _)| *npm == self.npm).map(|(_, url)| *url);
        let base = if self.base_url.is_empty() { known } else { Some(self.base_url.as_str()) };
        let base = base.ok_or_else(|| OpenError::NoBaseUrl { provider_id: self.provider_id.clone() })?;
        let bad = || OpenError::BadBaseUrl { provider_id: self.provider_id.clone() };
        let mut url = Url::parse(base).map_err(|_| bad())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad());
        }
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(path);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }

    /// Returns the headers of each request: `json`, user agent, the key as a bearer, then the configured ones.
    pub(crate) fn bearer_headers(&self) -> Result<HeaderMap, OpenError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        let bad = |name: &str| OpenError::BadHeader { provider_id: self.provider_id.clone(), name: name.into() };
        if let Some(key) = self.api_key.as_ref().filter(|key| !key.is_empty()) {
            set(&mut headers, "authorization", &format!("Bearer {key}")).ok_or_else(|| bad("authorization"))?;
        }
        for (name, value) in &self.headers {
            set(&mut headers, name, value).ok_or_else(|| bad(name))?;
        }
        Ok(headers)
    }

    /// Returns what must not be repeated in an error: the key, and the values of headers that look like one.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let telling = |name: &str| {
            ["auth", "cookie", "key", "secret", "token"].iter().any(|word| name.to_ascii_lowercase().contains(word))
        };
        let headers = self.headers.iter().filter(|(name, _)| telling(name)).map(|(_, value)| value);
        let queries = self.query.iter().filter(|(name, _)| telling(name)).map(|(_, value)| value);
        self.api_key.iter().chain(headers).chain(queries).filter(|secret| secret.len() >= 4).cloned().collect()
    }
}

/// Sets a header. The value is kept out of logs.
pub(crate) fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Option<()> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Some(())
}

impl fmt::Debug for Endpoint {
    /// Leaves out the key and all values that may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider_id", &self.provider_id)
            .field("npm", &self.npm)
            .field("has_key", &self.api_key.is_some())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("query", &self.query.keys().collect::<Vec<_>>())
            .field("chunk_timeout", &self.chunk_timeout)
            .field("header_timeout", &self.header_timeout)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn url(npm: &str, base: &str) -> Result<String, OpenError> {
        Endpoint::new("p", npm, base).url(&["chat", "completions"]).map(String::from)
    }

    #[test]
    fn the_path_goes_below_the_address_and_keeps_its_query() {
        assert_eq!(url("x", "http://h:1/v1").expect("a url"), "http://h:1/v1/chat/completions");
        assert_eq!(url("x", "http://h:1/v1/").expect("a url"), "http://h:1/v1/chat/completions");
        assert_eq!(url("x", "https://h/v1?version=2").expect("a url"), "https://h/v1/chat/completions?version=2");
        assert_eq!(url("@ai-sdk/groq", "").expect("a url"), "https://api.groq.com/openai/v1/chat/completions");
        let mut endpoint = Endpoint::new("p", "x", "http://h/v1");
        endpoint.query.insert("api-version".into(), "a b".into());
        assert_eq!(endpoint.url(&["x"]).expect("a url").as_str(), "http://h/v1/x?api-version=a+b");
    }

    #[test]
    fn an_address_that_is_missing_or_no_http_url_is_an_error_that_names_the_option() {
        assert_eq!(url("x", ""), Err(OpenError::NoBaseUrl { provider_id: "p".into() }));
        for bad in ["localhost", "ftp://x/", "data:text/plain,x", "${URL}/v1"] {
            assert_eq!(url("x", bad), Err(OpenError::BadBaseUrl { provider_id: "p".into() }), "{bad}");
        }
        assert!(OpenError::NoBaseUrl { provider_id: "p".into() }.to_string().contains("options.baseURL"));
    }

    #[test]
    fn a_package_of_another_wire_format_is_refused_and_the_spoken_ones_are_named() {
        let client = || sse::http::client("test").expect("a client");
        for npm in NOT_SPOKEN {
            let error = open(&Endpoint::new("p", npm, "http://h"), client()).err().expect("an error").to_string();
            assert!(error.contains(npm) && error.contains("@ai-sdk/openai-compatible"), "{error}");
        }
        assert!(open(&Endpoint::new("p", "some-package", "http://h"), client()).is_ok());
    }

    #[test]
    fn no_secret_is_shown() {
        let mut endpoint = Endpoint::new("p", "x", "http://user:pass@h");
        endpoint.api_key = Some("sk-1234\u{1}".into());
        endpoint.headers.insert("x-api-key".into(), "sk-5678".into());
        endpoint.query.insert("key".into(), "sk-9999".into());
        let shown = format!("{endpoint:?} {}", endpoint.bearer_headers().expect_err("a bad header"));
        assert!(!shown.contains("sk-") && !shown.contains("pass"), "{shown}");
        assert_eq!(endpoint.secrets(), ["sk-1234\u{1}", "sk-5678", "sk-9999"]);
    }
}
