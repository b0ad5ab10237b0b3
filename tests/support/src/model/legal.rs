//! What every request has to keep, whatever the test is about.

use std::collections::HashSet;

use serde_json::Value;

/// Returns what is illegal about the body of a chat-completions request; nothing if all is well.
pub fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if !body.is_object() {
        return vec!["the body is not a JSON object".into()];
    }
    if body["stream"] != true {
        faults.push("`stream` is not true".into());
    }
    if body["model"].as_str().is_none_or(str::is_empty) {
        faults.push("`model` is not a name".into());
    }
    tools(&body["tools"], &mut faults);
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => conversation(messages, &mut faults),
        _ => faults.push("there are no messages".into()),
    }
    faults
}

fn conversation(messages: &[Value], faults: &mut Vec<String>) {
    let mut ids = HashSet::new();
    // Ids of the calls whose results have to come next, and the message that made them.
    let mut owed: Vec<&str> = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if owed.first() == Some(&id) {
                owed.remove(0);
            } else {
                faults.push(format!("message {i} is the result of {id:?}, where results of {owed:?} are due"));
            }
            if !(message["content"].is_string() || message["content"].is_array()) {
                faults.push(format!("message {i}, a tool result, has no content"));
            }
            continue;
        }
        if !owed.is_empty() {
            faults.push(format!("message {i} ({role}) comes before the results of {owed:?}"));
            owed.clear();
        }
        match role {
            "system" | "developer" | "user" => content(i, message, false, faults),
            "assistant" => {
                let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
                if message.get("tool_calls").is_some_and(|calls| *calls == Value::Array(Vec::new())) {
                    faults.push(format!("message {i} has an empty list of tool calls"));
                }
                content(i, message, !calls.is_empty(), faults);
                for call in calls {
                    owed.push(tool_call(i, call, &mut ids, faults));
                }
            }
            other => faults.push(format!("message {i} has the role {other:?}")),
        }
    }
    if !owed.is_empty() {
        faults.push(format!("the results of {owed:?} are missing"));
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant") {
        faults.push("the last message is the assistant's".into());
    }
}

fn tool_call<'a>(i: usize, call: &'a Value, ids: &mut HashSet<&'a str>, faults: &mut Vec<String>) -> &'a str {
    let id = call["id"].as_str().unwrap_or_default();
    if id.is_empty() {
        faults.push(format!("message {i} has a tool call without an id"));
    } else if !ids.insert(id) {
        faults.push(format!("message {i} has a second tool call with the id {id:?}"));
    }
    if call["type"] != "function" || call["function"]["name"].as_str().is_none_or(str::is_empty) {
        faults.push(format!("message {i} has a tool call that names no function: {call}"));
    }
    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
        faults.push(format!("message {i} has a tool call whose arguments are no JSON object: {arguments:?}"));
    }
    id
}

/// `may_be_empty`: no text at all is fine beside tool calls, an empty block is not.
fn content(i: usize, message: &Value, may_be_empty: bool, faults: &mut Vec<String>) {
    let role = message["role"].as_str().unwrap_or_default();
    match &message["content"] {
        Value::String(text) if text.is_empty() && !may_be_empty => {
            faults.push(format!("message {i} ({role}) is empty"));
        }
        Value::String(_) => {}
        Value::Array(blocks) if blocks.is_empty() => faults.push(format!("message {i} ({role}) has no content blocks")),
        Value::Array(blocks) => {
            for block in blocks {
                let empty = match block["type"].as_str() {
                    Some("text") => block["text"].as_str().is_none_or(str::is_empty),
                    Some("image_url") => block["image_url"]["url"].as_str().is_none_or(str::is_empty),
                    Some(_) => false,
                    None => true,
                };
                if empty {
                    faults.push(format!("message {i} ({role}) has an empty content block: {block}"));
                }
            }
        }
        Value::Null if may_be_empty => {}
        other => faults.push(format!("message {i} ({role}) has the content {other}")),
    }
}

fn tools(tools: &Value, faults: &mut Vec<String>) {
    let Some(list) = tools.as_array() else {
        if !tools.is_null() {
            faults.push("`tools` is not a list".into());
        }
        return;
    };
    if list.is_empty() {
        faults.push("`tools` is an empty list".into());
    }
    let mut names = HashSet::new();
    for tool in list {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool["type"] != "function" || name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            faults.push(format!("a tool has no usable name: {name:?}"));
        } else if !names.insert(name) {
            faults.push(format!("two tools have the name {name:?}"));
        }
        if function["parameters"]["type"] != "object" {
            faults.push(format!("the tool {name:?} has no schema of an object"));
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn faults_of(messages: Value) -> Vec<String> {
        faults(&json!({ "model": "m", "stream": true, "messages": messages }))
    }

    fn asking(ids: &[&str]) -> Value {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": "{}" } }))
            .collect();
        json!({ "role": "assistant", "content": "", "tool_calls": calls })
    }

    fn result(id: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": id, "content": "" })
    }

    #[test]
    fn a_whole_conversation_is_legal() {
        let messages = json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": [{ "type": "text", "text": "u" }] },
            asking(&["a", "b"]), result("a"), result("b"),
            { "role": "assistant", "content": "done" },
            { "role": "user", "content": "more" },
        ]);
        assert_eq!(faults_of(messages), [""; 0]);
    }

    #[test]
    fn results_in_another_order_missing_or_without_a_call_are_named() {
        let user = json!({ "role": "user", "content": "u" });
        assert_eq!(faults_of(json!([user, asking(&["a", "b"]), result("b"), result("a")])).len(), 2);
        assert_eq!(faults_of(json!([user, asking(&["a"])])).len(), 2, "result missing, and the assistant is last");
        assert_eq!(faults_of(json!([user, asking(&["a"]), user, result("a")])).len(), 2);
        assert_eq!(faults_of(json!([user, asking(&["a"]), result("a"), result("a")])).len(), 1);
        assert_eq!(faults_of(json!([user, result("a")])).len(), 1);
        assert_eq!(faults_of(json!([user, asking(&["a", "a"]), result("a"), result("a")])).len(), 1);
    }

    #[test]
    fn empty_messages_and_blocks_are_named() {
        let user = json!({ "role": "user", "content": "u" });
        for bad in [json!(""), json!([]), json!(null), json!([{ "type": "text", "text": "" }])] {
            assert_eq!(faults_of(json!([{ "role": "user", "content": bad }])).len(), 1, "user {bad}");
            assert_eq!(faults_of(json!([user, { "role": "assistant", "content": bad }, user])).len(), 1, "{bad}");
        }
        assert_eq!(faults_of(json!([user, { "role": "assistant", "content": "x", "tool_calls": [] }, user])).len(), 1);
    }

    #[test]
    fn arguments_that_are_no_object_are_named() {
        for bad in ["", "[]", "{", "1"] {
            let mut ask = asking(&["a"]);
            ask["tool_calls"][0]["function"]["arguments"] = json!(bad);
            assert_eq!(faults_of(json!([{ "role": "user", "content": "u" }, ask, result("a")])).len(), 1, "{bad}");
        }
    }

    #[test]
    fn tools_need_a_name_of_their_own_and_a_schema() {
        let tool = |name: &str, parameters: Value| json!({ "type": "function", "function": { "name": name, "parameters": parameters } });
        let with = |tools: Value| {
            let messages = json!([{ "role": "user", "content": "u" }]);
            faults(&json!({ "model": "m", "stream": true, "messages": messages, "tools": tools })).len()
        };
        let schema = json!({ "type": "object" });
        assert_eq!(with(json!([tool("a", schema.clone()), tool("b-1", schema.clone())])), 0);
        assert_eq!(with(json!([tool("a", schema.clone()), tool("a", schema.clone())])), 1);
        assert_eq!(with(json!([tool("a b", schema)])), 1);
        assert_eq!(with(json!([tool("a", Value::Null)])), 1);
    }
}
