//! `repo_overview`: what a repository is made of, at one glance.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::searching;
use crate::path::{Access, Kind, Located};
use crate::repository::Repository;
use crate::search::{has_odd_rules, walk_of};
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

const ID: &str = "repo_overview";
/// How deep the tree is shown where the call doesn't say, and at most. Source: OpenCode `tool/repo_overview.ts`.
const DEPTH: (usize, usize) = (3, 6);
/// Most entries of the tree.
const MAX_ENTRIES: usize = 200;

/// Files that tell what a repository is written in.
const ECOSYSTEMS: [(&str, &[&str]); 8] = [
    ("Node.js", &["package.json"]),
    ("Python", &["pyproject.toml", "requirements.txt", "setup.py"]),
    ("Go", &["go.mod"]),
    ("Rust", &["Cargo.toml"]),
    ("Ruby", &["Gemfile"]),
    ("Java/Kotlin", &["build.gradle", "build.gradle.kts", "pom.xml"]),
    ("PHP", &["composer.json"]),
    ("C/C++", &["CMakeLists.txt", "meson.build", "configure.ac"]),
];
/// Files that name what it depends on, beyond those above.
const DEPENDENCIES: [&str; 12] = [
    "package-lock.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "uv.lock",
    "poetry.lock",
    "go.sum",
    "Cargo.lock",
    "Gemfile.lock",
    "composer.lock",
    "deno.json",
];
/// By lock file.
const PACKAGE_MANAGERS: [(&str, &str); 7] = [
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("package-lock.json", "npm"),
    ("uv.lock", "uv"),
    ("poetry.lock", "poetry"),
];
/// Where programs often begin.
const ENTRY_POINTS: [&str; 16] = [
    "index.ts",
    "index.js",
    "index.mjs",
    "main.ts",
    "main.js",
    "main.py",
    "main.go",
    "src/index.ts",
    "src/index.tsx",
    "src/index.js",
    "src/main.ts",
    "src/main.js",
    "src/main.rs",
    "src/lib.rs",
    "src/main.py",
    "app.py",
];

/// Shows what a repository is made of.
#[derive(Clone, Debug)]
pub struct RepoOverview {
    clones: PathBuf,
}

impl RepoOverview {
    /// Returns the tool; clones are looked for below `clones`.
    pub fn new(clones: PathBuf) -> Self {
        Self { clones }
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
struct RepoOverviewInput {
    /// A repository that was cloned, named as for repo_clone
    #[serde(default)]
    #[schemars(with = "String")]
    repository: Option<String>,
    /// Or a directory
    #[serde(default)]
    #[schemars(with = "String")]
    path: Option<String>,
    /// How deep to show the tree: 1 to 6 (default: 3)
    #[serde(default)]
    #[schemars(with = "f64")]
    depth: Option<f64>,
}

impl AnyTool for RepoOverview {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        let description = "Shows what a repository is made of: what it is written in, what it depends on, where it begins, \
             and the top of its tree. For a first look at a clone of repo_clone, or at a directory.";
        ToolSpec { name: ID.into(), description: description.into(), parameters: schema::<RepoOverviewInput>() }
    }

    fn traits(&self) -> Traits {
        Traits::reading(ID)
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.look(arguments(ID, Value::Object(input))?, cx).await })
    }
}

impl RepoOverview {
    async fn look(&self, input: RepoOverviewInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let repository = input.repository.as_deref().map(Repository::parse).transpose()?;
        let (located, label) = match (&input.path, &repository) {
            (Some(path), repository) => {
                (Located::of(cx, path, Access::Read).await?, repository.as_ref().map(Repository::label))
            }
            (None, Some(repository)) => {
                let place = repository.place(&self.clones).to_string_lossy().into_owned();
                (Located::of(cx, &place, Access::Read).await?, Some(repository.label()))
            }
            (None, None) => return Err(ToolError::failed("Name a repository or a path.")),
        };
        let depth = match input.depth {
            Some(depth) if (1.0..=DEPTH.1 as f64).contains(&depth) => depth as usize,
            _ => DEPTH.0,
        };
        // A clone was asked for when it was made.
        if input.path.is_some() {
            located.ask_external(cx).await?;
        }
        let pattern = label.clone().unwrap_or_else(|| located.name());
        let mut asked =
            JsonMap::from_iter([("path".to_owned(), json!(located.name())), ("depth".to_owned(), json!(depth))]);
        if let Some(label) = &label {
            asked.insert("repository".into(), json!(label));
        }
        cx.ask(Ask::new(ID, vec![pattern.clone()], vec![pattern], asked)).await?;
        match (located.kind, &label) {
            (Kind::Directory, _) => {}
            (Kind::Missing, Some(label)) if input.path.is_none() => {
                return Err(ToolError::failed(format!("{label} is not cloned. Use repo_clone first.")));
            }
            _ => return Err(ToolError::failed(format!("{} is not a directory.", located.shown.display()))),
        }
        let title = label.clone().unwrap_or_else(|| located.title.clone());
        let root = located.real.clone();
        let seen = searching(cx, move |cancel| Overview::of(&root, depth, cancel)).await?;
        Ok(ToolOutput::new(title, seen.told(label.as_deref(), &located), seen.metadata(label, &located)))
    }
}

/// What was seen.
struct Overview {
    ecosystems: Vec<&'static str>,
    package_manager: Option<&'static str>,
    dependencies: Vec<String>,
    entry_points: Vec<String>,
    readme: Option<String>,
    tree: Vec<String>,
    is_cut: bool,
}

impl Overview {
    fn of(root: &Path, depth: usize, cancel: &CancellationToken) -> Result<Self, ToolError> {
        let has = |name: &&str| root.join(name).is_file();
        let named =
            |names: &[&'static str]| names.iter().copied().filter(|name| has(name)).map(str::to_owned).collect();
        let ecosystems: Vec<&'static str> =
            ECOSYSTEMS.iter().filter(|(_, files)| files.iter().any(has)).map(|(name, _)| *name).collect();
        let mut dependencies: Vec<String> =
            ECOSYSTEMS.iter().flat_map(|(_, files)| *files).filter(|file| has(file)).map(|f| (*f).to_owned()).collect();
        dependencies.extend::<Vec<String>>(named(&DEPENDENCIES));
        let mut tree = Vec::new();
        let mut is_cut = false;
        let mut readme = None;
        let mut walk = walk_of(root);
        walk.max_depth(Some(depth)).sort_by_file_name(Ord::cmp).require_git(false);
        let walk = walk.filter_entry(|entry| entry.depth() == 0 || !has_odd_rules(entry.path())).build();
        for entry in walk.flatten().filter(|entry| entry.depth() > 0) {
            if cancel.is_cancelled() {
                return Err(ToolError::Aborted);
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.depth() == 1 && readme.is_none() && name.to_ascii_lowercase().starts_with("readme") {
                readme = Some(name.clone());
            }
            if tree.len() >= MAX_ENTRIES {
                is_cut = true;
                break;
            }
            let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
            tree.push(format!("{}{name}{}", "  ".repeat(entry.depth() - 1), if is_directory { "/" } else { "" }));
        }
        let package_manager = PACKAGE_MANAGERS.iter().find(|(file, _)| has(file)).map(|(_, name)| *name);
        Ok(Self { ecosystems, package_manager, dependencies, entry_points: named(&ENTRY_POINTS), readme, tree, is_cut })
    }

    fn told(&self, label: Option<&str>, located: &Located) -> String {
        let listed = |names: &[String]| if names.is_empty() { "none found".to_owned() } else { names.join(", ") };
        let ecosystems: Vec<String> = self.ecosystems.iter().map(|name| (*name).to_owned()).collect();
        let mut lines: Vec<String> = Vec::new();
        lines.extend(label.map(|label| format!("Repository: {label}")));
        lines.push(format!("Path: {}", located.name()));
        lines.push(format!("Ecosystems: {}", listed(&ecosystems)));
        lines.extend(self.package_manager.map(|name| format!("Package manager: {name}")));
        lines.extend(self.readme.as_ref().map(|name| format!("README: {name}")));
        lines.push(format!("Dependency files: {}", listed(&self.dependencies)));
        lines.push(format!("Likely entry points: {}", listed(&self.entry_points)));
        lines.push(String::new());
        lines.push("Structure:".into());
        lines.extend(self.tree.iter().cloned());
        if self.is_cut {
            lines.push(format!("(Only the first {MAX_ENTRIES} entries are shown. Look deeper with read and glob.)"));
        }
        lines.join("\n")
    }

    fn metadata(&self, label: Option<String>, located: &Located) -> Value {
        json!({
            "path": located.name(),
            "repository": label,
            "ecosystems": self.ecosystems,
            "package_manager": self.package_manager,
            "readme": self.readme,
            "dependency_files": self.dependencies,
            "entrypoints": self.entry_points,
        })
    }
}
