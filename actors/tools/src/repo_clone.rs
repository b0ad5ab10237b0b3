//! `repo_clone`: keeps a shallow clone of another repository, to be read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::context::{Ask, Effects, ToolContext};
use crate::error::ToolError;
use crate::process::Spec;
use crate::repository::Repository;
use crate::tool::{AnyTool, ToolOutput, Traits, arguments, schema};

const ID: &str = "repo_clone";
/// How long git may take.
const LIMIT: Duration = Duration::from_secs(600);
/// How long it has to end after that.
const GRACE: Duration = Duration::from_millis(300);
/// Most bytes of what git says that are kept.
const MOST: usize = 64 * 1024;

/// Keeps a clone of another repository.
#[derive(Clone, Debug)]
pub struct RepoClone {
    /// Where clones are.
    clones: PathBuf,
    /// More of git's environment, for tests.
    env: Vec<(OsString, OsString)>,
}

impl RepoClone {
    /// Returns the tool; clones are kept below `clones`.
    pub fn new(clones: PathBuf) -> Self {
        Self { clones, env: Vec::new() }
    }
}

/// What the model gives.
#[derive(Debug, Deserialize, JsonSchema)]
struct RepoCloneInput {
    /// The repository: owner/name on GitHub, host/owner/name, or its url
    repository: String,
    /// Fetch what is new, where there is a clone already
    #[serde(default)]
    #[schemars(with = "bool")]
    refresh: Option<bool>,
    /// The branch or tag, if not the usual one
    #[serde(default)]
    #[schemars(with = "String")]
    branch: Option<String>,
}

impl AnyTool for RepoClone {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        let description = "Clones another repository (or brings a clone up to date) into a place of its own and tells you \
             where it is, so that you can read it with the other tools. Use it to see how a library really works. Nothing \
             of it is run, and the project you work in stays as it is.";
        ToolSpec { name: ID.into(), description: description.into(), parameters: schema::<RepoCloneInput>() }
    }

    fn traits(&self) -> Traits {
        // A clone takes its name when it is whole, so making it again does no harm; but it may take long.
        Traits { permission: ID, changes_files: false, repeatable: false }
    }

    fn serial_path(&self, input: &JsonMap) -> Option<String> {
        let repository = Repository::parse(input.get("repository")?.as_str()?).ok()?;
        Some(repository.place(&self.clones).to_string_lossy().into_owned())
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.clone_or_refresh(arguments(ID, Value::Object(input))?, cx).await })
    }
}

impl RepoClone {
    async fn clone_or_refresh(&self, input: RepoCloneInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let repository = Repository::parse(&input.repository)?;
        let branch = input.branch.as_deref().map(str::trim).filter(|branch| !branch.is_empty());
        if let Some(branch) = branch {
            check_branch(branch)?;
        }
        let (label, place) = (repository.label(), repository.place(&self.clones));
        let refresh = input.refresh.unwrap_or(false);
        let mut asked = JsonMap::from_iter([
            ("repository".to_owned(), json!(label)),
            ("remote".to_owned(), json!(repository.remote)),
            ("path".to_owned(), json!(place)),
            ("refresh".to_owned(), json!(refresh)),
        ]);
        if let Some(branch) = branch {
            asked.insert("branch".into(), json!(branch));
        }
        cx.ask(Ask::new(ID, vec![label.clone()], vec![label.clone()], asked)).await?;
        let effects = cx.begin().await?;

        let git = Git { cx, effects: &effects, env: &self.env };
        let exists = place.join(".git").is_dir();
        let here = if exists { git.say(&place, &["rev-parse", "--abbrev-ref", "HEAD"]).await.ok() } else { None };
        let is_other = branch.is_some_and(|branch| here.as_deref() != Some(branch));
        let status = match (exists, refresh || is_other) {
            (false, _) => {
                git.clone_into(&repository, branch, &place).await?;
                "cloned"
            }
            (true, true) => {
                let fetched = branch.or(here.as_deref()).unwrap_or("HEAD");
                git.say(&place, &["fetch", "--depth", "1", "origin", fetched]).await?;
                let branch = branch.or(here.as_deref()).filter(|name| *name != "HEAD");
                match branch {
                    Some(branch) => git.say(&place, &["checkout", "--force", "-B", branch, "FETCH_HEAD"]).await?,
                    None => git.say(&place, &["checkout", "--force", "--detach", "FETCH_HEAD"]).await?,
                };
                "refreshed"
            }
            (true, false) => "cached",
        };
        let head = git.say(&place, &["rev-parse", "HEAD"]).await.ok();
        let on = git.say(&place, &["rev-parse", "--abbrev-ref", "HEAD"]).await.ok().filter(|name| name != "HEAD");
        let mut lines = vec![
            format!("Repository ready: {label}"),
            format!("Status: {status}"),
            format!("Local path: {}", place.display()),
        ];
        let mut metadata = json!({
            "repository": label, "host": repository.host, "remote": repository.remote, "localPath": place, "status": status,
        });
        for (name, title, value) in [("branch", "Branch", on), ("head", "HEAD", head)] {
            if let Some(value) = value {
                lines.push(format!("{title}: {value}"));
                metadata[name] = value.into();
            }
        }
        Ok(ToolOutput::new(label, lines.join("\n"), metadata))
    }
}

fn check_branch(branch: &str) -> Result<(), ToolError> {
    let is_fine = branch.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c))
        && !branch.starts_with(['-', '/', '.'])
        && !branch.contains("..");
    if is_fine {
        return Ok(());
    }
    Err(ToolError::failed(format!(
        "{branch:?} is no branch: letters, digits, `/`, `_`, `.` and `-` can be in its name, `..` can't, and it begins \
         with a letter or digit."
    )))
}

/// Runs git for a call.
struct Git<'a> {
    cx: &'a ToolContext,
    effects: &'a Effects,
    env: &'a [(OsString, OsString)],
}

impl Git<'_> {
    /// Clones beside the place, which is taken when the clone is whole.
    async fn clone_into(&self, repository: &Repository, branch: Option<&str>, place: &Path) -> Result<(), ToolError> {
        let parent = place.parent().unwrap_or(place);
        tokio::fs::create_dir_all(parent).await.map_err(ToolError::io("making", parent))?;
        let beside =
            tempfile::Builder::new().prefix(".clone-").tempdir_in(parent).map_err(ToolError::io("making", parent))?;
        let target = beside.path().join("repository").to_string_lossy().into_owned();
        let mut args = vec!["clone", "--depth", "1", "--no-tags"];
        if let Some(branch) = branch {
            args.extend(["--branch", branch]);
        }
        args.extend(["--", repository.remote.as_str(), target.as_str()]);
        self.say(parent, &args).await?;
        match tokio::fs::rename(&target, place).await {
            Err(error) if !place.join(".git").is_dir() => Err(ToolError::io("making", place)(error)),
            // Another call was faster: theirs is as good.
            _ => Ok(()),
        }
    }

    /// Runs git and returns what it says. Errors with its words when it fails.
    async fn say(&self, cwd: &Path, args: &[&str]) -> Result<String, ToolError> {
        let mut env: Vec<(OsString, OsString)> = [
            // Nobody is there to answer, and nothing of the repository is to run.
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("LC_ALL", "C"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        env.extend(self.env.iter().cloned());
        let mut all: Vec<OsString> =
            ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"].map(Into::into).into();
        all.extend(args.iter().map(Into::into));
        let spec = Spec {
            program: "git".into(),
            args: all,
            cwd: cwd.to_owned(),
            env,
            session: self.cx.session_id.clone(),
            call: self.cx.call_id.as_str().to_owned(),
        };
        let failed = |why: String| ToolError::failed(format!("git could not be run: {why}."));
        let mut child = self.cx.processes.spawn(self.effects, spec).map_err(|e| failed(e.to_string()))?;
        let group = child.group();
        self.cx.desk.process_started(group);
        let mut said = Vec::new();
        let output = child.take_output();
        let work = async {
            if let Some(mut output) = output {
                let mut piece = vec![0; 8 * 1024];
                // What is beyond is read and dropped, so that git doesn't wait for a reader.
                while let Ok(read @ 1..) = output.read(&mut piece).await {
                    let room = MOST.saturating_sub(said.len()).min(read);
                    said.extend_from_slice(piece.get(..room).unwrap_or_default());
                }
            }
            child.exited().await
        };
        let ended = tokio::select! {
            () = self.cx.cancel.cancelled() => Err(ToolError::Aborted),
            ended = tokio::time::timeout(LIMIT, work) => match ended {
                Ok(ended) => ended.map_err(|e| failed(e.to_string())),
                Err(_) => Err(ToolError::TimedOut { tool: ID.into(), limit_ms: LIMIT.as_millis() as u64 }),
            },
        };
        child.end(GRACE).await;
        self.cx.desk.process_ended(group);
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        match ended? {
            status if status.success() => Ok(said),
            status => Err(ToolError::failed(format!(
                "git failed ({status}): {}",
                said.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::repo_overview::RepoOverview;
    use crate::testing::{FakeDesk, context};

    fn git(cwd: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
        let done = Command::new("git").args(identity).args(args).current_dir(cwd).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    struct World {
        _keep: tempfile::TempDir,
        source: PathBuf,
        clones: PathBuf,
        tool: RepoClone,
        cx: ToolContext,
        desk: std::sync::Arc<FakeDesk>,
    }

    impl World {
        /// `owner/name` on GitHub is a local repository here.
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let (source, clones) = (root.join("owner/name.git"), root.join("clones"));
            std::fs::create_dir_all(&source).unwrap();
            git(&source, &["init", "-q"]);
            std::fs::write(source.join("Cargo.toml"), "[package]\n").unwrap();
            std::fs::create_dir(source.join("src")).unwrap();
            std::fs::write(source.join("src/lib.rs"), "").unwrap();
            git(&source, &["add", "."]);
            git(&source, &["commit", "-qm", "first"]);
            let base = format!("url.file://{}/.insteadOf", root.display());
            let env = [
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", base.as_str()),
                ("GIT_CONFIG_VALUE_0", "https://github.com/"),
            ];
            let env = env.map(|(name, value)| (name.into(), value.into())).into();
            let project = root.join("project");
            std::fs::create_dir(&project).unwrap();
            let (cx, desk) = context(&project);
            let tool = RepoClone { clones: clones.clone(), env };
            Self { _keep: dir, source, clones, tool, cx, desk }
        }

        async fn call(&self, input: Value) -> Result<ToolOutput, ToolError> {
            let Value::Object(input) = input else { unreachable!() };
            self.tool.run(input, &self.cx).await
        }
    }

    #[tokio::test]
    async fn a_repository_is_cloned_once_and_refreshed_when_asked() {
        let world = World::new();
        let status = async |input: Value| world.call(input).await.unwrap().metadata["status"].clone();
        let first = world.call(json!({ "repository": "owner/name" })).await.unwrap();
        let place = world.clones.join("github.com/owner/name");
        assert_eq!((&first.metadata["status"], &first.metadata["branch"]), (&json!("cloned"), &json!("main")));
        assert!(first.output.contains(&format!("Local path: {}", place.display())), "{}", first.output);
        assert!(place.join("src/lib.rs").exists());
        assert_eq!(world.desk.asks()[0].patterns, ["owner/name"]);

        std::fs::write(world.source.join("new"), "").unwrap();
        git(&world.source, &["add", "."]);
        git(&world.source, &["commit", "-qm", "second"]);
        git(&world.source, &["branch", "side"]);
        assert_eq!(status(json!({ "repository": "https://github.com/owner/name" })).await, "cached");
        assert!(!place.join("new").exists());
        assert_eq!(status(json!({ "repository": "owner/name", "refresh": true })).await, "refreshed");
        assert!(place.join("new").exists());
        let side = world.call(json!({ "repository": "owner/name", "branch": "side" })).await.unwrap();
        assert_eq!((&side.metadata["status"], &side.metadata["branch"]), (&json!("refreshed"), &json!("side")));
    }

    #[tokio::test]
    async fn what_is_not_there_leaves_nothing() {
        let world = World::new();
        let error = world.call(json!({ "repository": "owner/other" })).await.unwrap_err().to_string();
        assert!(error.starts_with("git failed (exit status: 128): "), "{error}");
        assert!(std::fs::read_dir(world.clones.join("github.com/owner")).unwrap().next().is_none());
        for bad in [json!({ "repository": "x" }), json!({ "repository": "a/b", "branch": "--help" })] {
            assert!(world.call(bad).await.is_err());
        }
        assert_eq!(world.desk.begun(), 1);
    }

    #[tokio::test]
    async fn a_clone_is_looked_over() {
        let world = World::new();
        let tool = RepoOverview::new(world.clones.clone());
        let call = async |input: Value| {
            let Value::Object(input) = input else { unreachable!() };
            tool.run(input, &world.cx).await
        };
        let error = call(json!({ "repository": "owner/name" })).await.unwrap_err().to_string();
        assert!(error.contains("repo_clone"), "{error}");
        world.call(json!({ "repository": "owner/name" })).await.unwrap();
        let seen = call(json!({ "repository": "owner/name" })).await.unwrap();
        for part in ["Repository: owner/name", "Ecosystems: Rust", "Cargo.toml", "src/\n", "  lib.rs"] {
            assert!(seen.output.contains(part), "{part}: {}", seen.output);
        }
        assert_eq!(seen.metadata["ecosystems"], json!(["Rust"]));
        let shallow = call(json!({ "path": world.source, "depth": 1 })).await.unwrap();
        assert!(!shallow.output.contains("  lib.rs"), "{}", shallow.output);
    }
}
