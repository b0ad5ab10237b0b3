//! A list to choose from, narrowed by typing.

use crossterm::event::{KeyCode, KeyEvent};

use crate::app::keys;
use crate::input::Input;

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A session to show.
    Sessions,
    /// The model of the next prompts.
    Models,
    /// The agent of the next prompts.
    Agents,
}

/// One thing to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is chosen by.
    pub id: String,
    /// What a person reads.
    pub label: String,
    /// More of it.
    pub detail: String,
    /// When it was last used, in ms since the Unix epoch.
    pub time: Option<u64>,
}

/// A list to choose from.
#[derive(Clone, Debug)]
pub struct Picker {
    /// What is chosen.
    pub subject: Subject,
    /// All there is; none until it is read.
    pub items: Option<Vec<Item>>,
    /// What was typed.
    pub filter: Input,
    /// The line under the cursor, of those shown.
    pub cursor: usize,
}

/// What a key did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Nothing yet.
    Open,
    /// Nothing, and nothing will be.
    Closed,
    /// This.
    Chosen(String),
}

impl Picker {
    /// Returns a list.
    pub fn new(subject: Subject, items: Option<Vec<Item>>) -> Self {
        Self { subject, items, filter: Input::default(), cursor: 0 }
    }

    /// Returns the items that hold all the words typed.
    pub fn shown(&self) -> Vec<&Item> {
        let words: Vec<String> = self.filter.text().split_whitespace().map(str::to_lowercase).collect();
        let holds = |item: &&Item| {
            let text = format!("{} {} {}", item.label, item.detail, item.id).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        self.items.iter().flatten().filter(holds).collect()
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Picked {
        let count = self.shown().len();
        match key.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down => self.cursor = (self.cursor + 1).min(count.saturating_sub(1)),
            KeyCode::PageUp => self.cursor = self.cursor.saturating_sub(10),
            KeyCode::PageDown => self.cursor = (self.cursor + 10).min(count.saturating_sub(1)),
            KeyCode::Enter => {
                return self.shown().get(self.cursor).map_or(Picked::Open, |item| Picked::Chosen(item.id.clone()));
            }
            _ => {
                if keys::edit(&mut self.filter, key) {
                    self.cursor = 0;
                }
            }
        }
        Picked::Open
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyModifiers;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn typing_narrows_the_list_and_enter_takes_the_line() {
        let item = |id: &str| Item { id: id.into(), label: format!("Title {id}"), detail: String::new(), time: None };
        let mut picker = Picker::new(Subject::Sessions, Some(vec![item("one"), item("two"), item("twelve")]));
        let mut press = |code| picker.key(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(press(KeyCode::Char('T')), Picked::Open);
        assert_eq!(press(KeyCode::Char('w')), Picked::Open);
        assert_eq!(press(KeyCode::Down), Picked::Open);
        assert_eq!(press(KeyCode::Down), Picked::Open);
        assert_eq!(press(KeyCode::Enter), Picked::Chosen("twelve".into()));
        assert_eq!(press(KeyCode::Esc), Picked::Closed);
    }
}
