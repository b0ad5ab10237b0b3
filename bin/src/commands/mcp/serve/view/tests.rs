use pretty_assertions::assert_eq;

use super::*;

fn session() -> Session {
    serde_json::from_value(json!({
        "id": "ses_1", "slug": "a-b", "projectID": "p", "directory": "/p", "title": "A title", "version": "1",
        "time": { "created": 1, "updated": 2 },
    }))
    .expect("a session")
}

fn user(id: &str, parts: Value) -> MessageWithParts {
    with_parts(
        json!({
            "id": id, "sessionID": "ses_1", "role": "user", "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "mock", "modelID": "mock" },
        }),
        id,
        parts,
    )
}

fn answer(id: &str, more: Value, parts: Value) -> MessageWithParts {
    let mut info = json!({
        "id": id, "sessionID": "ses_1", "role": "assistant", "parentID": "msg_u", "time": { "created": 20 },
        "modelID": "mock", "providerID": "mock", "mode": "build", "agent": "build",
        "path": { "cwd": "/p", "root": "/p" }, "cost": 0.0,
        "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
    });
    info.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    with_parts(info, id, parts)
}

fn with_parts(info: Value, message: &str, parts: Value) -> MessageWithParts {
    let place = |(number, part): (usize, &Value)| {
        let mut part = part.clone();
        let more = json!({ "id": format!("prt_{number}"), "sessionID": "ses_1", "messageID": message });
        part.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        part
    };
    let parts: Vec<Value> = parts.as_array().expect("parts").iter().enumerate().map(place).collect();
    serde_json::from_value(json!({ "info": info, "parts": parts })).expect("a message")
}

fn said(text: &str) -> Value {
    json!([{ "type": "text", "text": text }])
}

fn bash(state: Value) -> Value {
    let mut all = json!({ "input": { "command": "make" } });
    all.as_object_mut().expect("an object").extend(state.as_object().expect("an object").clone());
    json!([{ "type": "tool", "callID": "c", "tool": "bash", "state": all }])
}

fn told(status: Option<SessionStatus>, messages: &[MessageWithParts], permissions: &[PermissionRequest]) -> Value {
    let session = session();
    Known { session: &session, status: status.as_ref(), messages, permissions, questions: &[] }.told()
}

#[test]
fn the_answer_is_the_newest_prompts_and_never_an_older_one() {
    let first = [user("msg_1", said("one")), answer("msg_2", json!({}), said("the first"))];
    let of = |more: Vec<MessageWithParts>| told(None, &[first.to_vec(), more].concat(), &[]);
    let head = json!({ "session_id": "ses_1", "title": "A title", "state": "idle" });
    let with = |more: Value| {
        let mut all = head.clone();
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    assert_eq!(of(vec![]), with(json!({ "answer": "the first" })));
    let second = user("msg_3", said("two"));
    assert_eq!(of(vec![second.clone()]), with(json!({ "note": "the newest prompt has no answer" })));
    let steps = vec![
        second.clone(),
        answer("msg_4", json!({}), said("I look")),
        answer("msg_5", json!({}), said("the second")),
    ];
    assert_eq!(of(steps.clone()), with(json!({ "answer": "the second" })));
    // A compaction is no prompt, and its summary no answer.
    let compaction = vec![
        user("msg_6", json!([{ "type": "compaction", "auto": true }])),
        answer("msg_7", json!({ "summary": true }), said("a summary")),
    ];
    assert_eq!(of([steps, compaction].concat()), with(json!({ "answer": "the second" })));
    let error = json!({ "error": { "name": "UnknownError", "data": { "message": "it broke" } } });
    assert_eq!(of(vec![second, answer("msg_4", error, json!([]))]), with(json!({ "error": "it broke" })));
}

#[test]
fn what_it_does_and_what_it_waits_for_is_told() {
    let running = bash(json!({ "status": "running", "time": { "start": 1 } }));
    let messages = [user("msg_1", said("one")), answer("msg_2", json!({}), running)];
    let busy = told(Some(SessionStatus::Busy), &messages, &[]);
    assert_eq!((&busy["state"], &busy["doing"]), (&json!("working"), &json!(["$ make"])));

    let request: PermissionRequest = serde_json::from_value(json!({
        "id": "per_1", "sessionID": "ses_child", "permission": "edit", "patterns": ["a.rs"], "always": ["*"],
        "metadata": { "diff": "x".repeat(10_000), "filepath": "/p/a.rs", "files": ["y".repeat(10_000)] },
    }))
    .expect("a request");
    let waiting = told(Some(SessionStatus::Busy), &messages, &[request]);
    assert_eq!(waiting["state"], "waiting");
    let asked = &waiting["permissions"][0];
    assert_eq!((&asked["permission_id"], &asked["patterns"]), (&json!("per_1"), &json!(["a.rs"])));
    assert_eq!(asked["details"]["filepath"], "/p/a.rs");
    assert!(waiting.to_string().len() < 10_000, "long texts are cut");
}

#[test]
fn messages_tell_calls_and_what_came_of_them_shortened() {
    let done = json!({ "status": "completed", "output": "é".repeat(5_000), "title": "make", "metadata": {},
        "time": { "start": 1, "end": 2 } });
    let list = [user("msg_1", said("one")), answer("msg_2", json!({}), bash(done))];
    let read = messages(&list);
    assert_eq!(read[0], json!({ "role": "user", "time_ms": 1, "text": "one" }));
    let call = &read[1]["calls"][0];
    assert_eq!((&call["does"], &call["status"]), (&json!("$ make"), &json!("completed")));
    let output = call["output"].as_str().expect("a text");
    assert!(output.ends_with("[cut here: 10000 bytes in all]") && output.len() < 4_100);
}
