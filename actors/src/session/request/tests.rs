use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::JsonMap;
use protocol::event::interrupted;
use protocol::part::{Ran, ReasoningPart, Span, Started};
use serde_json::json;

use super::*;
use crate::session::samples::{assistant, call, done, model, msg, text, user};

fn compiled(history: &[Entry]) -> Vec<ModelMessage> {
    compile(history, &Target { model: &model("m"), unseen: &HashSet::new(), reminder: None })
}

fn told(messages: &[ModelMessage]) -> Vec<String> {
    messages
        .iter()
        .map(|message| match message {
            ModelMessage::User(content) => format!("user {content:?}"),
            ModelMessage::Assistant(content) => format!("assistant {content:?}"),
            ModelMessage::Tool(results) => {
                let results: Vec<_> = results.iter().map(|r| format!("{}={}", r.id, r.output)).collect();
                format!("tool {}", results.join(","))
            }
        })
        .map(|line| line.chars().take(60).collect())
        .collect()
}

#[test]
fn each_call_has_its_result_in_order_also_when_it_was_interrupted() {
    let running = ToolState::Running { input: json!({}), title: None, metadata: None, time: Started { start: 1 } };
    let pending = ToolState::Pending { input: json!({}), raw: String::new() };
    let failed = ToolState::Error {
        input: json!("no object"),
        error: "no such file".into(),
        metadata: Some(interrupted()),
        time: Ran { start: 1, end: 2, compacted: None },
    };
    let kinds = vec![call("a", done("")), call("b", running), call("c", pending), call("d", failed)];
    let messages = compiled(&[user(1, vec![text("go")]), assistant(2, 1, kinds)]);
    let Some(ModelMessage::Tool(results)) = messages.get(2) else { panic!("{messages:?}") };
    let seen: Vec<_> = results.iter().map(|r| (r.id.as_str(), r.output.as_str(), r.is_error)).collect();
    assert_eq!(
        seen,
        [("a", NO_OUTPUT, false), ("b", INTERRUPTED, true), ("c", INTERRUPTED, true), ("d", "no such file", true)]
    );
}

#[test]
fn a_prompt_that_came_during_a_tool_loop_is_told_after_the_answer_to_the_one_before() {
    let history = [
        user(1, vec![text("first")]),
        assistant(2, 1, vec![call("a", done("x"))]),
        user(3, vec![text("second")]),
        assistant(4, 1, vec![text("answer to the first")]),
    ];
    let lines = told(&compiled(&history));
    assert_eq!(
        lines,
        [
            r#"user [Text("first")]"#,
            r#"assistant [Call { id: a, tool: "read", input: Object {"fileP"#,
            "tool a=x",
            r#"assistant [Text { text: "answer to the first", metadata: Non"#,
            r#"user [Text("second")]"#,
        ]
    );
    let unseen = HashSet::from([msg(3)]);
    let model = model("m");
    let hidden = compile(&history[..3], &Target { model: &model, unseen: &unseen, reminder: None });
    assert_eq!(told(&hidden).last().map(String::as_str), Some("tool a=x"));
}

#[test]
fn an_interrupted_answer_at_the_end_is_left_out() {
    let history = [user(1, vec![text("go")]), assistant(2, 1, vec![text("half an ans")])];
    assert_eq!(told(&compiled(&history)), [r#"user [Text("go")]"#]);
}

#[test]
fn thinking_goes_back_to_its_own_model_only() {
    let thought = || {
        let metadata = JsonMap::from_iter([("signature".to_owned(), json!("S"))]);
        PartKind::Reasoning(ReasoningPart { text: "hm".into(), metadata: Some(metadata), time: Span::default() })
    };
    let history = [user(1, vec![text("go")]), assistant(2, 1, vec![thought(), call("a", done("x"))])];
    assert!(told(&compiled(&history))[1].contains("Reasoning"));
    let other = model("other");
    let messages = compile(&history, &Target { model: &other, unseen: &HashSet::new(), reminder: None });
    assert!(!format!("{messages:?}").contains("Reasoning"), "{messages:?}");
}

#[test]
fn a_reminder_is_told_with_the_last_prompt() {
    let history = [user(1, vec![text("go")]), assistant(2, 1, vec![call("a", done("x"))])];
    let model = model("m");
    let messages = compile(&history, &Target { model: &model, unseen: &HashSet::new(), reminder: Some("only plan") });
    assert_eq!(told(&messages)[0], r#"user [Text("go"), Text("only plan")]"#);
}

fn any_state() -> impl Strategy<Value = ToolState> {
    prop_oneof![
        Just(ToolState::Pending { input: json!({}), raw: String::new() }),
        Just(ToolState::Running { input: json!([1]), title: None, metadata: None, time: Started { start: 1 } }),
        "[a-c]{0,2}".prop_map(|output| done(&output)),
    ]
}

fn any_part() -> impl Strategy<Value = PartKind> {
    prop_oneof![
        "[a-c]{0,2}".prop_map(|t| text(&t)),
        ("[xy]{0,1}", any_state()).prop_map(|(id, state)| call(&id, state)),
        "[a-c]{0,1}".prop_map(|t| PartKind::Reasoning(ReasoningPart {
            text: t,
            metadata: None,
            time: Span::default()
        })),
        Just(PartKind::StepStart { snapshot: None }),
    ]
}

fn any_history() -> impl Strategy<Value = Vec<Entry>> {
    let message = (any::<bool>(), 0_usize..12, proptest::collection::vec(any_part(), 0..4));
    proptest::collection::vec(message, 0..10).prop_map(|messages| {
        let entry = |(n, (is_user, parent, kinds)): (usize, (bool, usize, Vec<PartKind>))| {
            if is_user { user(n, kinds) } else { assistant(n, parent, kinds) }
        };
        messages.into_iter().enumerate().map(entry).collect()
    })
}

proptest! {
    #[test]
    fn any_history_gives_a_legal_request(history in any_history()) {
        let messages = compiled(&history);
        let mut ids = HashSet::new();
        for (at, message) in messages.iter().enumerate() {
            match message {
                ModelMessage::User(content) => prop_assert!(!content.is_empty()),
                ModelMessage::Assistant(content) => {
                    prop_assert!(!content.is_empty());
                    let calls: Vec<_> = content.iter().filter_map(|c| match c {
                        AssistantContent::Call { id, input, .. } => Some((id.clone(), input.is_object())),
                        AssistantContent::Text { text, .. } => { assert!(!text.is_empty()); None }
                        AssistantContent::Reasoning { .. } => None,
                    }).collect();
                    prop_assert!(calls.iter().all(|(id, object)| *object && ids.insert(id.clone())));
                    let results: Vec<_> = match messages.get(at + 1) {
                        Some(ModelMessage::Tool(results)) => results.iter().map(|r| r.id.clone()).collect(),
                        _ => Vec::new(),
                    };
                    prop_assert_eq!(calls.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), results);
                }
                ModelMessage::Tool(results) => {
                    prop_assert!(results.iter().all(|r| !r.output.is_empty()));
                    prop_assert!(matches!(messages.get(at.wrapping_sub(1)), Some(ModelMessage::Assistant(_))));
                }
            }
        }
        prop_assert!(!matches!(messages.last(), Some(ModelMessage::Assistant(_))));
    }
}
