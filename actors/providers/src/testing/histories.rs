//! Any legal request.

use proptest::collection::vec;
use proptest::prelude::*;
use protocol::CallId;
use protocol::model::{
    AssistantContent, File, ModelMessage, ModelRequest, Reasoning, ToolChoice, ToolResult, ToolSpec, UserContent,
};
use serde_json::{Value, json};

use super::request;

/// Two tools.
pub(crate) fn tools() -> Vec<ToolSpec> {
    let schema =
        json!({ "type": "object", "properties": { "filePath": { "type": "string" } }, "required": ["filePath"] });
    let tool =
        |name: &str, parameters: Value| ToolSpec { name: name.into(), description: format!("does {name}"), parameters };
    vec![tool("read", schema), tool("list", json!({ "type": "object", "properties": {} }))]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z好\"\\\\]{1,6}", 1 => Just(" ".to_owned()), 1 => "[a-z]{1,3}[ \n]{1,2}"]
}

const MIMES: &[&str] =
    &["image/png", "application/pdf", "text/plain", "audio/wav", "audio/ogg", "application/zip", "video/mp4"];

fn any_file() -> impl Strategy<Value = File> {
    let data = prop_oneof![Just("AA=="), Just("aGk="), Just("")];
    (proptest::sample::select(MIMES), proptest::option::of("[a-z]{1,4}[.][a-z]{2}"), data).prop_map(
        |(mime, filename, data)| File { mime: mime.into(), filename, url: format!("data:{mime};base64,{data}") },
    )
}

fn user() -> impl Strategy<Value = ModelMessage> {
    let part = prop_oneof![2 => text().prop_map(UserContent::Text), 1 => any_file().prop_map(UserContent::File)];
    vec(part, 1..4).prop_map(ModelMessage::User)
}

/// Metadata of all vendors, as the adapters give it.
fn metadata() -> impl Strategy<Value = Option<protocol::JsonMap>> {
    let all = [
        json!({ "anthropic": { "signature": "S" } }),
        json!({ "anthropic": { "redactedData": "R" } }),
        json!({ "openai": { "itemId": "rs_1", "reasoningEncryptedContent": "E" } }),
        json!({ "openai": { "itemId": "rs_2" } }),
        json!({ "google": { "thoughtSignature": "T" } }),
        json!({ "bedrock": { "signature": "S" } }),
        json!({ "openrouter": { "reasoning_details": [{ "type": "reasoning.encrypted", "data": "D" }] } }),
        json!({ "copilot": { "reasoningOpaque": "O" } }),
        json!({ "other": 1 }),
        Value::Null,
    ];
    proptest::sample::select(all.to_vec()).prop_map(|value| value.as_object().cloned())
}

/// The parts of a message of the model but its calls.
fn content() -> impl Strategy<Value = Vec<AssistantContent>> {
    let said = (text(), metadata()).prop_map(|(text, metadata)| AssistantContent::Text { text, metadata });
    let thought = (prop_oneof![Just(String::new()), text()], metadata())
        .prop_filter("says something", |(text, metadata)| !text.is_empty() || metadata.is_some())
        .prop_map(|(text, metadata)| AssistantContent::Reasoning { text, metadata });
    vec(prop_oneof![said, thought], 0..3)
}

type Call = (String, &'static str, Value, Option<protocol::JsonMap>, String, bool, Vec<File>);

/// A call and its result.
fn call() -> impl Strategy<Value = Call> {
    let id = prop_oneof!["call_[a-z0-9]{4}", "functions[.]read:[0-9]", "[a-z0-9]{50,70}", "toolu_01[A-Z]{3}",];
    let name = proptest::sample::select(&["read", "list", "no.such tool"][..]);
    let input = proptest::sample::select(vec![json!({}), json!({ "filePath": "a\n好" }), json!({ "a": { "b": [1] } })]);
    (id, name, input, metadata(), text(), any::<bool>(), vec(any_file(), 0..2))
}

/// A message of the model, with the results of its calls behind it.
fn step() -> impl Strategy<Value = Vec<ModelMessage>> {
    (content(), vec(call(), 0..4)).prop_map(|(mut content, calls)| {
        let mut results = Vec::new();
        for (id, tool, input, metadata, output, is_error, files) in calls {
            let id = CallId::new(id);
            content.push(AssistantContent::Call { id: id.clone(), tool: tool.into(), input, metadata });
            results.push(ToolResult { id, tool: tool.into(), output, is_error, files });
        }
        let mut messages = Vec::new();
        if !content.is_empty() {
            messages.push(ModelMessage::Assistant(content));
        }
        if !results.is_empty() {
            messages.push(ModelMessage::Tool(results));
        }
        messages
    })
}

/// Makes ids unique, as the loop does.
fn unique(messages: &mut [ModelMessage]) {
    let mut count = 0;
    let mut pending: Vec<CallId> = Vec::new();
    for message in messages {
        match message {
            ModelMessage::Assistant(parts) => {
                for part in parts {
                    if let AssistantContent::Call { id, .. } = part {
                        count += 1;
                        *id = CallId::new(format!("{id}{count}"));
                        pending.push(id.clone());
                    }
                }
            }
            ModelMessage::Tool(results) => {
                for (result, id) in results.iter_mut().zip(pending.drain(..)) {
                    result.id = id;
                }
            }
            ModelMessage::User(_) => {}
        }
    }
}

/// Any request the loop may make: results directly behind their calls, nothing empty, never the model last. It may begin
/// with the model, and messages of one side may follow each other.
pub(crate) fn any_request(models: &'static [&'static str]) -> impl Strategy<Value = ModelRequest> {
    let turn = prop_oneof![user().prop_map(|message| vec![message]), step()];
    let thinks = prop_oneof![Just(None), Just(Some(Reasoning::default()))];
    let options = proptest::sample::select(vec![
        json!({}),
        json!({ "thinking": { "type": "enabled", "budgetTokens": 4000 } }),
        json!({ "thinking": { "type": "adaptive" }, "effort": "high" }),
        json!({ "reasoningEffort": "low", "reasoningSummary": "auto" }),
    ]);
    (vec(turn, 0..6), user(), any::<bool>(), any::<bool>(), thinks, options, proptest::sample::select(models)).prop_map(
        |(turns, last, has_tools, required, reasoning, options, model)| {
            let mut messages: Vec<ModelMessage> = turns.into_iter().flatten().collect();
            if !matches!(messages.last(), Some(ModelMessage::Tool(_))) || !has_tools {
                messages.push(last);
            }
            unique(&mut messages);
            let mut request = request(messages);
            request.model = model.into();
            request.tools = if has_tools { tools() } else { Vec::new() };
            request.tool_choice = if required { ToolChoice::Required } else { ToolChoice::Auto };
            request.temperature = Some(0.5);
            request.reasoning = reasoning;
            request.options = options.as_object().cloned().expect("an object");
            request
        },
    )
}
