//! The rows of one transaction, folded: of several writes to one row only the last remains. Each table is written by
//! one statement, the whole transaction by one call: each call costs a hand-over to the connection's thread, which
//! is dearer than the writing itself.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::frame::Properties;

/// Rows of one table to write, or to take out (`None`), by key.
#[derive(Debug, Default)]
pub struct Rows(IndexMap<String, Option<Row>>);

/// A row: its columns, as JSON.
pub type Row = Vec<Column>;

/// A column as JSON.
#[derive(Debug)]
pub enum Column {
    /// Text, not quoted yet.
    Text(String),
    /// A number.
    Number(u64),
    /// Nothing.
    Null,
    /// JSON.
    Json(Arc<str>),
    /// JSON in pieces.
    Pieces(Properties),
}

impl Column {
    /// Returns a column of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a column of text, or of nothing.
    pub fn optional(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&quote(text)),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Null => out.push_str("null"),
            Self::Json(json) => out.push_str(json),
            Self::Pieces(pieces) => pieces.pieces().iter().for_each(|piece| out.push_str(piece)),
        }
    }
}

impl Rows {
    /// Writes the row.
    pub fn put(&mut self, key: impl Into<String>, row: Row) {
        self.0.insert(key.into(), Some(row));
    }

    /// Takes the row out.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.0.insert(key.into(), None);
    }

    /// Forgets what was to be written to rows one of whose columns is this text.
    pub fn forget(&mut self, column: usize, text: &str) {
        let is_it = |row: &Row| matches!(row.get(column), Some(Column::Text(own)) if own == text);
        self.0.retain(|_, row| !row.as_ref().is_some_and(is_it));
    }

    fn written(&self) -> Option<String> {
        let mut out = String::new();
        for row in self.0.values().flatten() {
            out.push(if out.is_empty() { '[' } else { ',' });
            out.push('[');
            for (at, column) in row.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                column.write(&mut out);
            }
            out.push(']');
        }
        (!out.is_empty()).then(|| out + "]")
    }

    /// Only the first column of each row, as a plain list.
    fn firsts(&self) -> Option<String> {
        list(self.0.values().flatten().filter_map(|row| row.first()).map(|column| {
            let mut out = String::new();
            column.write(&mut out);
            out
        }))
    }

    fn removed(&self) -> Option<String> {
        list(self.0.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| quote(key)))
    }
}

/// Returns `text` as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(items: impl Iterator<Item = String>) -> Option<String> {
    let joined = items.collect::<Vec<_>>().join(",");
    (!joined.is_empty()).then(|| format!("[{joined}]"))
}

/// The rows of one transaction.
#[derive(Debug, Default)]
pub struct Tables {
    pub project: Rows,
    pub session: Rows,
    pub message: Rows,
    pub part: Rows,
    pub started: Rows,
    pub todo: Rows,
    /// By session and path, as a JSON list.
    pub seen_file: Rows,
    pub turn: Rows,
    pub ask: Rows,
    /// Only ever taken out, by `SESSION CALL`.
    pub asks_of_call: Rows,
    pub approval: Rows,
    pub process: Rows,
    pub event: Rows,
    pub event_sequence: Rows,
}

/// The start of each statement's reading of its JSON: one row for each element.
macro_rules! upsert {
    ($table:literal ($($column:literal),+) values $values:literal on $key:literal do $set:literal) => {
        concat!(
            "insert into ", $table, " (", upsert!(@join $($column),+), ") select ", $values,
            " from json_each(?) where true on conflict (", $key, ") do ", $set, ";"
        )
    };
    (@join $first:literal $(, $rest:literal)*) => { concat!($first $(, ", ", $rest)*) };
}

const PROJECT: &str = upsert!("project" ("id", "time_updated", "data")
    values "value->>0, value->>1, value->2" on "id"
    do "update set time_updated = excluded.time_updated, data = excluded.data");
const SESSION: &str = upsert!("session" ("id", "project_id", "parent_id", "directory", "path", "title", "time_created", "time_updated", "touched", "data")
    values "value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->9" on "id"
    do "update set project_id = excluded.project_id, directory = excluded.directory, path = excluded.path, title = excluded.title, time_updated = excluded.time_updated, touched = excluded.touched, data = excluded.data");
// A message or part of somebody else is refused by its rule that `data` isn't null, not changed.
const MESSAGE: &str = upsert!("message" ("id", "session_id", "time_created", "data")
    values "value->>0, value->>1, value->>2, value->3" on "id"
    do "update set data = iif(session_id = excluded.session_id, excluded.data, null)");
const PART: &str = upsert!("part" ("id", "message_id", "session_id", "data")
    values "value->>0, value->>1, value->>2, value->3" on "id"
    do "update set data = iif(message_id = excluded.message_id, excluded.data, null)");
const STARTED: &str = "update part set started = 1 where id in (select value from json_each(?));";
const TO_DOS: &str = upsert!("todo" ("session_id", "data")
    values "value->>0, value->1" on "session_id"
    do "update set data = excluded.data");
const SEEN_FILE: &str = upsert!("seen_file" ("session_id", "path", "hash")
    values "value->>0, value->>1, value->>2" on "session_id, path"
    do "update set hash = excluded.hash");
const TURN: &str = upsert!("turn" ("message_id", "session_id", "kind", "attempt", "resets", "time")
    values "value->>0, value->>1, value->>2, value->>3, value->>4, value->>5" on "message_id"
    do "update set attempt = excluded.attempt, resets = excluded.resets");
const ASK: &str = upsert!("ask" ("id", "session_id", "message_id", "call_id", "agent", "kind", "data", "reply", "time")
    values "value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->6, nullif(value->7, 'null'), value->>8" on "id"
    do "update set reply = excluded.reply");
const APPROVAL: &str = upsert!("approval" ("id", "scope", "project_id", "session_id", "data", "time")
    values "value->>0, value->>1, value->>2, value->>3, value->4, value->>5" on "id"
    do "nothing");
const PROCESS: &str = upsert!("process" ("pgid", "boot_id", "session_id", "started")
    values "value->>0, value->>1, value->>2, value->>3" on "pgid, boot_id"
    do "update set session_id = excluded.session_id, started = excluded.started");
const EVENT: &str = "insert into event (row, session_id, seq, id, kind, directory, project, time, size, data) \
    select value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->9 \
    from json_each(?);";
const EVENT_SEQUENCE: &str = upsert!("event_sequence" ("session_id", "next")
    values "value->>0, value->>1" on "session_id"
    do "update set next = excluded.next");

impl Tables {
    /// Returns the transaction's statements and the JSON of each of their parameters; none when there is nothing to
    /// write. The order keeps references whole: owners are written first and taken out last.
    pub fn statements(&self) -> Option<(String, Vec<String>)> {
        let mut sql = String::from("begin immediate;");
        let mut parameters = Vec::new();
        let mut add = |statement: &str, json: Option<String>| {
            if let Some(json) = json {
                sql.push_str(statement);
                parameters.push(json);
            }
        };
        add(PROJECT, self.project.written());
        add(SESSION, self.session.written());
        add(MESSAGE, self.message.written());
        add(PART, self.part.written());
        add(STARTED, self.started.firsts());
        add(TO_DOS, self.todo.written());
        add(SEEN_FILE, self.seen_file.written());
        add(TURN, self.turn.written());
        add(ASK, self.ask.written());
        add(APPROVAL, self.approval.written());
        add(PROCESS, self.process.written());
        add(EVENT, self.event.written());
        add(EVENT_SEQUENCE, self.event_sequence.written());
        add("delete from approval where id in (select value from json_each(?));", self.approval.removed());
        add("delete from ask where id in (select value from json_each(?));", self.ask.removed());
        add(
            "delete from ask where session_id || ' ' || call_id in (select value from json_each(?));",
            self.asks_of_call.removed(),
        );
        add(
            "delete from seen_file where (session_id, path) in (select value->>0, value->>1 from json_each(?));",
            self.seen_file.removed(),
        );
        add("delete from turn where message_id in (select value from json_each(?));", self.turn.removed());
        add(
            "delete from process where pgid || ':' || boot_id in (select value from json_each(?));",
            self.process.removed(),
        );
        add("delete from part where id in (select value from json_each(?));", self.part.removed());
        add("delete from message where id in (select value from json_each(?));", self.message.removed());
        add("delete from session where id in (select value from json_each(?));", self.session.removed());
        sql.push_str("commit;");
        (!parameters.is_empty()).then_some((sql, parameters))
    }
}
