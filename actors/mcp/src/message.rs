//! What servers send, read with patience: what is no message is junk, what is one but can't be read is answered for.

use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde_json::Value;

/// Most bytes of one message, on any transport: room for an image, and an end to what a broken server can cost.
pub const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// What came in.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Box<ServerJsonRpcMessage>),
    /// A message of a kind nobody here knows, and nobody waits for.
    Ignored,
    /// No message at all.
    Junk,
}

/// Reads what a server sent as one line or one event: a message, or a batch of them.
pub fn read(bytes: &[u8]) -> Vec<Incoming> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => {}
        Some(b'[') => {
            return match serde_json::from_slice::<Vec<Value>>(bytes) {
                Ok(batch) => batch.into_iter().map(of_value).collect(),
                Err(_) => vec![Incoming::Junk],
            };
        }
        _ => return vec![Incoming::Junk],
    }
    match serde_json::from_slice::<ServerJsonRpcMessage>(bytes) {
        Ok(message) => vec![Incoming::Message(Box::new(message))],
        Err(_) => match serde_json::from_slice::<Value>(bytes) {
            Ok(value) => vec![of_value(value)],
            Err(_) => vec![Incoming::Junk],
        },
    }
}

/// Returns the failure of the request whose answer was too long to be read, if its beginning tells which one it was.
pub fn too_long(head: &[u8]) -> Incoming {
    let head = String::from_utf8_lossy(head);
    // Before the result: ids within it are others'.
    let before = head.split("\"result\"").next().unwrap_or_default();
    let id = before.split("\"id\"").nth(1).and_then(|rest| {
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let end = rest.find([',', '}', ' '])?;
        serde_json::from_str::<RequestId>(rest.get(..end)?).ok()
    });
    match id {
        Some(id) if !before.contains("\"method\"") => {
            failure(id, format!("the answer is larger than {} MiB", MAX_MESSAGE / 1024 / 1024))
        }
        _ => Incoming::Junk,
    }
}

fn of_value(value: Value) -> Incoming {
    if !value.is_object() || value.get("jsonrpc").is_none() {
        return Incoming::Junk;
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let is_answer = value.get("method").is_none();
    match serde_json::from_value::<ServerJsonRpcMessage>(value) {
        Ok(message) => Incoming::Message(Box::new(message)),
        // Somebody waits for it.
        Err(error) => match id {
            Some(id) if is_answer => failure(id, format!("the answer can't be read: {error}")),
            _ => Incoming::Ignored,
        },
    }
}

fn failure(id: RequestId, message: String) -> Incoming {
    Incoming::Message(Box::new(ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::ServerResult;

    use super::*;

    fn only(text: &str) -> Incoming {
        let mut all = read(text.as_bytes());
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn what_is_no_message_is_junk() {
        for junk in ["Starting...", "", "   ", "not json {", "{", "42", "\"x\"", r#"{"level":"info"}"#, "[1,"] {
            assert!(matches!(only(junk), Incoming::Junk), "{junk}");
        }
    }

    #[test]
    fn odd_answers_still_reach_whoever_waits() {
        let Incoming::Message(message) = only(r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"nameless":true}]}}"#)
        else {
            panic!("no message")
        };
        let ServerJsonRpcMessage::Response(answer) = *message else { panic!("no answer") };
        assert!(matches!(answer.result, ServerResult::CustomResult(_)));
        let odd = only(r#"{"jsonrpc":"2.0","id":4,"error":{"code":"E","message":1}}"#);
        assert!(
            matches!(odd, Incoming::Message(m) if matches!(&*m, ServerJsonRpcMessage::Error(e) if e.id == Some(RequestId::Number(4))))
        );
        assert!(matches!(
            only(r#"{"jsonrpc":"2.0","method":"notifications/unheard/of"}"#),
            Incoming::Message(_) | Incoming::Ignored
        ));
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let batch = read(br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"x":1}]"#);
        assert!(matches!(batch.as_slice(), [Incoming::Message(_), Incoming::Junk]));
    }

    #[test]
    fn an_answer_that_is_too_long_fails_its_own_request() {
        let Incoming::Message(message) = too_long(br#"{"jsonrpc":"2.0","id":7,"result":{"id":9"#) else {
            panic!("lost")
        };
        assert!(matches!(*message, ServerJsonRpcMessage::Error(error) if error.id == Some(RequestId::Number(7))));
        assert!(matches!(too_long(br#"{"result":{"id":9,"#), Incoming::Junk));
        assert!(matches!(too_long(br#"{"method":"x","id":9,"#), Incoming::Junk));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in r#"[\[{]?("id"|"result"|:|,|1|\{|\}|"jsonrpc":"2\.0"){0,12}"#) {
            read(&bytes);
            too_long(&bytes);
            read(text.as_bytes());
            too_long(text.as_bytes());
        }
    }
}
