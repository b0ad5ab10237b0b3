//! Which program runs JavaScript here: Node, else Bun.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

/// The first version of Node that reads TypeScript by itself.
const READS_TYPESCRIPT: u32 = 22;
/// The first version of Node whose module hooks the sidecar can use.
const OLDEST: u32 = 20;
/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs JavaScript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Where it is.
    pub program: PathBuf,
    /// Which.
    pub kind: Kind,
}

/// Which program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Node, of this major version.
    Node(u32),
    /// Bun.
    Bun,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRuntime {
    /// Neither is installed.
    #[error("neither Node nor Bun is on PATH; install Node 22.13 or later to use these")]
    Missing,
    /// Node is too old, and there is no Bun.
    #[error("Node {0} is too old; install Node 22.13 or later, or Bun, to use these")]
    TooOld(u32),
    /// The one that the config names does not run.
    #[error("{} can't be used as the config says: {reason}", program.display())]
    Broken {
        /// The program.
        program: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Runtime {
    /// Returns the program to use: the `wanted` one, else a Node that reads TypeScript, Bun, or an older Node, as they
    /// are found in `path` (`PATH`).
    pub async fn find(wanted: Option<&Path>, path: &str) -> Result<Self, NoRuntime> {
        if let Some(program) = wanted {
            let broken = |reason| NoRuntime::Broken { program: program.to_owned(), reason };
            let found =
                if program.components().count() == 1 { on_path(path, program) } else { Some(program.to_owned()) };
            let found = found.ok_or_else(|| broken("there is no such program on PATH".to_owned()))?;
            let kind = kind_of(&found).await.map_err(broken)?;
            return Ok(Self { program: found, kind });
        }
        let node = match on_path(path, Path::new("node")) {
            Some(program) => kind_of(&program).await.ok().map(|kind| Self { program, kind }),
            None => None,
        };
        if let Some(Self { kind: Kind::Node(READS_TYPESCRIPT..), .. }) = node {
            return node.ok_or(NoRuntime::Missing);
        }
        if let Some(program) = on_path(path, Path::new("bun")) {
            return Ok(Self { program, kind: Kind::Bun });
        }
        match node {
            Some(Self { kind: Kind::Node(major), .. }) if major < OLDEST => Err(NoRuntime::TooOld(major)),
            Some(node) => Ok(node),
            None => Err(NoRuntime::Missing),
        }
    }
}

fn on_path(path: &str, name: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(is_program)
}

/// Asks a program for its version: Node says `v22.1.0`, Bun `1.2.3`.
async fn kind_of(program: &Path) -> Result<Kind, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    let output = output.map_err(|_| "it does not say its version".to_owned())?.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let major = |version: &str| version.split('.').next().and_then(|major| major.parse().ok());
    match said.strip_prefix('v') {
        Some(version) => major(version).map(Kind::Node),
        None => major(&said).map(|_: u32| Kind::Bun),
    }
    .ok_or_else(|| format!("it says {said:?} where its version was expected"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn program(dir: &Path, name: &str, says: &str) {
        support::write_program(dir.join(name), &format!("#!/bin/sh\necho {says}\n"));
    }

    async fn found(programs: &[(&str, &str)]) -> Result<Kind, NoRuntime> {
        let dir = tempfile::tempdir().expect("a directory");
        programs.iter().for_each(|(name, says)| program(dir.path(), name, says));
        Runtime::find(None, &dir.path().to_string_lossy()).await.map(|runtime| runtime.kind)
    }

    #[tokio::test]
    async fn a_node_that_reads_typescript_goes_before_bun_and_bun_before_an_older_node() {
        assert_eq!(found(&[("node", "v22.18.0"), ("bun", "1.2.3")]).await, Ok(Kind::Node(22)));
        assert_eq!(found(&[("node", "v20.1.0"), ("bun", "1.2.3")]).await, Ok(Kind::Bun));
        assert_eq!(found(&[("node", "v20.1.0")]).await, Ok(Kind::Node(20)));
        assert_eq!(found(&[("node", "v16.0.0")]).await, Err(NoRuntime::TooOld(16)));
        assert_eq!(found(&[]).await, Err(NoRuntime::Missing));
    }

    #[tokio::test]
    async fn the_configs_own_choice_is_taken_or_named() {
        let dir = tempfile::tempdir().expect("a directory");
        program(dir.path(), "mine", "1.1.1");
        let mine = dir.path().join("mine");
        let wanted = Runtime::find(Some(&mine), "").await;
        assert_eq!(wanted, Ok(Runtime { program: mine, kind: Kind::Bun }));
        let error = Runtime::find(Some(&dir.path().join("other")), "").await.expect_err("none");
        assert!(error.to_string().contains("other"), "{error}");
    }
}
