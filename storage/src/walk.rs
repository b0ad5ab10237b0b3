//! Finding files below a directory, within limits.

use std::path::{Path, PathBuf};

use crate::stamps::Stamps;

/// Most entries below one directory that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// Directories that are never looked into.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// Returns the files below a directory, down to `depth` levels, that `wanted` says yes to, in order. Links are
/// followed: people link such files in. Directories and wanted files are noted in `seen`. Blocks.
pub fn files(directory: &Path, depth: usize, wanted: impl Fn(&Path) -> bool, seen: &mut Stamps) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut looked = 0;
    let mut open = vec![(directory.to_owned(), depth)];
    while let Some((directory, depth)) = open.pop() {
        seen.add(&directory);
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            looked += 1;
            if looked > MAX_ENTRIES {
                break;
            }
            let path = entry.path();
            // What a link goes to, not the link.
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            if metadata.is_dir() {
                if depth > 1 && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                    open.push((path, depth - 1));
                }
            } else if metadata.is_file() && wanted(&path) {
                seen.add(&path);
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
