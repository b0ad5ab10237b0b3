//! What requests are encoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::model::{ModelMessage, ModelRequest, Reasoning, ToolChoice, ToolResult, UserContent};

use super::*;
use crate::adapter::{Format, Post};
use crate::responses::Responses;
use crate::testing::{any_request, call, file, options, request, result, said, thought, tools, user};
use crate::vendors::{AZURE, COPILOT, OPENAI};
use crate::{Access, Endpoint};

fn post(npm: &str, base: &str, request: &ModelRequest) -> Post {
    Responses.encode(&Endpoint::new("p", npm, base), request, &Access::default()).expect("a body")
}

fn encoded(request: &ModelRequest) -> Value {
    serde_json::from_slice(&post(OPENAI, "http://h/v1", request).body).expect("JSON")
}

fn input(messages: Vec<ModelMessage>) -> Value {
    encoded(&ModelRequest { system: Vec::new(), ..request(messages) })["input"].take()
}

#[test]
fn a_request_with_tools_is_as_on_the_wire() {
    let mut request = request(vec![user("go")]);
    request.model = "gpt-5-x".into();
    request.tools = tools();
    request.temperature = Some(0.5);
    assert_eq!(
        encoded(&request),
        json!({
            "model": "gpt-5-x",
            "max_output_tokens": 8192,
            "store": false,
            "prompt_cache_key": "ses_1",
            "reasoning": { "effort": "medium", "summary": "auto" },
            "include": ["reasoning.encrypted_content"],
            "input": [
                { "role": "developer", "content": "you are\nan agent" },
                { "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
            ],
            "tools": tools().iter().map(|tool| json!({ "type": "function", "name": tool.name,
                "description": tool.description, "parameters": tool.parameters, "strict": false })).collect::<Vec<_>>(),
            "tool_choice": "auto",
            "stream": true,
        })
    );
    request.model = "gpt-4.1".into();
    request.tool_choice = ToolChoice::Required;
    let body = encoded(&request);
    assert_eq!((&body["temperature"], &body["tool_choice"]), (&json!(0.5), &json!("required")));
    assert_eq!((&body["input"][0]["role"], body.get("include")), (&json!("system"), None));
}

#[test]
fn to_the_chatgpt_backend_the_system_texts_are_instructions_and_there_is_no_limit() {
    let request = ModelRequest { model: "gpt-5-x".into(), ..request(vec![user("go")]) };
    let endpoint = Endpoint::new("openai", OPENAI, "");
    let access = Access { base_url: Some("https://chatgpt.com/backend-api/codex".into()), ..Access::bearer("t") };
    let body: Value =
        serde_json::from_slice(&Responses.encode(&endpoint, &request, &access).expect("a body").body).expect("JSON");
    assert_eq!((&body["instructions"], body.get("max_output_tokens")), (&json!("you are\nan agent"), None));
    assert_eq!(body["input"].as_array().map(Vec::len), Some(1));
}

#[test]
fn azure_and_copilot_have_their_own_paths_limits_and_names() {
    let mut request = request(vec![user("go")]);
    request.model = "gpt-5".into();
    let azure = post(AZURE, "http://h/openai", &request);
    assert_eq!(azure.path, ["v1", "responses"]);
    assert_eq!(azure.query, [("api-version", "v1".to_owned())]);
    let copilot: Value = serde_json::from_slice(&post(COPILOT, "http://h", &request).body).expect("JSON");
    assert_eq!(copilot.get("max_output_tokens"), None);
    let thinking = thought("hm", json!({ "azure": { "itemId": "r", "reasoningEncryptedContent": "E" } }));
    request.messages = vec![user("a"), ModelMessage::Assistant(vec![thinking, said("x")]), user("b")];
    let items = |npm: &str| -> usize {
        let body: Value = serde_json::from_slice(&post(npm, "http://h", &request).body).expect("JSON");
        body["input"].as_array().expect("a list").iter().filter(|item| item["type"] == "reasoning").count()
    };
    assert_eq!((items(AZURE), items(OPENAI)), (1, 0));
}

#[test]
fn calls_and_outputs_follow_each_other_with_the_text_before_them() {
    let sent = input(vec![
        user("go"),
        ModelMessage::Assistant(vec![said("x"), call("a", "read", json!({ "p": 1 })), call("b", "list", json!(null))]),
        ModelMessage::Tool(vec![result("a", "read", "of a"), result("b", "list", "of b")]),
        user("and"),
    ]);
    assert_eq!(
        sent,
        json!([
            { "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
            { "role": "assistant", "content": [{ "type": "output_text", "text": "x" }] },
            { "type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"p\":1}" },
            { "type": "function_call", "call_id": "b", "name": "list", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "a", "output": "of a" },
            { "type": "function_call_output", "call_id": "b", "output": "of b" },
            { "role": "user", "content": [{ "type": "input_text", "text": "and" }] },
        ])
    );
}

#[test]
fn thinking_goes_back_sealed_its_parts_in_one_item_and_never_without_what_follows_it() {
    let part = |text: &str, data: Value| thought(text, json!({ "openai": data }));
    let sealed = json!({ "itemId": "rs_1", "reasoningEncryptedContent": "E" });
    let history = |mut parts: Vec<protocol::model::AssistantContent>| {
        parts.push(said("x"));
        input(vec![user("a"), ModelMessage::Assistant(parts), user("b")])
    };
    let two = history(vec![part("one", json!({ "itemId": "rs_1" })), part("two", sealed.clone())]);
    assert_eq!(
        two[1],
        json!({ "type": "reasoning", "encrypted_content": "E", "summary": [
            { "type": "summary_text", "text": "one" }, { "type": "summary_text", "text": "two" }] })
    );
    // What isn't sealed the vendor can't read, and what nobody gave a place is of another vendor.
    for foreign in
        [json!({ "openai": { "itemId": "rs_1" } }), json!({ "anthropic": { "signature": "S" } }), json!(null)]
    {
        assert_eq!(history(vec![thought("hm", foreign)]).as_array().map(Vec::len), Some(3));
    }
    let behind = vec![said("x"), part("hm", sealed)];
    let sent = input(vec![user("a"), ModelMessage::Assistant(behind), user("b")]);
    assert_eq!(sent.as_array().map(Vec::len), Some(3));
}

#[test]
fn the_phase_of_a_text_goes_back() {
    let text = protocol::model::AssistantContent::Text {
        text: "x".into(),
        metadata: Some(options(json!({ "openai": { "itemId": "m", "phase": "commentary" } }))),
    };
    assert_eq!(input(vec![user("a"), ModelMessage::Assistant(vec![text]), user("b")])[1]["phase"], "commentary");
}

#[test]
fn options_have_their_places_and_thinking_models_refuse_samples() {
    let mut request = request(vec![user("go")]);
    request.model = "gpt-5".into();
    (request.temperature, request.top_p) = (Some(0.5), Some(0.9));
    request.reasoning = Some(Reasoning::default());
    let own =
        json!({ "reasoningEffort": "high", "textVerbosity": "low", "serviceTier": "flex", "store": null, "x": 1 });
    request.options = options(own);
    let body = encoded(&request);
    assert_eq!((&body["reasoning"]["effort"], &body["text"]["verbosity"]), (&json!("high"), &json!("low")));
    assert_eq!((&body["service_tier"], &body["x"]), (&json!("flex"), &json!(1)));
    assert_eq!((body.get("temperature"), body.get("top_p"), body.get("store")), (None, None, None));
    request.options = options(json!({ "reasoningEffort": "none" }));
    assert_eq!(encoded(&request)["temperature"], 0.5);
}

#[test]
fn files_go_by_their_kind_and_into_outputs() {
    let sent = input(vec![
        ModelMessage::User(vec![
            UserContent::File(file("image/png", None, "AA==")),
            UserContent::File(file("application/pdf", Some("d.pdf"), "AA==")),
            UserContent::File(file("text/plain", None, "aGk=")),
            UserContent::File(file("audio/wav", Some("s.wav"), "AA==")),
        ]),
        ModelMessage::Assistant(vec![call("a", "read", json!({}))]),
        ModelMessage::Tool(vec![ToolResult {
            files: vec![file("image/png", None, "AA==")],
            ..result("a", "read", "of a")
        }]),
    ]);
    let picture = json!({ "type": "input_image", "image_url": "data:image/png;base64,AA==" });
    assert_eq!(
        sent[0]["content"],
        json!([
            picture,
            { "type": "input_file", "filename": "d.pdf", "file_data": "data:application/pdf;base64,AA==" },
            { "type": "input_text", "text": "hi" },
            { "type": "input_text", "text": "[The file \"s.wav\" (audio/wav) was left out: it can't be sent to this model.]" },
        ])
    );
    assert_eq!(sent[2]["output"], json!([{ "type": "input_text", "text": "of a" }, picture]));
}

/// Fails unless the vendor would take the items.
/// Source: <https://platform.openai.com/docs/api-reference/responses/create>, and its errors.
fn legal(body: &Value) -> Result<(), TestCaseError> {
    let items = body["input"].as_array().expect("a list");
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let (mut waiting, mut seen) = (Vec::<String>::new(), Vec::<String>::new());
    let kind = |item: &Value| item["type"].as_str().or(item["role"].as_str()).unwrap_or_default().to_owned();
    for (at, item) in items.iter().enumerate() {
        let kind = kind(item);
        match kind.as_str() {
            "function_call" => {
                let id = item["call_id"].as_str().expect("an id").to_owned();
                prop_assert!(!id.is_empty() && id.len() <= 64 && !seen.contains(&id), "{body}");
                prop_assert!(is_name(item["name"].as_str().expect("a name")), "{body}");
                let arguments = serde_json::from_str::<Value>(item["arguments"].as_str().expect("arguments"));
                prop_assert!(arguments.is_ok_and(|arguments| arguments.is_object()), "{body}");
                seen.push(id.clone());
                waiting.push(id);
            }
            "function_call_output" => {
                prop_assert!(!waiting.is_empty(), "{body}");
                prop_assert_eq!(&waiting.remove(0), item["call_id"].as_str().expect("an id"), "{}", body);
            }
            "reasoning" => {
                let next = items.get(at + 1).map(|next| next["type"].as_str().or(next["role"].as_str()));
                let next = next.flatten().unwrap_or_default();
                prop_assert!(["reasoning", "assistant", "function_call"].contains(&next), "{body}");
                prop_assert!(item["encrypted_content"] == "E", "{body}");
            }
            "system" | "developer" => prop_assert!(at == 0 && item["content"] != "", "{body}"),
            "user" | "assistant" => {
                let content = item["content"].as_array().expect("a list");
                prop_assert!(waiting.is_empty() && !content.is_empty(), "{body}");
                let is_empty = |part: &Value| {
                    part["text"] == "" || part["image_url"].as_str().is_some_and(|url| url.ends_with(','))
                };
                prop_assert!(!content.iter().any(is_empty), "{body}");
            }
            other => prop_assert!(false, "{other}"),
        }
    }
    prop_assert!(waiting.is_empty(), "{body}");
    prop_assert!(!items.last().is_some_and(|last| last["role"] == "assistant"), "{body}");
    prop_assert_eq!(body.get("tool_choice").is_some(), body.get("tools").is_some(), "{}", body);
    Ok(())
}

const MODELS: &[&str] = &["gpt-5", "gpt-4.1", "o3"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_a_legal_request(request in any_request(MODELS)) {
        for npm in [OPENAI, AZURE, COPILOT] {
            legal(&serde_json::from_slice(&post(npm, "http://h", &request).body).expect("JSON"))?;
        }
    }
}
