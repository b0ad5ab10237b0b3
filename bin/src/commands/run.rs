//! `run`: one prompt, from the command line or standard input, and the answer on standard output.
//!
//! Nobody is asked: what would ask is rejected (or allowed once, with `--auto`), in the session and its subagents'
//! only. The data directory's owner does the work; where there is none this process is it, without a TCP port, until
//! the turn has ended and nobody else needs it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use client::{Client, ClientError, Events, SessionsQuery};
use protocol::message::ModelRef;
use protocol::prompt::{CommandBody, PromptBody};
use protocol::session::{CreateSession, SessionModel};
use protocol::{Action, Clock, Ids, Rule, Session, SessionId, SystemClock};
use tokio::sync::Notify;

use crate::exit::Exit;
use crate::owner::{self, Ground};
use crate::reach::{Reach, Target};
use crate::signals::{Stop, Stops};

mod follow;
mod print;
mod prompt;
mod turn;

use follow::{Beside, Ended, Follower};
use print::{Format, Printer};
use turn::Turn;

/// How often a prompt that a server could not take is sent again.
const TRIES: u32 = 20;
/// The wait in between.
const AGAIN: Duration = Duration::from_millis(250);
/// How long a turn that was stopped may take to end.
const STOPPING: Duration = Duration::from_secs(2);

/// Gives a prompt and prints the answer
#[derive(Debug, Args)]
pub struct Run {
    /// What to say; standard input is added where it is no terminal
    #[arg(value_name = "MESSAGE")]
    message: Vec<String>,
    /// Run this command template; the message is its arguments
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    command: Option<String>,
    /// Go on with the directory's newest session
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    newest: bool,
    /// Go on with this session
    #[arg(long, short, value_name = "ID")]
    session: Option<String>,
    /// Go on with a copy of that session
    #[arg(long)]
    fork: bool,
    /// The model, as PROVIDER/MODEL
    #[arg(long, short)]
    model: Option<String>,
    /// The model's variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Give this file or directory along; may be repeated
    #[arg(long, short, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// The title of a new session
    #[arg(long)]
    title: Option<String>,
    /// What is printed
    #[arg(long, value_enum, default_value = "default")]
    format: Format,
    /// Allow, once, whatever is asked for
    #[arg(long)]
    auto: bool,
    /// Print the model's thinking too
    #[arg(long)]
    thinking: bool,
    #[command(flatten)]
    target: Target,
}

/// A prompt on its way.
struct Conversation {
    client: Client,
    session: Session,
    events: Events,
    turn: Turn,
    printer: Printer,
    body: Body,
}

/// What is sent.
enum Body {
    Prompt(PromptBody),
    Command(CommandBody),
}

impl Run {
    pub fn run(self) -> anyhow::Result<Exit> {
        crate::logging::start("warn");
        if self.fork && !self.newest && self.session.is_none() {
            bail!("--fork copies a session: name one with --session, or take the newest with --continue");
        }
        // Before signals are caught: nothing is lost when this ends at once.
        let text = prompt::text(&self.message)?;
        if text.trim().is_empty() && self.command.is_none() {
            bail!("no message: give one as arguments or on standard input");
        }
        owner::run(|ground| self.supervise(text, ground))
    }

    /// Works until the end, or until a signal.
    async fn supervise(self, text: String, ground: Ground) -> anyhow::Result<Exit> {
        let mut stops = Stops::listen()?;
        let interrupt = Notify::new();
        let mut reach = None;
        let exit = {
            let work = self.work(text, ground, &mut reach, &interrupt);
            tokio::pin!(work);
            let mut was_interrupted = false;
            loop {
                tokio::select! {
                    exit = &mut work => break exit,
                    stop = stops.next() => match stop {
                        // The first one stops the turn, which takes a moment; the second is in earnest.
                        Stop::Interrupt if !was_interrupted => {
                            was_interrupted = true;
                            interrupt.notify_one();
                        }
                        stop => break Ok(stop.into()),
                    },
                }
            }
        };
        if let Some(reach) = reach {
            Reach::close(reach).await;
        }
        exit
    }

    async fn work(
        &self,
        text: String,
        ground: Ground,
        slot: &mut Option<Reach>,
        interrupt: &Notify,
    ) -> anyhow::Result<Exit> {
        let begin = async {
            let reach = slot.insert(Reach::find(self.target.clone(), ground).await?);
            let mut tries = 0;
            loop {
                tries += 1;
                match self.begin(&text, reach).await {
                    // The owner that answered a moment ago has just ended.
                    Err(error) if tries < TRIES && is_gone(&error) => {
                        reach.renew().await?;
                        tokio::time::sleep(AGAIN).await;
                    }
                    begun => return anyhow::Ok((reach, begun?)),
                }
            }
        };
        let (reach, mut conversation) = tokio::select! {
            begun = begin => begun?,
            () = interrupt.notified() => return Ok(Exit::Interrupted),
        };
        reach.recover(vec![conversation.session.id.clone()]).await;
        let running = Beside::default();
        let (client, id) = (conversation.client.clone(), conversation.session.id.clone());
        match &conversation.body {
            Body::Prompt(body) => {
                let sent = tokio::select! {
                    sent = send(reach, &client, &id, body) => sent?,
                    // Whether it was taken is unknown, so it is stopped in any case.
                    () = interrupt.notified() => {
                        let _ = tokio::time::timeout(STOPPING, client.abort(&id)).await;
                        return Ok(Exit::Interrupted);
                    }
                };
                if let Err(error) = sent {
                    conversation.printer.failed(&error);
                    return Ok(Exit::Failed);
                }
            }
            Body::Command(body) => {
                let (client, id, body) = (client.clone(), id.clone(), body.clone());
                running.push(Box::pin(async move { Ended::Command(client.command(&id, &body).await.map(drop)) }));
            }
        }
        Follower::new(reach, conversation, self.auto).follow(running, interrupt).await
    }

    /// Finds or makes the session, and listens to it.
    async fn begin(&self, text: &str, reach: &Reach) -> anyhow::Result<Conversation> {
        let model = match &self.model {
            Some(name) => {
                let model = ModelRef::parse(name);
                Some(model.with_context(|| format!("{name:?} is no model: name it as provider/model"))?)
            }
            None => None,
        };
        let directory = self.target.directory()?;
        let mut client = reach.client().clone();
        if let Some(directory) = &directory {
            client = client.directory(directory);
        }
        let session = self.choose(&client, model.as_ref()).await?;
        // A session works in its own directory, and its events are told there.
        let client = client.directory(&session.directory);
        let events = client.events().await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let id = Ids::new(clock.clone(), 0).message();
        let turn = Turn::new(session.id.clone(), id.clone());
        let body = match &self.command {
            Some(command) => Body::Command(CommandBody {
                message_id: Some(id),
                agent: self.agent.clone(),
                model: self.model.clone(),
                arguments: text.to_owned(),
                command: command.clone(),
                variant: self.variant.clone(),
                parts: Vec::new(),
            }),
            None => Body::Prompt(PromptBody {
                message_id: Some(id),
                model,
                agent: self.agent.clone(),
                no_reply: None,
                tools: None,
                troupe: None,
                format: None,
                system: None,
                variant: self.variant.clone(),
                parts: prompt::parts(text.to_owned(), &self.file, directory.as_deref())?,
            }),
        };
        let printer = Printer::new(self.format, self.thinking, session.id.clone(), clock);
        Ok(Conversation { client, session, events, turn, printer, body })
    }

    async fn choose(&self, client: &Client, model: Option<&ModelRef>) -> anyhow::Result<Session> {
        let found = match &self.session {
            Some(id) => {
                let Ok(known) = SessionId::parse(id) else { bail!("Session not found: {id}") };
                match client.session(&known).await {
                    Ok(session) => Some(session),
                    Err(error) if error.status() == Some(404) => bail!("Session not found: {id}"),
                    Err(error) => return Err(error.into()),
                }
            }
            None if self.newest => {
                let query = SessionsQuery { is_roots: true, ..SessionsQuery::default() };
                let sessions = client.sessions(&query).await?;
                sessions.into_iter().find(|session| session.parent_id.is_none() && session.time.archived.is_none())
            }
            None => None,
        };
        match found {
            Some(session) if self.fork => Ok(client.fork(&session.id, None).await?),
            Some(session) => Ok(session),
            // Nobody is there who could answer or decide on a plan.
            None => {
                let deny = |permission| Rule::new(permission, "*", Action::Deny);
                let body = CreateSession {
                    title: self.title.clone(),
                    agent: self.agent.clone(),
                    model: model.map(|model| SessionModel {
                        id: model.model_id.clone(),
                        provider_id: model.provider_id.clone(),
                        variant: self.variant.clone(),
                    }),
                    permission: Some(vec![deny("question"), deny("plan_enter"), deny("plan_exit")]),
                    ..CreateSession::default()
                };
                Ok(client.create_session(&body).await?)
            }
        }
    }
}

/// Sends a prompt. It carries its id, so that sending it again is harmless.
async fn send(
    reach: &mut Reach,
    client: &Client,
    id: &SessionId,
    body: &PromptBody,
) -> anyhow::Result<Result<(), ClientError>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match client.prompt_async(id, body).await {
            Err(error) if tries < TRIES && (error.is_gone() || error.status() == Some(503)) => {
                reach.renew().await?;
                tokio::time::sleep(AGAIN).await;
            }
            result => return Ok(result),
        }
    }
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(ClientError::is_gone)
}
