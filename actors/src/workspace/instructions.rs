//! Instructions a project gives to agents: AGENTS.md and its like, and the files and pages the config names.
//! Source: OpenCode `session/instruction.ts`.

use std::path::{Component, Path, PathBuf};

use globset::GlobBuilder;
use protocol::config::Config;
use storage::config::is_set;
use storage::places::{Environment, Places};
use storage::stamps::Stamps;
use storage::walk;
use tools::path::normalize;

pub mod pages;

/// Names of instruction files; of those of a project the first that is found anywhere on the way up counts.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];
/// Longest file that is taken, in bytes.
const MAX_BYTES: u64 = 256 * 1024;
/// Most files that are taken.
const MAX_FILES: usize = 100;
/// How deep a pattern with `**` looks.
const MAX_DEPTH: usize = 12;
/// Longest pattern of files, in bytes.
const LONGEST_PATTERN: usize = 4 * 1024;

/// An instruction file or page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is: a path or an address.
    pub source: String,
    /// What it says.
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// In the order they are told.
    pub instructions: Vec<Instruction>,
    /// Addresses the config names, to be fetched.
    pub addresses: Vec<String>,
    /// What was looked at: instructions are read anew when it differs.
    pub seen: Stamps,
    /// What was left out, for the person.
    pub warnings: Vec<String>,
}

/// Where instructions are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The session's directory.
    pub directory: &'a Path,
    /// The top of its repository, or the directory itself.
    pub worktree: &'a Path,
    /// Where things are.
    pub places: &'a Places,
    /// What the service was started with.
    pub environment: &'a Environment,
}

impl Around<'_> {
    /// From the directory up to the top.
    fn up(&self) -> Vec<PathBuf> {
        let mut up = storage::config::project_directories(self.directory, self.worktree);
        up.reverse();
        up
    }

    /// The names that count.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let without_claude = claude_is_off(self.environment);
        NAMES.into_iter().filter(move |name| !(without_claude && *name == "CLAUDE.md"))
    }
}

/// Returns whether files of Claude Code are not used.
pub fn claude_is_off(environment: &Environment) -> bool {
    ["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"].iter().any(|name| is_set(environment, name))
}

/// Reads the instructions of a directory: the project's, from the directory up to the worktree's top, then the
/// person's own, then those the config names. Each file once. Blocks.
pub fn read(around: &Around<'_>, config: &Config) -> Found {
    let mut found = Found::default();
    let of_project = !is_set(around.environment, "OPENCODE_DISABLE_PROJECT_CONFIG");
    if of_project {
        for name in around.names() {
            let mut any = false;
            for dir in around.up() {
                any |= found.add(dir.join(name));
            }
            if any {
                break;
            }
        }
    }
    let mut own: Vec<PathBuf> =
        around.environment.get("OPENCODE_CONFIG_DIR").map(|dir| Path::new(dir).join("AGENTS.md")).into_iter().collect();
    own.push(around.places.config.join("AGENTS.md"));
    if !claude_is_off(around.environment) {
        own.push(around.places.home.join(".claude/CLAUDE.md"));
    }
    for path in own {
        if found.add(path) {
            break;
        }
    }
    for named in &config.instructions {
        if named.starts_with("https://") || named.starts_with("http://") {
            found.addresses.push(named.clone());
            continue;
        }
        let pattern = match named.strip_prefix("~/") {
            Some(below) => around.places.home.join(below),
            None => PathBuf::from(named),
        };
        let roots = match (pattern.is_absolute(), of_project) {
            (true, _) => vec![PathBuf::from("/")],
            (false, true) => around.up(),
            // Then nothing of the project is trusted.
            (false, false) => around.environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from).into_iter().collect(),
        };
        let mut any = false;
        for root in roots {
            for path in matching(&root, &pattern, &mut found) {
                any |= found.add(path);
            }
        }
        if !any {
            found.warnings.push(format!("no file is there for {named:?} under `instructions`"));
        }
    }
    found
}

impl Found {
    /// Takes a file. Returns whether it is there.
    fn add(&mut self, path: PathBuf) -> bool {
        self.seen.add(&path);
        let source = path.to_string_lossy().into_owned();
        if self.instructions.iter().any(|other| other.source == source) {
            return true;
        }
        let Ok(metadata) = std::fs::metadata(&path) else { return false };
        if !metadata.is_file() {
            return false;
        }
        if metadata.len() > MAX_BYTES || self.instructions.len() >= MAX_FILES {
            let why = if metadata.len() > MAX_BYTES { "it is larger than 256 KiB" } else { "there are 100 already" };
            self.warnings.push(format!("{source} is left out: {why}"));
            return true;
        }
        match std::fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if !text.trim().is_empty() {
                    self.instructions.push(Instruction { source, text });
                }
                true
            }
            Err(error) => {
                self.warnings.push(format!("{source} is left out: {error}"));
                true
            }
        }
    }
}

/// The files below `root` that a pattern names, in order. What has no star names one file.
fn matching(root: &Path, pattern: &Path, found: &mut Found) -> Vec<PathBuf> {
    let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{']);
    let parts: Vec<Component<'_>> = pattern.components().collect();
    let fixed: PathBuf = parts.iter().take_while(|part| is_plain(part)).collect();
    if fixed.components().count() == parts.len() {
        return vec![normalize(&root.join(pattern))];
    }
    let rest: PathBuf = parts.iter().skip_while(|part| is_plain(part)).collect();
    let text = rest.to_string_lossy();
    // A very long one would become an expression that is too large.
    let glob = GlobBuilder::new(&text).literal_separator(true).build().ok().filter(|_| text.len() <= LONGEST_PATTERN);
    let Some(glob) = glob else {
        found.warnings.push(format!("{:?} under `instructions` is no pattern", pattern.display().to_string()));
        return Vec::new();
    };
    let matcher = glob.compile_matcher();
    let base = normalize(&root.join(fixed));
    let depth = if text.contains("**") { MAX_DEPTH } else { rest.components().count() };
    let names_hidden = text.starts_with('.') || text.contains("/.");
    let wanted = |path: &Path| {
        let below = path.strip_prefix(&base).unwrap_or(path);
        let is_hidden = below.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
        matcher.is_match(below) && (names_hidden || !is_hidden)
    };
    walk::files(&base, depth, wanted, &mut found.seen)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    struct World(tempfile::TempDir);

    impl World {
        fn with(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().expect("a directory");
            for (path, text) in files {
                let path = root.path().join(path);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                std::fs::write(path, text).expect("written");
            }
            std::fs::create_dir_all(root.path().join("top/sub")).expect("made");
            Self(root)
        }

        fn read(&self, instructions: &[&str], variables: &[(&str, &str)]) -> Found {
            let home = self.0.path().join("home").to_string_lossy().into_owned();
            let variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let environment = Environment::from_iter([("HOME".to_owned(), home)].into_iter().chain(variables));
            let (top, places) = (self.0.path().join("top"), Places::of(&environment));
            let (directory, worktree) = (top.join("sub"), top);
            let config = serde_json::from_value(json!({ "instructions": instructions })).expect("a config");
            let around =
                Around { directory: &directory, worktree: &worktree, places: &places, environment: &environment };
            read(&around, &config)
        }
    }

    fn texts(found: &Found) -> Vec<&str> {
        found.instructions.iter().map(|instruction| instruction.text.as_str()).collect()
    }

    #[test]
    fn files_on_the_way_up_and_named_ones_are_read_once_each() {
        let world = World::with(&[
            ("top/AGENTS.md", "top"),
            ("top/sub/AGENTS.md", "sub"),
            ("top/CLAUDE.md", "other"),
            ("top/extra.md", "extra"),
            ("AGENTS.md", "above"),
        ]);
        let found = world.read(&["../extra.md", "AGENTS.md", "gone.md"], &[]);
        assert_eq!(texts(&found), ["sub", "top", "extra"]);
        assert!(found.warnings[0].contains("gone.md"), "{:?}", found.warnings);
    }

    #[test]
    fn patterns_are_looked_for_on_the_way_up_and_from_the_root_and_addresses_are_kept() {
        let world = World::with(&[
            ("top/docs/b.md", "b"),
            ("top/docs/deep/a.md", "a"),
            ("top/docs/.hidden/x.md", "x"),
            ("top/docs/c.txt", "c"),
            ("top/sub/docs/near.md", "near"),
            ("top/.cursor/rules/r.md", "r"),
            ("home/notes/n.md", "n"),
            ("abs/z.md", "z"),
        ]);
        let absolute = world.0.path().join("abs/*.md").to_string_lossy().into_owned();
        let found =
            world.read(&["docs/**/*.md", ".cursor/rules/*.md", "~/notes/*.md", &absolute, "https://h/rules.md"], &[]);
        assert_eq!(texts(&found), ["near", "b", "a", "r", "n", "z"]);
        assert_eq!(
            (found.addresses.as_slice(), found.warnings.as_slice()),
            (["https://h/rules.md".to_owned()].as_slice(), [].as_slice())
        );
        assert!(!found.seen.is_stale());
        std::fs::write(world.0.path().join("top/docs/new.md"), "new").expect("written");
        assert!(found.seen.is_stale(), "a new file of a pattern is noticed");
    }

    #[test]
    fn the_persons_own_file_comes_from_the_first_place_that_has_one() {
        let world = World::with(&[
            ("home/.claude/CLAUDE.md", "claude"),
            ("top/CLAUDE.md", "project"),
            ("dir/AGENTS.md", "dir"),
        ]);
        assert_eq!(texts(&world.read(&[], &[])), ["project", "claude"]);
        assert_eq!(texts(&world.read(&[], &[("OPENCODE_DISABLE_CLAUDE_CODE", "1")])), Vec::<&str>::new());
        let dir = world.0.path().join("dir").to_string_lossy().into_owned();
        let found =
            world.read(&["AGENTS.md"], &[("OPENCODE_CONFIG_DIR", &dir), ("OPENCODE_DISABLE_PROJECT_CONFIG", "1")]);
        assert_eq!(texts(&found), ["dir"]);
    }
}
