//! Markdown as lines of a terminal: what models write, also while they are still writing it.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Color, Style};
use ratatui::text::Line;

use super::wrap::{Break, Run, columns, wrap};

/// Returns the lines of a text, at most `width` columns each.
pub fn lines(text: &str, width: usize, base: Style) -> Vec<Line<'static>> {
    let text = client::describe::clean(text).replace('\t', "    ");
    let mut page = Page::new(width, base);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(&text, options).for_each(|event| page.event(event));
    page.finish()
}

/// The lines so far, and what is open.
struct Page {
    width: usize,
    base: Style,
    lines: Vec<Line<'static>>,
    /// The text of the block that is open.
    runs: Vec<Run>,
    styles: Vec<Style>,
    /// One for each list that is open: the next number, or none where it has bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// The mark of an item whose text hasn't begun.
    mark: Option<String>,
    code: Option<String>,
    table: Option<Vec<Vec<String>>>,
    /// A blank line is due before the next block.
    is_gap_due: bool,
}

impl Page {
    fn new(width: usize, base: Style) -> Self {
        Self {
            width,
            base,
            lines: Vec::new(),
            runs: Vec::new(),
            styles: Vec::new(),
            lists: Vec::new(),
            quotes: 0,
            mark: None,
            code: None,
            table: None,
            is_gap_due: false,
        }
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.flush();
        self.lines
    }

    fn style(&self) -> Style {
        self.styles.iter().fold(self.base, |style, added| style.patch(*added))
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match (&mut self.code, &mut self.table) {
                (Some(code), _) => code.push_str(&text),
                (None, Some(table)) => push_cell(table, &text),
                (None, None) => self.push(&text, self.style()),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => match &mut self.table {
                Some(table) => push_cell(table, &text),
                None => self.push(&text, self.style().fg(Color::Cyan)),
            },
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, self.style()),
            // Where models end a line they mean it.
            Event::SoftBreak | Event::HardBreak => self.push("\n", self.base),
            Event::Rule => {
                self.gap();
                self.lines.push(Line::styled("─".repeat(self.width.min(40)), self.base.dim()));
                self.is_gap_due = true;
            }
            Event::TaskListMarker(is_done) => self.push(if is_done { "[x] " } else { "[ ] " }, self.base),
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), self.style()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                let style = Style::default().bold();
                self.styles.push(if level == HeadingLevel::H1 { style.underlined() } else { style });
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                self.code = Some(String::new());
                if let CodeBlockKind::Fenced(name) = kind
                    && !name.is_empty()
                {
                    self.gap();
                    let line =
                        wrap(&[(name.to_string(), self.base.dim())], self.width, &self.indent(), &[], Break::Anywhere);
                    self.lines.extend(line);
                    self.is_gap_due = false;
                }
            }
            Tag::List(first) => {
                self.flush();
                // A list within an item follows it closely.
                self.is_gap_due &= self.lists.is_empty();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.mark = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                });
            }
            Tag::Table(_) => {
                self.flush();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.push(Vec::new());
                }
            }
            Tag::TableCell => {
                if let Some(row) = self.table.as_mut().and_then(|table| table.last_mut()) {
                    row.push(String::new());
                }
            }
            Tag::Emphasis => self.styles.push(Style::default().italic()),
            Tag::Strong => self.styles.push(Style::default().bold()),
            Tag::Strikethrough => self.styles.push(Style::default().crossed_out()),
            Tag::Link { .. } | Tag::Image { .. } => self.styles.push(Style::default().underlined()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => {
                self.flush();
                self.is_gap_due = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.is_gap_due = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::CodeBlock => self.code_block(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                self.is_gap_due = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.mark = None;
                self.is_gap_due = false;
            }
            TagEnd::Table => self.table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
            }
            _ => {}
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        self.runs.push((text.to_owned(), style));
    }

    fn indent(&self) -> Vec<Run> {
        let depth = self.lists.len().saturating_sub(1);
        let mut indent = vec![("│ ".repeat(self.quotes), self.base.dim()), ("  ".repeat(depth), self.base)];
        indent.retain(|(text, _)| !text.is_empty());
        indent
    }

    fn gap(&mut self) {
        if self.is_gap_due && !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.is_gap_due = false;
    }

    /// Writes the block that is open.
    fn flush(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        self.gap();
        let runs = std::mem::take(&mut self.runs);
        let mut first = self.indent();
        let mut rest = first.clone();
        if !self.lists.is_empty() {
            let mark = self.mark.take().unwrap_or_else(|| "  ".to_owned());
            rest.push((" ".repeat(columns(&[(mark.clone(), self.base)])), self.base));
            first.push((mark, self.base.dim()));
        }
        self.lines.extend(wrap(&runs, self.width, &first, &rest, Break::Words));
    }

    fn code_block(&mut self) {
        let Some(code) = self.code.take() else { return };
        self.gap();
        let mut indent = self.indent();
        indent.push(("  ".to_owned(), self.base));
        let runs = [(code.trim_end_matches('\n').to_owned(), self.base.fg(Color::Cyan))];
        self.lines.extend(wrap(&runs, self.width, &indent, &indent, Break::Anywhere));
        self.is_gap_due = true;
    }

    fn table(&mut self) {
        let Some(rows) = self.table.take() else { return };
        self.gap();
        let width_of = |text: &str| columns(&[(text.to_owned(), self.base)]);
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width_of(cell)).max();
        let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0)).collect();
        for (number, row) in rows.iter().enumerate() {
            let cells: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| {
                    let cell = row.get(column).map(String::as_str).unwrap_or_default();
                    format!("{cell}{}", " ".repeat(width.saturating_sub(width_of(cell))))
                })
                .collect();
            let style = if number == 0 { self.base.bold() } else { self.base };
            let run = (cells.join(" │ ").trim_end().to_owned(), style);
            self.lines.extend(wrap(&[run], self.width, &self.indent(), &self.indent(), Break::Words));
        }
        self.is_gap_due = true;
    }
}

fn push_cell(table: &mut [Vec<String>], text: &str) {
    if let Some(cell) = table.last_mut().and_then(|row| row.last_mut()) {
        cell.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn text(markdown: &str, width: usize) -> Vec<String> {
        let lines = lines(markdown, width, Style::default());
        lines.iter().map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect()).collect()
    }

    #[test]
    fn blocks_stand_apart_and_lists_hang_together() {
        let markdown = "# Title\nA *word* and `code`\nnext line\n\n- one\n- two that is\n  long\n  1. deep\n\nlast";
        let expected = [
            "Title",
            "",
            "A word and code",
            "next line",
            "",
            "• one",
            "• two that is",
            "  long",
            "  1. deep",
            "",
            "last",
        ];
        assert_eq!(text(markdown, 40), expected);
    }

    #[test]
    fn code_is_kept_as_it_is_also_when_the_fence_is_still_open() {
        assert_eq!(text("x\n```rust\nfn  a() {\n\tb\n", 40), ["x", "", "rust", "  fn  a() {", "      b"]);
    }

    #[test]
    fn tables_have_columns() {
        assert_eq!(text("| a | bb |\n|---|---|\n| ccc | d |\n", 40), ["a   │ bb", "ccc │ d"]);
    }

    #[test]
    fn quotes_are_marked_on_each_line() {
        assert_eq!(text("> one two three", 9), ["│ one two", "│ three"]);
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(text("a\u{1b}[31mb <b>x</b>", 40), ["a[31mb <b>x</b>"]);
    }
}
