//! What the state wants done, and what came of it. Done beside the state, so that no key waits for the server.

use std::collections::HashMap;

use client::{Client, ClientError, Events, Providers, SessionsQuery};
use protocol::agent::Agent;
use protocol::command::Command;
use protocol::config::Config;
use protocol::message::MessageWithParts;
use protocol::permission::ReplyBody;
use protocol::prompt::{CommandBody, PromptBody, ShellBody};
use protocol::question::{Answers, QuestionRequest};
use protocol::session::{CreateSession, SessionModel, SessionStatus, UpdateSession};
use protocol::{PermissionId, PermissionRequest, QuestionId, Session, SessionId};

/// Most messages of a session that are read.
pub const MESSAGES: u32 = 100;
/// Most sessions that are listed.
const SESSIONS: u32 = 200;

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read what can be chosen from, and the directory's settings.
    Setup,
    /// Make a session and give it this work.
    Create(Box<CreateSession>, Box<Work>),
    /// Give a session work.
    Work(SessionId, Box<Work>),
    /// Stop a session's turn.
    Abort(SessionId),
    /// Answer a permission.
    Permission(PermissionId, ReplyBody),
    /// Answer a question.
    Question(QuestionId, Answers),
    /// Leave a question unanswered.
    Dismiss(QuestionId),
    /// List sessions.
    Sessions,
    /// Show a session.
    Open(SessionId),
    /// Show the newest session.
    OpenNewest,
    /// Read a session's state anew, and what all sessions do.
    Read(SessionId),
    /// Read what all sessions do.
    Statuses,
    /// Read what waits for the person.
    Waiting,
    /// Find out whose subagent a session is.
    Find(SessionId),
    /// Give a session another title.
    Rename(SessionId, String),
    /// Listen anew: parts that are being written then come whole.
    Listen,
    /// End.
    Quit,
}

/// Work for a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A prompt.
    Prompt(PromptBody),
    /// A shell command of the person's.
    Shell(ShellBody),
    /// A command template.
    Command(CommandBody),
}

impl Work {
    /// Returns what the person wrote, to be written again when it could not be sent.
    pub fn text(&self) -> String {
        match self {
            Self::Prompt(body) => body.parts.iter().find_map(text_of).unwrap_or_default(),
            Self::Shell(body) => format!("!{}", body.command),
            Self::Command(body) => format!("/{} {}", body.command, body.arguments),
        }
    }
}

fn text_of(part: &protocol::prompt::PartInput) -> Option<String> {
    match &part.kind {
        protocol::prompt::PartInputKind::Text { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// What came of an effect.
pub enum Outcome {
    /// Nothing to say: events tell the rest.
    Done,
    /// What can be chosen from.
    Setup(Box<Setup>),
    /// A session was made; its work is still to be sent.
    Created(Session, Box<Work>),
    /// Work was not taken.
    NotSent(Box<Work>, ClientError),
    /// Sessions, the newest first.
    Sessions(Vec<Session>),
    /// A session and its messages, to be shown.
    Opened(Session, Vec<MessageWithParts>),
    /// There is none.
    NoSession,
    /// A session's state.
    Read(SessionId, Vec<MessageWithParts>),
    /// What sessions do; idle ones left out.
    Statuses(HashMap<SessionId, SessionStatus>),
    /// What waits for the person.
    Waiting(Vec<PermissionRequest>, Vec<QuestionRequest>),
    /// A session.
    Found(Session),
    /// An answer was not taken, and what it was for waits on.
    NotAnswered(ClientError),
    /// A new stream.
    Listening(Events),
    /// No stream could be opened.
    NotListening(ClientError),
    /// It failed.
    Failed(ClientError),
}

/// What can be chosen from.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Agents.
    pub agents: Vec<Agent>,
    /// Providers and models.
    pub providers: Providers,
    /// Command templates.
    pub commands: Vec<Command>,
    /// The directory's settings.
    pub config: Config,
}

/// Does it. `Create` and `Quit` have more to it, which is the driver's.
pub async fn perform(client: Client, effect: Effect) -> Outcome {
    try_to(&client, effect).await.unwrap_or_else(Outcome::Failed)
}

async fn try_to(client: &Client, effect: Effect) -> Result<Outcome, ClientError> {
    match effect {
        Effect::Setup => {
            let (agents, providers, config) = futures::try_join!(client.agents(), client.providers(), client.config())?;
            // Nothing stands or falls with these.
            let commands = client.commands().await.unwrap_or_default();
            Ok(Outcome::Setup(Box::new(Setup { agents, providers, commands, config })))
        }
        Effect::Create(body, work) => match client.create_session(&body).await {
            Ok(session) => Ok(Outcome::Created(session, work)),
            Err(error) => Ok(Outcome::NotSent(work, error)),
        },
        Effect::Work(id, work) => {
            let sent = match &*work {
                Work::Prompt(body) => client.prompt_async(&id, body).await,
                Work::Shell(body) => client.shell(&id, body).await.map(drop),
                Work::Command(body) => client.command(&id, body).await.map(drop),
            };
            match sent {
                Ok(()) => Ok(Outcome::Done),
                // These answer at the turn's end: what was lost on the way is still being done.
                Err(error) if error.is_gone() && !matches!(*work, Work::Prompt(_)) => Err(error),
                Err(error) => Ok(Outcome::NotSent(work, error)),
            }
        }
        Effect::Abort(id) => client.abort(&id).await.map(|()| Outcome::Done),
        Effect::Permission(id, body) => Ok(answered(client.reply_permission(&id, &body).await)),
        Effect::Question(id, answers) => Ok(answered(client.reply_question(&id, &answers).await)),
        Effect::Dismiss(id) => Ok(answered(client.reject_question(&id).await)),
        Effect::Sessions => {
            let query = SessionsQuery { is_roots: true, limit: Some(SESSIONS), ..SessionsQuery::default() };
            let mut sessions = client.sessions(&query).await?;
            sessions.retain(|session| session.parent_id.is_none() && session.time.archived.is_none());
            Ok(Outcome::Sessions(sessions))
        }
        Effect::Open(id) => open(client, client.session(&id).await?).await,
        Effect::OpenNewest => {
            let query = SessionsQuery { is_roots: true, ..SessionsQuery::default() };
            let sessions = client.sessions(&query).await?;
            let is_meant = |session: &Session| session.parent_id.is_none() && session.time.archived.is_none();
            match sessions.into_iter().find(is_meant) {
                Some(session) => open(client, session).await,
                None => Ok(Outcome::NoSession),
            }
        }
        Effect::Read(id) => {
            let messages = client.messages(&id, Some(MESSAGES)).await?;
            Ok(Outcome::Read(id, messages))
        }
        Effect::Statuses => Ok(Outcome::Statuses(client.statuses().await?)),
        Effect::Waiting => {
            let (permissions, questions) = futures::try_join!(client.permissions(), client.questions())?;
            Ok(Outcome::Waiting(permissions, questions))
        }
        Effect::Find(id) => Ok(Outcome::Found(client.session(&id).await?)),
        Effect::Rename(id, title) => {
            let body = UpdateSession { title: Some(title), ..UpdateSession::default() };
            client.update_session(&id, &body).await.map(|_| Outcome::Done)
        }
        Effect::Listen => match client.events().await {
            Ok(events) => Ok(Outcome::Listening(events)),
            Err(error) => Ok(Outcome::NotListening(error)),
        },
        Effect::Quit => Ok(Outcome::Done),
    }
}

async fn open(client: &Client, session: Session) -> Result<Outcome, ClientError> {
    let messages = client.messages(&session.id, Some(MESSAGES)).await?;
    Ok(Outcome::Opened(session, messages))
}

fn answered(result: Result<(), ClientError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        // Somebody else was faster, or the turn was stopped.
        Err(error) if matches!(error.status(), Some(404 | 409)) => Outcome::Done,
        Err(error) => Outcome::NotAnswered(error),
    }
}

/// Returns a session's model in the spelling of a new session.
pub fn session_model(model: &protocol::message::ModelRef) -> SessionModel {
    SessionModel { id: model.model_id.clone(), provider_id: model.provider_id.clone(), variant: model.variant.clone() }
}
