//! Puts away what has nothing to do: sessions after a while, workspaces when nobody uses them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use actix::prelude::*;
use protocol::{SessionId, SessionStatus};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{PLACES, SessionHandle, SessionRegistry};
use crate::workspace::{InUse, Rest};

/// A session that had nothing to do for this long is put away.
const SESSION_IDLE: Duration = Duration::from_secs(60);
/// How often idle ones are looked for, while there are any; more often where a directory says so.
const SWEEP: Duration = Duration::from_secs(15);
const SOONEST_SWEEP: Duration = Duration::from_millis(250);

/// A session has nothing to do.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Quiet(pub SessionId);

/// A session is deleted and goes.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Leave(pub SessionId);

impl SessionRegistry {
    /// Takes a session out if it may go, and drops its address: it drains its mailbox and exits. Looked at and taken
    /// out at once: who gets a place in it before that keeps it, who comes later finds it gone.
    fn put_away(&mut self, id: &SessionId, may_go: impl Fn(&SessionHandle) -> bool) {
        if self.directory.sessions.remove_if(id, |_, handle| may_go(handle)).is_some() {
            self.leaving.entry(id.clone()).or_default();
        }
    }

    pub(super) fn sweep_later(&mut self, ctx: &mut Context<Self>) {
        if !self.is_sweeping {
            self.is_sweeping = true;
            let soonest = self.used.values().map(|(_, seen)| seen.borrow().idle).min();
            let after = soonest.unwrap_or(SWEEP).clamp(SOONEST_SWEEP, SWEEP);
            ctx.run_later(after, |registry, ctx| {
                registry.is_sweeping = false;
                registry.sweep(ctx);
            });
        }
    }

    fn sweep(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let quiet = std::mem::take(&mut self.quiet);
        // Of one that became quiet more than once the last time counts; a directory that is to be given back takes its
        // sessions along.
        let last: HashMap<SessionId, Instant> = quiet.iter().map(|(since, id)| (id.clone(), *since)).collect();
        for (since, id) in quiet {
            if last.get(&id) != Some(&since) {
                continue;
            }
            let idle = self.directory.session(&id).and_then(|handle| {
                let (_, seen) = self.used.get(Path::new(&*handle.directory))?;
                Some(seen.borrow().idle)
            });
            if now.duration_since(since) < idle.unwrap_or(SESSION_IDLE).min(SESSION_IDLE) {
                self.quiet.push_back((since, id));
                continue;
            }
            self.put_away(&id, |handle| {
                *handle.status.borrow() == SessionStatus::idle() && handle.places.available_permits() == PLACES
            });
        }
        let worked_in: HashSet<PathBuf> =
            self.directory.sessions.iter().map(|entry| PathBuf::from(&*entry.directory)).collect();
        let busy_in: HashSet<PathBuf> =
            self.directory.busy().iter().map(|(_, _, directory)| PathBuf::from(&**directory)).collect();
        for entry in self.directory.workspaces.iter().filter(|entry| !busy_in.contains(entry.key())) {
            // One whose mailbox is full is at work.
            let _ = entry.value().try_send(Rest);
        }
        let is_unused = |last: &Instant, seen: &watch::Receiver<InUse>| {
            let used = *seen.borrow();
            now.duration_since((*last).max(used.last)) >= used.idle
        };
        let unused: Vec<PathBuf> = self
            .used
            .iter()
            .filter(|(path, (last, seen))| !worked_in.contains(*path) && is_unused(last, seen))
            .map(|(path, _)| path.clone())
            .collect();
        for path in unused {
            self.used.remove(&path);
            self.directory.workspaces.remove(&path);
        }
        if !self.quiet.is_empty() || !self.used.is_empty() {
            self.sweep_later(ctx);
        }
    }
}

impl Handler<Quiet> for SessionRegistry {
    type Result = ();

    fn handle(&mut self, Quiet(id): Quiet, ctx: &mut Self::Context) {
        self.quiet.push_back((Instant::now(), id));
        self.sweep_later(ctx);
    }
}

impl Handler<Leave> for SessionRegistry {
    type Result = ();

    fn handle(&mut self, Leave(id): Leave, _: &mut Self::Context) {
        self.put_away(&id, |_| true);
    }
}
