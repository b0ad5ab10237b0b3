//! A compaction that the person asks for.

use actix::prelude::*;
use protocol::message::UserTime;
use protocol::{MessageId, UserMessage};
use storage::journal::TurnKind;
use tokio::sync::oneshot;

use crate::session::command::{CommandError, Summarize};
use crate::session::{Queued, Session, TurnEnd, remembered, turn_row};
use crate::workspace::{Answerer, GetSetup, Wish};

impl Handler<Summarize> for Session {
    type Result = ResponseActFuture<Self, Result<oneshot::Receiver<TurnEnd>, CommandError>>;

    fn handle(&mut self, told: Summarize, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&told.ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        if self.state.history.get(&told.message_id).is_some() {
            return Box::pin(fut::ready(Ok(self.wait_for(&told.message_id))));
        }
        if self.state.history.entries().is_empty() {
            let error = "there is nothing to summarise yet: the session has no messages";
            return Box::pin(fut::ready(Err(CommandError::Invalid(error.into()))));
        }
        let setup = self.deps.workspace.send(GetSetup);
        Box::pin(
            setup
                .into_actor(self)
                .map(move |setup, session, _| {
                    let setup = setup.map_err(|_| CommandError::Unknown)??;
                    let wish = Wish {
                        last_agent: session.state.info.agent.clone(),
                        model: Some(told.model),
                        ..Wish::default()
                    };
                    let answerer = setup.answerer(&wish)?;
                    Ok(session.queue_summary(told.message_id, &answerer, told.auto))
                })
                .then(|queued: Result<_, CommandError>, session, _| {
                    async move {
                        let (stored, end) = queued?;
                        let stored: storage::Ack = stored;
                        stored.await?;
                        Ok(end)
                    }
                    .into_actor(session)
                    .map(|end: Result<_, CommandError>, session, ctx| {
                        session.advance(ctx);
                        end
                    })
                }),
        )
    }
}

impl Session {
    fn queue_summary(
        &mut self,
        id: MessageId,
        answerer: &Answerer,
        auto: bool,
    ) -> (storage::Ack, oneshot::Receiver<TurnEnd>) {
        let time = self.now();
        let row = turn_row(&self.id, &id, TurnKind::Compact, time);
        let user = UserMessage {
            id: id.clone(),
            session_id: self.id.clone(),
            time: UserTime { created: time },
            format: None,
            summary: None,
            agent: answerer.agent.name.clone(),
            model: answerer.model_ref.clone(),
            system: None,
            tools: None,
            troupe: None,
        };
        let mut changes = self.put_compaction(id, &user, row.clone(), auto, None);
        let model = remembered(&answerer.model_ref);
        changes.push(self.change_info(|info| info.model = Some(model)));
        let (waiter, end) = oneshot::channel();
        self.state.queue.push_back(Queued { row, waiters: vec![waiter] });
        (self.record(changes), end)
    }
}
