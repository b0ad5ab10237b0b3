//! The line a person writes on: several lines of text, a cursor, and what was written before.

use unicode_segmentation::UnicodeSegmentation;

/// Most entries of the history.
const HISTORY: usize = 200;

/// Text, a cursor in it, and what was sent before.
#[derive(Clone, Debug, Default)]
pub struct Input {
    text: String,
    /// A byte index between two characters as people see them.
    cursor: usize,
    history: Vec<String>,
    /// Which entry of the history is shown, and what stood here before.
    recalled: Option<(usize, String)>,
}

impl Input {
    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what is before the cursor.
    pub fn before(&self) -> &str {
        self.text.get(..self.cursor).unwrap_or_default()
    }

    /// Returns what is behind the cursor.
    pub fn behind(&self) -> &str {
        self.text.get(self.cursor..).unwrap_or_default()
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces all; the cursor goes to the end.
    pub fn set(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.cursor = self.text.len();
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.set("");
        self.recalled = None;
    }

    /// Takes all out and keeps it in the history.
    pub fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.clear();
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
            let surplus = self.history.len().saturating_sub(HISTORY);
            self.history.drain(..surplus);
        }
        text
    }

    /// Writes at the cursor. Line ends become `\n`; other control characters are left out.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ");
        let text: String = text.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    /// Takes out the character before the cursor.
    pub fn backspace(&mut self) {
        let to = self.left_of(self.cursor);
        self.cut(to, self.cursor);
    }

    /// Takes out the character behind the cursor.
    pub fn delete(&mut self) {
        let to = self.right_of(self.cursor);
        self.cut(self.cursor, to);
    }

    /// Takes out the word before the cursor.
    pub fn delete_word(&mut self) {
        let to = self.word_left();
        self.cut(to, self.cursor);
    }

    /// Takes out the line up to the cursor.
    pub fn delete_to_start(&mut self) {
        self.cut(self.line_start(), self.cursor);
    }

    /// Takes out the line from the cursor on, or, at its end, the line's end.
    pub fn delete_to_end(&mut self) {
        let end = self.line_end();
        let end = if end == self.cursor { self.right_of(end) } else { end };
        self.cut(self.cursor, end);
    }

    /// Goes one character to the left.
    pub fn left(&mut self) {
        self.cursor = self.left_of(self.cursor);
    }

    /// Goes one character to the right.
    pub fn right(&mut self) {
        self.cursor = self.right_of(self.cursor);
    }

    /// Goes to the beginning of the word before the cursor.
    pub fn word_before(&mut self) {
        self.cursor = self.word_left();
    }

    /// Goes to the end of the word behind the cursor.
    pub fn word_behind(&mut self) {
        let behind = self.behind();
        let mut ends = behind.unicode_word_indices().map(|(at, word)| at + word.len());
        self.cursor += ends.next().unwrap_or(behind.len());
    }

    /// Goes to the beginning of the line.
    pub fn home(&mut self) {
        self.cursor = self.line_start();
    }

    /// Goes to the end of the line.
    pub fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// Goes up one line; on the first, to what was sent before.
    pub fn up(&mut self) {
        let start = self.line_start();
        match start.checked_sub(1) {
            None => self.recall_older(),
            Some(end) => {
                let above = self.text.get(..end).unwrap_or_default();
                let above = above.rfind('\n').map_or(0, |at| at + 1);
                self.cursor = self.column_in(above, end);
            }
        }
    }

    /// Goes down one line; on the last, to what was sent later.
    pub fn down(&mut self) {
        let end = self.line_end();
        if end == self.text.len() {
            return self.recall_newer();
        }
        let below = end + 1;
        let rest = self.text.get(below..).unwrap_or_default();
        let stop = rest.find('\n').map_or(self.text.len(), |at| below + at);
        self.cursor = self.column_in(below, stop);
    }

    fn recall_older(&mut self) {
        let (at, draft) = match self.recalled.take() {
            Some((at, draft)) => (at.saturating_sub(1), draft),
            None if self.history.is_empty() => return,
            None => (self.history.len() - 1, self.text.clone()),
        };
        if let Some(entry) = self.history.get(at).cloned() {
            self.set(entry);
        }
        self.recalled = Some((at, draft));
    }

    fn recall_newer(&mut self) {
        let Some((at, draft)) = self.recalled.take() else { return };
        match self.history.get(at + 1).cloned() {
            Some(entry) => {
                self.set(entry);
                self.recalled = Some((at + 1, draft));
            }
            None => self.set(draft),
        }
    }

    /// Returns the place in the line `start..end` as far from its beginning as the cursor is from that of its own.
    fn column_in(&self, start: usize, end: usize) -> usize {
        let own = self.text.get(self.line_start()..self.cursor).unwrap_or_default();
        let column = own.graphemes(true).count();
        let line = self.text.get(start..end).unwrap_or_default();
        line.grapheme_indices(true).nth(column).map_or(end, |(at, _)| start + at)
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.behind().find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn left_of(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        before.grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn right_of(&self, at: usize) -> usize {
        let behind = self.text.get(at..).unwrap_or_default();
        at + behind.graphemes(true).next().map_or(0, str::len)
    }

    fn word_left(&self) -> usize {
        self.before().unicode_word_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn cut(&mut self, from: usize, to: usize) {
        if self.text.get(from..to).is_some() {
            self.text.replace_range(from..to, "");
            self.cursor = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// An input whose text has its cursor at `|`.
    fn input(text: &str) -> Input {
        let (before, behind) = text.split_once('|').expect("a cursor");
        Input { text: format!("{before}{behind}"), cursor: before.len(), ..Input::default() }
    }

    fn after(text: &str, change: impl FnOnce(&mut Input)) -> String {
        let mut input = input(text);
        change(&mut input);
        format!("{}|{}", input.before(), input.behind())
    }

    #[test]
    fn the_cursor_moves_over_characters_as_people_see_them() {
        assert_eq!(after("e\u{301}👩‍👧|", Input::left), "e\u{301}|👩‍👧");
        assert_eq!(after("e\u{301}|", Input::backspace), "|");
        assert_eq!(after("|👩‍👧x", Input::delete), "|x");
        assert_eq!(after("|", Input::backspace), "|");
    }

    #[test]
    fn words_and_lines_are_cut_and_crossed() {
        assert_eq!(after("one two, three|", Input::delete_word), "one two, |");
        assert_eq!(after("one two|", Input::word_before), "one |two");
        assert_eq!(after("|one two", Input::word_behind), "one| two");
        assert_eq!(after("a\nb c|d", Input::delete_to_start), "a\n|d");
        assert_eq!(after("a|b\nc", Input::delete_to_end), "a|\nc");
        assert_eq!(after("a|\nc", Input::delete_to_end), "a|c");
        assert_eq!(after("abc\nd|", Input::up), "a|bc\nd");
        assert_eq!(after("abc|\nd\ne", Input::down), "abc\nd|\ne");
    }

    #[test]
    fn the_history_keeps_what_was_being_written() {
        let mut input = Input::default();
        for text in ["one", "two", "two"] {
            input.set(text);
            input.take();
        }
        input.set("draft");
        let mut seen = Vec::new();
        for step in [Input::up, Input::up, Input::up, Input::down, Input::down, Input::down] {
            step(&mut input);
            seen.push(input.text().to_owned());
        }
        assert_eq!(seen, ["two", "one", "one", "two", "draft", "draft"]);
    }

    #[test]
    fn pasted_text_keeps_its_lines_and_nothing_that_steers() {
        assert_eq!(after("|", |input| input.insert("a\r\nb\rc\u{1b}[2J")), "a\nb\nc[2J|");
    }
}
