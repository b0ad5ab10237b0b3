//! Snapshots of the directory's files: one at a time, off the arbiter.

use actix::prelude::*;
use futures::FutureExt;
use protocol::session::FileDiff;
use storage::StorageError;
use storage::snapshot::Snapshots;
use tokio::sync::oneshot;

use super::{Workspace, changes};

/// Take a snapshot of the files, or give the last one. None where there are none: no repository, snapshots switched
/// off, or git failed.
#[derive(Message)]
#[rtype(result = "Option<String>")]
pub struct TakeSnapshot {
    /// How old it may be.
    pub freshness: Freshness,
}

/// How old a snapshot may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Any that was taken in this life of the workspace.
    Any,
    /// None taken before now.
    Now,
}

/// What differs between two snapshots?
#[derive(Message)]
#[rtype(result = "Result<Vec<FileDiff>, StorageError>")]
pub struct DiffSnapshots {
    /// The older one.
    pub from: String,
    /// The newer one.
    pub to: String,
}

/// Which files (absolute paths) differ between two snapshots?
#[derive(Message)]
#[rtype(result = "Result<Vec<String>, StorageError>")]
pub struct ChangedFiles {
    /// The older one.
    pub from: String,
    /// The newer one.
    pub to: String,
}

impl Workspace {
    fn snapshots(&mut self) -> Option<Snapshots> {
        let setup = self.setup.as_ref()?;
        let off = setup.config().snapshot == Some(false);
        if off || !setup.identity.is_repository {
            return None;
        }
        let (places, worktree) = (&self.deps.places, &setup.identity.worktree);
        let limits = setup.config().troupe.snapshot;
        match Snapshots::of(&places.snapshots(), &setup.identity.project_id, worktree, &places.home, limits) {
            Ok(snapshots) => Some(snapshots),
            Err(reason) => {
                if self.unfit.replace(reason) != Some(reason) {
                    let worktree = worktree.display();
                    tracing::warn!(%worktree, %reason, "no snapshots are taken here: what is done can't be undone");
                }
                None
            }
        }
    }

    /// Runs snapshot work on the I/O runtime, after all that was asked for before.
    fn in_turn<T, F>(&mut self, work: F) -> impl Future<Output = Option<T>> + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let before = self.turn.take();
        let (done, after) = oneshot::channel();
        self.turn = Some(after);
        let task = self.deps.io.spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            let result = work.await;
            let _ = done.send(());
            result
        });
        async move { task.await.ok() }
    }
}

impl Handler<TakeSnapshot> for Workspace {
    type Result = ResponseActFuture<Self, Option<String>>;

    fn handle(&mut self, TakeSnapshot { freshness }: TakeSnapshot, _: &mut Self::Context) -> Self::Result {
        if freshness == Freshness::Any {
            if self.snapshot.is_some() {
                return Box::pin(fut::ready(self.snapshot.clone()));
            }
            if let Some(taking) = self.taking.clone() {
                return Box::pin(taking.into_actor(self).map(|tree, _, _| tree));
            }
        }
        let Some(snapshots) = self.snapshots() else { return Box::pin(fut::ready(None)) };
        let taken = self.in_turn(async move { snapshots.take().await });
        let directory = self.directory.clone();
        let taking = async move {
            let warn = |error: &StorageError| {
                tracing::warn!(%error, directory = %directory.display(), "no snapshot could be taken; the step goes on without");
            };
            taken.await?.inspect_err(warn).ok()
        };
        let taking = taking.boxed().shared();
        self.taking = Some(taking.clone());
        Box::pin(taking.into_actor(self).map(|tree, workspace, _| {
            workspace.taking = None;
            if tree.is_some() {
                workspace.snapshot.clone_from(&tree);
            }
            tree
        }))
    }
}

impl Handler<DiffSnapshots> for Workspace {
    type Result = ResponseActFuture<Self, Result<Vec<FileDiff>, StorageError>>;

    fn handle(&mut self, DiffSnapshots { from, to }: DiffSnapshots, _: &mut Self::Context) -> Self::Result {
        let Some(snapshots) = self.snapshots() else { return Box::pin(fut::ready(Ok(Vec::new()))) };
        let diff = self.in_turn(async move {
            let changed = snapshots.contents(&from, &to).await?;
            Ok(tokio::task::spawn_blocking(move || changes::diffs(changed)).await.unwrap_or_default())
        });
        Box::pin(diff.into_actor(self).map(|diff, _, _| diff.unwrap_or(Ok(Vec::new()))))
    }
}

impl Handler<ChangedFiles> for Workspace {
    type Result = ResponseActFuture<Self, Result<Vec<String>, StorageError>>;

    fn handle(&mut self, ChangedFiles { from, to }: ChangedFiles, _: &mut Self::Context) -> Self::Result {
        let Some(snapshots) = self.snapshots() else { return Box::pin(fut::ready(Ok(Vec::new()))) };
        let changed = self.in_turn(async move { snapshots.changed(&from, &to).await });
        Box::pin(changed.into_actor(self).map(|changed, workspace, _| {
            let top = workspace.setup.as_ref().map(|setup| setup.identity.worktree.clone()).unwrap_or_default();
            let absolute = |file: String| top.join(file).to_string_lossy().into_owned();
            changed.unwrap_or(Ok(Vec::new())).map(|files| files.into_iter().map(absolute).collect())
        }))
    }
}
