//! What a tool is told where the person does it themself: nothing is asked, and nothing of it is stored.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use protocol::{CallId, MessageId, SessionId};
use tokio_util::sync::CancellationToken;
use tools::files::Files;
use tools::process::Processes;
use tools::{Ask, Desk, Effects, Place, Refusal, ToolContext, ToolError};

/// A desk without anybody at it.
pub struct PersonsDesk;

/// Returns the context of what a person does with a tool outside of a turn. It is no call: a crash ends it with the
/// request it belongs to.
pub fn context(
    session_id: SessionId,
    message_id: MessageId,
    place: Arc<Place>,
    files: Files,
    processes: Processes,
    http: reqwest::Client,
) -> ToolContext {
    ToolContext {
        session_id,
        message_id,
        call_id: CallId::new("person"),
        agent: String::new(),
        place,
        desk: Arc::new(PersonsDesk),
        cancel: CancellationToken::new(),
        files,
        processes,
        http,
        plan: PathBuf::new(),
    }
}

impl Desk for PersonsDesk {
    fn ask(&self, _: Ask) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async { Ok(()) })
    }

    fn begin(&self) -> BoxFuture<'_, Result<Effects, ToolError>> {
        Box::pin(async { Ok(Effects::stored()) })
    }
}
