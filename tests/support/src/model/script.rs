//! Which step answers a request.

use std::collections::HashMap;

use serde_json::Value;

use super::inline;
use super::request::{Request, text_of};
use super::step::Step;

/// What answers a request without a script of its own.
const UNSCRIPTED: &str = "hello from the scripted model";

/// What answers a request without tools.
const TITLE: &str = "A short title";

/// The scripts of a test, and how far each request has come in them.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    turns: Vec<Script>,
    /// For requests without tools.
    sides: Vec<Script>,
    /// How often a step was asked for, by script, step and who asks.
    asked: HashMap<(String, usize, String), u32>,
}

#[derive(Debug)]
struct Script {
    needle: String,
    steps: Vec<Step>,
}

/// The step that answers a request.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) step: Step,
    /// Needle and number of the step; none for the answers that need no script.
    pub(super) name: Option<(String, usize)>,
    /// What the test wrote wrong.
    pub(super) fault: Option<String>,
}

impl Scripts {
    pub(super) fn add_turn(&mut self, needle: String, steps: Vec<Step>) {
        self.turns.retain(|script| script.needle != needle);
        self.turns.push(Script { needle, steps });
    }

    pub(super) fn add_side(&mut self, needle: String, steps: Vec<Step>) {
        self.sides.retain(|script| script.needle != needle);
        self.sides.push(Script { needle, steps });
    }

    /// Returns the step for `request`, and counts the request.
    pub(super) fn choose(&mut self, request: &Request) -> Choice {
        if request.has_tools() { self.turn(request) } else { self.side(request) }
    }

    fn turn(&mut self, request: &Request) -> Choice {
        let messages = request.messages();
        for (at, message) in messages.iter().enumerate().rev().filter(|(_, m)| m["role"] == "user") {
            let text = text_of(&message["content"]);
            // The script named last in the text counts: one message may join several prompts.
            let named = self.turns.iter().filter_map(|script| Some((text.rfind(&script.needle)?, script)));
            let named = named.max_by_key(|(at, script)| (*at, script.needle.len()));
            let (needle, steps) = match (named, inline::find(&text)) {
                (named, Some((written_at, steps))) if named.is_none_or(|(at, _)| at < written_at) => match steps {
                    Ok(steps) => (text.clone(), steps),
                    Err(error) => {
                        let fault = format!("the script in the prompt can't be read: {error}");
                        return Choice { step: Step::text(UNSCRIPTED), name: None, fault: Some(fault) };
                    }
                },
                (Some((_, script)), _) => (script.needle.clone(), script.steps.clone()),
                (None, _) => continue,
            };
            let (_, newer) = messages.split_at(at + 1);
            let answered = newer.iter().filter(|m| m["role"] == "assistant").count();
            return self.pick(needle, &steps, answered, &asker(request, &text));
        }
        Choice { step: Step::text(UNSCRIPTED), name: None, fault: None }
    }

    fn side(&mut self, request: &Request) -> Choice {
        let text = request.messages().iter().map(|m| text_of(&m["content"])).collect::<Vec<_>>().join("\n");
        let Some(script) = self.sides.iter().find(|script| text.contains(&script.needle)) else {
            return Choice { step: Step::text(TITLE), name: None, fault: None };
        };
        let (needle, steps) = (script.needle.clone(), script.steps.clone());
        // Nothing in such a request tells how often one like it was answered.
        let key = (needle.clone(), usize::MAX, String::new());
        let number = *self.asked.entry(key).and_modify(|n| *n += 1).or_default();
        self.pick(needle, &steps, number as usize, "")
    }

    fn pick(&mut self, needle: String, steps: &[Step], number: usize, asker: &str) -> Choice {
        let number = number.min(steps.len().saturating_sub(1));
        let Some(step) = steps.get(number) else {
            let fault = format!("the script of {needle:?} has no steps");
            return Choice { step: Step::text(UNSCRIPTED), name: None, fault: Some(fault) };
        };
        let asked = self.asked.entry((needle.clone(), number, asker.to_owned())).or_default();
        let mut before = *asked;
        *asked += 1;
        let mut chosen = step.clone();
        for (times, other) in &step.before {
            if before < *times {
                chosen = other.clone();
                break;
            }
            before -= times;
        }
        Choice { step: chosen, name: Some((needle, number)), fault: None }
    }
}

/// Returns what tells sessions with the same script apart.
fn asker(request: &Request, prompt: &str) -> String {
    if let Some(session) = request.headers.get("x-session-id") {
        return format!("{session}\n{prompt}");
    }
    let first = request.messages().iter().find(|m| m["role"] == "user").map_or(&Value::Null, |m| &m["content"]);
    format!("{}\n{prompt}", text_of(first))
}
