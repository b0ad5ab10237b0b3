//! The state of the terminal client: events, keys and outcomes in, effects out. Draws nothing and waits for nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use client::Tree;
use protocol::agent::{Agent, AgentMode};
use protocol::command::Command;
use protocol::message::{Message, ModelRef, Tokens};
use protocol::session::{CreateSession, SessionStatus};
use protocol::{Clock, Event, Ids, Session, SessionId};

use crate::conversation::Conversation;
use crate::effect::{Effect, Work, session_model};
use crate::input::Input;

pub mod ask;
mod events;
pub mod keys;
mod outcome;
pub mod picker;
pub mod slash;
mod submit;

use ask::Ask;
use picker::Picker;

/// What is shown first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new session.
    Home,
    /// The directory's newest session.
    Newest,
    /// This session.
    Session(SessionId),
}

/// What the status line says for once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// For information.
    Plain(String),
    /// Something failed.
    Error(String),
}

/// A key that does something only when it is pressed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// Esc stops the turn.
    Stop,
    /// Ctrl-C ends the client while a turn runs.
    Quit,
}

/// How much of the conversation there is, and how much of it is seen; in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewport {
    /// All.
    pub lines: usize,
    /// Seen.
    pub height: usize,
}

/// The state.
pub struct App {
    /// The directory of new sessions.
    pub directory: String,
    /// The session that is shown; none: a new one is begun with the next prompt.
    pub session: Option<Session>,
    /// Its messages.
    pub conversation: Conversation,
    /// What the directory's sessions do; idle ones are left out.
    pub statuses: HashMap<SessionId, SessionStatus>,
    /// What waits for the person, in all of the directory's sessions.
    pub asks: Vec<Ask>,
    /// Agents to choose from.
    pub agents: Vec<Agent>,
    /// Models to choose from: name and window, in tokens.
    pub models: Vec<(ModelRef, String, u64)>,
    /// Command templates.
    pub commands: Vec<Command>,
    /// What is written.
    pub input: Input,
    /// A list that is open.
    pub picker: Option<Picker>,
    /// The keys are explained.
    pub shows_help: bool,
    /// The first line seen; none: the newest are.
    pub top: Option<usize>,
    /// What was drawn last.
    pub viewport: Cell<Viewport>,
    /// Said for once.
    pub notice: Option<Notice>,
    /// What a key pressed again would do.
    pub armed: Option<Armed>,
    /// Why there is no connection.
    pub outage: Option<String>,
    /// A session is being made.
    pub is_creating: bool,
    /// Counts while something moves.
    pub tick: usize,
    /// It has to be drawn.
    pub is_dirty: bool,
    chosen_agent: Option<String>,
    chosen_model: Option<ModelRef>,
    default_model: Option<ModelRef>,
    default_agent: Option<String>,
    tree: Tree,
    ids: Ids,
    effects: Vec<Effect>,
    was_connected: bool,
    /// What waited when it was asked for anew.
    asks_before: Vec<String>,
}

impl App {
    /// Returns the state at the start.
    pub fn new(directory: String, start: Start, clock: Arc<dyn Clock>) -> Self {
        let open = match start {
            Start::Home => None,
            Start::Newest => Some(Effect::OpenNewest),
            Start::Session(id) => Some(Effect::Open(id)),
        };
        Self {
            directory,
            session: None,
            conversation: Conversation::default(),
            statuses: HashMap::new(),
            asks: Vec::new(),
            agents: Vec::new(),
            models: Vec::new(),
            commands: Vec::new(),
            input: Input::default(),
            picker: None,
            shows_help: false,
            top: None,
            viewport: Cell::new(Viewport::default()),
            notice: None,
            armed: None,
            outage: None,
            is_creating: false,
            tick: 0,
            is_dirty: true,
            chosen_agent: None,
            chosen_model: None,
            default_model: None,
            default_agent: None,
            tree: Tree::default(),
            ids: Ids::new(clock, 0),
            effects: [Effect::Setup, Effect::Statuses].into_iter().chain(open).collect(),
            was_connected: false,
            asks_before: Vec::new(),
        }
    }

    /// Takes out what has to be done.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns what the shown session does.
    pub fn status(&self) -> Option<&SessionStatus> {
        self.statuses.get(&self.session.as_ref()?.id).filter(|status| !matches!(status, SessionStatus::Idle { .. }))
    }

    /// Returns whether the shown session works, or waits.
    pub fn is_busy(&self) -> bool {
        self.status().is_some()
    }

    /// Returns whether something on the screen moves by itself.
    pub fn is_animated(&self) -> bool {
        self.is_busy() || self.is_creating || self.outage.is_some()
    }

    /// Moves it.
    pub fn advance(&mut self) {
        self.tick = self.tick.wrapping_add(1);
        self.is_dirty = true;
    }

    /// Returns what the person is to decide now: of the shown session and its subagents.
    pub fn ask(&self) -> Option<&Ask> {
        self.ask_index().and_then(|at| self.asks.get(at))
    }

    /// Returns how many other sessions wait for the person.
    pub fn others_waiting(&self) -> usize {
        let mut others: Vec<&SessionId> =
            self.asks.iter().map(Ask::session).filter(|session| !self.is_shown(session)).collect();
        others.sort();
        others.dedup();
        others.len()
    }

    /// Returns the name of the agent of the next prompt.
    pub fn agent(&self) -> &str {
        let of_session = self.session.as_ref().and_then(|session| session.agent.as_deref());
        let first = || self.primaries().next().map(|agent| agent.name.as_str());
        self.chosen_agent.as_deref().or(of_session).or(self.default_agent.as_deref()).or_else(first).unwrap_or("build")
    }

    /// Returns the model of the next prompt, as far as it is known before.
    pub fn model(&self) -> Option<ModelRef> {
        let of_session = || {
            let model = self.session.as_ref()?.model.as_ref()?;
            Some(ModelRef { provider_id: model.provider_id.clone(), model_id: model.id.clone(), variant: None })
        };
        let of_agent = || self.agents.iter().find(|agent| agent.name == self.agent())?.model.clone();
        self.chosen_model.clone().or_else(of_session).or_else(of_agent).or_else(|| self.default_model.clone())
    }

    /// Returns the tokens of the newest answer that has some, and the share of its model's window in percent.
    pub fn usage(&self) -> Option<(Tokens, Option<u64>)> {
        let answers = self.conversation.entries().iter().rev().filter_map(|entry| entry.info.as_assistant());
        let answer = answers.into_iter().find(|answer| answer.tokens.output > 0)?;
        let tokens = answer.tokens;
        let all = tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write;
        let is_its = |model: &ModelRef| model.provider_id == answer.provider_id && model.model_id == answer.model_id;
        let window = self.models.iter().find(|(model, ..)| is_its(model)).map_or(0, |(.., window)| *window);
        Some((tokens, (all * 100).checked_div(window)))
    }

    /// Returns the commands that begin as what is written: name and what it does.
    pub fn completions(&self) -> Vec<(String, String)> {
        let Some(begun) = self.input.text().strip_prefix('/') else { return Vec::new() };
        if begun.contains(|c: char| c.is_whitespace() || c == '/') {
            return Vec::new();
        }
        let own = slash::SLASHES.iter().map(|(name, _, what)| ((*name).to_owned(), (*what).to_owned()));
        let templates = self.commands.iter().map(|command| {
            let what = command.description.clone().unwrap_or_default();
            (command.name.clone(), what)
        });
        own.chain(templates).filter(|(name, _)| name.starts_with(begun)).collect()
    }

    fn ask_index(&self) -> Option<usize> {
        self.asks.iter().position(|ask| self.is_shown(ask.session()))
    }

    /// Whether a session is the shown one or below it.
    fn is_shown(&self, id: &SessionId) -> bool {
        self.session.as_ref().is_some_and(|shown| self.tree.is_below(id, &shown.id))
    }

    fn primaries(&self) -> impl Iterator<Item = &Agent> {
        self.agents.iter().filter(|agent| !agent.hidden && agent.mode != AgentMode::Subagent)
    }

    fn do_later(&mut self, effect: Effect) {
        self.effects.push(effect);
        self.is_dirty = true;
    }

    /// Shows a session.
    fn show(&mut self, session: Session) {
        self.tree.add(&session);
        self.conversation = Conversation::default();
        self.chosen_agent = None;
        self.chosen_model = None;
        self.session = Some(session);
        self.top = None;
        self.armed = None;
        self.is_dirty = true;
    }

    /// Leaves the session; the next prompt begins a new one.
    fn go_home(&mut self) {
        self.session = None;
        self.conversation = Conversation::default();
        self.top = None;
        self.armed = None;
        self.is_dirty = true;
    }

    /// Gives work to the shown session, or to a new one.
    fn work(&mut self, work: Work) {
        self.top = None;
        match &self.session {
            Some(session) => self.do_later(Effect::Work(session.id.clone(), Box::new(work))),
            None => {
                self.is_creating = true;
                let model = self.chosen_model.as_ref().map(session_model);
                let body = CreateSession { agent: self.chosen_agent.clone(), model, ..CreateSession::default() };
                self.do_later(Effect::Create(Box::new(body), Box::new(work)));
            }
        }
    }

    fn say_error(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice::Error(text.into()));
        self.is_dirty = true;
    }

    /// The connection is lost.
    pub fn lost(&mut self, reason: String) {
        self.outage = Some(reason);
        self.is_dirty = true;
    }

    /// Returns whether an error is told by a message that is shown.
    fn is_told(&self, error: &protocol::SessionError) -> bool {
        let told = |info: &Arc<Message>| info.as_assistant().and_then(|answer| answer.error.as_ref()) == Some(error);
        self.conversation.entries().iter().any(|entry| told(&entry.info))
    }
}

/// Returns whether an event concerns what is shown of a conversation.
fn is_of_conversation(event: &Event) -> bool {
    matches!(
        event,
        Event::MessageUpdated { .. }
            | Event::MessageRemoved { .. }
            | Event::PartUpdated { .. }
            | Event::PartDelta { .. }
            | Event::PartRemoved { .. }
    )
}

#[cfg(test)]
mod tests;
