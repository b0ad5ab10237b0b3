//! What waits for the person: a permission or questions, and how far the person is with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use protocol::permission::{Reply, ReplyBody, Scope};
use protocol::question::{Answers, Question, QuestionRequest};
use protocol::{PermissionRequest, SessionId};

use crate::effect::Effect;
use crate::input::Input;

/// A request that waits.
#[derive(Clone, Debug)]
pub enum Ask {
    /// May a tool do this?
    Permission(PermissionAsk),
    /// What does the person say to this?
    Question(QuestionAsk),
}

/// What a key did.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Nothing: it is somebody else's.
    No,
    /// Something changed.
    Yes,
    /// The request is answered.
    Answered(Effect),
}

/// A permission that waits.
#[derive(Clone, Debug)]
pub struct PermissionAsk {
    /// The request.
    pub request: Arc<PermissionRequest>,
    /// What Enter would do.
    pub choice: Choice,
    /// What the model shall do instead, while it is written.
    pub feedback: Option<Input>,
    /// Lines of what is asked for that are above the view.
    pub scroll: u16,
}

/// An answer to a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This call.
    Once,
    /// This and all like it in this session.
    Session,
    /// This and all like it in this project.
    Project,
    /// No.
    Reject,
}

/// In the order they are shown.
pub const CHOICES: [Choice; 4] = [Choice::Once, Choice::Session, Choice::Project, Choice::Reject];

/// Questions that wait.
#[derive(Clone, Debug)]
pub struct QuestionAsk {
    /// The request.
    pub request: Arc<QuestionRequest>,
    /// Answers so far, one for each question before this one.
    answers: Answers,
    /// The option under the cursor; the one behind the last is free text.
    pub cursor: usize,
    /// The options that are chosen, where several may be.
    pub chosen: BTreeSet<usize>,
    /// The free text, while it is written.
    pub text: Option<Input>,
}

impl Ask {
    /// Returns the session that asks.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Permission(ask) => &ask.request.session_id,
            Self::Question(ask) => &ask.request.session_id,
        }
    }

    /// Returns the request's id.
    pub fn id(&self) -> &str {
        match self {
            Self::Permission(ask) => ask.request.id.as_str(),
            Self::Question(ask) => ask.request.id.as_str(),
        }
    }

    /// Returns what is being written.
    pub fn input(&mut self) -> Option<&mut Input> {
        match self {
            Self::Permission(ask) => ask.feedback.as_mut(),
            Self::Question(ask) => ask.text.as_mut(),
        }
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Taken {
        match self {
            Self::Permission(ask) => ask.key(key),
            Self::Question(ask) => ask.key(key),
        }
    }
}

impl PermissionAsk {
    /// Returns a permission that nobody has looked at.
    pub fn new(request: Arc<PermissionRequest>) -> Self {
        Self { request, choice: Choice::Once, feedback: None, scroll: 0 }
    }

    fn key(&mut self, key: KeyEvent) -> Taken {
        if let Some(feedback) = &mut self.feedback {
            return match key.code {
                KeyCode::Enter => {
                    let text = feedback.text().trim().to_owned();
                    self.reply(Reply::Reject, Some(text).filter(|text| !text.is_empty()), None)
                }
                KeyCode::Esc => {
                    self.feedback = None;
                    Taken::Yes
                }
                _ => write(feedback, key),
            };
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Taken::No;
        }
        match key.code {
            KeyCode::Left | KeyCode::Up | KeyCode::BackTab => self.step(CHOICES.len() - 1),
            KeyCode::Right | KeyCode::Down | KeyCode::Tab => self.step(1),
            KeyCode::Char('y' | '1') => self.decide(Choice::Once),
            KeyCode::Char('a' | '2') => self.decide(Choice::Session),
            KeyCode::Char('p' | '3') => self.decide(Choice::Project),
            KeyCode::Char('n' | '4') => self.decide(Choice::Reject),
            KeyCode::Enter => self.decide(self.choice),
            KeyCode::PageUp => {
                self.scroll = self.scroll.saturating_sub(5);
                Taken::Yes
            }
            KeyCode::PageDown => {
                self.scroll = self.scroll.saturating_add(5);
                Taken::Yes
            }
            _ => Taken::No,
        }
    }

    fn step(&mut self, by: usize) -> Taken {
        let at = CHOICES.iter().position(|choice| *choice == self.choice).unwrap_or(0);
        if let Some(choice) = CHOICES.get((at + by) % CHOICES.len()) {
            self.choice = *choice;
        }
        Taken::Yes
    }

    fn decide(&mut self, choice: Choice) -> Taken {
        self.choice = choice;
        match choice {
            Choice::Once => self.reply(Reply::Once, None, None),
            Choice::Session => self.reply(Reply::Always, None, Some(Scope::Session)),
            Choice::Project => self.reply(Reply::Always, None, Some(Scope::Project)),
            // A word to the model may follow; Enter sends it, empty or not.
            Choice::Reject => {
                self.feedback = Some(Input::default());
                Taken::Yes
            }
        }
    }

    fn reply(&self, reply: Reply, message: Option<String>, scope: Option<Scope>) -> Taken {
        Taken::Answered(Effect::Permission(self.request.id.clone(), ReplyBody { reply, message, scope }))
    }
}

impl QuestionAsk {
    /// Returns questions that nobody has looked at.
    pub fn new(request: Arc<QuestionRequest>) -> Self {
        Self { request, answers: Vec::new(), cursor: 0, chosen: BTreeSet::new(), text: None }
    }

    /// Returns the question that is to be answered next.
    pub fn question(&self) -> Option<&Question> {
        self.request.questions.get(self.answers.len())
    }

    /// Returns which of how many questions this is, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.answers.len() + 1, self.request.questions.len())
    }

    fn key(&mut self, key: KeyEvent) -> Taken {
        let Some(question) = self.question() else { return self.dismiss(key) };
        let (options, is_multiple) = (question.options.len(), question.multiple == Some(true));
        let has_text = question.custom != Some(false) || options == 0;
        let rows = options + usize::from(has_text);
        if let Some(text) = &mut self.text {
            return match key.code {
                KeyCode::Enter if text.text().trim().is_empty() => Taken::Yes,
                KeyCode::Enter => {
                    let text = text.text().trim().to_owned();
                    self.answer(Some(text))
                }
                KeyCode::Esc => {
                    self.text = None;
                    Taken::Yes
                }
                _ => write(text, key),
            };
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return Taken::No;
        }
        match key.code {
            KeyCode::Up | KeyCode::BackTab => self.go((self.cursor + rows).saturating_sub(1) % rows.max(1)),
            KeyCode::Down | KeyCode::Tab => self.go((self.cursor + 1) % rows.max(1)),
            KeyCode::Char(' ') if is_multiple && self.cursor < options => {
                if !self.chosen.remove(&self.cursor) {
                    self.chosen.insert(self.cursor);
                }
                Taken::Yes
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if at >= rows {
                    return Taken::Yes;
                }
                self.cursor = at;
                self.choose(options, is_multiple)
            }
            KeyCode::Enter => self.choose(options, is_multiple),
            _ => self.dismiss(key),
        }
    }

    fn go(&mut self, row: usize) -> Taken {
        self.cursor = row;
        Taken::Yes
    }

    fn choose(&mut self, options: usize, is_multiple: bool) -> Taken {
        if self.cursor >= options {
            self.text = Some(Input::default());
            return Taken::Yes;
        }
        // With none marked, the one under the cursor is meant.
        if !is_multiple || self.chosen.is_empty() {
            self.chosen = BTreeSet::from([self.cursor]);
        }
        self.answer(None)
    }

    /// Answers this question; the last one answers the request.
    fn answer(&mut self, text: Option<String>) -> Taken {
        let Some(question) = self.question() else { return Taken::Yes };
        let labels = self.chosen.iter().filter_map(|at| Some(question.options.get(*at)?.label.clone()));
        // What is written stands beside what is marked only where several may be.
        let labels: Vec<String> =
            if text.is_some() && question.multiple != Some(true) { Vec::new() } else { labels.collect() };
        self.answers.push(labels.into_iter().chain(text).collect());
        (self.cursor, self.chosen, self.text) = (0, BTreeSet::new(), None);
        if self.question().is_some() {
            return Taken::Yes;
        }
        Taken::Answered(Effect::Question(self.request.id.clone(), self.answers.clone()))
    }

    fn dismiss(&self, key: KeyEvent) -> Taken {
        match key.code {
            KeyCode::Esc => Taken::Answered(Effect::Dismiss(self.request.id.clone())),
            _ => Taken::No,
        }
    }
}

/// Takes a key into a line that is written.
fn write(input: &mut Input, key: KeyEvent) -> Taken {
    if super::keys::edit(input, key) { Taken::Yes } else { Taken::No }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::samples::permission;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn permission_ask() -> PermissionAsk {
        match permission("per_1", "ses_1", json!({})) {
            protocol::Event::PermissionAsked(request) => PermissionAsk::new(request),
            other => panic!("{other:?}"),
        }
    }

    fn question_ask(questions: serde_json::Value) -> QuestionAsk {
        let request = json!({ "id": "que_1", "sessionID": "ses_1", "questions": questions });
        QuestionAsk::new(Arc::new(serde_json::from_value(request).expect("a request")))
    }

    fn reply(taken: Taken) -> ReplyBody {
        match taken {
            Taken::Answered(Effect::Permission(_, body)) => body,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_permission_is_allowed_once_by_enter_and_for_the_project_by_its_key() {
        let body = reply(permission_ask().key(key(KeyCode::Enter)));
        assert_eq!(body, ReplyBody { reply: Reply::Once, message: None, scope: None });
        let body = reply(permission_ask().key(key(KeyCode::Char('p'))));
        assert_eq!(body, ReplyBody { reply: Reply::Always, message: None, scope: Some(Scope::Project) });
        let mut ask = permission_ask();
        ask.key(key(KeyCode::Right));
        assert_eq!(reply(ask.key(key(KeyCode::Enter))).scope, Some(Scope::Session));
    }

    #[test]
    fn a_rejection_may_carry_a_word() {
        let mut ask = permission_ask();
        assert_eq!(ask.key(key(KeyCode::Char('n'))), Taken::Yes);
        ask.key(key(KeyCode::Char('y')));
        let body = reply(ask.key(key(KeyCode::Enter)));
        assert_eq!(body, ReplyBody { reply: Reply::Reject, message: Some("y".into()), scope: None });
    }

    #[test]
    fn questions_are_answered_one_after_the_other() {
        let option = |label: &str| json!({ "label": label, "description": "" });
        let mut ask = question_ask(json!([
            { "question": "which", "header": "w", "options": [option("a"), option("b")] },
            { "question": "more", "header": "m", "multiple": true, "options": [option("c"), option("d"), option("e")] },
            { "question": "free", "header": "f", "options": [] },
        ]));
        ask.key(key(KeyCode::Down));
        assert_eq!(ask.key(key(KeyCode::Enter)), Taken::Yes);
        assert_eq!(ask.place(), (2, 3));
        for code in [KeyCode::Char(' '), KeyCode::Down, KeyCode::Down, KeyCode::Char(' ')] {
            ask.key(key(code));
        }
        assert_eq!(ask.key(key(KeyCode::Enter)), Taken::Yes);
        ask.key(key(KeyCode::Enter));
        ask.key(key(KeyCode::Char('x')));
        let Taken::Answered(Effect::Question(_, answers)) = ask.key(key(KeyCode::Enter)) else {
            panic!("not answered")
        };
        assert_eq!(answers, [vec!["b"], vec!["c", "e"], vec!["x"]]);
    }

    #[test]
    fn escape_leaves_a_question_unanswered() {
        let mut ask = question_ask(json!([{ "question": "which", "header": "w", "options": [] }]));
        assert!(matches!(ask.key(key(KeyCode::Esc)), Taken::Answered(Effect::Dismiss(_))));
    }
}
