//! `grep`: finds lines in files by a regular expression.

use grep_matcher::Matcher;
use protocol::JsonMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::{Ask, ToolContext};
use crate::error::ToolError;
use crate::files::open::not_regular;
use crate::files::{looking, searching};
use crate::glob::late;
use crate::path::{Access, Kind, Located};
use crate::search::lines::{Ground, matcher, search};
use crate::search::pattern::Filter;
use crate::search::{Bounds, TIME};
use crate::tool::{Tool, ToolOutput, Traits};

/// Most lines given.
const MAX_LINES: usize = 100;
/// The longest line given, in characters.
const MAX_LINE: usize = 500;
/// How much is shown before a match that lies deep in a long line, in characters.
const LEAD: usize = 100;
/// All that is given, in bytes.
const MAX_OUTPUT: usize = 50 * 1024;

/// Finds lines by what is in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grep;

/// The arguments of [`Grep`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct GrepInput {
    /// The regular expression that lines must match
    pattern: String,
    /// The directory or file to search; leave it out for the project's directory
    #[schemars(extend("default" = "."))]
    path: Option<String>,
    /// The files to search, by a pattern of their path: `*.js`, `*.{ts,tsx}`
    #[schemars(extend("default" = "*"))]
    include: Option<String>,
}

impl Tool for Grep {
    type Input = GrepInput;
    const ID: &'static str = "grep";
    const DESCRIPTION: &'static str = include_str!("grep.txt");
    const TRAITS: Traits = Traits::reading("grep");

    async fn run(&self, input: GrepInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.pattern.is_empty() {
            return Err(ToolError::failed("The pattern is empty. Give a regular expression."));
        }
        let matcher = {
            let pattern = input.pattern.clone();
            looking(cx, move |_| matcher(&pattern).map_err(ToolError::failed)).await?
        };
        let filter = Filter::parse(input.include.as_deref().unwrap_or_default())
            .map_err(|error| ToolError::failed(error.to_string()))?;
        let path = input.path.as_deref().map(str::trim).filter(|path| !path.is_empty());
        let located = Located::of(cx, path.unwrap_or("."), Access::Read).await?;
        located.ask_external(cx).await?;
        let mut metadata = JsonMap::new();
        metadata.insert("pattern".into(), input.pattern.clone().into());
        metadata.insert("path".into(), located.name().into());
        if let Some(include) = &input.include {
            metadata.insert("include".into(), include.clone().into());
        }
        cx.ask(Ask::new("grep", vec![input.pattern.clone()], vec!["*".into()], metadata)).await?;
        match located.kind {
            Kind::File | Kind::Directory => {}
            Kind::Missing => {
                return Err(ToolError::failed(format!("The path {} does not exist.", located.shown.display())));
            }
            Kind::Special(_) => return Err(not_regular(&located.shown, located.kind)),
        }
        searching(cx, move |cancel| {
            let bounds = Bounds::new(cancel.clone(), TIME);
            let ground = match located.kind {
                Kind::File => Ground::File(&located.real),
                _ => Ground::Tree(&located.real, &filter),
            };
            let (found, is_more) = search(&ground, &matcher, MAX_LINES, &bounds, |matcher, line| {
                (line.line_number().unwrap_or(1), clipped(matcher, line.bytes()))
            });
            if bounds.is_cancelled() {
                return Err(ToolError::Aborted);
            }
            let shown = |path: &std::path::Path| match path.as_os_str().is_empty() {
                true => located.name(),
                false => located.shown.join(path).to_string_lossy().into_owned(),
            };
            let found: Vec<_> = found.into_iter().map(|(path, lines)| (shown(&path), lines)).collect();
            Ok(show(input.pattern, &found, is_more, bounds.was_late()))
        })
        .await
    }
}

/// Returns a line to be shown; of a long one the part around its match.
fn clipped(matcher: &impl Matcher, line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let at = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    // Four bytes are enough for any character, so the whole of a huge line is never decoded.
    let from = if at > MAX_LINE { at - LEAD } else { 0 };
    let part = line.get(from..line.len().min(from + 4 * MAX_LINE + 4)).unwrap_or_default();
    // A cut may have gone through a character.
    let cut = part.iter().take(3).take_while(|b| from > 0 && (0x80..0xC0).contains(*b)).count();
    let text = String::from_utf8_lossy(part.get(cut..).unwrap_or_default());
    let text = crate::text::without_mark(&text);
    let lead = if from > 0 { "..." } else { "" };
    match text.char_indices().nth(MAX_LINE) {
        Some((end, _)) => {
            format!("{lead}{}... (line truncated to {MAX_LINE} chars)", text.get(..end).unwrap_or_default())
        }
        None => format!("{lead}{text}"),
    }
}

fn show(pattern: String, found: &[(String, Vec<(u64, String)>)], is_more: bool, is_late: bool) -> ToolOutput {
    let mut files = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    'files: for (path, lines) in found {
        let mut block = format!("{path}:");
        for (number, line) in lines {
            let entry = format!("\n  Line {number}: {line}\n");
            bytes += entry.len() + if block.contains('\n') { 0 } else { block.len() };
            if bytes > MAX_OUTPUT {
                if block.contains('\n') {
                    files.push(block);
                }
                break 'files;
            }
            block.push_str(&entry);
            count += 1;
        }
        files.push(block);
    }
    let is_cut = is_more || count < found.iter().map(|(_, lines)| lines.len()).sum::<usize>();
    let mut output = match count {
        0 => "No files found".to_owned(),
        _ => {
            let more = if is_cut { " (more matches available)" } else { "" };
            format!("Found {count} matches{more}\n{}", files.join("\n\n"))
        }
    };
    if is_cut {
        output.push_str(&format!(
            "\n(Results truncated: showing the first {count} matches. Use a narrower pattern, path or include.)"
        ));
    }
    if is_late {
        output.push_str(&late());
    }
    ToolOutput { truncated: Some(is_cut || is_late), ..ToolOutput::new(pattern, output, json!({"matches": count})) }
}

#[cfg(test)]
mod tests;
