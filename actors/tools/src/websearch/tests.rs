use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::codesearch::CodeSearch;
use crate::testing::{assert_schema, context};
use crate::tool::AnyTool;

/// A service that answers each call with the request it got; returns its address.
async fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let whole = loop {
                let text = String::from_utf8_lossy(&request).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let head = head.to_ascii_lowercase();
                    let length = head
                        .split_once("content-length: ")
                        .unwrap()
                        .1
                        .lines()
                        .next()
                        .unwrap()
                        .parse::<usize>()
                        .unwrap();
                    if body.len() == length {
                        break (head, body.to_owned());
                    }
                }
                request.push(stream.read_u8().await.unwrap());
            };
            let path = whole.0.split(' ').nth(1).unwrap();
            let key = whole.0.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
            let text = if whole.1.contains("nothing") { String::new() } else { format!("{path} {key} {}", whole.1) };
            let reply = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
            let body = format!("event: message\ndata: {reply}\n\n");
            let (status, body) = if whole.1.contains("refused") {
                ("402 Payment Required", "no credits".to_owned())
            } else {
                ("200 OK", body)
            };
            // The stream stays open behind the answer.
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
            let end = if status.starts_with('4') { "0\r\n\r\n" } else { "" };
            let bytes = format!("{head}{:x}\r\n{body}\r\n{end}", body.len());
            stream.write_all(bytes.as_bytes()).await.unwrap();
            if end.is_empty() {
                tokio::spawn(async move {
                    let _open = stream;
                    std::future::pending::<()>().await;
                });
            }
        }
    });
    base
}

fn settings(provider: SearchProvider, base: &str) -> SearchSettings {
    SearchSettings {
        provider: Some(provider),
        exa_url: Some(format!("{base}/exa")),
        exa_key: Some("secret-exa".into()),
        parallel_url: Some(format!("{base}/parallel")),
        parallel_key: Some("secret-parallel".into()),
    }
}

async fn call(tool: &dyn AnyTool, input: Value) -> (Result<ToolOutput, ToolError>, Vec<Ask>) {
    let dir = tempfile::tempdir().unwrap();
    let (cx, desk) = context(dir.path());
    let Value::Object(input) = input else { unreachable!() };
    (tool.run(input, &cx).await, desk.asks())
}

#[tokio::test]
async fn exa_is_asked_with_its_key_and_the_person_before() {
    let base = service().await;
    let tool = WebSearch::new(settings(SearchProvider::Exa, &base));
    let (output, asks) = call(&tool, json!({"query": "rust 2024", "type": "deep", "numResults": 3})).await;
    let output = output.unwrap();
    assert_eq!(output.title, "Exa Web Search: rust 2024");
    assert!(output.output.starts_with("/exa?exaapikey=secret-exa "), "{}", output.output);
    let sent: Value = serde_json::from_str(&output.output[output.output.find('{').unwrap()..]).unwrap();
    let arguments = json!({"query": "rust 2024", "type": "deep", "numResults": 3, "livecrawl": "fallback"});
    assert_eq!(sent["params"], json!({"name": "web_search_exa", "arguments": arguments}));
    let metadata = json!({"query": "rust 2024", "numResults": 3.0, "type": "deep", "provider": "exa"});
    assert_eq!(Value::Object(asks[0].metadata.clone()), metadata);
    assert_eq!((&*asks[0].permission, &*asks[0].patterns), ("websearch", &["rust 2024".to_owned()][..]));
}

#[tokio::test]
async fn parallel_is_asked_in_its_own_words() {
    let base = service().await;
    let tool = WebSearch::new(settings(SearchProvider::Parallel, &base));
    let output = call(&tool, json!({"query": "rust 2024"})).await.0.unwrap();
    assert!(output.output.starts_with("/parallel authorization: bearer secret-parallel "), "{}", output.output);
    assert!(
        output.output.contains("\"name\":\"web_search\"")
            && output.output.contains("\"search_queries\":[\"rust 2024\"]")
    );
    assert_eq!(output.metadata["provider"], "parallel");
}

#[tokio::test]
async fn what_the_service_refuses_is_said_without_the_key() {
    let base = service().await;
    let tool = WebSearch::new(settings(SearchProvider::Exa, &base));
    let error = call(&tool, json!({"query": "refused"})).await.0.unwrap_err().to_string();
    assert!(error.contains("402") && error.contains("no credits") && !error.contains("secret"), "{error}");
    let gone = WebSearch::new(settings(SearchProvider::Exa, "http://127.0.0.1:1"));
    let error = call(&gone, json!({"query": "x"})).await.0.unwrap_err().to_string();
    assert!(error.contains("could not be asked") && !error.contains("secret"), "{error}");
    assert!(call(&tool, json!({"query": "nothing"})).await.0.unwrap().output.contains("Nothing was found"));
    assert!(!format!("{tool:?}").contains("secret"));
}

#[tokio::test]
async fn code_is_found_by_exa_whatever_searches_the_web() {
    let base = service().await;
    let tool = CodeSearch::new(settings(SearchProvider::Parallel, &base));
    let (output, asks) = call(&tool, json!({"query": "serde flatten", "tokensNum": 10})).await;
    let output = output.unwrap();
    assert!(output.output.contains("\"name\":\"get_code_context_exa\""));
    assert_eq!(Value::Object(asks[0].metadata.clone()), json!({"query": "serde flatten", "tokensNum": 1000}));
}

#[test]
fn the_schema_is_opencodes() {
    let wanted = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string"}, "numResults": {"type": "number"},
            "livecrawl": {"type": "string", "enum": ["fallback", "preferred"]},
            "type": {"type": "string", "enum": ["auto", "fast", "deep"]},
            "contextMaxCharacters": {"type": "number"}
        },
        "required": ["query"]
    });
    let mut got = AnyTool::spec(&WebSearch::default()).parameters;
    // Variants with descriptions become constants; to a model that is the same.
    for name in ["livecrawl", "type"] {
        let one_of = got["properties"][name]["oneOf"].clone();
        if let Value::Array(variants) = one_of {
            let names: Vec<Value> = variants.iter().map(|variant| variant["const"].clone()).collect();
            got["properties"][name] = json!({"type": "string", "enum": names});
        }
    }
    assert_schema(&got, &wanted);
}
