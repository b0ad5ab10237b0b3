//! The tool calls of a step: stored as running, handed to the executor, closed with their results.

use std::sync::Arc;

use actix::prelude::*;
use protocol::part::{PartKind, Ran, Started, ToolPart};
use protocol::permission::{Action, Rule};
use protocol::{CallId, JsonMap, MessageId, Part, PartId, ToolState};
use serde_json::{Value, json};
use storage::Change;
use tools::task::Task;

use super::hand_over::plan_of;
use super::history::Entry;
use super::offer::{is_last, limit_reached, offered};
use super::step::StepKind;
use super::{Session, Stage};
use crate::permission_broker::{Asker, Forget};
use crate::processor::ReadyCall;
use crate::tool_executor::{Call, CallEnded, CallProgress, Outcome, Run};

/// Equal calls in a row before a person is asked about the next.
const EQUAL_CALLS: usize = 2;
/// The tool that stands for a call that can't be made.
const INVALID: &str = "invalid";

impl Session {
    /// A call's arguments are complete: it is stored as running, then it runs.
    pub(super) fn call(&mut self, call: ReadyCall, changes: &mut Vec<Change>, ctx: &mut Context<Self>) {
        let Stage::Stepping(step) = &self.state.stage else { return };
        let rules = self.rules(&step.answerer.agent);
        let names: Vec<String> = offered(&self.state.toolkit, &rules, &step.answerer.chosen.model)
            .map(|tool| tool.id().to_owned())
            .collect();
        let name = meant(&names, &call.tool);
        let (name, input, invalid) = match (name, call.input) {
            (Some(name), Ok(input)) => (name.clone(), input, None),
            (Some(_), Err(error)) => invalid(&call.tool, format!("The arguments are no JSON object: {error}.")),
            (None, _) => {
                // Clients and models know this line; it is the one thing said as the AI SDK says it.
                let mut known = names.clone();
                known.push(INVALID.to_owned());
                known.sort();
                let (name, known) = (&call.tool, known.join(", "));
                invalid(name, format!("Model tried to call unavailable tool '{name}'. Available tools: {known}."))
            }
        };
        let mut part = call.part;
        if let PartKind::Tool(tool) = &mut part.kind {
            tool.tool.clone_from(&name);
            tool.metadata = call.metadata;
            tool.state = ToolState::Running {
                input: Value::Object(input.clone()),
                title: None,
                metadata: None,
                time: Started { start: self.now() },
            };
        }
        changes.push(self.put_part(part.clone()));
        let Stage::Stepping(step) = &self.state.stage else { return };
        let agent = &step.answerer.agent;
        if is_last(agent, self.steps()) {
            let error = format!("The call was not run. {}", limit_reached(agent));
            let outcome = Outcome::Failed { error, interrupted: false, stops_turn: false };
            changes.extend(self.finish_part(&part.message_id, &part.id, outcome));
            return;
        }
        match invalid {
            None => self.run_call(&part, &name, input, ctx),
            Some(error) => {
                let output =
                    format!("The call could not be made: {error} Look at the tools and their schemas, and call again.");
                let metadata = JsonMap::from_iter([("truncated".to_owned(), json!(false))]);
                let title = "Invalid Tool".to_owned();
                let outcome = Outcome::Completed { title, output, metadata, attachments: Vec::new() };
                changes.extend(self.finish_part(&part.message_id, &part.id, outcome));
            }
        }
    }

    pub(super) fn run_call(&mut self, part: &Part, name: &str, input: JsonMap, ctx: &mut Context<Self>) {
        let executor = self.executor(ctx);
        let repeats = self.state.history.equal_calls_before(&part.message_id, &part.id) >= EQUAL_CALLS;
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        let is_given = matches!(step.kind, StepKind::Subtask(_));
        let Some(call) = part.as_tool() else { return };
        let Some(tool) = self.state.toolkit.tool(name) else {
            // One that a crash left, of a server that is not there any more.
            let error = format!("The tool {name} is not there any more; the call was not run.");
            let outcome = Outcome::Failed { error, interrupted: true, stops_turn: false };
            let changes: Vec<Change> = self.finish_part(&part.message_id, &part.id, outcome).into_iter().collect();
            self.record(changes).detach();
            return;
        };
        step.open.insert(part.id.clone(), call.call_id.clone());
        step.has_effects |= tool.traits().changes_files;
        let (mut tool, call_id) = (tool.clone(), call.call_id.clone());
        if is_given {
            // Any agent of theirs may do what a person gives to one.
            tool = Arc::new(Task::given(step.setup.agents.values().map(AsRef::as_ref)));
        }
        let (agent, place, gate) = (step.answerer.agent.clone(), step.setup.place.clone(), step.gate.clone());
        let plan = plan_of(&step.setup, &self.state.info);
        let plugins = step.setup.plugins.clone();
        let prompt = self.state.turn.as_ref().and_then(|turn| self.state.history.get(turn.answering.last()?));
        let mut rules = self.rules(&agent);
        if is_given {
            // The person gave this work to a subagent: there is nothing to ask.
            rules = rules.iter().cloned().chain([Rule::new(name, "*", Action::Allow)]).collect();
        }
        let call = Call {
            part_id: part.id.clone(),
            tool,
            input,
            asker: Asker {
                fence: self.state.fence.clone(),
                origin: self.state.origin.clone(),
                ancestors: self.state.ancestors.clone(),
                agent: agent.name.clone(),
                rules,
                message_id: part.message_id.clone(),
                call_id,
                plugins,
            },
            plan,
            place,
            gate,
            repeats,
            prompt: prompt.map(Entry::own_text).unwrap_or_default().into(),
        };
        self.send_call(executor, call, ctx);
    }

    /// Hands a call to the executor; one that can't take it fails the call.
    pub(super) fn send_call(
        &mut self,
        executor: Addr<crate::tool_executor::ToolExecutor>,
        call: Call,
        ctx: &mut Context<Self>,
    ) {
        let (message_id, part_id, call_id) =
            (call.asker.message_id.clone(), call.part_id.clone(), call.asker.call_id.clone());
        let sent = executor.send(Run(call));
        ctx.spawn(sent.into_actor(self).map(move |sent, session, ctx| {
            if sent.is_err() {
                let error = "The call could not be started; it was not run.".to_owned();
                let outcome = Outcome::Failed { error, interrupted: true, stops_turn: false };
                session.call_ended(CallEnded { message_id, part_id, call_id, outcome }, ctx);
            }
        }));
    }

    /// The part of a call with its result.
    pub(super) fn finish_part(&mut self, message: &MessageId, id: &PartId, outcome: Outcome) -> Option<Change> {
        let mut part = Part::clone(self.state.history.part(message, id)?);
        let now = self.now();
        let (session_id, message_id) = (part.session_id.clone(), part.message_id.clone());
        let PartKind::Tool(tool) = &mut part.kind else { return None };
        let shown = match &tool.state {
            ToolState::Running { metadata: Some(metadata), .. } => metadata.clone(),
            _ => JsonMap::new(),
        };
        let start = tool.state.start().unwrap_or(now);
        let time = Ran { start, end: now.max(start), compacted: None };
        let input = tool.state.input().clone();
        tool.state = match outcome {
            Outcome::Completed { title, output, metadata, attachments } => {
                let mut all = shown;
                all.extend(metadata);
                let files: Vec<Part> = attachments
                    .into_iter()
                    .map(|file| Part {
                        id: self.deps.ids.part(),
                        session_id: session_id.clone(),
                        message_id: message_id.clone(),
                        kind: PartKind::File(file),
                    })
                    .collect();
                let attachments = (!files.is_empty()).then_some(files);
                ToolState::Completed { input, output, title, metadata: all, time, attachments }
            }
            Outcome::Failed { error, interrupted, .. } => {
                let mut all = shown;
                if interrupted {
                    all.extend(protocol::event::interrupted());
                }
                ToolState::Error { input, error, metadata: (!all.is_empty()).then_some(all), time }
            }
        };
        Some(self.put_part(part))
    }

    pub(super) fn call_ended(&mut self, ended: CallEnded, ctx: &mut Context<Self>) {
        if self.shell_ended(&ended, ctx) {
            return;
        }
        let Stage::Stepping(step) = &mut self.state.stage else { return };
        if step.open.remove(&ended.part_id).is_none() {
            return;
        }
        step.was_rejected |= matches!(ended.outcome, Outcome::Failed { stops_turn: true, .. });
        let mut changes: Vec<Change> = match step.kind {
            StepKind::Subtask(_) => self.complete_subtask(&ended.message_id).into_iter().collect(),
            _ => Vec::new(),
        };
        changes.extend(self.finish_part(&ended.message_id, &ended.part_id, ended.outcome));
        changes.push(Change::AsksForgotten(self.id.clone(), ended.call_id.clone()));
        changes.extend(self.progress_made());
        self.record(changes).detach();
        self.forget_asks(ended.call_id);
        self.close_step_if_done(ctx);
    }

    #[expect(clippy::disallowed_methods, reason = "bounded: one for each call")]
    pub(super) fn forget_asks(&self, call_id: CallId) {
        self.deps.broker.do_send(Forget(self.id.clone(), call_id));
    }
}

/// The call that stands for one that can't be made.
fn invalid(tool: &str, error: String) -> (String, JsonMap, Option<String>) {
    let input = JsonMap::from_iter([("tool".to_owned(), json!(tool)), ("error".to_owned(), json!(error))]);
    (INVALID.to_owned(), input, Some(error))
}

impl Handler<CallEnded> for Session {
    type Result = ();

    fn handle(&mut self, ended: CallEnded, ctx: &mut Self::Context) {
        self.call_ended(ended, ctx);
    }
}

impl Handler<CallProgress> for Session {
    type Result = ();

    fn handle(&mut self, told: CallProgress, _: &mut Self::Context) {
        let Some(part) = self.state.history.part(&told.message_id, &told.part_id) else { return };
        let mut part = Part::clone(part);
        let PartKind::Tool(ToolPart { state: ToolState::Running { title, metadata, .. }, .. }) = &mut part.kind else {
            return;
        };
        if told.progress.title.is_some() {
            *title = told.progress.title;
        }
        metadata.get_or_insert_with(JsonMap::new).extend(told.progress.metadata);
        let change = self.put_part(part);
        self.record(vec![change]).detach();
    }
}

/// Returns the tool a call means: the one of this name, else of this name in small letters, else of the name inside what
/// a model's own format of calls leaves around it: spaces, `functions.` before it, `:0` (Kimi) or `<|channel|>…` (gpt-oss)
/// behind it.
fn meant<'a>(names: &'a [String], given: &str) -> Option<&'a String> {
    let known = |given: &str| {
        let lower = given.to_lowercase();
        names.iter().find(|name| *name == given).or_else(|| names.iter().find(|name| **name == lower))
    };
    known(given).or_else(|| {
        let (bare, _) = given.split_once("<|").unwrap_or((given, ""));
        let bare = bare.trim();
        let (bare, number) = bare.rsplit_once(':').unwrap_or((bare, "0"));
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        known(bare.strip_prefix("functions.").unwrap_or(bare)).filter(|_| is_number)
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_call_means_the_tool_whose_name_is_inside_what_it_says() {
        let names = ["read", "todowrite", "mcp_functions.x", "Big"].map(str::to_owned);
        for (given, tool) in [
            ("read", Some("read")),
            ("Read", Some("read")),
            (" read \n", Some("read")),
            ("functions.read", Some("read")),
            ("functions.Read:0", Some("read")),
            ("read:12", Some("read")),
            ("read<|channel|>commentary", Some("read")),
            ("functions.read <|constrain|>json", Some("read")),
            ("mcp_functions.x", Some("mcp_functions.x")),
            ("Big", Some("Big")),
            ("big", None),
            ("reads", None),
            ("read:all", None),
            ("my.read", None),
            ("<|read", None),
            ("", None),
        ] {
            assert_eq!(meant(&names, given).map(String::as_str), tool, "{given}");
        }
    }
}
