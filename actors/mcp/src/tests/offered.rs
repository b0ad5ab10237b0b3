//! Our own tools, seen through our own client.

use protocol::model::ToolSpec;

use pretty_assertions::assert_eq;

use super::*;
use crate::serve::{Toolset, serve};

struct Sums;

impl Toolset for Sums {
    fn tools(&self) -> Vec<ToolSpec> {
        let parameters = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
        vec![ToolSpec { name: "double".into(), description: "doubles".into(), parameters }]
    }

    fn instructions(&self) -> &str {
        "double things"
    }

    async fn call(&self, _: &str, arguments: JsonMap, cancel: CancellationToken) -> Result<Value, String> {
        match arguments.get("a").and_then(Value::as_i64) {
            Some(0) => {
                cancel.cancelled().await;
                Err("stopped".into())
            }
            Some(a) => Ok(json!({ "sum": a * 2 })),
            None => Err("`a` is missing".into()),
        }
    }
}

#[tokio::test]
async fn a_toolset_is_listed_called_and_cancelled() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(theirs);
    let serving = tokio::spawn(serve(Arc::new(Sums), "1.2.3", input, output));
    let (mut from, mut to) = tokio::io::split(ours);
    let mut said = String::new();
    let mut ask = async |message: Value| {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let id = message["id"].clone();
        to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        while !id.is_null() {
            if let Some((line, rest)) = said.split_once('\n') {
                let answer: Value = serde_json::from_str(line).unwrap();
                said = rest.to_owned();
                assert_eq!(answer["id"], id);
                return answer;
            }
            let mut buffer = [0; 4096];
            let count = from.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "the server hung up");
            said.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        Value::Null
    };
    let request = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let info = ask(request(1, "initialize", hello)).await;
    assert_eq!(info["result"]["serverInfo"], json!({ "name": "troupe", "version": "1.2.3" }));
    assert_eq!(info["result"]["instructions"], "double things");
    ask(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    let listed = ask(request(2, "tools/list", json!({}))).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "double");
    let called = ask(request(3, "tools/call", json!({ "name": "double", "arguments": { "a": 4 } }))).await;
    assert_eq!(called["result"]["structuredContent"], json!({ "sum": 8 }));
    assert_eq!(called["result"]["content"][0]["text"], "{\n  \"sum\": 8\n}");
    let failed = ask(request(4, "tools/call", json!({ "name": "double" }))).await;
    assert_eq!(
        (&failed["result"]["isError"], &failed["result"]["content"][0]["text"]),
        (&json!(true), &json!("`a` is missing"))
    );
    let unknown = ask(request(5, "tools/call", json!({ "name": "treble" }))).await;
    assert_eq!(unknown["error"]["code"], -32602);
    drop((from, to));
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_says_nothing_and_hangs_up_is_no_error() {
    serve(Arc::new(Sums), "1", tokio::io::empty(), tokio::io::sink()).await.unwrap();
}
