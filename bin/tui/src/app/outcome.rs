//! What came of effects.

use protocol::message::ModelRef;
use protocol::session::SessionStatus;

use super::picker::{Item, Subject};
use super::{App, Notice};
use crate::effect::{Effect, MESSAGES, Outcome, Setup};

impl App {
    /// Takes an outcome in; `Listening` and `NotListening` are the driver's.
    pub fn outcome(&mut self, outcome: Outcome) {
        self.is_dirty = true;
        match outcome {
            Outcome::Done | Outcome::Listening(_) | Outcome::NotListening(_) => {}
            Outcome::Setup(setup) => self.set_up(*setup),
            Outcome::Created(session, work) => {
                self.is_creating = false;
                let id = session.id.clone();
                self.show(session);
                self.do_later(Effect::Work(id, work));
            }
            Outcome::NotSent(work, error) => {
                self.is_creating = false;
                // What was written is not lost.
                if self.input.is_empty() {
                    self.input.set(work.text());
                }
                self.say_error(error.to_string());
            }
            Outcome::Sessions(sessions) => {
                let items = sessions.into_iter().map(|session| Item {
                    id: session.id.to_string(),
                    label: client::describe::line(&session.title),
                    detail: String::new(),
                    time: Some(session.time.updated),
                });
                let items = items.collect();
                if let Some(picker) = self.picker.as_mut().filter(|picker| picker.subject == Subject::Sessions) {
                    picker.items = Some(items);
                }
            }
            Outcome::Opened(session, messages) => {
                let id = session.id.clone();
                self.show(session);
                self.conversation.read(messages.clone(), messages.len() >= MESSAGES as usize);
                self.find_askers();
                if self.statuses.contains_key(&id) {
                    self.do_later(Effect::Listen);
                }
            }
            Outcome::NoSession => self.notice = Some(Notice::Plain("there is no session here yet".into())),
            Outcome::Read(id, messages) => {
                if self.session.as_ref().is_some_and(|session| session.id == id) {
                    let is_cut = messages.len() >= MESSAGES as usize;
                    self.conversation.read(messages, is_cut);
                }
            }
            Outcome::Statuses(statuses) => {
                self.statuses = statuses;
                self.statuses.retain(|_, status| !matches!(status, SessionStatus::Idle { .. }));
            }
            Outcome::Found(session) => {
                let parent = session.parent_id.clone();
                self.tree.add(&session);
                // The shown session may be further up.
                if let (Some(parent), Some(shown)) = (parent, &self.session)
                    && !self.tree.is_below(&parent, &shown.id)
                {
                    self.do_later(Effect::Find(parent));
                }
            }
            Outcome::Waiting(permissions, questions) => self.wait_for_all(permissions, questions),
            Outcome::NotAnswered(error) => {
                self.say_error(error.to_string());
                self.do_later(Effect::Waiting);
            }
            Outcome::Failed(error) => self.say_error(error.to_string()),
        }
    }

    /// Asks whose subagents those are that wait.
    fn find_askers(&mut self) {
        let Some(shown) = self.session.as_ref().map(|session| session.id.clone()) else { return };
        let unknown = self.asks.iter().map(|ask| ask.session()).filter(|id| !self.tree.is_below(id, &shown));
        let finds: Vec<Effect> = unknown.map(|id| Effect::Find(id.clone())).collect();
        self.effects.extend(finds);
    }

    fn set_up(&mut self, setup: Setup) {
        let Setup { agents, providers, commands, config } = setup;
        self.agents = agents;
        self.commands = commands;
        self.default_agent = config.default_agent;
        let model =
            |provider: &str, id: &str| ModelRef { provider_id: provider.into(), model_id: id.into(), variant: None };
        self.models = Vec::new();
        for provider in &providers.providers {
            for (key, known) in &provider.models {
                self.models.push((model(&provider.id, key), known.name.clone(), known.limit.context));
            }
        }
        let first = || {
            let provider = providers.providers.first()?;
            Some(model(&provider.id, providers.default.get(&provider.id)?))
        };
        self.default_model = config.model.as_deref().and_then(ModelRef::parse).or_else(first);
    }
}
