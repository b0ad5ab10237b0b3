//! Settings: which files hold them, how they are merged, and what is said of a wrong one.
//!
//! From weak to strong ([`Layer`]): `config.json`, `opencode.json`, `opencode.jsonc` of the global directory; the file
//! `OPENCODE_CONFIG` names; `opencode.json[c]` of each directory from the worktree's top down to the project's; then
//! the config directories ([`directories`]), each with its `opencode.json[c]` and its Markdown files of agents, modes
//! and commands; `OPENCODE_CONFIG_CONTENT`; `/etc/opencode`; and `OPENCODE_PERMISSION` for `permission`. How they are
//! merged: [`merge`]. Source: OpenCode `config/config.ts`; there of several `.opencode` the topmost is the strongest,
//! here the nearest is, as with `opencode.json`.

pub mod change;
mod file;
pub mod merge;
mod pack;
mod reference;
mod schema;
mod shape;

use std::path::{Path, PathBuf};

use protocol::config::Config;
use serde_json::{Value, json};

use crate::places::{Environment, Places};
use crate::stamps::Stamps;

pub use file::{ConfigError, Issue, Warning};
pub use merge::merge;
pub use reference::Secrets;

/// Settings that an administrator gives to all users of the machine.
const MANAGED: &str = "/etc/opencode";

/// The settings of one directory, and what they were read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The settings.
    pub config: Config,
    /// All files merged, as JSON: what clients are shown, secrets taken out.
    pub merged: Value,
    /// Each file that was looked for, and how it was: settings are read anew when one differs.
    pub seen: Stamps,
    /// What is odd about the files.
    pub warnings: Vec<Warning>,
    /// Values that must not be shown.
    pub secrets: Secrets,
}

/// Settings that can't be used, and what was looked at: they are read anew when a file is mended.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// What is wrong.
    pub error: ConfigError,
    /// Each file that was looked for, and how it was.
    pub seen: Stamps,
}

/// Something that holds settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// A file.
    File(PathBuf),
    /// A file that somebody named: it should be there.
    Named(PathBuf),
    /// A directory, for its Markdown files.
    Pack(PathBuf),
    /// The text of a variable.
    Variable(&'static str),
}

/// Which layers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// Those that hold for all directories: the global directory's files.
    Global,
}

/// Reads the settings of a directory. Blocks.
pub fn load(
    directory: &Path,
    worktree: &Path,
    places: &Places,
    environment: &Environment,
) -> Result<Settings, Box<Broken>> {
    read(layers(directory, worktree, places, environment), environment)
}

/// Reads the settings that hold for all directories. Blocks.
pub fn load_global(places: &Places, environment: &Environment) -> Result<Settings, Box<Broken>> {
    read(global_files(places).into_iter().map(Layer::File).collect(), environment)
}

/// Reads the settings that hold for all directories. A wrong file is left out, and named when a directory is used.
/// Blocks.
pub fn global(places: &Places, environment: &Environment) -> Config {
    let mut merged = json!({});
    for path in global_files(places) {
        if let Ok(Some(content)) = file::read(&path, environment) {
            add(&mut merged, content.value, &path);
        }
    }
    merge::finish(&mut merged);
    serde_json::from_value(merged).unwrap_or_default()
}

fn global_files(places: &Places) -> Vec<PathBuf> {
    ["config.json", "opencode.json", "opencode.jsonc"].map(|name| places.config.join(name)).into()
}

/// Returns everything that may hold settings of a directory, from weak to strong.
pub fn layers(directory: &Path, worktree: &Path, places: &Places, environment: &Environment) -> Vec<Layer> {
    let both = |dir: &Path| ["opencode.json", "opencode.jsonc"].map(|name| Layer::File(dir.join(name)));
    let mut layers: Vec<Layer> = global_files(places).into_iter().map(Layer::File).collect();
    layers.extend(environment.get("OPENCODE_CONFIG").map(|path| Layer::Named(absolute(path))));
    if !is_set(environment, "OPENCODE_DISABLE_PROJECT_CONFIG") {
        layers.extend(project_directories(directory, worktree).iter().flat_map(|dir| both(dir)));
    }
    for dir in directories(directory, worktree, places, environment) {
        // The global directory's own files came first.
        if dir != places.config {
            layers.extend(both(&dir));
        }
        layers.push(Layer::Pack(dir));
    }
    layers.push(Layer::Variable("OPENCODE_CONFIG_CONTENT"));
    layers.extend(both(Path::new(MANAGED)));
    layers.push(Layer::Variable("OPENCODE_PERMISSION"));
    layers
}

/// Returns the config directories of a directory, from weak to strong, whether they are there or not: the global one,
/// `.opencode` of each directory from the worktree's top down to the project's, that of the home, and
/// `OPENCODE_CONFIG_DIR`. They hold agents, commands, modes, skills, tools and plugins.
pub fn directories(directory: &Path, worktree: &Path, places: &Places, environment: &Environment) -> Vec<PathBuf> {
    let mut found = vec![places.config.clone()];
    let project = match is_set(environment, "OPENCODE_DISABLE_PROJECT_CONFIG") {
        true => Vec::new(),
        false => project_directories(directory, worktree),
    };
    let home = places.home.join(".opencode");
    found.extend(project.iter().map(|dir| dir.join(".opencode")).filter(|dir| *dir != home));
    found.push(home);
    found.extend(environment.get("OPENCODE_CONFIG_DIR").map(absolute));
    found
}

/// Returns the directories from the worktree's top down to a directory; that directory alone where it isn't below.
pub fn project_directories(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    if worktree.parent().is_none() || !directory.starts_with(worktree) {
        return vec![directory.to_owned()];
    }
    let mut up: Vec<PathBuf> =
        directory.ancestors().take_while(|dir| dir.starts_with(worktree)).map(Path::to_owned).collect();
    up.reverse();
    up
}

/// Returns whether a switch of the environment is on: `1` or `true`.
pub fn is_set(environment: &Environment, name: &str) -> bool {
    environment.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
}

fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

fn read(layers: Vec<Layer>, environment: &Environment) -> Result<Settings, Box<Broken>> {
    let mut settings = Settings {
        config: Config::default(),
        merged: json!({}),
        seen: Stamps::default(),
        warnings: Vec::new(),
        secrets: Secrets::default(),
    };
    for layer in layers {
        if let Err(error) = settings.add(&layer, environment) {
            return Err(Box::new(Broken { error, seen: settings.seen }));
        }
    }
    settings.switch(environment);
    merge::finish(&mut settings.merged);
    match typed(&settings.merged) {
        Ok(config) => Ok(Settings { config, ..settings }),
        Err(error) => Err(Box::new(Broken { error, seen: settings.seen })),
    }
}

impl Settings {
    fn add(&mut self, layer: &Layer, environment: &Environment) -> Result<(), ConfigError> {
        match layer {
            Layer::File(path) | Layer::Named(path) => {
                self.seen.add(path);
                match file::read(path, environment)? {
                    Some(content) => self.take(content, path),
                    None if matches!(layer, Layer::Named(_)) && !path.exists() => {
                        let message = "OPENCODE_CONFIG names it, but there is no such file".to_owned();
                        let issue = Issue { path: Vec::new(), message, line: None };
                        self.warnings.push(Warning { file: path.clone(), issue });
                    }
                    None => {}
                }
            }
            Layer::Pack(directory) => {
                let (value, warnings) = pack::read(directory, &mut self.seen)?;
                self.warnings.extend(warnings);
                add(&mut self.merged, value, directory);
            }
            Layer::Variable(name) => {
                let Some(text) = environment.get(name) else { return Ok(()) };
                let wrapped = format!(r#"{{"permission":{text}}}"#);
                let text = if *name == "OPENCODE_PERMISSION" { wrapped.as_str() } else { text };
                let content = file::parse(Path::new(name), text, environment)?;
                self.take(content, Path::new(name));
            }
        }
        Ok(())
    }

    fn take(&mut self, content: file::Content, path: &Path) {
        self.warnings.extend(content.warnings);
        self.secrets.add(content.secrets);
        self.seen.extend(content.files);
        add(&mut self.merged, content.value, path);
    }

    /// The switches of the environment that stand above all files.
    fn switch(&mut self, environment: &Environment) {
        let switches = [("OPENCODE_DISABLE_AUTOCOMPACT", "auto"), ("OPENCODE_DISABLE_PRUNE", "prune")];
        for (variable, key) in switches {
            if is_set(environment, variable) {
                merge(&mut self.merged, json!({ "compaction": { key: false } }));
            }
        }
    }
}

/// Merges what a file says into what weaker ones said.
fn add(into: &mut Value, mut value: Value, path: &Path) {
    merge::normal(&mut value, path.parent().unwrap_or(Path::new("")));
    merge(into, value);
}

/// What [`schema`] lets through is read: an error here is one of the two's disagreement.
fn typed(merged: &Value) -> Result<Config, ConfigError> {
    serde_path_to_error::deserialize(merged).map_err(|error| {
        let keys = error.path().iter().filter_map(|segment| match segment {
            serde_path_to_error::Segment::Map { key } => Some(key.clone()),
            serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
            _ => None,
        });
        let issue = Issue { path: keys.collect(), message: error.inner().to_string(), line: None };
        ConfigError::Invalid { path: "(all settings)".into(), issues: vec![issue] }
    })
}

#[cfg(test)]
mod tests;
