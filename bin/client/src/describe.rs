//! One line for a person about a tool call, a request or a model, made from what it carries.
//!
//! Texts come from models and files, so what could steer a terminal is taken out of all of them.

use protocol::message::{AssistantMessage, Tokens};
use protocol::part::{ToolPart, ToolState};
use protocol::{PermissionRequest, SessionError};
use serde_json::Value;

/// Most characters of a line.
const WIDTH: usize = 160;

/// Returns what a tool call does: `Read src/main.rs`, `$ cargo test`.
pub fn tool(part: &ToolPart) -> String {
    let input = part.state.input();
    let field = |name: &str| input.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let title = match &part.state {
        ToolState::Completed { title, .. } => Some(title.as_str()),
        ToolState::Running { title, .. } => title.as_deref(),
        _ => None,
    };
    let title = title.filter(|title| !title.is_empty());
    let named = |verb: &str, what: Option<&str>| match what {
        Some(what) => format!("{verb} {what}"),
        None => verb.to_owned(),
    };
    let text = match part.tool.as_str() {
        "bash" => named("$", field("command").or(title)),
        "read" => named("Read", title.or(field("filePath"))),
        "write" => named("Write", title.or(field("filePath"))),
        "edit" => named("Edit", title.or(field("filePath"))),
        "apply_patch" => "Patch".to_owned(),
        "grep" => search("Grep", field("pattern"), field("path")),
        "glob" => search("Glob", field("pattern"), field("path")),
        "list" => named("List", title.or(field("path"))),
        "webfetch" => named("Fetch", field("url")),
        "websearch" => named("Search", field("query")),
        "skill" => named("Skill", field("name")),
        "todowrite" => todos(input),
        "question" => named("Ask", first_question(input)),
        "task" => match (field("subagent_type"), field("description").or(title)) {
            (Some(agent), Some(what)) => format!("Task {agent}: {what}"),
            (_, what) => named("Task", what),
        },
        "invalid" => named("Unknown tool", field("tool")),
        name => match title.map(str::to_owned).or_else(|| short_json(input)) {
            Some(what) => format!("{name} {what}"),
            None => name.to_owned(),
        },
    };
    line(&text)
}

/// Returns what a permission is asked for: `bash (echo hi)`.
pub fn permission(request: &PermissionRequest) -> String {
    line(&format!("{} ({})", request.permission, request.patterns.join(", ")))
}

/// Returns why a turn failed.
pub fn error(error: &SessionError) -> String {
    match error {
        SessionError::ProviderAuthError { provider_id, message } => line(&format!("{provider_id}: {message}")),
        other => clean(other.message()),
    }
}

/// Returns the agent and the model of an answer: `build · mock`.
pub fn author(message: &AssistantMessage) -> String {
    line(&format!("{} · {}", message.agent, message.model_id))
}

/// Returns how much of a model's window a request and its answer took: `12.3k tokens`; none where nothing is known.
pub fn tokens(tokens: &Tokens) -> Option<String> {
    let all = tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write;
    match all {
        0 => None,
        1..1000 => Some(format!("{all} tokens")),
        1000..1_000_000 => Some(format!("{:.1}k tokens", all as f64 / 1000.0)),
        _ => Some(format!("{:.2}M tokens", all as f64 / 1_000_000.0)),
    }
}

/// Returns `text` on one line of readable length.
pub fn line(text: &str) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        if count > 0 {
            out.push(' ');
            count += 1;
        }
        for character in word.chars().filter(|c| !is_steering(*c)) {
            if count >= WIDTH {
                out.push('…');
                return out;
            }
            out.push(character);
            count += 1;
        }
    }
    out
}

/// Returns `text` without what steers a terminal; line breaks and tabs stay.
pub fn clean(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_steering(*c)).collect()
}

/// Control characters, and those that turn the direction of the text around them.
fn is_steering(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn search(verb: &str, pattern: Option<&str>, path: Option<&str>) -> String {
    match (pattern, path) {
        (Some(pattern), Some(path)) => format!("{verb} \"{pattern}\" in {path}"),
        (Some(pattern), None) => format!("{verb} \"{pattern}\""),
        _ => verb.to_owned(),
    }
}

fn todos(input: &Value) -> String {
    let Some(todos) = input.get("todos").and_then(Value::as_array) else { return "Todos".into() };
    let done = todos.iter().filter(|todo| todo.get("status").and_then(Value::as_str) == Some("completed")).count();
    format!("Todos {done}/{}", todos.len())
}

fn first_question(input: &Value) -> Option<&str> {
    input.get("questions")?.get(0)?.get("question")?.as_str()
}

/// The arguments of a tool nobody knows, as far as they are short and simple.
fn short_json(input: &Value) -> Option<String> {
    let object = input.as_object().filter(|object| !object.is_empty())?;
    let simple = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let fields: Vec<String> =
        object.iter().filter_map(|(name, value)| Some(format!("{name}={}", simple(value)?))).collect();
    (!fields.is_empty()).then(|| format!("[{}]", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::CallId;
    use protocol::part::{Ran, Started};
    use serde_json::json;

    use super::*;

    fn running(name: &str, input: Value) -> String {
        let state = ToolState::Running { input, title: None, metadata: None, time: Started { start: 1 } };
        tool(&ToolPart { call_id: CallId::new("c"), tool: name.into(), state, metadata: None })
    }

    #[test]
    fn each_tool_says_what_it_works_on() {
        assert_eq!(running("bash", json!({ "command": "ls\n  -l" })), "$ ls -l");
        assert_eq!(running("read", json!({ "filePath": "/p/a.txt" })), "Read /p/a.txt");
        assert_eq!(running("grep", json!({ "pattern": "fn", "path": "src" })), "Grep \"fn\" in src");
        assert_eq!(running("task", json!({ "subagent_type": "explore", "description": "look" })), "Task explore: look");
        assert_eq!(running("todowrite", json!({ "todos": [{ "status": "completed" }, {}] })), "Todos 1/2");
        assert_eq!(running("srv_act", json!({ "n": 1, "deep": {} })), "srv_act [n=1]");
        assert_eq!(running("read", json!("not an object")), "Read");
    }

    #[test]
    fn a_finished_call_shows_its_title() {
        let state = ToolState::Completed {
            input: json!({ "filePath": "/p/a.txt" }),
            output: String::new(),
            title: "a.txt".into(),
            metadata: Default::default(),
            time: Ran { start: 1, end: 2, compacted: None },
            attachments: None,
        };
        assert_eq!(
            tool(&ToolPart { call_id: CallId::new("c"), tool: "read".into(), state, metadata: None }),
            "Read a.txt"
        );
    }

    #[test]
    fn nothing_of_a_models_text_steers_the_terminal() {
        assert_eq!(line("a\u{1b}[2Jb\r\nc\u{202e}d"), "a[2Jb cd");
        assert_eq!(clean("a\u{1b}]0;x\u{7}b\n\tc"), "a]0;xb\n\tc");
        assert_eq!(line(&"x".repeat(500)).chars().count(), WIDTH + 1);
    }

    #[test]
    fn token_counts_are_short() {
        let of = |input| tokens(&Tokens { input, ..Tokens::default() });
        assert_eq!((of(0), of(120)), (None, Some("120 tokens".into())));
        assert_eq!(of(12_345), Some("12.3k tokens".into()));
    }
}
