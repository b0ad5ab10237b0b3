//! Keys.

use crossterm::event::{Event as Terminal, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::ask::Taken;
use super::picker::Picked;
use super::{App, Armed};
use crate::effect::Effect;
use crate::input::Input;

/// Takes a key into a text that is written. Returns whether it was one for that.
pub fn edit(input: &mut Input, key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    let is_alt = key.modifiers.contains(KeyModifiers::ALT);
    match key.code {
        KeyCode::Char('a') if is_control => input.home(),
        KeyCode::Char('e') if is_control => input.end(),
        KeyCode::Char('b') if is_control => input.left(),
        KeyCode::Char('f') if is_control => input.right(),
        KeyCode::Char('k') if is_control => input.delete_to_end(),
        KeyCode::Char('u') if is_control => input.delete_to_start(),
        KeyCode::Char('w' | 'h') if is_control => input.delete_word(),
        KeyCode::Char('b') if is_alt => input.word_before(),
        KeyCode::Char('f') if is_alt => input.word_behind(),
        KeyCode::Char(_) if is_control || is_alt => return false,
        KeyCode::Char(character) => input.insert(character.encode_utf8(&mut [0; 4])),
        KeyCode::Backspace if is_control || is_alt => input.delete_word(),
        KeyCode::Backspace => input.backspace(),
        KeyCode::Delete => input.delete(),
        KeyCode::Left if is_control || is_alt => input.word_before(),
        KeyCode::Right if is_control || is_alt => input.word_behind(),
        KeyCode::Left => input.left(),
        KeyCode::Right => input.right(),
        KeyCode::Home => input.home(),
        KeyCode::End => input.end(),
        _ => return false,
    }
    true
}

impl App {
    /// Takes what came from the terminal.
    pub fn terminal(&mut self, event: &Terminal) {
        match event {
            Terminal::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            Terminal::Paste(text) => self.paste(text),
            Terminal::Resize(..) => self.is_dirty = true,
            _ => {}
        }
    }

    fn paste(&mut self, text: &str) {
        let at = self.ask_index();
        let asked = at.and_then(|at| self.asks.get_mut(at)).and_then(|ask| ask.input());
        match (&mut self.picker, asked) {
            (Some(picker), _) => picker.filter.insert(text),
            (None, Some(input)) => input.insert(text),
            (None, None) => self.input.insert(text),
        }
        self.is_dirty = true;
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) {
        self.is_dirty = true;
        let armed = self.armed.take();
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        self.notice = None;
        if std::mem::take(&mut self.shows_help) {
            return;
        }
        match key.code {
            KeyCode::Char('c') if is_control => return self.interrupt(armed),
            KeyCode::Char('d') if is_control && self.input.is_empty() => return self.quit(armed),
            KeyCode::Char('l') if is_control => return self.pick_session(),
            _ => {}
        }
        if let Some(picker) = &mut self.picker {
            match picker.key(key) {
                Picked::Open => {}
                Picked::Closed => self.picker = None,
                Picked::Chosen(id) => {
                    let subject = picker.subject;
                    self.picker = None;
                    self.choose(subject, &id);
                }
            }
            return;
        }
        // What is being written goes on being written when a request pops up under the fingers.
        let at = self.ask_index().filter(|_| self.input.is_empty());
        if let Some(ask) = at.and_then(|at| self.asks.get_mut(at)) {
            match ask.key(key) {
                Taken::No => {}
                Taken::Yes => return,
                Taken::Answered(effect) => {
                    // Gone at once: a second key must not answer the next one unseen.
                    let id = ask.id().to_owned();
                    self.settled(&id);
                    return self.do_later(effect);
                }
            }
        }
        self.write(key, armed);
    }

    fn write(&mut self, key: KeyEvent, armed: Option<Armed>) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let breaks = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Esc => self.escape(armed),
            KeyCode::Enter if breaks => self.input.insert("\n"),
            KeyCode::Char('j') if is_control => self.input.insert("\n"),
            KeyCode::Enter => self.submit(),
            KeyCode::Tab if !self.completions().is_empty() => self.complete(),
            KeyCode::Tab => self.cycle_agent(true),
            KeyCode::BackTab => self.cycle_agent(false),
            KeyCode::Up if is_control || key.modifiers.contains(KeyModifiers::SHIFT) => self.scroll(-1),
            KeyCode::Down if is_control || key.modifiers.contains(KeyModifiers::SHIFT) => self.scroll(1),
            KeyCode::Up => self.input.up(),
            KeyCode::Down => self.input.down(),
            KeyCode::PageUp => self.scroll(-self.page()),
            KeyCode::PageDown => self.scroll(self.page()),
            KeyCode::Home if self.input.is_empty() => self.top = Some(0),
            KeyCode::End if self.input.is_empty() => self.top = None,
            _ => {
                edit(&mut self.input, key);
            }
        }
    }

    fn complete(&mut self) {
        if let Some((name, _)) = self.completions().first() {
            self.input.set(format!("/{name} "));
        }
    }

    fn escape(&mut self, armed: Option<Armed>) {
        let Some(session) = self.session.as_ref().filter(|_| self.is_busy()) else { return };
        match armed {
            Some(Armed::Stop) => {
                let id = session.id.clone();
                self.do_later(Effect::Abort(id));
            }
            _ => self.armed = Some(Armed::Stop),
        }
    }

    fn interrupt(&mut self, armed: Option<Armed>) {
        if self.picker.take().is_some() {
            return;
        }
        if !self.input.is_empty() {
            return self.input.clear();
        }
        self.quit(armed);
    }

    fn quit(&mut self, armed: Option<Armed>) {
        match armed {
            Some(Armed::Quit) => self.do_later(Effect::Quit),
            _ if self.is_busy() => self.armed = Some(Armed::Quit),
            _ => self.do_later(Effect::Quit),
        }
    }

    fn page(&self) -> isize {
        isize::try_from(self.viewport.get().height.saturating_sub(2).max(1)).unwrap_or(1)
    }

    fn scroll(&mut self, lines: isize) {
        let viewport = self.viewport.get();
        let last = viewport.lines.saturating_sub(viewport.height);
        let top = self.top.unwrap_or(last).min(last).saturating_add_signed(lines);
        self.top = (top < last).then_some(top);
    }
}
