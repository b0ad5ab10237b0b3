//! Google's application default credentials, for Vertex: the service account of `GOOGLE_APPLICATION_CREDENTIALS`, else
//! the account of a person (`gcloud auth application-default login`), else that of the machine.
//!
//! Source: <https://cloud.google.com/docs/authentication/application-default-credentials>.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use gcp_auth::{ConfigDefaultCredentials, CustomServiceAccount, Error, MetadataServiceAccount, TokenProvider};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::credential::{Access, Credential};
use crate::error::{ErrorClass, ProviderError};

const SCOPES: &[&str] = &["https://www.googleapis.com/auth/cloud-platform"];
/// Most time to get a token.
const WHOLE: Duration = Duration::from_secs(30);
/// Most time to wait for a server that only Google's own machines have.
const METADATA: Duration = Duration::from_secs(3);

/// Gets tokens, and keeps one while it is valid. Nothing is read before the first request.
pub(crate) struct Google {
    /// Of the service account.
    file: Option<PathBuf>,
    /// Locked while a token is fetched: all who wait get the same.
    source: Mutex<Option<Arc<dyn TokenProvider>>>,
}

impl Google {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, source: Mutex::new(None) }
    }

    async fn token(&self) -> Result<Access, ProviderError> {
        let mut source = self.source.lock().await;
        let known = match &*source {
            Some(known) => known.clone(),
            None => source.insert(self.find().await?).clone(),
        };
        let token = known.token(SCOPES).await.map_err(|error| refused(&error))?;
        Ok(Access::bearer(token.as_str()))
    }

    async fn find(&self) -> Result<Arc<dyn TokenProvider>, ProviderError> {
        if let Some(file) = self.file.clone() {
            let read = tokio::task::spawn_blocking(move || CustomServiceAccount::from_file(file)).await;
            let account = read.map_err(|error| ProviderError::new(ErrorClass::Unknown, error.to_string()))?;
            return Ok(Arc::new(account.map_err(|error| {
                let text = format!(
                    "the file that GOOGLE_APPLICATION_CREDENTIALS names is no key of a service account: {error}; for \
                     an account of your own unset it and run `gcloud auth application-default login`"
                );
                ProviderError::new(ErrorClass::Auth, text)
            })?));
        }
        match ConfigDefaultCredentials::new().await {
            Ok(person) => return Ok(Arc::new(person)),
            // There is none.
            Err(Error::Io(..)) => {}
            Err(error) => return Err(refused(&error)),
        }
        match timeout(METADATA, MetadataServiceAccount::new()).await {
            Ok(Ok(machine)) => Ok(Arc::new(machine)),
            _ => Err(ProviderError::new(
                ErrorClass::Auth,
                "no credentials of Google's were found; set GOOGLE_APPLICATION_CREDENTIALS to the file of a service \
                 account's key, or run `gcloud auth application-default login`",
            )),
        }
    }
}

impl Credential for Google {
    fn access(&self) -> BoxFuture<'_, Result<Access, ProviderError>> {
        async {
            timeout(WHOLE, self.token()).await.unwrap_or_else(|_| {
                let text = format!("timed out: Google gave no token within {} s", WHOLE.as_secs());
                Err(ProviderError::new(ErrorClass::Retryable, text))
            })
        }
        .boxed()
    }

    /// The next request reads the file anew; this one is over, for a token is refused for want of a right as well.
    fn refused<'a>(&'a self, _: &'a Access) -> BoxFuture<'a, bool> {
        async {
            *self.source.lock().await = None;
            false
        }
        .boxed()
    }
}

fn refused(error: &Error) -> ProviderError {
    let class = match error {
        Error::Http(..) | Error::Other(..) => ErrorClass::Retryable,
        _ => ErrorClass::Auth,
    };
    ProviderError::new(class, format!("Google gave no token: {error}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::ambient::{add_ambient, is_ambient};
    use crate::testing::{ask, body, options, request, server, user};
    use crate::vendors::{VERTEX, VERTEX_ANTHROPIC};
    use crate::{Endpoint, Secret, open};

    /// Made for this test; it opens nothing.
    const KEY: &str = include_str!("google/throwaway.pem");

    /// Serves tokens `t1`, `t2`… and returns the file of an account that gets them, and a word for each request.
    async fn account(expires_in: u32) -> (tempfile::NamedTempFile, mpsc::UnboundedReceiver<String>) {
        let answers = (1..=9).map(|number| {
            let body = json!({ "access_token": format!("t{number}"), "expires_in": expires_in, "token_type": "Bearer" });
            let body = body.to_string();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        });
        let (url, requests) = token_server(answers.collect()).await;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let key = json!({ "type": "service_account", "project_id": "p", "private_key": KEY,
                          "client_email": "robot@p.example", "token_uri": url });
        std::fs::write(file.path(), key.to_string()).expect("a file");
        (file, requests)
    }

    /// The body of a request for a token is a form.
    async fn token_server(answers: Vec<String>) -> (String, mpsc::UnboundedReceiver<String>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/token", listener.local_addr().expect("an address"));
        let (told, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for answer in answers {
                let Ok((mut socket, _)) = listener.accept().await else { return };
                let mut sent = Vec::new();
                let whole = |sent: &[u8]| {
                    let text = String::from_utf8_lossy(sent).into_owned();
                    let (head, body) = text.split_once("\r\n\r\n")?;
                    let length = head.to_lowercase().split_once("content-length: ")?.1.lines().next()?.parse().ok()?;
                    (body.len() >= length).then(|| body.to_owned())
                };
                while whole(&sent).is_none() && socket.read_buf(&mut sent).await.is_ok_and(|n| n > 0) {}
                let _ = told.send(whole(&sent).unwrap_or_default());
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        (url, requests)
    }

    fn of(file: &tempfile::NamedTempFile) -> Google {
        Google::new(Some(file.path().to_owned()))
    }

    #[tokio::test]
    async fn a_token_is_asked_for_once_by_all_who_need_one_and_kept() {
        let (file, mut asked) = account(3_600).await;
        let google = of(&file);
        assert!(asked.try_recv().is_err());
        let all = futures::future::join_all((0..8).map(|_| google.access())).await;
        for access in all {
            assert_eq!(access.expect("a token").secret, Secret::Bearer("t1".into()));
        }
        let form = asked.recv().await.expect("a request");
        let claims = form.split_once("assertion=").and_then(|(_, jwt)| jwt.split('.').nth(1)).expect("claims");
        let claims = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, claims.replace("%3D", ""));
        let claims: Value = serde_json::from_slice(&claims.expect("base64")).expect("JSON");
        assert_eq!((&claims["iss"], &claims["scope"]), (&json!("robot@p.example"), &json!(SCOPES[0])));
        assert!(asked.try_recv().is_err());
    }

    #[tokio::test]
    async fn one_that_ran_out_is_fetched_again_by_all_together_and_one_that_was_refused_too() {
        let (file, _asked) = account(3_600).await;
        let google = of(&file);
        let first = google.access().await.expect("a token");
        assert!(!google.refused(&first).await);
        let all = futures::future::join_all((0..4).map(|_| google.access())).await;
        for access in all {
            assert_eq!(access.expect("a token").secret, Secret::Bearer("t2".into()));
        }
        let (file, _asked) = account(0).await;
        let google = of(&file);
        for token in ["t1", "t2"] {
            assert_eq!(google.access().await.expect("a token").secret, Secret::Bearer(token.into()));
        }
    }

    #[tokio::test]
    async fn a_file_that_is_no_key_is_an_error_that_says_what_to_do() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for text in ["", "{}", r#"{"type":"authorized_user","refresh_token":"s3cret"}"#] {
            std::fs::write(file.path(), text).expect("a file");
            let error = of(&file).access().await.expect_err("an error");
            assert_eq!(error.class(), ErrorClass::Auth);
            let error = error.to_string();
            assert!(error.contains("gcloud auth application-default login") && !error.contains("s3cret"), "{error}");
        }
    }

    #[tokio::test]
    async fn vertex_is_spoken_to_with_the_accounts_token() {
        let (file, _asked) = account(3_600).await;
        let path = file.path().to_string_lossy().into_owned();
        let variables = |name: &str| match name {
            "GOOGLE_APPLICATION_CREDENTIALS" => Some(path.clone()),
            "GOOGLE_CLOUD_PROJECT" => Some("p".to_owned()),
            _ => None,
        };
        assert!(is_ambient(VERTEX, &variables) && is_ambient(VERTEX_ANTHROPIC, &variables));
        assert!(!is_ambient(VERTEX, &|name| variables(name).filter(|_| name != "GOOGLE_CLOUD_PROJECT")));
        let end = json!({ "candidates": [{ "content": { "parts": [{ "text": "hi" }] }, "finishReason": "STOP" }] });
        let (url, mut requests) = server(vec![format!("{}0\r\n\r\n", body(&[end.to_string()]))], false).await;
        let mut endpoint = Endpoint::new("google-vertex", VERTEX, url);
        endpoint.options = options(json!({ "project": "p" }));
        add_ambient(&mut endpoint, &variables);
        let provider = open(&endpoint, sse::http::client("test").expect("a client")).expect("an adapter");
        let (events, error) = ask(&*provider, request(vec![user("go")])).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, ["text", "+hi", "text end", "finish stop"]);
        let sent = requests.recv().await.expect("a request");
        assert!(sent.contains("\r\nauthorization: Bearer t1\r\n"), "{sent}");
    }
}
