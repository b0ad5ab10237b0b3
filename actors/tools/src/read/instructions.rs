//! Instruction files that lie nearer to a file than the session's directory: `sub/AGENTS.md` comes with the first file
//! read below `sub`.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::context::Place;
use crate::files::Files;
use crate::files::load::load;
use crate::path::{Access, Kind, Located};

/// The names, best first; a directory has one file at most.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];
/// The largest instruction file, in bytes; larger ones are left out.
const MAX_FILE: usize = 128 * 1024;

/// Returns the instruction files between a file and the session's directory that the session was not given yet, the
/// nearest first, with their content. From now on they count as given.
pub(super) fn found(place: &Place, files: &Files, read: &Located, cancel: &CancellationToken) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if read.outside {
        return found;
    }
    let is_inside = |directory: &Path| {
        directory.starts_with(&place.directory) || (place.is_repository && directory.starts_with(&place.worktree))
    };
    // Those of the session's directory, and above it, are in the system prompt.
    let between = read.shown.ancestors().skip(1).take_while(|d| is_inside(d) && !place.directory.starts_with(d));
    for directory in between {
        let here = NAMES.iter().find_map(|name| {
            let path = directory.join(name).to_string_lossy().into_owned();
            let located = Located::at(place, &path, Access::Read).ok()?;
            (located.kind == Kind::File && !located.outside).then_some(located)
        });
        let Some(here) = here else { continue };
        if !files.load_once(&here.real) || here.real == read.real {
            continue;
        }
        match load(&here.real, &here.shown, MAX_FILE, cancel) {
            Ok(Some(loaded)) => {
                if let Some(text) = crate::text::shown(&loaded.bytes) {
                    found.push((here.name(), text));
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "an instruction file was left out"),
        }
    }
    found
}

/// Returns what the model is told of instruction files.
pub(super) fn told(loaded: &[(String, String)]) -> String {
    let blocks: Vec<String> = loaded.iter().map(|(path, text)| format!("Instructions from: {path}\n{text}")).collect();
    format!("\n\n<system-reminder>\n{}\n</system-reminder>", blocks.join("\n\n"))
}
