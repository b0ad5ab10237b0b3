//! Waiting for a turn of a session, wherever it lives and however often it falls.

use actix::prelude::*;
use protocol::SessionId;
use protocol::prompt::PromptBody;

use super::{SessionRegistry, locate};
use crate::session::{CommandError, Prompt, Ticket, TurnEnd, WaitTurn};

/// Wait for the end of a turn and give its last words.
#[derive(Clone, Message)]
#[rtype(result = "Result<LastWords, CommandError>")]
pub struct AwaitTurn {
    /// The session.
    pub session_id: SessionId,
    /// The prompt.
    pub message_id: protocol::MessageId,
    /// The prompt itself, where it may be still to be given: given twice it is one.
    pub prompt: Option<Box<PromptBody>>,
    /// How long.
    pub until: Until,
}

/// How long a turn is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until the session has it, and is on it. There are no last words then.
    Begun,
    /// Until it is over.
    Ended,
}

/// How a turn ended, for who had it done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    /// The last text.
    pub text: String,
    /// Why it failed.
    pub error: Option<String>,
}

impl Handler<AwaitTurn> for SessionRegistry {
    type Result = ResponseFuture<Result<LastWords, CommandError>>;

    fn handle(&mut self, wait: AwaitTurn, ctx: &mut Self::Context) -> Self::Result {
        let registry = ctx.address();
        Box::pin(async move {
            loop {
                let handle = locate(&registry, &wait.session_id).await?;
                if let Some(body) = &wait.prompt {
                    let prompt = Prompt { body: PromptBody::clone(body), ticket: Ticket::internal(), room: None };
                    match handle.address.send(prompt).await {
                        Ok(accepted) => drop(accepted?),
                        Err(_) => continue,
                    }
                }
                if wait.until == Until::Begun {
                    return Ok(LastWords::default());
                }
                let end = handle.address.send(WaitTurn(wait.message_id.clone())).await;
                match end {
                    Ok(end) => match end?.await {
                        Ok(end) => return Ok(last_words(end)),
                        // It fell and comes back.
                        Err(_) => continue,
                    },
                    Err(_) => continue,
                }
            }
        })
    }
}

/// What a subagent's parent reads: the last text, or why there is none.
pub fn last_words(end: TurnEnd) -> LastWords {
    let answer = match end {
        Ok(answer) => answer,
        Err(gone) => return LastWords { error: Some(gone.to_string()), ..LastWords::default() },
    };
    let text = answer.parts.iter().rev().find_map(|part| part.as_text());
    let failed = answer.info.as_assistant().and_then(|m| m.error.as_ref()).map(|error| error.message().to_owned());
    let rejected = || {
        answer.parts.iter().rev().find_map(|part| match &part.as_tool()?.state {
            protocol::ToolState::Error { error, .. } => Some(error.clone()),
            _ => None,
        })
    };
    let error = failed.or_else(|| if text.is_none() { rejected() } else { None });
    LastWords { text: text.unwrap_or_default().to_owned(), error }
}
