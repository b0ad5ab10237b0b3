//! Files that come with a prompt: what the model is told of them.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::part::FilePart;
use protocol::prompt::{PartInput, PartInputKind};
use protocol::{Ids, MessageId, SessionId};
use serde_json::json;
use tools::files::Files;
use tools::process::Processes;
use tools::read::Read;
use tools::{AnyTool, Place};
use url::Url;

use super::{Session, persons_desk};
use crate::mcp_host::McpHost;

mod resource;

pub use resource::{is_more_of, names_resources};

/// What becomes of a file part.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Told to the model before it, in order.
    pub texts: Vec<String>,
    /// What is stored of it: the part as it was given, or with the file's content.
    pub kept: Vec<FilePart>,
    /// Told to the person.
    pub error: Option<String>,
}

/// Reads what a prompt's file parts name.
pub struct Reader {
    session_id: SessionId,
    message_id: MessageId,
    files: Files,
    processes: Processes,
    http: reqwest::Client,
    ids: Arc<Ids>,
}

impl Reader {
    /// Returns the reader of a session.
    pub fn of(session: &Session) -> Self {
        Self {
            session_id: session.id.clone(),
            message_id: session.deps.ids.message(),
            files: session.state.files.clone(),
            processes: session.deps.processes.clone(),
            http: session.deps.http.client(),
            ids: session.deps.ids.clone(),
        }
    }

    /// Reads each file part, in order. `host` has the MCP servers, where one is named ([`names_resources`]); all of them
    /// have `limit` together.
    pub async fn read(
        &self,
        place: Arc<Place>,
        host: Option<Addr<McpHost>>,
        limit: Duration,
        parts: &[PartInput],
    ) -> Vec<Attached> {
        let until = resource::until(limit);
        let mut attached = Vec::new();
        for part in parts {
            if let PartInputKind::File(file) = &part.kind {
                if let (Some(host), Some(named)) = (&host, resource::named(file)) {
                    attached.push(self.resource(&place, host, until, named, file).await);
                    continue;
                }
                attached.push(match Url::parse(&file.url) {
                    Ok(url) if url.scheme() == "file" => self.file(place.clone(), &url, file).await,
                    Ok(url) if url.scheme() == "data" => data(file),
                    _ => Attached {
                        error: Some(format!("{} can't be attached: only file: and data: urls can", cut(&file.url))),
                        ..Attached::default()
                    },
                });
            }
        }
        attached
    }

    async fn file(&self, place: Arc<Place>, url: &Url, part: &FilePart) -> Attached {
        let Ok(path) = url.to_file_path() else {
            return Attached { error: Some(format!("{url} names no file")), ..Attached::default() };
        };
        let mut input = serde_json::Map::new();
        input.insert("filePath".into(), path.to_string_lossy().into_owned().into());
        let number = |key: &str| url.query_pairs().find(|(k, _)| k == key).and_then(|(_, v)| v.parse::<u64>().ok());
        if let Some(start) = number("start") {
            input.insert("offset".into(), start.into());
            if let Some(end) = number("end") {
                input.insert("limit".into(), (end + 1).saturating_sub(start).max(1).into());
            }
        }
        let called = called(&serde_json::Value::Object(input.clone()));
        let cx = persons_desk::context(
            self.session_id.clone(),
            self.message_id.clone(),
            place,
            self.files.clone(),
            self.processes.clone(),
            self.http.clone(),
        );
        match AnyTool::run(&Read, input, &cx).await {
            // A picture and the like: the model is given the file itself.
            Ok(output) if !output.attachments.is_empty() => {
                let name = || path.file_name().map(|name| name.to_string_lossy().into_owned());
                let kept = output.attachments.into_iter().next().map(|read| FilePart {
                    filename: part.filename.clone().or_else(name),
                    source: part.source.clone(),
                    ..read
                });
                Attached { texts: vec![called], kept: kept.into_iter().collect(), error: None }
            }
            Ok(output) => Attached { texts: vec![called, output.output], kept: vec![part.clone()], error: None },
            Err(error) => Attached {
                texts: vec![
                    called,
                    format!("Read tool failed to read {} with the following error: {error}", path.display()),
                ],
                kept: Vec::new(),
                error: Some(error.to_string()),
            },
        }
    }
}

fn called(input: &serde_json::Value) -> String {
    format!("Called the Read tool with the following input: {input}")
}

/// Text in a `data:` url is told as text, as if it had been read; the rest stays a file.
fn data(file: &FilePart) -> Attached {
    let kept = Attached { kept: vec![file.clone()], ..Attached::default() };
    if !file.mime.starts_with("text/") {
        return kept;
    }
    let Some((head, body)) = file.url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else { return kept };
    let text = if head.ends_with(";base64") {
        STANDARD.decode(body).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    } else {
        Some(percent_encoding::percent_decode_str(body).decode_utf8_lossy().into_owned())
    };
    let called = file.filename.as_ref().map(|name| called(&json!({ "filePath": name })));
    match text {
        Some(text) => Attached { texts: called.into_iter().chain([text]).collect(), ..kept },
        None => Attached { error: Some("a data: url holds no base64".into()), ..Attached::default() },
    }
}

fn cut(url: &str) -> String {
    url.chars().take(80).collect()
}
