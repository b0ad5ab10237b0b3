//! `glob`: finds files by a pattern of their path.

use std::path::Path;

use ignore::WalkState;
use protocol::JsonMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::searching;
use crate::path::{Access, Kind, Located};
use crate::search::pattern::Pattern;
use crate::search::{Best, Bounds, Interest, TIME, is_directory, is_file, walk};
use crate::tool::{Tool, ToolOutput, Traits};

/// Most paths given.
const MAX_PATHS: usize = 100;

/// Finds files by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glob;

/// The arguments of [`Glob`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct GlobInput {
    /// The pattern that files' paths must match
    pattern: String,
    /// The directory to search; leave it out for the project's directory
    #[schemars(extend("default" = "."))]
    path: Option<String>,
}

impl Tool for Glob {
    type Input = GlobInput;
    const ID: &'static str = "glob";
    const DESCRIPTION: &'static str = include_str!("glob.txt");
    const TRAITS: Traits = Traits::reading("glob");

    async fn run(&self, input: GlobInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let pattern = Pattern::parse(&input.pattern).map_err(|error| ToolError::failed(error.to_string()))?;
        let path = input.path.as_deref().map(str::trim).filter(|path| !path.is_empty());
        let base = Located::of(cx, path.unwrap_or("."), Access::Read).await?;
        // What the pattern's plain beginning leads to is judged like a path of its own.
        let prefix = if pattern.prefix.starts_with("~/") {
            pattern.prefix.clone()
        } else {
            base.shown.join(&pattern.prefix).to_string_lossy().into_owned()
        };
        let target = Located::of(cx, &prefix, Access::Read).await?;
        target.ask_external(cx).await?;
        let mut metadata = JsonMap::new();
        metadata.insert("pattern".into(), input.pattern.clone().into());
        metadata.insert("path".into(), base.name().into());
        cx.ask(Ask::new("glob", vec![input.pattern], vec!["*".into()], metadata)).await?;
        if pattern.prefix.is_empty() {
            must_be_directory(&base)?;
        }
        let title = base.title;
        searching(cx, move |cancel| {
            let bounds = Bounds::new(cancel.clone(), TIME);
            let (found, is_more) = find(&target, &pattern, &bounds);
            if bounds.is_cancelled() {
                return Err(ToolError::Aborted);
            }
            Ok(show(title, found, is_more, bounds.was_late()))
        })
        .await
    }
}

/// Returns an error unless there is a directory to search.
pub(crate) fn must_be_directory(located: &Located) -> Result<(), ToolError> {
    let name = located.shown.display();
    match located.kind {
        Kind::Directory => Ok(()),
        Kind::Missing => Err(ToolError::failed(format!("The directory {name} does not exist."))),
        Kind::File | Kind::Special(_) => Err(ToolError::failed(format!("{name} is not a directory."))),
    }
}

fn find(target: &Located, pattern: &Pattern, bounds: &Bounds) -> (Vec<String>, bool) {
    let best = Best::new(MAX_PATHS);
    // A file that is named outright is found even where it is ignored.
    if let Some(name) = &pattern.plain
        && std::fs::symlink_metadata(target.real.join(name)).is_ok_and(|metadata| metadata.is_file())
    {
        best.offer(Path::new(name), vec![()]);
    }
    if target.kind == Kind::Directory {
        walk(&target.real, pattern.depth, bounds, || {
            |entry, relative| {
                if is_directory(entry) {
                    return match best.interest(relative) {
                        Interest::None => WalkState::Skip,
                        _ => WalkState::Continue,
                    };
                }
                if is_file(entry) && pattern.matches(relative) && best.interest(relative) != Interest::None {
                    best.offer(relative, vec![()]);
                }
                WalkState::Continue
            }
        });
    }
    let (found, is_more) = best.take();
    let shown = |(path, _): (std::path::PathBuf, _)| target.shown.join(path).to_string_lossy().into_owned();
    (found.into_iter().map(shown).collect(), is_more)
}

fn show(title: String, found: Vec<String>, is_more: bool, is_late: bool) -> ToolOutput {
    let mut output = if found.is_empty() { "No files found".to_owned() } else { found.join("\n") };
    if is_more {
        output.push_str(&format!(
            "\n\n(Results are truncated: showing first {MAX_PATHS} results. Use a narrower pattern or path.)"
        ));
    }
    if is_late {
        output.push_str(&late());
    }
    let metadata = json!({"count": found.len()});
    ToolOutput { truncated: Some(is_more || is_late), ..ToolOutput::new(title, output, metadata) }
}

/// Returns what the model is told of a search that ran out of time.
pub(crate) fn late() -> String {
    format!(
        "\n\n(Results are partial: the search was stopped after {} s. Use a narrower pattern or path.)",
        TIME.as_secs()
    )
}

#[cfg(test)]
mod tests;
