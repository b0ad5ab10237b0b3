//! The system prompt of a step. Pure.

use chrono::{DateTime, Utc};
use protocol::message::UserMessage;
use protocol::provider::Model;

use crate::workspace::Setup;
use protocol::agent::Agent;

/// The prompt of agents that have none of their own.
const BUILD: &str = include_str!("../workspace/prompts/build.txt");
/// Told with the last prompt while the plan agent answers.
const PLAN: &str = include_str!("../workspace/prompts/plan.txt");

/// Told at the last step that an agent may make.
const LAST_STEP: &str = include_str!("../workspace/prompts/last_step.txt");

/// Returns the system prompt: the agent's, the environment, the project's instructions, the prompt's own.
pub fn system_prompt(setup: &Setup, agent: &Agent, model: &Model, user: &UserMessage, now_ms: u64) -> Vec<String> {
    let mut prompt = agent.prompt.clone().unwrap_or_else(|| BUILD.to_owned());
    prompt.push('\n');
    prompt.push_str(&environment(setup, model, now_ms));
    for instruction in &setup.instructions {
        prompt.push_str(&format!(
            "\nInstructions from: {}\n{}\n",
            instruction.path.display(),
            instruction.text.trim_end()
        ));
    }
    let mut system = vec![prompt];
    system.extend(user.system.clone().filter(|text| !text.trim().is_empty()));
    system
}

/// Returns what is told with the last prompt, for one request only.
pub fn reminder(agent: &Agent, is_last_step: bool) -> Option<String> {
    let told = [(agent.name == "plan").then_some(PLAN), is_last_step.then_some(LAST_STEP)];
    let told: Vec<&str> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join("\n"))
}

fn environment(setup: &Setup, model: &Model, now_ms: u64) -> String {
    let date = DateTime::<Utc>::from_timestamp_millis(now_ms as i64).unwrap_or_default().format("%A, %-d %B %Y");
    format!(
        "<env>\nModel: {}/{}\nWorking directory: {}\nTop of the project: {}\nGit repository: {}\nPlatform: {}\nToday: {date}\n</env>\n",
        model.provider_id,
        model.api.id,
        setup.directory.display(),
        setup.identity.worktree.display(),
        if setup.identity.is_repository { "yes" } else { "no" },
        std::env::consts::OS,
    )
}
