//! Subagents: child sessions that a `task` call starts. The child's session, its prompt and its turn are stored with
//! the child's id in the parent's part, in one transaction: after a crash the call finds its child again.

use std::sync::Arc;

use actix::prelude::*;
use protocol::message::{ModelRef, PromptSettings, UserTime};
use protocol::model::FinishReason;
use protocol::part::{PartKind, Started, SubtaskPart, TextPart, ToolPart};
use protocol::permission::{Action, Rule};
use protocol::prompt::{PartInput, PartInputKind, PromptBody};
use protocol::session::SessionTime;
use protocol::{
    AssistantMessage, JsonMap, Message, MessageId, Part, Session as Info, SessionError, SessionId, ToolState,
    UserMessage,
};
use serde_json::json;
use storage::Change;
use storage::journal::TurnKind;
use tools::{Delegation, ToolError};

use super::history::Entry;
use super::step::StepKind;
use super::{Session, Stage, remembered, turn_row};
use crate::tool_executor::{Delegate, Delegated};
use crate::workspace::{GetSetup, Setup, Wish};

/// How deep subagents may be nested by default: they start none of their own. Source: OpenCode `subagent_depth`.
const DEFAULT_DEPTH: u32 = 1;

/// The tool that gives work to subagents.
const TASK: &str = "task";

/// Whether a message is the call by which the runtime gave a subagent what a prompt asks for: it has no step of a
/// model's.
fn is_of_subtask(entry: &Entry, prompt: &MessageId) -> bool {
    entry.info.as_assistant().is_some_and(|message| message.parent_id == *prompt)
        && entry.parts.first().and_then(|part| part.as_tool()).is_some_and(|tool| tool.tool == TASK)
}

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
    /// The work for a subagent that a prompt still asks for: each part of it is done in turn, before the model answers.
    pub(super) fn next_subtask(&self, prompt: &MessageId) -> Option<SubtaskPart> {
        let entry = self.state.history.get(prompt)?;
        let mut tasks = entry.parts.iter().filter_map(|part| match &part.kind {
            PartKind::Subtask(task) => Some(task),
            _ => None,
        });
        let first = tasks.next()?;
        let done = self.state.history.entries().iter().filter(|entry| is_of_subtask(entry, prompt)).count();
        std::iter::once(first).chain(tasks).nth(done).cloned()
    }

    /// Starts the step that gives a subagent the work a prompt asks for.
    pub(super) fn begin_subtask(
        &mut self,
        setup: Arc<Setup>,
        user: &UserMessage,
        task: SubtaskPart,
        ctx: &mut Context<Self>,
    ) {
        let wish = Wish { agent: Some(user.agent.clone()), model: Some(user.model.clone()), ..Wish::default() };
        let answerer = match setup.answerer(&wish) {
            Ok(answerer) => answerer,
            Err(error) => return self.fail_turn(SessionError::unknown(error.to_string()), ctx),
        };
        let message = AssistantMessage {
            mode: task.agent.clone(),
            agent: task.agent.clone(),
            ..self.new_answer(&setup, &answerer, &user.id)
        };
        let message_id = message.id.clone();
        let mut input = JsonMap::from_iter([
            ("prompt".to_owned(), json!(task.prompt)),
            ("description".to_owned(), json!(task.description)),
            ("subagent_type".to_owned(), json!(task.agent)),
        ]);
        input.extend(task.command.as_ref().map(|command| ("command".to_owned(), json!(command))));
        let state = ToolState::Running {
            input: input.into(),
            title: None,
            metadata: None,
            time: Started { start: message.time.created },
        };
        let call_id = self.deps.ids.ulid();
        let kind = PartKind::Tool(ToolPart { call_id, tool: TASK.into(), state, metadata: None });
        let changes = vec![self.put_message(Message::Assistant(message)), self.put_new_part(&message_id, kind)];
        self.record(changes).detach();
        let parts = self.state.history.get(&message_id).map(|entry| entry.parts.clone()).unwrap_or_default();
        self.start_calls(setup, answerer, &message_id, StepKind::Subtask(Box::new(task)), &parts, ctx);
    }

    /// As on the wire, the message is done before its call is.
    pub(super) fn complete_subtask(&mut self, message: &MessageId) -> Option<Change> {
        let mut message = self.state.history.get(message)?.info.as_assistant()?.clone();
        message.finish = Some(FinishReason::ToolCalls.as_str().to_owned());
        message.time.completed = Some(self.now().max(message.time.created));
        Some(self.put_message(Message::Assistant(message)))
    }

    /// What a step is for that a crash left with only calls to do.
    pub(super) fn kind_of_rerun(&self, message: &MessageId) -> StepKind {
        let Some(entry) = self.state.history.get(message) else { return StepKind::Calls };
        let Some(parent) = entry.info.as_assistant().map(|m| m.parent_id.clone()) else { return StepKind::Calls };
        if !is_of_subtask(entry, &parent) {
            return StepKind::Calls;
        }
        let input = entry.parts.first().and_then(|part| part.as_tool()).map(|tool| tool.state.input().clone());
        let parts = self.state.history.get(&parent).map(|entry| entry.parts.as_slice()).unwrap_or_default();
        let task = parts.iter().find_map(|part| match &part.kind {
            PartKind::Subtask(task) if input.as_ref().is_some_and(|i| i["prompt"] == task.prompt) => Some(task.clone()),
            _ => None,
        });
        task.map_or(StepKind::Calls, |task| StepKind::Subtask(Box::new(task)))
    }

    /// The child the call started before a crash.
    fn earlier_child(&self, told: &Delegate) -> Option<Delegated> {
        let part = self.state.history.part(&told.message_id, &told.part_id)?;
        let ToolState::Running { metadata: Some(metadata), .. } = &part.as_tool()?.state else { return None };
        let id = |key: &str| metadata.get(key).and_then(|value| value.as_str());
        let message_id = MessageId::parse(id("messageId")?).ok()?;
        let again = || prompt_again(told, &message_id, None, self.given(), self.reports_to(told));
        let prompt = told.delegation.resume.is_some().then(again);
        Some(Delegated { session_id: SessionId::parse(id("sessionId")?).ok()?, message_id, prompt })
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
        let of_task = match &step.kind {
            StepKind::Subtask(task) => task.model.clone(),
            _ => None,
        };
        if let Some(own) = of_task.or_else(|| answerer.agent.model.clone()) {
            let wish = Wish { model: Some(own), ..wish };
            answerer = setup.answerer(&wish).map_err(|error| ToolError::failed(error.to_string()))?;
        }
        if let Some(child) = child {
            if child.parent_id.as_ref() != Some(&self.id) {
                return Err(ToolError::failed(format!("{} is no subagent of this session", child.id)));
            }
            let message_id = self.deps.ids.message();
            let changes = self.name_child(told, &child.id, &message_id, &answerer.model_ref);
            let reports = self.reports_to(told);
            let prompt = Some(prompt_again(told, &message_id, Some(answerer.model_ref), self.given(), reports));
            return Ok((changes.into_iter().collect(), Delegated { session_id: child.id, message_id, prompt }));
        }
        let now = self.now();
        let may_delegate = depth < most && speaks_of_task(&answerer.agent.permission);
        let mut info = self.child_info(&told.delegation, may_delegate, now);
        let mut changes = vec![Change::SessionCreated(Arc::new(info.clone()))];
        info.model = Some(remembered(&answerer.model_ref));
        changes.push(Change::SessionUpdated(Arc::new(info.clone())));
        let (user, part) = self.child_prompt(&info.id, &answerer.agent.name, &answerer.model_ref, told, now);
        let message_id = user.id.clone();
        changes.push(Change::Turn(turn_row(&info.id, &message_id, TurnKind::Prompt, now)));
        changes.insert(changes.len() - 1, Change::MessageUpdated(Arc::new(Message::User(user))));
        changes.insert(changes.len() - 1, Change::PartUpdated(Arc::new(part)));
        changes.extend(self.name_child(told, &info.id, &message_id, &answerer.model_ref));
        Ok((changes, Delegated { session_id: info.id, message_id, prompt: None }))
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
            troupe: self.given(),
        };
        let (text, metadata) = (told.delegation.prompt.clone(), self.reports_to(told));
        let text = TextPart { text, metadata, ..TextPart::default() };
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

/// The prompt for a subagent that is there already: its own session takes it.
fn prompt_again(
    told: &Delegate,
    message_id: &MessageId,
    model: Option<ModelRef>,
    troupe: Option<Box<PromptSettings>>,
    metadata: Option<JsonMap>,
) -> Box<PromptBody> {
    let text = PartInputKind::Text {
        text: told.delegation.prompt.clone(),
        synthetic: None,
        ignored: None,
        time: None,
        metadata,
    };
    Box::new(PromptBody {
        message_id: Some(message_id.clone()),
        model,
        agent: Some(told.delegation.agent.clone()),
        no_reply: None,
        tools: None,
        troupe,
        format: None,
        system: None,
        variant: None,
        parts: vec![PartInput { id: None, kind: text }],
    })
}

/// Returns whether rules speak of `task` by its name. A subagent whose rules don't may start none, even where
/// everything is allowed. Source: OpenCode `tool/task.ts`.
fn speaks_of_task(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| rule.permission == "task")
}
