//! Instructions a project gives to agents: AGENTS.md and its like, and the files the config names.

use std::path::{Path, PathBuf};

use protocol::config::Config;

/// Names of instruction files; of each directory the first that is there counts.
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];
/// Longest file that is taken, in bytes.
const MAX_BYTES: u64 = 256 * 1024;

/// An instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

/// Reads the instructions of a directory: the project's, from the directory up to the worktree's top, then the
/// person's own, then those the config names. Blocks. Each file once; what can't be read is left out.
pub fn read(directory: &Path, worktree: &Path, config_home: &Path, home: &Path, config: &Config) -> Vec<Instruction> {
    let mut found: Vec<Instruction> = Vec::new();
    let mut add = |path: PathBuf| -> bool {
        if found.iter().any(|other| other.path == path) {
            return true;
        }
        let small = std::fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= MAX_BYTES);
        let text = if small { std::fs::read_to_string(&path).ok() } else { None };
        match text {
            Some(text) => {
                found.push(Instruction { path, text });
                true
            }
            None => false,
        }
    };
    let up = directory.ancestors().take_while(|dir| dir.starts_with(worktree) && worktree.parent().is_some());
    let directories: Vec<&Path> = up.collect();
    let directories = if directories.is_empty() { vec![directory] } else { directories };
    // As in OpenCode the first name that is found anywhere on the way up is the project's; the others are not mixed in.
    for name in NAMES {
        let mut any = false;
        for dir in &directories {
            any |= add(dir.join(name));
        }
        if any {
            break;
        }
    }
    if !add(config_home.join("AGENTS.md")) {
        add(home.join(".claude/CLAUDE.md"));
    }
    for named in &config.instructions {
        let path = match named.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => directory.join(named),
        };
        add(path);
    }
    found
}

/// Returns the files that would be read, also those that aren't there: a change of one is a change of instructions.
pub fn candidates(directory: &Path, worktree: &Path, config_home: &Path, config: &Config) -> Vec<PathBuf> {
    let up = directory.ancestors().take_while(|dir| dir.starts_with(worktree) && worktree.parent().is_some());
    let mut files: Vec<PathBuf> = up.flat_map(|dir| NAMES.map(|name| dir.join(name))).collect();
    files.extend(NAMES.map(|name| directory.join(name)));
    files.push(config_home.join("AGENTS.md"));
    files.extend(config.instructions.iter().map(|named| directory.join(named)));
    files
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn files_on_the_way_up_and_named_ones_are_read_once_each() {
        let root = tempfile::tempdir().expect("a directory");
        let top = root.path().join("top");
        let sub = top.join("sub");
        std::fs::create_dir_all(&sub).expect("made");
        for (path, text) in
            [("AGENTS.md", "top"), ("sub/AGENTS.md", "sub"), ("CLAUDE.md", "other"), ("extra.md", "extra")]
        {
            std::fs::write(top.join(path), text).expect("written");
        }
        let config: Config =
            serde_json::from_value(serde_json::json!({ "instructions": ["../extra.md", "AGENTS.md", "gone.md"] }))
                .expect("a config");
        let read = read(&sub, &top, Path::new("/nowhere"), Path::new("/nowhere"), &config);
        let texts: Vec<_> = read.iter().map(|i| i.text.as_str()).collect();
        assert_eq!(texts, ["sub", "top", "extra"]);
    }
}
