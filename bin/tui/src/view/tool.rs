//! A tool call as lines: how far it is, what it does, and what a person wants to see of its result.

use protocol::part::{ToolPart, ToolState};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use serde_json::Value;

use super::wrap::{Break, Run, wrap};

/// Most lines of a command's output.
const OUTPUT: usize = 6;
/// Most lines of a diff.
const DIFF: usize = 16;

/// Returns the lines of a call.
pub fn lines(call: &ToolPart, width: usize) -> Vec<Line<'static>> {
    let (mark, style) = match &call.state {
        ToolState::Pending { .. } => ("·", Style::new().fg(Color::Yellow)),
        ToolState::Running { .. } => ("▸", Style::new().fg(Color::Yellow)),
        ToolState::Completed { .. } => ("✓", Style::new().fg(Color::Green)),
        ToolState::Error { .. } => ("✗", Style::new().fg(Color::Red)),
    };
    let first = [(format!("{mark} "), style)];
    let rest = [("  ".to_owned(), style)];
    let what = [(client::describe::tool(call), Style::new())];
    let mut lines = wrap(&what, width, &first, &rest, Break::Words);
    lines.extend(result(call, width));
    lines
}

fn result(call: &ToolPart, width: usize) -> Vec<Line<'static>> {
    match &call.state {
        ToolState::Error { error, .. } => {
            let run = (client::describe::line(error), Style::new().fg(Color::Red).dim());
            wrap(&[run], width, &indent(), &indent(), Break::Words)
        }
        ToolState::Running { metadata: Some(metadata), .. } => match call.tool.as_str() {
            "bash" => output(metadata.get("output"), width),
            _ => Vec::new(),
        },
        ToolState::Completed { metadata, input, .. } => match call.tool.as_str() {
            "bash" => output(metadata.get("output"), width),
            "edit" | "write" | "apply_patch" => {
                let diff = metadata.get("diff").and_then(Value::as_str).unwrap_or_default();
                self::diff(diff, width, DIFF)
            }
            "todowrite" => todos(input, width),
            "question" => answers(metadata.get("answers"), width),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn indent() -> [Run; 1] {
    [("    ".to_owned(), Style::new())]
}

/// The last lines: what is new in them is at the end.
fn output(text: Option<&Value>, width: usize) -> Vec<Line<'static>> {
    let text = client::describe::clean(text.and_then(Value::as_str).unwrap_or_default()).replace('\t', "    ");
    let text = text.trim_end();
    if text.is_empty() {
        return Vec::new();
    }
    let style = Style::new().dim();
    let count = text.lines().count();
    let mut lines = Vec::new();
    if count > OUTPUT {
        let more = [(format!("… {} more lines", count - OUTPUT), style)];
        lines.extend(wrap(&more, width, &indent(), &indent(), Break::Words));
    }
    for line in text.lines().skip(count.saturating_sub(OUTPUT)) {
        let line = super::wrap::cut(line, width.saturating_sub(4));
        lines.extend(wrap(&[(line, style)], width, &indent(), &indent(), Break::Anywhere));
    }
    lines
}

/// Returns the changed lines of a unified diff, with their surroundings; at most `most`.
pub fn diff(text: &str, width: usize, most: usize) -> Vec<Line<'static>> {
    let text = client::describe::clean(text).replace('\t', "    ");
    let is_head =
        |line: &&str| ["Index: ", "====", "--- ", "+++ ", "\\ No newline"].iter().any(|head| line.starts_with(head));
    let rows: Vec<&str> = text.lines().filter(|line| !is_head(line)).collect();
    let mut lines = Vec::new();
    for row in rows.iter().take(most) {
        let style = match row.chars().next() {
            Some('+') => Style::new().fg(Color::Green),
            Some('-') => Style::new().fg(Color::Red),
            Some('@') => Style::new().fg(Color::Cyan).dim(),
            _ => Style::new().dim(),
        };
        let row = super::wrap::cut(row, width.saturating_sub(4));
        lines.extend(wrap(&[(row, style)], width, &indent(), &indent(), Break::Anywhere));
    }
    if rows.len() > most {
        let more = [(format!("… {} more lines", rows.len() - most), Style::new().dim())];
        lines.extend(wrap(&more, width, &indent(), &indent(), Break::Words));
    }
    lines
}

fn todos(input: &Value, width: usize) -> Vec<Line<'static>> {
    let todos = input.get("todos").and_then(Value::as_array);
    let line = |todo: &Value| {
        let content = client::describe::line(todo.get("content").and_then(Value::as_str).unwrap_or_default());
        let (mark, style) = match todo.get("status").and_then(Value::as_str) {
            Some("completed") => ("[x] ", Style::new().dim()),
            Some("in_progress") => ("[•] ", Style::new().fg(Color::Yellow)),
            Some("cancelled") => ("[-] ", Style::new().dim().crossed_out()),
            _ => ("[ ] ", Style::new()),
        };
        let first = [("    ".to_owned(), Style::new()), (mark.to_owned(), style)];
        wrap(&[(content, style)], width, &first, &[("        ".to_owned(), style)], Break::Words)
    };
    todos.into_iter().flatten().flat_map(line).collect()
}

fn answers(answers: Option<&Value>, width: usize) -> Vec<Line<'static>> {
    let answers = answers.and_then(Value::as_array).into_iter().flatten();
    let line = |answer: &Value| {
        let words: Vec<&str> = answer.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let run = (client::describe::line(&format!("→ {}", words.join(", "))), Style::new().dim());
        wrap(&[run], width, &indent(), &indent(), Break::Words)
    };
    answers.flat_map(line).collect()
}
