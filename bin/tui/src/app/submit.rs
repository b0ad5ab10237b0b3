//! What is done with what was written: a prompt, a shell command, or a command.

use protocol::message::ModelRef;
use protocol::prompt::{CommandBody, PartInput, PartInputKind, PromptBody, ShellBody};

use super::picker::{Item, Picker, Subject};
use super::slash::{self, Slash};
use super::{App, Notice};
use crate::effect::{Effect, Work};

impl App {
    /// Enter was pressed.
    pub(super) fn submit(&mut self) {
        if self.input.text().trim().is_empty() || self.is_creating {
            return;
        }
        // What is begun and can be but one thing is that.
        if let [(name, _)] = self.completions().as_slice() {
            self.input.set(format!("/{name}"));
        }
        let text = self.input.take();
        self.is_dirty = true;
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|command| !command.is_empty()) {
            let body = ShellBody {
                message_id: Some(self.ids.message()),
                agent: self.agent().to_owned(),
                model: self.chosen_model.clone(),
                command: command.to_owned(),
            };
            return self.work(Work::Shell(body));
        }
        if let Some((name, arguments)) = slash::split(&text) {
            if let Some(slash) = slash::named(name) {
                return self.slash(slash, arguments);
            }
            if self.commands.iter().any(|command| command.name == name) {
                let body = CommandBody {
                    message_id: Some(self.ids.message()),
                    agent: self.chosen_agent.clone(),
                    model: self.chosen_model.as_ref().map(spelled),
                    arguments: arguments.to_owned(),
                    command: name.to_owned(),
                    variant: None,
                    parts: Vec::new(),
                };
                return self.work(Work::Command(body));
            }
            self.say_error(format!("there is no command /{name}; type / to see them"));
            return self.input.set(text);
        }
        let kind = PartInputKind::Text { text, synthetic: None, ignored: None, time: None, metadata: None };
        let body = PromptBody {
            message_id: Some(self.ids.message()),
            model: self.chosen_model.clone(),
            agent: Some(self.agent().to_owned()),
            no_reply: None,
            tools: None,
            troupe: None,
            format: None,
            system: None,
            variant: None,
            parts: vec![PartInput { id: None, kind }],
        };
        self.work(Work::Prompt(body));
    }

    pub(super) fn slash(&mut self, slash: Slash, arguments: &str) {
        match slash {
            Slash::New => self.go_home(),
            Slash::Sessions => self.pick_session(),
            Slash::Agent if arguments.is_empty() => {
                let items = self.primaries().map(|agent| Item {
                    id: agent.name.clone(),
                    label: agent.name.clone(),
                    detail: agent.description.as_deref().map(client::describe::line).unwrap_or_default(),
                    time: None,
                });
                self.picker = Some(Picker::new(Subject::Agents, Some(items.collect())));
            }
            Slash::Agent => self.choose(Subject::Agents, arguments),
            Slash::Model if arguments.is_empty() => {
                let items = self.models.iter().map(|(model, name, _)| Item {
                    id: spelled(model),
                    label: client::describe::line(name),
                    detail: spelled(model),
                    time: None,
                });
                self.picker = Some(Picker::new(Subject::Models, Some(items.collect())));
            }
            Slash::Model => self.choose(Subject::Models, arguments),
            Slash::Rename => match &self.session {
                Some(session) if !arguments.is_empty() => {
                    self.do_later(Effect::Rename(session.id.clone(), arguments.to_owned()));
                }
                Some(_) => self.say_error("name the new title: /rename TITLE"),
                None => self.say_error("there is no session yet"),
            },
            Slash::Help => self.shows_help = true,
            Slash::Quit => self.do_later(Effect::Quit),
        }
        self.is_dirty = true;
    }

    /// Lists sessions.
    pub(super) fn pick_session(&mut self) {
        self.picker = Some(Picker::new(Subject::Sessions, None));
        self.do_later(Effect::Sessions);
    }

    /// Something was chosen from a list, or named.
    pub(super) fn choose(&mut self, subject: Subject, id: &str) {
        match subject {
            Subject::Sessions => {
                if let Ok(id) = protocol::SessionId::parse(id) {
                    self.do_later(Effect::Open(id));
                }
            }
            Subject::Agents if self.primaries().any(|agent| agent.name == id) => {
                self.chosen_agent = Some(id.to_owned())
            }
            Subject::Agents => self.say_error(format!("there is no agent {id:?} to talk to")),
            Subject::Models => match ModelRef::parse(id).filter(|named| self.models.iter().any(|(m, ..)| m == named)) {
                Some(model) => {
                    self.notice = Some(Notice::Plain(format!("the next prompt goes to {}", spelled(&model))));
                    self.chosen_model = Some(model);
                }
                None => self.say_error(format!("there is no model {id:?}; /model lists them")),
            },
        }
        self.is_dirty = true;
    }

    /// Takes the next agent, or the one before.
    pub(super) fn cycle_agent(&mut self, is_forward: bool) {
        let names: Vec<String> = self.primaries().map(|agent| agent.name.clone()).collect();
        let at = names.iter().position(|name| name == self.agent()).unwrap_or(0);
        let step = if is_forward { 1 } else { names.len().saturating_sub(1) };
        if let Some(name) = names.get((at + step) % names.len().max(1)) {
            self.chosen_agent = Some(name.clone());
            self.is_dirty = true;
        }
    }
}

fn spelled(model: &ModelRef) -> String {
    format!("{}/{}", model.provider_id, model.model_id)
}
