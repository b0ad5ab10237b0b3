//! Messages as lines. What doesn't change is laid out once.

use std::collections::HashMap;

use protocol::message::{AssistantMessage, Message};
use protocol::{MessageId, Part, PartKind, SessionError};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::markdown;
use super::tool;
use super::wrap::{Break, Run, wrap};
use crate::conversation::{Conversation, Entry};

/// Lines of messages, by message, as long as neither it nor the width changes.
#[derive(Debug, Default)]
pub struct Layouts {
    width: usize,
    messages: HashMap<MessageId, (u64, Vec<Line<'static>>)>,
}

impl Layouts {
    /// Lays out what changed. Returns how many lines there are.
    pub fn update(&mut self, conversation: &Conversation, width: usize) -> usize {
        if self.width != width {
            self.messages.clear();
            self.width = width;
        }
        let mut old = std::mem::take(&mut self.messages);
        let mut count = usize::from(conversation.is_cut);
        for entry in conversation.entries() {
            let id = entry.info.id();
            let kept = old.remove(id).filter(|(version, _)| *version == entry.version);
            let layout = kept.unwrap_or_else(|| (entry.version, message(entry, width)));
            count += layout.1.len();
            self.messages.insert(id.clone(), layout);
        }
        count
    }

    /// Returns `height` lines from line `top` on.
    pub fn lines(&self, conversation: &Conversation, top: usize, height: usize) -> Vec<Line<'static>> {
        let earlier = conversation.is_cut.then(|| Line::styled("  earlier messages are not shown", Style::new().dim()));
        let messages = conversation.entries().iter().filter_map(|entry| self.messages.get(entry.info.id()));
        let lines = messages.flat_map(|(_, lines)| lines);
        earlier.iter().chain(lines).skip(top).take(height).cloned().collect()
    }
}

/// Returns the lines of a message, a blank one first.
fn message(entry: &Entry, width: usize) -> Vec<Line<'static>> {
    let mut lines = match &*entry.info {
        Message::User(_) => user(entry, width),
        Message::Assistant(answer) => assistant(entry, answer, width),
    };
    if !lines.is_empty() {
        lines.insert(0, Line::default());
    }
    lines
}

fn user(entry: &Entry, width: usize) -> Vec<Line<'static>> {
    let bar: Vec<Run> = vec![("┃ ".to_owned(), Style::new().fg(Color::Cyan))];
    let mut lines = Vec::new();
    for part in &entry.parts {
        let (text, style) = match &part.kind {
            PartKind::Text(text) if !text.synthetic && !text.ignored => {
                (client::describe::clean(text.text.trim_end()).replace('\t', "    "), Style::new().bold())
            }
            PartKind::File(file) => {
                let name = file.filename.clone().unwrap_or_else(|| file.url.chars().take(80).collect());
                (format!("[{}] {}", file.mime, client::describe::line(&name)), Style::new().dim())
            }
            PartKind::Agent(agent) => (format!("@{}", client::describe::line(&agent.name)), Style::new().dim()),
            PartKind::Subtask(task) => {
                (format!("[{}] {}", task.agent, client::describe::line(&task.description)), Style::new().dim())
            }
            PartKind::Compaction { .. } => ("the history before this is summarised".to_owned(), Style::new().dim()),
            _ => continue,
        };
        lines.extend(wrap(&[(text, style)], width, &bar, &bar, Break::Words));
    }
    lines
}

fn assistant(entry: &Entry, answer: &AssistantMessage, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut was_tool = false;
    for part in &entry.parts {
        let block = block(part, width);
        if block.is_empty() {
            continue;
        }
        // Calls stand close together, all else apart.
        let is_tool = part.as_tool().is_some();
        let is_close = was_tool && is_tool && block.len() == 1;
        if !lines.is_empty() && !is_close {
            lines.push(Line::default());
        }
        was_tool = is_tool && block.len() == 1;
        lines.extend(block);
    }
    if let Some(error) = &answer.error {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(failure(error, width));
    }
    if let Some(end) = footer(answer) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(end);
    }
    lines
}

fn block(part: &Part, width: usize) -> Vec<Line<'static>> {
    match &part.kind {
        PartKind::Text(text) if !text.ignored && !text.text.trim().is_empty() => {
            inset(markdown::lines(text.text.trim(), width.saturating_sub(2), Style::new()))
        }
        PartKind::Reasoning(reasoning) if !reasoning.text.trim().is_empty() => {
            let style = Style::new().dim().italic();
            inset(markdown::lines(reasoning.text.trim(), width.saturating_sub(2), style))
        }
        PartKind::Tool(call) => tool::lines(call, width),
        _ => Vec::new(),
    }
}

fn inset(lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
    let inset = |mut line: Line<'static>| {
        line.spans.insert(0, Span::raw("  "));
        line
    };
    lines.into_iter().map(inset).collect()
}

fn failure(error: &SessionError, width: usize) -> Vec<Line<'static>> {
    let (text, style) = match error {
        SessionError::MessageAbortedError { message } => {
            (client::describe::clean(message), Style::new().fg(Color::Yellow))
        }
        error => (client::describe::error(error), Style::new().fg(Color::Red)),
    };
    let mark = [("✗ ".to_owned(), style)];
    wrap(&[(text, style)], width, &mark, &[("  ".to_owned(), style)], Break::Words)
}

/// Who answered, and how long it took; where the turn ends.
fn footer(answer: &AssistantMessage) -> Option<Line<'static>> {
    let completed = answer.time.completed?;
    if answer.finish.as_deref() == Some("tool-calls") || answer.finish.is_none() {
        return None;
    }
    let seconds = completed.saturating_sub(answer.time.created) as f64 / 1000.0;
    let author = client::describe::author(answer);
    Some(Line::styled(format!("  {author} · {seconds:.1}s"), Style::new().dim()))
}
