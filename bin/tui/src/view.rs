//! Draws the state. Decides nothing; what it finds out about sizes it notes for the keys that scroll.

use protocol::session::SessionStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph};

use crate::app::ask::Ask;
use crate::app::{App, Armed, Notice, Viewport};
use crate::input::Input;

mod ask;
mod list;
mod markdown;
mod tool;
mod transcript;
pub mod wrap;

use ask::Panel;
use transcript::Layouts;
use wrap::{Break, columns, cut};

/// Most lines of what is written that are seen at once.
const INPUT: usize = 8;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// What is kept from one drawing to the next.
#[derive(Debug, Default)]
pub struct View {
    layouts: Layouts,
}

impl View {
    /// Draws all.
    pub fn draw(&mut self, frame: &mut Frame<'_>, app: &App, now_ms: u64) {
        let area = frame.area();
        if area.width < 20 || area.height < 8 {
            return frame.render_widget(Paragraph::new("the terminal is too small"), area);
        }
        let width = usize::from(area.width);
        let panel = panel(app, width.saturating_sub(4));
        let written = rows(&app.input, width.saturating_sub(4));
        let most = usize::from(area.height / 2).max(5);
        let bottom = match &panel {
            Some(panel) => (panel.body.len() + panel.foot.len() + 2).min(most.max(panel.foot.len() + 3)),
            None => written.0.len().min(INPUT) + 2,
        };
        let completions = if panel.is_none() { app.completions() } else { Vec::new() };
        let hints = completions.len().min(6);
        let [head, body, list, box_area, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(u16::try_from(hints).unwrap_or(0)),
            Constraint::Length(u16::try_from(bottom).unwrap_or(5)),
            Constraint::Length(1),
        ])
        .areas(area);
        header(frame, app, head);
        if app.session.is_none() && app.conversation.entries().is_empty() {
            home(frame, app, body);
        } else {
            self.conversation(frame, app, body);
        }
        hint_list(frame, &completions, list);
        match panel {
            Some(panel) => draw_panel(frame, app, &panel, box_area),
            None => draw_input(frame, app, &written, box_area),
        }
        status(frame, app, foot, now_ms);
        if let Some(picker) = &app.picker {
            list::draw(frame, picker, app, area, now_ms);
        } else if app.shows_help {
            list::help(frame, area);
        }
    }

    fn conversation(&mut self, frame: &mut Frame<'_>, app: &App, area: Rect) {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let count = self.layouts.update(&app.conversation, width);
        app.viewport.set(Viewport { lines: count, height });
        let last = count.saturating_sub(height);
        let top = app.top.map_or(last, |top| top.min(last));
        let lines = self.layouts.lines(&app.conversation, top, height);
        frame.render_widget(Paragraph::new(lines), area);
        if top < last {
            let more = format!(" {} more lines ↓ ", last - top);
            let columns = u16::try_from(more.chars().count()).unwrap_or(0).min(area.width);
            let corner = Rect { x: area.right() - columns, y: area.bottom() - 1, width: columns, height: 1 };
            frame.render_widget(Paragraph::new(more).style(Style::new().reversed()), corner);
        }
    }
}

fn header(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let title = match &app.session {
        Some(session) => client::describe::line(&session.title),
        None => "new session".to_owned(),
    };
    let directory = app.session.as_ref().map_or(app.directory.as_str(), |session| session.directory.as_str());
    let width = usize::from(area.width);
    let title = cut(&title, width.saturating_sub(10) / 2);
    let room = width.saturating_sub(wrap::columns(&[(title.clone(), Style::new())]) + 10);
    let directory = tail(directory, room);
    let line = Line::from(vec![
        Span::styled(" troupe ", Style::new().reversed()),
        Span::raw(" "),
        Span::styled(title, Style::new().bold()),
        Span::styled(format!(" {directory}"), Style::new().dim()),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

/// The end of a path says more than its beginning.
fn tail(path: &str, width: usize) -> String {
    let count = path.chars().count();
    if count <= width {
        return path.to_owned();
    }
    let end: String = path.chars().skip(count.saturating_sub(width.saturating_sub(1))).collect();
    format!("…{end}")
}

fn home(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let key = |keys: &str, what: &str| {
        Line::from(vec![
            Span::styled(format!("  {keys:<12}"), Style::new().fg(Color::Cyan)),
            Span::styled(what.to_owned(), Style::new().dim()),
        ])
    };
    let lines = vec![
        Line::default(),
        Line::styled("  ▀█▀ █▀█ █▀█ █ █ █▀█ █▀▀", Style::new().fg(Color::Magenta).bold()),
        Line::styled("   █  █▀▄ █▄█ █▄█ █▀▀ ██▄", Style::new().fg(Color::Magenta).bold()),
        Line::default(),
        Line::from(vec![Span::raw("  Say what to do in "), Span::styled(app.directory.clone(), Style::new().bold())]),
        Line::default(),
        key("Enter", "sends it; Alt-Enter or Ctrl-J begins a new line"),
        key("!command", "runs a shell command"),
        key("/", "lists commands; /help says what keys do"),
        key("Tab", "takes the next agent"),
        key("Ctrl-L", "lists sessions"),
        key("Esc Esc", "stops a turn"),
        key("Ctrl-C", "leaves"),
    ];
    frame.render_widget(Paragraph::new(lines), area);
}

fn hint_list(frame: &mut Frame<'_>, completions: &[(String, String)], area: Rect) {
    let lines: Vec<Line<'_>> = completions
        .iter()
        .take(usize::from(area.height))
        .map(|(name, what)| {
            let name = Span::styled(format!("  /{name:<14} "), Style::new().fg(Color::Cyan));
            Line::from(vec![name, Span::styled(client::describe::line(what), Style::new().dim())])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn panel(app: &App, width: usize) -> Option<Panel> {
    match app.ask()? {
        Ask::Permission(ask) => {
            let is_subagents = app.session.as_ref().is_some_and(|session| session.id != ask.request.session_id);
            Some(ask::permission(ask, width, is_subagents))
        }
        Ask::Question(ask) => Some(ask::question(ask, width)),
    }
}

fn draw_panel(frame: &mut Frame<'_>, app: &App, panel: &Panel, area: Rect) {
    let colour = Style::new().fg(Color::Yellow);
    let mut block =
        Block::bordered().border_type(BorderType::Rounded).border_style(colour).padding(Padding::horizontal(1));
    block = block.title(Span::styled(format!(" {} ", panel.title), colour.bold()));
    if !app.input.is_empty() {
        block = block.title_bottom(" your line is kept; send or clear it to answer ");
    }
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let foot = u16::try_from(panel.foot.len()).unwrap_or(1).min(inner.height);
    let [body, foot] = Layout::vertical([Constraint::Min(0), Constraint::Length(foot)]).areas(inner);
    let hidden = panel.body.len().saturating_sub(usize::from(body.height));
    let scroll = match app.ask() {
        Some(Ask::Permission(ask)) => usize::from(ask.scroll).min(hidden),
        _ => 0,
    };
    let mut lines: Vec<Line<'_>> = panel.body.iter().skip(scroll).take(usize::from(body.height)).cloned().collect();
    if hidden > scroll
        && let Some(last) = lines.last_mut()
    {
        *last = Line::styled(format!("… {} more lines (PgDn, PgUp)", hidden - scroll + 1), Style::new().dim());
    }
    frame.render_widget(Paragraph::new(lines), body);
    frame.render_widget(Paragraph::new(panel.foot.clone()), foot);
    if let Some(column) = panel.cursor {
        let x = foot.x.saturating_add(u16::try_from(column).unwrap_or(u16::MAX)).min(foot.right().saturating_sub(1));
        frame.set_cursor_position(Position { x, y: foot.bottom().saturating_sub(1) });
    }
}

/// Returns the lines of what is written, and row and column of the cursor.
fn rows(input: &Input, width: usize) -> (Vec<Line<'static>>, (usize, usize)) {
    let width = width.max(1);
    let run = |text: &str| [(text.to_owned(), Style::new())];
    // A cursor behind the last column stands on the next line.
    let before = wrap::wrap(&run(input.before()), width, &[], &[], Break::Anywhere);
    let column = before.last().map_or(0, |line| columns(&run(&line.to_string())));
    let cursor = if column >= width { (before.len(), 0) } else { (before.len().saturating_sub(1), column) };
    let mut lines = wrap::wrap(&run(input.text()), width, &[], &[], Break::Anywhere);
    while lines.len() <= cursor.0 {
        lines.push(Line::default());
    }
    (lines, cursor)
}

fn draw_input(frame: &mut Frame<'_>, app: &App, written: &(Vec<Line<'static>>, (usize, usize)), area: Rect) {
    let is_shell = app.input.text().starts_with('!');
    let colour = if is_shell { Style::new().fg(Color::Yellow) } else { Style::new().fg(Color::Cyan) };
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(colour).padding(Padding::horizontal(1));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let (lines, (row, column)) = written;
    let height = usize::from(inner.height);
    let top = (row + 1).saturating_sub(height);
    if app.input.is_empty() {
        let text = if app.session.is_some() { "Say more" } else { "Say what to do" };
        frame.render_widget(Paragraph::new(text).style(Style::new().dim()), inner);
    } else {
        let lines: Vec<Line<'_>> = lines.iter().skip(top).take(height).cloned().collect();
        frame.render_widget(Paragraph::new(lines), inner);
    }
    if app.picker.is_none() {
        let x = inner.x.saturating_add(u16::try_from(*column).unwrap_or(0)).min(inner.right().saturating_sub(1));
        let y = inner.y.saturating_add(u16::try_from(row - top).unwrap_or(0)).min(inner.bottom().saturating_sub(1));
        frame.set_cursor_position(Position { x, y });
    }
}

fn status(frame: &mut Frame<'_>, app: &App, area: Rect, now_ms: u64) {
    let spinner = SPINNER.get(app.tick % SPINNER.len()).copied().unwrap_or("·");
    let model = app.model().map(|model| format!(" · {}/{}", model.provider_id, model.model_id)).unwrap_or_default();
    let mut left = vec![
        Span::styled(format!(" {}", client::describe::line(app.agent())), Style::new().fg(Color::Magenta).bold()),
        Span::styled(client::describe::line(&model).replacen('·', " ·", 1), Style::new().dim()),
    ];
    let activity = match (app.status(), app.is_creating) {
        _ if app.outage.is_some() => Some((format!("{spinner} no connection, trying again"), Color::Red)),
        (Some(SessionStatus::Retry { attempt, message, next }), _) => {
            let seconds = next.saturating_sub(now_ms).div_ceil(1000);
            let message = client::describe::line(message);
            Some((format!("{spinner} try {attempt} failed ({message}); again in {seconds} s"), Color::Yellow))
        }
        (Some(_), _) if app.ask().is_some() => Some(("waits for you".to_owned(), Color::Yellow)),
        (Some(_), _) => Some((format!("{spinner} working"), Color::Green)),
        (None, true) => Some((format!("{spinner} starting"), Color::Green)),
        (None, false) => None,
    };
    if let Some((text, colour)) = activity {
        left.push(Span::styled(format!("  {text}"), Style::new().fg(colour)));
    }
    let said = match (&app.armed, &app.notice) {
        (Some(Armed::Stop), _) => Some(("Esc again stops the turn".to_owned(), Color::Yellow)),
        (Some(Armed::Quit), _) => Some(("a turn runs; Ctrl-C again leaves".to_owned(), Color::Yellow)),
        (None, Some(Notice::Plain(text))) => Some((client::describe::line(text), Color::Cyan)),
        (None, Some(Notice::Error(text))) => Some((client::describe::line(text), Color::Red)),
        (None, None) => None,
    };
    if let Some((text, colour)) = said {
        left.push(Span::styled(format!("  {text}"), Style::new().fg(colour)));
    }
    let mut right = Vec::new();
    match app.others_waiting() {
        0 => {}
        1 => right.push("another session waits (Ctrl-L)".to_owned()),
        count => right.push(format!("{count} other sessions wait (Ctrl-L)")),
    }
    if let Some((tokens, share)) = app.usage() {
        let share = share.map(|share| format!(" ({share}%)")).unwrap_or_default();
        right.extend(client::describe::tokens(&tokens).map(|tokens| format!("{tokens}{share}")));
    }
    if let Some(cost) = app.session.as_ref().map(|session| session.cost).filter(|cost| *cost > 0.0) {
        right.push(format!("${cost:.2}"));
    }
    let right = format!("{} ", right.join(" · "));
    let columns = u16::try_from(right.chars().count()).unwrap_or(0).min(area.width / 2);
    let [left_area, right_area] = Layout::horizontal([Constraint::Min(1), Constraint::Length(columns)]).areas(area);
    frame.render_widget(Paragraph::new(Line::from(left)), left_area);
    frame.render_widget(Paragraph::new(right).style(Style::new().dim()), right_area);
}

/// Returns a block over what is below it.
fn over(frame: &mut Frame<'_>, title: String, area: Rect) -> Rect {
    frame.render_widget(Clear, area);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::Cyan))
        .padding(Padding::horizontal(1))
        .title(Span::styled(format!(" {title} "), Style::new().bold()));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

#[cfg(test)]
mod tests;
