//! What there is to load: the files of `tool`, `tools`, `plugin` and `plugins` directories, and the plugins that the
//! config names. Source: OpenCode `config/config.ts`, `tool/registry.ts`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

/// Endings of modules.
const MODULES: [&str; 6] = ["js", "ts", "mjs", "mts", "cjs", "cts"];
/// Endings of files that are no programs, whatever their mode says: some file systems mark everything.
const NO_PROGRAMS: [&str; 10] = ["md", "txt", "json", "jsonc", "yaml", "yml", "toml", "lock", "map", "log"];
/// Most files that are looked at in one directory.
const MOST_FILES: usize = 1000;

/// What there is to load in a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Programs that are tools; later ones take the place of earlier ones of the same name.
    pub programs: Vec<PathBuf>,
    /// Modules that export tools; the same holds.
    pub tools: Vec<PathBuf>,
    /// Plugins, in the order in which their hooks run.
    pub plugins: Vec<PluginSpec>,
    /// Directories whose `node_modules` packages are looked up in, the first one first.
    pub roots: Vec<PathBuf>,
    /// Directories that say something else when a file is added or taken out.
    pub directories: Vec<PathBuf>,
    /// What is loaded from files: loaded again when one of them changes.
    pub files: Vec<PathBuf>,
}

/// A plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginSpec {
    /// An absolute path, a `file:` url, or a package: `name` or `name@version`.
    pub spec: String,
    /// What the config says to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
}

impl PluginSpec {
    /// Returns the plugin of an entry of the config: a spec, or a spec and its options. None for anything else.
    pub fn of_config(entry: &Value) -> Option<Self> {
        match entry {
            Value::String(spec) => Some(Self { spec: spec.clone(), options: None }),
            Value::Array(pair) => {
                let spec = pair.first()?.as_str()?.to_owned();
                Some(Self { spec, options: pair.get(1).cloned() })
            }
            _ => None,
        }
        .filter(|plugin| !plugin.spec.trim().is_empty())
    }

    fn of_file(path: &Path) -> Self {
        Self { spec: path.to_string_lossy().into_owned(), options: None }
    }

    /// The file it names, if it names one.
    fn file(&self) -> Option<PathBuf> {
        let path = Path::new(self.spec.strip_prefix("file://").unwrap_or(&self.spec));
        path.is_absolute().then(|| path.to_owned())
    }
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Config directories, from weak to strong: the global one, `.opencode` of each directory down to the project's…
    pub directories: Vec<PathBuf>,
    /// Other directories whose `node_modules` may have a package: the project's, OpenCode's cache.
    pub roots: Vec<PathBuf>,
    /// The config's `plugin` entries.
    pub entries: Vec<Value>,
}

impl Found {
    /// Looks. Blocks. What can't be read is left out.
    pub fn look(places: &Places) -> Self {
        let mut found = Self::default();
        for entry in &places.entries {
            match PluginSpec::of_config(entry) {
                Some(plugin) if found.plugins.iter().any(|known| known.spec == plugin.spec) => {}
                Some(plugin) => found.plugins.push(plugin),
                None => tracing::warn!(%entry, "an entry of `plugin` is neither a name nor a name with options"),
            }
        }
        found.files = found.plugins.iter().filter_map(|plugin| plugin.file()).collect();
        for directory in &places.directories {
            found.directories.push(directory.clone());
            for name in ["tool", "tools"] {
                for file in found.files(&directory.join(name)) {
                    if is_module(&file) {
                        found.tools.push(file);
                    } else if is_program(&file) {
                        found.programs.push(file);
                    }
                }
            }
            for name in ["plugin", "plugins"] {
                let modules = found.files(&directory.join(name)).into_iter().filter(|file| is_module(file));
                let modules: Vec<PluginSpec> = modules.map(|file| PluginSpec::of_file(&file)).collect();
                found.plugins.extend(modules);
            }
        }
        // The nearest one is asked first.
        found.roots =
            places.directories.iter().rev().chain(&places.roots).filter(|dir| dir.is_dir()).cloned().collect();
        found
    }

    /// Returns whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && !self.needs_sidecar()
    }

    /// Returns whether there is something that Node or Bun must run.
    pub fn needs_sidecar(&self) -> bool {
        !self.tools.is_empty() || !self.plugins.is_empty()
    }

    /// The files of a directory, by name.
    fn files(&mut self, directory: &Path) -> Vec<PathBuf> {
        // Where there is none, the directory above tells when there is.
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        self.directories.push(directory.to_owned());
        let names = entries.flatten().take(MOST_FILES).map(|entry| entry.path());
        let mut files: Vec<PathBuf> = names.filter(|path| !is_hidden(path) && path.is_file()).collect();
        files.sort();
        self.files.extend(files.iter().cloned());
        files
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.ends_with('~') || name.ends_with(".d.ts")
}

fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

fn is_module(path: &Path) -> bool {
    MODULES.contains(&ending(path).as_str())
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let is_runnable = path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    is_runnable && !NO_PROGRAMS.contains(&ending(path).as_str())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn write(path: &Path, mode: u32) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, "").expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    }

    #[test]
    fn modules_programs_and_plugins_are_found_in_both_spellings_and_nothing_else() {
        let root = tempfile::tempdir().expect("a directory");
        let (global, own) = (root.path().join("global"), root.path().join("own"));
        for (path, mode) in [
            (global.join("tool/a.ts"), 0o644),
            (global.join("plugins/g.js"), 0o644),
            (own.join("tools/b.js"), 0o755),
            (own.join("tool/run.sh"), 0o755),
            (own.join("tool/plain"), 0o644),
            (own.join("tool/README.md"), 0o755),
            (own.join("tool/.hidden"), 0o755),
            (own.join("tool/types.d.ts"), 0o644),
            (own.join("plugin/p.ts"), 0o644),
            (own.join("plugin/notes.txt"), 0o755),
        ] {
            write(&path, mode);
        }
        let entries = vec![json!("pkg@1"), json!(["with", { "x": 1 }]), json!(7), json!("pkg@1")];
        let places = Places { directories: vec![global.clone(), own.clone()], roots: Vec::new(), entries };
        let found = Found::look(&places);
        assert_eq!(found.tools, [global.join("tool/a.ts"), own.join("tools/b.js")]);
        assert_eq!(found.programs, [own.join("tool/run.sh")]);
        assert_eq!(
            found.plugins,
            [
                PluginSpec { spec: "pkg@1".into(), options: None },
                PluginSpec { spec: "with".into(), options: Some(json!({ "x": 1 })) },
                PluginSpec::of_file(&global.join("plugins/g.js")),
                PluginSpec::of_file(&own.join("plugin/p.ts")),
            ]
        );
        assert_eq!(found.roots, [own, global]);
    }

    #[test]
    fn where_there_is_nothing_nothing_is_found() {
        let root = tempfile::tempdir().expect("a directory");
        let found = Found::look(&Places { directories: vec![root.path().join("none")], ..Places::default() });
        assert!(found.is_empty());
    }
}
