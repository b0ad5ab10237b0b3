//! What crashed, was started again, or was gone on without.

use actix::prelude::*;
use serde::Serialize;

use super::SessionRegistry;
use crate::supervisor::{FateKind, Name};

/// Crashes that are remembered.
const CRASHES: usize = 100;

/// What crashed and was started again?
#[derive(Message)]
#[rtype(result = "Report")]
pub struct GetReport;

/// What crashed and was started again.
#[derive(Clone, Debug, Default, Serialize, MessageResponse)]
pub struct Report {
    /// Live sessions.
    pub sessions: usize,
    /// Workspaces in use.
    pub workspaces: usize,
    /// Restarts since the process started, of all actors.
    pub restarts: u64,
    /// By actor: those that crashed.
    pub actors: Vec<ActorReport>,
    /// The latest crashes, newest first.
    pub crashes: Vec<Crash>,
    /// What was gone on without, newest first: plugins that failed.
    pub warnings: Vec<Crash>,
}

/// An actor that crashed.
#[derive(Clone, Debug, Serialize)]
pub struct ActorReport {
    /// Which.
    pub name: String,
    /// How often it was started again.
    pub restarts: u64,
    /// It crashed too often and was given up.
    pub failed: bool,
}

/// A crash, or a warning.
#[derive(Clone, Debug, Serialize)]
pub struct Crash {
    /// Which actor.
    pub name: String,
    /// What it died of, or went on without.
    pub reason: String,
    /// When, in ms since the Unix epoch.
    pub time: u64,
}

impl SessionRegistry {
    pub(super) fn note(&mut self, name: &Name, kind: &FateKind) {
        let time = self.deps.workspace.clock.now_ms();
        if let FateKind::Warned { reason } = kind {
            self.report.warnings.insert(0, Crash { name: name.to_string(), reason: reason.clone(), time });
            self.report.warnings.truncate(CRASHES);
            return;
        }
        let entry = self.counts.entry(name.to_string()).or_default();
        let reason = match kind {
            FateKind::Restarting { reason } => {
                entry.0 += 1;
                self.report.restarts += 1;
                reason
            }
            FateKind::GaveUp { reason } => {
                entry.1 = true;
                reason
            }
            FateKind::Exited | FateKind::Warned { .. } => return,
        };
        let crash = Crash { name: name.to_string(), reason: reason.clone(), time };
        self.report.crashes.insert(0, crash);
        self.report.crashes.truncate(CRASHES);
    }
}

impl Handler<GetReport> for SessionRegistry {
    type Result = Report;

    fn handle(&mut self, _: GetReport, _: &mut Self::Context) -> Report {
        let actors = self.counts.iter().map(|(name, (restarts, failed))| ActorReport {
            name: name.clone(),
            restarts: *restarts,
            failed: *failed,
        });
        Report {
            sessions: self.directory.sessions.len(),
            workspaces: self.directory.workspaces.len(),
            actors: actors.collect(),
            ..self.report.clone()
        }
    }
}
