//! A directory's entries.

use std::cmp::Ordering;
use std::path::Path;

use serde_json::json;

use super::PREVIEW;
use super::page::Window;
use crate::error::ToolError;
use crate::files::open::entries;
use crate::path::Located;
use crate::tool::ToolOutput;

/// Most entries read of one directory.
const MAX_ENTRIES: usize = 100_000;
/// Most names proposed in place of a missing one.
const MAX_PROPOSED: usize = 3;
/// Most names compared letter by letter with a missing one: those that begin most like it.
const MAX_COMPARED: usize = 1_000;
/// How alike a proposed name must be, from 0 to 1.
const ALIKE: f32 = 0.6;

/// Returns the entries of a directory in the window, sorted without regard to case; directories end in `/`.
pub(super) fn show(located: &Located, window: Window) -> Result<ToolOutput, ToolError> {
    let path = located.name();
    let all = names(&located.real).map_err(ToolError::io("listing", &located.shown))?;
    let total = all.len() as u64;
    if window.offset > total && window.offset > 1 {
        return Err(ToolError::failed(format!(
            "Offset {} is out of range for this directory ({total} entries)",
            window.offset
        )));
    }
    let skip = usize::try_from(window.offset - 1).unwrap_or(usize::MAX);
    let entries: Vec<String> =
        all.into_iter().skip(skip).take(usize::try_from(window.limit).unwrap_or(usize::MAX)).collect();
    let last = window.offset - 1 + entries.len() as u64;
    let is_truncated = last < total;
    let note = if is_truncated {
        format!("(Showing entries {}-{last} of {total}. Use offset={} to continue.)", window.offset, last + 1)
    } else {
        format!("({total} entries)")
    };
    let output =
        format!("<path>{path}</path>\n<type>directory</type>\n<entries>\n{}\n\n{note}\n</entries>", entries.join("\n"));
    let metadata = json!({
        "preview": entries.iter().take(PREVIEW).map(String::as_str).collect::<Vec<_>>().join("\n"),
        "loaded": [],
        "display": {
            "type": "directory",
            "path": path,
            "entries": entries,
            "offset": window.offset,
            "totalEntries": total,
            "truncated": is_truncated,
        },
    });
    Ok(ToolOutput { truncated: Some(is_truncated), ..ToolOutput::new(&located.title, output, metadata) })
}

fn names(directory: &Path) -> std::io::Result<Vec<String>> {
    let shown = |(name, is_directory): (std::ffi::OsString, bool)| {
        format!("{}{}", name.to_string_lossy(), if is_directory { "/" } else { "" })
    };
    let mut names: Vec<String> = entries(directory, MAX_ENTRIES)?.into_iter().map(shown).collect();
    names.sort_by(|a, b| without_case(a, b));
    Ok(names)
}

/// Compares names without regard to case; those that differ in nothing else by their bytes.
pub(crate) fn without_case(a: &str, b: &str) -> Ordering {
    let lower = |name: &'_ str| name.chars().flat_map(char::to_lowercase).collect::<String>();
    lower(a).cmp(&lower(b)).then_with(|| a.cmp(b))
}

/// Returns the paths in the directory of a missing file that are named like it.
pub(super) fn names_like(located: &Located) -> Vec<String> {
    let (Some(directory), Some(name)) = (located.real.parent(), located.shown.file_name()) else { return Vec::new() };
    let wanted = name.to_string_lossy().to_lowercase();
    let Ok(names) = names(directory) else { return Vec::new() };
    let names: Vec<(&str, String)> =
        names.iter().map(|name| (&**name, name.trim_end_matches('/').to_lowercase())).collect();
    let holds = |lower: &str| lower.contains(&wanted) || (lower.len() > 2 && wanted.contains(lower));
    let mut found: Vec<&str> = names.iter().filter(|(_, lower)| holds(lower)).map(|(name, _)| *name).collect();
    let mut lower: Vec<&str> = names.iter().map(|(_, lower)| &**lower).collect();
    if lower.len() > MAX_COMPARED {
        let begins_alike = |name: &&str| name.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
        lower.sort_by_cached_key(|name| std::cmp::Reverse(begins_alike(name)));
        lower.truncate(MAX_COMPARED);
    }
    for close in similar::get_close_matches(&*wanted, &lower, MAX_PROPOSED, ALIKE) {
        found.extend(names.iter().filter(|(_, lower)| *lower == close).map(|(name, _)| *name));
    }
    let mut paths: Vec<String> = Vec::new();
    for name in found {
        let path = located.shown.with_file_name(name.trim_end_matches('/')).to_string_lossy().into_owned();
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths.truncate(MAX_PROPOSED);
    paths
}
