//! What the person is asked, as a box in place of the line that is written on.

use protocol::PermissionRequest;
use protocol::permission::Scope;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::tool;
use super::wrap::{Break, Run, wrap};
use crate::app::ask::{CHOICES, Choice, PermissionAsk, QuestionAsk};
use crate::input::Input;

/// Most lines of a diff that are laid out.
const DIFF: usize = 400;

/// A box: its title, what is in it, and what stands at its foot whatever the height.
pub struct Panel {
    /// What it is about.
    pub title: String,
    /// May be cut, and scrolled.
    pub body: Vec<Line<'static>>,
    /// Never cut.
    pub foot: Vec<Line<'static>>,
    /// The column of the cursor in the last line of the foot, where something is written there.
    pub cursor: Option<usize>,
}

/// Returns the box of a permission.
pub fn permission(ask: &PermissionAsk, width: usize, is_subagents: bool) -> Panel {
    let request = &ask.request;
    let mut body = subject(request, width);
    let of = if is_subagents { " (a subagent asks)" } else { "" };
    let title = format!("Permission: {}{of}", client::describe::line(&request.permission));
    let (foot, cursor) = match &ask.feedback {
        Some(feedback) => written("Instead (Enter rejects, Esc goes back): ", feedback, width),
        None => (choices(ask, width), None),
    };
    if body.is_empty() {
        body.extend(plain(&request.patterns.join("\n"), width, Style::new()));
    }
    Panel { title, body, foot, cursor }
}

/// What it is asked for, as far as its metadata says more than its patterns.
fn subject(request: &PermissionRequest, width: usize) -> Vec<Line<'static>> {
    let field = |name: &str| request.metadata.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut lines = Vec::new();
    if let Some(command) = field("command") {
        let first: [Run; 1] = [("$ ".to_owned(), Style::new().dim())];
        let command = client::describe::clean(command);
        lines.extend(wrap(
            &[(command, Style::new().bold())],
            width,
            &first,
            &[("  ".to_owned(), Style::new())],
            Break::Words,
        ));
    }
    if let Some(path) = field("filepath").or(field("url")) {
        lines.extend(plain(&client::describe::line(path), width, Style::new().bold()));
    }
    if let Some(diff) = field("diff") {
        lines.extend(tool::diff(diff, width, DIFF));
    }
    let patterns = request.patterns.join(", ");
    let is_new = field("command").is_none_or(|command| command != patterns) && field("url") != Some(&patterns);
    if !lines.is_empty() && is_new && !patterns.is_empty() && field("diff").is_none() {
        lines.extend(plain(&format!("asks for: {}", client::describe::line(&patterns)), width, Style::new().dim()));
    }
    lines
}

fn choices(ask: &PermissionAsk, width: usize) -> Vec<Line<'static>> {
    let mut runs: Vec<Run> = Vec::new();
    for choice in CHOICES {
        let label = match choice {
            Choice::Once => " y once ",
            Choice::Session => " a always here ",
            Choice::Project => " p always in this project ",
            Choice::Reject => " n reject ",
        };
        let style = if choice == ask.choice { Style::new().reversed() } else { Style::new() };
        runs.push((label.to_owned(), style));
        runs.push((" ".to_owned(), Style::new()));
    }
    let mut lines = wrap(&runs, width, &[], &[], Break::Words);
    let scope = match ask.choice {
        Choice::Session => Some(Scope::Session),
        Choice::Project => Some(Scope::Project),
        _ => None,
    };
    if scope.is_some() {
        let always = if ask.request.always.is_empty() { &ask.request.patterns } else { &ask.request.always };
        let text = format!("would allow from now on: {}", client::describe::line(&always.join(", ")));
        lines.extend(plain(&text, width, Style::new().dim()));
    }
    lines
}

/// Returns the box of a question.
pub fn question(ask: &QuestionAsk, width: usize) -> Panel {
    let (at, count) = ask.place();
    let Some(question) = ask.question() else {
        return Panel { title: "Question".into(), body: Vec::new(), foot: Vec::new(), cursor: None };
    };
    let place = if count > 1 { format!(" ({at} of {count})") } else { String::new() };
    let title = format!("{}{place}", client::describe::line(&question.header));
    let mut body = plain(&client::describe::clean(&question.question), width, Style::new().bold());
    body.push(Line::default());
    let is_multiple = question.multiple == Some(true);
    for (row, option) in question.options.iter().enumerate() {
        let mark = match (is_multiple, ask.chosen.contains(&row)) {
            (true, true) => "[x] ",
            (true, false) => "[ ] ",
            (false, _) => "",
        };
        let style = if row == ask.cursor && ask.text.is_none() { Style::new().reversed() } else { Style::new() };
        let mut runs = vec![(format!("{mark}{}", client::describe::line(&option.label)), style)];
        if !option.description.is_empty() {
            runs.push((format!("  {}", client::describe::line(&option.description)), Style::new().dim()));
        }
        let first = [(format!("{}. ", row + 1), Style::new().dim())];
        body.extend(wrap(&runs, width, &first, &[("   ".to_owned(), Style::new())], Break::Words));
    }
    if question.custom != Some(false) || question.options.is_empty() {
        let row = question.options.len();
        let style = if row == ask.cursor && ask.text.is_none() { Style::new().reversed() } else { Style::new() };
        let number = Span::styled(format!("{}. ", row + 1), Style::new().dim());
        body.push(Line::from(vec![number, Span::styled("something else…", style)]));
    }
    let (foot, cursor) = match &ask.text {
        Some(text) => written("Your answer: ", text, width),
        None if is_multiple => {
            (plain("Space marks · Enter answers · Esc leaves it unanswered", width, Style::new().dim()), None)
        }
        None => (plain("Enter answers · Esc leaves it unanswered", width, Style::new().dim()), None),
    };
    Panel { title, body, foot, cursor }
}

/// A line that is written on; of a long text its end is seen.
fn written(label: &str, input: &Input, width: usize) -> (Vec<Line<'static>>, Option<usize>) {
    let room = width.saturating_sub(label.chars().count() + 1);
    let count = input.before().chars().count();
    let before: String = input.before().chars().skip(count.saturating_sub(room)).collect();
    let cursor = super::wrap::columns(&[(format!("{label}{before}"), Style::new())]);
    let text = super::wrap::cut(&format!("{before}{}", input.behind()), room.max(1));
    let line = Line::from(vec![Span::styled(label.to_owned(), Style::new().fg(Color::Yellow)), Span::raw(text)]);
    (vec![line], Some(cursor))
}

fn plain(text: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    wrap(&[(text.to_owned(), style)], width, &[], &[], Break::Words)
}
