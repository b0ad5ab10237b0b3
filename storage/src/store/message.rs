//! Messages and their parts.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::session::FileDiff;
use protocol::{Message, MessageId, MessageWithParts, Part, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, parse};
use crate::error::StorageError;

/// A message and its parts, as stored JSON.
#[derive(Debug, Serialize)]
pub struct RawMessage {
    /// The message.
    pub info: Box<RawValue>,
    /// Its parts, in order.
    pub parts: Vec<Box<RawValue>>,
}

/// A part and what only the runtime knows of it.
#[derive(Clone, Debug)]
pub struct StoredPart {
    /// The part.
    pub part: Arc<Part>,
    /// A tool call whose effects have begun.
    pub started: bool,
}

/// Where a page of messages ends: before this message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The message's id.
    pub id: MessageId,
    /// When it was created (ms since the Unix epoch).
    pub time: u64,
}

impl Store {
    /// Returns the newest `limit` messages before `before`, oldest first, and where the next page ends: none when
    /// there are no older ones.
    pub async fn messages(
        &self,
        session: &SessionId,
        limit: Option<u32>,
        before: Option<&Cursor>,
    ) -> Result<(Vec<RawMessage>, Option<Cursor>), StorageError> {
        // One more than asked for tells whether there is another page.
        let most = limit.map_or(-1, |limit| i64::from(limit) + 1);
        let (time, id) = before.map_or((i64::MAX, ""), |c| (c.time as i64, c.id.as_str()));
        let mut rows = sqlx::query(
            "select id, time_created, data from message where session_id = ?1 \
             and (time_created < ?2 or (time_created = ?2 and id < ?3)) \
             order by time_created desc, id desc limit ?4",
        )
        .bind(session.as_str())
        .bind(time)
        .bind(id)
        .bind(most)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let more = limit.is_some_and(|limit| rows.len() > limit as usize);
        if more {
            rows.pop();
        }
        let next = match rows.last() {
            Some(oldest) if more => Some(Cursor { id: id_of(oldest)?, time: oldest.get::<i64, _>(1).max(0) as u64 }),
            _ => None,
        };
        let ids: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        let mut parts = self.raw_parts(&ids).await?;
        let mut messages = Vec::with_capacity(rows.len());
        for row in rows.iter().rev() {
            let id: &str = row.get(0);
            messages.push(RawMessage { info: raw(id, row.get(2))?, parts: parts.remove(id).unwrap_or_default() });
        }
        Ok((messages, next))
    }

    /// Returns one message of a session, as stored JSON.
    pub async fn message(&self, session: &SessionId, id: &MessageId) -> Result<Option<RawMessage>, StorageError> {
        let json: Option<String> = sqlx::query_scalar("select data from message where id = ? and session_id = ?")
            .bind(id.as_str())
            .bind(session.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        let Some(json) = json else { return Ok(None) };
        let parts = self.raw_parts(&[id.as_str()]).await?.remove(id.as_str()).unwrap_or_default();
        Ok(Some(RawMessage { info: raw(id.as_str(), json)?, parts }))
    }

    /// Returns one message of a session with its parts.
    pub async fn whole_message(
        &self,
        session: &SessionId,
        id: &MessageId,
    ) -> Result<Option<MessageWithParts>, StorageError> {
        let Some(RawMessage { info, parts }) = self.message(session, id).await? else { return Ok(None) };
        let info = Arc::new(parse("message", id.as_str(), info.get())?);
        let parts = parts.iter().map(|part| parse("part", id.as_str(), part.get()).map(Arc::new));
        Ok(Some(MessageWithParts { info, parts: parts.collect::<Result<_, _>>()? }))
    }

    /// Returns one message of a session, without its parts.
    pub async fn message_info(&self, session: &SessionId, id: &MessageId) -> Result<Option<Message>, StorageError> {
        let json: Option<String> = sqlx::query_scalar("select data from message where id = ? and session_id = ?")
            .bind(id.as_str())
            .bind(session.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        json.map(|json| parse("message", id.as_str(), &json)).transpose()
    }

    /// Returns what each turn of a session changed, oldest first: on each prompt of a turn that changed something.
    /// `before`: only of prompts before this message.
    pub async fn turn_diffs(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
    ) -> Result<Vec<Vec<FileDiff>>, StorageError> {
        let rows = sqlx::query(
            "select id, data->'$.summary.diffs' from message where session_id = ?1 and data->>'role' = 'user' \
             and json_array_length(data, '$.summary.diffs') > 0 \
             and (?2 is null or (time_created, id) < (select time_created, id from message where id = ?2)) \
             order by time_created, id",
        )
        .bind(session.as_str())
        .bind(before.map(MessageId::as_str))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        rows.iter().map(|row| parse("diff", row.get(0), row.get(1))).collect()
    }

    /// Returns all messages of a session and their parts, oldest first.
    pub async fn history(&self, session: &SessionId) -> Result<Vec<(Arc<Message>, Vec<StoredPart>)>, StorageError> {
        let messages = sqlx::query("select id, data from message where session_id = ? order by time_created, id")
            .bind(session.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        let rows = sqlx::query("select message_id, started, data, id from part where session_id = ? order by rowid")
            .bind(session.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        let mut parts: HashMap<&str, Vec<StoredPart>> = HashMap::new();
        for row in &rows {
            let part: Part = parse("part", row.get(3), row.get(2))?;
            let stored = StoredPart { part: Arc::new(part), started: row.get::<i64, _>(1) != 0 };
            parts.entry(row.get(0)).or_default().push(stored);
        }
        let mut history = Vec::with_capacity(messages.len());
        for row in &messages {
            let id: &str = row.get(0);
            let message: Message = parse("message", id, row.get(1))?;
            history.push((Arc::new(message), parts.remove(id).unwrap_or_default()));
        }
        Ok(history)
    }

    /// Returns whether a session has a message with this id, and which session has it.
    pub async fn session_of_message(&self, id: &MessageId) -> Result<Option<SessionId>, StorageError> {
        let session: Option<String> = sqlx::query_scalar("select session_id from message where id = ?")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(session.and_then(|id| SessionId::parse(&id).ok()))
    }

    /// Returns when the newest message of a session was created (ms since the Unix epoch).
    pub async fn newest_message_time(&self, session: &SessionId) -> Result<u64, StorageError> {
        let newest: Option<i64> = sqlx::query_scalar("select max(time_created) from message where session_id = ?")
            .bind(session.as_str())
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(newest.unwrap_or(0).max(0) as u64)
    }

    /// The parts of these messages, as stored JSON, in order.
    async fn raw_parts(&self, messages: &[&str]) -> Result<HashMap<String, Vec<Box<RawValue>>>, StorageError> {
        let ids = serde_json::to_string(messages).unwrap_or_default();
        let rows = sqlx::query(
            "select message_id, data from part where message_id in (select value from json_each(?)) order by rowid",
        )
        .bind(ids)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let mut parts: HashMap<String, Vec<Box<RawValue>>> = HashMap::new();
        for row in rows {
            let message: String = row.get(0);
            let json = raw(&message, row.get(1))?;
            parts.entry(message).or_default().push(json);
        }
        Ok(parts)
    }
}

fn raw(id: &str, json: String) -> Result<Box<RawValue>, StorageError> {
    RawValue::from_string(json).map_err(|source| StorageError::Row { what: "message", id: id.to_owned(), source })
}

fn id_of(row: &SqliteRow) -> Result<MessageId, StorageError> {
    let id: &str = row.get(0);
    MessageId::parse(id).map_err(|e| StorageError::Row {
        what: "message",
        id: id.to_owned(),
        source: serde::de::Error::custom(e),
    })
}
