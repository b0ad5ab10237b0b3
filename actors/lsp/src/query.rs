//! Questions about code, in the protocol's words.

use std::time::Duration;

use lsp_types::SymbolKind;
use lsp_types::request::{
    CallHierarchyIncomingCalls, CallHierarchyOutgoingCalls, CallHierarchyPrepare, DocumentSymbolRequest,
    GotoDefinition, GotoImplementation, HoverRequest, References, Request, WorkspaceSymbolRequest,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tools::lsp::{LanguageQuestion, Operation};

use crate::client::{Client, uri};
use crate::error::LspError;

/// How long a server may think about one question.
const LIMIT: Duration = Duration::from_secs(15);
/// Most symbols of a project one server is listened to for. Source: OpenCode `lsp/lsp.ts`.
const SYMBOLS: usize = 10;
/// The kinds of symbols that are told of a project. Source: OpenCode `lsp/lsp.ts`.
const KINDS: [SymbolKind; 8] = [
    SymbolKind::CLASS,
    SymbolKind::FUNCTION,
    SymbolKind::METHOD,
    SymbolKind::INTERFACE,
    SymbolKind::VARIABLE,
    SymbolKind::CONSTANT,
    SymbolKind::STRUCT,
    SymbolKind::ENUM,
];

/// Puts a question to a server. What it answers, as a list; empty where it knows nothing.
pub async fn ask(client: &Client, question: &LanguageQuestion) -> Result<Vec<Value>, LspError> {
    client.open(&question.path).await?;
    let document = json!({ "uri": uri(&question.path)? });
    let position = json!({ "line": question.line, "character": question.character });
    let mut params = json!({ "textDocument": document, "position": position });
    let send = async |method: &str, params: Value| client.request(method, params, LIMIT).await.map(listed);
    let calls = async |method: &str, params: Value| {
        let found = send(CallHierarchyPrepare::METHOD, params).await?;
        match found.into_iter().next() {
            Some(item) => send(method, json!({ "item": item })).await,
            None => Ok(Vec::new()),
        }
    };
    match question.operation {
        Operation::GoToDefinition => send(GotoDefinition::METHOD, params).await,
        Operation::FindReferences => {
            params["context"] = json!({ "includeDeclaration": true });
            send(References::METHOD, params).await
        }
        Operation::Hover => send(HoverRequest::METHOD, params).await,
        Operation::DocumentSymbol => send(DocumentSymbolRequest::METHOD, json!({ "textDocument": document })).await,
        Operation::WorkspaceSymbol => {
            let found = send(WorkspaceSymbolRequest::METHOD, json!({ "query": question.query })).await?;
            let kind = |symbol: &Value| symbol.get("kind").and_then(|kind| SymbolKind::deserialize(kind).ok());
            let is_told = |symbol: &Value| kind(symbol).is_some_and(|kind| KINDS.contains(&kind));
            Ok(found.into_iter().filter(is_told).take(SYMBOLS).collect())
        }
        Operation::GoToImplementation => send(GotoImplementation::METHOD, params).await,
        Operation::PrepareCallHierarchy => send(CallHierarchyPrepare::METHOD, params).await,
        Operation::IncomingCalls => calls(CallHierarchyIncomingCalls::METHOD, params).await,
        Operation::OutgoingCalls => calls(CallHierarchyOutgoingCalls::METHOD, params).await,
    }
}

/// An answer is nothing, one thing, or a list.
fn listed(answer: Value) -> Vec<Value> {
    match answer {
        Value::Null => Vec::new(),
        Value::Array(list) => list.into_iter().filter(|one| !one.is_null()).collect(),
        one => vec![one],
    }
}
