//! A request as the model got it.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is being answered.
    Open,
    /// Its answer has ended as its step said, cut ones included.
    Answered,
    /// The client went away before the end.
    Dropped,
}

/// A chat-completions request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The JSON body; `null` where it was none.
    pub body: Value,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// When it was complete.
    pub at: Instant,
    /// What became of it, as of the moment the list was taken.
    pub outcome: Outcome,
    /// Which step answers it: the script's needle and the step's number from 0.
    pub step: Option<(String, usize)>,
}

impl Request {
    /// Returns whether it offers tools, as requests of a turn do; those for titles and summaries don't.
    pub fn has_tools(&self) -> bool {
        self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    /// Returns the messages.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the texts of the messages with this role, in order.
    pub fn texts(&self, role: &str) -> Vec<String> {
        self.messages().iter().filter(|m| m["role"] == role).map(|m| text_of(&m["content"])).collect()
    }

    /// Returns the tool calls of all messages and their results, in the order of the calls: name, arguments, result.
    pub fn calls(&self) -> Vec<(String, Value, Option<String>)> {
        let calls = self.messages().iter().filter_map(|m| m["tool_calls"].as_array()).flatten();
        calls
            .map(|call| {
                let of_call = |m: &&Value| m["role"] == "tool" && m["tool_call_id"] == call["id"];
                let result = self.messages().iter().find(of_call).map(|m| text_of(&m["content"]));
                let text = |key: &str| call["function"][key].as_str().unwrap_or_default();
                let arguments = serde_json::from_str(text("arguments")).unwrap_or(Value::Null);
                (text("name").to_owned(), arguments, result)
            })
            .collect()
    }

    /// Returns the names of the tools it offers, in order.
    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| tool["function"]["name"].as_str()).map(str::to_owned).collect()
    }
}

/// Returns the text of a message's content, text blocks joined by line ends.
pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
