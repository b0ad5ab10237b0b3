//! A request as the vendor's JSON.
//!
//! Source: OpenCode 1.18 on the wire: one system message, one text as a plain string, the model's text and calls in one
//! message, its thinking as `reasoning_content`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol::JsonMap;
use protocol::model::{AssistantContent, ModelMessage, ModelRequest, ToolChoice, UserContent};
use serde_json::Value;

use super::wire::{
    Audio, Body, Content, ContentPart, FileData, FunctionCall, FunctionSpec, ImageUrl, Message, StreamOptions, Tool,
    ToolCall,
};

/// Options that have another name on the wire.
const RENAMED: [(&str, &str); 2] = [("reasoningEffort", "reasoning_effort"), ("textVerbosity", "verbosity")];
/// Options that are for the client alone, or that would break what is decided here.
const DROPPED: [&str; 4] = ["strictJsonSchema", "messages", "tools", "stream"];

/// Returns the body of the request. Options go into it as they are, or by their name on the wire; they go before the
/// request's own fields, and an option that is `null` takes its field out. `usage` asks for the token counts.
pub(super) fn body(request: &ModelRequest, usage: bool) -> serde_json::Result<Vec<u8>> {
    let options: JsonMap = request
        .options
        .iter()
        .map(|(name, value)| {
            let renamed = RENAMED.iter().find(|(option, _)| option == name);
            (renamed.map_or(name.as_str(), |(_, wire)| *wire).to_owned(), value.clone())
        })
        .filter(|(name, _)| !DROPPED.contains(&name.as_str()))
        .collect();
    let ours = |name: &str| !options.contains_key(name);
    let tools: Vec<Tool> = request
        .tools
        .iter()
        .map(|tool| Tool {
            kind: "function",
            function: FunctionSpec { name: &tool.name, description: &tool.description, parameters: &tool.parameters },
        })
        .collect();
    let choice = match request.tool_choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
    };
    serde_json::to_vec(&Body {
        model: Some(request.model.as_str()).filter(|_| ours("model")),
        max_tokens: Some(request.max_output_tokens).filter(|most| *most > 0 && ours("max_tokens")),
        temperature: request.temperature.filter(|_| ours("temperature")),
        top_p: request.top_p.filter(|_| ours("top_p")),
        messages: messages(request),
        tool_choice: (!tools.is_empty() && ours("tool_choice")).then_some(choice),
        tools,
        stream: true,
        stream_options: (usage && ours("stream_options")).then_some(StreamOptions { include_usage: true }),
        options: options.into_iter().filter(|(_, value)| !value.is_null()).collect(),
    })
}

fn messages(request: &ModelRequest) -> Vec<Message<'_>> {
    let system: Vec<&str> = request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let system = (!system.is_empty()).then(|| Message::System { content: system.join("\n") });
    system.into_iter().chain(request.messages.iter().flat_map(message)).collect()
}

fn message(message: &ModelMessage) -> Vec<Message<'_>> {
    match message {
        ModelMessage::User(parts) => vec![Message::User { content: user(parts) }],
        ModelMessage::Assistant(parts) => assistant(parts).into_iter().collect(),
        ModelMessage::Tool(results) => results
            .iter()
            .map(|result| Message::Tool { tool_call_id: result.id.as_str(), content: &result.output })
            .collect(),
    }
}

fn user(parts: &[UserContent]) -> Content<'_> {
    match parts {
        [UserContent::Text(text)] => Content::Text(text),
        parts => Content::Parts(parts.iter().map(user_part).collect()),
    }
}

fn user_part(part: &UserContent) -> ContentPart<'_> {
    let (mime, filename, url) = match part {
        UserContent::Text(text) => return ContentPart::Text { text: text.into() },
        UserContent::File { mime, filename, url } => (mime.as_str(), filename.as_deref(), url.as_str()),
    };
    if mime.starts_with("image/") {
        return ContentPart::ImageUrl { image_url: ImageUrl { url } };
    }
    let data = url.split_once(";base64,").map(|(_, data)| data);
    let format = match mime {
        "audio/wav" | "audio/x-wav" => Some("wav"),
        "audio/mp3" | "audio/mpeg" => Some("mp3"),
        _ => None,
    };
    if let (Some(data), Some(format)) = (data, format) {
        return ContentPart::InputAudio { input_audio: Audio { data, format } };
    }
    if let Some(text) = data.filter(|_| mime.starts_with("text/")).and_then(decoded) {
        return ContentPart::Text { text: text.into() };
    }
    let filename = filename.unwrap_or(if mime == "application/pdf" { "document.pdf" } else { "file" });
    ContentPart::File { file: FileData { filename, file_data: url } }
}

fn decoded(data: &str) -> Option<String> {
    let text = String::from_utf8(BASE64_STANDARD.decode(data).ok()?).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Returns none where only thinking is left: a message without content is refused by many servers.
fn assistant(parts: &[AssistantContent]) -> Option<Message<'_>> {
    let (mut content, mut reasoning, mut tool_calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        match part {
            AssistantContent::Text(text) => content.push_str(text),
            AssistantContent::Reasoning { text, .. } => reasoning.push_str(text),
            AssistantContent::Call { id, tool, input, metadata } => tool_calls.push(ToolCall {
                id: id.as_str(),
                kind: "function",
                function: FunctionCall { name: tool, arguments: arguments(input) },
                extra_content: metadata.as_ref().and_then(|metadata| metadata.get("extra_content")),
            }),
        }
    }
    (!content.is_empty() || !tool_calls.is_empty()).then_some(Message::Assistant {
        content,
        reasoning_content: (!reasoning.is_empty()).then_some(reasoning),
        tool_calls,
    })
}

fn arguments(input: &Value) -> String {
    if input.is_object() { input.to_string() } else { "{}".into() }
}
