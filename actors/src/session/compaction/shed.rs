//! What of a history is kept in memory: what requests still tell. What a summary stands for, and results that were
//! cleared, are only stored from then on; whoever needs them reads them there (`recall`). Pure.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{MessageId, Part, PartId, PartKind, ToolState};

use super::carried::sources;
use super::view::View;
use crate::session::history::{Entry, History};

/// Lets go of what no request tells any more. Prompts that wait for their answer stay whole.
pub fn shed(history: &mut History, waiting: &HashSet<MessageId>) {
    let view = View::of(history.entries());
    let hidden = view.hidden;
    let shown: HashSet<MessageId> = view.since.iter().map(|entry| entry.info.id().clone()).collect();
    let told: HashSet<PartId> = sources(&view).into_iter().collect();
    for (at, entry) in history.entries_mut().iter_mut().enumerate() {
        let id = entry.info.id();
        if at < hidden && !waiting.contains(id) && !shown.contains(id) && is_over(entry) {
            entry.keep(|part| told.contains(&part.id) || matches!(part.kind, PartKind::Compaction { .. }));
        }
        entry.lighten(lightened);
    }
}

/// Whether nothing of it is still to come.
fn is_over(entry: &Entry) -> bool {
    entry.info.as_assistant().is_none_or(|answer| answer.time.completed.is_some())
        && entry.open_calls().next().is_none()
}

/// A cleared call without the result that nobody is told.
fn lightened(part: &Part) -> Option<Arc<Part>> {
    let ToolState::Completed { output, time, .. } = &part.as_tool()?.state else { return None };
    if time.compacted.is_none() || output.is_empty() {
        return None;
    }
    let mut part = part.clone();
    if let PartKind::Tool(tool) = &mut part.kind
        && let ToolState::Completed { output, metadata, attachments, .. } = &mut tool.state
    {
        *output = String::new();
        metadata.clear();
        *attachments = None;
    }
    Some(Arc::new(part))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::part::{Ran, ToolPart};
    use protocol::{CallId, Message};
    use serde_json::json;

    use super::*;
    use crate::session::compaction::carried::carried;
    use crate::session::compaction::prune;
    use crate::session::request::{Target, compile};
    use crate::session::samples::{assistant, call, compaction, done, model, msg, summary, text, user};

    fn failed(error: &str) -> PartKind {
        let time = Ran { start: 1, end: 2, compacted: None };
        call("f", ToolState::Error { input: json!({}), error: error.into(), metadata: None, time })
    }

    fn todos(content: &str) -> PartKind {
        let mut state = done("ok");
        if let ToolState::Completed { input, .. } = &mut state {
            *input = json!({ "todos": [{ "content": content, "status": "pending", "priority": "high" }] });
        }
        PartKind::Tool(ToolPart { call_id: CallId::new("t"), tool: "todowrite".into(), state, metadata: None })
    }

    /// Two summaries; the second stands for all before message 7.
    fn history() -> History {
        History::of(vec![
            user(0, vec![text("the task")]),
            assistant(1, 0, vec![call("a", done(&"x".repeat(20_000))), todos("old"), todos("open"), failed("no file")]),
            compaction(2, None),
            summary(3, 2, "the first summary"),
            user(4, vec![text("go on")]),
            assistant(5, 4, vec![call("b", done(&"y".repeat(20_000)))]),
            user(6, vec![text("it waits")]),
            assistant(7, 4, vec![call("c", done(&"z".repeat(2_000)))]),
            compaction(8, Some(7)),
            summary(9, 8, "the second summary"),
            user(10, vec![text("continue")]),
            assistant(11, 10, vec![call("d", done("new"))]),
        ])
    }

    fn told(history: &History) -> (Vec<protocol::model::ModelMessage>, Option<String>) {
        let (model, unseen) = (model("m"), HashSet::new());
        let target = Target { model: &model, unseen: &unseen, reminder: None };
        (compile(history.entries(), &target), carried(&View::of(history.entries()), 10_000))
    }

    fn bodies(history: &History) -> usize {
        serde_json::to_string(&history.entries().iter().map(|entry| &entry.parts).collect::<Vec<_>>())
            .expect("json")
            .len()
    }

    #[test]
    fn what_a_summary_stands_for_is_let_go_and_models_are_told_the_same() {
        let mut history = history();
        let before = told(&history);
        shed(&mut history, &HashSet::from([msg(6)]));
        assert_eq!(told(&history), before);
        let lean: Vec<bool> = history.entries().iter().map(Entry::is_lean).collect();
        // The tasks are still told, the one that waits will be, and from the tail on all is.
        let (no, yes) = (false, true);
        assert_eq!(lean, [no, yes, no, yes, no, yes, no, no, no, no, no, no]);
        assert!(bodies(&history) < 8_000, "{}", bodies(&history));
        assert!(history.get(&msg(5)).is_some_and(|entry| entry.to_wire().is_none()));
    }

    #[test]
    fn letting_go_twice_is_letting_go_once() {
        let mut history = history();
        shed(&mut history, &HashSet::new());
        let (told_once, size) = (told(&history), bodies(&history));
        shed(&mut history, &HashSet::new());
        assert_eq!((told(&history), bodies(&history)), (told_once, size));
    }

    #[test]
    fn the_result_of_a_cleared_call_is_let_go() {
        let mut state = done(&"x".repeat(20_000));
        let mut cleared = Part::clone(&crate::session::samples::part(1, 0, call("a", state.clone())));
        prune::clear(&mut cleared, 5);
        if let Some(tool) = cleared.as_tool() {
            state = tool.state.clone();
        }
        let mut history = History::of(vec![user(0, vec![text("go")]), assistant(1, 0, vec![call("a", state)])]);
        let before = told(&history);
        shed(&mut history, &HashSet::new());
        assert_eq!(told(&history), before);
        assert!(bodies(&history) < 1_000, "{}", bodies(&history));
        assert!(history.get(&msg(1)).is_some_and(Entry::is_lean));
    }

    #[test]
    fn what_is_open_stays() {
        let mut history = history();
        let mut open = Message::clone(&history.get(&msg(5)).expect("an entry").info);
        if let Message::Assistant(answer) = &mut open {
            answer.time.completed = None;
        }
        history.put_message(Arc::new(open));
        shed(&mut history, &HashSet::new());
        assert!(!history.get(&msg(5)).is_some_and(Entry::is_lean));
    }
}
