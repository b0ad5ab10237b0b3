//! `skill`: gives the model the text of a skill, and where skills are found.
//!
//! A skill is a directory with a `SKILL.md`: front matter with its name and description, then its text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use ignore::WalkBuilder;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::load::load;
use crate::files::looking;
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

/// The tool's name.
const ID: &str = "skill";
/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";
/// The largest `SKILL.md`, in bytes.
const MAX_FILE: usize = 1024 * 1024;
/// How deep below a place of skills they are looked for.
const MAX_DEPTH: usize = 6;
/// Most entries of one place that are looked at, and how long.
const MAX_ENTRIES: usize = 20_000;
const TIME: Duration = Duration::from_secs(2);
/// Most files of a skill that are named to the model.
const MAX_FILES: usize = 10;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// What the model calls it by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its `SKILL.md`, absolute.
    pub location: String,
    /// Its text, without the front matter.
    pub content: String,
}

/// Where skills are looked for.
#[derive(Clone, Debug, Default)]
pub struct SkillPlaces {
    /// The session's directory.
    pub directory: PathBuf,
    /// The top of its repository; every directory from the session's up to it counts.
    pub worktree: PathBuf,
    /// The directory of the global config.
    pub config_home: Option<PathBuf>,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// More directories, from the config; relative ones count from `directory`, `~` is the home.
    pub extra: Vec<PathBuf>,
}

/// The skills that were found, and what was wrong with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// By name, in order.
    pub skills: Vec<Skill>,
    /// One line each, for the person.
    pub warnings: Vec<String>,
}

impl SkillPlaces {
    /// Finds all skills. Of several with one name the nearest to the session's directory counts: the project's before
    /// those of the config, before the person's own. Blocks for some directories.
    pub fn discover(&self) -> Skills {
        let mut found: BTreeMap<String, Skill> = BTreeMap::new();
        let mut warnings = Vec::new();
        let mut seen: Vec<PathBuf> = Vec::new();
        for place in self.places() {
            for file in skill_files(&place) {
                // Reached twice, by a link or by two of the places.
                let real = crate::path::real_path(&file).unwrap_or_else(|_| file.clone());
                if seen.contains(&real) {
                    continue;
                }
                seen.push(real.clone());
                match read(&file, &real) {
                    Err(problem) => warnings.push(format!("{} is left out: {problem}", file.display())),
                    Ok(skill) => match found.get(&skill.name) {
                        Some(first) => warnings.push(format!(
                            "{} is left out: {} has the same name",
                            file.display(),
                            first.location
                        )),
                        None => drop(found.insert(skill.name.clone(), skill)),
                    },
                }
            }
        }
        Skills { skills: found.into_values().collect(), warnings }
    }

    /// Returns the directories to look in, the one that counts most first.
    fn places(&self) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for directory in self.directory.ancestors() {
            places.extend(
                [".opencode/skill", ".opencode/skills", ".claude/skills", ".agents/skills"]
                    .map(|below| directory.join(below)),
            );
            if directory == self.worktree || !directory.starts_with(&self.worktree) || self.worktree == Path::new("/") {
                break;
            }
        }
        places.extend(self.extra.iter().map(|path| match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => self.directory.join(path),
        }));
        places.extend(self.config_home.iter().flat_map(|config| ["skill", "skills"].map(|below| config.join(below))));
        places.extend(
            self.home.iter().flat_map(|home| [".claude/skills", ".agents/skills"].map(|below| home.join(below))),
        );
        places
    }
}

/// Returns each `SKILL.md` in a place, in order. Links are followed: people link their skills in.
fn skill_files(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        return Vec::new();
    }
    let began = Instant::now();
    let mut walk = WalkBuilder::new(place);
    walk.standard_filters(false).follow_links(true).max_depth(Some(MAX_DEPTH)).sort_by_file_name(Ord::cmp);
    walk.filter_entry(|entry| entry.file_name() != ".git" && entry.file_name() != "node_modules");
    let entries = walk.build().take(MAX_ENTRIES).take_while(|_| began.elapsed() < TIME).flatten();
    let files = entries.filter(|entry| entry.file_name() == FILE && entry.file_type().is_some_and(|t| t.is_file()));
    files.map(ignore::DirEntry::into_path).collect()
}

fn read(file: &Path, real: &Path) -> Result<Skill, String> {
    let loaded = load(real, file, MAX_FILE, &CancellationToken::new()).map_err(|error| error.to_string())?;
    let text = loaded.and_then(|loaded| crate::text::shown(&loaded.bytes)).ok_or("it is not a text file")?;
    let text = crate::text::lines::unify(&text);
    let (matter, content) = front_matter(&text).ok_or("it has no front matter between lines of `---`")?;
    let matter = Matter::parse(matter)?;
    let demand = |field: Option<String>, name: &str| {
        field.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).ok_or(format!("it has no {name}"))
    };
    Ok(Skill {
        name: demand(matter.name, "name")?,
        description: demand(matter.description, "description")?,
        location: file.to_string_lossy().into_owned(),
        content: content.trim_start_matches('\n').to_owned(),
    })
}

/// Returns the front matter of a text and what comes after it.
fn front_matter(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?.trim_start_matches([' ', '\t']).strip_prefix('\n')?;
    if let Some(after) = rest.strip_prefix("---\n") {
        return Some(("", after));
    }
    let (matter, after) = rest.split_once("\n---")?;
    let (dashes, content) = after.split_once('\n').unwrap_or((after, ""));
    dashes.trim().is_empty().then_some((matter, content))
}

/// What is needed of the front matter; it may hold more.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Matter {
    name: Option<String>,
    description: Option<String>,
}

impl Matter {
    fn parse(text: &str) -> Result<Self, String> {
        match serde_saphyr::from_str(text) {
            Ok(matter) => Ok(matter),
            // Much front matter is not YAML, but meant as `name: text` with a colon in the text.
            Err(error) => {
                let field = |name: &str| {
                    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim();
                    let is_plain = !value.is_empty() && !value.starts_with(['|', '>', '[', '{', '&', '*']);
                    is_plain.then(|| value.trim_matches(['"', '\'']).to_owned())
                };
                let plain = Self { name: field("name"), description: field("description") };
                match plain {
                    Self { name: Some(_), description: Some(_) } => Ok(plain),
                    _ => Err(format!("its front matter is not YAML ({})", first_line(&error.to_string()))),
                }
            }
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

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
    let location = Path::new(&skill.location);
    let directory = location.parent().unwrap_or(location);
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
    let output = format!(
        "<skill_content name=\"{}\">\n# Skill: {}\n\n{}\n\nBase directory of this skill: {}\n\
         Relative paths in it (scripts, references) count from there.\n\n\
         <skill_files>\n{}\n</skill_files>\n</skill_content>",
        skill.name,
        skill.name,
        skill.content.trim(),
        directory.display(),
        files.join("\n")
    );
    let metadata = json!({"name": skill.name, "dir": directory.to_string_lossy()});
    ToolOutput::new(format!("Loaded skill: {}", skill.name), output, metadata)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::context;
    use crate::tool::AnyTool;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn skill(name: &str) -> String {
        format!("---\nname: {name}\ndescription: what {name} is for\n---\nBody of {name}.\n")
    }

    #[test]
    fn skills_are_found_from_the_directory_up_and_at_home() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, "w/.opencode/skill/demo/SKILL.md", &skill("demo"));
        write(&root, "w/sub/.claude/skills/deep/er/SKILL.md", &skill("deep"));
        write(&root, "w/.agents/skills/demo/SKILL.md", &skill("demo"));
        write(&root, "config/skills/global/SKILL.md", &skill("global"));
        write(&root, "home/.claude/skills/own/SKILL.md", &skill("own"));
        write(&root, "more/x/SKILL.md", &skill("extra"));
        write(&root, ".opencode/skill/above/SKILL.md", &skill("above"));
        let places = SkillPlaces {
            directory: root.join("w/sub"),
            worktree: root.join("w"),
            config_home: Some(root.join("config")),
            home: Some(root.join("home")),
            extra: vec!["../../more".into()],
        };
        let found = places.discover();
        let names: Vec<&str> = found.skills.iter().map(|skill| &*skill.name).collect();
        assert_eq!(names, ["deep", "demo", "extra", "global", "own"]);
        let demo = Skill {
            name: "demo".into(),
            description: "what demo is for".into(),
            location: root.join("w/.opencode/skill/demo/SKILL.md").display().to_string(),
            content: "Body of demo.\n".into(),
        };
        assert_eq!(found.skills[1], demo);
        assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    }

    #[test]
    fn broken_skills_are_left_out_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| format!(".opencode/skill/{name}/SKILL.md");
        write(&root, &at("a"), "no front matter");
        write(&root, &at("b"), "---\nname: b\n---\nx");
        write(&root, &at("c"), "---\nname: [\n---\nx");
        write(&root, &at("d"), "---\nname: d\ndescription: Use when: it has a colon\n---\n\nx");
        write(
            &root,
            &at("e"),
            "\u{FEFF}---\r\nname: e\r\ndescription: >\r\n  two\r\n  lines\r\nlicense: MIT\r\n---\r\nx\r\n",
        );
        let found = SkillPlaces { directory: root.clone(), worktree: root, ..Default::default() }.discover();
        let got: Vec<(&str, &str, &str)> =
            found.skills.iter().map(|s| (&*s.name, &*s.description, &*s.content)).collect();
        assert_eq!(got, [("d", "Use when: it has a colon", "x"), ("e", "two lines", "x\n")]);
        let warnings = found.warnings.join("\n");
        for words in ["no front matter", "no description", "not YAML"] {
            assert!(warnings.contains(words), "{warnings}");
        }
    }

    #[tokio::test]
    async fn a_skill_is_given_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, ".opencode/skill/demo/SKILL.md", &skill("demo"));
        write(&root, ".opencode/skill/demo/scripts/run.sh", "");
        let found = SkillPlaces { directory: root.clone(), worktree: root.clone(), ..Default::default() }.discover();
        let tool = LoadSkill::new(Arc::new(found.skills));
        let (cx, desk) = context(&root);
        let call = |name: &str| {
            let serde_json::Value::Object(input) = json!({"name": name}) else { unreachable!() };
            AnyTool::run(&tool, input, &cx)
        };
        let output = call("demo").await.unwrap();
        let base = root.join(".opencode/skill/demo").display().to_string();
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
}
