//! What requests are encoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, ToolChoice, ToolSpec, UserContent};
use protocol::{CallId, JsonMap};

use super::*;
use crate::adapter::Format;
use crate::chat::Chat;
use crate::testing::{any_request, call, request, result, said, thought, user};
use crate::{Access, Endpoint};

const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

fn body_for(npm: &str, request: &ModelRequest) -> Value {
    let endpoint = Endpoint::new("p", npm, "http://h/v1");
    serde_json::from_slice(&Chat.encode(&endpoint, request, &Access::default()).expect("a body").body).expect("JSON")
}

fn encoded(request: &ModelRequest) -> Value {
    body_for(COMPATIBLE, request)
}

fn messages(messages: Vec<ModelMessage>) -> Value {
    let request = ModelRequest { system: Vec::new(), ..request(messages) };
    encoded(&request)["messages"].take()
}

#[test]
fn a_request_with_tools_is_as_on_the_wire() {
    let schema = json!({ "type": "object", "properties": { "filePath": { "type": "string" } } });
    let mut request = request(vec![user("go")]);
    request.tools = vec![ToolSpec { name: "read".into(), description: "reads".into(), parameters: schema.clone() }];
    assert_eq!(
        encoded(&request),
        json!({
            "model": "mock",
            "max_tokens": 8192,
            "messages": [{ "role": "system", "content": "you are\nan agent" }, { "role": "user", "content": "go" }],
            "tools": [{ "type": "function", "function": { "name": "read", "description": "reads", "parameters": schema } }],
            "tool_choice": "auto",
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
    request.tool_choice = ToolChoice::Required;
    assert_eq!(encoded(&request)["tool_choice"], "required");
}

#[test]
fn a_request_without_tools_has_no_choice_and_zero_is_no_limit() {
    let mut request = request(vec![user("go")]);
    request.max_output_tokens = 0;
    (request.temperature, request.top_p) = (Some(0.5), Some(0.9));
    assert_eq!(
        encoded(&request),
        json!({
            "model": "mock",
            "temperature": 0.5,
            "top_p": 0.9,
            "messages": [{ "role": "system", "content": "you are\nan agent" }, { "role": "user", "content": "go" }],
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
    let mut endpoint = Endpoint::new("p", COMPATIBLE, "http://h/v1");
    endpoint.options.insert("includeUsage".into(), json!(false));
    let plain: Value =
        serde_json::from_slice(&Chat.encode(&endpoint, &request, &Access::default()).expect("a body").body)
            .expect("JSON");
    assert!(plain.get("stream_options").is_none());
}

#[test]
fn options_go_into_the_body_by_their_name_on_the_wire_and_null_takes_a_field_out() {
    let mut request = request(vec![user("go")]);
    let options = json!({ "reasoningEffort": "high", "textVerbosity": "low", "enable_thinking": true, "max_tokens": null,
                          "max_completion_tokens": 5, "strictJsonSchema": true, "stream": false, "messages": [] });
    request.options = options.as_object().cloned().expect("an object");
    let body = encoded(&request);
    let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
    let want = [
        "model",
        "reasoning_effort",
        "verbosity",
        "enable_thinking",
        "max_completion_tokens",
        "messages",
        "stream",
        "stream_options",
    ];
    assert_eq!(keys, want);
    assert_eq!((&body["reasoning_effort"], &body["stream"]), (&json!("high"), &json!(true)));
}

#[test]
fn calls_and_results_follow_each_other() {
    let sent = messages(vec![
        user("go"),
        ModelMessage::Assistant(vec![call("a", "read", json!({ "p": 1 })), call("b", "read", json!(null))]),
        ModelMessage::Tool(vec![result("a", "read", "of a"), result("b", "read", "of b")]),
    ]);
    assert_eq!(
        sent,
        json!([
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": "", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "read", "arguments": "{\"p\":1}" } },
                { "id": "b", "type": "function", "function": { "name": "read", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "of a" },
            { "role": "tool", "tool_call_id": "b", "content": "of b" },
        ])
    );
}

#[test]
fn thinking_goes_back_beside_the_text_and_alone_not_at_all() {
    let thinking = || thought("hm", json!(null));
    let sent = messages(vec![
        ModelMessage::Assistant(vec![thinking(), said("a"), said("b")]),
        ModelMessage::Assistant(vec![thinking()]),
    ]);
    assert_eq!(sent, json!([{ "role": "assistant", "content": "ab", "reasoning_content": "hm" }]));
}

#[test]
fn a_signature_goes_back_with_its_call() {
    let extra = json!({ "google": { "thought_signature": "S" } });
    let metadata = JsonMap::from_iter([("extra_content".to_owned(), extra.clone())]);
    let call =
        AssistantContent::Call { id: CallId::new("a"), tool: "f".into(), input: json!({}), metadata: Some(metadata) };
    assert_eq!(messages(vec![ModelMessage::Assistant(vec![call])])[0]["tool_calls"][0]["extra_content"], extra);
}

#[test]
fn vendors_that_seal_thinking_get_it_back_as_it_came() {
    let details = json!([{ "type": "reasoning.text", "text": "hm", "signature": "S", "index": 0 }]);
    let history = |data: Value| {
        let mut request =
            request(vec![user("a"), ModelMessage::Assistant(vec![thought("hm", data), said("x")]), user("b")]);
        request.system.clear();
        request
    };
    let routed = history(json!({ "openrouter": { "reasoning_details": details } }));
    let sent = body_for("@openrouter/ai-sdk-provider", &routed);
    assert_eq!(sent["messages"][1], json!({ "role": "assistant", "content": "x", "reasoning_details": details }));
    let sent = body_for("@ai-sdk/github-copilot", &history(json!({ "copilot": { "reasoningOpaque": "O" } })));
    let want = json!({ "role": "assistant", "content": "x", "reasoning_text": "hm", "reasoning_opaque": "O" });
    assert_eq!(sent["messages"][1], want);
    // Of another vendor the text alone goes, in the server's own field.
    let sent = body_for("@ai-sdk/groq", &history(json!({ "anthropic": { "signature": "S" } })));
    assert_eq!(sent["messages"][1], json!({ "role": "assistant", "content": "x", "reasoning": "hm" }));
}

#[test]
fn files_go_by_their_kind() {
    let file = |mime: &str, name: Option<&str>, data: &str| UserContent::File(crate::testing::file(mime, name, data));
    let sent = messages(vec![ModelMessage::User(vec![
        UserContent::Text("see".into()),
        file("image/png", Some("p.png"), "AA=="),
        file("audio/mpeg", None, "AA=="),
        file("text/plain", None, "aGk="),
        file("application/pdf", None, "AA=="),
        file("application/zip", Some("z.zip"), "AA=="),
    ])]);
    assert_eq!(
        sent[0]["content"],
        json!([
            { "type": "text", "text": "see" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
            { "type": "input_audio", "input_audio": { "data": "AA==", "format": "mp3" } },
            { "type": "text", "text": "hi" },
            { "type": "file", "file": { "filename": "document.pdf", "file_data": "data:application/pdf;base64,AA==" } },
            { "type": "file", "file": { "filename": "z.zip", "file_data": "data:application/zip;base64,AA==" } },
        ])
    );
}

/// Fails unless a server of this kind would take the messages.
fn legal(server: &str, body: &Value) -> Result<(), TestCaseError> {
    let messages = body["messages"].as_array().expect("a list");
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let is_mistral = server.contains("mistral");
    let (mut waiting, mut seen) = (Vec::<String>::new(), Vec::<String>::new());
    for (at, message) in messages.iter().enumerate() {
        let content = &message["content"];
        let is_empty = content == "" || content.as_array().is_some_and(Vec::is_empty) || content.is_null();
        let parts = content.as_array().into_iter().flatten();
        prop_assert!(!parts.clone().any(|part| part["text"] == ""), "{body}");
        prop_assert!(!parts.clone().any(|part| part.to_string().contains("base64,\"")), "{body}");
        match role(message).as_str() {
            "system" => prop_assert!(at == 0 && !is_empty, "{body}"),
            "user" => prop_assert!(waiting.is_empty() && !is_empty, "{body}"),
            "assistant" => {
                let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
                prop_assert!(waiting.is_empty() && !(is_empty && calls.is_empty()), "{body}");
                for call in calls {
                    let id = call["id"].as_str().expect("an id").to_owned();
                    let name = call["function"]["name"].as_str().expect("a name");
                    let arguments: Value =
                        serde_json::from_str(call["function"]["arguments"].as_str().expect("arguments")).expect("JSON");
                    prop_assert!(!id.is_empty() && !seen.contains(&id) && arguments.is_object(), "{body}");
                    prop_assert!(!name.is_empty() && name.len() <= 64 && is_word(name), "{body}");
                    prop_assert!(!is_mistral || id.len() == 9 && is_word(&id) && !id.contains(['_', '-']), "{body}");
                    seen.push(id.clone());
                    waiting.push(id);
                }
            }
            "tool" => {
                prop_assert!(!waiting.is_empty(), "{body}");
                prop_assert_eq!(&waiting.remove(0), message["tool_call_id"].as_str().expect("an id"), "{}", body);
            }
            other => prop_assert!(false, "{other}"),
        }
    }
    prop_assert!(waiting.is_empty() && role(messages.last().expect("a message")) != "assistant", "{body}");
    let follows =
        |one: &str, other: &str| messages.windows(2).any(|two| role(&two[0]) == one && role(&two[1]) == other);
    prop_assert!(!is_mistral || !follows("tool", "user"), "{body}");
    let takes_turns = ["mistral", "perplexity", "ollama", "lmstudio", "vllm", "llama.cpp"].contains(&server);
    prop_assert!(!takes_turns || !follows("user", "user"), "{body}");
    if server == "perplexity" {
        let first = messages.iter().map(role).find(|role| role != "system");
        prop_assert!(first.as_deref() == Some("user") && !follows("assistant", "assistant"), "{body}");
    }
    prop_assert_eq!(body.get("tool_choice").is_some(), body.get("tools").is_some(), "{}", body);
    Ok(())
}

const SERVERS: [(&str, &str); 14] = [
    ("p", COMPATIBLE),
    ("azure", "@ai-sdk/azure"),
    ("openrouter", "@openrouter/ai-sdk-provider"),
    ("github-copilot", "@ai-sdk/github-copilot"),
    ("mistral", "@ai-sdk/mistral"),
    ("groq", "@ai-sdk/groq"),
    ("perplexity", "@ai-sdk/perplexity"),
    ("deepseek", "@ai-sdk/deepseek"),
    ("xai", "@ai-sdk/xai"),
    ("moonshot", "@ai-sdk/moonshotai"),
    ("ollama", COMPATIBLE),
    ("lmstudio", COMPATIBLE),
    ("vllm", COMPATIBLE),
    ("llama.cpp", COMPATIBLE),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_a_legal_request(request in any_request(&["mock", "claude-x", "deepseek-v3", "gemini-2.5", "kimi-k2"])) {
        for (id, npm) in SERVERS {
            let endpoint = Endpoint::new(id, npm, "http://h/v1");
            let mut request = request.clone();
            if id == "mistral" {
                request.model = "mistral-large".into();
            }
            let body = Chat.encode(&endpoint, &request, &Access::default()).expect("a body").body;
            legal(id, &serde_json::from_slice(&body).expect("JSON"))?;
        }
    }
}
