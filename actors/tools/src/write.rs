//! `write`: writes a whole file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::ToolContext;
use crate::diff::FileDiff;
use crate::edit::MAX_FILE;
use crate::error::ToolError;
use crate::files::load::load;
use crate::files::write::{Written, write_atomic};
use crate::files::{ContentHash, Files, changed, looking, writing};
use crate::format::formatted;
use crate::path::{Access, Located};
use crate::text::{self, without_mark};
use crate::tool::{Tool, ToolOutput, Traits};

/// Writes a whole file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write;

/// The arguments of [`Write`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteInput {
    /// All the file is to hold
    content: String,
    /// The file to write; absolute, or relative to the project's directory
    file_path: String,
}

/// A content that is ready to be written.
struct Prepared {
    /// What the file held when the person was asked; none when there was none.
    before: Option<ContentHash>,
    after: Vec<u8>,
    diff: FileDiff,
}

impl Tool for Write {
    type Input = WriteInput;
    const ID: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("write.txt");
    const TRAITS: Traits = Traits::writing("edit");

    fn serial_path(&self, input: &WriteInput) -> Option<String> {
        Some(input.file_path.clone())
    }

    fn suits(&self, model: &protocol::provider::Model) -> bool {
        !crate::apply_patch::is_known_to(model)
    }

    async fn run(&self, input: WriteInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let located = Arc::new(Located::of(cx, &input.file_path, Access::Write).await?);
        let prepared = {
            let (files, located) = (cx.files.clone(), located.clone());
            looking(cx, move |cancel| prepare(&files, &located, input.content, cancel)).await
        };
        if matches!(prepared, Err(ToolError::Aborted)) {
            return Err(ToolError::Aborted);
        }
        let preview = prepared.as_ref().ok().map(|prepared| prepared.diff.patch.as_str());
        located.ask_external_with(cx, preview).await?;
        let prepared = prepared?;
        located.ask_edit(cx, &prepared.diff.patch).await?;

        let effects = cx.begin().await?;
        let (written, note) = {
            let (call, located) = (cx.clone(), located.clone());
            let work = move |cancel: &CancellationToken| {
                let (files, paths) = (&call.files, [&*located.real]);
                files.locks().locked(&paths, || {
                    let now = load(&located.real, &located.shown, MAX_FILE, cancel)?.map(|loaded| loaded.hash);
                    // What would be lost is not what the person and the model knew of.
                    if now != prepared.before {
                        return Err(changed(&located.shown));
                    }
                    let written = write_atomic(&located.real, &located.shown, &prepared.after, &effects, cancel)?;
                    files.remember(&located.real, ContentHash::of(&prepared.after));
                    let formatted = formatted(&call, &effects, &located, prepared.after, cancel)?;
                    files.remember(&located.real, ContentHash::of(&formatted.bytes));
                    Ok((written, formatted.note()))
                })
            };
            writing(cx, work).await?
        };
        cx.desk.file_edited(&located.shown);
        let diagnosed = cx.diagnose(vec![located.shown.clone()]).await;
        let exists = written == Written::Replaced;
        let metadata = json!({"diagnostics": diagnosed.metadata(), "filepath": located.name(), "exists": exists});
        let output = format!("Wrote file successfully.{note}{}", diagnosed.told());
        Ok(ToolOutput::new(&located.title, output, metadata))
    }
}

fn prepare(
    files: &Files,
    located: &Located,
    content: String,
    cancel: &CancellationToken,
) -> Result<Prepared, ToolError> {
    let path = located.name();
    let new = without_mark(&content);
    let Some(old) = load(&located.real, &located.shown, MAX_FILE, cancel)? else {
        return Ok(Prepared { before: None, diff: FileDiff::of(&path, "", new), after: content.into_bytes() });
    };
    files.check_unchanged(&located.real, &located.shown, old.hash)?;
    let diff = match text::shown(&old.bytes) {
        Some(old) => FileDiff::of(&path, &old, new),
        None => FileDiff::binary(&path),
    };
    // The model is never shown the mark, so leaving it out says nothing.
    let is_marked = old.bytes.starts_with("\u{FEFF}".as_bytes()) || content.len() != new.len();
    let after = if is_marked { format!("\u{FEFF}{new}").into_bytes() } else { content.into_bytes() };
    Ok(Prepared { before: Some(old.hash), after, diff })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use pretty_assertions::assert_eq;
    use protocol::{Action, JsonMap, Rule};
    use serde_json::Value;

    use super::*;
    use crate::context::Refusal;
    use crate::testing::{FakeDesk, Noted, context};
    use crate::tool::AnyTool;

    fn setup() -> (tempfile::TempDir, PathBuf, ToolContext, Arc<FakeDesk>) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (cx, desk) = context(&root);
        (dir, root, cx, desk)
    }

    async fn write(cx: &ToolContext, path: impl AsRef<Path>, content: &str) -> Result<ToolOutput, ToolError> {
        let input = json!({"filePath": path.as_ref(), "content": content});
        let Value::Object(input) = input else { unreachable!() };
        AnyTool::run(&Write, input, cx).await
    }

    #[tokio::test]
    async fn a_new_file_is_asked_for_with_its_diff_and_written() {
        let (_keep, root, cx, desk) = setup();
        let path = root.join("w.txt");
        let output = write(&cx, &path, "x\n").await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
        let diff = FileDiff::of(&path.display().to_string(), "", "x\n").patch;
        let mut asked = JsonMap::new();
        asked.insert("filepath".into(), json!(path));
        asked.insert("diff".into(), json!(diff));
        let ask = crate::context::Ask::new("edit", vec!["w.txt".into()], vec!["*".into()], asked);
        assert_eq!(desk.noted(), vec![Noted::Asked(ask), Noted::Began, Noted::Edited(path.clone())]);
        let metadata = json!({"diagnostics": {}, "filepath": path, "exists": false});
        assert_eq!(output, ToolOutput::new("w.txt", "Wrote file successfully.", metadata));
    }

    #[tokio::test]
    async fn what_language_servers_say_is_told_with_it() {
        use crate::diagnostics::{Diagnosed, Diagnostic, FileDiagnostics, Severity};
        let (_keep, root, cx, desk) = setup();
        let (path, wire) = (root.join("w.ts"), json!({ "message": "bad" }));
        let remark =
            Diagnostic { severity: Severity::Error, line: 1, character: 2, message: "bad".into(), wire: wire.clone() };
        let file = FileDiagnostics { path: path.clone(), is_written: true, remarks: vec![remark] };
        desk.say(Diagnosed { files: vec![file], notes: Vec::new() });
        let output = write(&cx, &path, "x\n").await.unwrap();
        let frame = format!("<diagnostics file=\"{}\">\nERROR [1:2] bad\n</diagnostics>", path.display());
        assert!(
            output.output.starts_with("Wrote file successfully.\n\n") && output.output.ends_with(&frame),
            "{output:?}"
        );
        assert_eq!(output.metadata["diagnostics"], json!({ path.display().to_string(): [wire] }));
    }

    #[tokio::test]
    async fn a_change_from_outside_is_not_overwritten() {
        let (_keep, root, cx, desk) = setup();
        let path = root.join("f.txt");
        write(&cx, &path, "v1\n").await.unwrap();
        std::fs::write(&path, "v2\n").unwrap();
        let error = write(&cx, &path, "v3\n").await.unwrap_err().to_string();
        assert!(error.contains("Read it again"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "v2\n");
        assert_eq!(desk.begun(), 1);
    }

    #[tokio::test]
    async fn a_change_while_the_person_thinks_is_not_overwritten() {
        let (_keep, root, cx, desk) = setup();
        let path = root.join("f.txt");
        std::fs::write(&path, "v1\n").unwrap();
        let other = path.clone();
        desk.judge(move |_| {
            std::fs::write(&other, "v2\n").unwrap();
            Ok(())
        });
        assert!(write(&cx, &path, "v3\n").await.unwrap_err().to_string().contains("Read it again"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "v2\n");
    }

    #[tokio::test]
    async fn a_denied_write_through_a_link_touches_nothing_and_names_the_real_place() {
        let (_keep, root, cx, desk) = setup();
        let outside = tempfile::tempdir().unwrap();
        let real = outside.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&real, root.join("vendor")).unwrap();
        desk.judge(|ask| match ask.permission.as_str() {
            "external_directory" => Err(Refusal::Denied {
                permission: ask.permission.clone(),
                pattern: ask.patterns[0].clone(),
                rules: vec![Rule::new("external_directory", "*", Action::Deny)],
            }),
            _ => Ok(()),
        });
        let error = write(&cx, "vendor/sub/new.txt", "x\n").await.unwrap_err().to_string();
        assert!(error.contains(&real.display().to_string()), "{error}");
        assert!(!real.join("sub").exists());
        assert_eq!(desk.begun(), 0);
    }

    #[tokio::test]
    async fn the_byte_order_mark_is_kept() {
        let (_keep, root, cx, _) = setup();
        let path = root.join("b.txt");
        std::fs::write(&path, "\u{FEFF}old\n").unwrap();
        write(&cx, &path, "new\n").await.unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\u{FEFF}new\n");
    }

    #[tokio::test]
    async fn a_directory_is_not_written_over() {
        let (_keep, root, cx, desk) = setup();
        assert!(write(&cx, &root, "x").await.unwrap_err().to_string().contains("directory"));
        assert_eq!(desk.begun(), 0);
    }
}
