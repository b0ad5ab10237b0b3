//! Many sessions with turns of all kinds, killed together at chosen points, twice.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{At, Events, Gate, Step, call, until_gone};

use super::{LINGER, assert_settled, assert_unknown, bash, endless, ready, saying};
use crate::world::{World, completed, failed, said};

/// The prompts, each in a session of its own but `queued`, which waits behind `first`.
const PROMPTS: [&str; 10] =
    ["stream", "silent", "command", "allowed", "refused", "question", "subagent", "delegate", "first", "queued"];
/// Model requests that wait at the gate: those of `stream`, `silent`, `first` and the subagent.
const HELD: usize = 4;
/// Those of the next life: `first` is answered together with `queued`.
const HELD_AGAIN: usize = 3;

struct Rig {
    world: World,
    /// Holds what the model says.
    hold: Gate,
    sessions: BTreeMap<&'static str, String>,
    mark: String,
}

/// What waits for a person: the requests and the questions, by id.
type Waiting = (BTreeMap<String, Value>, BTreeMap<String, Value>);

fn write(file: &str) -> Value {
    json!({ "filePath": file, "content": "written\n" })
}

fn task(prompt: &str) -> Value {
    json!({ "description": "a small task", "prompt": prompt, "subagent_type": "general" })
}

impl Rig {
    /// Starts all of it, and returns when each turn is where it shall be killed.
    async fn start() -> Self {
        let permission = json!({ "*": "allow", "edit": { "*": "allow", "ask/*": "ask" } });
        let world = World::with_config(json!({ "permission": permission })).await;
        let hold = Gate::new();
        let (command, mark) = endless(&format!("sleep 7{}99 & ", std::process::id()));
        let question = json!({ "question": "Which one?", "header": "Which", "options": [
            { "label": "this", "description": "this one" }, { "label": "that", "description": "that one" },
        ] });
        world.model.script("stream", [Step::text("all of it").chunks(3).gate_at(At::Text(1), &hold)]);
        world.model.script("silent", [Step::text("at last").gate_at(At::Head, &hold)]);
        world.model.script("command", [saying("I run it", "bash", bash(&command)), Step::text("command ended")]);
        for (prompt, file) in [("allowed", "ask/1"), ("refused", "ask/2"), ("work that asks", "ask/3")] {
            world.model.script(prompt, [Step::calls([call("write", write(file))]), Step::text("written")]);
        }
        let questions = json!({ "questions": [question] });
        world.model.script("question", [Step::calls([call("question", questions)]), Step::text("answered")]);
        world.model.script("work that waits", [Step::text("child's words").gate(&hold)]);
        for (prompt, work) in [("subagent", "work that waits"), ("delegate", "work that asks")] {
            world.model.script(prompt, [Step::calls([call("task", task(work))]), Step::text("child is done")]);
        }
        world.model.script("first", [Step::text("never said").gate(&hold)]);
        world.model.script("queued", [Step::text("my turn")]);

        let mut sessions = BTreeMap::new();
        let mut events = world.events().await;
        for prompt in PROMPTS {
            let session = match prompt {
                "queued" => String::clone(&sessions["first"]),
                _ => world.wire.create_session().await,
            };
            world.wire.prompt_async(&session, prompt).await;
            sessions.insert(prompt, session);
        }
        ready(&mut events, &sessions["command"]).await;
        hold.reached_by(HELD).await;
        let rig = Self { world, hold, sessions, mark };
        rig.all_ask(&mut events).await;
        rig
    }

    /// Waits until all has asked that shall ask.
    async fn all_ask(&self, events: &mut Events) -> Waiting {
        loop {
            let waiting = self.waiting().await;
            if (waiting.0.len(), waiting.1.len()) == (3, 1) {
                return waiting;
            }
            events.wait(|event| event["type"].as_str().is_some_and(|kind| kind.ends_with(".asked"))).await;
        }
    }

    async fn waiting(&self) -> Waiting {
        let by_id = |list: Vec<Value>| list.into_iter().map(|request| (text(&request["id"]), request)).collect();
        let questions = self.world.wire.get("/question").await.1.as_array().cloned().unwrap_or_default();
        (by_id(self.world.wire.permissions().await), by_id(questions))
    }

    async fn kill_and_restart(&mut self) {
        self.world.service.kill9().await;
        until_gone(&self.mark, LINGER).await;
        until_gone(&format!("sleep 7{}99", std::process::id()), LINGER).await;
        self.world.service.restart().await;
    }

    /// Returns the request for a file.
    fn request_for(waiting: &Waiting, file: &str) -> String {
        let names = |request: &Value| request["patterns"] == json!([file]);
        let found = waiting.0.iter().find(|(_, request)| names(request));
        found.unwrap_or_else(|| panic!("no request for {file}: {waiting:?}")).0.clone()
    }

    /// Waits until nothing is busy any more.
    async fn rest(&self, events: &mut Events) {
        while self.world.wire.get("/session/status").await.1 != json!({}) {
            events.wait_for("session.idle").await;
        }
    }

    async fn messages(&self) -> BTreeMap<&'static str, Vec<Value>> {
        let mut all = BTreeMap::new();
        for (prompt, session) in &self.sessions {
            all.insert(*prompt, self.world.wire.messages(session).await);
        }
        all
    }
}

#[tokio::test]
async fn all_turns_finish_and_all_requests_wait_though_the_service_is_killed_twice() {
    let mut rig = Rig::start().await;
    let asked = rig.waiting().await;

    rig.kill_and_restart().await;
    let mut events = rig.world.events().await;
    rig.hold.reached_by(HELD + HELD_AGAIN).await;
    assert_eq!(rig.all_ask(&mut events).await, asked, "the same requests under the same ids");
    rig.kill_and_restart().await;
    let mut events = rig.world.events().await;
    rig.hold.open();
    assert_eq!(rig.all_ask(&mut events).await, asked, "the same requests under the same ids");
    let wire = &rig.world.wire;
    wire.reply(&Rig::request_for(&asked, "ask/1"), "once").await;
    wire.reply(&Rig::request_for(&asked, "ask/2"), "reject").await;
    wire.reply(&Rig::request_for(&asked, "ask/3"), "once").await;
    let question = asked.1.keys().next().expect("a question");
    let answers = json!({ "answers": [["that"]] });
    assert_eq!(wire.post(&format!("/question/{question}/reply"), answers).await, (200, json!(true)));
    rig.rest(&mut events).await;

    let messages = rig.messages().await;
    let last = |prompt: &str| said(messages[prompt].last().expect("a message"));
    assert_eq!(last("silent"), "at last");
    assert_eq!(last("command"), "command ended");
    assert_eq!(last("allowed"), "written");
    assert_eq!(last("question"), "answered");
    assert_eq!(last("subagent"), "child is done");
    assert_eq!(last("delegate"), "child is done");
    assert_eq!(last("stream"), "all of it");
    assert_eq!(last("first"), "my turn");
    let call_of = async |prompt: &str| rig.world.tool_parts(&rig.sessions[prompt]).await.remove(0);
    assert_unknown(&call_of("command").await);
    completed(&call_of("allowed").await);
    assert!(failed(&call_of("refused").await).contains("rejected"));
    assert!(completed(&call_of("question").await)["output"].to_string().contains("that"));
    assert!(completed(&call_of("subagent").await)["output"].to_string().contains("child's words"));
    completed(&call_of("delegate").await);
    assert_eq!(["ask/1", "ask/2", "ask/3"].map(|file| rig.world.project.exists(file)), [true, false, true]);
    assert_eq!(rig.waiting().await, Waiting::default());
    for (prompt, session) in &rig.sessions {
        assert_settled(&rig.world, session).await;
        let mine = messages[prompt].iter().filter(|message| said(message) == *prompt);
        assert_eq!(mine.count(), 1, "{prompt} was accepted once");
    }

    rig.world.service.terminate().await;
    rig.world.service.restart().await;
    assert_eq!(rig.messages().await, messages, "all of it is stored");
}
