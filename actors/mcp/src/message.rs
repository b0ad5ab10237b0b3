//! What servers send, read with patience: what is no message is junk, what is one but can't be read is answered for.

use protocol::surrogate::without_lone_surrogates;
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
        Err(_) => {
            let text = String::from_utf8_lossy(bytes);
            vec![match serde_json::from_str::<Value>(&without_lone_surrogates(&text)) {
                Ok(value) => of_value(value),
                Err(error) => unreadable(&text, format!("the answer is no JSON that can be read: {error}")),
            }]
        }
    }
}

/// Returns the failure of the request whose answer was too long to be read, if its beginning tells which one it was.
pub fn too_long(head: &[u8]) -> Incoming {
    let head = String::from_utf8_lossy(head);
    unreadable(&head, format!("the answer is larger than {} MiB", MAX_MESSAGE / 1024 / 1024))
}

/// Returns the failure of the request that a text answers, if it says which one that is.
fn unreadable(text: &str, why: String) -> Incoming {
    // Before the result, or behind it: ids within it are others'.
    let (before, result) = text.split_once("\"result\"").unwrap_or((text, ""));
    let id_at = |rest: &str| {
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let (id, rest) = rest.split_at(rest.find([',', '}', ' '])?);
        Some((serde_json::from_str::<RequestId>(id).ok()?, rest.to_owned()))
    };
    let first = || Some(id_at(before.split("\"id\"").nth(1)?)?.0);
    let last = || {
        let (id, rest) = id_at(result.rsplit("\"id\"").next().filter(|rest| rest.len() < result.len())?)?;
        let is_at_the_end = matches!(rest.replace([' ', '\n', '\r'], "").as_str(), "}" | ",\"jsonrpc\":\"2.0\"}");
        is_at_the_end.then_some(id)
    };
    match first().or_else(last) {
        Some(id) if !before.contains("\"method\"") => failure(id, why),
        _ => Incoming::Junk,
    }
}

fn of_value(value: Value) -> Incoming {
    if !value.is_object() || value.get("jsonrpc").is_none() {
        return Incoming::Junk;
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value::<RequestId>(id).ok());
    let is_answer = value.get("method").is_none();
    let said = value.get("error").map(|error| match error.get("message").unwrap_or(error) {
        Value::String(message) => message.clone(),
        other => other.to_string(),
    });
    match serde_json::from_value::<ServerJsonRpcMessage>(value) {
        Ok(message) => Incoming::Message(Box::new(message)),
        // Somebody waits for it.
        Err(error) => match id {
            Some(id) if is_answer => failure(id, said.unwrap_or_else(|| format!("the answer can't be read: {error}"))),
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

    fn failed(text: &str) -> (RequestId, String) {
        match only(text) {
            Incoming::Message(message) => match *message {
                ServerJsonRpcMessage::Error(error) => (error.id.expect("an id"), error.error.message.into_owned()),
                other => panic!("{text}: {other:?}"),
            },
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_error_of_the_wrong_shape_keeps_its_words() {
        for error in [r#""out of disk""#, r#"{"message":"out of disk"}"#, r#"{"code":"E1","message":"out of disk"}"#] {
            let (id, said) = failed(&format!(r#"{{"jsonrpc":"2.0","id":4,"error":{error}}}"#));
            assert_eq!((id, said.as_str()), (RequestId::Number(4), "out of disk"));
        }
    }

    #[test]
    fn a_string_that_was_cut_inside_of_a_character_is_read() {
        let text = r#"{"result":{"content":[{"type":"text","text":"cut \ud83d"}]},"jsonrpc":"2.0","id":1}"#;
        assert!(matches!(only(text), Incoming::Message(m) if matches!(&*m, ServerJsonRpcMessage::Response(_))));
    }

    #[test]
    fn an_answer_that_is_no_json_fails_its_request() {
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        for result in ["Infinity", "NaN", "tru", &deep] {
            for answer in [
                format!(r#"{{"jsonrpc":"2.0","id":9,"result":{{"x":{result}, "id":3}}}}"#),
                format!(r#"{{"result":{{"x":{result}, "id":3}},"jsonrpc":"2.0","id":9}}"#),
                format!(r#"{{"result":{{"x":{result}, "id":3}}, "id":9, "jsonrpc":"2.0"}}"#),
            ] {
                assert_eq!(failed(&answer).0, RequestId::Number(9), "{answer}");
            }
        }
        assert!(matches!(only(r#"{"jsonrpc":"2.0","result":{"x":tru,"id":3,"y":1}}"#), Incoming::Junk));
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
