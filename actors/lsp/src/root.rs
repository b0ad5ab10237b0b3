//! Where a file's project begins, and where a server's program is. Blocks: looks at the disk.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::Server;

/// What to run, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The root of the project.
    pub root: PathBuf,
    /// The program, as a path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Returns how a server is run for a file; none where it is not its business, or not installed. `top` is the highest
/// directory that is looked into.
pub fn launch(server: &Server, file: &Path, directory: &Path, top: &Path) -> Option<Launch> {
    let root = root(server, file, directory, top)?;
    let (program, args) = program(server, &root, directory, top)?;
    Some(Launch { root, program, args })
}

fn root(server: &Server, file: &Path, directory: &Path, top: &Path) -> Option<PathBuf> {
    let Some(known) = server.known else { return Some(directory.to_owned()) };
    let inside = || file.ancestors().skip(1).take_while(|at| at.starts_with(top));
    let has = |at: &Path, names: &[&str]| names.iter().any(|name| at.join(name).exists());
    if inside().any(|at| has(at, known.excluded_by)) {
        return None;
    }
    match inside().find(|at| has(at, known.markers)) {
        Some(root) => Some(root.to_owned()),
        None if known.needs_marker => None,
        None => Some(directory.to_owned()),
    }
}

fn program(server: &Server, root: &Path, directory: &Path, top: &Path) -> Option<(PathBuf, Vec<String>)> {
    let mut bins: Vec<PathBuf> = Vec::new();
    for start in [root, directory] {
        let inside = start.ancestors().take_while(|at| at.starts_with(top));
        bins.extend(inside.flat_map(|at| ["node_modules/.bin", ".venv/bin", "vendor/bin"].map(|bin| at.join(bin))));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |name: &str| {
        if name.contains('/') {
            return Some(directory.join(name)).filter(|path| is_program(path));
        }
        let everywhere = bins.iter().cloned().chain(std::env::split_paths(&path));
        everywhere.filter(|bin| bin.is_absolute()).map(|bin| bin.join(name)).find(|path| is_program(path))
    };
    let with_args = |command: &[&str]| {
        let (name, args) = command.split_first()?;
        Some((find(name)?, args.iter().map(|&arg| arg.to_owned()).collect()))
    };
    match (&server.command, server.known) {
        (Some(command), _) => with_args(&command.iter().map(String::as_str).collect::<Vec<_>>()),
        (None, Some(known)) => known.commands.iter().find_map(|command| with_args(command)),
        (None, None) => None,
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::config::Settings;

    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        (dir, root)
    }

    fn found(server: &str, root: &Path, file: &str) -> Option<(PathBuf, PathBuf)> {
        let config = json!({ "own": { "command": ["node_modules/.bin/own", "x"], "extensions": [".own"] } });
        let settings = Settings::of(Some(&config));
        let path = root.join(file);
        let server = settings.fitting(&path).find(|other| other.name == server).unwrap();
        let launch = launch(server, &path, root, root)?;
        let below = |path: &Path| path.strip_prefix(root).unwrap().to_owned();
        Some((below(&launch.root), below(&launch.program)))
    }

    #[test]
    fn the_nearest_marker_is_the_root_and_the_projects_own_program_comes_first() {
        let bin = "node_modules/.bin/typescript-language-server";
        let (_keep, root) = tree(&[bin, "package.json", "web/tsconfig.json", "web/src/a.ts", "b.ts"]);
        assert_eq!(found("typescript", &root, "web/src/a.ts"), Some(("web".into(), bin.into())));
        assert_eq!(found("typescript", &root, "b.ts"), Some(("".into(), bin.into())));
    }

    #[test]
    fn where_another_server_is_at_home_or_a_marker_is_missing_there_is_none() {
        let bins = ["node_modules/.bin/typescript-language-server", "node_modules/.bin/rust-analyzer"];
        let (_keep, root) = tree(&[bins[0], bins[1], "deno.json", "a.ts", "a.rs", "c/Cargo.toml", "c/src/a.rs"]);
        assert_eq!(found("typescript", &root, "a.ts"), None);
        assert_eq!(found("rust", &root, "a.rs"), None);
        assert_eq!(found("rust", &root, "c/src/a.rs"), Some(("c".into(), bins[1].into())));
    }

    #[test]
    fn a_server_of_the_config_runs_in_the_directory_and_only_where_its_program_is() {
        let (_keep, root) = tree(&["node_modules/.bin/own", "sub/a.own"]);
        assert_eq!(found("own", &root, "sub/a.own"), Some(("".into(), "node_modules/.bin/own".into())));
        std::fs::remove_file(root.join("node_modules/.bin/own")).unwrap();
        assert_eq!(found("own", &root, "sub/a.own"), None);
    }
}
