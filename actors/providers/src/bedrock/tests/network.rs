//! The adapter against a server that writes raw HTTP.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use protocol::model::ModelRequest;
use sha2::{Digest, Sha256};

use super::*;
use crate::credential::{Credential, Secret, SigningKeys};
use crate::testing::{ask, options, request, server, user};
use crate::vendors::{BEDROCK, MANTLE};
use crate::{Access, Endpoint, ErrorClass, ProviderError, open};

/// An answer with this body in chunks of `size`.
fn streamed(body: &[u8], size: usize) -> Vec<u8> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut all = head.as_bytes().to_vec();
    for piece in body.chunks(size) {
        all.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        all.extend(piece);
        all.extend(b"\r\n");
    }
    all.extend(b"0\r\n\r\n");
    all
}

fn frames() -> Vec<u8> {
    answer().iter().flat_map(framed).collect()
}

async fn asked(url: &str, change: impl FnOnce(&mut Endpoint)) -> (Vec<String>, Option<ProviderError>) {
    let mut endpoint = Endpoint::new("amazon-bedrock", BEDROCK, url);
    endpoint.api_key = Some("ABSK-secret".into());
    change(&mut endpoint);
    let provider = open(&endpoint, sse::http::client("test").expect("a client")).expect("an adapter");
    ask(&*provider, to_claude()).await
}

fn to_claude() -> ModelRequest {
    ModelRequest { model: "anthropic.claude-sonnet-4-6".into(), ..request(vec![user("go")]) }
}

/// Keys that are there.
struct Given(SigningKeys);

impl Credential for Given {
    fn access(&self) -> futures::future::BoxFuture<'_, Result<Access, ProviderError>> {
        let secret = Secret::Signing(self.0.clone());
        Box::pin(async { Ok(Access { secret, ..Access::default() }) })
    }

    fn refused<'a>(&'a self, _: &'a Access) -> futures::future::BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}

fn keys() -> SigningKeys {
    SigningKeys {
        id: "AKIDEXAMPLE".into(),
        secret: "wJalrXUtnFEMI+EXAMPLEKEY".into(),
        session_token: Some("T0KEN".into()),
    }
}

#[tokio::test]
async fn an_answer_comes_through_in_pieces_of_any_size() {
    for size in [1, 7, 64, 10_000] {
        let (url, mut requests) = server(vec![streamed(&frames(), size)], false).await;
        let (events, error) = asked(&url, |_| {}).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(events, ANSWER);
        let sent = requests.recv().await.expect("a request");
        assert!(
            sent.starts_with("POST /v1/model/us.anthropic.claude-sonnet-4-6/converse-stream HTTP/1.1\r\n"),
            "{sent}"
        );
        for header in ["authorization: Bearer ABSK-secret", "accept: application/vnd.amazon.eventstream"] {
            assert!(sent.contains(&format!("\r\n{header}\r\n")), "{header} not in {sent}");
        }
    }
}

#[tokio::test]
async fn exceptions_in_the_stream_are_errors_of_their_class() {
    for (kind, message, class) in [
        ("throttlingException", "Too many tokens, please wait before trying again.", ErrorClass::Retryable),
        ("modelStreamErrorException", "The model failed", ErrorClass::Retryable),
        ("internalServerException", "oops", ErrorClass::Retryable),
        ("serviceUnavailableException", "later", ErrorClass::Retryable),
        ("validationException", "messages.1 is wrong", ErrorClass::BadRequest),
        ("validationException", "Input is too long for requested model.", ErrorClass::Overflow),
    ] {
        let mut body = framed(&text("hi"));
        body.extend(exception(kind, message));
        let (url, _requests) = server(vec![streamed(&body, 50)], false).await;
        let (events, error) = asked(&url, |_| {}).await;
        let error = error.expect("an error");
        assert_eq!(
            (events.join(" "), error.class(), error.to_string()),
            ("text +hi".into(), class, message.into()),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_refusal_before_the_stream_is_an_error_without_the_key() {
    let body = r#"{"message":"The key ABSK-secret is not valid"}"#;
    let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (url, _requests) = server(vec![head], false).await;
    let (_, error) = asked(&url, |_| {}).await;
    let error = error.expect("an error");
    assert_eq!((error.class(), error.status()), (ErrorClass::Auth, Some(403)));
    assert_eq!(error.to_string(), "The key *** is not valid");

    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let (url, _requests) = server(vec![page], false).await;
    assert_eq!(asked(&url, |_| {}).await.1.map(|error| error.class()), Some(ErrorClass::BadRequest));
}

#[tokio::test]
async fn a_stream_that_is_cut_is_an_error_to_try_again() {
    let body = frames();
    let (url, _requests) = server(vec![streamed(&body[..400], 50)], false).await;
    let (events, error) = asked(&url, |_| {}).await;
    assert_eq!((events.is_empty(), error.map(|error| error.class())), (false, Some(ErrorClass::Retryable)));
}

#[tokio::test]
async fn a_request_is_signed_as_aws_computes_it() {
    for (npm, service) in [(BEDROCK, "bedrock"), (MANTLE, "bedrock-mantle")] {
        let (url, mut requests) = server(vec![streamed(&frames(), 64)], false).await;
        let shown = asked(&url, |endpoint| {
            endpoint.npm = npm.into();
            endpoint.api_key = None;
            endpoint.options = options(json!({ "region": "eu-west-1" }));
            endpoint.credential = Some(Arc::new(Given(keys())));
        })
        .await;
        assert!(!format!("{shown:?}").contains("EXAMPLE"), "{shown:?}");
        let sent = requests.recv().await.expect("a request");
        assert!(!sent.contains(&keys().secret) && !sent.contains("Bearer"), "{sent}");
        let (head, body) = sent.split_once("\r\n\r\n").expect("a body");
        let header = |name: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                .unwrap_or_else(|| panic!("{name}: {head}"))
        };
        assert_eq!(header("x-amz-security-token"), "T0KEN");
        assert_eq!(header("authorization"), authorization(head, body, &header, service));
    }
}

/// Computes the header by the steps of
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.
fn authorization<'a>(head: &str, body: &str, header: &dyn Fn(&str) -> &'a str, service: &str) -> String {
    let path = head.split(' ').nth(1).expect("a path").replace('%', "%25");
    let names = ["content-type", "host", "x-amz-date", "x-amz-security-token"];
    let headers: String = names.iter().map(|name| format!("{name}:{}\n", header(name))).collect();
    let signed = names.join(";");
    let canonical = format!("POST\n{path}\n\n{headers}\n{signed}\n{}", hex(&Sha256::digest(body)));
    let date = header("x-amz-date");
    let day = &date[..8];
    let scope = format!("{day}/eu-west-1/{service}/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let key = format!("AWS4{}", keys().secret).into_bytes();
    let key = [day, "eu-west-1", service, "aws4_request", &text].iter().fold(key, |key, text| hmac(&key, text));
    format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={}", keys().id, hex(&key))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    assert!(key.len() <= 64, "a longer one is hashed first");
    let pad = |with: u8| (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
