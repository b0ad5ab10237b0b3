//! `always`: for whom it holds, how long, and how it is taken back.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Project, Step, call};

use super::{Desk, Verdict};
use crate::world::{calling, completed};

impl Desk {
    /// Runs `deploy x`, which is asked for, and gives this reply.
    async fn deploy(&mut self, session: &str, reply: Value) {
        let request = self.bash(session, "deploy x").await.asked();
        completed(&self.reply(&request, reply).await);
    }

    /// Whether `deploy y` of this session is asked for.
    async fn asks(&mut self, session: &str) -> bool {
        match self.bash(session, "deploy y").await {
            Verdict::Asked(request) => {
                self.world.wire.abort(&text(&request["sessionID"])).await;
                self.events.until_idle(session).await;
                true
            }
            Verdict::Allowed(_) => false,
            Verdict::Denied(text) => panic!("denied: {text}"),
        }
    }

    async fn saved(&self) -> Vec<Value> {
        let (status, body) = self.world.wire.get("/api/permission/saved").await;
        assert_eq!(status, 200, "{body}");
        body["data"].as_array().expect("a list").clone()
    }

    async fn restart(&mut self) {
        self.world.service.kill9().await;
        self.world.service.restart().await;
        self.events = self.world.events().await;
    }
}

async fn desk() -> Desk {
    Desk::with_rules(json!({ "bash": "ask" })).await
}

#[tokio::test]
async fn always_holds_for_the_session_alone_and_as_long_as_it_lives() {
    let mut desk = desk().await;
    let session = desk.session().await;
    desk.deploy(&session, json!({ "reply": "always" })).await;
    assert!(!desk.asks(&session).await, "the same session");
    let another = desk.session().await;
    assert!(desk.asks(&another).await, "another session");
    let (_, fork) = desk.world.wire.post(&format!("/session/{session}/fork"), json!({})).await;
    assert!(desk.asks(&text(&fork["id"])).await, "a fork");
    desk.restart().await;
    assert!(!desk.asks(&session).await, "the same session after a restart");
    assert!(desk.asks(&another).await, "another session after a restart");
    desk.world.wire.delete(&format!("/session/{session}")).await;
    assert_eq!(desk.saved().await, [Value::Null; 0], "it goes with its session");
}

#[tokio::test]
async fn the_reply_may_widen_it_to_the_project_which_outlives_a_restart() {
    let mut desk = desk().await;
    let session = desk.session().await;
    desk.deploy(&session, json!({ "reply": "always", "scope": "project" })).await;
    let another = desk.session().await;
    assert!(!desk.asks(&another).await);
    desk.restart().await;
    assert!(!desk.asks(&another).await);
    // Another project of the same service is not meant.
    let other = Project::new(&desk.world.model).config(json!({ "permission": { "bash": "ask" } })).create();
    let wire = desk.world.service.wire(other.dir());
    let (here, events) = (std::mem::replace(&mut desk.world.wire, wire.clone()), wire.events().await);
    let before = std::mem::replace(&mut desk.events, events);
    let stranger = desk.session().await;
    assert!(desk.asks(&stranger).await);
    (desk.world.wire, desk.events) = (here, before);
}

#[tokio::test]
async fn an_approval_is_listed_with_its_origin_and_taken_back_at_once() {
    let mut desk = desk().await;
    let session = desk.session().await;
    desk.deploy(&session, json!({ "reply": "always", "scope": "project" })).await;
    let saved = desk.saved().await;
    let [entry] = &*saved else { panic!("{saved:?}") };
    assert_eq!((&entry["action"], &entry["resource"]), (&json!("bash"), &json!("deploy *")));
    assert_eq!(
        (&entry["scope"], &entry["origin"]),
        (&json!("project"), &json!({ "sessionID": session, "agent": "build" }))
    );
    assert!(entry["time"]["created"].is_u64());
    let path = format!("/api/permission/saved/{}", text(&entry["id"]));
    assert_eq!(desk.world.wire.delete(&path).await.0, 204);
    assert_eq!(desk.saved().await, [Value::Null; 0]);
    assert!(desk.asks(&session).await);
    assert_eq!(desk.world.wire.delete(&path).await.0, 404);
    desk.restart().await;
    assert!(desk.asks(&session).await, "it does not come back");
}

#[tokio::test]
async fn it_releases_what_waits_in_the_session_and_is_now_allowed() {
    let mut desk = desk().await;
    let session = desk.session().await;
    let calls = ["deploy x", "deploy y", "other z"];
    let calls = calls.map(|line| ("bash", json!({ "command": line, "description": "x" })));
    desk.world.wire.prompt_async(&session, &calling(calls)).await;
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(desk.events.wait_for("permission.asked").await["properties"].clone());
    }
    assert_eq!(desk.answer(&requests[0], json!({ "reply": "always" })).await.0, 200);
    for _ in 0..2 {
        assert_eq!(desk.events.wait_for("permission.replied").await["properties"]["reply"], "always");
    }
    assert_eq!(desk.world.wire.permissions().await, [requests[2].clone()]);
    desk.reply(&requests[2], json!({ "reply": "once" })).await;
    for part in desk.world.tool_parts(&session).await {
        completed(&part);
    }
}

#[tokio::test]
async fn it_holds_for_the_agent_it_was_given_to_and_beats_no_deny() {
    let edit = |rules: Value| json!({ "permission": { "edit": rules } });
    let mut careful = edit(json!({ "*": "ask", "secret/*": "deny" }));
    careful["mode"] = json!("primary");
    let agents = json!({ "build": edit(json!("ask")), "plan": edit(json!("deny")), "careful": careful });
    let mut desk = Desk::with_config(json!({ "agent": agents })).await;
    let session = desk.session().await;
    let write = |file: &str| json!({ "filePath": file, "content": "x\n" });
    let request = desk.call(&session, "write", write("a.txt")).await.asked();
    completed(&desk.reply(&request, json!({ "reply": "always" })).await);
    desk.call(&session, "write", write("a2.txt")).await.allowed();

    // `plan` has no tool that edits, so the call is none.
    let part = desk.call_as(&session, "plan", "write", write("b.txt")).await.allowed();
    assert!(part["input"]["error"].is_string(), "{part}");
    desk.call_as(&session, "careful", "write", write("secret/x.txt")).await.denied();
    desk.call_as(&session, "careful", "write", write("c.txt")).await.asked();
    for file in ["b.txt", "secret", "c.txt"] {
        assert!(!desk.world.project.exists(file), "{file}");
    }
}

#[tokio::test]
async fn a_subagent_has_what_its_session_was_allowed_under_the_same_agent() {
    let agents = json!({ "worker": { "mode": "all", "description": "works", "permission": { "bash": "ask" } } });
    let mut desk = Desk::with_config(json!({ "agent": agents })).await;
    let deploy = |line: &str| json!({ "command": line, "description": "x" });
    let session = desk.session().await;
    let request = desk.call_as(&session, "worker", "bash", deploy("deploy x")).await.asked();
    completed(&desk.reply(&request, json!({ "reply": "always" })).await);
    let model = &desk.world.model;
    let task = json!({ "description": "d", "subagent_type": "worker", "prompt": "to the worker" });
    model.script("start one", [Step::calls([call("task", task)]), Step::text("root done")]);
    model.script("to the worker", [Step::calls([call("bash", deploy("deploy y"))]), Step::text("worker done")]);
    desk.world.wire.prompt(&session, "start one").await;
    assert!(text(&completed(&desk.last(&session).await)["output"]).contains("worker done"));
    assert_eq!(desk.world.wire.permissions().await, [Value::Null; 0]);
}
