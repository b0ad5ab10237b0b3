//! A command the person runs themself: no model, no question, one tool part.

use std::sync::Arc;

use actix::prelude::*;
use protocol::message::UserTime;
use protocol::part::{PartKind, Started, TextPart, ToolPart};
use protocol::{AssistantMessage, JsonMap, Message, MessageId, PartId, SessionStatus, ToolState, UserMessage};
use serde_json::{Value, json};
use storage::Change;
use storage::journal::TurnKind;
use tokio::sync::oneshot;
use tools::bash::PersonsBash;

use super::command::{CommandError, Shell, StopProcess};
use super::hand_over::plan_of;
use super::{Queued, Session, Stage, TurnEnd, remembered, turn_row};
use crate::permission_broker::Asker;
use crate::tool_executor::{Call, CallEnded, SnapshotGate};
use crate::workspace::{Answerer, Freshness, GetSetup, Setup, Wish};

/// What the model is told of such a command.
const NOTE: &str = "The person ran this command themself:";

/// A command that runs.
pub struct Running {
    user_id: MessageId,
    message_id: MessageId,
    part_id: PartId,
}

impl Session {
    fn start_shell(
        &mut self,
        setup: &Arc<Setup>,
        answerer: &Answerer,
        shell: Shell,
        ctx: &mut Context<Self>,
    ) -> Result<oneshot::Receiver<TurnEnd>, CommandError> {
        if self.is_busy() {
            return Err(CommandError::Busy(self.id.clone()));
        }
        let body = shell.body;
        let user_id = body.message_id.unwrap_or_else(|| self.deps.ids.message());
        let now = self.next_time();
        let user = UserMessage {
            id: user_id.clone(),
            session_id: self.id.clone(),
            time: UserTime { created: now },
            format: None,
            summary: None,
            agent: answerer.agent.name.clone(),
            model: answerer.model_ref.clone(),
            system: None,
            tools: None,
            troupe: None,
        };
        let message = AssistantMessage { variant: None, ..self.new_answer(setup, answerer, &user_id) };
        let created = message.time.created;
        let message_id = message.id.clone();
        let call_id = self.deps.ids.ulid();
        let input = JsonMap::from_iter([("command".to_owned(), json!(body.command))]);
        let row = turn_row(&self.id, &user_id, TurnKind::Shell, now);
        let model = remembered(&answerer.model_ref);
        let agent = answerer.agent.name.clone();
        let mut changes = vec![
            self.set_status(SessionStatus::Busy),
            self.change_info(|info| {
                info.agent = Some(agent);
                info.model = Some(model);
                info.time.updated = now;
            }),
            self.put_message(Message::User(user)),
            self.put_new_part(
                &user_id,
                PartKind::Text(TextPart { text: NOTE.into(), synthetic: true, ..TextPart::default() }),
            ),
            Change::Turn(row.clone()),
            self.put_message(Message::Assistant(message)),
        ];
        let state = ToolState::Running {
            input: Value::Object(input.clone()),
            title: None,
            metadata: None,
            time: Started { start: created },
        };
        let part_id = self.deps.ids.part();
        let part = protocol::Part {
            id: part_id.clone(),
            session_id: self.id.clone(),
            message_id: message_id.clone(),
            kind: PartKind::Tool(ToolPart { call_id: call_id.clone(), tool: "bash".into(), state, metadata: None }),
        };
        changes.push(self.put_part(part));
        self.record(changes).detach();
        let (waiter, end) = oneshot::channel();
        self.state.queue.push_back(Queued { row, waiters: vec![waiter] });
        let executor = self.executor(ctx);
        self.state.stage =
            Stage::Shell(Box::new(Running { user_id, message_id: message_id.clone(), part_id: part_id.clone() }));
        let call = Call {
            part_id,
            tool: Arc::new(PersonsBash),
            input,
            asker: Asker {
                fence: self.state.fence.clone(),
                origin: self.state.origin.clone(),
                ancestors: self.state.ancestors.clone(),
                agent: answerer.agent.name.clone(),
                rules: self.rules(&answerer.agent),
                message_id,
                call_id,
                plugins: setup.plugins.clone(),
            },
            place: setup.place.clone(),
            plan: plan_of(setup, &self.state.info),
            gate: Arc::new(SnapshotGate::new(Freshness::Any)),
            repeats: false,
            prompt: "".into(),
        };
        self.send_call(executor, call, ctx);
        Ok(end)
    }

    /// What becomes of a command that is given again under its id: it is not run twice.
    fn shell_before(
        &mut self,
        id: &MessageId,
        command: String,
    ) -> ResponseActFuture<Self, Result<oneshot::Receiver<TurnEnd>, CommandError>> {
        let answers = self.state.history.entries().iter();
        let mut answers = answers.filter(|e| e.info.as_assistant().is_some_and(|answer| answer.parent_id == *id));
        let answer = answers.next().map(|entry| self.recall(entry.info.id()));
        let (waits, id) = (self.wait_for(id), id.clone());
        let answer = async move {
            let answer = match answer {
                Some(answer) => answer.await?,
                None => None,
            };
            let parts = answer.map(|answer| answer.parts).unwrap_or_default();
            let mut calls = parts.iter().filter_map(|part| part.as_tool());
            let is_same = calls.any(|call| call.state.input()["command"] == command.as_str());
            if is_same { Ok(waits) } else { Err(CommandError::Taken(id)) }
        };
        Box::pin(answer.into_actor(self))
    }

    /// The prompt of the command that runs.
    pub(super) fn shell_prompt(&self) -> Option<MessageId> {
        match &self.state.stage {
            Stage::Shell(running) => Some(running.user_id.clone()),
            _ => self.state.queue.front().filter(|q| q.row.kind == TurnKind::Shell).map(|q| q.row.message_id.clone()),
        }
    }

    /// Ends the command whose call this is. Returns whether it was one.
    pub(super) fn shell_ended(&mut self, ended: &CallEnded, ctx: &mut Context<Self>) -> bool {
        let Stage::Shell(running) = &self.state.stage else { return false };
        if running.part_id != ended.part_id {
            return false;
        }
        let (user_id, message_id) = (running.user_id.clone(), running.message_id.clone());
        self.state.stage = Stage::Closing(Vec::new());
        let mut changes = Vec::new();
        if let Some(mut message) = self.state.history.get(&message_id).and_then(|e| e.info.as_assistant().cloned()) {
            message.time.completed = Some(self.now().max(message.time.created));
            changes.push(self.put_message(Message::Assistant(message)));
        }
        changes.extend(self.finish_part(&message_id, &ended.part_id, ended.outcome.clone()));
        changes.push(Change::TurnClosed(self.id.clone(), user_id.clone()));
        let fence = self.state.fence.clone();
        let stored = self.record(changes);
        ctx.spawn(stored.into_actor(self).map(move |stored, session, ctx| {
            if session.state.fence != fence {
                return;
            }
            match stored {
                Ok(()) => session.end_turn(&[user_id], ctx),
                Err(error) => session.unwritable(&error, ctx),
            }
        }));
        true
    }
}

impl Handler<StopProcess> for Session {
    type Result = ResponseActFuture<Self, Result<bool, CommandError>>;

    fn handle(&mut self, StopProcess { id, ticket }: StopProcess, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        let (processes, session) = (self.deps.processes.clone(), self.id.clone());
        let stopped = self.deps.io.spawn(async move { processes.stop(&session, id).await });
        Box::pin(stopped.into_actor(self).map(|stopped, _, _| stopped.map_err(|_| CommandError::Unknown)))
    }
}

impl Handler<Shell> for Session {
    type Result = ResponseActFuture<Self, Result<oneshot::Receiver<TurnEnd>, CommandError>>;

    fn handle(&mut self, shell: Shell, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.check(&shell.ticket) {
            return Box::pin(fut::ready(Err(error)));
        }
        if let Some(id) = &shell.body.message_id
            && self.state.history.get(id).is_some()
        {
            return self.shell_before(id, shell.body.command.clone());
        }
        if self.is_busy() {
            return Box::pin(fut::ready(Err(CommandError::Busy(self.id.clone()))));
        }
        let setup = self.deps.workspace.send(GetSetup);
        Box::pin(setup.into_actor(self).map(|setup, session, ctx| {
            let setup = setup.map_err(|_| CommandError::Unknown)??;
            let wish = Wish {
                agent: Some(shell.body.agent.clone()),
                model: shell.body.model.clone(),
                last_model: session.state.info.model.clone(),
                ..Wish::default()
            };
            let answerer = setup.answerer(&wish)?;
            session.start_shell(&setup, &answerer, shell, ctx)
        }))
    }
}
