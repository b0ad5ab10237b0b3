//! A project to work in: a git repository in a temporary directory, configured for a scripted model.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ScriptedModel;

/// A project's directory; it is gone when this is dropped.
#[derive(Debug)]
pub struct Project {
    dir: TempDir,
}

/// A project to be.
#[derive(Debug)]
#[must_use = "`create` makes the project"]
pub struct ProjectBuilder {
    files: Vec<(PathBuf, Vec<u8>)>,
    config: Value,
    git: bool,
}

impl Project {
    /// Begins a project whose `opencode.json` names `model` as `mock/mock`. There are three models of that provider:
    /// `mock` (128,000 tokens, 8,192 of them output), `small` (20,000 and 2,000) and `vision` (as `mock`, and it
    /// takes images and thinks). Waits before a model request is tried again are a few ms.
    #[expect(clippy::new_ret_no_self, reason = "it reads best as the beginning of a project")]
    pub fn new(model: &ScriptedModel) -> ProjectBuilder {
        let limit = |context: u64, output: u64| json!({ "context": context, "output": output });
        let config = json!({
            "model": "mock/mock",
            "small_model": "mock/mock",
            "share": "disabled",
            "autoupdate": false,
            "provider": { "mock": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Mock",
                "options": { "baseURL": model.base_url(), "apiKey": "x" },
                "models": {
                    "mock": { "name": "mock", "limit": limit(128_000, 8_192) },
                    "small": { "name": "small", "limit": limit(20_000, 2_000) },
                    "vision": {
                        "name": "vision", "limit": limit(128_000, 8_192), "attachment": true, "reasoning": true,
                        "modalities": { "input": ["text", "image"], "output": ["text"] },
                    },
                },
            } },
            "troupe": { "retry": { "base_ms": 5 } },
        });
        ProjectBuilder { files: Vec::new(), config, git: true }
    }

    /// Returns the directory, symbolic links resolved.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the absolute path of a file below the directory.
    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Returns a file's text.
    pub fn read(&self, file: impl AsRef<Path>) -> String {
        let path = self.path(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns whether there is such a file or directory.
    pub fn exists(&self, file: impl AsRef<Path>) -> bool {
        self.path(file).exists()
    }

    /// Writes a file, and the directories above it.
    pub fn write(&self, file: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(file);
        put(&path, content.as_ref());
        path
    }

    /// Merges `more` into `opencode.json`.
    pub fn change_config(&self, more: Value) {
        let mut config = serde_json::from_str(&self.read("opencode.json")).expect("opencode.json");
        merge(&mut config, more);
        self.write("opencode.json", format!("{config:#}"));
    }

    /// Runs git in the directory, cut off from the machine's own settings, and returns what it prints.
    pub fn git(&self, args: &[&str]) -> String {
        git(self.dir.path(), args)
    }
}

impl ProjectBuilder {
    /// Adds a file to the first commit.
    pub fn file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }

    /// Merges `more` into the config: objects key by key, anything else replaced.
    pub fn config(mut self, more: Value) -> Self {
        merge(&mut self.config, more);
        self
    }

    /// Leaves out the repository.
    pub fn without_git(mut self) -> Self {
        self.git = false;
        self
    }

    /// Makes the project: files, `opencode.json`, and one commit of all of it.
    pub fn create(self) -> Project {
        let temporary = std::env::temp_dir().canonicalize().expect("a directory for temporary files");
        let dir = tempfile::Builder::new().prefix("project-").tempdir_in(temporary).expect("a temporary directory");
        let project = Project { dir };
        project.write("opencode.json", format!("{:#}", self.config));
        for (path, content) in self.files {
            project.write(path, content);
        }
        if self.git {
            project.git(&["init", "--quiet", "--initial-branch=master"]);
            project.git(&["add", "--all", "--force"]);
            // The first commit names the project, so two projects may not have the same.
            let name = project.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
            project.git(&["commit", "--quiet", "--allow-empty", "--message", &name]);
        }
        project
    }
}

fn put(path: &Path, content: &[u8]) {
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, content));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn git(dir: &Path, args: &[&str]) -> String {
    const NAME: &str = "Tester";
    const EMAIL: &str = "tester@example.com";
    const DATE: &str = "2026-01-02T03:04:05Z";
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .envs([("GIT_AUTHOR_NAME", NAME), ("GIT_AUTHOR_EMAIL", EMAIL), ("GIT_AUTHOR_DATE", DATE)])
        .envs([("GIT_COMMITTER_NAME", NAME), ("GIT_COMMITTER_EMAIL", EMAIL), ("GIT_COMMITTER_DATE", DATE)])
        .output()
        .expect("git");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Merges `more` into `base`.
fn merge(base: &mut Value, more: Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn a_project_is_one_commit_with_its_files_and_merged_config() {
        let model = ScriptedModel::start().await;
        let project = Project::new(&model)
            .file("src/a.txt", "alpha\n")
            .config(json!({ "permission": { "bash": "ask" }, "troupe": { "retry": { "max_attempts": 2 } } }))
            .create();
        assert_eq!(project.git(&["log", "--format=%an %ae"]), "Tester tester@example.com\n");
        assert_eq!(project.git(&["ls-files"]), "opencode.json\nsrc/a.txt\n");
        assert_eq!(project.git(&["status", "--porcelain"]), "");
        let config: Value = serde_json::from_str(&project.read("opencode.json")).expect("JSON");
        assert_eq!(config["troupe"], json!({ "retry": { "base_ms": 5, "max_attempts": 2 } }));
        assert_eq!(config["provider"]["mock"]["options"]["baseURL"], json!(model.base_url()));

        project.write("sub/b.txt", "b");
        assert!(project.exists("sub/b.txt"));
        let other = Project::new(&model).file("src/a.txt", "alpha\n").create();
        assert_ne!(project.git(&["rev-parse", "HEAD"]), other.git(&["rev-parse", "HEAD"]));
    }
}
