//! The rows of one transaction, folded: of several writes to one row only the last remains. Each table is written by
//! one statement, the whole transaction by one call: each call costs a hand-over to the connection's thread, which
//! is dearer than the writing itself.

use indexmap::IndexMap;

/// Rows of one table to write (JSON arrays of the columns), or to take out (`None`), by key.
#[derive(Debug, Default)]
pub struct Rows(IndexMap<String, Option<String>>);

impl Rows {
    /// Writes the row.
    pub fn put(&mut self, key: impl Into<String>, columns: String) {
        self.0.insert(key.into(), Some(columns));
    }

    /// Takes the row out.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.0.insert(key.into(), None);
    }

    /// Forgets what was to be done to rows whose columns `stale` holds for.
    pub fn forget(&mut self, stale: impl Fn(&str) -> bool) {
        self.0.retain(|_, columns| !columns.as_deref().is_some_and(&stale));
    }

    fn written(&self) -> Option<String> {
        array(self.0.values().filter_map(Option::as_deref))
    }

    fn removed(&self) -> Option<String> {
        let keys: Vec<_> = self.0.iter().filter(|(_, v)| v.is_none()).map(|(k, _)| quote(k)).collect();
        array(keys.iter().map(String::as_str))
    }
}

/// Returns `text` as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn array<'a>(items: impl Iterator<Item = &'a str>) -> Option<String> {
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
const MESSAGE: &str = upsert!("message" ("id", "session_id", "time_created", "data")
    values "value->>0, value->>1, value->>2, value->3" on "id"
    do "update set data = excluded.data");
const PART: &str = upsert!("part" ("id", "message_id", "session_id", "data")
    values "value->>0, value->>1, value->>2, value->3" on "id"
    do "update set data = excluded.data");
const STARTED: &str = "update part set started = 1 where id in (select value from json_each(?));";
const TODO: &str = upsert!("todo" ("session_id", "data")
    values "value->>0, value->1" on "session_id"
    do "update set data = excluded.data");
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
        add(STARTED, self.started.written());
        add(TODO, self.todo.written());
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
