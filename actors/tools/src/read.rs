//! `read`: shows a part of a text file, a directory's entries, an image or a PDF.
//!
//! Files of any size are read as a stream: what is shown is bounded, and so is what is held. Instruction files
//! (`AGENTS.md`…) between the file and the session's directory come along, each once in a session.

mod instructions;
mod listing;
mod page;

use std::fs::{File, Metadata};
use std::io::{Cursor, Read as _};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::JsonMap;
use protocol::part::FilePart;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::context::{Ask, Place, ToolContext};
use crate::error::ToolError;
use crate::files::open::{not_regular, open_regular};
use crate::files::{Files, looking};
use crate::path::{Access, Kind, Located};
use crate::text::{Codec, SAMPLE};
use crate::tool::{Tool, ToolOutput, Traits};
pub(crate) use listing::without_case;
use page::{Page, Window, read_page};

/// Lines shown when no limit is given.
const LINES: u64 = 2000;
/// Lines of the preview that clients show.
const PREVIEW: usize = 20;
/// The largest image or PDF given to the model, in bytes.
const MAX_MEDIA: u64 = 5 * 1024 * 1024;
/// The largest file that has to be read whole to be decoded, in bytes.
const MAX_WIDE: usize = 16 * 1024 * 1024;

/// Shows files and directories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read;

/// The arguments of [`Read`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadInput {
    /// The file or directory to read; absolute, or relative to the project's directory
    file_path: String,
    /// The first line, or entry of a directory, to show; counted from 1
    #[schemars(extend("default" = 1))]
    offset: Option<u64>,
    /// The most lines, or entries of a directory, to show
    #[schemars(extend("default" = 2000))]
    limit: Option<u64>,
}

impl Tool for Read {
    type Input = ReadInput;
    const ID: &'static str = "read";
    const DESCRIPTION: &'static str = include_str!("read.txt");
    const TRAITS: Traits = Traits::reading("read");

    async fn run(&self, input: ReadInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let located = Located::of(cx, &input.file_path, Access::Read).await?;
        located.ask_external(cx).await?;
        cx.ask(Ask::new("read", located.patterns.clone(), vec!["*".into()], JsonMap::new())).await?;
        let window = Window {
            offset: input.offset.unwrap_or(1).max(1),
            limit: input.limit.filter(|limit| *limit > 0).unwrap_or(LINES),
        };
        let (place, files, shown) = (cx.place.clone(), cx.files.clone(), located.shown.clone());
        let is_file = located.kind == Kind::File;
        let output = looking(cx, move |cancel| read(&place, &files, &located, window, cancel)).await?;
        if is_file {
            cx.desk.file_read(&shown);
        }
        Ok(output)
    }
}

fn read(
    place: &Arc<Place>,
    files: &Files,
    located: &Located,
    window: Window,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    match located.kind {
        Kind::Directory => listing::show(located, window),
        Kind::Special(_) => Err(not_regular(&located.shown, located.kind)),
        Kind::File | Kind::Missing => {
            // Under the lock, so that what is remembered as seen is never older than what was written meanwhile.
            let paths = [&*located.real];
            let mut output = files.locks().locked(&paths, || read_file(files, located, window, cancel))?;
            if output.attachments.is_empty() {
                let loaded = instructions::found(place, files, located, cancel);
                if !loaded.is_empty() {
                    output.output.push_str(&instructions::told(&loaded));
                }
                let paths: Vec<_> = loaded.iter().map(|(path, _)| path).collect();
                output.metadata.insert("loaded".into(), json!(paths));
            }
            Ok(output)
        }
    }
}

fn read_file(
    files: &Files,
    located: &Located,
    window: Window,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let failed = |error| ToolError::io("reading", &located.shown)(error);
    let (file, metadata) = open_regular(&located.real, &located.shown)?.ok_or_else(|| missing(located))?;
    let mut head = Vec::new();
    (&file).take(SAMPLE as u64).read_to_end(&mut head).map_err(failed)?;
    if let Some((what, mime)) = media(&head) {
        return show_media(located, (file, &metadata), head, what, mime);
    }
    let is_whole = head.len() < SAMPLE;
    let binary = || ToolError::failed(format!("Cannot read binary file: {}", located.shown.display()));
    let (codec, mark) = Codec::detect(&head, is_whole).ok_or_else(binary)?;
    let page = match codec {
        Codec::Utf16Le | Codec::Utf16Be => {
            let mut all = head;
            file.take((MAX_WIDE - SAMPLE) as u64).read_to_end(&mut all).map_err(failed)?;
            let text = codec.show(all.get(mark..).unwrap_or_default()).into_owned();
            let mut page = read_page(Cursor::new(text), Codec::Utf8, 0, window, cancel).map_err(failed)?;
            // The hash is of what is on disk.
            page.hash = (all.len() < MAX_WIDE).then(|| crate::files::ContentHash::of(&all));
            page.codec = codec;
            page
        }
        _ => read_page(Cursor::new(head).chain(file), codec, mark, window, cancel).map_err(failed)?,
    };
    if cancel.is_cancelled() {
        return Err(ToolError::Aborted);
    }
    if window.offset > page.lines_seen && window.offset > 1 {
        return Err(ToolError::failed(format!(
            "Offset {} is out of range for this file ({} lines)",
            window.offset, page.lines_seen
        )));
    }
    if let Some(hash) = page.hash {
        files.remember(&located.real, hash);
    }
    Ok(show(located, window, &page))
}

fn show(located: &Located, window: Window, page: &Page) -> ToolOutput {
    let path = located.name();
    let first = window.offset;
    let last = first + page.lines.len() as u64 - 1;
    let mut note = if page.is_capped {
        format!("(Output capped at 50 KB. Showing lines {first}-{last}. Use offset={} to continue.)", last + 1)
    } else if page.has_more {
        let more = if page.is_counted { "" } else { "more than " };
        format!("(Showing lines {first}-{last} of {more}{}. Use offset={} to continue.)", page.lines_seen, last + 1)
    } else {
        format!("(End of file - total {} lines)", page.lines_seen)
    };
    if let Some(encoding) = page.codec.note() {
        note.push_str(&format!("\n({encoding})"));
    }
    let numbered: Vec<String> = (first..).zip(&page.lines).map(|(number, line)| format!("{number}: {line}")).collect();
    let output =
        format!("<path>{path}</path>\n<type>file</type>\n<content>\n{}\n\n{note}\n</content>", numbered.join("\n"));
    let is_truncated = page.has_more || page.is_capped;
    let metadata = json!({
        "preview": page.lines.iter().take(PREVIEW).map(String::as_str).collect::<Vec<_>>().join("\n"),
        "loaded": [],
        "display": {
            "type": "file",
            "path": path,
            "text": page.lines.join("\n"),
            "lineStart": first,
            "lineEnd": last,
            "totalLines": page.lines_seen,
            "truncated": is_truncated,
        },
    });
    ToolOutput { truncated: Some(is_truncated), ..ToolOutput::new(&located.title, output, metadata) }
}

/// Returns what a file is that models look at, and its media type. The first bytes tell, not the name.
pub(crate) fn media(head: &[u8]) -> Option<(&'static str, &'static str)> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some(("Image", "image/png")),
        [0xFF, 0xD8, 0xFF, ..] => Some(("Image", "image/jpeg")),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(("Image", "image/gif")),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(("Image", "image/webp")),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some(("PDF", "application/pdf")),
        _ => None,
    }
}

fn show_media(
    located: &Located,
    (file, metadata): (File, &Metadata),
    mut content: Vec<u8>,
    what: &str,
    mime: &str,
) -> Result<ToolOutput, ToolError> {
    if metadata.len() <= MAX_MEDIA {
        let rest = (MAX_MEDIA + 1).saturating_sub(content.len() as u64);
        file.take(rest).read_to_end(&mut content).map_err(ToolError::io("reading", &located.shown))?;
    }
    if metadata.len().max(content.len() as u64) > MAX_MEDIA {
        return Err(ToolError::failed(format!(
            "{} is too large to be looked at: {} KB, and {} KB is the most. Make a smaller one.",
            located.shown.display(),
            metadata.len() / 1024,
            MAX_MEDIA / 1024
        )));
    }
    let text = format!("{what} read successfully");
    let metadata = json!({"preview": text, "loaded": []});
    let url = format!("data:{mime};base64,{}", STANDARD.encode(&content));
    Ok(ToolOutput {
        truncated: Some(false),
        attachments: vec![FilePart { mime: mime.into(), filename: None, url, source: None }],
        ..ToolOutput::new(&located.title, text, metadata)
    })
}

fn missing(located: &Located) -> ToolError {
    let mut text = format!("File not found: {}", located.shown.display());
    if std::fs::symlink_metadata(&located.shown).is_ok_and(|found| found.is_symlink()) {
        text.push_str(&format!(" is a link to {}, where nothing is.", located.real.display()));
        return ToolError::failed(text);
    }
    let like = listing::names_like(located);
    if !like.is_empty() {
        text.push_str("\n\nDid you mean one of these?\n");
        text.push_str(&like.join("\n"));
    }
    ToolError::failed(text)
}

#[cfg(test)]
mod tests;
