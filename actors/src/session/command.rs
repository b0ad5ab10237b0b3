//! What the edge asks of a session. Each command is stored before it is answered; one that comes too late is refused
//! before anything of it is stored.

use std::time::{Duration, Instant};

use actix::prelude::*;
use protocol::message::ModelRef;
use protocol::prompt::{PromptBody, ShellBody};
use protocol::session::UpdateSession;
use protocol::{MessageId, MessageWithParts, Part, PartId, Session as Info, SessionError, SessionId};
use storage::{JournalError, Room};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tools::process::BackgroundId;

use super::TurnEnd;
use crate::workspace::{ChoiceError, SetupError};

/// Lets a command in: a place among those that wait, and how long it may wait.
#[derive(Debug)]
pub struct Ticket {
    deadline: Instant,
    _place: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Returns a ticket for a place.
    pub fn new(deadline: Instant, place: OwnedSemaphorePermit) -> Self {
        Self { deadline, _place: Some(place) }
    }

    /// Returns a ticket for the runtime's own commands, which don't queue at the edge.
    pub fn internal() -> Self {
        Self { deadline: Instant::now() + std::time::Duration::from_secs(3600), _place: None }
    }

    /// Returns how long the command may still wait.
    pub fn left(&self) -> std::time::Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Errors when it has run out.
    pub fn check(&self) -> Result<(), CommandError> {
        if Instant::now() > self.deadline { Err(CommandError::Late) } else { Ok(()) }
    }
}

/// Why a command was not done. Nothing of it is stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no such session.
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    /// There is no such message.
    #[error("Message not found: {0}")]
    NoMessage(MessageId),
    /// There is no such part.
    #[error("Part not found: {0}")]
    NoPart(PartId),
    /// A turn runs.
    #[error("Session is busy: {0}")]
    Busy(SessionId),
    /// The id is taken by something else.
    #[error("message id {0} is taken by another message; send it with a new id")]
    Taken(MessageId),
    /// The id is taken by a part of something else.
    #[error("part id {0} is taken by a part of another message; send it with a new id")]
    TakenPart(PartId),
    /// It can't be done as it was asked.
    #[error("{0}")]
    Invalid(String),
    /// It waited longer than it may.
    #[error("the session is too busy to take the request now; send it again")]
    Late,
    /// The session can't be read or written.
    #[error("the session can't be used: {0}")]
    Broken(String),
    /// The settings of its directory can't be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The agent or the model can't be used.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// It could not be stored.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The session fell while it was on it: its outcome is unknown.
    #[error("the session was restarted while it took the request; send it again with the same id")]
    Unknown,
}

/// What a session has accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The user message, as it is stored.
    pub message: MessageWithParts,
    /// Hears of the turn's end. None for what is not answered.
    pub end: Option<oneshot::Receiver<TurnEnd>>,
}

/// Answer this.
#[derive(Message)]
#[rtype(result = "Result<Accepted, CommandError>")]
pub struct Prompt {
    /// What is said.
    pub body: PromptBody,
    /// Lets it in.
    pub ticket: Ticket,
    /// Room for it in the journal's queue.
    pub room: Option<Room>,
}

/// Run this command of the person's.
#[derive(Message)]
#[rtype(result = "Result<oneshot::Receiver<TurnEnd>, CommandError>")]
pub struct Shell {
    /// The command.
    pub body: ShellBody,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Write a summary that stands for the history so far. Answered when that is stored; it is written when it is its
/// turn.
#[derive(Message)]
#[rtype(result = "Result<oneshot::Receiver<TurnEnd>, CommandError>")]
pub struct Summarize {
    /// The id of the message that asks for it: sent again it is the same request.
    pub message_id: MessageId,
    /// Who writes it, unless the config says otherwise.
    pub model: ModelRef,
    /// The loop goes on afterwards.
    pub auto: bool,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Stop the running turn. Answered when its end is stored. Nothing runs: nothing happens.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct Abort(pub StopReason);

/// Why a turn is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody wants it.
    Asked,
    /// It answers this prompt, whose time is over.
    OutOfTime {
        /// The prompt.
        prompt: MessageId,
        /// How much time it had.
        limit: Duration,
    },
}

impl StopReason {
    /// Returns what its last message says.
    pub fn error(&self) -> SessionError {
        match self {
            Self::Asked => SessionError::aborted(),
            Self::OutOfTime { limit, .. } => SessionError::MessageAbortedError {
                message: format!("It did not end within its time limit of {} s and was stopped.", limit.as_secs_f32()),
            },
        }
    }
}

/// Change the session.
#[derive(Message)]
#[rtype(result = "Result<Info, CommandError>")]
pub struct Update {
    /// How.
    pub body: UpdateSession,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Copy the session up to a message (exclusive), or whole, into a new one.
#[derive(Message)]
#[rtype(result = "Result<Info, CommandError>")]
pub struct Fork {
    /// The first message that is not copied.
    pub before: Option<MessageId>,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Take the session out, with all that belongs to it. Its subagents' sessions are taken out before.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct Delete;

/// Take a message out.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct RemoveMessage {
    /// Which.
    pub id: MessageId,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Change a part.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct UpdatePart {
    /// What it is to be.
    pub part: Part,
    /// Lets it in.
    pub ticket: Ticket,
}

/// Take a part out.
#[derive(Message)]
#[rtype(result = "Result<(), CommandError>")]
pub struct RemovePart {
    /// Its message.
    pub message_id: MessageId,
    /// Which.
    pub id: PartId,
    /// Lets it in.
    pub ticket: Ticket,
}

/// End a process that the session left running. Answers, when it is gone, whether it was there.
#[derive(Message)]
#[rtype(result = "Result<bool, CommandError>")]
pub struct StopProcess {
    /// Which.
    pub id: BackgroundId,
    /// Lets it in.
    pub ticket: Ticket,
}

/// What is the session?
#[derive(Message)]
#[rtype(result = "Result<Info, CommandError>")]
pub struct GetInfo;

/// Hear of the end of a prompt's turn, also when it is over.
#[derive(Message)]
#[rtype(result = "Result<oneshot::Receiver<TurnEnd>, CommandError>")]
pub struct WaitTurn(pub MessageId);

/// Is what a crash left settled? Answered when it is: how often the session's open turns were begun, at most.
#[derive(Message)]
#[rtype(result = "u32")]
pub struct Settle;

/// Go on with the open turns.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Resume;

/// Tell the parts that are being written whole: a client came in the middle.
#[derive(Message)]
#[rtype(result = "()")]
pub struct TellOpenParts;
