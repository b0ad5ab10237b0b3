//! What `run` prints: for people, or one JSON object a line.
//!
//! For people the answers go to standard output and all else to standard error; with colours only on a terminal. On a
//! terminal nothing of a model's text may steer it; into a pipe it goes as it is.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use clap::ValueEnum;
use client::{ClientError, describe};
use protocol::permission::Reply;
use protocol::{Clock, Message, Part, PartKind, SessionId, ToolState};
use serde_json::{Value, json};

use super::turn::Told;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    Default,
    /// One JSON object a line: {type, timestamp, sessionID, part | error | permission | question}
    Json,
}

/// How something is shown.
#[derive(Clone, Copy)]
enum Style {
    Plain,
    Faint,
    Warning,
    Error,
}

/// Prints a turn.
pub struct Printer {
    format: Format,
    shows_thinking: bool,
    session: SessionId,
    clock: Arc<dyn Clock>,
    author: String,
    out: Output,
    err: Output,
}

/// One of the two streams. Once nobody reads it, it is let be: the turn goes on.
struct Output {
    to: Box<dyn Write>,
    is_terminal: bool,
    has_colours: bool,
    is_closed: bool,
}

impl Printer {
    /// Returns a printer to the process's own streams.
    pub fn new(format: Format, shows_thinking: bool, session: SessionId, clock: Arc<dyn Clock>) -> Self {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let output = |to: Box<dyn Write>, is_terminal: bool| Output {
            to,
            is_terminal,
            has_colours: is_terminal && has_colours,
            is_closed: false,
        };
        let out = output(Box::new(std::io::stdout()), std::io::stdout().is_terminal());
        let err = output(Box::new(std::io::stderr()), std::io::stderr().is_terminal());
        Self { format, shows_thinking, session, clock, author: String::new(), out, err }
    }

    /// Prints one thing.
    pub fn tell(&mut self, told: &Told) {
        match self.format {
            Format::Default => self.text(told),
            Format::Json => self.json(told),
        }
    }

    /// Prints an error that is none of the turn's own.
    pub fn error(&mut self, name: &str, message: &str) {
        match self.format {
            Format::Default => self.err.line(&format!("Error: {}", describe::clean(message)), Style::Error),
            Format::Json => {
                let name = if name.is_empty() { "UnknownError" } else { name };
                self.object(
                    "error",
                    &self.session.clone(),
                    "error",
                    json!({ "name": name, "data": { "message": message } }),
                );
            }
        }
    }

    /// Prints that the server refused, or is gone.
    pub fn failed(&mut self, error: &ClientError) {
        let name = error.refusal().map(|refusal| refusal.name.clone()).unwrap_or_default();
        self.error(&name, &error.to_string());
    }

    /// Says something to a person who reads along, in either format.
    pub fn note(&mut self, text: &str) {
        self.err.line(text, Style::Faint);
    }

    fn text(&mut self, told: &Told) {
        match told {
            Told::Author(message) => {
                let Message::Assistant(message) = &**message else { return };
                let author = describe::author(message);
                if self.author != author {
                    self.err.line(&format!("> {author}"), Style::Faint);
                    self.author = author;
                }
            }
            Told::Part(part) => self.part(part),
            Told::Permission(..) | Told::Question(_) => self.ask(told),
            Told::Error(error) => self.err.line(&format!("Error: {}", describe::error(error)), Style::Error),
        }
    }

    fn part(&mut self, part: &Part) {
        match &part.kind {
            PartKind::Text(text) if !text.text.trim().is_empty() => {
                // A block stands apart where people read it; a program gets lines and nothing else.
                let gap = if self.out.is_terminal { "\n" } else { "" };
                self.out.line(&format!("{gap}{}{gap}", text.text.trim()), Style::Plain);
            }
            PartKind::Reasoning(reasoning) if self.shows_thinking && !reasoning.text.trim().is_empty() => {
                self.err.line(&format!("Thinking: {}", reasoning.text.trim()), Style::Faint);
            }
            PartKind::Tool(tool) => {
                let what = describe::tool(tool);
                match &tool.state {
                    ToolState::Error { error, .. } => {
                        self.err.line(&format!("✗ {what}: {}", describe::line(error)), Style::Error);
                    }
                    _ if what.starts_with('$') => self.err.line(&what, Style::Faint),
                    _ => self.err.line(&format!("→ {what}"), Style::Faint),
                }
            }
            _ => {}
        }
    }

    fn ask(&mut self, told: &Told) {
        match told {
            Told::Permission(request, reply) => {
                let outcome = match reply {
                    Reply::Once => "allowed once",
                    Reply::Always => "allowed",
                    Reply::Reject => "rejected",
                };
                let line = format!("! permission requested: {}; {outcome}", describe::permission(request));
                self.err.line(&line, Style::Warning);
            }
            Told::Question(request) => {
                let questions: Vec<&str> = request.questions.iter().map(|q| q.question.as_str()).collect();
                let line = format!("! question asked: {}; rejected", describe::line(&questions.join(" ")));
                self.err.line(&line, Style::Warning);
            }
            _ => {}
        }
    }

    fn json(&mut self, told: &Told) {
        let session = self.session.clone();
        match told {
            Told::Author(_) => {}
            Told::Part(part) => {
                let kind = match &part.kind {
                    PartKind::StepStart { .. } => "step_start",
                    PartKind::StepFinish { .. } => "step_finish",
                    PartKind::Text(_) => "text",
                    PartKind::Tool(_) => "tool_use",
                    PartKind::Reasoning(_) if self.shows_thinking => "reasoning",
                    _ => return,
                };
                self.object(kind, &session, "part", json!(part));
            }
            // The line on standard error stays: who reads JSON for a program may still look at it.
            Told::Permission(request, reply) => {
                let value = with(json!(request), "reply", json!(reply));
                self.object("permission", &request.session_id, "permission", value);
                self.ask(told);
            }
            Told::Question(request) => {
                self.object("question", &request.session_id, "question", json!(request));
                self.ask(told);
            }
            Told::Error(error) => self.object("error", &session, "error", json!(error)),
        }
    }

    fn object(&mut self, kind: &str, session: &SessionId, field: &str, value: Value) {
        let object = json!({ "type": kind, "timestamp": self.clock.now_ms(), "sessionID": session });
        self.out.raw(&with(object, field, value).to_string());
    }
}

/// Returns an object with one more field.
fn with(mut object: Value, field: &str, value: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert(field.to_owned(), value);
    }
    object
}

impl Output {
    fn line(&mut self, text: &str, style: Style) {
        let text = if self.is_terminal { describe::clean(text) } else { text.to_owned() };
        let code = match style {
            _ if !self.has_colours => "",
            Style::Plain => "",
            Style::Faint => "\x1b[2m",
            Style::Warning => "\x1b[33m",
            Style::Error => "\x1b[31m",
        };
        let end = if code.is_empty() { "" } else { "\x1b[0m" };
        self.raw(&format!("{code}{text}{end}"));
    }

    fn raw(&mut self, line: &str) {
        if !self.is_closed {
            self.is_closed = writeln!(self.to, "{line}").and_then(|()| self.to.flush()).is_err();
        }
    }
}

#[cfg(test)]
mod tests;
