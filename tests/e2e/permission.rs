//! Permissions: what is asked, who answers it, and how far an answer reaches.

mod approval;
mod rules;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Events, Step};

use crate::world::{World, calling, completed, failed};

/// A world and its events.
struct Desk {
    world: World,
    events: Events,
}

/// What became of a call so far.
#[derive(Debug)]
enum Verdict {
    /// It ran.
    Allowed(Value),
    /// It did not; what the model was told.
    Denied(String),
    /// It waits with this request.
    Asked(Value),
}

impl Desk {
    /// Starts a world with these rules.
    async fn with_rules(rules: Value) -> Self {
        Self::with_config(json!({ "permission": rules })).await
    }

    async fn with_config(config: Value) -> Self {
        let world = World::with_config(config).await;
        let events = world.events().await;
        Self { world, events }
    }

    async fn session(&self) -> String {
        self.world.wire.create_session().await
    }

    /// Has the model make a call, and returns when it waits for a person or the turn has ended.
    async fn call(&mut self, session: &str, tool: &str, args: Value) -> Verdict {
        self.call_as(session, "build", tool, args).await
    }

    async fn call_as(&mut self, session: &str, agent: &str, tool: &str, args: Value) -> Verdict {
        let parts = json!([{ "type": "text", "text": calling([(tool, args)]) }]);
        self.world.wire.prompt_async_with(session, json!({ "agent": agent, "parts": parts })).await;
        let come = |event: &Value| {
            event["properties"]["sessionID"] == session
                && (event["type"] == "permission.asked" || event["type"] == "session.idle")
        };
        let event = self.events.wait(come).await;
        if event["type"] == "permission.asked" {
            return Verdict::Asked(event["properties"].clone());
        }
        let part = self.last(session).await;
        match part["state"]["status"].as_str() {
            Some("error") => Verdict::Denied(failed(&part).to_owned()),
            _ => Verdict::Allowed(part),
        }
    }

    /// The same with a command.
    async fn bash(&mut self, session: &str, command: &str) -> Verdict {
        self.call(session, "bash", json!({ "command": command, "description": "test" })).await
    }

    /// Answers a request, waits for the turn's end, and returns the part of the call.
    async fn reply(&mut self, request: &Value, reply: Value) -> Value {
        let session = text(&request["sessionID"]);
        assert_eq!(self.answer(request, reply).await, (200, json!(true)));
        self.events.until_idle(&session).await;
        self.last(&session).await
    }

    async fn answer(&self, request: &Value, reply: Value) -> (u16, Value) {
        self.world.wire.post(&format!("/permission/{}/reply", text(&request["id"])), reply).await
    }

    async fn last(&self, session: &str) -> Value {
        self.world.tool_parts(session).await.pop().expect("a call")
    }
}

impl Verdict {
    #[track_caller]
    fn asked(self) -> Value {
        match self {
            Self::Asked(request) => request,
            other => panic!("not asked: {other:?}"),
        }
    }

    #[track_caller]
    fn denied(self) -> String {
        match self {
            Self::Denied(text) => text,
            other => panic!("not denied: {other:?}"),
        }
    }

    #[track_caller]
    fn allowed(self) -> Value {
        match self {
            Self::Allowed(part) => completed(&part).clone(),
            other => panic!("not allowed: {other:?}"),
        }
    }
}

#[tokio::test]
async fn once_lets_the_call_run_and_a_second_answer_comes_too_late() {
    let mut desk = Desk::with_rules(json!({ "bash": "ask" })).await;
    let session = desk.session().await;
    let request = desk.bash(&session, "echo ran").await.asked();
    assert_eq!((&request["permission"], &request["patterns"]), (&json!("bash"), &json!(["echo ran"])));
    assert_eq!((&request["always"], &request["metadata"]["command"]), (&json!(["echo *"]), &json!("echo ran")));
    let call = desk.last(&session).await;
    assert_eq!(request["tool"], json!({ "messageID": call["messageID"], "callID": call["callID"] }));
    assert_eq!(desk.world.wire.permissions().await, std::slice::from_ref(&request));

    let part = desk.reply(&request, json!({ "reply": "once" })).await;

    assert_eq!(completed(&part)["output"], "ran\n");
    assert_eq!(desk.world.wire.permissions().await, [Value::Null; 0]);
    let (status, _) = desk.answer(&request, json!({ "reply": "reject" })).await;
    assert_eq!(status, 409);
    desk.events.rewind();
    let replied = desk.events.wait_for("permission.replied").await;
    let expected = json!({ "sessionID": session, "requestID": request["id"], "reply": "once" });
    assert_eq!(replied["properties"], expected);
    desk.events.skip();
    desk.bash(&session, "echo ran").await.asked();
}

#[tokio::test]
async fn a_no_ends_the_turn_and_takes_the_sessions_other_requests_along() {
    let mut desk = Desk::with_rules(json!({ "bash": "ask" })).await;
    let (session, bystander) = (desk.session().await, desk.session().await);
    let other = desk.bash(&bystander, "echo bystander").await.asked();
    let calls = ["echo one", "echo two"].map(|line| ("bash", json!({ "command": line, "description": "x" })));
    desk.world.wire.prompt_async(&session, &calling(calls)).await;
    let of_session = |event: &Value| event["type"] == "permission.asked" && event["properties"]["sessionID"] == session;
    let first = desk.events.wait(of_session).await["properties"].clone();
    desk.events.wait(of_session).await;
    let asked = desk.world.model.requests().len();

    desk.reply(&first, json!({ "reply": "reject" })).await;

    let parts = desk.world.tool_parts(&session).await;
    assert!(parts.iter().all(|part| failed(part).contains("rejected")), "{parts:?}");
    assert_eq!(desk.world.model.requests().len(), asked, "the model is not asked again");
    assert_eq!(desk.world.wire.permissions().await, [other], "another session's request still waits");
    desk.events.rewind();
    for _ in 0..2 {
        assert_eq!(desk.events.wait_for("permission.replied").await["properties"]["reply"], "reject");
    }
}

#[tokio::test]
async fn a_no_with_a_word_to_the_model_lets_the_turn_go_on() {
    let mut desk = Desk::with_rules(json!({ "bash": "ask" })).await;
    let session = desk.session().await;
    let request = desk.bash(&session, "echo one").await.asked();
    let part = desk.reply(&request, json!({ "reply": "reject", "message": "use printf instead" })).await;
    assert!(failed(&part).contains("use printf instead"));
    let requests = desk.world.model.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].body.to_string().contains("use printf instead"), "the model reads it");
}

#[tokio::test]
async fn replies_that_make_no_sense_are_refused_and_the_request_waits_on() {
    let mut desk = Desk::with_rules(json!({ "bash": "ask" })).await;
    let session = desk.session().await;
    let request = desk.bash(&session, "echo ran").await.asked();
    let path = format!("/permission/{}/reply", text(&request["id"]));
    for (path, body, status, named) in [
        (&*path, json!({ "reply": "maybe" }), 400, "reply"),
        (&path, json!({}), 400, "reply"),
        (&path, json!({ "reply": "always", "scope": "world" }), 400, "scope"),
        ("/permission/per_000000000001abcdefghijklmn/reply", json!({ "reply": "once" }), 404, "per_000000000001"),
        ("/permission/nonsense/reply", json!({ "reply": "once" }), 400, "per"),
    ] {
        let (got, answer) = desk.world.wire.post(path, body.clone()).await;
        assert_eq!(got, status, "{path} {body} {answer}");
        assert!(answer.to_string().contains(named), "{answer}");
    }
    // The older route takes the same answers.
    let older = format!("/session/{session}/permissions/{}", text(&request["id"]));
    assert_eq!(desk.world.wire.post(&older, json!({ "response": "once" })).await, (200, json!(true)));
    desk.events.until_idle(&session).await;
    assert_eq!(completed(&desk.last(&session).await)["output"], "ran\n");
    let (status, answer) = desk.world.wire.post(&older, json!({ "response": "once" })).await;
    assert_eq!(status, 409);
    assert!(answer.to_string().contains(&text(&request["id"])), "{answer}");
}

#[tokio::test]
async fn a_client_that_comes_late_is_told_of_what_waits() {
    let mut desk = Desk::with_rules(json!({ "bash": "ask" })).await;
    let session = desk.session().await;
    let request = desk.bash(&session, "echo ran").await.asked();
    let mut late = desk.world.events().await;
    assert_eq!(late.wait_for("permission.asked").await["properties"], request);
    let mut global = desk.world.wire.global_events().await;
    assert_eq!(global.wait_for("permission.asked").await["properties"], request);
    desk.reply(&request, json!({ "reply": "once" })).await;
    assert_eq!(late.wait_for("permission.replied").await["properties"]["requestID"], request["id"]);
}

#[tokio::test]
async fn a_request_of_a_grandchild_reaches_the_client_of_the_root() {
    let agent = |rules: Value| json!({ "mode": "subagent", "description": "d", "permission": rules });
    let agents = json!({ "outer": agent(json!({ "task": "allow" })), "inner": agent(json!({ "bash": "ask" })) });
    let config = json!({ "subagent_depth": 3, "permission": { "bash": "ask" }, "agent": agents });
    let mut desk = Desk::with_config(config).await;
    let task = |agent: &str, prompt: &str| {
        let args = json!({ "description": agent, "subagent_type": agent, "prompt": prompt });
        [Step::calls([support::call("task", args)]), Step::text(format!("{agent} has ended"))]
    };
    let model = &desk.world.model;
    model.script("to the root", task("outer", "to the outer one"));
    model.script("to the outer one", task("inner", "to the inner one"));
    let leaf = support::call("bash", json!({ "command": "echo leaf > leaf.txt", "description": "leaf" }));
    model.script("to the inner one", [Step::calls([leaf]), Step::text("leaf done")]);
    let root = desk.session().await;
    desk.world.wire.prompt_async(&root, "to the root").await;

    let request = desk.events.wait_for("permission.asked").await["properties"].clone();

    assert_eq!(desk.world.wire.permissions().await, std::slice::from_ref(&request));
    let inner = desk.world.wire.session(&text(&request["sessionID"])).await;
    let outer = desk.world.wire.session(&text(&inner["parentID"])).await;
    assert_eq!(outer["parentID"], json!(root));
    assert!(!desk.world.project.exists("leaf.txt"));
    assert_eq!(desk.answer(&request, json!({ "reply": "once" })).await, (200, json!(true)));
    desk.events.until_idle(&root).await;
    assert_eq!(desk.world.project.read("leaf.txt"), "leaf\n");
    assert!(desk.world.wire.parts(&root).await.iter().any(|part| part["text"] == "outer has ended"));
}

#[tokio::test]
async fn subagents_start_none_of_their_own_unless_config_and_their_rules_let_them() {
    let agent = |rules: Value| json!({ "mode": "subagent", "description": "d", "permission": rules });
    let agents = json!({ "leads": agent(json!({ "task": "allow" })), "plain": agent(json!({ "read": "allow" })) });
    for (depth, allowed) in [(json!(1), ["none", "none"]), (json!(2), ["leads", "none"]), (json!(0), ["none", "none"])]
    {
        let desk = Desk::with_config(json!({ "subagent_depth": depth, "agent": agents })).await;
        for (agent, expected) in ["leads", "plain"].into_iter().zip(allowed) {
            let args = json!({ "description": "d", "subagent_type": agent, "prompt": format!("to {agent}") });
            let prompt = format!("ask {agent}");
            desk.world.model.script(&*prompt, [Step::calls([support::call("task", args)]), Step::text("done")]);
            desk.world.model.script(format!("to {agent}"), [Step::text("child done")]);
            let root = desk.session().await;
            desk.world.wire.prompt(&root, &prompt).await;
            let offers = |needle: &str| {
                let requests = desk.world.model.requests_for(needle);
                requests.iter().any(|request| request.tool_names().contains(&"task".to_owned()))
            };
            assert!(offers(&prompt));
            assert_eq!(offers(&format!("to {agent}")), agent == expected, "{agent} at depth {depth}");
            let part = desk.last(&root).await;
            match depth == json!(0) {
                true => assert!(failed(&part).contains("subagent_depth"), "{part}"),
                false => drop(completed(&part)),
            }
        }
    }
}
