//! Settings: which files hold them, how they are merged, and what is said of a wrong one.
//!
//! From weak to strong: `config.json`, `opencode.json`, `opencode.jsonc` of the global directory; the file
//! `OPENCODE_CONFIG` names; `opencode.json[c]` of each directory from the worktree's top down to the project's;
//! `.opencode/opencode.json[c]` of the same; that of `OPENCODE_CONFIG_DIR`; `OPENCODE_CONFIG_CONTENT`; and
//! `OPENCODE_PERMISSION` for `permission`. Objects are merged key by key; of lists the later one counts, except
//! `instructions` and `plugin`, which add up. Source: OpenCode `config/config.ts`.

mod file;

use std::path::{Path, PathBuf};

use protocol::config::Config;
use serde_json::Value;

use crate::places::{Environment, Places};
use crate::stamps::Stamps;

pub use file::{ConfigError, Issue};

/// The settings of one directory, and what they were read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The settings.
    pub config: Config,
    /// All files merged, as JSON: what clients are shown.
    pub merged: Value,
    /// Each file that was looked for, and how it was: settings are read anew when one differs.
    pub seen: Stamps,
}

/// Settings that can't be used, and what was looked at: they are read anew when a file is mended.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// What is wrong.
    pub error: ConfigError,
    /// Each file that was looked for, and how it was.
    pub seen: Stamps,
}

/// Reads the settings of a directory. Blocks.
pub fn load(
    directory: &Path,
    worktree: &Path,
    places: &Places,
    environment: &Environment,
) -> Result<Settings, Box<Broken>> {
    let mut seen = Stamps::default();
    match merge_all(directory, worktree, places, environment, &mut seen) {
        Ok(merged) => match file::typed(Path::new("(all settings)"), &merged, None) {
            Ok(config) => Ok(Settings { config, merged, seen }),
            Err(error) => Err(Box::new(Broken { error, seen })),
        },
        Err(error) => Err(Box::new(Broken { error, seen })),
    }
}

/// Reads the settings that hold for all directories: the global files alone. A wrong one is left out, and named when a
/// directory is used. Blocks.
pub fn global(places: &Places, environment: &Environment) -> Config {
    let mut merged = Value::Object(serde_json::Map::new());
    for path in candidates(Path::new(""), Path::new("/"), places, environment) {
        if path.starts_with(&places.config)
            && let Ok(Some(value)) = file::read(&path, environment)
        {
            merge(&mut merged, value);
        }
    }
    file::typed(Path::new("(global settings)"), &merged, None).unwrap_or_default()
}

/// Returns the files that may hold settings of a directory, from weak to strong.
pub fn candidates(directory: &Path, worktree: &Path, places: &Places, environment: &Environment) -> Vec<PathBuf> {
    let both = |dir: &Path| [dir.join("opencode.json"), dir.join("opencode.jsonc")];
    let mut files = vec![places.config.join("config.json")];
    files.extend(both(&places.config));
    files.extend(environment.get("OPENCODE_CONFIG").map(PathBuf::from));
    if environment.get("OPENCODE_DISABLE_PROJECT_CONFIG").is_none() {
        let directories = project_directories(directory, worktree);
        files.extend(directories.iter().flat_map(|dir| both(dir)));
        files.extend(directories.iter().flat_map(|dir| both(&dir.join(".opencode"))));
    }
    files.extend(environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from).iter().flat_map(|dir| both(dir)));
    files
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

fn merge_all(
    directory: &Path,
    worktree: &Path,
    places: &Places,
    environment: &Environment,
    seen: &mut Stamps,
) -> Result<Value, ConfigError> {
    let mut merged = Value::Object(serde_json::Map::new());
    for path in candidates(directory, worktree, places, environment) {
        seen.add(&path);
        if let Some(value) = file::read(&path, environment)? {
            merge(&mut merged, value);
        }
    }
    if let Some(text) = environment.get("OPENCODE_CONFIG_CONTENT") {
        merge(&mut merged, file::parse(Path::new("OPENCODE_CONFIG_CONTENT"), text, environment)?);
    }
    if let Some(text) = environment.get("OPENCODE_PERMISSION") {
        let name = Path::new("OPENCODE_PERMISSION");
        let wrapped = format!(r#"{{"permission":{text}}}"#);
        merge(&mut merged, file::parse(name, &wrapped, environment)?);
    }
    Ok(merged)
}

/// Merges stronger settings into weaker ones.
pub fn merge(into: &mut Value, stronger: Value) {
    merge_at(into, stronger, "");
}

fn merge_at(into: &mut Value, stronger: Value, key: &str) {
    match (into, stronger) {
        (Value::Object(into), Value::Object(stronger)) => {
            for (key, value) in stronger {
                match into.get_mut(&key) {
                    Some(existing) => merge_at(existing, value, &key),
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (Value::Array(into), Value::Array(more)) if matches!(key, "instructions" | "plugin") => {
            for value in more {
                if !into.contains(&value) {
                    into.push(value);
                }
            }
        }
        (into, stronger) => *into = stronger,
    }
}

#[cfg(test)]
mod tests;
