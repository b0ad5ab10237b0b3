//! The directory's plugins and custom tools: which there are, and the host that keeps them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plugins::Found;
use plugins::found::Places as Looked;
use plugins::sidecar::Limits;
use serde_json::{Value, json};
use storage::config::Settings;
use storage::places::{Environment, Places};
use storage::project::Identity;
use storage::stamps::Stamps;

use super::{Setup, Workspace};
use crate::plugin_host::{self, Wanted};

/// Where OpenCode puts the packages of plugins it has installed.
const PACKAGES: &str = "opencode";

/// Returns what is to be loaded for a directory, none where there is nothing; and where to look for more. Blocks.
pub fn wanted(
    directory: &Path,
    identity: &Identity,
    settings: &Settings,
    places: &Places,
    environment: &Environment,
) -> (Option<Arc<Wanted>>, Vec<PathBuf>) {
    if environment.get("OPENCODE_PURE").is_some() {
        return (None, Vec::new());
    }
    let entries = settings.merged.get("plugin").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut roots = vec![directory.to_owned(), identity.worktree.clone()];
    // OpenCode's cache is beside ours.
    roots.extend(places.cache.parent().map(|cache| cache.join(PACKAGES)));
    let looked = Looked { directories: directories(directory, identity, places, environment), roots, entries };
    let found = Found::look(&looked);
    let mut watched = found.directories.clone();
    watched.extend(found.files.iter().cloned());
    if found.is_empty() {
        return (None, watched);
    }
    let mut seen = Stamps::default();
    seen.extend(found.files.iter().cloned());
    let plugins = &settings.config.troupe.plugins;
    let wanted = Wanted {
        directory: directory.to_owned(),
        worktree: identity.worktree.clone(),
        project: json!({
            "id": identity.project_id,
            "worktree": identity.worktree,
            "vcs": identity.is_repository.then_some("git"),
            "time": { "created": 0 },
            "sandboxes": [],
        }),
        found,
        seen,
        runtime: plugins.runtime.as_ref().map(PathBuf::from),
        limits: Limits {
            hook: Duration::from_millis(plugins.hook_ms.max(1)),
            load: Duration::from_millis(plugins.load_ms.max(1)),
        },
    };
    (Some(Arc::new(wanted)), watched)
}

/// The directories that may have `tool` and `plugin` directories, from weak to strong.
fn directories(directory: &Path, identity: &Identity, places: &Places, environment: &Environment) -> Vec<PathBuf> {
    let mut found = vec![places.config.clone()];
    if environment.get("OPENCODE_DISABLE_PROJECT_CONFIG").is_none() {
        let project = storage::config::project_directories(directory, &identity.worktree);
        found.extend(project.iter().map(|dir| dir.join(".opencode")));
    }
    found.push(places.home.join(".opencode"));
    found.extend(environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from));
    let mut once = Vec::new();
    for dir in found {
        if !once.contains(&dir) {
            once.push(dir);
        }
    }
    once
}

impl Workspace {
    /// Gives the settings the plugins they want: those that run, or new ones where something has changed.
    pub(super) fn with_plugins(&mut self, setup: Arc<Setup>) -> Arc<Setup> {
        let Some(wanted) = &setup.wanted else {
            self.hosted = None;
            return setup;
        };
        if self.hosted.as_ref().is_none_or(|hosted| hosted.wanted != *wanted) {
            self.hosted = Some(plugin_host::start(wanted.clone(), &self.deps.plugins));
        } else if setup.has_plugins {
            return setup;
        }
        let mut setup = Setup::clone(&setup);
        setup.plugins = self.hosted.as_ref().map(|hosted| hosted.plugins.clone()).unwrap_or_default();
        setup.has_plugins = true;
        Arc::new(setup)
    }
}
