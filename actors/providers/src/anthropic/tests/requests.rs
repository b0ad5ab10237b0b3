//! What requests are encoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::model::{ModelMessage, ModelRequest, ToolChoice, UserContent};

use super::*;
use crate::adapter::{Format, Post};
use crate::anthropic::Anthropic;
use crate::testing::{any_request, call, file, options, request, result, said, thought, tools, user};
use crate::vendors::{ANTHROPIC, VERTEX_ANTHROPIC};
use crate::{Access, Endpoint, Secret};

fn post(npm: &str, request: &ModelRequest) -> Post {
    Anthropic.encode(&Endpoint::new("p", npm, "http://h/v1"), request, &Access::default()).expect("a body")
}

fn encoded(request: &ModelRequest) -> Value {
    serde_json::from_slice(&post(ANTHROPIC, request).body).expect("JSON")
}

fn messages(messages: Vec<ModelMessage>) -> Value {
    let mut body = encoded(&ModelRequest { system: Vec::new(), ..request(messages) });
    let mut sent = body["messages"].take();
    for block in sent.as_array_mut().expect("a list").iter_mut().flat_map(|message| {
        message["content"].as_array_mut().expect("a list").iter_mut().filter_map(Value::as_object_mut)
    }) {
        block.remove("cache_control");
    }
    sent
}

fn signed(text: &str) -> protocol::model::AssistantContent {
    thought(text, json!({ "anthropic": { "signature": "S" } }))
}

#[test]
fn a_request_with_tools_is_as_on_the_wire() {
    let mut request = request(vec![user("go")]);
    request.model = "claude-x".into();
    request.tools = tools();
    let mark = json!({ "type": "ephemeral" });
    assert_eq!(
        encoded(&request),
        json!({
            "model": "claude-x",
            "max_tokens": 8192,
            "system": [{ "type": "text", "text": "you are", "cache_control": mark },
                       { "type": "text", "text": "an agent", "cache_control": mark }],
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "go", "cache_control": mark }] }],
            "tools": tools().iter().map(|tool| json!({ "name": tool.name, "description": tool.description,
                                                       "input_schema": tool.parameters })).collect::<Vec<_>>(),
            "tool_choice": { "type": "auto" },
            "stream": true,
        })
    );
    let post = post(ANTHROPIC, &request);
    assert_eq!(post.path, ["messages"]);
    let betas = "interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14";
    let want = [("anthropic-version", "2023-06-01".to_owned()), ("anthropic-beta", betas.into())];
    assert_eq!(post.headers, want);
}

#[test]
fn on_vertex_the_version_is_in_the_body_and_the_model_in_the_path() {
    let mut request = request(vec![user("go")]);
    request.model = "claude-x".into();
    let post = post(VERTEX_ANTHROPIC, &request);
    assert_eq!(post.path, ["claude-x:streamRawPredict"]);
    let body: Value = serde_json::from_slice(&post.body).expect("JSON");
    assert_eq!((&body["anthropic_version"], body.get("model")), (&json!("vertex-2023-10-16"), None));
}

#[test]
fn keys_and_tokens_have_headers_of_their_own() {
    let header = |npm: &str, secret| Anthropic.authorize(&Endpoint::new("p", npm, "http://h"), &secret);
    assert_eq!(header(ANTHROPIC, Secret::Key("k".into())), Some(("x-api-key", "k".into())));
    assert_eq!(header(ANTHROPIC, Secret::Bearer("t".into())), Some(("authorization", "Bearer t".into())));
    assert_eq!(header(VERTEX_ANTHROPIC, Secret::Key("k".into())), Some(("authorization", "Bearer k".into())));
    assert_eq!(header(ANTHROPIC, Secret::None), None);
}

#[test]
fn results_follow_their_calls_before_all_else_and_calls_are_last() {
    let sent = messages(vec![
        user("go"),
        ModelMessage::Assistant(vec![call("a", "read", json!({ "p": 1 })), said("x"), call("b", "list", json!(null))]),
        ModelMessage::Tool(vec![result("a", "read", "of a"), result("b", "list", "of b")]),
        user("and"),
    ]);
    assert_eq!(
        sent,
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "go" }] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "x" },
                { "type": "tool_use", "id": "a", "name": "read", "input": { "p": 1 } },
                { "type": "tool_use", "id": "b", "name": "list", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "of a" },
                { "type": "tool_result", "tool_use_id": "b", "content": "of b" },
                { "type": "text", "text": "and" },
            ] },
        ])
    );
}

#[test]
fn the_ends_of_what_stays_the_same_are_marked_for_the_cache_and_thinking_never_is() {
    let mut request = request(vec![
        user("a"),
        ModelMessage::Assistant(vec![signed("hm"), call("c", "list", json!({}))]),
        ModelMessage::Tool(vec![result("c", "list", "x")]),
        user("b"),
    ]);
    request.system.push("third".into());
    let body = encoded(&request);
    let marked = |blocks: &Value| -> Vec<bool> {
        blocks.as_array().expect("a list").iter().map(|block| block.get("cache_control").is_some()).collect()
    };
    assert_eq!(marked(&body["system"]), [true, false, true]);
    assert_eq!(marked(&body["messages"][0]["content"]), [false]);
    assert_eq!(marked(&body["messages"][1]["content"]), [false, false]);
    assert_eq!(marked(&body["messages"][2]["content"]), [true, true]);

    request.options = options(json!({ "cacheControl": { "type": "ephemeral", "ttl": "1h" } }));
    let body = encoded(&request);
    assert_eq!(body["cache_control"], json!({ "type": "ephemeral", "ttl": "1h" }));
    assert_eq!((marked(&body["system"]), marked(&body["messages"][2]["content"])), (vec![false; 3], vec![false; 2]));
}

#[test]
fn thinking_goes_back_byte_for_byte_with_its_signature_and_without_one_not_at_all() {
    let redacted = thought("", json!({ "anthropic": { "redactedData": "R" } }));
    let foreign = thought("other", json!({ "openai": { "itemId": "rs_1" } }));
    let sent = messages(vec![
        user("go"),
        ModelMessage::Assistant(vec![signed("h\n m "), redacted, foreign, thought("bare", json!(null)), said("x")]),
        user("and"),
    ]);
    assert_eq!(
        sent[1]["content"],
        json!([
            { "type": "thinking", "thinking": "h\n m ", "signature": "S" },
            { "type": "redacted_thinking", "data": "R" },
            { "type": "text", "text": "x" },
        ])
    );
}

#[test]
fn thinking_that_nothing_follows_is_left_out() {
    let alone = messages(vec![user("a"), ModelMessage::Assistant(vec![signed("hm")]), user("b")]);
    assert_eq!(
        alone,
        json!([{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }])
    );
    let behind = messages(vec![user("a"), ModelMessage::Assistant(vec![said("x"), signed("hm")]), user("b")]);
    assert_eq!(behind[1]["content"], json!([{ "type": "text", "text": "x" }]));
}

#[test]
fn a_budget_of_thinking_is_added_to_the_limit_and_excludes_samples_and_force() {
    let mut request = request(vec![user("go")]);
    request.model = "claude-sonnet-4-5".into();
    request.tools = tools();
    request.tool_choice = ToolChoice::Required;
    (request.temperature, request.top_p) = (Some(0.5), Some(0.9));
    assert_eq!(encoded(&request)["tool_choice"], json!({ "type": "any" }));
    assert_eq!((&encoded(&request)["temperature"], encoded(&request).get("top_p")), (&json!(0.5), None));
    request.options = options(json!({ "thinking": { "type": "enabled", "budgetTokens": 4_000 } }));
    let body = encoded(&request);
    assert_eq!(body["thinking"], json!({ "type": "enabled", "budget_tokens": 4_000 }));
    assert_eq!((&body["max_tokens"], &body["tool_choice"]), (&json!(12_192), &json!({ "type": "auto" })));
    assert_eq!((body.get("temperature"), body.get("top_p")), (None, None));

    // The model's own limit bounds both.
    request.model = "claude-3-5-sonnet".into();
    request.options = options(json!({ "thinking": { "type": "enabled", "budgetTokens": 40_000 } }));
    let body = encoded(&request);
    assert_eq!((&body["max_tokens"], &body["thinking"]["budget_tokens"]), (&json!(8_192), &json!(8_191)));

    // In the middle of calls that were made without thinking it can't begin.
    request.messages.extend([
        ModelMessage::Assistant(vec![call("c", "list", json!({}))]),
        ModelMessage::Tool(vec![result("c", "list", "x")]),
    ]);
    assert_eq!(encoded(&request).get("thinking"), None);
}

#[test]
fn effort_has_its_place_and_its_beta() {
    let mut request = request(vec![user("go")]);
    request.model = "claude-opus-4-6".into();
    request.options = options(json!({ "thinking": { "type": "adaptive" }, "effort": "max", "anthropicBeta": ["own"] }));
    let body = encoded(&request);
    assert_eq!(body["output_config"], json!({ "effort": "max" }));
    assert_eq!(post(ANTHROPIC, &request).headers.last().expect("betas").1, "effort-2025-11-24,own");
}

#[test]
fn files_go_by_their_kind_and_into_results() {
    let sent = messages(vec![
        ModelMessage::User(vec![
            UserContent::File(file("image/png", None, "AA==")),
            UserContent::File(file("application/pdf", Some("d.pdf"), "AA==")),
            UserContent::File(file("text/plain", Some("t.txt"), "aGk=")),
            UserContent::File(file("image/png", None, "")),
            UserContent::File(file("audio/wav", Some("s.wav"), "AA==")),
        ]),
        ModelMessage::Assistant(vec![call("a", "read", json!({})), call("b", "read", json!({}))]),
        ModelMessage::Tool(vec![
            protocol::model::ToolResult { files: vec![file("image/png", None, "AA==")], ..result("a", "read", "of a") },
            protocol::model::ToolResult {
                files: vec![file("image/png", None, "AA==")],
                is_error: true,
                ..result("b", "read", "of b")
            },
        ]),
    ]);
    let picture = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } });
    assert_eq!(
        sent[0]["content"],
        json!([
            picture,
            { "type": "document", "source": { "type": "base64", "media_type": "application/pdf", "data": "AA==" }, "title": "d.pdf" },
            { "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": "hi" }, "title": "t.txt" },
            { "type": "text", "text": "[The file \"file\" (image/png) is empty or damaged and was left out.]" },
            { "type": "text", "text": "[The file \"s.wav\" (audio/wav) was left out: it can't be sent to this model.]" },
        ])
    );
    assert_eq!(
        sent[2]["content"],
        json!([
            { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "of a" }, picture] },
            { "type": "tool_result", "tool_use_id": "b", "content": "of b", "is_error": true },
            { "type": "text", "text": "Files that the tools above returned:" },
            picture,
        ])
    );
}

#[test]
fn nothing_that_is_blank_is_sent_and_an_error_always_says_something() {
    let blank = |text: &str| {
        messages(vec![
            user(text),
            ModelMessage::Assistant(vec![said(text), call("a", "list", json!({}))]),
            ModelMessage::Tool(vec![protocol::model::ToolResult { is_error: true, ..result("a", "list", text) }]),
        ])
    };
    for text in ["", " ", "\n"] {
        assert_eq!(
            blank(text),
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "(blank)" }] },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "list", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "a", "content": "(blank)", "is_error": true }] },
            ])
        );
    }
}

/// Fails unless the vendor would take the messages.
/// Source: <https://docs.anthropic.com/en/api/messages>, and its errors.
fn legal(body: &Value) -> Result<(), TestCaseError> {
    let messages = body["messages"].as_array().expect("a list");
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    prop_assert!(messages.first().is_some_and(|first| first["role"] == "user"), "{body}");
    prop_assert!(messages.last().is_some_and(|last| last["role"] == "user"), "{body}");
    prop_assert!(messages.windows(2).all(|two| role(&two[0]) != role(&two[1])), "{body}");
    let blocks = |message: &Value| message["content"].as_array().expect("a list").clone();
    let kind = |block: &Value| block["type"].as_str().unwrap_or_default().to_owned();
    let is_id = |id: &str| {
        !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let (mut marks, mut waiting, mut seen) = (0, Vec::<String>::new(), Vec::<String>::new());
    let system = body["system"].as_array().into_iter().flatten();
    marks += system.filter(|block| block.get("cache_control").is_some()).count();
    for message in messages {
        let content = blocks(message);
        prop_assert!(!content.is_empty(), "{body}");
        let results: Vec<String> = content
            .iter()
            .take_while(|block| kind(block) == "tool_result")
            .map(|block| block["tool_use_id"].as_str().expect("an id").to_owned())
            .collect();
        prop_assert_eq!(&results, &waiting, "{}", body);
        waiting.clear();
        for (at, block) in content.iter().enumerate() {
            let kind = kind(block);
            let marked = block.get("cache_control").is_some();
            marks += usize::from(marked);
            match kind.as_str() {
                "text" => prop_assert!(!block["text"].as_str().expect("text").trim().is_empty(), "{body}"),
                "thinking" | "redacted_thinking" => {
                    prop_assert!(message["role"] == "assistant" && !marked && at + 1 < content.len(), "{body}");
                    prop_assert!(kind != "thinking" || block["signature"] == "S", "{body}");
                }
                "tool_use" => {
                    let id = block["id"].as_str().expect("an id").to_owned();
                    prop_assert!(is_id(&id) && !seen.contains(&id) && block["input"].is_object(), "{body}");
                    prop_assert!(is_id(block["name"].as_str().expect("a name")), "{body}");
                    seen.push(id.clone());
                    waiting.push(id);
                }
                "tool_result" => {
                    prop_assert!(at < results.len(), "{body}");
                    let inner = block["content"].as_array().into_iter().flatten();
                    for block in inner.filter(|block| block["type"] == "text") {
                        prop_assert!(!block["text"].as_str().expect("text").trim().is_empty(), "{body}");
                    }
                    let says = match &block["content"] {
                        Value::String(text) => !text.trim().is_empty(),
                        content => content.as_array().is_some_and(|content| !content.is_empty()),
                    };
                    prop_assert!(block["is_error"] != true || says, "{body}");
                }
                "image" | "document" => {
                    let data = block["source"]["data"].as_str().expect("data");
                    prop_assert!(message["role"] == "user" && !data.is_empty(), "{body}");
                }
                other => prop_assert!(false, "{other}"),
            }
        }
    }
    prop_assert!(waiting.is_empty() && marks <= 4, "{body}");
    prop_assert_eq!(body.get("tool_choice").is_some(), body.get("tools").is_some(), "{}", body);
    let thinking = &body["thinking"];
    if thinking["type"] == "enabled" {
        let budget = thinking["budget_tokens"].as_u64().expect("a budget");
        prop_assert!(budget >= 1_024 && budget < body["max_tokens"].as_u64().expect("a limit"), "{body}");
    }
    if thinking.is_object() {
        prop_assert!(body.get("temperature").is_none() && body["tool_choice"]["type"] != "any", "{body}");
    }
    Ok(())
}

const MODELS: &[&str] = &["claude-sonnet-4-5", "claude-3-haiku-20240307", "kimi-k2-thinking", "glm-4.6"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_a_legal_request(request in any_request(MODELS)) {
        for npm in [ANTHROPIC, VERTEX_ANTHROPIC] {
            legal(&serde_json::from_slice(&post(npm, &request).body).expect("JSON"))?;
        }
    }
}
