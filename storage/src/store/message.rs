//! Messages and their parts.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::session::FileDiff;
use protocol::{Message, MessageId, MessageWithParts, Part, PartId, SessionId};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::{Store, broken, parse};
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
        let next = if more { rows.iter().rev().find_map(cursor) } else { None };
        let rows: Vec<(&str, &SqliteRow)> =
            rows.iter().rev().filter_map(|row| Some((broken::text("message", row, 0)?, row))).collect();
        let ids: Vec<&str> = rows.iter().map(|(id, _)| *id).collect();
        let mut parts = self.raw_parts(session, &ids).await?;
        let mut messages: Vec<RawMessage> = Vec::with_capacity(rows.len());
        for (id, row) in rows {
            let info = broken::raw_of_kind("message", id, row, 2)
                .or_else(|| stand_in(session, id, time_of(row, 1), &messages))
                .map(|info| RawMessage { info, parts: parts.remove(id).unwrap_or_default() });
            messages.extend(info);
        }
        Ok((messages, next))
    }

    /// Returns one message of a session, as stored JSON.
    pub async fn message(&self, session: &SessionId, id: &MessageId) -> Result<Option<RawMessage>, StorageError> {
        let row = sqlx::query("select data, time_created from message where id = ? and session_id = ?")
            .bind(id.as_str())
            .bind(session.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        let Some(row) = row else { return Ok(None) };
        let parts = self.raw_parts(session, &[id.as_str()]).await?.remove(id.as_str()).unwrap_or_default();
        let info = broken::raw_of_kind("message", id.as_str(), &row, 0)
            .or_else(|| stand_in(session, id.as_str(), time_of(&row, 1), &[]));
        Ok(info.map(|info| RawMessage { info, parts }))
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
            "select id, iif(json_valid(data), data->'$.summary.diffs', '[]') from message where session_id = ?1 \
             and iif(json_valid(data), data->>'role' = 'user' and json_array_length(data, '$.summary.diffs') > 0, false) \
             and (?2 is null or (time_created, id) < (select time_created, id from message where id = ?2)) \
             order by time_created, id",
        )
        .bind(session.as_str())
        .bind(before.map(MessageId::as_str))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let diffs = |row: &SqliteRow| broken::parsed("diff", broken::text("message", row, 0)?, row, 1);
        Ok(rows.iter().filter_map(diffs).collect())
    }

    /// Returns all messages of a session and their parts, oldest first. What can't be read is left out.
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
            let Some((message, id)) = broken::text("part", row, 0).zip(broken::text("part", row, 3)) else { continue };
            let Some(part) = broken::parsed::<Part>("part", id, row, 2) else { continue };
            let stored = StoredPart { part: Arc::new(part), started: row.try_get(1).is_ok_and(|n: i64| n != 0) };
            parts.entry(message).or_default().push(stored);
        }
        let mut history = Vec::with_capacity(messages.len());
        for row in &messages {
            let Some(id) = broken::text("message", row, 0) else { continue };
            let Some(message) = broken::parsed::<Message>("message", id, row, 1) else { continue };
            history.push((Arc::new(message), parts.remove(id).unwrap_or_default()));
        }
        Ok(history)
    }

    /// Returns whether another session has a message with this id.
    pub async fn is_elsewhere(&self, session: &SessionId, id: &MessageId) -> Result<bool, StorageError> {
        sqlx::query_scalar("select exists (select 1 from message where id = ? and session_id != ?)")
            .bind(id.as_str())
            .bind(session.as_str())
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))
    }

    /// Returns the first of these parts that another message has.
    pub async fn part_elsewhere(&self, message: &MessageId, parts: &[&PartId]) -> Result<Option<PartId>, StorageError> {
        let ids = serde_json::to_string(parts).unwrap_or_default();
        let sql = "select id from part where id in (select value from json_each(?)) and message_id != ? limit 1";
        let found: Option<String> = sqlx::query_scalar(sql)
            .bind(ids)
            .bind(message.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(found.and_then(|id| PartId::parse(&id).ok()))
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
    async fn raw_parts(
        &self,
        session: &SessionId,
        messages: &[&str],
    ) -> Result<HashMap<String, Vec<Box<RawValue>>>, StorageError> {
        let ids = serde_json::to_string(messages).unwrap_or_default();
        let rows = sqlx::query(
            "select message_id, id, data from part where message_id in (select value from json_each(?)) order by rowid",
        )
        .bind(ids)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        let mut parts: HashMap<String, Vec<Box<RawValue>>> = HashMap::new();
        for row in rows {
            let Some((message, id)) = broken::text("part", &row, 0).zip(broken::text("part", &row, 1)) else {
                continue;
            };
            let json = broken::raw_of_kind("part", id, &row, 2)
                .or_else(|| serde_json::value::to_raw_value(&broken::part(session, message, id)?).ok());
            parts.entry(message.to_owned()).or_default().extend(json);
        }
        Ok(parts)
    }
}

/// What stands for a message that can't be read, behind those before it.
fn stand_in(session: &SessionId, id: &str, created: u64, before: &[RawMessage]) -> Option<Box<RawValue>> {
    let prompt = before.iter().rev().find_map(|message| match serde_json::from_str(message.info.get()) {
        Ok(Message::User(prompt)) => Some(prompt.id),
        _ => None,
    });
    serde_json::value::to_raw_value(&broken::message(session, id, prompt.as_ref(), created)?).ok()
}

fn cursor(row: &SqliteRow) -> Option<Cursor> {
    let id = MessageId::parse(broken::text("message", row, 0)?).ok()?;
    Some(Cursor { id, time: time_of(row, 1) })
}

fn time_of(row: &SqliteRow, column: usize) -> u64 {
    row.try_get::<i64, _>(column).unwrap_or(0).max(0) as u64
}
