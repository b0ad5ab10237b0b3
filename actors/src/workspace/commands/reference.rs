//! Files and agents that a command's text names: `@path`, `@agent`. Source: OpenCode `session/prompt.ts`,
//! `resolvePromptParts`.

use std::path::Path;

use protocol::part::{AgentPart, FilePart};
use protocol::prompt::{PartInput, PartInputKind};
use tools::path::normalize;
use url::Url;

use crate::workspace::Setup;

/// Most files and agents that one text brings.
const MAX: usize = 50;

/// Returns the parts that go with a text: each file, directory and agent it names, once. What the person typed may
/// name any file; what stands in the template, only those of the project: whoever wrote it may be a stranger. Blocks.
pub fn parts(text: &str, typed: &str, setup: &Setup, home: &Path) -> Vec<PartInput> {
    let mut parts: Vec<PartInput> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for name in names(text) {
        if seen.contains(&name) || parts.len() >= MAX {
            continue;
        }
        seen.push(name);
        // Signs at the end belong to the sentence, unless there is a file of that name.
        let bare = name.trim_end_matches([')', ']', '}', ':', ';', '?', '!', '"', '\'', '.']);
        let found =
            [name, bare].into_iter().filter(|name| !name.is_empty()).find_map(|name| file(name, typed, setup, home));
        let kind = match found {
            Some(file) => PartInputKind::File(file),
            None if setup.agents.contains_key(name) => {
                PartInputKind::Agent(AgentPart { name: name.to_owned(), source: None })
            }
            None => continue,
        };
        parts.push(PartInput { id: None, kind });
    }
    parts
}

/// What stands after an `@` that no word or backtick comes before: up to a blank, a backtick or a comma, and without
/// the dots at its end.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('@').filter_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '`')) {
            return None;
        }
        let rest = text.get(at + 1..)?;
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '`' | ',')).unwrap_or(rest.len());
        Some(rest.get(..end)?.trim_end_matches('.')).filter(|name| !name.is_empty())
    })
}

fn file(name: &str, typed: &str, setup: &Setup, home: &Path) -> Option<FilePart> {
    let (directory, top) = (&setup.directory, &setup.identity.worktree);
    let candidates = match name.strip_prefix("~/") {
        Some(below) => vec![home.join(below)],
        None if setup.identity.is_repository => vec![directory.join(name), top.join(name)],
        None => vec![directory.join(name)],
    };
    let (path, metadata) = candidates
        .into_iter()
        .map(|path| normalize(&path))
        .find_map(|path| std::fs::metadata(&path).ok().map(|m| (path, m)))?;
    let real = path.canonicalize().ok()?;
    let is_below = |root: &Path| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    let is_inside = is_below(directory) || setup.identity.is_repository && is_below(top);
    if !is_inside && !typed.contains(name) {
        tracing::warn!(name, "a command's template names a file outside of the project; it is left out");
        return None;
    }
    let mime = if metadata.is_dir() { "application/x-directory" } else { "text/plain" };
    Some(FilePart {
        mime: mime.into(),
        filename: Some(name.to_owned()),
        url: Url::from_file_path(&path).ok()?.into(),
        source: None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_are_told_from_addresses_and_code() {
        let text = "see @a.txt, @src/b.rs. (@c) mail me@x.org `@d` `x`@e @ @./f..";
        assert_eq!(names(text).collect::<Vec<_>>(), ["a.txt", "src/b.rs", "c)", "./f"]);
    }
}
