use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn session() -> SessionId {
    SessionId::parse("ses_1").expect("an id")
}

fn turn() -> Turn {
    Turn::new(session(), MessageId::parse("msg_own").expect("an id"))
}

fn event(kind: &str, properties: Value) -> Event {
    serde_json::from_value(json!({ "type": kind, "properties": properties })).expect("an event")
}

fn user(id: &str, created: u64) -> Event {
    let info = json!({
        "id": id, "sessionID": "ses_1", "role": "user", "time": { "created": created }, "agent": "build",
        "model": { "providerID": "mock", "modelID": "mock" },
    });
    event("message.updated", json!({ "sessionID": "ses_1", "info": info }))
}

fn answer(id: &str, parent: &str, more: Value) -> Event {
    let mut info = json!({
        "id": id, "sessionID": "ses_1", "role": "assistant", "parentID": parent, "time": { "created": 20 },
        "modelID": "mock", "providerID": "mock", "mode": "build", "agent": "build",
        "path": { "cwd": "/p", "root": "/p" }, "cost": 0.0,
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    info.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    event("message.updated", json!({ "sessionID": "ses_1", "info": info }))
}

fn part(id: &str, message: &str, more: Value) -> Event {
    let mut part = json!({ "id": id, "sessionID": "ses_1", "messageID": message });
    part.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    event("message.part.updated", json!({ "sessionID": "ses_1", "part": part, "time": 1 }))
}

fn text(id: &str, message: &str, text: &str, is_whole: bool) -> Event {
    let time = if is_whole { json!({ "start": 1, "end": 2 }) } else { json!({ "start": 1 }) };
    part(id, message, json!({ "type": "text", "text": text, "time": time }))
}

fn idle() -> Event {
    event("session.idle", json!({ "sessionID": "ses_1" }))
}

fn asked(id: &str, session: &str) -> Arc<PermissionRequest> {
    let request = json!({
        "id": id, "sessionID": session, "permission": "bash", "patterns": ["echo hi"], "metadata": {}, "always": [],
    });
    Arc::new(serde_json::from_value(request).expect("a request"))
}

/// The state that events lead to, as lists give it.
fn messages(events: &[Event]) -> Vec<MessageWithParts> {
    let mut messages: Vec<MessageWithParts> = Vec::new();
    for event in events {
        match event {
            Event::MessageUpdated { info, .. } => {
                messages.push(MessageWithParts { info: info.clone(), parts: Vec::new() });
            }
            Event::PartUpdated { part, .. } => messages.last_mut().expect("a message").parts.push(part.clone()),
            _ => {}
        }
    }
    messages
}

/// What a turn told, in short.
fn feed(turn: &mut Turn, events: &[Event]) -> Vec<String> {
    let told = events.iter().flat_map(|event| turn.event(event)).collect::<Vec<_>>();
    told.iter().map(short).collect()
}

fn short(told: &Told) -> String {
    match told {
        Told::Author(message) => format!("author {}", message.id()),
        Told::Part(part) => format!("part {}", part.id),
        Told::Permission(request, reply) => format!("{} {reply:?}", request.id),
        Told::Question(request) => format!("{} rejected", request.id),
        Told::Error(error) => format!("error {}", error.message()),
    }
}

#[test]
fn whole_parts_of_the_answer_are_told_once_and_in_order() {
    let mut turn = turn();
    let told = feed(
        &mut turn,
        &[
            user("msg_own", 10),
            answer("msg_a", "msg_own", json!({})),
            part("prt_1", "msg_a", json!({ "type": "step-start" })),
            text("prt_2", "msg_a", "", false),
            text("prt_2", "msg_a", "hello", true),
            text("prt_2", "msg_a", "hello", true),
            answer("msg_a", "msg_own", json!({ "finish": "stop", "time": { "created": 20, "completed": 30 } })),
        ],
    );
    assert_eq!(told, ["author msg_a", "part prt_1", "part prt_2"]);
    assert!(!turn.is_over());
    feed(&mut turn, &[idle()]);
    assert!(turn.is_over());
    assert_eq!(turn.exit(), Exit::Done);
}

#[test]
fn the_end_of_an_earlier_turn_is_not_the_prompts_and_its_answer_is_not_told() {
    let mut turn = turn();
    let before = [
        user("msg_old", 5),
        answer("msg_x", "msg_old", json!({})),
        text("prt_x", "msg_x", "old", true),
        idle(),
        user("msg_own", 10),
        user("msg_old", 5),
        answer("msg_x", "msg_old", json!({})),
        text("prt_y", "msg_x", "old too", true),
    ];
    assert_eq!(feed(&mut turn, &before), Vec::<String>::new());
    assert!(!turn.is_over());
}

#[test]
fn answers_to_prompts_that_joined_the_turn_are_told_and_summaries_are_not() {
    let mut turn = turn();
    let events = [
        user("msg_own", 10),
        user("msg_late", 11),
        answer("msg_s", "msg_late", json!({ "summary": true })),
        text("prt_s", "msg_s", "what happened so far", true),
        answer("msg_a", "msg_late", json!({})),
        text("prt_1", "msg_a", "to both", true),
    ];
    assert_eq!(feed(&mut turn, &events), ["author msg_a", "part prt_1"]);
}

#[test]
fn an_error_is_told_once_though_it_comes_twice() {
    let mut turn = turn();
    let error = json!({ "name": "UnknownError", "data": { "message": "broken" } });
    let told = feed(
        &mut turn,
        &[
            user("msg_own", 10),
            event("session.error", json!({ "sessionID": "ses_1", "error": error })),
            answer("msg_a", "msg_own", json!({ "error": error, "time": { "created": 20, "completed": 30 } })),
            idle(),
        ],
    );
    assert_eq!(told, ["error broken", "author msg_a"]);
    assert_eq!(turn.exit(), Exit::Failed);
    let message = answer("msg_a", "msg_own", json!({ "error": error, "time": { "created": 20, "completed": 30 } }));
    assert_eq!(turn.read(&messages(&[message]), None), (Vec::new(), true));
}

#[test]
fn only_the_newest_answers_error_is_the_turns() {
    let error = json!({ "name": "MessageAbortedError", "data": { "message": "interrupted" } });
    let cut = answer("msg_a", "msg_own", json!({ "error": error, "time": { "created": 20, "completed": 30 } }));
    let mut turn = turn();
    let (told, _) = turn.read(&messages(&[user("msg_own", 10), cut.clone()]), None);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), ["author msg_a", "error interrupted"]);

    let mut turn = self::turn();
    let more = answer("msg_b", "msg_own", json!({ "finish": "stop", "time": { "created": 40, "completed": 50 } }));
    let (told, is_clear) = turn.read(&messages(&[user("msg_own", 10), cut, more]), None);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), ["author msg_a", "author msg_b"]);
    assert!(is_clear && turn.exit() == Exit::Done);
}

#[test]
fn a_rejection_anywhere_in_the_tree_is_refused_work() {
    let mut turn = turn();
    turn.permission(asked("per_1", "ses_child"));
    turn.permission(asked("per_2", "ses_1"));
    let reply = |id: &str, reply: &str| {
        event("permission.replied", json!({ "sessionID": "ses_child", "requestID": id, "reply": reply }))
    };
    let told = feed(&mut turn, &[user("msg_own", 10), reply("per_2", "once"), reply("per_other", "reject")]);
    assert_eq!(told, ["per_2 Once"]);
    assert_eq!(turn.exit(), Exit::Done);
    assert_eq!(feed(&mut turn, &[reply("per_1", "reject"), reply("per_1", "reject")]), ["per_1 Reject"]);
    assert_eq!(turn.exit(), Exit::Refused);
}

#[test]
fn state_read_anew_tells_what_was_missed_and_nothing_twice() {
    let mut turn = turn();
    feed(&mut turn, &[user("msg_own", 10), answer("msg_a", "msg_own", json!({})), text("prt_1", "msg_a", "one", true)]);
    let cut =
        messages(&[user("msg_own", 10), answer("msg_a", "msg_own", json!({})), text("prt_1", "msg_a", "one", true)]);
    let (told, is_clear) = turn.read(&cut, None);
    assert_eq!((told.len(), is_clear), (0, false), "idle, but the answer isn't whole: it may be about to go on");
    let (_, is_clear) = turn.read(&cut, Some(&SessionStatus::Busy));
    assert!(is_clear && !turn.is_over());

    let done = json!({ "finish": "stop", "time": { "created": 20, "completed": 30 } });
    let whole = messages(&[
        user("msg_own", 10),
        answer("msg_a", "msg_own", done),
        text("prt_1", "msg_a", "one", true),
        text("prt_2", "msg_a", "two", true),
    ]);
    let (told, is_clear) = turn.read(&whole, None);
    assert_eq!(told.iter().map(short).collect::<Vec<_>>(), ["part prt_2"]);
    assert!(is_clear && turn.is_over());
}
