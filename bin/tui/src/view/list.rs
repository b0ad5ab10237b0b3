//! A list to choose from, and the help, over the rest of the screen.

use protocol::SessionId;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::over;
use super::wrap::{columns, cut};
use crate::app::App;
use crate::app::picker::{Item, Picker, Subject};

/// What keys do, in the order they are shown.
const KEYS: [(&str, &str); 17] = [
    ("Enter", "send"),
    ("Alt-Enter, Ctrl-J", "a new line (Shift-Enter where the terminal tells it)"),
    ("Up, Down", "what was sent before"),
    ("Tab, Shift-Tab", "the next agent, the one before"),
    ("PgUp, PgDn", "scroll; with Shift-Up and Shift-Down by lines"),
    ("Home, End", "to the beginning, to the end (on an empty line)"),
    ("Esc Esc", "stop the turn"),
    ("Ctrl-L", "list sessions"),
    ("Ctrl-C", "clear the line; on an empty one: leave"),
    ("!command", "run a shell command"),
    ("/new", "start a new session"),
    ("/sessions", "show another session"),
    ("/agent, /model", "choose who answers"),
    ("/rename TITLE", "give this session another title"),
    ("/quit", "leave"),
    ("y a p n", "a request: once, always here, always in the project, no"),
    ("1-9, Space", "a question: choose, mark"),
];

/// Draws a list.
pub fn draw(frame: &mut Frame<'_>, picker: &Picker, app: &App, area: Rect, now_ms: u64) {
    let title = match picker.subject {
        Subject::Sessions => "Sessions",
        Subject::Models => "Models",
        Subject::Agents => "Agents",
    };
    let shown = picker.shown();
    let wanted = u16::try_from(shown.len().max(1)).unwrap_or(u16::MAX).saturating_add(4);
    let height = wanted.clamp(6, (area.height * 3 / 4).max(6)).min(area.height);
    let width = area.width.saturating_sub(4).clamp(16, 90);
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 3, width, height };
    let inner = over(frame, title.to_owned(), place);
    let [filter, _, list] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(1), Constraint::Min(1)]).areas(inner);
    let text = picker.filter.text();
    let typed = if text.is_empty() { Span::styled("type to narrow", Style::new().dim()) } else { Span::raw(text) };
    frame.render_widget(
        Paragraph::new(Line::from(vec![Span::styled("> ", Style::new().fg(Color::Cyan)), typed])),
        filter,
    );
    let column = columns(&[(picker.filter.before().to_owned(), Style::new())]) + 2;
    let x = filter.x.saturating_add(u16::try_from(column).unwrap_or(0)).min(filter.right().saturating_sub(1));
    frame.set_cursor_position(Position { x, y: filter.y });

    let height = usize::from(list.height);
    let top = (picker.cursor + 1).saturating_sub(height);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (row, item) in shown.iter().enumerate().skip(top).take(height) {
        lines.push(line(item, row == picker.cursor, app, usize::from(list.width), now_ms));
    }
    if lines.is_empty() {
        let text = if picker.items.is_none() { "looking…" } else { "nothing" };
        lines.push(Line::styled(text, Style::new().dim()));
    }
    frame.render_widget(Paragraph::new(lines), list);
}

fn line<'a>(item: &Item, is_under_cursor: bool, app: &App, width: usize, now_ms: u64) -> Line<'a> {
    let id = SessionId::parse(&item.id).ok();
    let waits = id.as_ref().is_some_and(|id| app.asks.iter().any(|ask| ask.session() == id));
    let mark = match id.as_ref().map(|id| app.statuses.contains_key(id)) {
        _ if waits => "? ",
        Some(true) => "● ",
        Some(false) => "  ",
        None => "",
    };
    let detail = match item.time {
        Some(time) => age(now_ms, time),
        None => item.detail.clone(),
    };
    let detail = cut(&detail, width / 2);
    let room = width.saturating_sub(columns(&[(format!("{mark}{detail}"), Style::new())]) + 1);
    let label = cut(&item.label, room);
    let gap = " ".repeat(room.saturating_sub(columns(&[(label.clone(), Style::new())])) + 1);
    let style = if is_under_cursor { Style::new().reversed() } else { Style::new() };
    Line::from(vec![
        Span::styled(mark, style.fg(Color::Yellow)),
        Span::styled(label, style),
        Span::styled(gap, style),
        Span::styled(detail, style.dim()),
    ])
}

/// Returns how long ago something was.
fn age(now_ms: u64, then_ms: u64) -> String {
    let minutes = now_ms.saturating_sub(then_ms) / 60_000;
    match minutes {
        0 => "now".to_owned(),
        1..60 => format!("{minutes} min"),
        60..1440 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1440),
    }
}

/// Draws what keys do.
pub fn help(frame: &mut Frame<'_>, area: Rect) {
    let height = (u16::try_from(KEYS.len()).unwrap_or(0) + 4).min(area.height);
    let width = area.width.saturating_sub(4).clamp(16, 80);
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 3, width, height };
    let inner = over(frame, "Keys".to_owned(), place);
    let mut lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(keys, what)| {
            Line::from(vec![Span::styled(format!("{keys:<18}"), Style::new().fg(Color::Cyan)), Span::raw(*what)])
        })
        .collect();
    lines.push(Line::default());
    lines.push(Line::styled("any key goes back", Style::new().dim()));
    frame.render_widget(Paragraph::new(lines), inner);
}
