//! What wrong requests and wrong settings get: an answer that names the fault, and nothing is changed.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Step;
use support::wire::{Method, text};

use super::get;
use crate::world::{World, said};

const NOBODY: &str = "ses_000000000001abcdefghijklmn";
const NOTHING: &str = "msg_000000000001abcdefghijklmn";

fn prompt() -> Value {
    json!({ "parts": [{ "type": "text", "text": "x" }] })
}

#[tokio::test]
async fn what_is_not_there_is_404_by_name() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    for (method, path, body) in [
        (Method::GET, format!("/session/{NOBODY}"), None),
        (Method::PATCH, format!("/session/{NOBODY}"), Some(json!({ "title": "x" }))),
        (Method::DELETE, format!("/session/{NOBODY}"), None),
        (Method::GET, format!("/session/{NOBODY}/message"), None),
        (Method::GET, format!("/session/{NOBODY}/children"), None),
        (Method::GET, format!("/session/{NOBODY}/todo"), None),
        (Method::GET, format!("/session/{NOBODY}/diff"), None),
        (Method::POST, format!("/session/{NOBODY}/message"), Some(prompt())),
        (Method::POST, format!("/session/{NOBODY}/prompt_async"), Some(prompt())),
        (Method::POST, format!("/session/{NOBODY}/shell"), Some(json!({ "agent": "build", "command": "ls" }))),
        (Method::POST, format!("/session/{NOBODY}/fork"), Some(json!({}))),
        (Method::POST, format!("/session/{NOBODY}/abort"), None),
        (Method::GET, format!("/session/{session}/message/{NOTHING}"), None),
        (Method::DELETE, format!("/session/{session}/message/{NOTHING}"), None),
        (Method::GET, format!("/session/{session}/diff?messageID={NOTHING}"), None),
        (Method::POST, format!("/session/{session}/fork"), Some(json!({ "messageID": NOTHING }))),
    ] {
        let (status, answer) = world.wire.send(method.clone(), &path, body.as_ref()).await.expect("an answer");
        assert_eq!((status, &answer["name"]), (404, &json!("NotFoundError")), "{method} {path}: {answer}");
        let id = if path.contains(NOBODY) { NOBODY } else { NOTHING };
        assert!(text(&answer["data"]["message"]).ends_with(&format!("not found: {id}")), "{answer}");
    }
    assert_eq!(get(&world, "/session").await.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_wrong_body_query_or_id_is_400_and_names_the_place() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let message = format!("/session/{session}/message");
    let async_prompt = format!("/session/{session}/prompt_async");
    let with = |key: &str, value: Value| {
        let mut body = prompt();
        body[key] = value;
        body
    };
    for (method, path, body, named) in [
        (Method::POST, &*message, json!({}), "[\"parts\"]"),
        (Method::POST, &message, json!({ "parts": "x" }), "[\"parts\"]"),
        (Method::POST, &message, json!({ "parts": [] }), "at least one part"),
        (Method::POST, &message, json!({ "parts": [{ "text": "x" }] }), "[\"parts\"][0]"),
        (Method::POST, &message, json!({ "parts": [{ "type": "zzz" }] }), "[\"parts\"][0]"),
        (Method::POST, &message, json!({ "parts": [{ "type": "text" }] }), "[\"parts\"][0][\"text\"]"),
        (Method::POST, &message, json!([1]), "Expected object"),
        (Method::POST, &message, with("messageID", json!("abc")), "[\"messageID\"]"),
        (Method::POST, &message, with("agent", json!("zzz")), "zzz"),
        (Method::POST, &message, with("model", json!({ "providerID": "mock", "modelID": "nope" })), "nope"),
        (Method::POST, &message, with("model", json!({ "providerID": "zzz", "modelID": "nope" })), "zzz"),
        (Method::POST, &async_prompt, with("model", json!({ "providerID": "mock", "modelID": "nope" })), "nope"),
        (Method::POST, &async_prompt, with("agent", json!("zzz")), "zzz"),
        (Method::POST, "/session", json!({ "title": 5 }), "[\"title\"]"),
        (Method::POST, "/session", json!(["x"]), "Expected object"),
        (Method::POST, "/session", json!({ "parentID": "abc" }), "[\"parentID\"]"),
        (
            Method::POST,
            "/session",
            json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "maybe" }] }),
            "[\"action\"]",
        ),
        (Method::PATCH, &format!("/session/{session}"), json!({ "title": [] }), "[\"title\"]"),
        (Method::GET, "/session/abc", Value::Null, "ses"),
        (Method::GET, &format!("{message}?limit=abc"), Value::Null, "[\"limit\"]"),
        (Method::GET, &format!("{message}?limit=-1"), Value::Null, "[\"limit\"]"),
        (Method::GET, &format!("{message}?limit=2&before=zzz"), Value::Null, "before"),
        (Method::GET, "/session?roots=maybe", Value::Null, "roots"),
        (Method::GET, "/path?workspace=wrk_x", Value::Null, "wrk_x"),
        (Method::POST, &format!("/session/{session}/shell"), json!({ "command": "ls" }), "[\"agent\"]"),
        (Method::POST, &format!("/session/{session}/shell"), json!({ "agent": "zzz", "command": "ls" }), "zzz"),
        (Method::POST, "/log", json!({ "service": "x", "level": "zzz", "message": "m" }), "[\"level\"]"),
    ] {
        let sent = Some(&body).filter(|body| !body.is_null());
        let (status, answer) = world.wire.send(method.clone(), path, sent).await.expect("an answer");
        assert_eq!(status, 400, "{method} {path} {body}: {answer}");
        let message = text(&answer["data"]["message"]);
        assert!(message.contains(named), "{method} {path} {body}: {message}");
    }
    assert_eq!(world.wire.messages(&session).await, [Value::Null; 0], "nothing of it is stored");
    assert_eq!(get(&world, "/session").await.as_array().map(Vec::len), Some(1));
    assert_eq!(world.model.requests().len(), 0);
    world.model.script("still there", [Step::text("yes")]);
    assert_eq!(said(&world.wire.prompt(&session, "still there").await), "yes");
}

#[tokio::test]
async fn what_is_no_json_is_refused_whatever_it_is() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let path = format!("/session/{session}/message");
    let post = |kind: &'static str, body: Vec<u8>| {
        let request = world.wire.request(Method::POST, &path).header("content-type", kind).body(body);
        async move { request.send().await.expect("an answer").status().as_u16() }
    };
    assert_eq!(post("application/json", b"{bad".to_vec()).await, 400);
    assert_eq!(post("application/json", b"{\"parts\":[]} trailing".to_vec()).await, 400);
    assert_eq!(post("application/json", vec![0xFF, 0xFE, 0]).await, 400);
    assert_eq!(post("application/json", format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)).into()).await, 400);
    assert_eq!(post("text/plain", prompt().to_string().into()).await, 415);
    assert_eq!(post("application/x-www-form-urlencoded", b"parts=x".to_vec()).await, 415);
    assert_eq!(post("application/json; charset=utf-8", prompt().to_string().into()).await, 200);
    assert_eq!(world.wire.messages(&session).await.len(), 2);
}

#[tokio::test]
async fn broken_settings_are_named_with_their_line_and_heal_when_they_are_mended() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    let good = world.project.read("opencode.json");
    let broken = good.replacen("\"model\"", "bad \"model\"", 1);
    let invalid = good.replacen("\"disabled\"", "\"perhaps\"", 1);
    assert!(broken != good && invalid != good);
    let line = |text: &str, word: &str| text.lines().position(|line| line.contains(word)).expect("the line") + 1;
    let cases = [
        (broken.clone(), "ConfigJsonError", format!("{}", line(&broken, "bad "))),
        (invalid.clone(), "ConfigInvalidError", format!("{}", line(&invalid, "perhaps"))),
    ];
    for (text_of_file, name, line) in cases {
        world.project.write("opencode.json", &text_of_file);
        for path in ["/config", "/agent", "/config/providers"] {
            let (status, answer) = world.wire.get(path).await;
            assert_eq!((status, &answer["name"]), (400, &json!(name)), "{path}: {answer}");
            assert_eq!(answer["data"]["path"], json!(world.project.path("opencode.json")));
            assert!(text(&answer["data"]["message"]).contains(&line), "line {line}: {answer}");
        }
        let (status, answer) = world.wire.post(&format!("/session/{session}/message"), prompt()).await;
        assert_eq!((status, &answer["name"]), (400, &json!(name)), "{answer}");
        // What needs no settings goes on.
        assert_eq!(world.wire.get(&format!("/session/{session}")).await.0, 200);
        assert_eq!(get(&world, "/global/health").await["healthy"], true);
        world.project.write("opencode.json", &good);
        assert_eq!(get(&world, "/config").await["share"], "disabled");
    }
    assert_eq!(world.wire.messages(&session).await, [Value::Null; 0]);
    world.model.script("and now", [Step::text("well")]);
    assert_eq!(said(&world.wire.prompt(&session, "and now").await), "well");
}

#[tokio::test]
async fn settings_that_change_are_used_from_the_next_prompt_on() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    world.project.change_config(json!({ "permission": { "edit": "deny" }, "username": "somebody" }));
    assert_eq!(get(&world, "/config").await["username"], "somebody");
    world.wire.prompt(&session, "hello").await;
    assert!(!world.model.requests()[0].tool_names().contains(&"edit".to_owned()));
}
