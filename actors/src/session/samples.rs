//! Messages for tests of the pure parts: `msg_N` with parts `prt_N_M`.

use std::sync::Arc;

use protocol::message::{AssistantTime, ModelRef, UserTime};
use protocol::part::{PartKind, Ran, TextPart, ToolPart};
use protocol::provider::{Capabilities, Cost, Limit, Modalities, Model, ModelApi};
use protocol::{
    AssistantMessage, CallId, JsonMap, Message, MessageId, Part, PartId, SessionId, ToolState, UserMessage,
};
use serde_json::json;

use super::history::Entry;

pub fn model(id: &str) -> Model {
    Model {
        id: id.into(),
        provider_id: "p".into(),
        api: ModelApi::default(),
        name: id.into(),
        family: None,
        capabilities: Capabilities {
            input: Modalities { text: true, ..Modalities::default() },
            ..Capabilities::default()
        },
        cost: Cost::default(),
        limit: Limit::default(),
        status: "active".into(),
        options: JsonMap::new(),
        headers: indexmap::IndexMap::new(),
        release_date: String::new(),
        variants: None,
    }
}

pub fn msg(n: usize) -> MessageId {
    MessageId::parse(&format!("msg_{n}")).expect("an id")
}

pub fn part(message: usize, n: usize, kind: PartKind) -> Arc<Part> {
    Arc::new(Part {
        id: PartId::parse(&format!("prt_{message}_{n}")).expect("an id"),
        session_id: SessionId::parse("ses_1").expect("an id"),
        message_id: msg(message),
        kind,
    })
}

pub fn text(text: &str) -> PartKind {
    PartKind::Text(TextPart { text: text.into(), ..TextPart::default() })
}

pub fn call(id: &str, state: ToolState) -> PartKind {
    PartKind::Tool(ToolPart { call_id: CallId::new(id), tool: "read".into(), state, metadata: None })
}

pub fn done(output: &str) -> ToolState {
    ToolState::Completed {
        input: json!({ "filePath": "a" }),
        output: output.into(),
        title: String::new(),
        metadata: JsonMap::new(),
        time: Ran { start: 1, end: 2, compacted: None },
        attachments: None,
    }
}

pub fn user(n: usize, kinds: Vec<PartKind>) -> Entry {
    let info = Message::User(UserMessage {
        id: msg(n),
        session_id: SessionId::parse("ses_1").expect("an id"),
        time: UserTime { created: n as u64 },
        format: None,
        summary: None,
        agent: "build".into(),
        model: ModelRef { provider_id: "p".into(), model_id: "m".into(), variant: None },
        system: None,
        tools: None,
        troupe: None,
    });
    Entry::new(Arc::new(info), kinds.into_iter().enumerate().map(|(i, kind)| part(n, i, kind)).collect())
}

pub fn assistant(n: usize, parent: usize, kinds: Vec<PartKind>) -> Entry {
    let info = Message::Assistant(AssistantMessage {
        time: AssistantTime { created: n as u64, completed: Some(n as u64) },
        model_id: "m".into(),
        provider_id: "p".into(),
        agent: "build".into(),
        finish: Some("stop".into()),
        ..AssistantMessage::begun(msg(n), SessionId::parse("ses_1").expect("an id"), msg(parent), 0)
    });
    Entry::new(Arc::new(info), kinds.into_iter().enumerate().map(|(i, kind)| part(n, i, kind)).collect())
}

/// A request for a compaction that keeps messages from `tail` on.
pub fn compaction(n: usize, tail: Option<usize>) -> Entry {
    user(n, vec![PartKind::Compaction { auto: true, overflow: None, tail_start_id: tail.map(msg) }])
}

/// Its answer.
pub fn summary(n: usize, parent: usize, said: &str) -> Entry {
    let mut entry = assistant(n, parent, vec![text(said)]);
    if let Message::Assistant(message) = Arc::make_mut(&mut entry.info) {
        message.summary = true;
    }
    entry
}
