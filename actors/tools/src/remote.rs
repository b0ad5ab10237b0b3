//! Tools of other people's servers that are called as MCP does it, by one POST: a JSON-RPC `tools/call`, answered as
//! JSON or as one event of a stream. There is no session to open.

use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::context::ToolContext;
use crate::error::ToolError;

/// Bytes of an answer at most.
const MOST: usize = 5 * 1024 * 1024;
/// Bytes of an answer's text that are shown when the server says that something is wrong.
const SHOWN: usize = 500;

/// Where a tool is, and what it is called with.
pub(crate) struct Call<'a> {
    /// The service's name, for errors.
    pub(crate) service: &'a str,
    pub(crate) url: &'a str,
    /// Sent as a bearer token.
    pub(crate) key: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Value,
    pub(crate) limit: Duration,
}

#[derive(Deserialize)]
struct Reply {
    result: Option<ToolResult>,
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    content: Vec<Content>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content {
    text: Option<String>,
}

/// Calls a tool and returns the first text it answers with; none when it has nothing to say.
pub(crate) async fn call(cx: &ToolContext, call: Call<'_>) -> Result<Option<String>, ToolError> {
    let limit = call.limit;
    tokio::select! {
        () = cx.cancel.cancelled() => Err(ToolError::Aborted),
        done = tokio::time::timeout(limit, send(cx, &call)) => done.unwrap_or_else(|_| {
            Err(ToolError::TimedOut { tool: call.service.to_owned(), limit_ms: limit.as_millis() as u64 })
        }),
    }
}

async fn send(cx: &ToolContext, call: &Call<'_>) -> Result<Option<String>, ToolError> {
    let service = call.service;
    let failed = |why: String| ToolError::failed(format!("{service} could not be asked: {why}."));
    // The address may hold a key, so it is in no error.
    let url = Url::parse(call.url).map_err(|e| failed(format!("its address is no url ({e})")))?;
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": call.tool, "arguments": call.arguments },
    });
    let mut request = cx.http.post(url).header(ACCEPT, "application/json, text/event-stream").json(&body);
    if let Some(key) = call.key {
        request = request.bearer_auth(key);
    }
    let response = request.send().await.map_err(|e| failed(cause(e)))?;
    let status = response.status();
    let is_stream =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece.map_err(|e| failed(cause(e)))?);
        if bytes.len() > MOST {
            return Err(failed(format!("its answer is larger than {} MB", MOST / 1024 / 1024)));
        }
        // A server may leave the stream open behind its answer.
        if is_stream
            && status.is_success()
            && let Some(reply) = reply(&String::from_utf8_lossy(&bytes))
        {
            return text_of(service, reply);
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    if !status.is_success() {
        let said: String = text.chars().take(SHOWN).collect();
        return Err(failed(format!("it answers with status {status}: {}", said.trim())));
    }
    let reply = reply(&text).ok_or_else(|| failed("its answer is no result of a tool".into()))?;
    text_of(service, reply)
}

/// Returns the answer in a body: JSON, or the first event whose data is one.
fn reply(body: &str) -> Option<Reply> {
    let read =
        |json: &str| serde_json::from_str::<Reply>(json).ok().filter(|r| r.result.is_some() || r.error.is_some());
    // Only whole events count; of a body that is still coming the last line may be half.
    let lines = body.split_inclusive('\n').filter(|line| line.ends_with('\n')).chain(body.lines().last());
    read(body)
        .or_else(|| lines.filter_map(|line| line.trim_end().strip_prefix("data:")).find_map(|data| read(data.trim())))
}

fn text_of(service: &str, reply: Reply) -> Result<Option<String>, ToolError> {
    if let Some(error) = reply.error {
        return Err(ToolError::failed(format!("{service} answers with an error: {}", error.message)));
    }
    let result = reply.result.unwrap_or(ToolResult { content: Vec::new(), is_error: false });
    let text = result.content.into_iter().find_map(|content| content.text).filter(|text| !text.trim().is_empty());
    match (result.is_error, text) {
        (true, text) => Err(ToolError::failed(format!(
            "{service} answers with an error: {}",
            text.as_deref().unwrap_or("it does not say which")
        ))),
        (false, text) => Ok(text),
    }
}

/// Returns why a request failed, without its address.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Returns an address with a key in its query.
pub(crate) fn with_key(url: &str, name: &str, key: Option<&str>) -> String {
    match (Url::parse(url), key) {
        (Ok(mut url), Some(key)) => {
            url.query_pairs_mut().append_pair(name, key);
            url.into()
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn said(body: &str) -> Option<String> {
        text_of("Exa", reply(body)?).unwrap()
    }

    #[test]
    fn an_answer_is_read_from_json_and_from_a_stream() {
        let json = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image"},{"type":"text","text":"found"}]}}"#;
        assert_eq!(said(json).as_deref(), Some("found"));
        assert_eq!(
            said(&format!("event: message\r\ndata: {{\"x\":1}}\r\n\r\ndata: {json}\r\n\r\n")).as_deref(),
            Some("found")
        );
        assert!(reply(&format!("data: {}", &json[..json.len() - 3])).is_none(), "half an answer is none");
        assert_eq!(said(r#"{"result":{"content":[]}}"#), None);
        assert!(reply("<html>").is_none());
    }

    #[test]
    fn errors_of_the_server_are_errors() {
        let error = |body: &str| text_of("Exa", reply(body).unwrap()).unwrap_err().to_string();
        assert!(error(r#"{"error":{"code":-1,"message":"no credits"}}"#).contains("no credits"));
        assert!(error(r#"{"result":{"isError":true,"content":[{"text":"bad query"}]}}"#).contains("bad query"));
    }

    #[test]
    fn a_key_is_put_into_the_query() {
        assert_eq!(with_key("https://x.org/mcp?a=1", "key", Some("s&t")), "https://x.org/mcp?a=1&key=s%26t");
        assert_eq!(with_key("https://x.org/mcp", "key", None), "https://x.org/mcp");
    }
}
