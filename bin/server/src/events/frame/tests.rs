use pretty_assertions::assert_eq;
use protocol::{Event, EventId, MessageId, PartId, SessionId};
use serde_json::{Value, json};
use storage::frame::Durable;

use super::*;

fn origin(directory: &str) -> Arc<Origin> {
    Arc::new(Origin { directory: directory.into(), project: "p".into() })
}

fn delta(seq: u64, part: &str, text: &str) -> Arc<Entry> {
    let delta = Delta {
        session_id: SessionId::parse("ses_1").expect("an id"),
        message_id: MessageId::parse("msg_1").expect("an id"),
        part_id: PartId::parse(part).expect("an id"),
        text: text.into(),
    };
    entry(seq, "/d", "message.part.delta", Body::Delta(Arc::new(delta)), false)
}

fn entry(seq: u64, directory: &str, kind: &'static str, body: Body, is_copy: bool) -> Arc<Entry> {
    let durable = matches!(body, Body::Json(_)).then_some(Durable { seq: 4, row: 9 });
    let frame = Frame {
        id: EventId::parse("evt_1").expect("an id"),
        kind,
        origin: origin(directory),
        session_id: SessionId::parse("ses_1").ok(),
        durable,
        body,
    };
    Arc::new(Entry { seq, row: 9, frame, is_copy })
}

fn durable(seq: u64, directory: &str) -> [Arc<Entry>; 2] {
    let body = || Body::Json(storage::Properties::whole(r#"{"sessionID":"ses_1"}"#.into()));
    [
        entry(seq, directory, "session.updated", body(), false),
        entry(seq + 1, directory, "session.updated", body(), true),
    ]
}

/// The ids and data of what was written.
fn read(out: &BytesMut) -> Vec<(Option<String>, Value)> {
    let text = std::str::from_utf8(out).expect("text");
    assert!(text.is_empty() || text.ends_with("\n\n"));
    text.split_terminator("\n\n")
        .map(|frame| {
            let (id, data) = match frame.split_once('\n') {
                Some((id, data)) => (Some(id.strip_prefix("id: ").expect("an id").to_owned()), data),
                None => (None, frame),
            };
            (id, serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON"))
        })
        .collect()
}

fn written(scope: Scope, entries: &[Arc<Entry>]) -> Vec<(Option<String>, Value)> {
    let mut out = BytesMut::new();
    Frames { scope }.entries(&mut out, "boot", entries);
    read(&out)
}

fn here() -> Scope {
    Scope::Directory("/d".into())
}

#[test]
fn adjacent_deltas_of_one_part_are_one_under_the_last_id() {
    let entries = [delta(1, "prt_1", "a\""), delta(2, "prt_1", "b"), delta(3, "prt_2", "c"), delta(4, "prt_1", "d")];
    let seen = written(here(), &entries);
    let texts: Vec<_> =
        seen.iter().map(|(id, data)| (id.clone().unwrap_or_default(), &data["properties"]["delta"])).collect();
    let wanted = [("boot-2-9", json!("a\"b")), ("boot-3-9", json!("c")), ("boot-4-9", json!("d"))];
    assert_eq!(texts, wanted.iter().map(|(id, text)| (id.to_string(), text)).collect::<Vec<_>>());
    let whole = json!({
        "id": "evt_1", "type": "message.part.delta",
        "properties": { "sessionID": "ses_1", "messageID": "msg_1", "partID": "prt_1", "field": "text", "delta": "d" },
    });
    assert_eq!(seen[2].1, whole);
}

#[test]
fn events_of_other_directories_and_copies_are_left_out_and_part_no_deltas() {
    let [elsewhere, elsewhere_copy] = durable(2, "/other");
    let [_, copy] = durable(4, "/d");
    let entries = [delta(1, "prt_1", "a"), elsewhere, elsewhere_copy, copy, delta(6, "prt_1", "b")];
    let seen = written(here(), &entries);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1["properties"]["delta"], "ab");
    assert_eq!(written(here(), &entries[1..4]), []);
}

#[test]
fn all_directories_come_with_theirs_and_durable_events_with_a_numbered_copy() {
    let seen = written(Scope::Everything, &durable(1, "/x\""));
    let around = |payload: Value| json!({ "directory": "/x\"", "project": "p", "payload": payload });
    let properties = json!({ "sessionID": "ses_1" });
    let plain = around(json!({ "id": "evt_1", "type": "session.updated", "properties": properties }));
    let copy = around(json!({
        "type": "sync", "id": "evt_1",
        "syncEvent": { "id": "evt_1", "type": "session.updated.1", "seq": 4, "aggregateID": "ses_1", "data": properties },
    }));
    assert_eq!(seen, [(Some("boot-1-9".into()), plain), (Some("boot-2-9".into()), copy)]);
}

#[test]
fn the_log_reads_as_the_stream_did_but_under_ids_of_its_own() {
    let event = LoggedEvent {
        row: 9,
        session_id: "ses_1".into(),
        seq: 4,
        id: "evt_1".into(),
        kind: "session.updated".into(),
        directory: "/d".into(),
        project: "p".into(),
        properties: r#"{"sessionID":"ses_1"}"#.into(),
    };
    for scope in [here(), Scope::Everything] {
        let mut out = BytesMut::new();
        Frames { scope: scope.clone() }.logged(&mut out, &event);
        let (ids, data): (Vec<_>, Vec<_>) = read(&out).into_iter().unzip();
        let live: Vec<Value> = written(scope, &durable(1, "/d")).into_iter().map(|(_, data)| data).collect();
        assert_eq!(data, live);
        assert_eq!(ids.last(), Some(&Some("log-0-9".to_owned())));
    }
}

#[test]
fn the_streams_own_events_have_no_id() {
    let event = || EventFrame { id: EventId::parse("evt_2").expect("an id"), event: Event::Heartbeat {} };
    let plain = json!({ "id": "evt_2", "type": "server.heartbeat", "properties": {} });
    let mut out = BytesMut::new();
    Frames { scope: here() }.own(&mut out, &event());
    Frames { scope: here() }.elsewhere(&mut out, &origin("/other"), event());
    assert_eq!(read(&out), [(None, plain.clone())]);
    let mut out = BytesMut::new();
    Frames { scope: Scope::Everything }.own(&mut out, &event());
    Frames { scope: Scope::Everything }.elsewhere(&mut out, &origin("/other"), event());
    let told_again = json!({ "directory": "/other", "project": "p", "payload": plain });
    assert_eq!(read(&out), [(None, json!({ "payload": plain })), (None, told_again)]);
}
