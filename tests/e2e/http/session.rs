//! Sessions, their messages and parts.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::{Method, text};
use support::{Step, Wire};

use super::get;
use crate::world::{World, calling, completed, said};

/// Returns the ids of what is listed.
fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap_or_else(|| panic!("no list: {list}")).iter().map(|item| text(&item["id"])).collect()
}

#[tokio::test]
async fn a_session_is_made_read_changed_listed_and_taken_out() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session =
        world.wire.create_session_with(json!({ "title": "mine", "metadata": { "a": 1 }, "unknown": true })).await;
    let id = text(&session["id"]);
    assert!(id.starts_with("ses_") && id.len() == 30, "{id}");
    assert_eq!((&session["title"], &session["directory"]), (&json!("mine"), &json!(world.project.dir())));
    assert_eq!((&session["path"], &session["metadata"]), (&json!(""), &json!({ "a": 1 })));
    assert_eq!(events.wait_for("session.created").await["properties"], json!({ "sessionID": id, "info": session }));
    assert_eq!(world.wire.session(&id).await, session);

    let (_, bare) = world.wire.send(Method::POST, "/session", None).await.expect("an answer");
    assert!(text(&bare["title"]).starts_with("New session - "), "a body is not needed");
    let changed =
        world.wire.patch(&format!("/session/{id}"), json!({ "title": "yours", "metadata": { "b": 2 } })).await;
    assert_eq!((changed.0, &changed.1["title"], &changed.1["metadata"]), (200, &json!("yours"), &json!({ "b": 2 })));
    assert_eq!(changed.1["time"]["updated"], session["time"]["updated"], "a change is no use of it");
    assert_eq!(events.wait_for("session.updated").await["properties"]["info"]["title"], "yours");
    let archived = world.wire.patch(&format!("/session/{id}"), json!({ "time": { "archived": 5 } })).await.1;
    assert_eq!(archived["time"]["archived"], 5);

    let first = text(&bare["id"]);
    world.wire.prompt(&id, "hello").await;
    assert_eq!(ids(&get(&world, "/session").await), [id.clone(), first.clone()], "what was used last comes first");
    assert_eq!(ids(&get(&world, "/session?search=YOURS").await), std::slice::from_ref(&id));
    assert_eq!(ids(&get(&world, "/session?limit=1").await), std::slice::from_ref(&id));
    let start = world.wire.session(&id).await["time"]["updated"].clone();
    assert_eq!(ids(&get(&world, &format!("/session?start={start}")).await), std::slice::from_ref(&id));

    assert_eq!(world.wire.delete(&format!("/session/{id}")).await, (200, json!(true)));
    assert_eq!(events.wait_for("session.deleted").await["properties"]["sessionID"], json!(id));
    assert_eq!(world.wire.get(&format!("/session/{id}")).await.0, 404);
    assert_eq!(world.wire.get(&format!("/session/{id}/message")).await.0, 404);
    assert_eq!(ids(&get(&world, "/session").await), [first]);
}

#[tokio::test]
async fn children_are_listed_by_their_parent_and_go_with_it_the_children_first() {
    let world = World::start().await;
    let mut events = world.events().await;
    let parent = world.wire.create_session().await;
    let child = world.wire.create_session_with(json!({ "parentID": parent })).await;
    assert!(text(&child["title"]).starts_with("Child session - "));
    let child = text(&child["id"]);
    let grandchild = text(&world.wire.create_session_with(json!({ "parentID": child })).await["id"]);
    assert_eq!(ids(&get(&world, &format!("/session/{parent}/children")).await), std::slice::from_ref(&child));
    assert_eq!(ids(&get(&world, "/session?roots=true").await), std::slice::from_ref(&parent));
    assert_eq!(ids(&get(&world, "/session").await).len(), 3);
    world.wire.delete(&format!("/session/{parent}")).await;
    for id in [grandchild, child, parent] {
        assert_eq!(events.wait_for("session.deleted").await["properties"]["sessionID"], json!(id));
        assert_eq!(world.wire.get(&format!("/session/{id}")).await.0, 404);
    }
}

#[tokio::test]
async fn a_fork_has_the_messages_before_the_named_one_and_goes_its_own_way() {
    let world = World::start().await;
    let rules = json!([{ "permission": "bash", "pattern": "rm *", "action": "deny" }]);
    let session = text(&world.wire.create_session_with(json!({ "title": "t", "permission": rules })).await["id"]);
    world.model.script("first", [Step::text("one")]).script("second", [Step::text("two")]);
    world.wire.prompt(&session, "first").await;
    world.wire.prompt(&session, "second").await;
    let messages = world.wire.messages(&session).await;
    let second = &messages[2]["info"]["id"];

    let (status, fork) = world.wire.post(&format!("/session/{session}/fork"), json!({ "messageID": second })).await;

    assert_eq!((status, &fork["title"], &fork["parentID"]), (200, &json!("t (fork #1)"), &Value::Null));
    assert_eq!(fork["permission"], rules, "what was denied stays denied");
    let id = text(&fork["id"]);
    let copies = world.wire.messages(&id).await;
    assert_eq!(copies.iter().map(said).collect::<Vec<_>>(), ["first", "one"]);
    assert_ne!(copies[0]["info"]["id"], messages[0]["info"]["id"]);
    assert_eq!(copies[1]["info"]["parentID"], copies[0]["info"]["id"]);
    world.model.script("third", [Step::text("three")]);
    assert_eq!(said(&world.wire.prompt(&id, "third").await), "three");
    assert_eq!(world.model.requests_for("third")[0].texts("assistant"), ["one"]);
    assert_eq!(world.wire.messages(&session).await, messages);
    let (_, whole) = world.wire.post(&format!("/session/{id}/fork"), json!({})).await;
    assert_eq!(whole["title"], "t (fork #2)");
    assert_eq!(world.wire.messages(&text(&whole["id"])).await.len(), 4);
}

/// Returns a page of messages and the cursor of the next.
async fn page(wire: &Wire, session: &str, query: &str) -> (Vec<Value>, Option<String>) {
    let response =
        wire.request(Method::GET, &format!("/session/{session}/message{query}")).send().await.expect("a page");
    let header = |name| response.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
    let (cursor, link) = (header("x-next-cursor"), header("link"));
    assert_eq!(cursor.is_some(), link.is_some());
    if let (Some(cursor), Some(link)) = (&cursor, link) {
        assert!(link.contains(&format!("before={cursor}")) && link.ends_with("; rel=\"next\""), "{link}");
        assert_eq!(header("access-control-expose-headers").as_deref(), Some("Link, X-Next-Cursor"));
    }
    (response.json().await.expect("a list"), cursor)
}

#[tokio::test]
async fn messages_are_read_in_pages_from_the_newest_back() {
    let world = World::start().await;
    let session = world.wire.create_session().await;
    for n in 0..4 {
        let parts = json!([{ "type": "text", "text": format!("note {n}") }]);
        world.wire.prompt_with(&session, json!({ "noReply": true, "parts": parts })).await;
    }
    world.wire.prompt(&session, "hello").await;
    let all = world.wire.messages(&session).await;
    assert_eq!(all.len(), 6);
    let (newest, cursor) = page(&world.wire, &session, "?limit=4").await;
    assert_eq!(newest, all[2..]);
    let cursor = cursor.expect("there are more");
    let (rest, end) = page(&world.wire, &session, &format!("?limit=4&before={cursor}")).await;
    assert_eq!((rest.as_slice(), end), (&all[..2], None));
    assert_eq!(page(&world.wire, &session, "?limit=6").await, (all.clone(), None));
    // One at a time gives each once.
    let (mut seen, mut query) = (Vec::new(), "?limit=1".to_owned());
    loop {
        let (mut one, next) = page(&world.wire, &session, &query).await;
        seen.append(&mut one);
        let Some(next) = next else { break };
        query = format!("?limit=1&before={next}");
    }
    seen.reverse();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn messages_and_parts_are_changed_and_taken_out() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    world.model.script("say it", [Step::text("a word too many")]);
    let answer = world.wire.prompt(&session, "say it").await;
    let message = text(&answer["info"]["id"]);
    let mut part =
        answer["parts"].as_array().expect("parts").iter().find(|part| part["type"] == "text").cloned().expect("a text");
    let path = format!("/session/{session}/message/{message}/part/{}", text(&part["id"]));
    part["text"] = json!("a word");

    assert_eq!(world.wire.patch(&path, part.clone()).await, (200, part.clone()));

    let changed = |event: &Value| event["type"] == "message.part.updated" && event["properties"]["part"] == part;
    events.wait(changed).await;
    assert_eq!(said(&get(&world, &format!("/session/{session}/message/{message}")).await), "a word");
    world.wire.prompt(&session, "go on").await;
    assert!(
        world.model.requests()[1].texts("assistant").contains(&"a word".to_owned()),
        "the model reads it as it is now"
    );
    let mut stranger = part.clone();
    stranger["id"] = json!("prt_000000000001abcdefghijklmn");
    assert_eq!(world.wire.patch(&path, stranger).await.0, 400);
    let mut other_kind = part.clone();
    other_kind["type"] = json!("snapshot");
    other_kind["snapshot"] = json!("x");
    assert_eq!(world.wire.patch(&path, other_kind).await.0, 400);

    assert_eq!(world.wire.delete(&path).await, (200, json!(true)));
    let gone = events.wait_for("message.part.removed").await;
    assert_eq!(gone["properties"], json!({ "sessionID": session, "messageID": message, "partID": part["id"] }));
    assert_eq!(world.wire.delete(&path).await.0, 404);
    assert_eq!(world.wire.delete(&format!("/session/{session}/message/{message}")).await, (200, json!(true)));
    assert_eq!(
        events.wait_for("message.removed").await["properties"],
        json!({ "sessionID": session, "messageID": message })
    );
    assert_eq!(world.wire.get(&format!("/session/{session}/message/{message}")).await.0, 404);
    assert_eq!(world.wire.messages(&session).await.len(), 3);
    world.model.assert_legal();
}

#[tokio::test]
async fn a_command_of_the_person_runs_without_the_model_which_reads_of_it_later() {
    let world = World::start().await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let body = json!({ "agent": "build", "command": "echo from the person; exit 3" });

    let (status, answer) = world.wire.post(&format!("/session/{session}/shell"), body).await;

    assert_eq!((status, &answer["info"]["role"]), (200, &json!("assistant")));
    let part = answer["parts"].as_array().expect("parts").iter().find(|part| part["type"] == "tool").expect("a call");
    let state = completed(part);
    assert_eq!((&part["tool"], &state["input"]["command"]), (&json!("bash"), &json!("echo from the person; exit 3")));
    assert!(text(&state["output"]).starts_with("from the person\n"));
    events.until_idle(&session).await;
    assert_eq!(world.model.requests().len(), 0);
    world.wire.prompt(&session, "and?").await;
    let calls = world.model.requests()[0].calls();
    assert!(
        matches!(&*calls, [(name, _, Some(result))] if name == "bash" && result.starts_with("from the person")),
        "{calls:?}"
    );
}

#[tokio::test]
async fn the_diff_of_a_session_is_what_all_its_turns_changed_together() {
    let world = World::start().await;
    world.project.write("f.txt", "one\ntwo\n");
    let session = world.wire.create_session().await;
    let edit = |old: &str, new: &str| json!({ "filePath": "f.txt", "oldString": old, "newString": new });
    world.call_in(&session, "edit", edit("one", "1")).await;
    world.call_in(&session, "edit", edit("two", "2\n3")).await;
    let mut events = world.events().await;
    let write = ("write", json!({ "filePath": "g.txt", "content": "new\n" }));
    world.wire.prompt(&session, &calling([write])).await;
    // The last summary may come behind the turn's end.
    let wanted = |diff: &Value| ids_of(diff) == ["f.txt", "g.txt"];
    let mut diff = get(&world, &format!("/session/{session}/diff")).await;
    while !wanted(&diff) {
        events.wait_for("session.diff").await;
        diff = get(&world, &format!("/session/{session}/diff")).await;
    }
    let counts: Vec<_> = diff
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| (file["additions"].clone(), file["deletions"].clone(), file["status"].clone()))
        .collect();
    assert_eq!(json!(counts), json!([[3, 2, "modified"], [1, 0, "added"]]));
    for line in ["-one", "-two", "+1", "+2", "+3"] {
        assert!(text(&diff[0]["patch"]).contains(line), "{diff}");
    }
}

fn ids_of(diff: &Value) -> Vec<String> {
    diff.as_array().expect("a list").iter().map(|file| text(&file["file"])).collect()
}
