//! The event stream: clients that come back, come late, read slowly or vanish.

mod readers;

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::{At, Events, Frame, Gate, Step};

use crate::world::{World, calling};

/// The events that are stored: those with numbered copies on `/global/event`.
const DURABLE: [&str; 7] = [
    "session.created",
    "session.updated",
    "session.deleted",
    "message.updated",
    "message.removed",
    "message.part.updated",
    "message.part.removed",
];

/// Returns what is left of a stream without what is the stream's own: its connection, heartbeats.
fn real(frames: &[Frame]) -> Vec<Frame> {
    frames.iter().filter(|frame| frame.id.is_some()).cloned().collect()
}

fn ids(frames: &[Frame]) -> Vec<&str> {
    frames.iter().filter_map(|frame| frame.id.as_deref()).collect()
}

/// Waits until a stream has so many events with an id.
async fn until_many(events: &mut Events, count: usize) {
    while real(&events.frames()).len() < count {
        events.wait(|_| true).await;
    }
}

/// Returns the events with an id behind the one with this id. It need not be among them: a reader that is behind gets
/// deltas that came together as one.
fn behind(frames: &[Frame], last: &str) -> Vec<Frame> {
    let number = |id: &str| id.split('-').nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number");
    let is_behind = |frame: &Frame| frame.id.as_deref().is_some_and(|id| number(id) > number(last));
    frames.iter().filter(|frame| is_behind(frame)).cloned().collect()
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed_and_nothing_twice() {
    for path in ["/event", "/global/event"] {
        let world = World::start().await;
        let gate = Gate::new();
        world.model.script("long", [Step::text("word ").repeat(40).gate_at(At::Text(20), &gate)]);
        let open = async || if path == "/event" { world.wire.events().await } else { world.wire.global_events().await };
        let (mut whole, mut dropped) = (open().await, open().await);
        let session = world.wire.create_session().await;
        world.wire.prompt_async(&session, "long").await;
        gate.reached().await;
        until_many(&mut dropped, 10).await;
        let before = real(&dropped.frames());
        let last = dropped.last_id().expect("an id");
        drop(dropped);
        gate.open();
        whole.until_idle(&session).await;
        world.wire.prompt(&session, "more").await;
        whole.until_idle(&session).await;
        let mut again = world.wire.events_after(path, &last).await;
        world.wire.prompt(&session, "live").await;
        whole.until_idle(&session).await;
        let end = whole.last_id().expect("an id");
        for _ in 0..2 {
            again.until_idle(&session).await;
        }
        again.until_idle(&session).await;

        let (whole, again) = (whole.frames(), again.frames());
        let unique: std::collections::HashSet<_> = ids(&whole).into_iter().collect();
        assert_eq!(unique.len(), real(&whole).len(), "each event has an id of its own");
        let missed = behind(&whole, &last);
        assert!(missed.len() >= 20, "{}", missed.len());
        let got = real(&again);
        let upto = |frames: &[Frame]| {
            let end = frames.iter().position(|frame| frame.id.as_deref() == Some(&*end)).expect("the last event");
            frames[..=end].to_vec()
        };
        let text = text_of(&before, &session) + &text_of(&upto(&got), &session);
        assert_eq!(text, text_of(&upto(&whole), &session));
        assert_eq!(without_deltas(&upto(&got)), without_deltas(&upto(&missed)));
        assert_eq!(before.iter().filter(|frame| got.contains(frame)).count(), 0, "nothing comes twice");
        for frame in &got {
            let event = frame.event();
            assert!(event["type"].is_string() && event["id"].is_string(), "not in OpenCode's shape: {event}");
            assert!(event["properties"].is_object() || event["type"] == "sync", "not in OpenCode's shape: {event}");
        }
    }
}

/// Returns a session's streamed text: what two readers agree on, though one was given deltas in larger pieces.
fn text_of(frames: &[Frame], session: &str) -> String {
    let of_session = |event: &&Value| event["properties"]["sessionID"] == session;
    let events = frames.iter().map(Frame::event).filter(of_session);
    events.filter_map(|event| event["properties"]["delta"].as_str()).collect()
}

fn without_deltas(frames: &[Frame]) -> Vec<Frame> {
    frames.iter().filter(|frame| frame.event()["type"] != "message.part.delta").cloned().collect()
}

#[tokio::test]
async fn what_is_still_in_memory_comes_byte_for_byte_also_by_query() {
    let world = World::start().await;
    let mut whole = world.events().await;
    let session = world.wire.create_session().await;
    world.model.script("long", [Step::text("word ").repeat(30)]);
    world.wire.prompt(&session, "long").await;
    whole.until_idle(&session).await;
    let frames = real(&whole.frames());
    let last = frames[4].id.clone().expect("an id");

    let mut by_header = world.wire.events_after("/event", &last).await;
    let mut by_query = world.wire.events_after(&format!("/event?after={last}"), "").await;
    by_header.until_idle(&session).await;
    by_query.until_idle(&session).await;

    let missed = behind(&by_header.frames(), &frames[5].id.clone().expect("an id"));
    assert_eq!(real(&by_header.frames())[0], frames[5]);
    assert_eq!(real(&by_header.frames()), real(&by_query.frames()));
    let merged = |frames: &[Frame]| without_deltas(frames);
    assert_eq!(merged(&missed), merged(&behind(&whole.frames(), &frames[5].id.clone().expect("an id"))));
    assert!(!by_header.all().iter().any(|event| event["type"] == "server.resync"));
}

#[tokio::test]
async fn after_a_restart_the_stored_events_come_and_a_note_that_others_are_gone() {
    for path in ["/event", "/global/event"] {
        let mut world = World::start().await;
        let mut whole = world.wire.global_events().await;
        let session = world.wire.create_session().await;
        world.wire.prompt(&session, "first").await;
        whole.until_idle(&session).await;
        let mut dropped = world.wire.events_after(path, "").await;
        world.wire.prompt(&session, "second").await;
        dropped.until_idle(&session).await;
        whole.until_idle(&session).await;
        let last = dropped.last_id().expect("an id");
        world.wire.prompt(&session, &calling([("bash", json!({ "command": "echo x", "description": "x" }))])).await;
        whole.until_idle(&session).await;
        world.wire.patch(&format!("/session/{session}"), json!({ "title": "renamed" })).await;
        whole.wait(|event| event["properties"]["info"]["title"] == "renamed").await;
        world.service.kill9().await;
        world.service.restart().await;

        let mut again = world.wire.events_after(path, &last).await;
        again.wait_for("server.resync").await;
        again.wait(|event| event["properties"]["info"]["title"] == "renamed").await;
        world.wire.prompt(&session, "third").await;
        again.until_idle(&session).await;

        let stored = |events: &[Value]| -> Vec<Value> {
            let is_stored = |event: &&Value| DURABLE.iter().any(|kind| event["type"] == *kind);
            events.iter().filter(is_stored).cloned().collect()
        };
        let all = whole.frames();
        let seen = all.iter().position(|frame| frame.id.as_deref() == Some(&*last)).expect("the last event");
        let missed: Vec<_> = all[seen + 1..].iter().map(|frame| frame.event().clone()).collect();
        let missed = stored(&missed);
        assert!(missed.len() > 5, "{missed:?}");
        let got = stored(&again.all());
        assert_eq!(got[..missed.len()], missed[..], "{path}");
        assert_eq!(again.all()[0]["type"], "server.connected");
        let ids: Vec<_> = again.frames().into_iter().filter_map(|frame| frame.id).collect();
        assert!(ids.iter().all(|id| id.split('-').count() == 3), "{ids:?}");

        // A client that goes while it is given the stored events comes back with the id of one of them.
        let middle = again.frames().into_iter().filter_map(|frame| frame.id).nth(2).expect("an id");
        let mut third = world.wire.events_after(path, &middle).await;
        third.wait(|event| Some(event) == got.last()).await;
        let rest = stored(&third.all());
        assert_eq!(rest.len() + got.iter().position(|event| *event == rest[0]).expect("one of them"), got.len());
    }
}

#[tokio::test]
async fn numbered_copies_count_each_session_without_a_gap_also_over_a_restart() {
    let mut world = World::start().await;
    let mut events = world.wire.global_events().await;
    let sessions = [world.wire.create_session().await, world.wire.create_session().await];
    for session in &sessions {
        world.wire.prompt(session, &calling([("bash", json!({ "command": "echo x", "description": "x" }))])).await;
        events.until_idle(session).await;
    }
    world.wire.patch(&format!("/session/{}", sessions[0]), json!({ "title": "a" })).await;
    events.wait(|event| event["properties"]["info"]["title"] == "a").await;
    let mut frames = events.frames();
    world.service.restart().await;
    let mut events = world.wire.global_events().await;
    world.wire.prompt(&sessions[0], "again").await;
    events.until_idle(&sessions[0]).await;
    world.wire.delete(&format!("/session/{}", sessions[1])).await;
    events.wait_for("session.deleted").await;
    events.wait(|event| event["syncEvent"]["type"] == "session.deleted.1").await;
    frames.extend(events.frames());

    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for pair in frames.windows(2) {
        let (event, copy) = (pair[0].event(), pair[1].event());
        let is_stored = DURABLE.iter().any(|kind| event["type"] == *kind);
        assert_eq!(copy["type"] == "sync", is_stored, "{event}\n{copy}");
        if is_stored {
            let of = &copy["syncEvent"];
            assert_eq!((&of["id"], &of["data"], &copy["id"]), (&event["id"], &event["properties"], &event["id"]));
            assert_eq!(of["type"], format!("{}.1", event["type"].as_str().expect("a type")));
            let session = of["aggregateID"].as_str().expect("an id").to_owned();
            numbers.entry(session).or_default().push(of["seq"].as_u64().expect("a number"));
        }
    }
    for session in &sessions {
        let numbers = &numbers[session];
        assert!(numbers.len() > 8, "{numbers:?}");
        assert_eq!(*numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn who_comes_late_is_told_what_waits_for_a_person_and_who_comes_back_is_not() {
    let world = World::with_config(json!({ "permission": { "*": "allow", "bash": "ask" } })).await;
    let mut first = world.events().await;
    let session = world.wire.create_session().await;
    let bash = ("bash", json!({ "command": "echo x", "description": "x" }));
    world.wire.prompt_async(&session, &calling([bash])).await;
    let asked = first.wait_for("permission.asked").await;

    let frame = |events: &Events| events.frames().into_iter().find(|f| f.event()["type"] == "permission.asked");
    for mut late in [world.events().await, world.wire.global_events().await] {
        let told = late.wait_for("permission.asked").await;
        assert_eq!(told["properties"], asked["properties"]);
        assert_eq!(frame(&late).expect("a frame").id, None, "it is no event of the stream's order");
    }
    let back = world.wire.events_after("/event", &first.last_id().expect("an id")).await;
    let elsewhere = tempfile::tempdir().expect("a directory");
    let other = world.service.wire(elsewhere.path()).events().await;
    let mut events = world.events().await;
    world.wire.reply(asked["properties"]["id"].as_str().expect("an id"), "once").await;
    events.until_idle(&session).await;
    let mut last = world.events().await;
    world.wire.prompt(&world.wire.create_session().await, "hello").await;
    last.wait_for("session.idle").await;
    for stream in [&back, &other, &last] {
        assert_eq!(frame(stream), None);
    }
}

#[tokio::test]
async fn who_comes_in_the_middle_gets_the_part_so_far_and_then_the_rest() {
    let world = World::start().await;
    let gate = Gate::new();
    world.model.script("story", [Step::text("once upon a time there was").chunks(6).gate_at(At::Text(3), &gate)]);
    let mut first = world.events().await;
    let session = world.wire.create_session().await;
    world.wire.prompt_async(&session, "story").await;
    gate.reached().await;
    let so_far = |events: &Events| text_of(&events.frames(), &session);
    while so_far(&first).len() < 12 {
        first.wait_for("message.part.delta").await;
    }

    let mut late = world.events().await;
    let whole = late.wait(|event| event["properties"]["part"]["type"] == "text").await;
    let begun = whole["properties"]["part"]["text"].as_str().expect("a text").to_owned();
    gate.open();
    late.until_idle(&session).await;

    assert!(!begun.is_empty() && "once upon a time there was".starts_with(&begun), "{begun:?}");
    assert_eq!(format!("{begun}{}", so_far(&late)), "once upon a time there was");
}
