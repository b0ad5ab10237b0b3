//! What the tests of all formats share: a request, events in short, answers played in pieces, a server of raw HTTP.

mod histories;
mod laws;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use indexmap::IndexMap;
use proptest::prelude::*;
use protocol::model::{
    AssistantContent, File, ModelEvent, ModelMessage, ModelRequest, ToolChoice, ToolResult, UserContent,
};
use protocol::{CallId, JsonMap, SessionId};
use serde_json::Value;
use sse::{BATCH, SseEvent, SseRequest, batches, recorded};

pub(crate) use histories::{any_request, tools};
pub(crate) use laws::decoder_laws;
pub(crate) use server::{ask, body, every, server};

use crate::decode::{Decode, Run};
use crate::error::Blame;
use crate::{IdSource, ProviderError};

/// Ids `made-0`, `made-1`…
pub(crate) fn ids() -> IdSource {
    let count = AtomicU32::new(0);
    Arc::new(move || CallId::new(format!("made-{}", count.fetch_add(1, Ordering::Relaxed))))
}

pub(crate) fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest {
        session_id: SessionId::parse("ses_1").expect("an id"),
        parent_id: None,
        model: "mock".into(),
        system: vec!["you are".into(), "an agent".into()],
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 8_192,
        temperature: None,
        top_p: None,
        reasoning: None,
        options: JsonMap::new(),
        headers: IndexMap::new(),
    }
}

pub(crate) fn options(value: Value) -> JsonMap {
    value.as_object().cloned().expect("an object")
}

pub(crate) fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![UserContent::Text(text.into())])
}

pub(crate) fn said(text: &str) -> AssistantContent {
    AssistantContent::Text { text: text.into(), metadata: None }
}

pub(crate) fn thought(text: &str, metadata: Value) -> AssistantContent {
    AssistantContent::Reasoning { text: text.into(), metadata: metadata.as_object().cloned() }
}

pub(crate) fn call(id: &str, tool: &str, input: Value) -> AssistantContent {
    AssistantContent::Call { id: CallId::new(id), tool: tool.into(), input, metadata: None }
}

pub(crate) fn result(id: &str, tool: &str, output: &str) -> ToolResult {
    ToolResult { id: CallId::new(id), tool: tool.into(), output: output.into(), is_error: false, files: Vec::new() }
}

/// A file with these bytes in base64.
pub(crate) fn file(mime: &str, name: Option<&str>, data: &str) -> File {
    File { mime: mime.into(), filename: name.map(str::to_owned), url: format!("data:{mime};base64,{data}") }
}

/// Returns the events in short: `+text`, `call a read {"p":1}`, `finish stop`…
pub(crate) fn short(events: &[ModelEvent]) -> Vec<String> {
    let data = |metadata: &Option<JsonMap>| {
        metadata.as_ref().map(|metadata| format!(" {}", Value::from(metadata.clone()))).unwrap_or_default()
    };
    events
        .iter()
        .map(|event| match event {
            ModelEvent::TextStart { metadata } => format!("text{}", data(metadata)),
            ModelEvent::TextDelta(text) => format!("+{text}"),
            ModelEvent::TextEnd { metadata } => format!("text end{}", data(metadata)),
            ModelEvent::ReasoningStart => "thinking".into(),
            ModelEvent::ReasoningDelta(text) => format!("+{text}"),
            ModelEvent::ReasoningEnd { metadata } => format!("thinking end{}", data(metadata)),
            ModelEvent::CallStart { id, tool } => format!("start {id} {tool}"),
            ModelEvent::Call { id, tool, input, metadata } => {
                format!("call {id} {tool} {}{}", Value::from(input.clone()), data(metadata))
            }
            ModelEvent::CallBroken { id, tool, raw, .. } => format!("broken {id} {tool} {raw}"),
            ModelEvent::Finish { reason, .. } => format!("finish {}", reason.as_str()),
        })
        .collect()
}

/// Fails unless none of these events, each a name and data, says anything or counts as progress: at the begin of an
/// answer and behind each of the events `said`, which all are progress.
pub(crate) fn quiet<D: Decode>(mut decoder: D, quiet: &[(&str, &str)], said: &[String]) {
    let hush = |decoder: &mut D, after: &str| {
        let before = decoder.progress();
        for (name, data) in quiet {
            let mut out = Vec::new();
            let event = SseEvent { id: None, event: (*name).to_owned(), data: (*data).to_owned() };
            if let Err(error) = decoder.feed(&event, &mut out) {
                panic!("{name} {data} after {after}: {error}");
            }
            assert_eq!((short(&out), decoder.progress()), (Vec::new(), before), "{name} {data} after {after}");
        }
    };
    hush(&mut decoder, "nothing");
    for data in said {
        let before = decoder.progress();
        feed(&mut decoder, data).expect("events");
        assert_ne!(decoder.progress(), before, "{data}");
        hush(&mut decoder, data);
    }
}

/// Events that no format gives a meaning: pings under the names in use, and data that is no JSON object.
pub(crate) const PINGS: [(&str, &str); 11] = [
    ("ping", ""),
    ("ping", "ping"),
    ("ping", "{}"),
    ("ping", "{\"type\":\"ping\"}"),
    ("keepalive", "{\"odd\":"),
    ("message", " "),
    ("message", "ping"),
    ("message", "null"),
    ("message", "5"),
    ("message", "[]"),
    ("message", "{}"),
];

/// Values that stand where an object or a list should.
pub(crate) fn odd_values() -> [Value; 8] {
    use serde_json::json;
    [json!(null), json!(7), json!(true), json!(""), json!("x"), json!([]), json!([null]), json!([7, "x", [{}]])]
}

/// Feeds the data of one event.
pub(crate) fn feed<D: Decode>(decoder: &mut D, data: &str) -> Result<Vec<ModelEvent>, ProviderError> {
    let mut out = Vec::new();
    let event = SseEvent { id: None, event: "message".into(), data: data.to_owned() };
    decoder.feed(&event, &mut out).map(|()| out)
}

/// Decodes the data of these events and a clean end after them: what was said, and the error if there was one.
pub(crate) fn decode<D: Decode, S: AsRef<str>>(
    mut decoder: D,
    events: &[S],
) -> (Vec<ModelEvent>, Option<ProviderError>) {
    let mut all = Vec::new();
    for data in events {
        match feed(&mut decoder, data.as_ref()) {
            Ok(said) => all.extend(said),
            Err(error) => return (all, Some(error)),
        }
    }
    let error = decoder.end(true, &mut all).err();
    (all, error)
}

/// Returns the whole answer in short; fails on an error.
pub(crate) fn whole<D: Decode, S: AsRef<str>>(decoder: D, events: &[S]) -> Vec<String> {
    let (events, error) = decode(decoder, events);
    assert!(error.is_none(), "{error:?} after {:?}", short(&events));
    short(&events)
}

/// Plays a body, in pieces of these sizes, through all of the layers below the adapter.
pub(crate) fn play<D: Decode>(decoder: D, body: &[u8], sizes: &[usize]) -> (Vec<ModelEvent>, Option<String>) {
    let mut pieces = Vec::new();
    let mut rest = body;
    for size in sizes.iter().cycle() {
        let (piece, later) = rest.split_at((*size).min(rest.len()));
        pieces.push(Bytes::copy_from_slice(piece));
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    let url: sse::Url = "http://h/".parse().expect("a url");
    let events = recorded(pieces, SseRequest::get(url.clone()));
    let limit = std::time::Duration::from_secs(60);
    run(Run::new(Box::pin(batches(events, BATCH)), decoder, Blame::new(url, Vec::new()), limit))
}

/// Runs to the end: what was said, and the error. Events that follow each other in one block are one.
pub(crate) fn run<D: Decode>(mut run: Run<D>) -> (Vec<ModelEvent>, Option<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (mut all, mut error) = (Vec::new(), None);
        while let Some(item) = run.next().await {
            assert!(error.is_none(), "something came after the error");
            match item {
                Ok(events) => {
                    assert!(!events.is_empty(), "an empty batch");
                    all.extend(events);
                }
                Err(lost) => error = Some(lost.to_string()),
            }
        }
        assert_eq!(error.is_none(), matches!(all.last(), Some(ModelEvent::Finish { .. })), "{all:?} {error:?}");
        (all, error)
    })
}

/// Fails unless a recorded body decodes to the same whole, byte by byte, and in pieces of these sizes.
pub(crate) fn same_however_cut<D: Decode>(decoder: impl Fn() -> D, body: &str, sizes: &[usize]) {
    let once = play(decoder(), body.as_bytes(), &[body.len().max(1)]);
    assert_eq!(play(decoder(), body.as_bytes(), &[1]), once);
    assert_eq!(play(decoder(), body.as_bytes(), sizes), once);
}

/// Fails unless blocks don't overlap, each call starts once and ends once with an id of its own, and an answer without
/// an error ends in `Finish`.
pub(crate) fn well_formed(said: &[ModelEvent], error: Option<&ProviderError>) -> Result<(), TestCaseError> {
    let (mut open, mut ids, mut block) = (Vec::new(), Vec::new(), None);
    for event in said {
        match event {
            ModelEvent::CallStart { id, .. } => {
                prop_assert!(!ids.contains(id) && !id.as_str().is_empty());
                ids.push(id.clone());
                open.push(id.clone());
            }
            ModelEvent::Call { id, .. } | ModelEvent::CallBroken { id, .. } => {
                prop_assert!(open.contains(id));
                open.retain(|other| other != id);
            }
            ModelEvent::TextStart { .. } => prop_assert_eq!(block.replace("text"), None),
            ModelEvent::ReasoningStart => prop_assert_eq!(block.replace("thinking"), None),
            ModelEvent::TextDelta(_) => prop_assert_eq!(block, Some("text")),
            ModelEvent::ReasoningDelta(_) => prop_assert_eq!(block, Some("thinking")),
            ModelEvent::TextEnd { .. } => prop_assert_eq!(block.take(), Some("text")),
            ModelEvent::ReasoningEnd { .. } => prop_assert_eq!(block.take(), Some("thinking")),
            ModelEvent::Finish { .. } => prop_assert_eq!(block, None),
        }
    }
    prop_assert!(error.is_some() || open.is_empty(), "{:?}", short(said));
    prop_assert_eq!(error.is_none(), matches!(said.last(), Some(ModelEvent::Finish { .. })));
    Ok(())
}

/// Any JSON whose objects have some of these keys.
pub(crate) fn any_json(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let key = proptest::sample::select(keys).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        proptest::sample::select(keys).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
