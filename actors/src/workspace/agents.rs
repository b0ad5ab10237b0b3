//! The agents: built-in ones, what config changes about them, and those it adds.
//! Source of names, modes and rules: OpenCode `agent/agent.ts`; the prompts are our own.

use std::borrow::Borrow;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::agent::{Agent, AgentMode};
use protocol::config::{AgentConfig, Config};
use protocol::message::ModelRef;
use protocol::permission::{Action, Rule, Ruleset};

const ALLOW: Action = Action::Allow;
const ASK: Action = Action::Ask;
const DENY: Action = Action::Deny;
/// The agent of prompts where nobody chose one.
const BUILD: &str = "build";

/// What the rules need to know of the place.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Where whole tool outputs are kept.
    pub tool_output: PathBuf,
    /// The top of the project: patterns of files are relative to it.
    pub worktree: PathBuf,
    /// Where agents may put temporary files; none where nothing is to be allowed there.
    pub scratch: Option<PathBuf>,
    /// Directories of skills.
    pub skills: Vec<PathBuf>,
    /// The person's home, for `~` and `$HOME` in patterns.
    pub home: PathBuf,
}

impl Surroundings {
    fn below(directory: &std::path::Path) -> String {
        format!("{}/*", directory.display())
    }
}

/// Returns all agents by name, hidden ones too, in the order clients show them: the default one first, then by name.
/// The config is in its normal form: older spellings are agents and rules already.
pub fn agents(config: &Config, around: &Surroundings) -> IndexMap<String, Arc<Agent>> {
    let defaults = defaults(around);
    let settings = global_rules(config, around);
    let mut agents: IndexMap<String, Agent> = built_in(around)
        .into_iter()
        .map(|(agent, own)| (agent.name.clone(), with_rules(agent, &defaults, own, &settings)))
        .collect();
    for (name, changes) in &config.agent {
        if changes.disable == Some(true) {
            agents.shift_remove(name);
            continue;
        }
        let agent = agents.entry(name.clone()).or_insert_with(|| {
            let agent = Agent { mode: AgentMode::All, ..blank(name) };
            with_rules(agent, &defaults, Vec::new(), &settings)
        });
        change(agent, changes, around);
    }
    for agent in agents.values_mut() {
        // Reading the whole of one's own cut output is never asked about, unless it is denied by name.
        let spill = Surroundings::below(&around.tool_output);
        if !agent
            .permission
            .iter()
            .any(|r| r.permission == "external_directory" && r.pattern == spill && r.action == DENY)
        {
            agent.permission.push(Rule::new("external_directory", spill, ALLOW));
        }
    }
    let first = default_agent(config, &agents).ok();
    agents.sort_by(|a, _, b, _| (first.as_ref() != Some(a), a).cmp(&(first.as_ref() != Some(b), b)));
    agents.into_iter().map(|(name, agent)| (name, Arc::new(agent))).collect()
}

/// Why there is no agent for prompts that name none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefaultError {
    /// The config's is not there.
    #[error("default_agent {0:?} is not known; name a primary agent there")]
    Unknown(String),
    /// The config's is not for persons.
    #[error("default_agent {0:?} is a subagent or hidden; name a primary agent there")]
    NotPrimary(String),
    /// All are switched off.
    #[error("no primary agent is left; every one is disabled in the config")]
    None,
}

/// Returns the agent of prompts that name none: the config's, else `build`, else the first a person may choose.
pub fn default_agent<A: Borrow<Agent>>(config: &Config, agents: &IndexMap<String, A>) -> Result<String, DefaultError> {
    let is_for_persons = |agent: &Agent| agent.mode != AgentMode::Subagent && !agent.hidden;
    if let Some(name) = &config.default_agent {
        let agent = agents.get(name).ok_or_else(|| DefaultError::Unknown(name.clone()))?;
        let named = || DefaultError::NotPrimary(name.clone());
        return is_for_persons(agent.borrow()).then(|| name.clone()).ok_or_else(named);
    }
    if agents.get(BUILD).is_some_and(|agent| is_for_persons(agent.borrow())) {
        return Ok(BUILD.to_owned());
    }
    let first = agents.iter().find(|(_, agent)| is_for_persons((*agent).borrow()));
    first.map(|(name, _)| name.clone()).ok_or(DefaultError::None)
}

fn defaults(around: &Surroundings) -> Ruleset {
    let mut rules = vec![Rule::new("*", "*", ALLOW), Rule::new("doom_loop", "*", ASK)];
    rules.extend(external(around));
    rules.extend([
        Rule::new("question", "*", DENY),
        Rule::new("plan_enter", "*", DENY),
        Rule::new("plan_exit", "*", DENY),
        Rule::new("read", "*", ALLOW),
        Rule::new("read", "*.env", ASK),
        Rule::new("read", "*.env.*", ASK),
        Rule::new("read", "*.env.example", ALLOW),
    ]);
    rules
}

fn external(around: &Surroundings) -> Ruleset {
    let mut rules = vec![
        Rule::new("external_directory", "*", ASK),
        Rule::new("external_directory", Surroundings::below(&around.tool_output), ALLOW),
    ];
    rules.extend(
        around
            .scratch
            .iter()
            .chain(&around.skills)
            .map(|dir| Rule::new("external_directory", Surroundings::below(dir), ALLOW)),
    );
    rules
}

/// Each built-in agent and the rules of its own.
fn built_in(around: &Surroundings) -> Vec<(Agent, Ruleset)> {
    let all_denied = || vec![Rule::new("*", "*", DENY)];
    let mut explore = all_denied();
    explore.extend(["grep", "glob", "list", "bash", "webfetch", "websearch", "read"].map(|p| Rule::new(p, "*", ALLOW)));
    explore.extend(external(around));
    let plans = around.tool_output.with_file_name("plans");
    let own_plans = tools::path::relative(&around.worktree, &plans.join("*.md"));
    vec![
        (
            Agent {
                mode: AgentMode::Primary,
                description: Some("Does the work: reads, edits and runs, as far as the rules let it.".into()),
                ..native("build")
            },
            vec![Rule::new("question", "*", ALLOW), Rule::new("plan_enter", "*", ALLOW)],
        ),
        (
            Agent {
                mode: AgentMode::Primary,
                description: Some("Plans only: every edit is denied.".into()),
                ..native("plan")
            },
            vec![
                Rule::new("question", "*", ALLOW),
                Rule::new("plan_exit", "*", ALLOW),
                Rule::new("task", "general", DENY),
                Rule::new("external_directory", Surroundings::below(&plans), ALLOW),
                Rule::new("edit", "*", DENY),
                Rule::new("edit", ".opencode/plans/*.md", ALLOW),
                Rule::new("edit", own_plans.to_string_lossy(), ALLOW),
            ],
        ),
        (
            Agent {
                mode: AgentMode::Subagent,
                description: Some(
                    "For a task of several steps that can be done on its own, or several of them side by side: \
                     finding out, changing code, running things. It has the same tools, and reports back once."
                        .into(),
                ),
                prompt: Some(include_str!("prompts/general.txt").into()),
                ..native("general")
            },
            vec![Rule::new("todowrite", "*", DENY)],
        ),
        (
            Agent {
                mode: AgentMode::Subagent,
                description: Some(
                    "For looking things up in the project without changing it: where something is done, which files \
                     match a pattern, how parts hang together. Tell it how thorough to be: quick for one look, \
                     medium for some searching, very thorough for several places and spellings."
                        .into(),
                ),
                prompt: Some(include_str!("prompts/explore.txt").into()),
                ..native("explore")
            },
            explore,
        ),
        (hidden("compaction", include_str!("prompts/compaction.txt")), all_denied()),
        (Agent { temperature: Some(0.5), ..hidden("title", include_str!("prompts/title.txt")) }, all_denied()),
        (hidden("summary", include_str!("prompts/summary.txt")), all_denied()),
    ]
}

fn blank(name: &str) -> Agent {
    Agent {
        name: name.into(),
        description: None,
        mode: AgentMode::All,
        native: false,
        hidden: false,
        top_p: None,
        temperature: None,
        color: None,
        permission: Ruleset::new(),
        model: None,
        variant: None,
        prompt: None,
        options: JsonMap::new(),
        steps: None,
    }
}

fn native(name: &str) -> Agent {
    Agent { native: true, ..blank(name) }
}

fn hidden(name: &str, prompt: &str) -> Agent {
    Agent { mode: AgentMode::Primary, hidden: true, prompt: Some(prompt.into()), ..native(name) }
}

fn with_rules(mut agent: Agent, defaults: &Ruleset, own: Ruleset, settings: &Ruleset) -> Agent {
    agent.permission = defaults.iter().cloned().chain(own).chain(settings.iter().cloned()).collect();
    // What talks to nobody and calls nothing stays so, whatever the config says of all agents.
    if agent.hidden && !settings.is_empty() {
        agent.permission.push(Rule::new("*", "*", DENY));
    }
    agent
}

fn change(agent: &mut Agent, changes: &AgentConfig, around: &Surroundings) {
    let set = |to: &mut Option<String>, from: &Option<String>| {
        if from.is_some() {
            to.clone_from(from);
        }
    };
    set(&mut agent.description, &changes.description);
    set(&mut agent.prompt, &changes.prompt);
    set(&mut agent.color, &changes.color);
    set(&mut agent.variant, &changes.variant);
    agent.model = changes.model.as_deref().and_then(ModelRef::parse).or(agent.model.take());
    agent.temperature = changes.temperature.or(agent.temperature);
    agent.top_p = changes.top_p.or(agent.top_p);
    agent.steps = changes.steps.or(changes.max_steps).or(agent.steps);
    agent.mode = changes.mode.unwrap_or(agent.mode);
    agent.hidden = changes.hidden.unwrap_or(agent.hidden);
    agent.options.extend(changes.options.clone());
    agent.permission.extend(expanded(changes.permission.iter().flat_map(|p| p.rules()), around));
}

/// The rules config gives to all agents.
fn global_rules(config: &Config, around: &Surroundings) -> Ruleset {
    expanded(config.permission.iter().flat_map(|p| p.rules()), around).collect()
}

/// `~` and `$HOME` at the start of a pattern stand for the home.
fn expanded(rules: impl Iterator<Item = Rule>, around: &Surroundings) -> impl Iterator<Item = Rule> {
    rules.map(|mut rule| {
        for prefix in ["~", "$HOME"] {
            if let Some(rest) = rule.pattern.strip_prefix(prefix)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                rule.pattern = format!("{}{rest}", around.home.display());
            }
        }
        rule
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::permission_broker::ruleset::deciding;

    fn all(config: serde_json::Value) -> IndexMap<String, Arc<Agent>> {
        let around = Surroundings {
            tool_output: "/data/tool-output".into(),
            worktree: "/work".into(),
            scratch: Some("/tmp/opencode".into()),
            skills: vec!["/work/.opencode/skill/demo".into()],
            home: "/home/ada".into(),
        };
        agents(&serde_json::from_value(config).expect("a config"), &around)
    }

    fn says(agent: &Agent, permission: &str, pattern: &str) -> Action {
        deciding(&agent.permission, permission, pattern).map_or(ASK, |rule| rule.action)
    }

    #[test]
    fn the_built_in_agents_are_there_with_their_modes() {
        let agents = all(json!({}));
        // As OpenCode lists them.
        let listed: Vec<_> = agents.values().map(|a| (a.name.as_str(), a.mode, a.hidden)).collect();
        assert_eq!(
            listed,
            [
                ("build", AgentMode::Primary, false),
                ("compaction", AgentMode::Primary, true),
                ("explore", AgentMode::Subagent, false),
                ("general", AgentMode::Subagent, false),
                ("plan", AgentMode::Primary, false),
                ("summary", AgentMode::Primary, true),
                ("title", AgentMode::Primary, true),
            ]
        );
    }

    #[test]
    fn defaults_ask_for_secrets_and_foreign_directories_and_plan_edits_only_plans() {
        let agents = all(json!({}));
        let build = &agents["build"];
        assert_eq!(says(build, "bash", "rm -rf x"), ALLOW);
        assert_eq!(says(build, "read", "a/.env"), ASK);
        assert_eq!(says(build, "read", ".env.example"), ALLOW);
        assert_eq!(says(build, "external_directory", "/etc/*"), ASK);
        for allowed in ["/data/tool-output/*", "/tmp/opencode/*", "/work/.opencode/skill/demo/*"] {
            assert_eq!(says(build, "external_directory", allowed), ALLOW);
        }
        assert_eq!(says(build, "question", "*"), ALLOW);
        assert_eq!(says(&agents["plan"], "edit", "src/x"), DENY);
        assert_eq!(says(&agents["plan"], "edit", ".opencode/plans/a.md"), ALLOW);
        assert_eq!(says(&agents["plan"], "edit", "../data/plans/a.md"), ALLOW);
        assert_eq!(says(&agents["explore"], "edit", "x"), DENY);
    }

    #[test]
    fn config_changes_all_agents_but_the_hidden_and_then_single_ones() {
        let agents = all(json!({
            "permission": { "bash": "ask", "external_directory": { "~/notes/*": "allow" } },
            "agent": {
                "build": { "permission": { "bash": "allow" }, "steps": 7, "model": "a/b" },
                "rev": { "description": "reviews", "mode": "subagent", "prompt": "You review." },
                "general": { "disable": true },
            },
        }));
        assert_eq!(says(&agents["plan"], "bash", "ls"), ASK);
        assert_eq!(says(&agents["build"], "bash", "ls"), ALLOW);
        assert_eq!(says(&agents["title"], "bash", "ls"), DENY, "a rule for all does not open what is closed");
        assert_eq!(says(&agents["build"], "external_directory", "/home/ada/notes/x"), ALLOW);
        assert_eq!(
            (agents["build"].steps, agents["build"].model.as_ref().map(|m| m.model_id.as_str())),
            (Some(7), Some("b"))
        );
        assert_eq!(agents["rev"].prompt.as_deref(), Some("You review."));
        assert!(!agents.contains_key("general"));
    }

    #[test]
    fn the_default_agent_is_one_a_person_may_choose() {
        let default = |config: serde_json::Value| {
            let agents = all(config.clone());
            default_agent(&serde_json::from_value(config).expect("a config"), &agents)
        };
        assert_eq!(default(json!({})), Ok("build".into()));
        assert_eq!(default(json!({ "default_agent": "plan" })), Ok("plan".into()));
        assert_eq!(default(json!({ "agent": { "build": { "disable": true } } })), Ok("plan".into()));
        assert_eq!(default(json!({ "default_agent": "zzz" })), Err(DefaultError::Unknown("zzz".into())));
        assert_eq!(default(json!({ "default_agent": "explore" })), Err(DefaultError::NotPrimary("explore".into())));
        let off = json!({ "agent": { "build": { "disable": true }, "plan": { "disable": true } } });
        assert_eq!(default(off), Err(DefaultError::None));
    }
}
