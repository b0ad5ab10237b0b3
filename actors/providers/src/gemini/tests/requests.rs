//! What requests are encoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, Reasoning, ToolChoice, ToolResult, UserContent};

use super::*;
use crate::adapter::{Format, Post};
use crate::gemini::Gemini;
use crate::testing::{any_request, call, file, options, request, result, said, thought, tools, user};
use crate::vendors::GOOGLE;
use crate::{Access, Endpoint, Secret};

fn post(request: &ModelRequest) -> Post {
    Gemini.encode(&Endpoint::new("p", GOOGLE, "http://h/v1beta"), request, &Access::default()).expect("a body")
}

fn encoded(request: &ModelRequest) -> Value {
    serde_json::from_slice(&post(request).body).expect("JSON")
}

fn contents(model: &str, messages: Vec<ModelMessage>) -> Value {
    encoded(&ModelRequest { model: model.into(), system: Vec::new(), ..request(messages) })["contents"].take()
}

fn with(metadata: Value, part: AssistantContent) -> AssistantContent {
    let data = metadata.as_object().cloned();
    match part {
        AssistantContent::Text { text, .. } => AssistantContent::Text { text, metadata: data },
        AssistantContent::Reasoning { text, .. } => AssistantContent::Reasoning { text, metadata: data },
        AssistantContent::Call { id, tool, input, .. } => AssistantContent::Call { id, tool, input, metadata: data },
    }
}

#[test]
fn a_request_with_tools_is_as_in_the_vendors_documents() {
    let mut request = request(vec![user("go")]);
    request.model = "gemini-2.5-pro".into();
    request.tools = tools();
    request.temperature = Some(0.5);
    request.reasoning = Some(Reasoning::default());
    assert_eq!(
        encoded(&request),
        json!({
            "generationConfig": { "maxOutputTokens": 8192, "temperature": 0.5, "thinkingConfig": { "includeThoughts": true } },
            "toolConfig": { "functionCallingConfig": { "mode": "AUTO" } },
            "systemInstruction": { "parts": [{ "text": "you are" }, { "text": "an agent" }] },
            "contents": [{ "role": "user", "parts": [{ "text": "go" }] }],
            "tools": [{ "functionDeclarations": [
                { "name": "read", "description": "does read", "parameters": {
                    "type": "object", "properties": { "filePath": { "type": "string" } }, "required": ["filePath"] } },
                { "name": "list", "description": "does list" },
            ] }],
        })
    );
    let post = post(&request);
    assert_eq!(
        (post.path, post.query),
        (vec!["models".to_owned(), "gemini-2.5-pro:streamGenerateContent".into()], vec![("alt", "sse".to_owned())],)
    );
    request.tool_choice = ToolChoice::Required;
    request.model = "publishers/x/models/y".into();
    assert_eq!(encoded(&request)["toolConfig"]["functionCallingConfig"]["mode"], "ANY");
    assert_eq!(super::requests::post(&request).path, ["publishers", "x", "models", "y:streamGenerateContent"]);
}

#[test]
fn keys_and_tokens_have_headers_of_their_own() {
    let header = |secret| Gemini.authorize(&Endpoint::new("p", GOOGLE, "http://h"), &secret);
    assert_eq!(header(Secret::Key("k".into())), Some(("x-goog-api-key", "k".into())));
    assert_eq!(header(Secret::Bearer("t".into())), Some(("authorization", "Bearer t".into())));
    assert_eq!(header(Secret::None), None);
}

#[test]
fn responses_follow_their_calls_with_the_vendors_ids_and_what_the_person_says_is_a_content_of_its_own() {
    let sent = contents(
        "gemini-2.5-pro",
        vec![
            user("go"),
            ModelMessage::Assistant(vec![
                said("x"),
                with(
                    json!({ "google": { "callId": "fc-1", "thoughtSignature": "S" } }),
                    call("a", "read", json!({ "p": 1 })),
                ),
                call("b", "list", json!(null)),
            ]),
            ModelMessage::Tool(vec![
                result("a", "read", "of a"),
                ToolResult { is_error: true, ..result("b", "list", "of b") },
            ]),
            user("and"),
        ],
    );
    assert_eq!(
        sent,
        json!([
            { "role": "user", "parts": [{ "text": "go" }] },
            { "role": "model", "parts": [
                { "text": "x" },
                { "functionCall": { "id": "fc-1", "name": "read", "args": { "p": 1 } }, "thoughtSignature": "S" },
                { "functionCall": { "name": "list", "args": {} } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "id": "fc-1", "name": "read", "response": { "output": "of a" } } },
                { "functionResponse": { "name": "list", "response": { "error": "of b" } } },
            ] },
            { "role": "user", "parts": [{ "text": "and" }] },
        ])
    );
}

#[test]
fn signatures_go_back_byte_for_byte_and_gemini_3_gets_one_for_each_first_call() {
    let signed = |text| thought(text, json!({ "google": { "thoughtSignature": "S" } }));
    let history = || {
        vec![
            user("go"),
            ModelMessage::Assistant(vec![
                signed("h\nm"),
                with(json!({ "vertex": { "thoughtSignature": "T" } }), said("x")),
                call("a", "read", json!({})),
                call("b", "read", json!({})),
            ]),
            ModelMessage::Tool(vec![result("a", "read", "x"), result("b", "read", "x")]),
        ]
    };
    let sent = contents("gemini-3-pro", history());
    assert_eq!(sent[1]["parts"][0], json!({ "text": "h\nm", "thought": true, "thoughtSignature": "S" }));
    assert_eq!(sent[1]["parts"][1], json!({ "text": "x", "thoughtSignature": "T" }));
    assert_eq!(sent[1]["parts"][2]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(contents("gemini-2.5-pro", history())[1]["parts"][2].get("thoughtSignature"), None);
}

#[test]
fn files_go_beside_responses_or_with_gemini_3_into_them() {
    let read = |model| {
        contents(
            model,
            vec![
                ModelMessage::User(vec![
                    UserContent::File(file("image/png", None, "AA==")),
                    UserContent::File(file("text/plain", None, "aGk=")),
                    UserContent::File(file("application/zip", Some("z.zip"), "AA==")),
                ]),
                ModelMessage::Assistant(vec![call("a", "read", json!({}))]),
                ModelMessage::Tool(vec![ToolResult {
                    files: vec![file("image/png", None, "AA==")],
                    ..result("a", "read", "of a")
                }]),
            ],
        )
    };
    let picture = json!({ "inlineData": { "mimeType": "image/png", "data": "AA==" } });
    let sent = read("gemini-2.5-pro");
    assert_eq!(sent[0]["parts"][0], picture);
    assert_eq!(sent[0]["parts"][1], json!({ "text": "hi" }));
    assert!(sent[0]["parts"][2]["text"].as_str().is_some_and(|note| note.contains("z.zip")));
    assert_eq!(sent[2]["parts"][1], json!({ "text": "Files that the tools above returned:" }));
    assert_eq!(sent[2]["parts"][2], picture);
    let sent = read("gemini-3-pro");
    assert_eq!(sent[2]["parts"][0]["functionResponse"]["parts"], json!([picture]));
    assert_eq!(sent[2]["parts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn effort_is_a_level_for_gemini_3_and_a_budget_before() {
    let mut request = request(vec![user("go")]);
    request.options =
        options(json!({ "reasoningEffort": "low", "topK": 5, "thinking": { "type": "enabled" }, "x": 1 }));
    request.model = "gemini-3-pro".into();
    let body = encoded(&request);
    assert_eq!(body["generationConfig"]["thinkingConfig"], json!({ "thinkingLevel": "low" }));
    assert_eq!((&body["generationConfig"]["topK"], &body["x"], body.get("thinking")), (&json!(5), &json!(1), None));
    request.model = "gemini-2.5-pro".into();
    assert_eq!(encoded(&request)["generationConfig"]["thinkingConfig"], json!({ "thinkingBudget": 1_024 }));
}

#[test]
fn gemma_reads_the_system_texts_before_what_the_person_says() {
    let request = ModelRequest { model: "gemma-3-27b-it".into(), ..request(vec![user("go")]) };
    let body = encoded(&request);
    assert_eq!(body.get("systemInstruction"), None);
    assert_eq!(
        body["contents"],
        json!([{ "role": "user", "parts": [{ "text": "you are" }, { "text": "an agent" }, { "text": "go" }] }])
    );
}

/// Fails unless the vendor would take the contents.
/// Source: <https://ai.google.dev/api/caching#Content>, <https://ai.google.dev/gemini-api/docs/thought-signatures>, and
/// its errors.
fn legal(body: &Value, is_3: bool) -> Result<(), TestCaseError> {
    let contents = body["contents"].as_array().expect("a list");
    prop_assert!(contents.first().is_some_and(|first| first["role"] == "user"), "{body}");
    prop_assert!(contents.last().is_some_and(|last| last["role"] == "user"), "{body}");
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let mut waiting: Vec<(Value, Value)> = Vec::new();
    let mut last = "";
    for content in contents {
        let parts = content["parts"].as_array().expect("a list");
        let role = content["role"].as_str().expect("a role");
        prop_assert!(!parts.is_empty() && (role != "model" || last != "model"), "{body}");
        last = role;
        let responses: Vec<(Value, Value)> = parts
            .iter()
            .filter_map(|part| part.get("functionResponse"))
            .map(|response| (response["name"].clone(), response["id"].clone()))
            .collect();
        prop_assert_eq!(&responses, &waiting, "{}", body);
        waiting.clear();
        prop_assert!(parts.iter().any(|part| part["thought"] != true), "{body}");
        let mut is_first_call = true;
        for (at, part) in parts.iter().enumerate() {
            let data = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];
            prop_assert_eq!(data.iter().filter(|name| part.get(**name).is_some()).count(), 1, "{}", body);
            prop_assert!(part["text"] != "" && part["inlineData"]["data"] != "", "{body}");
            prop_assert!(
                role == "model" || part.get("thought").is_none() && part.get("functionCall").is_none(),
                "{body}"
            );
            if let Some(called) = part.get("functionCall") {
                prop_assert!(is_name(called["name"].as_str().expect("a name")) && called["args"].is_object(), "{body}");
                waiting.push((called["name"].clone(), called["id"].clone()));
                prop_assert!(!is_3 || !is_first_call || part.get("thoughtSignature").is_some(), "{body}");
                is_first_call = false;
            }
            if part.get("functionResponse").is_some() {
                prop_assert!(at < responses.len(), "{body}");
            }
        }
    }
    prop_assert!(waiting.is_empty(), "{body}");
    prop_assert_eq!(body.get("toolConfig").is_some(), body.get("tools").is_some(), "{}", body);
    Ok(())
}

const MODELS: &[&str] = &["gemini-2.5-pro", "gemini-3-pro-preview", "gemma-3-27b-it"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_a_legal_request(request in any_request(MODELS)) {
        legal(&encoded(&request), request.model.contains("gemini-3"))?;
    }
}
