//! Files that come with a prompt: what the model is told of them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use protocol::prompt::{PartInput, PartInputKind};
use protocol::{CallId, JsonMap, MessageId, SessionId};
use tokio_util::sync::CancellationToken;
use tools::files::Files;
use tools::process::Processes;
use tools::read::Read;
use tools::{AnyTool, Ask, Desk, Effects, Place, Refusal, ToolContext, ToolError};
use url::Url;

use super::Session;

/// What becomes of a file part.
#[derive(Clone, Debug, Default)]
pub struct Attached {
    /// Told to the model before it, in order.
    pub texts: Vec<String>,
    /// Whether the part itself is stored.
    pub is_kept: bool,
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
        }
    }

    /// Reads each file part, in order.
    pub async fn read(&self, place: Arc<Place>, parts: &[PartInput]) -> Vec<Attached> {
        let mut attached = Vec::new();
        for part in parts {
            if let PartInputKind::File(file) = &part.kind {
                attached.push(match Url::parse(&file.url) {
                    Ok(url) if url.scheme() == "file" => self.file(place.clone(), &url).await,
                    Ok(url) if url.scheme() == "data" => data(&file.mime, file.filename.as_deref(), &file.url),
                    _ => Attached {
                        error: Some(format!("{} can't be attached: only file: and data: urls can", cut(&file.url))),
                        ..Attached::default()
                    },
                });
            }
        }
        attached
    }

    async fn file(&self, place: Arc<Place>, url: &Url) -> Attached {
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
        let called = called(&input);
        let cx = ToolContext {
            session_id: self.session_id.clone(),
            message_id: self.message_id.clone(),
            call_id: CallId::new("attachment"),
            agent: String::new(),
            place,
            desk: Arc::new(Unasked),
            cancel: CancellationToken::new(),
            files: self.files.clone(),
            processes: self.processes.clone(),
            http: self.http.clone(),
            plan: std::path::PathBuf::new(),
        };
        match AnyTool::run(&Read, input, &cx).await {
            Ok(output) => Attached { texts: vec![called, output.output], is_kept: true, error: None },
            Err(error) => Attached {
                texts: vec![
                    called,
                    format!("Read tool failed to read {} with the following error: {error}", path.display()),
                ],
                is_kept: false,
                error: Some(error.to_string()),
            },
        }
    }
}

/// Told before what a file holds, as if the model had read it.
fn called(input: &JsonMap) -> String {
    format!("Called the Read tool with the following input: {}", serde_json::Value::Object(input.clone()))
}

/// Text in a `data:` url is told as text, under its name where it has one; the rest stays a file.
fn data(mime: &str, name: Option<&str>, url: &str) -> Attached {
    let kept = Attached { is_kept: true, ..Attached::default() };
    if !mime.starts_with("text/") {
        return kept;
    }
    let Some((head, body)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else { return kept };
    let text = if head.ends_with(";base64") {
        STANDARD.decode(body).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    } else {
        Some(percent_encoding::percent_decode_str(body).decode_utf8_lossy().into_owned())
    };
    match text {
        Some(text) => {
            let named = name.map(|name| called(&JsonMap::from_iter([("filePath".to_owned(), name.into())])));
            Attached { texts: named.into_iter().chain([text]).collect(), ..kept }
        }
        None => Attached { error: Some("a data: url holds no base64".into()), ..Attached::default() },
    }
}

fn cut(url: &str) -> String {
    url.chars().take(80).collect()
}

/// The person gave the file themself: nothing is asked.
struct Unasked;

impl Desk for Unasked {
    fn ask(&self, _: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        Box::pin(async { Err(ToolError::Aborted) })
    }
}
