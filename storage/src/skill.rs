//! Where skills are found. A skill is a directory with a `SKILL.md`: front matter with its name and description, then
//! its text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol::skill::{BUILT_IN, Skill};

use crate::stamps::Stamps;
use crate::{markdown, walk};

/// The file that makes a directory a skill.
const FILE: &str = "SKILL.md";
/// How deep below a place of skills they are looked for.
const MAX_DEPTH: usize = 6;
/// The skill that comes with the program.
const CUSTOMIZE: &str = include_str!("skill/customize.md");

/// Where skills are looked for.
#[derive(Clone, Debug, Default)]
pub struct SkillPlaces {
    /// The session's directory.
    pub directory: PathBuf,
    /// The top of its repository; every directory from the session's up to it counts.
    pub worktree: PathBuf,
    /// Config directories beyond those of the project, from weak to strong.
    pub config: Vec<PathBuf>,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// More directories, from the config; relative ones count from `directory`, `~` is the home.
    pub extra: Vec<PathBuf>,
    /// Whether `.claude/skills` count.
    pub claude: bool,
    /// Whether `.agents/skills` count.
    pub agents: bool,
}

/// The skills that were found, and what was wrong with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skills {
    /// By name, in order.
    pub skills: Vec<Skill>,
    /// One line each, for the person.
    pub warnings: Vec<String>,
    /// What was looked at.
    pub seen: Stamps,
}

impl SkillPlaces {
    /// Finds all skills. Of several with one name the nearest to the session's directory counts: the project's before
    /// those of the config, before the person's own, before that of the program. Blocks for some directories.
    pub fn discover(&self) -> Skills {
        let mut found: BTreeMap<String, Skill> = BTreeMap::new();
        let mut warnings = Vec::new();
        let mut seen = Stamps::default();
        let mut met: Vec<PathBuf> = Vec::new();
        for place in self.places() {
            for file in walk::files(&place, MAX_DEPTH, |path| path.ends_with(FILE), &mut seen) {
                // Reached twice, by a link or by two of the places.
                let real = file.canonicalize().unwrap_or_else(|_| file.clone());
                if met.contains(&real) {
                    continue;
                }
                met.push(real);
                match read(&file) {
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
        if let Ok(own) = markdown::parse(CUSTOMIZE).and_then(|document| skill(document, BUILT_IN.into())) {
            found.entry(own.name.clone()).or_insert(own);
        }
        Skills { skills: found.into_values().collect(), warnings, seen }
    }

    /// Returns the directories to look in, the one that counts most first.
    fn places(&self) -> Vec<PathBuf> {
        let both = |dir: &Path| ["skill", "skills"].map(|below| dir.join(below));
        let mut places = Vec::new();
        for directory in self.directory.ancestors() {
            places.extend(both(&directory.join(".opencode")));
            places.extend(self.of_others(directory));
            if directory == self.worktree || !directory.starts_with(&self.worktree) || self.worktree == Path::new("/") {
                break;
            }
        }
        places.extend(self.extra.iter().map(|path| match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => self.directory.join(path),
        }));
        places.extend(self.config.iter().rev().flat_map(|config| both(config)));
        places.extend(self.home.iter().flat_map(|home| self.of_others(home)));
        places
    }

    /// Where other programs have their skills.
    fn of_others(&self, directory: &Path) -> impl Iterator<Item = PathBuf> {
        let kinds = [(self.claude, ".claude/skills"), (self.agents, ".agents/skills")];
        kinds
            .into_iter()
            .filter(|(counts, _)| *counts)
            .map(|(_, below)| directory.join(below))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

fn read(file: &Path) -> Result<Skill, String> {
    skill(markdown::read(file)?, file.to_string_lossy().into_owned())
}

fn skill(document: markdown::Document, location: String) -> Result<Skill, String> {
    if document.matter.is_empty() {
        return Err("it has no front matter between lines of `---`".into());
    }
    let demand = |name: &str| {
        let text = document.matter.get(name).and_then(|value| value.as_str()).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned).ok_or(format!("it has no {name}"))
    };
    Ok(Skill {
        name: demand("name")?,
        description: demand("description")?,
        location,
        content: document.content.trim_start_matches('\n').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    fn skill(name: &str) -> String {
        format!("---\nname: {name}\ndescription: what {name} is for\n---\nBody of {name}.\n")
    }

    #[test]
    fn skills_are_found_from_the_directory_up_in_the_config_and_at_home() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("real");
        write(&root, "w/.opencode/skill/demo/SKILL.md", &skill("demo"));
        write(&root, "w/sub/.claude/skills/deep/er/SKILL.md", &skill("deep"));
        write(&root, "w/.agents/skills/demo/SKILL.md", &skill("demo"));
        write(&root, "config/skills/global/SKILL.md", &skill("global"));
        write(&root, "home/.claude/skills/own/SKILL.md", &skill("own"));
        write(&root, "more/x/SKILL.md", &skill("extra"));
        write(&root, ".opencode/skill/above/SKILL.md", &skill("above"));
        let mut places = SkillPlaces {
            directory: root.join("w/sub"),
            worktree: root.join("w"),
            config: vec![root.join("config")],
            home: Some(root.join("home")),
            extra: vec!["../../more".into()],
            claude: true,
            agents: true,
        };
        let found = places.discover();
        let names: Vec<&str> = found.skills.iter().map(|skill| &*skill.name).collect();
        assert_eq!(names, ["customize-opencode", "deep", "demo", "extra", "global", "own"]);
        let demo = Skill {
            name: "demo".into(),
            description: "what demo is for".into(),
            location: root.join("w/.opencode/skill/demo/SKILL.md").display().to_string(),
            content: "Body of demo.\n".into(),
        };
        assert_eq!(found.skills[2], demo);
        assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
        assert!(!found.seen.is_stale());
        write(&root, "w/.opencode/skill/late/SKILL.md", &skill("late"));
        assert!(found.seen.is_stale(), "a new skill is noticed");

        (places.claude, places.agents) = (false, false);
        let names: Vec<String> = places.discover().skills.into_iter().map(|skill| skill.name).collect();
        assert_eq!(names, ["customize-opencode", "demo", "extra", "global", "late"]);
    }

    #[test]
    fn broken_skills_are_left_out_with_a_reason() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("real");
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
        let of_files = found.skills.iter().filter(|skill| skill.location != BUILT_IN);
        let got: Vec<(&str, &str, &str)> = of_files.map(|s| (&*s.name, &*s.description, &*s.content)).collect();
        assert_eq!(got, [("d", "Use when: it has a colon", "x"), ("e", "two lines", "x\n")]);
        let warnings = found.warnings.join("\n");
        for words in ["no front matter", "no description", "not YAML"] {
            assert!(warnings.contains(words), "{warnings}");
        }
    }
}
