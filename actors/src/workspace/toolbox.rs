//! All tools there are. Which of them a step offers is decided then.

use std::sync::Arc;

use indexmap::IndexMap;
use protocol::agent::Agent;
use protocol::skill::Skill;
use tools::AnyTool;

use super::flags::Flags;

/// Returns all tools, by name.
pub fn toolbox(
    agents: &IndexMap<String, Arc<Agent>>,
    skills: &Arc<Vec<Skill>>,
    flags: &Flags,
) -> Vec<Arc<dyn AnyTool>> {
    let mut tools: Vec<Arc<dyn AnyTool>> = vec![
        Arc::new(tools::apply_patch::ApplyPatch),
        Arc::new(tools::bash::Bash),
        Arc::new(tools::codesearch::CodeSearch::new(flags.search.clone())),
        Arc::new(tools::edit::Edit),
        Arc::new(tools::glob::Glob),
        Arc::new(tools::grep::Grep),
        Arc::new(tools::question::AskPerson),
        Arc::new(tools::read::Read),
        Arc::new(tools::skill::LoadSkill::new(skills.clone())),
        Arc::new(tools::task::Task::new(agents.values().map(AsRef::as_ref))),
        Arc::new(tools::todowrite::TodoWrite),
        Arc::new(tools::webfetch::WebFetch),
        Arc::new(tools::websearch::WebSearch::new(flags.search.clone())),
        Arc::new(tools::write::Write),
    ];
    if flags.todoread {
        tools.push(Arc::new(tools::todoread::TodoRead));
    }
    if flags.plan_mode {
        tools.push(Arc::new(tools::plan::PlanEnter));
        tools.push(Arc::new(tools::plan::PlanExit));
    }
    if let Some(clones) = &flags.clones {
        tools.push(Arc::new(tools::repo_clone::RepoClone::new(clones.clone())));
        tools.push(Arc::new(tools::repo_overview::RepoOverview::new(clones.clone())));
    }
    if flags.lsp_tool {
        tools.push(Arc::new(tools::lsp::Lsp));
    }
    if flags.batch {
        tools.push(Arc::new(tools::batch::Batch::new(&tools)));
    }
    tools.sort_by(|a, b| a.id().cmp(b.id()));
    tools
}
