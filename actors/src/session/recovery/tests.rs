use std::sync::Arc;

use pretty_assertions::assert_eq;
use protocol::message::{AssistantTime, ModelRef, UserTime};
use protocol::part::{Span, Started, TextPart, ToolPart};
use protocol::{CallId, SessionId, UserMessage};
use serde_json::json;
use storage::store::StoredPart;

use super::*;

fn session() -> SessionId {
    SessionId::parse("ses_1").expect("an id")
}

fn msg(n: u32) -> MessageId {
    MessageId::parse(&format!("msg_{n}")).expect("an id")
}

fn prt(n: u32) -> PartId {
    PartId::parse(&format!("prt_{n}")).expect("an id")
}

fn user(n: u32) -> (Arc<Message>, Vec<StoredPart>) {
    let message = UserMessage {
        id: msg(n),
        session_id: session(),
        time: UserTime { created: u64::from(n) },
        format: None,
        summary: None,
        agent: "build".into(),
        model: ModelRef { provider_id: "p".into(), model_id: "m".into(), variant: None },
        system: None,
        tools: None,
        troupe: None,
    };
    (Arc::new(Message::User(message)), Vec::new())
}

fn answer(n: u32, parent: u32, is_open: bool, kinds: Vec<(u32, PartKind)>) -> (Arc<Message>, Vec<StoredPart>) {
    let message = AssistantMessage {
        time: AssistantTime { created: u64::from(n), completed: (!is_open).then_some(u64::from(n)) },
        ..AssistantMessage::begun(msg(n), session(), msg(parent), 0)
    };
    let part = |(id, kind)| StoredPart {
        part: Arc::new(Part { id: prt(id), session_id: session(), message_id: msg(n), kind }),
        started: false,
    };
    (Arc::new(Message::Assistant(message)), kinds.into_iter().map(part).collect())
}

fn call(tool: &str, is_running: bool) -> PartKind {
    let state = if is_running {
        ToolState::Running { input: json!({ "a": 1 }), title: None, metadata: None, time: Started { start: 5 } }
    } else {
        ToolState::Pending { input: json!({}), raw: String::new() }
    };
    PartKind::Tool(ToolPart { call_id: CallId::new("c"), tool: tool.into(), state, metadata: None })
}

fn text() -> PartKind {
    let time = Some(Span { start: 5, end: None });
    PartKind::Text(TextPart { text: "half".into(), time, ..TextPart::default() })
}

fn turn(n: u32, attempt: u32) -> TurnRow {
    TurnRow { session_id: session(), message_id: msg(n), kind: TurnKind::Prompt, attempt, resets: 0, time: 1 }
}

struct World {
    history: History,
    turns: Vec<TurnRow>,
    started: HashSet<PartId>,
    mode: Recovery,
    after_crash: bool,
    waits_for_person: bool,
    is_orphan: bool,
}

impl World {
    fn new(stored: Vec<(Arc<Message>, Vec<StoredPart>)>, turns: Vec<TurnRow>) -> Self {
        let (history, _) = History::from_stored(stored);
        let started = HashSet::new();
        Self {
            history,
            turns,
            started,
            mode: Recovery::Resume,
            after_crash: true,
            waits_for_person: false,
            is_orphan: false,
        }
    }

    fn settle(&mut self) -> Settled {
        let situation = Situation {
            started: &self.started,
            repeatable: &|tool| tool == "read",
            mode: self.mode,
            after_crash: self.after_crash,
            waits_for_person: self.waits_for_person,
            is_orphan: self.is_orphan,
            now: 100,
        };
        settle(&mut self.history, &mut self.turns, &situation)
    }

    fn state(&self, message: u32, part: u32) -> ToolState {
        let part = self.history.part(&msg(message), &prt(part)).expect("a part");
        part.as_tool().expect("a tool").state.clone()
    }

    fn info(&self, n: u32) -> AssistantMessage {
        self.history.get(&msg(n)).and_then(|entry| entry.info.as_assistant()).expect("an answer").clone()
    }
}

fn error(state: &ToolState) -> &str {
    match state {
        ToolState::Error { error, .. } => error,
        other => panic!("no error: {other:?}"),
    }
}

#[test]
fn a_call_with_effects_is_not_run_again_and_the_model_is_told() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, text()), (2, call("bash", true))])];
    let mut world = World::new(stored, vec![turn(1, 0)]);
    world.started.insert(prt(2));
    let settled = world.settle();
    assert!(settled.rerun.is_none());
    assert_eq!(error(&world.state(2, 2)), UNKNOWN);
    let info = world.info(2);
    assert_eq!((info.time.completed, info.finish.as_deref(), info.error), (Some(100), Some("tool-calls"), None));
    assert_eq!(settled.tried, [msg(1)], "the turn goes on, tried once more");
}

#[test]
fn calls_that_only_asked_or_do_no_harm_run_again() {
    let calls =
        vec![(1, call("bash", true)), (2, call("read", true)), (3, call("edit", true)), (4, call("glob", false))];
    let mut world = World::new(vec![user(1), answer(2, 1, true, calls)], vec![turn(1, 0)]);
    world.started.extend([prt(2), prt(3)]);
    let settled = world.settle();
    let rerun = settled.rerun.expect("calls to run again");
    let parts: Vec<_> = rerun.parts.iter().map(|part| part.id.clone()).collect();
    assert_eq!(parts, [prt(1), prt(2)], "bash only asked; read does no harm");
    assert_eq!(error(&world.state(2, 3)), UNKNOWN);
    assert_eq!(error(&world.state(2, 4)), NOT_RUN);
    assert_eq!(world.info(2).time.completed, None, "the step is still open");
}

#[test]
fn a_message_that_was_being_written_is_closed_with_its_text() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, text())])];
    let mut world = World::new(stored, vec![turn(1, 0)]);
    let settled = world.settle();
    assert!(settled.closed.is_empty() && settled.error.is_none());
    let info = world.info(2);
    assert!(matches!(info.error, Some(SessionError::MessageAbortedError { .. })));
    let part = world.history.part(&msg(2), &prt(1)).expect("a part");
    assert_eq!(part.as_text(), Some("half"));
}

#[test]
fn a_wait_for_a_person_counts_no_attempt() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, call("bash", true))])];
    let mut world = World::new(stored, vec![turn(1, 2)]);
    world.waits_for_person = true;
    let settled = world.settle();
    assert!(settled.rerun.is_some() && settled.tried.is_empty());
}

#[test]
fn after_three_attempts_the_turn_is_closed_and_the_queue_goes_on() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, call("read", true))]), user(3)];
    let mut world = World::new(stored, vec![turn(1, MAX_ATTEMPTS - 1), turn(3, 0)]);
    let settled = world.settle();
    assert!(settled.rerun.is_none() && settled.error.is_some());
    assert_eq!(settled.closed, [msg(1)]);
    assert_eq!(world.turns, [turn(3, 0)], "the prompt that only waited still runs");
    assert!(world.info(2).error.is_some());
}

#[test]
fn interrupt_closes_what_was_begun() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, call("read", true))])];
    let mut world = World::new(stored, vec![turn(1, 0)]);
    world.mode = Recovery::Interrupt;
    let settled = world.settle();
    assert_eq!(settled.closed, [msg(1)]);
    assert_eq!(error(&world.state(2, 1)), UNKNOWN);
    assert!(world.info(2).error.is_some() && world.turns.is_empty());
}

#[test]
fn a_prompt_that_was_never_begun_just_runs() {
    let mut world = World::new(vec![user(1)], vec![turn(1, 0)]);
    world.after_crash = false;
    let settled = world.settle();
    assert!(settled.changes.is_empty() && settled.rerun.is_none());
    assert_eq!(world.turns, [turn(1, 0)]);
}

#[test]
fn a_prompt_that_may_have_caused_the_crash_before_it_left_anything_is_counted_and_in_the_end_closed() {
    for mode in [Recovery::Resume, Recovery::Interrupt] {
        let mut world = World::new(vec![user(1), user(2)], vec![turn(1, 0), turn(2, 0)]);
        world.mode = mode;
        let settled = world.settle();
        assert!(settled.closed.is_empty(), "it was accepted, so it runs");
        assert_eq!(settled.tried, [msg(1)]);
    }
    let mut world = World::new(vec![user(1), user(2)], vec![turn(1, MAX_ATTEMPTS - 1), turn(2, 0)]);
    let settled = world.settle();
    assert_eq!((settled.closed, settled.error.is_some()), (vec![msg(1)], true));
    assert_eq!(world.turns, [turn(2, 0)]);
}

#[test]
fn a_store_that_was_meddled_with_is_closed_too() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, call("read", false))])];
    let mut world = World::new(stored, Vec::new());
    world.settle();
    assert_eq!(error(&world.state(2, 1)), NOT_RUN);
    assert!(world.info(2).error.is_some());
}

#[test]
fn a_subagent_nobody_waits_for_is_closed() {
    let stored = vec![user(1), answer(2, 1, true, vec![(1, text())])];
    let mut world = World::new(stored, vec![turn(1, 0)]);
    world.is_orphan = true;
    assert_eq!(world.settle().closed, [msg(1)]);
}

#[test]
fn a_turn_whose_prompt_can_not_be_read_is_closed_and_the_next_goes_on() {
    let mut world = World::new(vec![user(2)], vec![turn(1, 1), turn(2, 0)]);
    let settled = world.settle();
    assert_eq!(settled.closed, [msg(1)]);
    assert!(settled.error.is_none() && matches!(&settled.changes[..], [Change::TurnClosed(_, id)] if *id == msg(1)));
    assert_eq!(world.turns, [turn(2, 0)]);
}
