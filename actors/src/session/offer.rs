//! What a step asks of the model, and what it offers to it.

use std::sync::Arc;

use protocol::agent::Agent;
use protocol::message::OutputFormat;
use protocol::model::{ModelRequest, Reasoning, ToolChoice, ToolSpec};
use protocol::provider::Model;
use tools::AnyTool;

use super::Session;
use super::compaction::carried::carried;
use super::compaction::view::View;
use super::compaction::window::{Filling, room_for_answer};
use super::history::Entry;
use super::request::{Target, compile};
use super::system_prompt::{Told, reminder, system_prompt};
use crate::permission_broker::ruleset;
use crate::workspace::sources::Guide;
use crate::workspace::{Answerer, Setup, Toolkit};

/// Most tokens of an answer where the model's own limit is higher or unknown.
const MAX_OUTPUT_TOKENS: u64 = 32_000;

/// Makes a request from a history.
pub(super) type RequestFrom = Arc<dyn Fn(&[Entry]) -> ModelRequest + Send + Sync>;

impl Session {
    /// What makes the step's request, off the arbiter.
    pub(super) fn request_of(
        &self,
        setup: &Arc<Setup>,
        answerer: &Answerer,
        user: &protocol::UserMessage,
    ) -> Arc<dyn Fn() -> ModelRequest + Send + Sync> {
        let (history, make) = (self.state.history.clone(), self.request_from(setup, answerer, user));
        Arc::new(move || make(history.entries()))
    }

    /// The same, for what plugins make of the history.
    pub(super) fn request_from(
        &self,
        setup: &Arc<Setup>,
        answerer: &Answerer,
        user: &protocol::UserMessage,
    ) -> RequestFrom {
        let unseen = self.unseen();
        let (setup, answerer, user) = (setup.clone(), answerer.clone(), user.clone());
        let (session_id, parent_id) = (self.id.clone(), self.state.info.parent_id.clone());
        let (toolkit, rules) = (self.state.toolkit.clone(), self.rules(&answerer.agent));
        let now = self.now();
        let steps = self.steps();
        Arc::new(move |history| {
            let (agent, model) = (&*answerer.agent, &*answerer.chosen.model);
            let guides = guides(&toolkit, &rules, model);
            let told = Told { setup: &setup, agent, model, rules: &rules, user: &user, guides: &guides, now_ms: now };
            let mut system = system_prompt(&told);
            let carried = carried(&View::of(history), carried_bytes(model));
            if let (Some(first), Some(carried)) = (system.first_mut(), carried) {
                first.push_str(&format!("\n{carried}\n"));
            }
            let reminder = reminder(agent, is_last(agent, steps));
            let target = Target { model, unseen: &unseen, reminder: reminder.as_deref() };
            let mut options = model.options.clone();
            options.extend(agent.options.clone());
            options.extend(answerer.chosen.variant.clone());
            let mut request = ModelRequest {
                session_id: session_id.clone(),
                parent_id: parent_id.clone(),
                model: model.api.id.clone(),
                system,
                messages: compile(history, &target),
                tools: offered(&toolkit, &rules, model).map(|tool| spec(tool, &rules)).collect::<Vec<ToolSpec>>(),
                tool_choice: match user.format {
                    Some(OutputFormat::JsonSchema { .. }) => ToolChoice::Required,
                    _ => ToolChoice::Auto,
                },
                max_output_tokens: output_limit(model),
                temperature: agent.temperature.filter(|_| model.capabilities.temperature),
                top_p: agent.top_p,
                reasoning: Reasoning::of(&model.capabilities),
                options,
                headers: model.headers.clone(),
            };
            let size = Filling::of(&request).total();
            request.max_output_tokens = room_for_answer(request.max_output_tokens, model.limit.context, size);
            request
        })
    }
}

/// Whether a step is the last one the agent may make in a turn; `steps` counts it.
pub(super) fn is_last(agent: &Agent, steps: u32) -> bool {
    agent.steps.is_some_and(|limit| steps >= limit)
}

/// Why no more is done.
pub(super) fn limit_reached(agent: &Agent) -> String {
    let (name, limit) = (&agent.name, agent.steps.unwrap_or_default());
    format!("The agent {name} may make {limit} steps in a turn (agent.{name}.steps), and has. Prompt again to go on.")
}

/// The tools a step offers: those that suit the model (it knows either patches or edit and write) and that the rules
/// don't forbid.
pub(super) fn offered<'a>(
    toolkit: &'a Toolkit,
    rules: &'a [protocol::Rule],
    model: &'a Model,
) -> impl Iterator<Item = &'a Arc<dyn AnyTool>> {
    toolkit
        .tools
        .iter()
        .filter(|tool| tool.suits(model))
        .filter(|tool| !ruleset::forbids_tool(rules, tool.id(), tool.permission()))
}

/// What the model is told of a tool: of subagents and skills only those it may use.
fn spec(tool: &Arc<dyn AnyTool>, rules: &[protocol::Rule]) -> ToolSpec {
    let permission = tool.traits().permission;
    let is_denied = |pattern: &str| {
        ruleset::deciding(rules, permission, pattern).is_some_and(|rule| rule.action == protocol::Action::Deny)
    };
    tool.spec_under(&is_denied)
}

/// What the model is told about tools that come and go, where it is offered one of them.
fn guides<'a>(toolkit: &'a Toolkit, rules: &[protocol::Rule], model: &Model) -> Vec<&'a Guide> {
    let is_about = |guide: &Guide, tool: &str| guide.about.iter().any(|name| name == tool);
    let guides = toolkit.guides.iter().filter(|guide| !guide.text.trim().is_empty());
    guides.filter(|guide| offered(toolkit, rules, model).any(|tool| is_about(guide, tool.id()))).collect()
}

/// An eighth of the window, at four bytes a token.
fn carried_bytes(model: &Model) -> usize {
    match model.limit.context {
        0 => usize::MAX,
        tokens => usize::try_from(tokens / 2).unwrap_or(usize::MAX),
    }
}

/// Returns the most tokens of an answer: no more than the half of the window where that is known.
pub(super) fn output_limit(model: &Model) -> u64 {
    let limit = match model.limit.output {
        0 => MAX_OUTPUT_TOKENS,
        limit => limit.min(MAX_OUTPUT_TOKENS),
    };
    match model.limit.context {
        0 => limit,
        context => limit.min(context / 2).max(1),
    }
}
