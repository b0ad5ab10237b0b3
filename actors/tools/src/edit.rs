//! `edit`: replaces text in a file.
//!
//! The change is worked out before anything is asked, so that the person sees it, and again under the file's lock when
//! the file has changed since. Outside the project the person's leave comes before the model learns what is there.

mod anchors;
mod plan;
mod problem;
mod reindent;
mod strategies;

use std::sync::Arc;

use protocol::JsonMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::{Progress, ToolContext};
use crate::diff::FileDiff;
use crate::error::ToolError;
use crate::files::load::load;
use crate::files::write::write_atomic;
use crate::files::{ContentHash, looking, writing};
use crate::format::formatted;
use crate::path::{Access, Located};
use crate::text::Text;
use crate::tool::{Tool, ToolOutput, Traits};
use plan::Change;
use problem::Problem;
use strategies::Wanted;

/// The largest file that is edited or overwritten, in bytes.
pub(crate) const MAX_FILE: usize = 64 * 1024 * 1024;

/// Replaces text in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edit;

/// The arguments of [`Edit`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditInput {
    /// The file to change; absolute, or relative to the project's directory
    file_path: String,
    /// The text to replace, exactly as it is in the file
    old_string: String,
    /// The text to put in its place; it must differ from oldString
    new_string: String,
    /// Replace every occurrence of oldString instead of the only one (default: false)
    #[schemars(extend("default" = false))]
    replace_all: Option<bool>,
}

/// A change that was worked out.
struct Prepared {
    /// The content it was worked out for; none when the file is new.
    before: Option<ContentHash>,
    after: Vec<u8>,
    diff: FileDiff,
}

impl Tool for Edit {
    type Input = EditInput;
    const ID: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("edit.txt");
    const TRAITS: Traits = Traits::writing("edit");

    fn serial_path(&self, input: &EditInput) -> Option<String> {
        Some(input.file_path.clone())
    }

    fn suits(&self, model: &protocol::provider::Model) -> bool {
        !crate::apply_patch::is_known_to(model)
    }

    async fn run(&self, input: EditInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let change = Arc::new(Change {
            old: input.old_string,
            new: input.new_string,
            wanted: if input.replace_all.unwrap_or(false) { Wanted::All } else { Wanted::One },
            may_guess: cx.place.config.troupe.edit.anchors,
        });
        change.check()?;
        let located = Arc::new(Located::of(cx, &input.file_path, Access::Write).await?);

        let prepared = {
            let (cx_files, located, change) = (cx.files.clone(), located.clone(), change.clone());
            looking(cx, move |cancel| prepare(&cx_files, &located, &change, cancel)).await
        };
        if matches!(prepared, Err(ToolError::Aborted)) {
            return Err(ToolError::Aborted);
        }
        let preview = prepared.as_ref().ok().map(|prepared| prepared.diff.patch.as_str());
        located.ask_external_with(cx, preview).await?;
        let prepared = prepared?;
        located.ask_edit(cx, &prepared.diff.patch).await?;

        let effects = cx.begin().await?;
        let (diff, note) = {
            let (call, located) = (cx.clone(), located.clone());
            let work = move |cancel: &CancellationToken| {
                let (files, paths) = (&call.files, [&*located.real]);
                files.locks().locked(&paths, || {
                    let old = load(&located.real, &located.shown, MAX_FILE, cancel)?;
                    let Prepared { after, diff, .. } = if old.as_ref().map(|old| old.hash) == prepared.before {
                        prepared
                    } else {
                        prepare(files, &located, &change, cancel)?
                    };
                    write_atomic(&located.real, &located.shown, &after, &effects, cancel)?;
                    files.remember(&located.real, ContentHash::of(&after));
                    let formatted = formatted(&call, &effects, &located, after, cancel)?;
                    if formatted.by.is_empty() {
                        return Ok((diff, String::new()));
                    }
                    files.remember(&located.real, ContentHash::of(&formatted.bytes));
                    let old = old.map(|old| old.bytes).unwrap_or_default();
                    Ok((FileDiff::of_bytes(&located.name(), &old, &formatted.bytes), formatted.note()))
                })
            };
            writing(cx, work).await?
        };
        cx.desk.file_edited(&located.shown);
        let mut metadata = metadata(&located, &diff);
        cx.desk.progress(Progress { title: None, metadata: metadata.clone() });
        let diagnosed = cx.diagnose(vec![located.shown.clone()]).await;
        metadata.insert("diagnostics".into(), diagnosed.metadata());
        Ok(ToolOutput {
            title: located.title.clone(),
            output: format!("Edit applied successfully.{note}{}", diagnosed.told()),
            metadata,
            ..ToolOutput::default()
        })
    }
}

fn metadata(located: &Located, diff: &FileDiff) -> JsonMap {
    let all = json!({
        "diff": diff.patch,
        "filediff": {
            "file": located.name(),
            "patch": diff.patch,
            "additions": diff.additions,
            "deletions": diff.deletions,
        },
        "diagnostics": {},
    });
    ToolOutput::new("", "", all).metadata
}

/// Works a change out for the file as it is now. Errors when the session has seen another content of it.
fn prepare(
    files: &crate::files::Files,
    located: &Located,
    change: &Change,
    cancel: &CancellationToken,
) -> Result<Prepared, ToolError> {
    let shown = &located.shown;
    let Some(loaded) = load(&located.real, shown, MAX_FILE, cancel)? else {
        if change.old.is_empty() {
            let diff = FileDiff::of(&located.name(), "", crate::text::without_mark(&change.new));
            return Ok(Prepared { before: None, after: change.new.clone().into_bytes(), diff });
        }
        return Err(ToolError::failed(format!("File {} not found", shown.display())));
    };
    if change.old.is_empty() {
        return Err(Problem::Empty.into());
    }
    files.check_unchanged(&located.real, shown, loaded.hash)?;
    let cannot = |why: &dyn std::fmt::Display| ToolError::failed(format!("Cannot edit {}: {why}.", shown.display()));
    let text = Text::decode(&loaded.bytes).map_err(|e| cannot(&e))?;
    let plan = change.plan(&text)?;
    tracing::debug!(strategy = ?plan.strategy, places = plan.places.len(), "edit matched");
    let after = text.splice(&plan.places).map_err(|e| cannot(&e))?;
    let diff = FileDiff::of(&located.name(), &text.shown(), &text.shown_with(&plan.places));
    Ok(Prepared { before: Some(loaded.hash), after, diff })
}

impl From<Problem> for ToolError {
    fn from(problem: Problem) -> Self {
        Self::failed(problem.to_string())
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
