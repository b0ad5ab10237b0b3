//! The requests of a login: never redirected, within limits.

use std::sync::OnceLock;
use std::time::Duration;

use futures::StreamExt;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};

/// Most time of a request.
const LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const MAX_ANSWER: usize = 1024 * 1024;

/// Sends the requests of logins. Made when the first is sent: reading the system's certificates takes a while.
#[derive(Default)]
pub struct OAuthHttp {
    client: OnceLock<reqwest::Client>,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("the answer is larger than {MAX_ANSWER} bytes")]
    TooLarge,
}

impl OAuthHttp {
    fn client(&self) -> Result<reqwest::Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        sse::http::install_crypto();
        // The SDK follows what may be followed itself: a redirect must not carry a code or a token elsewhere.
        let builder = || reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(LIMIT);
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build())?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let boxed = |error: reqwest::Error| Box::new(error.without_url()) as OAuthHttpClientError;
            let client = self.client().map_err(boxed)?;
            let request = reqwest::Request::try_from(request.request).map_err(boxed)?;
            let response = client.execute(request).await.map_err(boxed)?;
            let mut answer = http::Response::new(Vec::new());
            *answer.status_mut() = response.status();
            *answer.headers_mut() = response.headers().clone();
            // Discovery asks the server's own address too; where that is an event stream it never ends.
            let kind = response.headers().get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
                return Ok(answer);
            }
            let mut stream = response.bytes_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(boxed)?;
                if answer.body().len() + chunk.len() > MAX_ANSWER {
                    return Err(Box::new(Problem::TooLarge) as OAuthHttpClientError);
                }
                answer.body_mut().extend_from_slice(&chunk);
            }
            Ok(answer)
        })
    }
}
