//! Subagents: child sessions that a `task` call starts. The child's session, its prompt and its turn are stored with
//! the child's id in the parent's part, in one transaction: after a crash the call finds its child again.

use std::sync::Arc;

use actix::prelude::*;
use protocol::message::{ModelRef, UserTime};
use protocol::part::{PartKind, TextPart};
use protocol::permission::{Action, Rule};
use protocol::session::SessionTime;
use protocol::{JsonMap, Message, MessageId, Part, Session as Info, SessionId, ToolState, UserMessage};
use serde_json::json;
use storage::Change;
use storage::journal::TurnKind;
use tools::{Delegation, ToolError};

use super::{Session, Stage, remembered, turn_row};
use crate::tool_executor::{Delegate, Delegated};
use crate::workspace::{GetSetup, Setup, Wish};

/// How deep subagents may be nested by default: they start none of their own. Source: OpenCode `subagent_depth`.
const DEFAULT_DEPTH: u32 = 1;

impl Handler<Delegate> for Session {
    type Result = ResponseActFuture<Self, Result<Delegated, ToolError>>;

    fn handle(&mut self, told: Delegate, _: &mut Self::Context) -> Self::Result {
        if let Some(found) = self.earlier_child(&told) {
            return Box::pin(fut::ready(Ok(found)));
        }
        let fence = self.state.fence.clone();
        let (workspace, store) = (self.deps.workspace.clone(), self.deps.store.clone());
        let resume = told.delegation.resume.clone();
        let look = async move {
            let setup = workspace.send(GetSetup).await.map_err(|_| ToolError::Aborted)?;
            let setup = setup.map_err(|error| ToolError::failed(error.to_string()))?;
            let child = match resume {
                None => None,
                Some(id) => match store.session(&id).await {
                    Ok(Some(child)) => Some(child),
                    _ => return Err(ToolError::failed(format!("there is no subagent {id} any more; start a new one"))),
                },
            };
            Ok((setup, child))
        };
        Box::pin(look.into_actor(self).then(move |looked, session, _| {
            let started = looked.and_then(|(setup, child)| {
                if session.state.fence != fence || !matches!(session.state.stage, Stage::Stepping(_)) {
                    return Err(ToolError::Aborted);
                }
                session.start_child(&setup, child, &told)
            });
            let (ack, delegated) = match started {
                Ok((changes, delegated)) => (Some(session.record(changes)), Ok(delegated)),
                Err(error) => (None, Err(error)),
            };
            async move {
                if let Some(ack) = ack {
                    ack.await.map_err(|error| ToolError::failed(format!("the subagent was not started: {error}")))?;
                }
                delegated
            }
            .into_actor(session)
        }))
    }
}

impl Session {
    /// The child the call started before a crash.
    fn earlier_child(&self, told: &Delegate) -> Option<Delegated> {
        let part = self.state.history.part(&told.message_id, &told.part_id)?;
        let ToolState::Running { metadata: Some(metadata), .. } = &part.as_tool()?.state else { return None };
        let id = |key: &str| metadata.get(key).and_then(|value| value.as_str());
        Some(Delegated {
            session_id: SessionId::parse(id("sessionId")?).ok()?,
            message_id: MessageId::parse(id("messageId")?).ok()?,
        })
    }

    fn start_child(
        &mut self,
        setup: &Setup,
        child: Option<Info>,
        told: &Delegate,
    ) -> Result<(Vec<Change>, Delegated), ToolError> {
        let most = setup.config().subagent_depth.unwrap_or(DEFAULT_DEPTH) as usize;
        let depth = self.state.ancestors.len() + 1;
        if depth > most {
            return Err(ToolError::failed(format!(
                "subagents may be nested {most} deep (subagent_depth in the config); do this yourself"
            )));
        }
        let Stage::Stepping(step) = &self.state.stage else { return Err(ToolError::Aborted) };
        let wish = Wish {
            agent: Some(told.delegation.agent.clone()),
            // A subagent without a model of its own has its parent's.
            last_model: Some(remembered(&step.answerer.model_ref)),
            ..Wish::default()
        };
        let mut answerer = setup.answerer(&wish).map_err(|error| ToolError::failed(error.to_string()))?;
        if let Some(own) = answerer.agent.model.clone() {
            let wish = Wish { model: Some(own), ..wish };
            answerer = setup.answerer(&wish).map_err(|error| ToolError::failed(error.to_string()))?;
        }
        let now = self.now();
        let mut changes = Vec::new();
        let info = match child {
            Some(child) if child.parent_id.as_ref() == Some(&self.id) => child,
            Some(child) => {
                return Err(ToolError::failed(format!("{} is no subagent of this session", child.id)));
            }
            None => {
                let may_delegate = depth < most && speaks_of_task(&answerer.agent.permission);
                let info = self.child_info(&told.delegation, may_delegate, now);
                changes.push(Change::SessionCreated(Arc::new(info.clone())));
                info
            }
        };
        let (user, part) = self.child_prompt(&info.id, &answerer.agent.name, &answerer.model_ref, told, now);
        let message_id = user.id.clone();
        changes.push(Change::Turn(turn_row(&info.id, &message_id, TurnKind::Prompt, now)));
        changes.insert(changes.len() - 1, Change::MessageUpdated(Arc::new(Message::User(user))));
        changes.insert(changes.len() - 1, Change::PartUpdated(Arc::new(part)));
        changes.extend(self.name_child(told, &info.id, &message_id, &answerer.model_ref));
        Ok((changes, Delegated { session_id: info.id, message_id }))
    }

    fn child_info(&self, delegation: &Delegation, may_delegate: bool, now: u64) -> Info {
        let mut rules = Vec::new();
        if !may_delegate {
            rules.push(Rule::new("task", "*", Action::Deny));
        }
        // What the parent's session was denied, its subagents are too.
        let denied = self.state.info.permission.iter().flatten().filter(|rule| rule.action == Action::Deny);
        rules.extend(denied.cloned());
        Info {
            id: self.deps.ids.session(),
            slug: crate::slug::slug(),
            parent_id: Some(self.id.clone()),
            title: format!("{} (@{} subagent)", delegation.description, delegation.agent),
            agent: Some(delegation.agent.clone()),
            model: None,
            permission: Some(rules),
            summary: None,
            share: None,
            revert: None,
            metadata: None,
            cost: 0.0,
            tokens: protocol::message::Tokens::default(),
            version: self.deps.version.to_string(),
            time: SessionTime { created: now, updated: now, ..SessionTime::default() },
            ..Info::clone(&self.state.info)
        }
    }

    fn child_prompt(
        &self,
        child: &SessionId,
        agent: &str,
        model: &ModelRef,
        told: &Delegate,
        now: u64,
    ) -> (UserMessage, Part) {
        let user = UserMessage {
            id: self.deps.ids.message(),
            session_id: child.clone(),
            time: UserTime { created: now },
            format: None,
            summary: None,
            agent: agent.to_owned(),
            model: model.clone(),
            system: None,
            tools: None,
        };
        let text = TextPart { text: told.delegation.prompt.clone(), ..TextPart::default() };
        let part = Part {
            id: self.deps.ids.part(),
            session_id: child.clone(),
            message_id: user.id.clone(),
            kind: PartKind::Text(text),
        };
        (user, part)
    }

    /// The call's part, with the child it waits for.
    fn name_child(
        &mut self,
        told: &Delegate,
        child: &SessionId,
        prompt: &MessageId,
        model: &ModelRef,
    ) -> Option<Change> {
        let mut part = Part::clone(self.state.history.part(&told.message_id, &told.part_id)?);
        let PartKind::Tool(tool) = &mut part.kind else { return None };
        let ToolState::Running { title, metadata, .. } = &mut tool.state else { return None };
        *title = Some(told.delegation.description.clone());
        metadata.get_or_insert_with(JsonMap::new).extend([
            ("parentSessionId".to_owned(), json!(self.id)),
            ("sessionId".to_owned(), json!(child)),
            ("messageId".to_owned(), json!(prompt)),
            ("model".to_owned(), json!({ "modelID": model.model_id, "providerID": model.provider_id })),
        ]);
        Some(self.put_part(part))
    }
}

/// Returns whether rules speak of `task` by its name. A subagent whose rules don't may start none, even where
/// everything is allowed. Source: OpenCode `tool/task.ts`.
fn speaks_of_task(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.permission == "task")
}
