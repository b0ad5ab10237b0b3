//! `skill`: gives the model the text of a skill.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use ignore::WalkBuilder;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use protocol::skill::Skill;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::looking;
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

/// The tool's name, and the permission it asks for.
pub const ID: &str = "skill";
/// The file that is the skill itself.
const FILE: &str = "SKILL.md";
/// Most entries of a skill's directory that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// Most files of a skill that are named to the model.
const MAX_FILES: usize = 10;

/// Gives the model the text of a skill.
#[derive(Clone, Debug, Default)]
pub struct LoadSkill {
    skills: Arc<Vec<Skill>>,
}

impl LoadSkill {
    /// Returns a tool that knows these skills.
    pub fn new(skills: Arc<Vec<Skill>>) -> Self {
        Self { skills }
    }
}

/// The arguments of [`LoadSkill`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct SkillInput {
    /// The name of the skill, as it is listed
    name: String,
}

impl LoadSkill {
    async fn load(&self, input: SkillInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(skill) = self.skills.iter().find(|skill| skill.name == input.name) else {
            let names: Vec<&str> = self.skills.iter().map(|skill| &*skill.name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(ToolError::failed(format!("Skill \"{}\" not found. Available skills: {names}", input.name)));
        };
        let name = skill.name.clone();
        cx.ask(Ask::new(ID, vec![name.clone()], vec![name], JsonMap::new())).await?;
        let skill = skill.clone();
        looking(cx, move |_| Ok(show(&skill))).await
    }
}

impl AnyTool for LoadSkill {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        self.spec_under(&|_| false)
    }

    fn spec_under(&self, is_denied: &dyn Fn(&str) -> bool) -> ToolSpec {
        let mut description = include_str!("skill.txt").trim_end().to_owned();
        let there: Vec<&Skill> = self.skills.iter().filter(|skill| !is_denied(&skill.name)).collect();
        description.push_str(if there.is_empty() { "\n\nThere are none here." } else { "\n\nThe skills there are:" });
        for skill in there {
            description.push_str(&format!("\n- {}: {}", skill.name, skill.description));
        }
        ToolSpec { name: ID.into(), description, parameters: schema::<SkillInput>() }
    }

    fn traits(&self) -> Traits {
        Traits::reading(ID)
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.load(arguments(ID, Value::Object(input))?, cx).await })
    }
}

fn show(skill: &Skill) -> ToolOutput {
    let mut output =
        format!("<skill_content name=\"{}\">\n# Skill: {}\n\n{}\n\n", skill.name, skill.name, skill.content.trim());
    let directory = skill.directory();
    if let Some(directory) = directory {
        output.push_str(&format!(
            "Base directory of this skill: {}\nRelative paths in it (scripts, references) count from there.\n\n\
             <skill_files>\n{}\n</skill_files>\n",
            directory.display(),
            files(directory).join("\n")
        ));
    }
    output.push_str("</skill_content>");
    let metadata = json!({"name": skill.name, "dir": directory.map(|d| d.to_string_lossy()).unwrap_or_default()});
    ToolOutput::new(format!("Loaded skill: {}", skill.name), output, metadata)
}

/// The files that belong to a skill, some of them.
fn files(directory: &Path) -> Vec<String> {
    let mut files: Vec<String> = WalkBuilder::new(directory)
        .standard_filters(false)
        .hidden(true)
        .sort_by_file_name(Ord::cmp)
        .build()
        .take(MAX_ENTRIES)
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|t| t.is_file()) && entry.file_name() != FILE)
        .take(MAX_FILES + 1)
        .map(|entry| format!("<file>{}</file>", entry.path().display()))
        .collect();
    if files.len() > MAX_FILES {
        files.truncate(MAX_FILES);
        files.push("There are more; list the base directory to see them.".into());
    }
    files
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::context;

    fn skill(location: String) -> Skill {
        let description = "what demo is for".into();
        Skill { name: "demo".into(), description, location, content: "Body of demo.\n".into() }
    }

    #[tokio::test]
    async fn a_skill_is_given_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let base = root.join(".opencode/skill/demo");
        std::fs::create_dir_all(base.join("scripts")).unwrap();
        std::fs::write(base.join("SKILL.md"), "").unwrap();
        std::fs::write(base.join("scripts/run.sh"), "").unwrap();
        let tool = LoadSkill::new(Arc::new(vec![skill(base.join("SKILL.md").display().to_string())]));
        let (cx, desk) = context(&root);
        let call = |name: &str| {
            let serde_json::Value::Object(input) = json!({"name": name}) else { unreachable!() };
            AnyTool::run(&tool, input, &cx)
        };
        let output = call("demo").await.unwrap();
        let base = base.display().to_string();
        assert_eq!(output.title, "Loaded skill: demo");
        assert_eq!(output.metadata, ToolOutput::new("", "", json!({"name": "demo", "dir": base})).metadata);
        assert!(output.output.starts_with("<skill_content name=\"demo\">\n# Skill: demo\n\nBody of demo.\n\n"));
        assert!(output.output.ends_with(&format!(
            "<skill_files>\n<file>{base}/scripts/run.sh</file>\n</skill_files>\n</skill_content>"
        )));
        assert_eq!((&*desk.asks()[0].permission, &desk.asks()[0].patterns), ("skill", &vec!["demo".into()]));
        let error = call("nope").await.unwrap_err().to_string();
        assert_eq!(error, "Skill \"nope\" not found. Available skills: demo");
    }

    #[test]
    fn one_that_comes_with_the_program_has_no_files() {
        let output = show(&skill(protocol::skill::BUILT_IN.into()));
        assert_eq!(output.output, "<skill_content name=\"demo\">\n# Skill: demo\n\nBody of demo.\n\n</skill_content>");
    }
}
