//! Where live sessions and workspaces are found without asking anybody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix::prelude::*;
use dashmap::DashMap;
use protocol::{SessionId, SessionStatus};
use tokio::sync::{Semaphore, watch};

use crate::session::Session;
use crate::workspace::Workspace;

/// Where the edge finds sessions and workspaces. Written by the registry alone.
#[derive(Clone, Default)]
pub struct Directory {
    pub(super) sessions: Arc<DashMap<SessionId, SessionHandle>>,
    pub(super) workspaces: Arc<DashMap<PathBuf, Addr<Workspace>>>,
}

/// A live session.
#[derive(Clone)]
pub struct SessionHandle {
    /// Where it takes messages.
    pub address: Addr<Session>,
    /// Places for commands of the edge.
    pub places: Arc<Semaphore>,
    /// What it is doing.
    pub status: watch::Receiver<SessionStatus>,
    /// Where it works.
    pub directory: Arc<str>,
}

impl Directory {
    /// Returns a live session.
    pub fn session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions.get(id).map(|entry| entry.clone())
    }

    /// Returns the workspace of a directory in use.
    pub fn workspace(&self, directory: &Path) -> Option<Addr<Workspace>> {
        self.workspaces.get(directory).map(|entry| entry.clone())
    }

    /// Returns the directories in use.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.workspaces.iter().map(|entry| entry.key().clone()).collect()
    }

    /// Returns the sessions that do something, each with where it works.
    pub fn busy(&self) -> Vec<(SessionId, SessionStatus, Arc<str>)> {
        let status = |entry: dashmap::mapref::multiple::RefMulti<'_, SessionId, SessionHandle>| {
            let status = entry.status.borrow().clone();
            (status != SessionStatus::idle()).then(|| (entry.key().clone(), status, entry.directory.clone()))
        };
        self.sessions.iter().filter_map(status).collect()
    }

    /// Returns how many sessions are live.
    pub fn live(&self) -> usize {
        self.sessions.len()
    }
}
