//! Sessions, projects and to-do lists.

use protocol::project::Project;
use protocol::{Session, SessionId, Todo};
use serde_json::value::RawValue;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row};

use super::{Store, broken, parse};
use crate::error::StorageError;

/// Which sessions a list holds; the last changed first.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    /// Of this project.
    pub project_id: Option<String>,
    /// In exactly this directory.
    pub directory: Option<String>,
    /// In this directory, relative to the worktree, or below it.
    pub path: Option<String>,
    /// No subagents.
    pub roots: bool,
    /// Updated at this time or later (ms since the Unix epoch).
    pub start: Option<u64>,
    /// With this text in the title, whatever its case.
    pub search: Option<String>,
    /// At most so many.
    pub limit: Option<u32>,
}

impl Store {
    /// Returns a session.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, StorageError> {
        let json: Option<String> = sqlx::query_scalar("select data from session where id = ?")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        json.map(|json| parse("session", id.as_str(), &json)).transpose()
    }

    /// Returns the sessions that pass the filter, as stored JSON.
    pub async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Box<RawValue>>, StorageError> {
        let mut query = QueryBuilder::new("select id, data from session where true");
        if let Some(project) = &filter.project_id {
            query.push(" and project_id = ").push_bind(project);
        }
        if let Some(directory) = &filter.directory {
            query.push(" and directory = ").push_bind(directory);
        }
        if let Some(path) = filter.path.as_deref().filter(|path| !path.is_empty()) {
            query.push(" and (path = ").push_bind(path);
            query.push(" or substr(path, 1, length(").push_bind(path).push(") + 1) = ").push_bind(format!("{path}/"));
            query.push(")");
        }
        if filter.roots {
            query.push(" and parent_id is null");
        }
        if let Some(start) = filter.start {
            query.push(" and time_updated >= ").push_bind(start as i64);
        }
        if let Some(search) = &filter.search {
            query.push(" and instr(lower(title), lower(").push_bind(search).push(")) > 0");
        }
        query.push(" order by touched desc, id");
        query.push(" limit ").push_bind(filter.limit.map_or(-1, i64::from));
        let rows = query.build().fetch_all(&self.pool).await.map_err(|error| self.damage.note(error))?;
        Ok(listed("session", &rows))
    }

    /// Returns the subagents' sessions of a session, as stored JSON, oldest first.
    pub async fn children(&self, id: &SessionId) -> Result<Vec<Box<RawValue>>, StorageError> {
        let rows = sqlx::query("select id, data from session where parent_id = ? order by time_created, id")
            .bind(id.as_str())
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(listed("session", &rows))
    }

    /// Returns the ids of all sessions below a session, parents before their children.
    pub async fn descendants(&self, id: &SessionId) -> Result<Vec<SessionId>, StorageError> {
        let rows: Vec<String> = sqlx::query_scalar(
            "with recursive below (id, depth) as (select id, 1 from session where parent_id = ?1 union \
             select session.id, depth + 1 from session join below on session.parent_id = below.id where depth < 100) \
             select id from below order by depth, id",
        )
        .bind(id.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(rows.iter().filter_map(|id| SessionId::parse(id).ok()).collect())
    }

    /// Returns the ids of the sessions above a session, the nearest first.
    pub async fn ancestors(&self, id: &SessionId) -> Result<Vec<SessionId>, StorageError> {
        let rows: Vec<String> = sqlx::query_scalar(
            "with recursive above (id, depth) as (select parent_id, 1 from session where id = ?1 union \
             select session.parent_id, depth + 1 from session join above on session.id = above.id where depth < 100) \
             select id from above where id is not null order by depth",
        )
        .bind(id.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.damage.note(error))?;
        Ok(rows.iter().filter_map(|id| SessionId::parse(id).ok()).collect())
    }

    /// Returns all projects, as stored JSON, last used first.
    pub async fn projects(&self) -> Result<Vec<Box<RawValue>>, StorageError> {
        let rows = sqlx::query("select id, data from project order by time_updated desc, id")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(listed("project", &rows))
    }

    /// Returns a project.
    pub async fn project(&self, id: &str) -> Result<Option<Project>, StorageError> {
        let json: Option<String> = sqlx::query_scalar("select data from project where id = ?")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        json.map(|json| parse("project", id, &json)).transpose()
    }

    /// Returns the to-do list of a session; empty where there is none.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, StorageError> {
        let json: Option<String> = sqlx::query_scalar("select data from todo where session_id = ?")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        json.map_or(Ok(Vec::new()), |json| parse("to-do list", id.as_str(), &json))
    }

    /// Returns how many sessions there are.
    pub async fn session_count(&self) -> Result<u64, StorageError> {
        let row = sqlx::query("select count(*) from session")
            .fetch_one(&self.pool)
            .await
            .map_err(|error| self.damage.note(error))?;
        Ok(row.get::<i64, _>(0).max(0) as u64)
    }
}

/// Wraps stored JSON as it is (id, data). One broken row must not cost the whole list: it is left out.
fn listed(what: &'static str, rows: &[SqliteRow]) -> Vec<Box<RawValue>> {
    rows.iter().filter_map(|row| broken::raw(what, broken::text(what, row, 0)?, row, 1)).collect()
}
