//! Where things are: the XDG directories, read once from the environment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The environment a service was started with, read once: nothing else looks at the process's own.
#[derive(Clone, Debug, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Returns the process's environment; values that aren't UTF-8 are left out.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(variables: T) -> Self {
        Self(variables.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The person's home.
    pub home: PathBuf,
    /// `$TROUPE_DATA_DIR`, else `troupe` in `$XDG_DATA_HOME`.
    pub data: PathBuf,
    /// `opencode` in `$XDG_CONFIG_HOME`: config is shared with OpenCode.
    pub config: PathBuf,
    /// `troupe` in `$XDG_STATE_HOME`.
    pub state: PathBuf,
    /// `troupe` in `$XDG_CACHE_HOME`.
    pub cache: PathBuf,
    /// OpenCode's own data directory: its stored keys are read where ours has none.
    pub opencode_data: PathBuf,
}

impl Places {
    /// Returns the places this environment names.
    pub fn of(environment: &Environment) -> Self {
        let home = environment.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let xdg = |variable: &str, default: &str| {
            let set = environment.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            set.unwrap_or_else(|| home.join(default))
        };
        let data_home = xdg("XDG_DATA_HOME", ".local/share");
        let data = environment.get("TROUPE_DATA_DIR").map_or_else(|| data_home.join("troupe"), PathBuf::from);
        Self {
            data: std::path::absolute(&data).unwrap_or(data),
            opencode_data: data_home.join("opencode"),
            config: xdg("XDG_CONFIG_HOME", ".config").join("opencode"),
            state: xdg("XDG_STATE_HOME", ".local/state").join("troupe"),
            cache: xdg("XDG_CACHE_HOME", ".cache").join("troupe"),
            home,
        }
    }

    /// Returns where whole tool outputs are kept.
    pub fn tool_output(&self) -> PathBuf {
        self.data.join("tool-output")
    }

    /// Returns where the snapshots of all projects are kept.
    pub fn snapshots(&self) -> PathBuf {
        self.data.join("snapshot")
    }
}

/// Returns `path` relative to `base`, or whole where it isn't below it.
pub fn relative_to(path: &Path, base: &Path) -> String {
    path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_environment_moves_each_place() {
        let environment = Environment::from_iter([
            ("HOME", "/home/ada"),
            ("XDG_CONFIG_HOME", "/cfg"),
            ("XDG_CACHE_HOME", "relative/is/ignored"),
            ("TROUPE_DATA_DIR", "/elsewhere"),
        ]);
        let places = Places::of(&environment);
        assert_eq!(places.data, Path::new("/elsewhere"));
        assert_eq!(places.config, Path::new("/cfg/opencode"));
        assert_eq!(places.cache, Path::new("/home/ada/.cache/troupe"));
        assert_eq!(places.opencode_data, Path::new("/home/ada/.local/share/opencode"));
    }
}
