//! Where and how a provider is spoken to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use protocol::JsonMap;
use serde_json::Value;
use sse::{HeaderMap, HeaderName, HeaderValue, Url};

use crate::credential::{Access, Credential};
use crate::vendors::BEDROCK;
use crate::{ProviderError, vendors};

/// Sent with each request.
const USER_AGENT: &str = concat!("troupe/", env!("CARGO_PKG_VERSION"));

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
    /// Goes before the key: asked for each request.
    pub credential: Option<Arc<dyn Credential>>,
    /// Sent with each request.
    pub headers: IndexMap<String, String>,
    /// Added to each url.
    pub query: IndexMap<String, String>,
    /// Most time between two events of an answer.
    pub chunk_timeout: Duration,
    /// Most time until an answer begins.
    pub header_timeout: Duration,
    /// The adapter's own settings: `includeUsage`, `setCacheKey`; `resourceName`, `apiVersion`,
    /// `useDeploymentBasedUrls`, `useCompletionUrls` (Azure); `project`, `location` (Vertex); `region`,
    /// `endpoint`, `profile`, `accessKeyId`, `secretAccessKey`, `sessionToken` (Bedrock). What
    /// goes into the body comes with the request.
    pub options: JsonMap,
}

/// Why a provider can't be spoken to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No adapter speaks its wire format.
    #[error(
        "provider {provider_id:?} uses {npm:?}, which is not spoken; if the server offers OpenAI chat completions too, \
         set `npm` to \"@ai-sdk/openai-compatible\" and `options.baseURL` to its address"
    )]
    NotSpoken {
        /// The provider.
        provider_id: String,
        /// Its package.
        npm: String,
    },
    /// It has no address.
    #[error("provider {provider_id:?} has no address; set its `options.{option}`")]
    NoBaseUrl {
        /// The provider.
        provider_id: String,
        /// The option that gives it one.
        option: &'static str,
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

impl Endpoint {
    /// Returns an endpoint with the default time limits (120 s between events, 300 s until the answer begins).
    pub fn new(provider_id: impl Into<String>, npm: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            provider_id: provider_id.into(),
            npm: npm.into(),
            base_url: base_url.into(),
            api_key: None,
            credential: None,
            headers: IndexMap::new(),
            query: IndexMap::new(),
            chunk_timeout: Duration::from_secs(120),
            header_timeout: Duration::from_secs(300),
            options: JsonMap::new(),
        }
    }

    /// Returns a setting that is a text and not empty.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns whether a setting is `true`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.options.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns what proves who asks: the credential's answer, else the key.
    pub(crate) async fn access(&self) -> Result<Access, ProviderError> {
        match &self.credential {
            Some(credential) => credential.access().await,
            None => Ok(Access::key(self.api_key.clone().unwrap_or_default())),
        }
    }

    /// Returns the url of `path` below the provider's address, or below `base`, which goes before it.
    pub(crate) fn url<P: AsRef<str>>(
        &self,
        base: Option<&str>,
        path: &[P],
        query: &[(&str, String)],
    ) -> Result<Url, OpenError> {
        let own = Some(self.base_url.as_str());
        // AWS's own word goes before that of all packages.
        let own = self.setting("endpoint").filter(|_| self.npm == BEDROCK).or(own);
        let base = match base.or(own).filter(|base| !base.is_empty()) {
            Some(base) => base.to_owned(),
            None => vendors::base_url(self)?,
        };
        let bad = || OpenError::BadBaseUrl { provider_id: self.provider_id.clone() };
        let mut url = Url::parse(&base).map_err(|_| bad())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad());
        }
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(path);
        if self.npm == BEDROCK {
            // Ids of models have colons, and a gateway that encodes them would break the signature.
            url.set_path(&url.path().replace(':', "%3A"));
        }
        let configured = self.query.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let query = query.iter().map(|(name, value)| (*name, value.as_str())).filter(|(name, _)| {
            // What the address or the config says of it counts.
            !self.query.contains_key(*name) && !url.query_pairs().any(|(known, _)| known == *name)
        });
        let pairs: Vec<(&str, &str)> = query.chain(configured).collect();
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(url)
    }

    /// Returns the headers of each request but those of the format and the key: `json`, user agent, and the configured
    /// ones.
    pub(crate) fn headers(&self) -> Result<HeaderMap, OpenError> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("user-agent", HeaderValue::from_static(USER_AGENT));
        for (name, value) in &self.headers {
            set(&mut headers, name, value).ok_or_else(|| self.bad_header(name))?;
        }
        Ok(headers)
    }

    pub(crate) fn bad_header(&self, name: &str) -> OpenError {
        OpenError::BadHeader { provider_id: self.provider_id.clone(), name: name.into() }
    }

    /// Returns what must not be repeated in an error: the key, and the values of headers and options that look like one.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let telling = |name: &str| {
            ["auth", "cookie", "key", "secret", "token"].iter().any(|word| name.to_ascii_lowercase().contains(word))
        };
        let headers = self.headers.iter().filter(|(name, _)| telling(name)).map(|(_, value)| value);
        let queries = self.query.iter().filter(|(name, _)| telling(name)).map(|(_, value)| value);
        let options = self.options.iter().filter(|(name, _)| telling(name)).filter_map(|(_, value)| match value {
            Value::String(text) => Some(text),
            _ => None,
        });
        self.api_key
            .iter()
            .chain(headers)
            .chain(options)
            .chain(queries)
            .filter(|secret| secret.len() >= 4)
            .cloned()
            .collect()
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
        Endpoint::new("p", npm, base).url(None, &["chat", "completions"], &[]).map(String::from)
    }

    #[test]
    fn the_path_goes_below_the_address_and_keeps_its_query() {
        assert_eq!(url("x", "http://h:1/v1").expect("a url"), "http://h:1/v1/chat/completions");
        assert_eq!(url("x", "http://h:1/v1/").expect("a url"), "http://h:1/v1/chat/completions");
        assert_eq!(url("x", "https://h/v1?version=2").expect("a url"), "https://h/v1/chat/completions?version=2");
        assert_eq!(url("@ai-sdk/groq", "").expect("a url"), "https://api.groq.com/openai/v1/chat/completions");
        let mut endpoint = Endpoint::new("p", "x", "http://h/v1");
        endpoint.query.insert("api-version".into(), "a b".into());
        assert_eq!(endpoint.url(None, &["x"], &[]).expect("a url").as_str(), "http://h/v1/x?api-version=a+b");
        let own = [("api-version", "v1".to_owned()), ("alt", "sse".to_owned())];
        let url = endpoint.url(Some("http://other/"), &["x"], &own).expect("a url");
        assert_eq!(url.as_str(), "http://other/x?alt=sse&api-version=a+b");
    }

    #[test]
    fn an_address_that_is_missing_or_no_http_url_is_an_error_that_names_the_option() {
        assert_eq!(url("x", ""), Err(OpenError::NoBaseUrl { provider_id: "p".into(), option: "baseURL" }));
        for bad in ["localhost", "ftp://x/", "data:text/plain,x", "${URL}/v1"] {
            assert_eq!(url("x", bad), Err(OpenError::BadBaseUrl { provider_id: "p".into() }), "{bad}");
        }
        assert!(url("x", "").expect_err("no url").to_string().contains("options.baseURL"));
    }

    #[test]
    fn no_secret_is_shown() {
        let mut endpoint = Endpoint::new("p", "x", "http://user:pass@h");
        endpoint.api_key = Some("sk-1234\u{1}".into());
        endpoint.headers.insert("x-api-key".into(), "sk-5678".into());
        endpoint.query.insert("key".into(), "sk-9999".into());
        let shown = format!("{endpoint:?} {}", endpoint.bad_header("authorization"));
        assert!(!shown.contains("sk-") && !shown.contains("pass"), "{shown}");
        assert_eq!(endpoint.secrets(), ["sk-1234\u{1}", "sk-5678", "sk-9999"]);
    }
}
