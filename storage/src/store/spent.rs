//! What answers have cost: read from the answers themselves, so that nothing is counted twice and no crash loses it.

use protocol::SessionId;
use sqlx::Row;

use super::Store;
use crate::error::StorageError;

/// Whose answers are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spender {
    /// One session's.
    Session(SessionId),
    /// Those of a session and of all below it.
    Tree(SessionId),
    /// All of the service since then (ms since the Unix epoch).
    Since(u64),
}

/// What answers have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// All kinds of tokens.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
    /// Finished answers, summaries included. One that was tried again is one.
    pub requests: u64,
    /// Finished answers, summaries left out.
    pub steps: u64,
    /// From the beginning of each answer to the end of its calls, in ms. What runs now is not in it.
    pub wall_ms: u64,
}

const COUNTED: &str = "select \
    coalesce(sum(t.input + t.output + t.reasoning + t.read + t.written), 0) as tokens, \
    coalesce(sum(t.cost), 0.0) as cost, coalesce(sum(t.finished), 0) as requests, coalesce(sum(t.finished * t.step), 0) as steps, \
    coalesce(sum(t.wall), 0) as wall \
    from (select \
        coalesce(m.data->>'$.tokens.input', 0) as input, coalesce(m.data->>'$.tokens.output', 0) as output, \
        coalesce(m.data->>'$.tokens.reasoning', 0) as reasoning, coalesce(m.data->>'$.tokens.cache.read', 0) as read, \
        coalesce(m.data->>'$.tokens.cache.write', 0) as written, coalesce(m.data->>'$.cost', 0.0) as cost, \
        iif(coalesce(m.data->>'$.summary', 0), 0, 1) as step, m.data->>'$.finish' is not null as finished, \
        max(coalesce(m.data->>'$.time.completed', 0) - m.time_created, 0) as wall \
        from message m";

impl Store {
    /// Returns what was spent.
    pub async fn spent(&self, spender: &Spender) -> Result<Spent, StorageError> {
        let of = |from: &str| {
            format!("{COUNTED} {from} and iif(json_valid(m.data), m.data->>'$.role' = 'assistant', false)) t")
        };
        let text = match spender {
            Spender::Session(_) => of("where m.session_id = ?"),
            Spender::Tree(_) => of("where m.session_id in (with recursive tree (id) as \
                (select ? union select session.id from session join tree on session.parent_id = tree.id) \
                select id from tree)"),
            Spender::Since(_) => {
                of("join session on session.id = m.session_id where session.touched >= ?1 and m.time_created >= ?1")
            }
        };
        let query = sqlx::query(sqlx::AssertSqlSafe(text));
        let query = match spender {
            Spender::Session(id) | Spender::Tree(id) => query.bind(id.as_str().to_owned()),
            Spender::Since(time) => query.bind(i64::try_from(*time).unwrap_or(i64::MAX)),
        };
        let row = query.fetch_one(&self.pool).await.map_err(|error| self.damage.note(error))?;
        let count = |name: &str| row.try_get::<i64, _>(name).unwrap_or(0).try_into().unwrap_or(0);
        Ok(Spent {
            tokens: count("tokens"),
            cost: row.try_get("cost").unwrap_or(0.0),
            requests: count("requests"),
            steps: count("steps"),
            wall_ms: count("wall"),
        })
    }
}
