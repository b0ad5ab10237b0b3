//! Rows that can't be read. One of them must not cost what is beside it: it is named in the log, and where a client
//! would look for it stands something that says so. The row itself stays as it is.

use protocol::message::AssistantTime;
use protocol::part::TextPart;
use protocol::{AssistantMessage, Message, MessageId, Part, PartId, PartKind, SessionError, SessionId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// Returns a column's text; none, said in the log, where it holds something else.
pub fn text<'r>(what: &'static str, row: &'r SqliteRow, column: usize) -> Option<&'r str> {
    let text = row.try_get(column);
    text.inspect_err(|error| tracing::error!(what, %error, "a row of the database can't be read")).ok()
}

/// What everything that lists give has. Clients can go on from a strange field, not from a missing name.
#[derive(Deserialize)]
struct Named {
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "role", alias = "type")]
    kind: Option<String>,
}

/// Returns the JSON of a message or part in a column as it is; none, said in the log, where there is none.
pub fn raw_of_kind(what: &'static str, id: &str, row: &SqliteRow, column: usize) -> Option<Box<RawValue>> {
    let Named { kind, .. } = parsed(what, id, row, column)?;
    if kind.is_none() {
        name(what, id, &"it does not say what it is");
        return None;
    }
    raw(what, id, row, column)
}

/// Returns the JSON of something with an id in a column as it is; none, said in the log, where there is none.
pub fn raw(what: &'static str, id: &str, row: &SqliteRow, column: usize) -> Option<Box<RawValue>> {
    let _: Named = parsed(what, id, row, column)?;
    let json: String = row.try_get(column).inspect_err(|error| name(what, id, error)).ok()?;
    RawValue::from_string(json).inspect_err(|error| name(what, id, error)).ok()
}

/// Returns what is in a column of JSON; none, said in the log, where it isn't that.
pub fn parsed<T: DeserializeOwned>(what: &'static str, id: &str, row: &SqliteRow, column: usize) -> Option<T> {
    let json: &str = row.try_get(column).inspect_err(|error| name(what, id, error)).ok()?;
    serde_json::from_str(json).inspect_err(|error| name(what, id, error)).ok()
}

fn name(what: &'static str, id: &str, error: &dyn std::fmt::Display) {
    tracing::error!(what, id, %error, "a row of the database can't be read; what is beside it goes on without");
}

/// Returns what stands for a message that can't be read, an answer to `parent` or to itself.
pub fn message(session: &SessionId, id: &str, parent: Option<&MessageId>, created: u64) -> Option<Message> {
    let id = MessageId::parse(id).ok()?;
    let said = format!(
        "This message can't be read: its row in the database (message {id}) is broken. It is kept as it is, and the \
         model is not told of it."
    );
    Some(Message::Assistant(AssistantMessage {
        time: AssistantTime { created, completed: Some(created) },
        error: Some(SessionError::unknown(said)),
        ..AssistantMessage::begun(id.clone(), session.clone(), parent.unwrap_or(&id).clone(), created)
    }))
}

/// Returns what stands for a part that can't be read.
pub fn part(session: &SessionId, message: &str, id: &str) -> Option<Part> {
    let id = PartId::parse(id).ok()?;
    let text = format!(
        "[This part can't be read: its row in the database (part {id}) is broken. It is kept as it is, and the model \
         is not told of it.]"
    );
    Some(Part {
        id,
        session_id: session.clone(),
        message_id: MessageId::parse(message).ok()?,
        kind: PartKind::Text(TextPart { text, synthetic: true, ignored: true, ..TextPart::default() }),
    })
}
