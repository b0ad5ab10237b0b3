use std::sync::Arc;

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::context::Refusal;
use crate::testing::{FakeDesk, assert_schema, context};
use crate::tool::AnyTool;

const PAGE: &str =
    "<html><head><title>T</title></head><body><h1>Hi</h1><p>para <b>bold</b> <a href='/x'>link</a></p></body></html>";

/// A server that answers each path in its own way; returns its address.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => return,
                    }
                }
                let request = String::from_utf8(request).unwrap();
                let path = request.split(' ').nth(1).unwrap().to_owned();
                let answer = |status: &str, kind: &str, body: &[u8]| {
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                    );
                    [head.as_bytes(), body].concat()
                };
                let bytes = match &*path {
                    "/page" => answer("200 OK", "text/html; charset=utf-8", PAGE.as_bytes()),
                    "/page.json" => answer("200 OK", "application/json", b"{\"a\":1}"),
                    "/latin" => answer("200 OK", "text/plain; charset=iso-8859-1", b"gr\xfcn"),
                    "/image" => answer("200 OK", "image/png", b"\x89PNG"),
                    "/binary" => answer("200 OK", "application/zip", b"PK\0\0"),
                    "/large" => answer("200 OK", "text/plain", &vec![b'x'; 5 * 1024 * 1024 + 1]),
                    "/endless" => {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
                        while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
                        return;
                    }
                    "/moved" => {
                        b"HTTP/1.1 302 Found\r\nlocation: /page\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                            .to_vec()
                    }
                    "/loop" => {
                        b"HTTP/1.1 302 Found\r\nlocation: /loop\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                            .to_vec()
                    }
                    "/inside" => {
                        b"HTTP/1.1 302 Found\r\nlocation: http://10.255.255.1/x\r\ncontent-length: 0\r\n\r\n".to_vec()
                    }
                    "/other" => {
                        let port = request.split("host: 127.0.0.1:").nth(1).unwrap().lines().next().unwrap();
                        let to = format!("location: http://localhost:{port}/page.json");
                        format!("HTTP/1.1 302 Found\r\n{to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                            .into_bytes()
                    }
                    "/silent" => return std::future::pending().await,
                    "/headers" => answer("200 OK", "text/plain", request.as_bytes()),
                    _ => answer("404 Not Found", "text/plain", b"no"),
                };
                let _ = stream.write_all(&bytes).await;
            });
        }
    });
    base
}

async fn call(cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    let Value::Object(input) = input else { panic!("no object") };
    AnyTool::run(&WebFetch, input, cx).await
}

async fn fetched(input: Value) -> (Result<ToolOutput, ToolError>, Arc<FakeDesk>) {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = context(dir.path());
    (call(&cx, input).await, desk)
}

#[tokio::test]
async fn a_page_comes_as_it_was_wished() {
    let url = format!("{}/page", server().await);
    for (format, wanted) in [
        (Some("markdown"), "T\n\n# Hi\n\npara **bold** [link](/x)"),
        (None, "T\n\n# Hi\n\npara **bold** [link](/x)"),
        (Some("text"), "THipara bold link"),
        (Some("html"), PAGE),
    ] {
        let mut input = json!({ "url": url });
        if let Some(format) = format {
            input["format"] = format.into();
        }
        let output = fetched(input).await.0.unwrap();
        assert_eq!(output.output, wanted);
        assert_eq!(output.title, format!("{url} (text/html; charset=utf-8)"));
        assert_eq!(output.metadata, JsonMap::new());
    }
}

#[tokio::test]
async fn a_name_is_connected_to_where_it_was_judged_and_nowhere_else() {
    let base = Url::parse(&server().await).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (cx, _) = context(dir.path());
    let at = |host: &str, addresses: &[SocketAddr]| {
        let mut url = base.join("/headers").unwrap();
        url.set_host(Some(host)).unwrap();
        Target { url, reach: Reach::Public, addresses: Some(addresses.to_vec()) }
    };
    let own = SocketAddr::from(([127, 0, 0, 1], base.port().unwrap()));
    // Nobody knows this name, so it is not looked up again.
    let page = fetch(&cx, at("rebound.invalid", &[own]), Format::Text).await.unwrap();
    assert!(String::from_utf8_lossy(&page.bytes).contains("host: rebound.invalid"));
    // What this name stands for now is not what was judged.
    let refused = fetch(&cx, at("localhost", &[]), Format::Text).await.err().unwrap().to_string();
    assert!(refused.contains("nobody knows its name"), "{refused}");
    let unknown = fetched(json!({ "url": "http://nobody.invalid/" })).await.0.unwrap_err().to_string();
    assert!(unknown.contains("nobody knows its name"), "{unknown}");
}

#[tokio::test]
async fn other_texts_come_as_they_are() {
    let base = server().await;
    let output = fetched(json!({ "url": format!("{base}/page.json") })).await.0.unwrap();
    assert_eq!(output.output, "{\"a\":1}");
    assert_eq!(output.title, format!("{base}/page.json (application/json)"));
    assert_eq!(fetched(json!({ "url": format!("{base}/latin") })).await.0.unwrap().output, "gr\u{fc}n");
    assert_eq!(
        fetched(json!({ "url": format!("{base}/moved"), "format": "text" })).await.0.unwrap().output,
        "THipara bold link"
    );
}

#[tokio::test]
async fn an_image_is_attached_and_other_binaries_are_refused() {
    let base = server().await;
    let output = fetched(json!({ "url": format!("{base}/image") })).await.0.unwrap();
    assert_eq!(output.attachments[0].url, "data:image/png;base64,iVBORw==");
    let error = fetched(json!({ "url": format!("{base}/binary") })).await.0.unwrap_err();
    assert!(error.to_string().contains("application/zip"), "{error}");
}

#[tokio::test]
async fn failures_say_what_was_wrong() {
    let base = server().await;
    let said = async |input: Value| fetched(input).await.0.unwrap_err().to_string();
    assert_eq!(
        said(json!({ "url": format!("{base}/missing") })).await,
        format!("StatusCode: non 2xx status code (404 GET {base}/missing)")
    );
    assert!(said(json!({ "url": "ftp://x/y", "format": "text" })).await.contains("http:// or https://"));
    assert!(said(json!({ "url": "http://" })).await.contains("no url"));
    assert!(said(json!({ "url": format!("{base}/loop") })).await.contains("redirects"));
    assert!(said(json!({ "url": format!("{base}/large") })).await.contains("5 MB"));
    assert!(said(json!({ "url": format!("{base}/endless") })).await.contains("5 MB"));
    assert!(said(json!({ "url": format!("{base}/page"), "timeout": 0 })).await.contains("timeout"));
    assert!(said(json!({ "url": "http://127.0.0.1:1/" })).await.contains("could not be fetched"));
    assert!(matches!(
        fetched(json!({ "url": format!("{base}/silent"), "timeout": 0.05 })).await.0,
        Err(ToolError::TimedOut { limit_ms: 50, .. })
    ));
    assert!(matches!(fetched(json!({ "url": base, "format": "pdf" })).await.0, Err(ToolError::Arguments { .. })));
}

#[tokio::test]
async fn a_page_may_lead_to_another_host_but_not_into_the_persons_network() {
    let base = server().await;
    // `localhost` may be `::1` first, where nobody listens; then the address of both is tried.
    let output = fetched(json!({ "url": format!("{base}/other") })).await.0.unwrap();
    assert_eq!(output.output, "{\"a\":1}");
    let error = fetched(json!({ "url": format!("{base}/inside") })).await.0.unwrap_err().to_string();
    assert!(error.contains("http://10.255.255.1/x") && error.contains("not on the public web"), "{error}");
}

#[tokio::test]
async fn an_address_of_the_persons_network_is_asked_for_whatever_the_rules_say() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = context(dir.path());
    desk.judge(|_| Err(Refusal::Rejected));
    for (url, floor) in [
        ("http://169.254.169.254/latest/meta-data", Action::Ask),
        ("http://1.1.1.1/", Action::Allow),
        ("http://127.0.0.1:3000/", Action::Allow),
    ] {
        assert!(call(&cx, json!({ "url": url })).await.is_err());
        let asked = desk.asks().pop().unwrap();
        assert_eq!((asked.floor, asked.always.is_empty()), (floor, floor == Action::Ask), "{url}");
    }
}

#[tokio::test]
async fn what_is_asked_has_no_empty_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = context(dir.path());
    desk.judge(|_| Err(Refusal::Rejected));
    let url = format!("{}/page", server().await);
    assert!(call(&cx, json!({ "url": url, "format": "text" })).await.is_err());
    assert!(call(&cx, json!({ "url": url, "timeout": 5 })).await.is_err());
    let [one, two] = desk.asks().try_into().unwrap();
    assert_eq!(one, Ask::new("webfetch", vec![url.clone()], vec!["*".into()], one.metadata.clone()));
    assert_eq!(Value::Object(one.metadata), json!({ "url": url, "format": "text" }));
    assert_eq!(two.metadata["format"], "markdown");
    assert_eq!(two.metadata["timeout"].as_f64(), Some(5.0));
    assert_eq!(desk.begun(), 0);
}

#[tokio::test]
async fn an_abort_ends_the_fetch() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let (cx, _desk) = context(dir.path());
    let cx = ToolContext { cancel: cancel.clone(), ..cx };
    let url = format!("{}/silent", server().await);
    let running = tokio::spawn(async move { call(&cx, json!({ "url": url })).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    assert!(matches!(running.await.unwrap(), Err(ToolError::Aborted)));
}

#[tokio::test]
async fn a_site_is_told_what_we_would_rather_have() {
    let url = format!("{}/headers", server().await);
    let output = fetched(json!({ "url": url, "format": "text" })).await.0.unwrap().output;
    assert!(output.contains("accept: text/plain;q=1.0") && output.contains("user-agent: Mozilla/5.0"), "{output}");
}

#[test]
fn the_schema_is_opencodes() {
    let wanted = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "url": { "type": "string" },
            "format": { "type": "string", "enum": ["text", "markdown", "html"], "default": "markdown" },
            "timeout": { "type": "number" }
        },
        "required": ["url"]
    });
    assert_schema(&AnyTool::spec(&WebFetch).parameters, &wanted);
}
