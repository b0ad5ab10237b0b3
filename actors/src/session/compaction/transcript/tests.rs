use std::sync::Arc;

use pretty_assertions::assert_eq;
use protocol::Message;

use super::*;
use crate::session::samples::{assistant, compaction, msg, summary, text, user};

fn ids(entries: &[&Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.info.id().to_string()).collect()
}

fn refs(history: &[Entry]) -> Vec<&Entry> {
    history.iter().collect()
}

#[test]
fn the_newest_messages_that_fit_are_kept() {
    let history: Vec<Entry> = (0..6)
        .map(|n| if n % 2 == 0 { user(n, vec![text(&"x".repeat(400))]) } else { assistant(n, n - 1, vec![text("y")]) })
        .collect();
    let head = select(&refs(&history), 110, None);
    assert_eq!((ids(&head.entries).len(), head.tail_start), (3, Some(msg(3))));
}

#[test]
fn nothing_is_kept_where_nothing_would_be_left_to_summarise() {
    let history = [user(0, vec![text("a")]), assistant(1, 0, vec![text("b")])];
    let head = select(&refs(&history), 1000, None);
    assert_eq!((head.entries.len(), head.tail_start), (2, None));
}

#[test]
fn no_more_turns_are_kept_than_the_settings_say() {
    let history: Vec<Entry> = (0..4).map(|n| user(n, vec![text("x")])).collect();
    assert_eq!(select(&refs(&history), 1000, Some(1)).tail_start, Some(msg(3)));
    assert_eq!(select(&refs(&history), 1000, Some(0)).tail_start, None);
}

#[test]
fn a_request_keeps_its_size_and_the_beginning_and_end_of_each_piece() {
    let long = format!("first{}last", "m".repeat(50_000));
    let history = [user(0, vec![text(&long)]), assistant(1, 0, vec![text("short answer")])];
    let said = request(&View::of(&history), &select(&refs(&history), 0, None), 8_000);
    assert!(said.len() < 9_000, "{}", said.len());
    assert!(said.contains("first") && said.contains("last") && said.contains("short answer"));
}

#[test]
fn the_summary_before_is_summarised_again_and_what_it_stands_for_is_not() {
    let history = [
        user(0, vec![text("oldest")]),
        compaction(1, None),
        summary(2, 1, "earlier notes"),
        user(3, vec![text("newest")]),
    ];
    let view = View::of(&history);
    assert_eq!(ids(&view.since), ["msg_3"]);
    let said = request(&view, &select(&view.since, 0, None), 10_000);
    assert!(said.contains("earlier notes") && said.contains("newest") && !said.contains("oldest"));
}

#[test]
fn a_compaction_without_a_whole_summary_hides_nothing() {
    let mut broken = summary(2, 1, "half");
    if let Message::Assistant(message) = Arc::make_mut(&mut broken.info) {
        message.finish = None;
    }
    let history = [user(0, vec![text("a")]), compaction(1, None), broken, user(3, vec![text("b")])];
    let view = View::of(&history);
    assert!(view.summary.is_none());
    assert_eq!(ids(&view.since), ["msg_0", "msg_3"]);
}

#[test]
fn kept_messages_are_seen_after_the_summary() {
    let history = [
        user(0, vec![text("a")]),
        user(1, vec![text("kept")]),
        compaction(2, Some(1)),
        summary(3, 2, "notes"),
        user(4, vec![text("new")]),
    ];
    let view = View::of(&history);
    assert_eq!((ids(&view.tail), ids(&view.since)), (vec!["msg_1".to_owned()], vec!["msg_4".to_owned()]));
}
