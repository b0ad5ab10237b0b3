//! What must not depend on a summary's quality: the person's last tasks word for word, open to-do items, the newest
//! failures. Told in the system prompt of each request after a compaction. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{MessageId, Part, PartId, Todo, ToolState};

use super::transcript::cut;
use super::view::{View, continues};
use crate::session::history::Entry;

/// Most bytes of the person's words.
const TASK_BYTES: usize = 20_000;
/// Most failures, and most bytes of each.
const FAILURES: usize = 5;
const FAILURE_BYTES: usize = 600;

const HEADING: &str = "From the part of the conversation that only the notes stand for, word for word:";

/// Returns what is told beside the summary; none where there is no summary, or nothing to tell. `bytes`: most of the
/// person's words.
pub fn carried(view: &View<'_>, bytes: usize) -> Option<String> {
    view.summary?;
    let mut texts = Vec::new();
    let tasks = tasks(view, bytes.min(TASK_BYTES));
    if !tasks.is_empty() {
        texts.push(format!("The person's words:\n{}", tasks.join("\n---\n")));
    }
    let todos = open_todos(&view.gone);
    if !todos.is_empty() {
        let lines: Vec<String> = todos.iter().map(|todo| format!("- [{}] {}", todo.status, todo.content)).collect();
        texts.push(format!("Open to-do items:\n{}", lines.join("\n")));
    }
    let failures = failures(&view.gone);
    if !failures.is_empty() {
        texts.push(format!("Calls that failed lately:\n{}", failures.join("\n")));
    }
    (!texts.is_empty()).then(|| format!("{HEADING}\n\n{}", texts.join("\n\n")))
}

/// Returns the parts that it is made of.
pub fn sources(view: &View<'_>) -> Vec<PartId> {
    let gone = &view.gone;
    let is_text = |part: &&Arc<Part>| part.as_text().is_some();
    let tasks = asked(view, TASK_BYTES).into_iter().flat_map(|(entry, _)| &entry.parts).filter(is_text);
    let calls = todo_list(gone).into_iter().chain(failed(gone).into_iter().map(|(part, _)| part));
    tasks.chain(calls).map(|part| part.id.clone()).collect()
}

/// The newest prompts that were answered, or are being answered, oldest first.
fn tasks(view: &View<'_>, bytes: usize) -> Vec<String> {
    asked(view, bytes).into_iter().map(|(_, text)| text).collect()
}

/// The same, each with its text.
fn asked<'a>(view: &View<'a>, bytes: usize) -> Vec<(&'a Entry, String)> {
    let gone = &view.gone;
    let mut answered: HashSet<&MessageId> =
        gone.iter().filter(|entry| says_anything(entry)).filter_map(|entry| parent(entry)).collect();
    // What was asked just before a turn went on is what it goes on with.
    let told = gone.iter().chain(&view.tail).chain(&view.since).filter(|entry| entry.info.as_user().is_some());
    answered
        .extend(told.clone().zip(told.skip(1)).filter(|(_, next)| continues(next)).map(|(asked, _)| asked.info.id()));
    let mut left = bytes;
    let mut tasks = Vec::new();
    for entry in gone.iter().rev().filter(|entry| answered.contains(entry.info.id())) {
        let text = entry.own_text();
        if text.trim().is_empty() {
            continue;
        }
        if text.len() > left {
            if tasks.is_empty() {
                tasks.push((*entry, cut(&text, bytes)));
            }
            break;
        }
        left -= text.len();
        tasks.push((*entry, text));
    }
    tasks.reverse();
    tasks
}

fn parent(entry: &Entry) -> Option<&MessageId> {
    entry.info.as_assistant().map(|answer| &answer.parent_id)
}

/// Whether an answer came to anything, an error included. One that found no room did not: it is asked for again.
fn says_anything(entry: &Entry) -> bool {
    entry.has_calls()
        || entry.info.as_assistant().is_some_and(|answer| answer.finish.is_some() || answer.error.is_some())
}

/// The newest call that wrote the to-do list.
fn todo_list<'a>(gone: &[&'a Entry]) -> Option<&'a Arc<Part>> {
    let mut parts = gone.iter().rev().flat_map(|entry| entry.parts.iter().rev());
    parts.find(|part| {
        part.as_tool().is_some_and(|tool| tool.tool == "todowrite" && matches!(tool.state, ToolState::Completed { .. }))
    })
}

fn open_todos(gone: &[&Entry]) -> Vec<Todo> {
    let last = todo_list(gone).and_then(|part| part.as_tool());
    let list = last.and_then(|tool| tool.state.input().get("todos").cloned());
    let todos: Vec<Todo> = list.and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default();
    todos.into_iter().filter(|todo| todo.status != "completed" && todo.status != "cancelled").collect()
}

fn failures(gone: &[&Entry]) -> Vec<String> {
    failed(gone).into_iter().map(|(_, line)| line).collect()
}

/// The newest calls that failed, oldest first, each with what is told of it. Equal ones count once.
fn failed<'a>(gone: &[&'a Entry]) -> Vec<(&'a Arc<Part>, String)> {
    let mut failures: Vec<(&Arc<Part>, String)> = Vec::new();
    for part in gone.iter().rev().flat_map(|entry| entry.parts.iter().rev()) {
        let Some(tool) = part.as_tool() else { continue };
        if let ToolState::Error { input, error, .. } = &tool.state {
            let line = cut(&format!("- {} {input}: {error}", tool.tool), FAILURE_BYTES);
            if failures.iter().all(|(_, told)| *told != line) {
                failures.push((part, line));
            }
        }
        if failures.len() == FAILURES {
            break;
        }
    }
    failures.reverse();
    failures
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::CallId;
    use protocol::part::{PartKind, Ran, ToolPart};
    use serde_json::json;

    use super::*;
    use crate::session::samples::{assistant, call, compaction, done, summary, text, user};

    fn failed(id: &str, error: &str) -> PartKind {
        let time = Ran { start: 1, end: 2, compacted: None };
        call(id, ToolState::Error { input: json!({ "filePath": "x" }), error: error.into(), metadata: None, time })
    }

    fn todos(items: &[(&str, &str)]) -> PartKind {
        let todos: Vec<_> = items
            .iter()
            .map(|(content, status)| json!({ "content": content, "status": status, "priority": "high" }))
            .collect();
        let mut state = done("ok");
        if let ToolState::Completed { input, .. } = &mut state {
            *input = json!({ "todos": todos });
        }
        PartKind::Tool(ToolPart { call_id: CallId::new("t"), tool: "todowrite".into(), state, metadata: None })
    }

    #[test]
    fn the_task_open_items_and_failures_are_told_word_for_word() {
        let work = vec![todos(&[("open one", "pending"), ("done one", "completed")]), failed("a", "no such file x")];
        let history = [
            user(0, vec![text("repair the \"frobnicator\" & nothing else")]),
            assistant(1, 0, work),
            assistant(2, 0, vec![failed("b", "no such file x")]),
            user(3, vec![text("an aside nobody answered")]),
            compaction(4, None),
            summary(5, 4, "nothing worth telling"),
        ];
        let told = carried(&View::of(&history), 1000).expect("something to tell");
        assert!(told.contains("repair the \"frobnicator\" & nothing else"));
        assert!(told.contains("open one") && !told.contains("done one"));
        assert_eq!(told.matches("no such file x").count(), 1, "the same failure once: {told}");
        assert!(!told.contains("aside"));
    }

    #[test]
    fn a_task_that_is_too_long_is_cut_in_its_middle() {
        let task = format!("begin{}end", "x".repeat(5_000));
        let history =
            [user(0, vec![text(&task)]), assistant(1, 0, vec![text("ok")]), compaction(2, None), summary(3, 2, "n")];
        let told = carried(&View::of(&history), 100).expect("something to tell");
        assert!(told.contains("begin") && told.contains("end") && told.len() < 400, "{told}");
    }

    #[test]
    fn a_prompt_is_told_that_was_summarised_before_it_was_answered_and_one_that_is_given_once_more_is_not() {
        let mut in_vain = assistant(1, 0, vec![]);
        if let protocol::Message::Assistant(message) = Arc::make_mut(&mut in_vain.info) {
            message.finish = None;
        }
        let go_on = PartKind::Text(crate::session::compaction::go_on(1));
        for (next, is_told) in [(text("a question"), false), (go_on, true)] {
            let history = [
                user(0, vec![text("a question")]),
                in_vain.clone(),
                compaction(2, None),
                summary(3, 2, "n"),
                user(4, vec![next]),
            ];
            let view = View::of(&history);
            let told = carried(&view, 1000);
            assert_eq!(told.is_some_and(|told| told.contains("a question")), is_told);
            assert_eq!(sources(&view).len(), usize::from(is_told));
        }
    }

    #[test]
    fn without_a_summary_nothing_is_told() {
        let history = [user(0, vec![text("hi")]), assistant(1, 0, vec![text("ok")])];
        assert_eq!(carried(&View::of(&history), 1000), None);
    }
}
