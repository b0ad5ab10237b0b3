//! How a session comes to life: new and stored, or loaded, what a crash left open settled, and gone on with; and what
//! it does while nothing can be stored.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use protocol::{Event, Session as Info, SessionError, SessionId, SessionStatus};
use storage::journal::TurnRow;
use storage::{Change, JournalError, Origin, StorageError, Store};
use tools::files::ContentHash;

use super::background::{self, Wakes};
use super::history::History;
use super::{Life, Queued, Resumption, Session, Stage, Start, recovery};
use crate::workspace::{GetSetup, Setup};

/// How often a session whose database can't be written tries again.
const PROBE: Duration = Duration::from_secs(5);

/// What a start reads.
struct Loaded {
    info: Option<Info>,
    history: History,
    started: HashSet<protocol::PartId>,
    turns: Vec<TurnRow>,
    ancestors: Vec<SessionId>,
    waits_for_person: bool,
    is_orphan: bool,
    seen: Vec<(String, String)>,
}

async fn read(store: Store, id: SessionId) -> Result<Loaded, StorageError> {
    let info = store.session(&id).await?;
    let (history, started) = History::from_stored(store.history(&id).await?);
    let turns = store.turns(&id).await?;
    let ancestors = store.ancestors(&id).await?;
    let is_orphan = match info.as_ref().and_then(|info| info.parent_id.as_ref()) {
        Some(parent) if !turns.is_empty() => !store.has_open_task(parent, &id).await?,
        _ => false,
    };
    let waits_for_person = !turns.is_empty() && store.has_open_ask(&id).await?;
    let started = started.into_iter().collect();
    let seen = store.seen_files(&id).await?;
    Ok(Loaded { info, history, started, turns, ancestors, waits_for_person, is_orphan, seen })
}

impl Session {
    pub(super) fn store_new(&mut self, info: Info, ctx: &mut Context<Self>) {
        self.state.origin = Arc::new(Origin { directory: info.directory.clone(), project: info.project_id.clone() });
        self.state.info = Arc::new(info);
        let stored = self.record(vec![Change::SessionCreated(self.state.info.clone())]);
        let (store, id) = (self.deps.store.clone(), self.id.clone());
        let store_it = async move { (stored.await, store.ancestors(&id).await.unwrap_or_default()) };
        ctx.wait(store_it.into_actor(self).map(|(stored, ancestors), session, _| {
            session.state.ancestors = ancestors.into();
            session.state.life = match stored {
                Ok(()) => Life::There,
                Err(error) => Life::Broken(error.to_string()),
            };
            session.tell_quiet();
        }));
    }

    /// Loads what is stored, settles what a crash left open, and goes on.
    pub(super) fn load(&mut self, ctx: &mut Context<Self>) {
        let is_held = matches!(self.start, Start::Held);
        let crashed = self.starts > 1;
        let (store, id, workspace) = (self.deps.store.clone(), self.id.clone(), self.deps.workspace.clone());
        let load = async move {
            let loaded = read(store, id).await;
            let has_work = loaded.as_ref().is_ok_and(|l| !l.turns.is_empty());
            let setup = if has_work { workspace.send(GetSetup).await.ok().and_then(Result::ok) } else { None };
            (loaded, setup)
        };
        ctx.wait(load.into_actor(self).map(move |(loaded, setup), session, ctx| match loaded {
            Ok(Loaded { info: None, .. }) => session.state.life = Life::Missing,
            Ok(loaded) => session.settle(loaded, setup.as_deref(), crashed, is_held, ctx),
            Err(error) => {
                tracing::error!(%error, session.id = %session.id, "the session can't be read");
                session.state.life = Life::Broken(error.to_string());
            }
        }));
    }

    fn settle(&mut self, loaded: Loaded, setup: Option<&Setup>, crashed: bool, is_held: bool, ctx: &mut Context<Self>) {
        let Loaded { info, mut history, started, mut turns, ancestors, waits_for_person, is_orphan, seen } = loaded;
        let Some(info) = info else { return };
        let state = &mut self.state;
        state.life = Life::There;
        state.origin = Arc::new(Origin { directory: info.directory.clone(), project: info.project_id.clone() });
        state.info = Arc::new(info);
        state.ancestors = ancestors.into();
        let seen = seen.into_iter().filter_map(|(path, hash)| Some((path.into(), ContentHash::parse(&hash)?)));
        state.files.recall(seen);
        let repeatable =
            |tool: &str| setup.is_some_and(|s| s.tools.iter().any(|t| t.id() == tool && t.traits().repeatable));
        let in_background = turns.iter().any(|t| history.get(&t.message_id).is_some_and(background::is_background));
        let settled = recovery::settle(
            &mut history,
            &mut turns,
            &recovery::Situation {
                started: &started,
                repeatable: &repeatable,
                mode: setup.map(|setup| setup.config().troupe.recovery).unwrap_or_default(),
                after_crash: crashed || is_held,
                waits_for_person,
                is_orphan: is_orphan && !in_background,
                now: self.deps.clock.now_ms(),
            },
        );
        self.state.newest = history.newest_time();
        self.state.asked_for_title = history.last_assistant().is_some();
        self.state.history = history;
        self.state.queue = turns.into_iter().map(|row| Queued { row, waiters: Vec::new() }).collect();
        self.shed();
        let mut changes = settled.changes;
        if crashed && !self.state.queue.is_empty() {
            let message = "The session crashed and was started again; its turn goes on from what is stored.";
            changes.push(self.error_notice(SessionError::unknown(message)));
        }
        if let Some(error) = settled.error {
            let unanswered = settled.closed.last().filter(|prompt| !self.has_failed_answer(prompt));
            changes.extend(unanswered.and_then(|prompt| self.error_to(prompt, error.clone())));
            changes.push(self.error_notice(error));
        }
        let notices = self.report(&settled.closed, Wakes::Yes, &mut changes);
        if self.state.queue.is_empty() && (crashed || !changes.is_empty()) {
            changes.push(self.set_status(SessionStatus::idle()));
            changes.push(Change::Notice(Event::SessionIdle { session_id: self.id.clone() }));
        }
        self.state.resumption = Some(Resumption { rerun: settled.rerun, tried: settled.tried });
        if changes.is_empty() {
            self.go_on(is_held, ctx);
            return;
        }
        let stored = self.record(changes);
        ctx.wait(stored.into_actor(self).map(move |stored, session, ctx| match stored {
            Ok(()) => {
                session.tell_parent(notices);
                session.go_on(is_held, ctx);
            }
            Err(error) => session.unwritable(&error, ctx),
        }));
    }

    fn go_on(&mut self, is_held: bool, ctx: &mut Context<Self>) {
        if !is_held {
            self.advance(ctx);
        }
    }

    /// The database can't be written: stop, leave the turn open, and go on when it can be again.
    pub(super) fn unwritable(&mut self, error: &JournalError, ctx: &mut Context<Self>) {
        tracing::error!(%error, session.id = %self.id, "the session stops until the database can be written");
        self.state.stage = Stage::Idle;
        self.state.turn = None;
        self.state.executor = None;
        self.state.life = Life::Broken(error.to_string());
        self.state.fence = self.deps.journal.fence(&self.id);
        let message = format!("nothing can be stored: {error}. The turn goes on when that is mended.");
        self.record(vec![self.error_notice(SessionError::unknown(message)), self.set_status(SessionStatus::idle())])
            .detach();
        self.probe(ctx);
    }

    fn probe(&mut self, ctx: &mut Context<Self>) {
        ctx.run_later(PROBE, |session, ctx| {
            // It may have been deleted since.
            if !matches!(session.state.life, Life::Broken(_)) {
                return;
            }
            session.state.fence = session.deps.journal.fence(&session.id);
            let touched = session.record(vec![Change::SessionUpdated(session.state.info.clone())]);
            ctx.spawn(touched.into_actor(session).map(|touched, session, ctx| match touched {
                Ok(()) => session.load(ctx),
                Err(_) => session.probe(ctx),
            }));
        });
    }
}
