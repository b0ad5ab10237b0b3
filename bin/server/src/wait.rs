//! Waits for a turn's end, whatever becomes of its session meanwhile: a session that falls comes back and goes on with
//! the turn, and the wait goes on with it. Nothing is lost when the client hangs up: the turn is the session's.

use std::time::Duration;

use actors::session::{CommandError, TurnEnd, WaitTurn};
use protocol::{MessageId, MessageWithParts, SessionId};
use tokio::sync::oneshot::Receiver;

use crate::Server;
use crate::error::ApiError;

/// Tries in a row to reach a session that falls again and again.
const TRIES: u32 = 20;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the answer to a prompt, or the message of a command, when its turn has ended.
pub async fn answer(
    server: &Server,
    session: &SessionId,
    prompt: &MessageId,
    mut end: Receiver<TurnEnd>,
) -> Result<MessageWithParts, ApiError> {
    loop {
        match end.await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(gone)) => return Err(ApiError::NotFound(gone.to_string())),
            Err(_) => end = again(server, session, prompt).await?,
        }
    }
}

/// The session fell: asks its next life.
async fn again(server: &Server, session: &SessionId, prompt: &MessageId) -> Result<Receiver<TurnEnd>, ApiError> {
    let mut tries = 0;
    loop {
        let wait = async {
            let handle = server.runtime.session(session).await?;
            let wait = WaitTurn(prompt.clone());
            handle.address.send(wait).await.unwrap_or(Err(CommandError::Unknown))
        };
        match wait.await {
            Ok(end) => return Ok(end),
            Err(error @ CommandError::NotFound(_)) => return Err(error.into()),
            Err(error) if tries == TRIES => return Err(error.into()),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(PAUSE).await;
    }
}
