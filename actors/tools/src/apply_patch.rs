//! `apply_patch`: adds, changes, moves and deletes files by a patch. What GPT models are trained on in place of `edit`
//! and `write`.
//!
//! The whole patch is worked out before anything is asked, so that the person sees all of it, and again under the
//! files' locks when one of them has changed since. It is written whole: should a write fail, those before it are
//! taken back.

mod grammar;
mod place;
mod stage;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use protocol::JsonMap;
use protocol::provider::Model;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::context::{Ask, Progress, ToolContext};
use crate::error::ToolError;
use crate::files::{looking, writing};
use crate::path::{Access, Located};
use crate::tool::{Tool, ToolOutput, Traits};
use grammar::Section;
use stage::{FileChange, Part, Prepared, What, prepare};

/// Most sections of a patch.
const MAX_SECTIONS: usize = 500;

/// Changes files by a patch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApplyPatch;

/// The arguments of [`ApplyPatch`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchInput {
    /// The whole patch, from `*** Begin Patch` to `*** End Patch`
    patch_text: String,
}

impl Tool for ApplyPatch {
    type Input = PatchInput;
    const ID: &'static str = "apply_patch";
    const DESCRIPTION: &'static str = include_str!("apply_patch.txt");
    const TRAITS: Traits = Traits::writing("edit");

    /// One patch after the other, whatever files they name.
    fn serial_path(&self, _: &PatchInput) -> Option<String> {
        Some(".".into())
    }

    fn suits(&self, model: &Model) -> bool {
        is_known_to(model)
    }

    async fn run(&self, input: PatchInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let sections = grammar::parse(&input.patch_text).map_err(unfit)?;
        if sections.len() > MAX_SECTIONS {
            return Err(unfit(format!("it has {} sections, more than {MAX_SECTIONS}. Split it", sections.len())));
        }
        let parts = Arc::new(locate(cx, sections).await?);

        let prepared = {
            let (files, parts) = (cx.files.clone(), parts.clone());
            looking(cx, move |cancel| prepare(&files, &parts, cancel)).await
        };
        if matches!(prepared, Err(ToolError::Aborted)) {
            return Err(ToolError::Aborted);
        }
        ask_external(cx, &parts, prepared.as_ref().ok()).await?;
        let prepared = prepared?;
        cx.ask(ask(&parts, &prepared)).await?;

        let effects = cx.begin().await?;
        let prepared = {
            let (files, parts) = (cx.files.clone(), parts.clone());
            let work = move |cancel: &CancellationToken| {
                let paths: Vec<&Path> = parts.iter().flat_map(Part::paths).map(|located| &*located.real).collect();
                files.locks().locked(&paths, || {
                    let is_stale = prepared.is_stale(cancel)?;
                    let prepared = if is_stale { prepare(&files, &parts, cancel)? } else { prepared };
                    if cancel.is_cancelled() {
                        return Err(ToolError::Aborted);
                    }
                    prepared.write(&files, &effects)?;
                    Ok(prepared)
                })
            };
            writing(cx, work).await?
        };
        for path in prepared.edited() {
            cx.desk.file_edited(path);
        }
        let mut metadata = metadata(&prepared.changes);
        cx.desk.progress(Progress { title: None, metadata: metadata.clone() });
        let diagnosed = cx.diagnose(parts.iter().flat_map(Part::paths).map(|at| at.shown.clone()).collect()).await;
        metadata.insert("diagnostics".into(), diagnosed.metadata());
        let listed: Vec<String> = prepared.changes.iter().map(listed).collect();
        let output = format!("Success. Updated the following files:\n{}", listed.join("\n"));
        let told = diagnosed
            .told_by(&|path| parts.iter().flat_map(Part::paths).find(|at| at.shown == path).map(|at| &*at.title));
        Ok(ToolOutput { output: format!("{output}{told}"), title: output, metadata, ..ToolOutput::default() })
    }
}

/// Returns whether a model is trained on patches: OpenAI's, but for the older and the open ones. It is offered
/// `apply_patch`, others `edit` and `write`. Source: OpenCode `tool/registry.ts`.
pub fn is_known_to(model: &Model) -> bool {
    model.id.contains("gpt-") && !model.id.contains("oss") && !model.id.contains("gpt-4")
}

/// Returns the failure of a patch that can't be applied; clients know how it begins.
fn unfit(why: impl std::fmt::Display) -> ToolError {
    ToolError::failed(format!("apply_patch verification failed: {why}"))
}

async fn locate(cx: &ToolContext, sections: Vec<Section>) -> Result<Vec<Part>, ToolError> {
    let place = cx.place.clone();
    looking(cx, move |_| {
        let at = |path: &str| Located::at(&place, path, Access::Write);
        let part = |section: Section| {
            Ok(match section {
                Section::Add { path, content } => Part { file: at(&path)?, target: None, what: What::Add(content) },
                Section::Delete { path } => Part { file: at(&path)?, target: None, what: What::Delete },
                Section::Update { path, move_to, chunks } => {
                    let (file, target) = (at(&path)?, move_to.as_deref().map(at).transpose()?);
                    // A file that is moved onto itself stays.
                    let target = target.filter(|target| target.real != file.real);
                    Part { file, target, what: What::Update(chunks) }
                }
            })
        };
        sections.into_iter().map(part).collect()
    })
    .await
}

/// Asks for leave to go outside, once for each directory there.
async fn ask_external(cx: &ToolContext, parts: &[Part], prepared: Option<&Prepared>) -> Result<(), ToolError> {
    let mut asked = HashSet::new();
    for (at, part) in parts.iter().enumerate() {
        let diff = prepared.and_then(|prepared| prepared.changes.get(at)).map(|change| change.diff.patch.as_str());
        for located in part.paths() {
            if let Some(ask) = located.external()
                && asked.insert(ask.patterns)
            {
                located.ask_external_with(cx, diff).await?;
            }
        }
    }
    Ok(())
}

/// Returns the one question about all files of the patch.
fn ask(parts: &[Part], prepared: &Prepared) -> Ask {
    let mut patterns: Vec<String> = Vec::new();
    for pattern in parts.iter().flat_map(Part::paths).flat_map(|located| &located.patterns) {
        if !patterns.contains(pattern) {
            patterns.push(pattern.clone());
        }
    }
    let names: Vec<&str> = parts.iter().map(|part| part.file.title.as_str()).collect();
    let mut shown = metadata(&prepared.changes);
    shown.remove("diagnostics");
    shown.insert("filepath".into(), names.join(", ").into());
    Ask::new("edit", patterns, vec!["*".into()], shown)
}

fn metadata(changes: &[FileChange]) -> JsonMap {
    let diff: String = changes.iter().flat_map(|change| [&*change.diff.patch, "\n"]).collect();
    let files: Vec<Value> = changes.iter().map(entry).collect();
    ToolOutput::new("", "", json!({ "diff": diff, "files": files, "diagnostics": {} })).metadata
}

fn entry(change: &FileChange) -> Value {
    let mut entry = json!({
        "filePath": change.file.name(),
        "relativePath": change.last().title,
        "type": change.kind,
        "patch": change.diff.patch,
        "additions": change.diff.additions,
        "deletions": change.deletions,
    });
    if let (Some(target), Some(entry)) = (&change.target, entry.as_object_mut()) {
        entry.insert("movePath".into(), target.name().into());
    }
    entry
}

fn listed(change: &FileChange) -> String {
    let letter = match change.kind {
        stage::Kind::Add => 'A',
        stage::Kind::Delete => 'D',
        stage::Kind::Update | stage::Kind::Move => 'M',
    };
    format!("{letter} {}", change.last().title)
}

#[cfg(test)]
mod tests;
