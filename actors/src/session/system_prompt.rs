//! The system prompt of a step. Pure.
//!
//! In this order: the agent's prompt, or the runtime's with what suits the model's family; the environment; the
//! skills there are; what MCP servers say of themselves; the project's and the person's instructions; the prompt's
//! own.

use chrono::{DateTime, Utc};
use protocol::agent::Agent;
use protocol::message::UserMessage;
use protocol::provider::Model;
use protocol::{Action, Rule};

use tools::skill;

use crate::permission_broker::ruleset::{deciding, forbids_tool};
use crate::workspace::Setup;
use crate::workspace::sources::Guide;

/// The prompt of agents that have none of their own.
const BUILD: &str = include_str!("../workspace/prompts/build.txt");
/// Told with the last prompt while the plan agent answers.
const PLAN: &str = include_str!("../workspace/prompts/plan.txt");

/// Told at the last step that an agent may make.
const LAST_STEP: &str = include_str!("../workspace/prompts/last_step.txt");

/// What a system prompt is made of.
pub struct Told<'a> {
    /// What is known of the directory.
    pub setup: &'a Setup,
    /// Who answers.
    pub agent: &'a Agent,
    /// The model.
    pub model: &'a Model,
    /// The rules of the session and the agent.
    pub rules: &'a [Rule],
    /// The prompt.
    pub user: &'a UserMessage,
    /// What is said about tools that come and go.
    pub guides: &'a [&'a Guide],
    /// The time, in ms since the Unix epoch.
    pub now_ms: u64,
}

/// Returns the system prompt: one text, and the prompt's own after it.
pub fn system_prompt(told: &Told<'_>) -> Vec<String> {
    let mut prompt = match &told.agent.prompt {
        Some(own) => own.clone(),
        None => format!("{BUILD}\n{}", family(&told.model.api.id)),
    };
    prompt.push('\n');
    prompt.push_str(&environment(told.setup, told.model, told.now_ms));
    prompt.push_str(&skills(told));
    for guide in told.guides {
        prompt.push_str(&format!(
            "
Instructions of {}, for its tools:
{}
",
            guide.from,
            guide.text.trim()
        ));
    }
    for instruction in &told.setup.instructions {
        prompt.push_str(&format!("\nInstructions from: {}\n{}\n", instruction.source, instruction.text.trim_end()));
    }
    let mut system = vec![prompt];
    system.extend(told.user.system.clone().filter(|text| !text.trim().is_empty()));
    system
}

/// Returns what is told with the last prompt, for one request only.
pub fn reminder(agent: &Agent, is_last_step: bool) -> Option<String> {
    let told = [(agent.name == "plan").then_some(PLAN), is_last_step.then_some(LAST_STEP)];
    let told: Vec<&str> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

/// Returns what suits a model's family, by its name on the wire.
/// Source of the families: OpenCode `session/system.ts`; the texts are our own.
fn family(model: &str) -> &'static str {
    let model = model.to_ascii_lowercase();
    let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
    let has_word = |names: &[&str]| model.split(|c: char| !c.is_alphanumeric()).any(|word| names.contains(&word));
    if is(&["codex"]) {
        include_str!("../workspace/prompts/family/codex.txt")
    } else if is(&["gpt-oss"]) {
        include_str!("../workspace/prompts/family/open.txt")
    } else if is(&["gpt-4"]) || has_word(&["o1", "o3", "o4"]) {
        include_str!("../workspace/prompts/family/reasoning.txt")
    } else if is(&["gpt-"]) {
        include_str!("../workspace/prompts/family/gpt.txt")
    } else if is(&["gemini"]) {
        include_str!("../workspace/prompts/family/gemini.txt")
    } else if is(&["claude"]) {
        include_str!("../workspace/prompts/family/claude.txt")
    } else {
        include_str!("../workspace/prompts/family/open.txt")
    }
}

fn environment(setup: &Setup, model: &Model, now_ms: u64) -> String {
    let date = DateTime::<Utc>::from_timestamp_millis(now_ms as i64).unwrap_or_default().format("%A, %-d %B %Y");
    format!(
        "<env>\nModel: {}/{}\nWorking directory: {}\nTop of the project: {}\nGit repository: {}\nTemporary files: {}\nPlatform: {}\nToday: {date}\n</env>\n",
        model.provider_id,
        model.api.id,
        setup.directory.display(),
        setup.identity.worktree.display(),
        if setup.identity.is_repository { "yes" } else { "no" },
        std::env::temp_dir().join("opencode").display(),
        std::env::consts::OS,
    )
}

/// The skills the rules don't deny; nothing where the tool that loads them isn't offered.
fn skills(told: &Told<'_>) -> String {
    let is_offered = !forbids_tool(told.rules, skill::ID, skill::ID);
    let denied = |name: &str| deciding(told.rules, skill::ID, name).is_some_and(|rule| rule.action == Action::Deny);
    let listed: Vec<String> = told
        .setup
        .skills
        .iter()
        .filter(|skill| is_offered && !denied(&skill.name))
        .map(|skill| format!("- {}: {}\n", skill.name, one_line(&skill.description)))
        .collect();
    if listed.is_empty() {
        return String::new();
    }
    format!(
        "\n<available_skills>\nLoad one of these with the skill tool before you begin work that it is for.\n{}</available_skills>\n",
        listed.concat()
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
