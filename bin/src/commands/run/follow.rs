//! Follows a turn to its end: prints what happens, answers what is asked, and gets the connection back when it is lost.

use std::pin::Pin;
use std::time::Duration;

use client::{Client, ClientError, Events, Tree};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use protocol::permission::{Reply, ReplyBody};
use protocol::{Event, EventFrame, Session};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::print::Printer;
use super::turn::Turn;
use super::{Conversation, STOPPING};
use crate::exit::Exit;
use crate::reach::Reach;

/// How long a server may be away before the run is given up.
const AWAY: Duration = Duration::from_secs(20);
/// How often it is looked whether somebody still needs the runtime, or an unclear state read anew.
const LOOK: Duration = Duration::from_millis(250);
/// How long a state may stay unclear.
const UNCLEAR: Duration = Duration::from_secs(10);
/// Newest messages that are read anew after a loss.
const RECENT: u32 = 200;

/// Requests that go on beside the events.
pub type Beside = FuturesUnordered<Pin<Box<dyn Future<Output = Ended>>>>;

/// How such a request has ended.
pub enum Ended {
    /// A person's or this command's word was passed on; what it brings about comes as an event.
    Said,
    /// The whole command.
    Command(Result<(), ClientError>),
}

/// Who follows a turn.
pub struct Follower<'a> {
    reach: &'a mut Reach,
    /// Allows what is asked for.
    is_auto: bool,
    client: Client,
    session: Session,
    events: Events,
    turn: Turn,
    printer: Printer,
    tree: Tree,
    /// The first `Connected` is the beginning of the stream; later ones tell of a loss.
    has_begun: bool,
    /// Since when there is no connection.
    away_since: Option<Instant>,
    /// Since when the state, read anew, doesn't say how the turn stands.
    unclear_since: Option<Instant>,
    /// The state has to be read anew.
    must_read: bool,
    /// When to look again at what no event tells.
    look: Option<Instant>,
    /// Others needed the runtime when it was last looked.
    was_needed: bool,
    /// A person stopped the turn: it is waited for until then.
    ends: Option<Instant>,
}

impl<'a> Follower<'a> {
    /// Returns who follows a prompt's turn.
    pub fn new(reach: &'a mut Reach, conversation: Conversation, is_auto: bool) -> Self {
        let Conversation { client, session, events, turn, printer, .. } = conversation;
        let mut tree = Tree::default();
        tree.add(&session);
        Self {
            reach,
            is_auto,
            client,
            session,
            events,
            turn,
            printer,
            tree,
            has_begun: false,
            away_since: None,
            unclear_since: None,
            must_read: false,
            look: None,
            was_needed: false,
            ends: None,
        }
    }

    /// Returns when the turn is over and nobody else needs the runtime of this process.
    pub async fn follow(mut self, mut beside: Beside, interrupt: &Notify) -> anyhow::Result<Exit> {
        loop {
            if self.must_read
                && self.away_since.is_none()
                && let Some(exit) = self.read().await
            {
                return Ok(exit);
            }
            if self.turn.is_over()
                && beside.is_empty()
                && let Some(exit) = self.end().await
            {
                return Ok(exit);
            }
            tokio::select! {
                () = at(self.ends) => return Ok(Exit::Interrupted),
                () = interrupt.notified() => {
                    self.ends = Some(Instant::now() + STOPPING);
                    let (client, id) = (self.client.clone(), self.session.id.clone());
                    beside.push(Box::pin(async move {
                        let _ = client.abort(&id).await;
                        Ended::Said
                    }));
                }
                () = at(self.look) => {
                    self.look = None;
                    self.must_read |= self.unclear_since.is_some();
                }
                Some(ended) = beside.next() => match ended {
                    // The command goes on where it is; events tell of it when they are back.
                    Ended::Said | Ended::Command(Ok(())) => {}
                    Ended::Command(Err(error)) if error.is_gone() => {}
                    Ended::Command(Err(error)) => return Ok(self.fail(&error)),
                },
                event = self.events.next() => match event {
                    Some(Ok(frame)) => self.event(&frame, &beside).await,
                    Some(Err(error)) => {
                        if let Some(exit) = self.lost(&error).await? {
                            return Ok(exit);
                        }
                    }
                    None => {
                        self.printer.error("", "the event stream ended");
                        return Ok(Exit::Failed);
                    }
                },
            }
        }
    }

    async fn event(&mut self, frame: &EventFrame, beside: &Beside) {
        if self.away_since.take().is_some() {
            self.printer.note("The connection is back; resumed.");
        }
        self.must_read |= Events::is_break(&frame.event) && std::mem::replace(&mut self.has_begun, true);
        self.tree.learn(&frame.event);
        self.answer(&frame.event, beside).await;
        for told in self.turn.event(&frame.event) {
            self.printer.tell(&told);
        }
    }

    /// Answers what is asked in the session's tree: nobody else will.
    async fn answer(&mut self, event: &Event, beside: &Beside) {
        let asking = match event {
            Event::PermissionAsked(request) => &request.session_id,
            Event::QuestionAsked(request) => &request.session_id,
            _ => return,
        };
        match self.tree.find(&self.client, asking, self.turn.session()).await {
            Ok(true) => {}
            Ok(false) => return,
            // It is told again on the next connection.
            Err(error) => return tracing::warn!(%error, "whose request it is could not be found out"),
        }
        let client = self.client.clone();
        match event {
            Event::PermissionAsked(request) => {
                self.turn.permission(request.clone());
                let reply = if self.is_auto { Reply::Once } else { Reply::Reject };
                let (id, body) = (request.id.clone(), ReplyBody { reply, message: None, scope: None });
                beside.push(Box::pin(async move { said(client.reply_permission(&id, &body).await) }));
            }
            Event::QuestionAsked(request) => {
                self.turn.question(request.clone());
                let id = request.id.clone();
                beside.push(Box::pin(async move { said(client.reject_question(&id).await) }));
            }
            _ => {}
        }
    }

    /// The turn is over. Returns how, unless somebody else needs the runtime.
    async fn end(&mut self) -> Option<Exit> {
        if self.ends.is_some() {
            return Some(Exit::Interrupted);
        }
        if self.look.is_some() {
            return None;
        }
        // One of the streams is this command's own.
        let is_needed = self.reach.is_needed(|id| self.tree.is_below(id, self.turn.session()), 1).await;
        // Once more after the last: who was waited for shall hear of its own end.
        let was_needed = std::mem::replace(&mut self.was_needed, is_needed);
        if !is_needed && !was_needed {
            return Some(self.turn.exit());
        }
        self.look = Some(Instant::now() + LOOK);
        None
    }

    /// Reads the session's state anew. Returns how it ended, where it can't go on.
    async fn read(&mut self) -> Option<Exit> {
        self.must_read = false;
        match read(&self.client, &mut self.turn, &mut self.printer).await {
            Ok(true) => self.unclear_since = None,
            Ok(false) => {
                let since = *self.unclear_since.get_or_insert_with(Instant::now);
                if since.elapsed() > UNCLEAR {
                    self.printer.error("", "the turn ended without an answer");
                    return Some(Exit::Failed);
                }
                self.look = Some(Instant::now() + LOOK);
            }
            Err(error) if error.is_gone() => self.must_read = true,
            Err(error) => return Some(self.fail(&error)),
        }
        None
    }

    /// The connection is lost: gets it back, or takes the owner's place. Returns how it ended, when it was tried long
    /// enough.
    async fn lost(&mut self, error: &ClientError) -> anyhow::Result<Option<Exit>> {
        tracing::debug!(%error, "the event stream was lost");
        if self.away_since.is_none() {
            self.printer.note("The connection was lost; trying to get it back.");
        }
        if self.away_since.get_or_insert_with(Instant::now).elapsed() > AWAY {
            return Ok(Some(self.fail(error)));
        }
        self.must_read = true;
        if self.reach.renew().await? {
            self.reach.recover(vec![self.session.id.clone()]).await;
        }
        Ok(None)
    }

    fn fail(&mut self, error: &ClientError) -> Exit {
        self.printer.failed(error);
        Exit::Failed
    }
}

/// Reads the session's state anew. Returns whether it is clear.
async fn read(client: &Client, turn: &mut Turn, printer: &mut Printer) -> Result<bool, ClientError> {
    // In this order: a turn that ends in between is then seen busy, and its end comes as an event.
    let statuses = client.statuses().await?;
    let messages = client.messages(turn.session(), Some(RECENT)).await?;
    let status = statuses.get(turn.session()).cloned();
    let (told, is_clear) = turn.read(&messages, status.as_ref());
    told.iter().for_each(|told| printer.tell(told));
    Ok(is_clear)
}

/// What a reply brings about comes as an event; only that it was not taken is of interest here.
fn said(result: Result<(), ClientError>) -> Ended {
    match result {
        Ok(()) => {}
        // Somebody else was faster, or it fell with another of its session.
        Err(error) if matches!(error.status(), Some(404 | 409)) => {}
        Err(error) => tracing::warn!(%error, "a request could not be answered"),
    }
    Ended::Said
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
