//! All tools there are. Which of them a step offers is decided then.

use std::sync::Arc;

use indexmap::IndexMap;
use protocol::agent::Agent;
use tools::AnyTool;
use tools::skill::Skill;

/// Returns all tools, by name.
pub fn toolbox(agents: &IndexMap<String, Arc<Agent>>, skills: &Arc<Vec<Skill>>) -> Vec<Arc<dyn AnyTool>> {
    let mut tools: Vec<Arc<dyn AnyTool>> = vec![
        Arc::new(tools::bash::Bash),
        Arc::new(tools::edit::Edit),
        Arc::new(tools::glob::Glob),
        Arc::new(tools::grep::Grep),
        Arc::new(tools::question::AskPerson),
        Arc::new(tools::read::Read),
        Arc::new(tools::skill::LoadSkill::new(skills.clone())),
        Arc::new(tools::task::Task::new(agents.values().map(AsRef::as_ref))),
        Arc::new(tools::todowrite::TodoWrite),
        Arc::new(tools::webfetch::WebFetch),
        Arc::new(tools::write::Write),
    ];
    tools.sort_by(|a, b| a.id().cmp(b.id()));
    tools
}
