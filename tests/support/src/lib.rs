//! What tests stand on: a scripted model, a project to work in, the real process, and a thin client.
//!
//! For tests only, so it panics where something is not as the test said. It knows nothing of the crates under test:
//! what it sends and reads is JSON on the wire, so that a fault in a shared type can't hide on both sides.
//!
//! - [`ScriptedModel`]: a model vendor that answers what the test wrote, and checks every request it gets.
//! - [`Project`]: a git repository in a temporary directory, configured for that model.
//! - [`Service`]: the `troupe` executable with a home of its own, to be killed and restarted.
//! - [`Wire`] and [`Events`]: requests and the event stream.
//!
//! No test needs to sleep: [`Gate`]s hold a model's stream until the test opens them, [`Events::wait`] waits for an
//! event, [`ScriptedModel::wait_for_requests`] for the model to be asked. Each wait fails after [`PATIENCE`] and says
//! what it has seen.
//!
//! ```no_run
//! use serde_json::json;
//! use support::{Gate, Project, ScriptedModel, Service, Step, call};
//!
//! # async fn test() {
//! let model = ScriptedModel::start().await;
//! let gate = Gate::new();
//! model.script("read the file", [
//!     Step::calls([call("read", json!({ "filePath": "a.txt" }))]),
//!     Step::text("it says alpha").chunks(3).gate(&gate),
//! ]);
//! let project = Project::new(&model).file("a.txt", "alpha\n").create();
//! let service = Service::new("/path/to/troupe").start().await;
//! let wire = service.wire(project.dir());
//! let mut events = wire.events().await;
//!
//! let session = wire.create_session().await;
//! wire.prompt_async(&session, "read the file").await;
//! gate.reached().await;
//! assert_eq!(model.requests().len(), 2);
//! gate.open();
//! events.until_idle(&session).await;
//! # }
//! ```

pub mod model;
pub mod npm;
pub mod process;
pub mod program;
pub mod project;
pub mod wire;

pub use model::{At, Call, Gate, Piece, Request, ScriptedModel, Step, Usage, call};
pub use process::{Home, Service, Terminal, alive, until_alive, until_gone};
pub use program::write_program;
pub use project::Project;
pub use wire::{Events, Frame, Wire};

use std::time::Duration;

/// How long a test waits for anything before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);
