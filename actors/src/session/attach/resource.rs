//! Parts that name a resource of an MCP server.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use protocol::part::{FilePart, PartKind};
use protocol::prompt::{PartInput, PartInputKind};
use serde_json::{Value, json};
use tokio::time::Instant;
use tools::{Place, ToolOutput};

use super::{Attached, Reader};
use crate::mcp_host::McpHost;
use crate::mcp_host::reading::ReadResource;
use crate::tool_executor::Outcome;
use crate::tool_executor::bounds::bounded;

/// Most time for the resources of a prompt.
const LIMIT: Duration = Duration::from_secs(30);
/// What is left of a prompt's time for all else.
const MARGIN: Duration = Duration::from_secs(2);

/// A resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    server: &'a str,
    uri: &'a str,
}

/// Returns whether one of the parts names a resource.
pub fn names_resources(parts: &[PartInput]) -> bool {
    parts.iter().any(|part| matches!(&part.kind, PartInputKind::File(file) if named(file).is_some()))
}

/// Returns the resource that a part names: `source: {type: "resource", clientName, uri}`.
pub fn named(part: &FilePart) -> Option<Named<'_>> {
    let source = part.source.as_ref()?;
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    (text("type")? == "resource").then_some(())?;
    Some(Named { server: text("clientName")?, uri: text("uri")? })
}

/// Returns until when resources may be read in a prompt that has so much time.
pub fn until(limit: Duration) -> Instant {
    Instant::now() + limit.saturating_sub(MARGIN).min(LIMIT)
}

/// Returns whether a stored file is a further one of the part that the one before it is of: between the files of two
/// parts stands a text.
pub fn is_more_of(before: &PartKind, file: &FilePart) -> bool {
    matches!(before, PartKind::File(before) if named(file).is_some() && before.source == file.source)
}

impl Reader {
    /// Reads a resource. What goes wrong is told to the model in its place, and to the person.
    pub(super) async fn resource(
        &self,
        place: &Arc<Place>,
        host: &Addr<McpHost>,
        until: Instant,
        Named { server, uri }: Named<'_>,
        part: &FilePart,
    ) -> Attached {
        let limit = until.saturating_duration_since(Instant::now());
        let read = host.send(ReadResource { server: server.to_owned(), uri: uri.to_owned(), limit }).await;
        let read = read.map_err(|_| "the MCP servers were restarted".to_owned());
        match read.and_then(|read| read.map_err(|error| error.to_string())) {
            Ok(shaped) => {
                let output = ToolOutput::new(uri, shaped.text, json!({}));
                let mut texts = vec![format!("The resource {uri} of the MCP server {server}:")];
                if let Outcome::Completed { output, .. } = bounded(output, &place.spill, &self.ids).await
                    && !output.is_empty()
                {
                    texts.push(output);
                }
                Attached { texts, kept: kept(part, shaped.attachments), error: None }
            }
            Err(why) => {
                let told = format!("The resource {uri} of the MCP server {server} could not be read: {why}");
                Attached { texts: vec![told.clone()], kept: vec![part.clone()], error: Some(told) }
            }
        }
    }
}

/// The part with what can be shown of the resource: images and PDFs; without any it stays as it was given, which models
/// are not sent.
fn kept(part: &FilePart, attachments: Vec<FilePart>) -> Vec<FilePart> {
    if attachments.is_empty() {
        return vec![part.clone()];
    }
    let filename = part.filename.clone().unwrap_or_else(|| part.url.clone());
    let shown = |read: FilePart| FilePart { filename: Some(filename.clone()), source: part.source.clone(), ..read };
    attachments.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn part(source: Value) -> FilePart {
        FilePart { mime: "text/plain".into(), filename: None, url: "demo://r".into(), source: Some(source) }
    }

    #[test]
    fn a_part_names_a_resource_by_its_source() {
        let resource = part(json!({ "type": "resource", "clientName": "srv", "uri": "demo://r", "text": {} }));
        assert_eq!(named(&resource), Some(Named { server: "srv", uri: "demo://r" }));
        for other in [
            json!({ "type": "file", "path": "a", "clientName": "srv", "uri": "demo://r" }),
            json!({ "type": "resource", "uri": "demo://r" }),
            json!({ "type": "resource", "clientName": 7, "uri": "demo://r" }),
            json!("resource"),
        ] {
            assert_eq!(named(&part(other)), None);
        }
    }

    #[test]
    fn each_attachment_of_a_resource_keeps_its_name_and_source() {
        let given = part(json!({ "type": "resource", "clientName": "srv", "uri": "demo://r" }));
        assert_eq!(kept(&given, Vec::new()), std::slice::from_ref(&given));
        let image = |url: &str| FilePart { mime: "image/png".into(), filename: None, url: url.into(), source: None };
        let kept = kept(&given, vec![image("data:1"), image("data:2")]);
        assert_eq!(kept.len(), 2);
        for (file, url) in kept.iter().zip(["data:1", "data:2"]) {
            assert_eq!((file.url.as_str(), file.filename.as_deref()), (url, Some("demo://r")));
            assert_eq!(file.source, given.source);
        }
    }
}
