//! The adapter against a server that writes raw HTTP.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use pretty_assertions::assert_eq;
use protocol::SessionId;
use tokio::net::TcpListener;

use super::*;
use crate::testing::{ask, body, every, request, server, short, user};
use crate::{Endpoint, ErrorClass, Provider, open};

fn endpoint(url: &str) -> Endpoint {
    let mut endpoint = Endpoint::new("mock", "@ai-sdk/openai-compatible", url);
    endpoint.api_key = Some("sk-secret".into());
    endpoint.chunk_timeout = Duration::from_secs(5);
    endpoint
}

fn chat(endpoint: &Endpoint) -> Arc<dyn Provider> {
    open(endpoint, sse::http::client("test").expect("a client")).expect("an adapter")
}

#[tokio::test]
async fn an_answer_comes_through_and_the_request_names_its_session() {
    let events = [text("hi"), finish("stop"), DONE.into()];
    let (url, mut requests) = server(vec![format!("{}0\r\n\r\n", body(&events))], false).await;
    let mut endpoint = endpoint(&url);
    endpoint.headers.insert("x-more".into(), "1".into());
    let provider = chat(&endpoint);
    let mut request = request(vec![user("go")]);
    request.parent_id = Some(SessionId::parse("ses_0").expect("an id"));
    request.headers.insert("x-model".into(), "2".into());
    let batches: Vec<_> = provider.stream(request).collect().await;
    let events: Vec<ModelEvent> = batches.into_iter().flat_map(|batch| batch.expect("events")).collect();
    assert_eq!(short(&events), ["text", "+hi", "text end", "finish stop"]);

    let sent = requests.recv().await.expect("a request");
    assert!(sent.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{sent}");
    for header in [
        "authorization: Bearer sk-secret",
        "content-type: application/json",
        &format!("user-agent: troupe/{}", env!("CARGO_PKG_VERSION")),
        "x-session-affinity: ses_1",
        "x-session-id: ses_1",
        "x-parent-session-id: ses_0",
        "x-more: 1",
        "x-model: 2",
    ] {
        assert!(sent.contains(&format!("\r\n{header}\r\n")), "{header} not in {sent}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_with_its_wait_and_without_the_key() {
    let body = r#"{"error":{"message":"slow down, sk-secret","type":"rate_limit_error"}}"#;
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nset-cookie: a=b\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (url, _requests) = server(vec![answer], false).await;
    let (events, error) = ask(&*chat(&endpoint(&url)), request(vec![user("go")])).await;
    let error = error.expect("an error");
    assert_eq!((events.len(), error.class(), error.status()), (0, ErrorClass::Retryable, Some(429)));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    let wire = serde_json::to_value(error.to_session_error("mock")).expect("JSON");
    assert_eq!(wire["data"]["message"], "slow down, ***");
    assert_eq!(wire["data"]["responseHeaders"]["retry-after"], "7");
    assert_eq!(wire["data"]["metadata"]["url"], format!("{url}/chat/completions"));
    assert!(!wire.to_string().contains("secret") && !wire.to_string().contains("cookie"), "{wire}");
}

#[tokio::test]
async fn a_cut_in_the_middle_of_arguments_gives_what_came_and_then_an_error_to_try_again() {
    let events = [text("hi"), calls(&[entry(Some(0), Some("c"), Some("read"), Some("{\"p\":"))])];
    let (url, _requests) = server(vec![body(&events)], false).await;
    let (events, error) = ask(&*chat(&endpoint(&url)), request(vec![user("go")])).await;
    assert_eq!(events, ["text", "+hi", "text end", "start c read"]);
    let error = error.expect("an error");
    assert!(error.is_retryable() && error.to_string().contains("cut"), "{error}");
}

#[tokio::test]
async fn a_cut_behind_a_whole_call_hands_the_call_over() {
    let events = [calls(&[entry(Some(0), Some("c"), Some("read"), Some("{}"))])];
    let (url, _requests) = server(vec![body(&events)], false).await;
    let (events, error) = ask(&*chat(&endpoint(&url)), request(vec![user("go")])).await;
    assert_eq!(events, ["start c read", "call c read {}", "finish tool-calls"]);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn silence_is_an_error_to_try_again() {
    let (url, _requests) = server(vec![body(&[text("hi")])], true).await;
    let mut endpoint = endpoint(&url);
    endpoint.chunk_timeout = Duration::from_millis(50);
    let (events, error) = ask(&*chat(&endpoint), request(vec![user("go")])).await;
    assert_eq!(events, ["text", "+hi"]);
    let error = error.expect("an error");
    assert!(error.is_retryable() && error.to_string().contains("idle for 50 ms"), "{error}");
}

#[tokio::test]
async fn events_that_carry_nothing_keep_no_stream_alive() {
    // As many as fit in the connection's buffers come at once, the rest as fast as they are read.
    for empty in ["{}", "", r#"{"choices":[]}"#, r#"{"choices":[{"index":0,"delta":{}}]}"#] {
        let (url, _requests) = every(body(&[text("hi")]), empty, Duration::from_millis(5)).await;
        let mut endpoint = endpoint(&url);
        endpoint.chunk_timeout = Duration::from_millis(80);
        let (events, error) = ask(&*chat(&endpoint), request(vec![user("go")])).await;
        assert_eq!(events, ["text", "+hi"]);
        let error = error.expect("an error");
        assert!(error.is_retryable() && error.to_string().contains("idle for 80 ms"), "{error}");
    }
    // Each piece of a call's arguments counts, though nothing is said until the last.
    let piece = calls(&[entry(Some(0), Some("c"), None, Some(" "))]);
    let begun = body(&[calls(&[entry(Some(0), Some("c"), Some("read"), Some("{"))])]);
    let (url, _requests) = every(begun, &piece, Duration::from_millis(5)).await;
    let mut endpoint = endpoint(&url);
    endpoint.chunk_timeout = Duration::from_millis(200);
    let provider = chat(&endpoint);
    let asked = ask(&*provider, request(vec![user("go")]));
    assert!(tokio::time::timeout(Duration::from_millis(800), asked).await.is_err(), "it goes on");
}

#[tokio::test]
async fn an_answer_with_its_reason_is_over_soon_though_its_connection_stays_open() {
    let (url, _requests) = server(vec![body(&[text("hi"), finish("stop")])], true).await;
    let mut endpoint = endpoint(&url);
    endpoint.chunk_timeout = Duration::from_millis(60);
    let (events, error) = ask(&*chat(&endpoint), request(vec![user("go")])).await;
    assert_eq!(events.last().map(String::as_str), Some("finish stop"));
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test]
async fn the_stream_ends_at_done_also_when_the_connection_stays_open() {
    let (url, _requests) = server(vec![body(&[text("hi"), finish("stop"), DONE.into()])], true).await;
    let (events, error) = ask(&*chat(&endpoint(&url)), request(vec![user("go")])).await;
    assert_eq!(events.last().map(String::as_str), Some("finish stop"));
    assert!(error.is_none());
}

#[tokio::test]
async fn nobody_listening_is_an_error_to_try_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    drop(listener);
    let (_, error) = ask(&*chat(&endpoint(&url)), request(vec![user("go")])).await;
    let error = error.expect("an error");
    assert!(error.is_retryable() && error.to_string().contains("could not connect"), "{error}");
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_an_error_that_names_it() {
    let provider = chat(&endpoint("http://127.0.0.1:9/v1"));
    let mut request = request(vec![user("go")]);
    request.headers.insert("x-bad".into(), "a\nsecret".into());
    let error = provider.stream(request).next().await.expect("an item").expect_err("an error");
    assert_eq!(error.class(), ErrorClass::BadRequest);
    assert!(error.to_string().contains("x-bad") && !error.to_string().contains("secret"), "{error}");
}
