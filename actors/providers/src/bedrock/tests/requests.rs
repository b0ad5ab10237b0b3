//! What requests are encoded to.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, UserContent};

use super::*;
use crate::adapter::Format;
use crate::bedrock::{Bedrock, request::model_in};
use crate::testing::{any_request, call, file, options, request, result, said, thought, tools, user};
use crate::vendors::BEDROCK;
use crate::{Access, Endpoint};

const CLAUDE: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

fn encoded(request: &ModelRequest) -> Value {
    let post = Bedrock.encode(&Endpoint::new("p", BEDROCK, ""), request, &Access::default()).expect("a body");
    serde_json::from_slice(&post.body).expect("JSON")
}

fn of(model: &str, own: Value) -> Value {
    let mut request = request(vec![user("go")]);
    (request.model, request.options, request.temperature) = (model.into(), options(own), Some(0.5));
    let mut body = encoded(&request);
    let mut settings = json!({});
    for name in ["inferenceConfig", "additionalModelRequestFields", "guardrailConfig"] {
        if !body[name].is_null() {
            settings[name] = body[name].take();
        }
    }
    settings
}

fn messages(messages: Vec<ModelMessage>) -> Value {
    encoded(&request(messages))["messages"].take()
}

#[test]
fn a_request_with_tools_is_as_the_vendor_wants_it() {
    let mut request = request(vec![user("go")]);
    request.model = CLAUDE.into();
    request.tools = tools();
    let mark = json!({ "cachePoint": { "type": "default" } });
    let tool = |tool: &protocol::model::ToolSpec| {
        json!({ "toolSpec": { "name": tool.name, "description": tool.description,
                              "inputSchema": { "json": tool.parameters } } })
    };
    assert_eq!(
        encoded(&request),
        json!({
            "inferenceConfig": { "maxTokens": 8192 },
            "system": [{ "text": "you are" }, mark, { "text": "an agent" }, mark],
            "messages": [{ "role": "user", "content": [{ "text": "go" }, mark] }],
            "toolConfig": { "tools": tools().iter().map(tool).collect::<Vec<_>>(), "toolChoice": { "auto": {} } },
        })
    );
    let post = Bedrock.encode(&Endpoint::new("p", BEDROCK, ""), &request, &Access::default()).expect("a body");
    let url = Endpoint::new("p", BEDROCK, "").url(None, &post.path, &post.query).expect("a url");
    assert_eq!(
        url.as_str(),
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream"
    );
    // Other vendors' models keep nothing.
    request.model = "meta.llama3-3-70b-instruct-v1:0".into();
    assert!(!encoded(&request).to_string().contains("cachePoint"));
}

#[test]
fn the_address_of_the_options_goes_first_and_a_models_arn_stays_one_segment() {
    let mut endpoint = Endpoint::new("p", BEDROCK, "http://base/x");
    endpoint.options = options(json!({ "endpoint": "https://vpce-1.example", "region": "eu-west-1" }));
    let arn = "arn:aws:bedrock:eu-west-1:1:application-inference-profile/claude";
    let mut request = request(vec![user("go")]);
    request.model = arn.into();
    let post = Bedrock.encode(&endpoint, &request, &Access::default()).expect("a body");
    let url = endpoint.url(None, &post.path, &post.query).expect("a url");
    let encoded = arn.replace(':', "%3A").replace('/', "%2F");
    assert_eq!(url.as_str(), format!("https://vpce-1.example/model/{encoded}/converse-stream"));
}

#[test]
fn thinking_is_asked_for_in_the_words_of_the_models_vendor() {
    let budget = json!({ "reasoningConfig": { "type": "enabled", "budgetTokens": 4_000 } });
    assert_eq!(
        of(CLAUDE, budget),
        json!({ "inferenceConfig": { "maxTokens": 12_192 },
                "additionalModelRequestFields": { "thinking": { "type": "enabled", "budget_tokens": 4_000 } } })
    );
    assert_eq!(
        of(
            "us.anthropic.claude-opus-4-6-v1",
            json!({ "reasoningConfig": { "type": "adaptive", "maxReasoningEffort": "max" } })
        ),
        json!({ "inferenceConfig": { "maxTokens": 8_192 },
                "additionalModelRequestFields": { "thinking": { "type": "adaptive" }, "output_config": { "effort": "max" } } })
    );
    let own = of(CLAUDE, json!({ "reasoningEffort": "low" }));
    assert_eq!(own["additionalModelRequestFields"], json!({ "output_config": { "effort": "low" } }));
    let effort = |effort: &str| json!({ "reasoningConfig": { "type": "enabled", "maxReasoningEffort": effort } });
    assert_eq!(
        of("amazon.nova-2-lite-v1:0", effort("low")),
        json!({ "inferenceConfig": { "maxTokens": 8_192, "temperature": 0.5 }, "additionalModelRequestFields": effort("low") })
    );
    assert_eq!(
        of("amazon.nova-2-lite-v1:0", effort("high")),
        json!({ "additionalModelRequestFields": effort("high") })
    );
    for own in [effort("low"), json!({ "reasoningEffort": "low" })] {
        assert_eq!(
            of("openai.gpt-oss-20b-1:0", own),
            json!({ "inferenceConfig": { "maxTokens": 8_192, "temperature": 0.5 },
                    "additionalModelRequestFields": { "reasoning_effort": "low" } })
        );
    }
}

#[test]
fn options_go_to_the_model_but_for_those_the_request_has_fields_for() {
    let guard = json!({ "guardrailIdentifier": "g", "guardrailVersion": "1" });
    assert_eq!(
        of(
            CLAUDE,
            json!({ "guardrailConfig": guard, "topK": 5, "anthropicBeta": ["b"], "own": 1, "promptCacheKey": "x",
                    "stopSequences": ["s"], "additionalModelRequestFields": { "more": 2 } })
        ),
        json!({
            "inferenceConfig": { "maxTokens": 8_192, "temperature": 0.5, "stopSequences": ["s"] },
            "additionalModelRequestFields": { "top_k": 5, "anthropic_beta": ["b"], "own": 1, "more": 2 },
            "guardrailConfig": guard,
        })
    );
}

#[test]
fn what_is_for_other_vendors_formats_stays_out() {
    let mut request = request(vec![user("go")]);
    (request.model, request.temperature, request.top_p) = ("global.openai.gpt-5.6-luna".into(), Some(0.5), Some(0.9));
    let body = encoded(&request);
    assert_eq!(body["inferenceConfig"], json!({ "maxTokens": 8_192, "temperature": 0.5, "topP": 0.9 }));
    assert_eq!(body["additionalModelRequestFields"], json!({ "reasoning_effort": "medium" }));
}

#[test]
fn files_and_results_are_blocks_and_what_the_vendor_takes_not_leaves_a_note() {
    let remote = protocol::model::File { mime: "image/png".into(), filename: None, url: "https://h/x.png".into() };
    let mut failed = result("b", "list", "");
    failed.is_error = true;
    let mut seen = result("a", "read", "seen");
    seen.files = vec![file("image/jpeg", None, "AA==")];
    let sent = messages(vec![
        ModelMessage::User(vec![UserContent::File(file("application/pdf", Some("a:b.pdf"), "aGk="))]),
        ModelMessage::Assistant(vec![call("a", "read", json!({ "p": 1 })), call("b", "list", json!({}))]),
        ModelMessage::Tool(vec![seen, failed]),
        ModelMessage::User(vec![UserContent::File(file("text/plain", None, "aGk=")), UserContent::File(remote)]),
    ]);
    let pdf = json!({ "document": { "format": "pdf", "name": "document-1", "source": { "bytes": "aGk=" } } });
    let picture = json!({ "image": { "format": "jpeg", "source": { "bytes": "AA==" } } });
    assert_eq!(
        sent,
        json!([
            { "role": "user", "content": [{ "text": "(blank)" }, pdf] },
            { "role": "assistant", "content": [
                { "toolUse": { "toolUseId": "a", "name": "read", "input": { "p": 1 } } },
                { "toolUse": { "toolUseId": "b", "name": "list", "input": {} } },
            ] },
            { "role": "user", "content": [
                { "toolResult": { "toolUseId": "a", "content": [{ "text": "seen" }, picture], "status": "success" } },
                { "toolResult": { "toolUseId": "b", "content": [{ "text": "(blank)" }], "status": "error" } },
                { "text": "hi" },
                { "text": "[A file was left out: it can't be sent to this model.]" },
            ] },
        ])
    );
}

#[test]
fn thoughts_go_back_only_with_the_vendors_own_signature() {
    let of = |metadata: Value| {
        let step: Vec<AssistantContent> = vec![thought("hm", metadata), said("a")];
        messages(vec![user("x"), ModelMessage::Assistant(step), user("y")])[1]["content"].take()
    };
    let signed = json!({ "reasoningContent": { "reasoningText": { "text": "hm", "signature": "S" } } });
    assert_eq!(of(json!({ "bedrock": { "signature": "S" } })), json!([signed, { "text": "a" }]));
    let sealed = json!({ "reasoningContent": { "redactedContent": "UiE=" } });
    assert_eq!(of(json!({ "bedrock": { "redactedData": "UiE=" } })), json!([sealed, { "text": "a" }]));
    assert_eq!(of(json!({ "anthropic": { "signature": "S" } })), json!([{ "text": "a" }]));
}

#[test]
fn calls_of_the_history_have_a_tool_on_offer_even_where_there_is_none() {
    let body = encoded(&request(vec![
        user("x"),
        ModelMessage::Assistant(vec![call("a", "read", json!({})), call("b", "read", json!({}))]),
        ModelMessage::Tool(vec![result("a", "read", "1"), result("b", "read", "2")]),
    ]));
    assert_eq!(body["toolConfig"]["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "read");
}

#[test]
fn models_that_several_regions_answer_have_the_prefix_of_theirs() {
    let haiku = "anthropic.claude-haiku-4-5-20251001-v1:0";
    for (model, region, prefix) in [
        (haiku, "us-east-1", "us."),
        (haiku, "us-gov-west-1", ""),
        (haiku, "eu-central-1", "eu."),
        (haiku, "ap-southeast-2", "au."),
        (haiku, "ap-northeast-1", "jp."),
        (haiku, "ap-south-1", "apac."),
        (haiku, "ca-central-1", ""),
        ("anthropic.claude-opus-4-7", "ap-southeast-2", ""),
        ("amazon.nova-pro-v1:0", "us-west-2", "us."),
        ("meta.llama3-3-70b-instruct-v1:0", "us-west-2", ""),
        ("global.anthropic.claude-opus-4-7", "us-east-1", ""),
        ("eu.anthropic.claude-opus-4-7", "us-east-1", ""),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/claude", "us-east-1", ""),
    ] {
        assert_eq!(model_in(model, region), format!("{prefix}{model}"), "{region}");
    }
}

/// Fails unless a body keeps the vendor's rules.
fn legal(body: &Value) -> Result<(), TestCaseError> {
    let is_id = |id: &str| {
        !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let sent = body["messages"].as_array().expect("messages");
    let (mut waiting, mut has_calls, mut marks) = (Vec::<String>::new(), false, 0);
    prop_assert_eq!(&sent.last().expect("a message")["role"], "user");
    for (at, message) in sent.iter().enumerate() {
        prop_assert_eq!(&message["role"], if at % 2 == 0 { "user" } else { "assistant" });
        let content = message["content"].as_array().expect("content");
        prop_assert!(!content.is_empty(), "{body}");
        let results: Vec<String> =
            content.iter().map_while(|block| block["toolResult"]["toolUseId"].as_str().map(str::to_owned)).collect();
        prop_assert_eq!(&results, &waiting, "{}", body);
        waiting.clear();
        let (mut names, mut has_text) = (Vec::new(), false);
        for (at, block) in content.iter().enumerate() {
            let (kind, inner) = block.as_object().expect("a block").iter().next().expect("a kind");
            match kind.as_str() {
                "text" => {
                    has_text = true;
                    prop_assert!(!inner.as_str().expect("text").trim().is_empty(), "{body}");
                }
                "image" => prop_assert!(inner["source"]["bytes"] != "", "{body}"),
                "document" => names.push(inner["name"].clone()),
                "reasoningContent" => {
                    prop_assert!(message["role"] == "assistant" && at + 1 < content.len(), "{body}");
                }
                "toolUse" => {
                    has_calls = true;
                    let id = inner["toolUseId"].as_str().expect("an id");
                    prop_assert!(is_id(id) && inner["input"].is_object(), "{body}");
                    prop_assert!(is_id(inner["name"].as_str().expect("a name")), "{body}");
                    waiting.push(id.to_owned());
                }
                "toolResult" => {
                    has_text = true;
                    let said = inner["content"].as_array().expect("content");
                    prop_assert!(!said.is_empty(), "{body}");
                    for text in said.iter().filter_map(|block| block["text"].as_str()) {
                        prop_assert!(!text.trim().is_empty(), "{body}");
                    }
                    names.extend(said.iter().filter_map(|block| block["document"].get("name").cloned()));
                }
                "cachePoint" => {
                    prop_assert!(at > 0 && content[at - 1].get("reasoningContent").is_none(), "{body}");
                    marks += 1;
                }
                other => prop_assert!(false, "{other}"),
            }
        }
        let all = names.len();
        names.dedup();
        prop_assert!(names.len() == all && all <= 5 && (all == 0 || has_text), "{body}");
    }
    prop_assert!(waiting.is_empty() && marks <= 2, "{body}");
    prop_assert!(!has_calls || body["toolConfig"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{body}");
    let thinking = &body["additionalModelRequestFields"]["thinking"];
    if thinking["type"] == "enabled" {
        let budget = thinking["budget_tokens"].as_u64().expect("a budget");
        prop_assert!(
            budget >= 1_024 && budget < body["inferenceConfig"]["maxTokens"].as_u64().expect("a limit"),
            "{body}"
        );
    }
    if thinking.is_object() {
        prop_assert!(body["inferenceConfig"].get("temperature").is_none(), "{body}");
        prop_assert!(body["toolConfig"]["toolChoice"].get("any").is_none(), "{body}");
    }
    Ok(())
}

const MODELS: &[&str] =
    &[CLAUDE, "anthropic.claude-3-haiku-20240307-v1:0", "amazon.nova-2-lite-v1:0", "openai.gpt-oss-20b-1:0"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_history_is_a_legal_request(request in any_request(MODELS)) {
        legal(&encoded(&request))?;
    }
}
