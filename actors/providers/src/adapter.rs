//! What the adapters of all vendors share: the POST, its headers and key, and the one repeat after a key was refused.

use std::pin::Pin;
use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt, stream as streams};
use protocol::model::ModelRequest;
use protocol::{Clock, SystemClock};
use sse::{BATCH, Client, HeaderMap, SseError, SseEvent, SseRequest, batches};

use crate::credential::{Access, Secret};
use crate::decode::{Decode, Run};
use crate::endpoint::{Endpoint, OpenError, set};
use crate::error::{Blame, ErrorClass, ProviderError};
use crate::{IdSource, ModelStream, Provider, aws, copilot};

/// Header whose values are a list: all who have something to say to it are heard.
pub(crate) const BETA: &str = "anthropic-beta";

/// A wire format.
pub(crate) trait Format: Send + Sync + 'static {
    /// What decodes its answers.
    type Decoder: Decode;

    /// Returns the request in the vendor's words.
    fn encode(&self, endpoint: &Endpoint, request: &ModelRequest, access: &Access) -> Result<Post, ProviderError>;

    /// Returns the decoder of the answer; `ids` names calls to which the vendor gives no id.
    fn decoder(&self, endpoint: &Endpoint, ids: IdSource) -> Self::Decoder;

    /// Returns the header with the secret; a bearer token unless the vendor has one of its own for keys.
    fn authorize(&self, _endpoint: &Endpoint, secret: &Secret) -> Option<(&'static str, String)> {
        match secret {
            Secret::None | Secret::Signing(_) => None,
            Secret::Key(secret) | Secret::Bearer(secret) => Some(("authorization", format!("Bearer {secret}"))),
        }
    }

    /// Returns the events of the answer.
    fn events(&self, client: &Client, request: SseRequest) -> Events {
        Box::pin(batches(sse::open(client, request), BATCH))
    }
}

/// Events of an answer, those that came at once together.
pub(crate) type Events = Pin<Box<dyn Stream<Item = Result<Vec<SseEvent>, SseError>> + Send>>;

/// A request, encoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Post {
    /// Below the address.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// JSON.
    pub(crate) body: Vec<u8>,
}

/// Speaks a format to one endpoint.
pub(crate) struct Adapter<F> {
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    client: Client,
    endpoint: Endpoint,
    /// The same for all requests.
    headers: HeaderMap,
    ids: IdSource,
    format: F,
}

impl<F: Format> Adapter<F> {
    pub(crate) fn new(endpoint: &Endpoint, client: Client, ids: IdSource, format: F) -> Result<Self, OpenError> {
        if endpoint.credential.is_none() {
            endpoint.url::<&str>(None, &[], &[])?;
        }
        let headers = endpoint.headers()?;
        let shared = Shared { client, endpoint: endpoint.clone(), headers, ids, format };
        // A key that fits in no header is told of now.
        shared.authorize(&mut HeaderMap::new(), &Access::key(endpoint.api_key.clone().unwrap_or_default()))?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl<F: Format> Provider for Adapter<F> {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let shared = self.shared.clone();
        // Put off to the first poll: encoding a long history takes a while, and the caller may be an actor.
        async move {
            match shared.begin(&request).await {
                Ok((first, rest)) => streams::iter(first).chain(rest).left_stream(),
                Err(error) => streams::iter([Err(error)]).right_stream(),
            }
        }
        .flatten_stream()
        .boxed()
    }
}

type First<D> = (Option<<Run<D> as Stream>::Item>, Run<D>);

impl<F: Format> Shared<F> {
    /// Sends the request and waits for the first of the answer. When that is that the key was refused, the credential
    /// may have another.
    async fn begin(&self, request: &ModelRequest) -> Result<First<F::Decoder>, ProviderError> {
        let access = self.endpoint.access().await?;
        let (first, rest) = self.send(request, &access).await?;
        let Some(credential) = &self.endpoint.credential else { return Ok((first, rest)) };
        let refused = match &first {
            Some(Err(error)) => matches!(error.status(), Some(401 | 403)),
            _ => false,
        };
        if !refused || !credential.refused(&access).await {
            return Ok((first, rest));
        }
        drop(rest);
        let access = credential.access().await?;
        self.send(request, &access).await
    }

    async fn send(&self, request: &ModelRequest, access: &Access) -> Result<First<F::Decoder>, ProviderError> {
        let post = self.format.encode(&self.endpoint, request, access)?;
        let sent = self.request(request, post, access)?;
        let mut secrets = self.endpoint.secrets();
        secrets.extend(access.secrets().into_iter().filter(|secret| secret.len() >= 4));
        let blame = Blame::new(sent.url.clone(), secrets);
        let events = self.format.events(&self.client, sent);
        let decoder = self.format.decoder(&self.endpoint, self.ids.clone());
        let mut run = Run::new(events, decoder, blame, self.endpoint.chunk_timeout);
        let first = run.next().await;
        Ok((first, run))
    }

    fn request(&self, request: &ModelRequest, post: Post, access: &Access) -> Result<SseRequest, ProviderError> {
        let bad = |error: OpenError| ProviderError::new(ErrorClass::BadRequest, error.to_string());
        let url = self.endpoint.url(access.base_url.as_deref(), &post.path, &post.query).map_err(bad)?;
        let mut headers = HeaderMap::new();
        self.authorize(&mut headers, access).map_err(bad)?;
        let session = [
            ("x-session-affinity", Some(request.session_id.as_str())),
            ("x-session-id", Some(request.session_id.as_str())),
            ("x-parent-session-id", request.parent_id.as_ref().map(|id| id.as_str())),
        ];
        let session = session.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let format = post.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let copilot = copilot::headers(&self.endpoint, request);
        let own = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in session.chain(format).chain(copilot) {
            put(&mut headers, name, value).ok_or_else(|| bad_header(name))?;
        }
        for (name, value) in &self.headers {
            if name.as_str() == BETA {
                value.to_str().ok().and_then(|value| put(&mut headers, BETA, value));
            } else {
                headers.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in own {
            put(&mut headers, name, value).ok_or_else(|| bad_header(name))?;
        }
        let mut sent = SseRequest {
            headers,
            header_timeout: self.endpoint.header_timeout,
            event_timeout: self.endpoint.chunk_timeout,
            ..SseRequest::post(url, post.body)
        };
        // Last of all: what is signed may not change any more.
        if let Secret::Signing(keys) = &access.secret {
            aws::sign(&mut sent, keys, &self.endpoint, SystemClock.now_ms())?;
        }
        Ok(sent)
    }

    fn authorize(&self, headers: &mut HeaderMap, access: &Access) -> Result<(), OpenError> {
        if let Some((name, value)) = self.format.authorize(&self.endpoint, &access.secret) {
            set(headers, name, &value).ok_or_else(|| self.endpoint.bad_header(name))?;
        }
        for (name, value) in &access.headers {
            put(headers, name, value).ok_or_else(|| self.endpoint.bad_header(name))?;
        }
        Ok(())
    }
}

fn bad_header(name: &str) -> ProviderError {
    let text = format!("header {name:?} of the model has a name or value that can't be sent");
    ProviderError::new(ErrorClass::BadRequest, text)
}

/// Sets a header, or adds to it where its values are a list.
fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Option<()> {
    if !name.eq_ignore_ascii_case(BETA) {
        return set(headers, name, value);
    }
    let known = headers.get(BETA).and_then(|known| known.to_str().ok()).unwrap_or_default();
    let mut all: Vec<&str> = Vec::new();
    for beta in known.split(',').chain(value.split(',')).map(str::trim).filter(|beta| !beta.is_empty()) {
        if !all.contains(&beta) {
            all.push(beta);
        }
    }
    let all = all.join(",");
    set(headers, BETA, &all)
}

/// Returns the error for a request that can't be written as JSON.
pub(crate) fn no_json(error: &serde_json::Error) -> ProviderError {
    ProviderError::new(ErrorClass::BadRequest, format!("the request is no JSON: {error}"))
}
