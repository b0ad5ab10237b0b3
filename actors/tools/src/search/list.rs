//! A directory's entries and a file's content, as the server's file routes give them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::file::{FileContent, FileNode};

use super::{SearchError, has_odd_rules};
use crate::files::open::{entries, open_regular};
use crate::path::{absolute, real_path};
use crate::read::{media, without_case};

/// Most entries read of one directory.
const MAX_ENTRIES: usize = 50_000;
/// The largest content given, in bytes; of a larger text the beginning, of a larger binary file nothing.
const MAX_CONTENT: u64 = 8 * 1024 * 1024;

/// Returns what is in a directory (`path` is relative to `root`, or absolute within it): directories first, then files,
/// each sorted without regard to case, with the mark of what the ignore files leave out. Blocks for one directory.
///
/// Errors when it is outside `root`, links followed, and when there is no such directory.
pub fn list_directory(root: &Path, path: &str) -> Result<Vec<FileNode>, SearchError> {
    let (shown, real) = within(root, path)?;
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => SearchError::NotFound(shown.clone()),
        _ => SearchError::Io { path: shown.clone(), source },
    };
    let top = real_path(root).unwrap_or_else(|_| root.to_owned());
    let is_odd = real.ancestors().any(has_odd_rules);
    let mut ignored = if is_odd { None } else { ignore::WalkBuilder::new(&top).hidden(false).build_matchers().pop() };
    let mut nodes = Vec::new();
    for (name, is_directory) in entries(&real, MAX_ENTRIES).map_err(failed)? {
        let below_top = real.join(&name).strip_prefix(&top).map(Path::to_owned).unwrap_or_default();
        let absolute = shown.join(&name);
        let relative = absolute.strip_prefix(root).unwrap_or(&absolute).to_string_lossy();
        nodes.push(FileNode {
            path: if is_directory { format!("{relative}/") } else { relative.into_owned() },
            name: name.to_string_lossy().into_owned(),
            absolute: absolute.to_string_lossy().into_owned(),
            kind: if is_directory { "directory" } else { "file" }.into(),
            ignored: ignored.as_mut().is_some_and(|rules| rules.matched(&below_top, is_directory).is_ignore()),
        });
    }
    nodes.sort_by(|a, b| a.kind.cmp(&b.kind).then_with(|| without_case(&a.name, &b.name)));
    Ok(nodes)
}

/// Returns a file's content; none when there is no such file. Text is decoded, anything else is base64 with its media
/// type. Blocks for one file.
///
/// Errors when it is outside `root`, links followed, and when it is not a regular file.
pub fn file_content(root: &Path, path: &str) -> Result<Option<FileContent>, SearchError> {
    let (shown, real) = within(root, path)?;
    let failed = |source| SearchError::Io { path: shown.clone(), source };
    let opened = open_regular(&real, &shown).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    let Some((file, _)) = opened else { return Ok(None) };
    content(file).map(Some).map_err(failed)
}

fn content(file: File) -> std::io::Result<FileContent> {
    let mut bytes = Vec::new();
    file.take(MAX_CONTENT + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= MAX_CONTENT;
    let media = media(&bytes);
    if media.is_none()
        && let Some((codec, mark)) = crate::text::Codec::detect(&bytes, is_whole)
    {
        let text = codec.show(bytes.get(mark..).unwrap_or_default()).into_owned();
        return Ok(FileContent { kind: "text".into(), content: text, encoding: None, mime_type: None });
    }
    let mime = media.map_or("application/octet-stream", |(_, mime)| mime);
    Ok(FileContent {
        kind: "binary".into(),
        content: if is_whole { STANDARD.encode(&bytes) } else { String::new() },
        encoding: Some("base64".into()),
        mime_type: Some(mime.into()),
    })
}

/// Returns a path below `root` as it was named and with its links followed.
fn within(root: &Path, path: &str) -> Result<(PathBuf, PathBuf), SearchError> {
    let named = if path.is_empty() { "." } else { path };
    let shown = absolute(root, named, None).map_err(|_| SearchError::NotFound(PathBuf::from(path)))?;
    let real = |path: &Path| real_path(path).map_err(|source| SearchError::Io { path: path.to_owned(), source });
    let (top, below) = (real(root)?, real(&shown)?);
    if below.starts_with(&top) { Ok((shown, below)) } else { Err(SearchError::Outside(shown)) }
}
