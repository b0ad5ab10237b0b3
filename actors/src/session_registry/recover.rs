//! After a start: sessions with open turns settle, parents first, and go on.

use std::time::Duration;

use actix::prelude::*;
use protocol::{Session as Info, SessionId, SessionStatus};

use super::{SessionHandle, SessionRegistry};
use crate::session::{Resume, Settle, Start};

/// A turn that was begun so often is resumed alone, after the others.
const LAST_ATTEMPT: u32 = crate::session::recovery::MAX_ATTEMPTS - 1;
/// How long such a turn has the process for itself.
const ALONE: Duration = Duration::from_secs(30);

/// Settle what a crash left, then go on with it. Answered when all is settled, before anything goes on.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Recover {
    /// Only these sessions and their subagents'; none: all.
    pub only: Option<Vec<SessionId>>,
}

impl Handler<Recover> for SessionRegistry {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, Recover { only }: Recover, _: &mut Self::Context) -> Self::Result {
        let store = self.store.clone();
        let find = async move {
            let turns = store.open_turns().await.unwrap_or_else(|error| {
                tracing::error!(%error, "open turns can't be read; sessions settle when they are next used");
                Vec::new()
            });
            let mut sessions: Vec<Info> = Vec::new();
            for turn in turns {
                let wanted = match &only {
                    None => true,
                    // With their subagents: nobody else goes on with those in the background.
                    Some(only) => {
                        let above = store.ancestors(&turn.session_id).await.unwrap_or_default();
                        std::iter::once(&turn.session_id).chain(&above).any(|id| only.contains(id))
                    }
                };
                if wanted && !sessions.iter().any(|info| info.id == turn.session_id) {
                    sessions.extend(store.session(&turn.session_id).await.ok().flatten());
                }
            }
            // Parents settle before the children that hang on their calls.
            sessions.sort_by_key(|info| (info.parent_id.is_some(), info.time.created));
            sessions
        };
        Box::pin(find.into_actor(self).then(|sessions, registry, ctx| {
            let roots = roots(&sessions);
            let handles: Vec<SessionHandle> =
                sessions.iter().map(|info| registry.live(&info.id, &info.directory, Start::Held, ctx)).collect();
            let io = registry.deps.io.clone();
            async move {
                let mut trees: Vec<Tree> = Vec::new();
                for (handle, root) in handles.into_iter().zip(roots) {
                    let attempts = handle.address.send(Settle).await.unwrap_or(0);
                    match trees.iter_mut().find(|tree| tree.root == root) {
                        Some(tree) => {
                            tree.attempts = tree.attempts.max(attempts);
                            tree.sessions.push(handle);
                        }
                        None => trees.push(Tree { root, attempts, sessions: vec![handle] }),
                    }
                }
                if !trees.is_empty() {
                    let sessions = trees.iter().map(|tree| tree.sessions.len()).sum::<usize>();
                    tracing::info!(sessions, "open turns go on");
                }
                io.spawn(resume(trees));
            }
            .into_actor(registry)
        }))
    }
}

/// Settled sessions that wait for one another: one and its subagents'.
struct Tree {
    root: SessionId,
    /// The most of any of them.
    attempts: u32,
    /// Those above before those below.
    sessions: Vec<SessionHandle>,
}

/// Returns for each session the topmost one of the same list above it.
fn roots(sessions: &[Info]) -> Vec<SessionId> {
    let parent = |id: &SessionId| {
        let above = sessions.iter().find(|info| info.id == *id).and_then(|info| info.parent_id.clone())?;
        sessions.iter().any(|info| info.id == above).then_some(above)
    };
    // No tree is deeper than the list is long, and a ring ends too.
    let root = |info: &Info| {
        let above = std::iter::successors(Some(info.id.clone()), parent).take(sessions.len());
        above.last().unwrap_or_else(|| info.id.clone())
    };
    sessions.iter().map(root).collect()
}

/// Lets settled sessions go on: those that may take the process down again alone, after the others.
async fn resume(trees: Vec<Tree>) {
    let (dangerous, calm): (Vec<_>, Vec<_>) = trees.into_iter().partition(|tree| tree.attempts >= LAST_ATTEMPT);
    for handle in calm.iter().flat_map(|tree| &tree.sessions) {
        let _ = handle.address.send(Resume).await;
    }
    for tree in dangerous {
        for handle in &tree.sessions {
            let _ = handle.address.send(Resume).await;
        }
        let idle = async {
            for mut handle in tree.sessions {
                let _ = handle.status.wait_for(|status| *status == SessionStatus::idle()).await;
            }
        };
        let _ = tokio::time::timeout(ALONE, idle).await;
    }
}
