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

    /// Returns the events of the project from now on.
    pub async fn events(&self) -> Events {
        self.wire.events().await
    }
}

/// Returns the text of a message as `POST /session/:id/message` answers it: `{info, parts}`.
pub fn said(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap_or_else(|| panic!("no message: {message}"));
    parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str()).collect()
}
