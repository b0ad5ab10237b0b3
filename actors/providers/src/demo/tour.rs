//! What the demo does next, decided from the request alone.

use protocol::JsonMap;
use protocol::message::Tokens;
use protocol::model::{
    AssistantContent, FinishReason, ModelEvent, ModelMessage, ModelRequest, ToolResult, UserContent,
};
use serde_json::{Value, json};

use super::project::{Listing, Readme, lines, paths};
use super::text::{self, Found};
use crate::IdSource;

/// Most model steps of a tour; the last one reports.
const STEPS: usize = 3;

/// Returns the demo's answer to `request`, whole. `ids` names its calls.
///
/// With tools on offer it is the next step of the tour: greet, list the folder and look for a README; read it (or a
/// manifest); report. Without tools it is a title, or a summary if the conversation has answers in it.
pub fn next(request: &ModelRequest, ids: &IdSource) -> Vec<ModelEvent> {
    let asked = asked(&request.messages);
    if request.tools.is_empty() {
        let answered = request.messages.iter().any(|message| matches!(message, ModelMessage::Assistant(_)));
        let last = asked.last().map(String::as_str).unwrap_or_default();
        return answer(&if answered { text::summary(&asked) } else { text::title(last) }, Vec::new(), ids);
    }
    let turn = Turn::of(request);
    let calls = turn.calls(request);
    let said = match (&*calls, turn.steps) {
        ([], _) => text::report(&turn.found()),
        (calls, 0) => {
            let tools: Vec<&str> = calls.iter().map(|(tool, _)| *tool).collect();
            text::greeting(asked.last().map(String::as_str).unwrap_or_default(), asked.len() > 1, &tools)
        }
        ([(_, input), ..], _) => text::reading(name(input)),
    };
    answer(&said, calls, ids)
}

/// The tour since the newest message of the person.
struct Turn<'a> {
    directory: Option<&'a str>,
    /// Answers given.
    steps: usize,
    /// The calls made, and what they gave.
    done: Vec<(&'a str, &'a Value, &'a ToolResult)>,
}

type Call = (&'static str, JsonMap);

impl<'a> Turn<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let is_user = |message: &ModelMessage| matches!(message, ModelMessage::User(_));
        let start = request.messages.iter().rposition(is_user).map_or(0, |at| at + 1);
        let messages = request.messages.get(start..).unwrap_or_default();
        let results = || {
            messages
                .iter()
                .filter_map(|message| if let ModelMessage::Tool(results) = message { Some(results) } else { None })
                .flatten()
        };
        let mut turn = Self { directory: directory(&request.system), steps: 0, done: Vec::new() };
        for message in messages {
            let ModelMessage::Assistant(parts) = message else { continue };
            turn.steps += 1;
            for part in parts {
                if let AssistantContent::Call { id, tool, input, .. } = part {
                    turn.done
                        .extend(results().find(|result| result.id == *id).map(|result| (tool.as_str(), input, result)));
                }
            }
        }
        turn
    }

    /// Returns the calls of the next step; none when it is time to report.
    fn calls(&self, request: &ModelRequest) -> Vec<Call> {
        let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        let call = |tool: &'static str, input: Value| (tool, input.as_object().cloned().unwrap_or_default());
        let calls = match self.steps {
            0 => vec![
                call("read", json!({ "filePath": self.directory.unwrap_or(".") })),
                call("glob", json!({ "pattern": "README*" })),
            ],
            steps if steps + 1 < STEPS => match self.to_read() {
                Some(path) => vec![call("read", json!({ "filePath": path, "limit": 200 }))],
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        calls.into_iter().filter(|(tool, _)| offered(tool)).collect()
    }

    /// Returns the file that most likely says what the project is: the README nearest to the top, else a manifest.
    fn to_read(&self) -> Option<String> {
        let found = self.results("glob").flat_map(|(_, output)| paths(output)).next();
        let listing = self.listing();
        let named = |listing: &Listing| {
            let readme = listing.files.iter().find(|file| file.to_lowercase().starts_with("readme"));
            readme.cloned().or_else(|| listing.manifests().next().map(|(name, _)| name.to_owned()))
        };
        let listed = listing.as_ref().and_then(named).map(|name| match self.directory {
            Some(directory) => format!("{}/{name}", directory.trim_end_matches('/')),
            None => name,
        });
        found.map(str::to_owned).or(listed)
    }

    fn results(&self, wanted: &str) -> impl Iterator<Item = (&'a Value, &'a str)> {
        let results = self.done.iter().filter(move |(tool, _, result)| *tool == wanted && !result.is_error);
        results.map(|(_, input, result)| (*input, result.output.as_str())).collect::<Vec<_>>().into_iter()
    }

    fn listing(&self) -> Option<Listing> {
        self.results("read").find(|(_, output)| output.contains("<entries>")).map(|(_, output)| Listing::read(output))
    }

    fn found(&self) -> Found {
        let file = self.results("read").find(|(_, output)| output.contains("<content>"));
        let failures = self.done.iter().filter(|(_, _, result)| result.is_error);
        Found {
            directory: self.directory.map(str::to_owned),
            listing: self.listing(),
            readme: file.map(|(input, output)| {
                let path = input.get("filePath").and_then(Value::as_str).unwrap_or_default();
                (base(path).to_owned(), Readme::read(&lines(output)))
            }),
            failures: failures.map(|(tool, _, result)| ((*tool).to_owned(), result.output.clone())).collect(),
        }
    }
}

/// Returns the directory that the system prompt's environment block names.
fn directory(system: &[String]) -> Option<&str> {
    let mut lines = system.iter().flat_map(|text| text.lines());
    lines.find_map(|line| Some(line.trim().strip_prefix("Working directory:")?.trim())).filter(|path| !path.is_empty())
}

/// Returns what the person wrote, a text a message.
fn asked(messages: &[ModelMessage]) -> Vec<String> {
    let text = |part: &UserContent| match part {
        UserContent::Text(text) => Some(text.trim().to_owned()),
        UserContent::File { .. } => None,
    };
    let user = |message: &ModelMessage| match message {
        ModelMessage::User(parts) => Some(parts.iter().find_map(text).unwrap_or_default()),
        _ => None,
    };
    messages.iter().filter_map(user).collect()
}

fn name(input: &JsonMap) -> &str {
    base(input.get("filePath").and_then(Value::as_str).unwrap_or_default())
}

fn base(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns the events of an answer with this text, a line a piece, and these calls.
fn answer(text: &str, calls: Vec<Call>, ids: &IdSource) -> Vec<ModelEvent> {
    let reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let mut events = vec![ModelEvent::TextStart { metadata: None }];
    events.extend(text.split_inclusive('\n').map(|line| ModelEvent::TextDelta(line.to_owned())));
    events.push(ModelEvent::TextEnd { metadata: None });
    for (tool, input) in calls {
        let (id, tool) = (ids(), tool.to_owned());
        events.push(ModelEvent::CallStart { id: id.clone(), tool: tool.clone() });
        events.push(ModelEvent::Call { id, tool, input, metadata: None });
    }
    events.push(ModelEvent::Finish { reason, usage: Tokens::default() });
    events
}
