//! What all of them start with.

use serde_json::{Value, json};
use support::process::ServiceBuilder;
use support::{Events, Project, ScriptedModel, Service, Wire};

/// Returns the executable under test, not started yet.
pub fn troupe() -> ServiceBuilder {
    Service::new(env!("CARGO_BIN_EXE_troupe"))
}

/// A model, a project and a service that knows them.
pub struct World {
    pub model: ScriptedModel,
    pub project: Project,
    pub service: Service,
    pub wire: Wire,
}

impl World {
    /// Starts all three. In the project everything is allowed.
    pub async fn start() -> Self {
        Self::with_config(json!({ "permission": { "*": "allow" } })).await
    }

    /// Starts all three, with more in the project's config.
    pub async fn with_config(config: Value) -> Self {
        let model = ScriptedModel::start().await;
        let project = Project::new(&model).config(config).create();
        let service = troupe().start().await;
        let wire = service.wire(project.dir());
        Self { model, project, service, wire }
    }

    /// Has the model make one call in a new session, and returns the call's part when the turn has ended.
    pub async fn call(&self, tool: &str, args: Value) -> Value {
        let session = self.wire.create_session().await;
        self.call_in(&session, tool, args).await
    }

    /// Has the model make one call in a session, and returns the call's part when the turn has ended.
    pub async fn call_in(&self, session: &str, tool: &str, args: Value) -> Value {
        self.wire.prompt(session, &calling([(tool, args)])).await;
        self.tool_parts(session).await.pop().expect("a tool's part")
    }

    /// Returns the parts of a session's tool calls, from old to new.
    pub async fn tool_parts(&self, session: &str) -> Vec<Value> {
        let mut parts = self.wire.parts(session).await;
        parts.retain(|part| part["type"] == "tool");
        parts
    }

    /// Returns the events of the project from now on.
    pub async fn events(&self) -> Events {
        self.wire.events().await
    }
}

/// Returns a prompt that has the model make these calls in one message, and say `done` when they have ended.
pub fn calling<const N: usize>(calls: [(&str, Value); N]) -> String {
    let tools = Vec::from(calls.map(|(name, args)| json!({ "name": name, "args": args })));
    format!("go SCRIPT:{}", json!([{ "tools": tools }, { "text": "done" }]))
}

/// Returns the text of a message as `POST /session/:id/message` answers it: `{info, parts}`.
pub fn said(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap_or_else(|| panic!("no message: {message}"));
    parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str()).collect()
}

/// Returns the state of a call's part that went well.
#[track_caller]
pub fn completed(part: &Value) -> &Value {
    let state = &part["state"];
    assert_eq!(state["status"], "completed", "{state}");
    state
}

/// Returns what a failed call told the model.
#[track_caller]
pub fn failed(part: &Value) -> &str {
    let state = &part["state"];
    assert_eq!(state["status"], "error", "{state}");
    state["error"].as_str().expect("an error's text")
}
