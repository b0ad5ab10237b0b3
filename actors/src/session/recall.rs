//! What is stored and no longer in memory, read again where it is needed: for a prompt that is sent once more, for edits
//! and copies of old messages, and before a step, when an edit has changed what the model sees.

use std::collections::HashMap;
use std::sync::Arc;

use actix::prelude::*;
use protocol::{MessageId, MessageWithParts, Part, SessionError};
use storage::StorageError;
use tokio::sync::oneshot;

use super::command::CommandError;
use super::compaction::shed::shed;
use super::{Session, Stage, TurnEnd, TurnGone};

impl Session {
    /// Lets go of what no request tells any more.
    pub(super) fn shed(&mut self) {
        let waiting = self.state.queue.iter().map(|queued| queued.row.message_id.clone()).collect();
        shed(&mut self.state.history, &waiting);
    }

    /// Returns a message with all its parts; none where it is gone.
    pub(super) fn recall(
        &self,
        id: &MessageId,
    ) -> impl Future<Output = Result<Option<MessageWithParts>, CommandError>> + use<> {
        let entry = self.state.history.get(id);
        let known = entry.map(|entry| entry.to_wire());
        // What was queued for it before is stored first.
        let stored = matches!(known, Some(None)).then(|| self.record(Vec::new()));
        let (store, session, id) = (self.deps.store.clone(), self.id.clone(), id.clone());
        async move {
            match (known, stored) {
                (None, _) => Ok(None),
                (Some(Some(whole)), _) => Ok(Some(whole)),
                (Some(None), stored) => {
                    if let Some(stored) = stored {
                        stored.await?;
                    }
                    let message = store.whole_message(&session, &id).await;
                    message.map_err(|error| CommandError::Broken(error.to_string()))
                }
            }
        }
    }

    /// Returns the parts of all messages of which not all is in memory.
    pub(super) fn recall_all(
        &self,
    ) -> impl Future<Output = Result<HashMap<MessageId, Vec<Arc<Part>>>, StorageError>> + use<> {
        let lean: Vec<MessageId> = self.state.history.lean().cloned().collect();
        let stored = (!lean.is_empty()).then(|| self.record(Vec::new()));
        let (store, id) = (self.deps.store.clone(), self.id.clone());
        async move {
            let Some(stored) = stored else { return Ok(HashMap::new()) };
            // Where it can't be written, what is stored can still be read.
            let _ = stored.await;
            let history = store.history(&id).await?.into_iter();
            let parts = history.map(|(info, parts)| (info.id().clone(), parts.into_iter().map(|p| p.part).collect()));
            let mut parts: HashMap<_, _> = parts.collect();
            parts.retain(|id, _| lean.contains(id));
            Ok(parts)
        }
    }

    /// An edit has changed what models see, or what is carried along: reads what is not in memory, then prepares the
    /// step.
    pub(super) fn recall_then_prepare(&mut self, ctx: &mut Context<Self>) {
        self.state.stage = Stage::Preparing;
        self.state.history.set_outdated(false);
        let fence = self.state.fence.clone();
        let recalled = self.recall_all();
        ctx.spawn(recalled.into_actor(self).map(move |recalled, session, ctx| {
            if session.state.fence != fence || !matches!(session.state.stage, Stage::Preparing) {
                return;
            }
            match recalled {
                Ok(parts) => {
                    session.state.history.refill(parts);
                    session.shed();
                    session.prepare_step(ctx);
                }
                Err(error) => {
                    let error = format!("the earlier messages can't be read: {error}");
                    session.fail_turn(SessionError::unknown(error), ctx);
                }
            }
        }));
    }

    /// Tells a turn's end to who waits for it: this message, or that there is none.
    pub(super) fn tell_end(&self, answer: Option<&MessageId>, waiters: Vec<oneshot::Sender<TurnEnd>>) {
        if waiters.is_empty() {
            return;
        }
        // A caller that hung up misses nothing: it is all stored.
        let tell = |end: TurnEnd| waiters.into_iter().for_each(|waiter| drop(waiter.send(end.clone())));
        let Some(entry) = answer.and_then(|id| self.state.history.get(id)) else { return tell(Err(TurnGone)) };
        if let Some(whole) = entry.to_wire() {
            return tell(Ok(whole));
        }
        let recalled = self.recall(entry.info.id());
        self.deps.io.spawn(async move { tell(recalled.await.ok().flatten().ok_or(TurnGone)) });
    }
}
