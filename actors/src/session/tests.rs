//! One session, its registry a stand-in; the rest is real, the model a scripted one.

use std::time::Duration;

use pretty_assertions::assert_eq;
use protocol::prompt::PromptBody;
use protocol::session::CreateSession;
use serde_json::json;
use storage::DataDir;
use storage::places::{Environment, Places};
use support::{Gate, Project, ScriptedModel, Step};
use tokio::sync::Semaphore;

use super::*;
use crate::runtime::{Options, Runtime};
use crate::session_registry::{LastWords, SessionHandle};
use crate::supervisor::{self, FateLine, Intensity, Name};

/// Takes what a session says to its registry, and does nothing.
#[derive(Default)]
struct Registry;

impl Actor for Registry {
    type Context = Context<Self>;
}

impl Handler<Quiet> for Registry {
    type Result = ();

    fn handle(&mut self, _: Quiet, _: &mut Self::Context) {}
}

impl Handler<Leave> for Registry {
    type Result = ();

    fn handle(&mut self, _: Leave, _: &mut Self::Context) {}
}

impl Handler<AwaitTurn> for Registry {
    type Result = Result<LastWords, CommandError>;

    fn handle(&mut self, _: AwaitTurn, _: &mut Self::Context) -> Self::Result {
        Err(CommandError::Unknown)
    }
}

impl Handler<AbortSession> for Registry {
    type Result = Result<(), CommandError>;

    fn handle(&mut self, _: AbortSession, _: &mut Self::Context) -> Self::Result {
        Ok(())
    }
}

impl Handler<TakeIn> for Registry {
    type Result = ();

    fn handle(&mut self, _: TakeIn, _: &mut Self::Context) {}
}

struct World {
    _home: tempfile::TempDir,
    model: ScriptedModel,
    project: Project,
    runtime: Runtime,
    /// Where everything runs that waits: its clock goes on when that of the test stands still.
    io: Option<tokio::runtime::Runtime>,
}

impl World {
    async fn new() -> Self {
        sse::http::install_crypto();
        let home = tempfile::tempdir().expect("a directory");
        let model = ScriptedModel::start().await;
        let project = Project::new(&model).create();
        let environment = Environment::from_iter([("HOME", home.path().to_string_lossy().into_owned())]);
        let places = Places::of(&environment);
        let data = DataDir::own(&places.data).expect("a data directory");
        let options = Options { places, environment, program: None, version: "1".into() };
        let io = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let runtime = Runtime::start(&data, options, io.handle().clone()).await.expect("a runtime");
        Self { _home: home, model, project, runtime, io: Some(io) }
    }

    /// Stores a session and returns its id.
    async fn create(&self) -> SessionId {
        let body: CreateSession = serde_json::from_value(json!({ "title": "named" })).expect("a session");
        self.runtime.create(self.project.dir(), body).await.expect("a session").id
    }

    /// Starts a stored session that has a mailbox of this size.
    async fn start(&self, id: &SessionId, mailbox: usize, start: Start) -> SessionHandle {
        let runtime = &self.runtime;
        let registry = Registry.start();
        let deps = SessionDeps {
            journal: runtime.journal.clone(),
            store: runtime.store.clone(),
            ids: runtime.ids.clone(),
            clock: runtime.clock.clone(),
            broker: runtime.broker.clone(),
            gate: runtime.gate.clone(),
            workspace: runtime.workspace(self.project.dir()).await.expect("a workspace"),
            registry: RegistryLine {
                quiet: registry.clone().recipient(),
                leave: registry.clone().recipient(),
                wait: registry.clone().recipient(),
                stop: registry.clone().recipient(),
                notify: registry.recipient(),
            },
            io: runtime.io().clone(),
            processes: runtime.processes.clone(),
            locks: FileLocks::new(),
            http: Http::new("1"),
            faults: runtime.faults.clone(),
            version: runtime.version.clone(),
        };
        let (status, seen) = watch::channel(SessionStatus::idle());
        let own = id.clone();
        let (intensity, fates) = (Intensity::default(), FateLine::default());
        let make = move |lifeline| Session::new(own, deps, lifeline, status, start);
        let address =
            supervisor::start(&Arbiter::current(), Name::Session(id.clone()), intensity, &fates, mailbox, make);
        let directory = self.project.dir().to_string_lossy().into();
        SessionHandle { address, places: Arc::new(Semaphore::new(1)), status: seen, directory }
    }

    /// Stores changes of a session that isn't live.
    async fn store(&self, id: &SessionId, changes: Vec<Change>) {
        let origin = Arc::new(Origin { directory: "/".into(), project: "global".into() });
        let fence = Some(self.runtime.journal.fence(id));
        self.runtime.journal.record(Record { fence, origin, changes, room: None }).await.expect("stored");
    }

    /// Stores a prompt as it is when it is accepted, and nothing else of its turn.
    async fn accepted_before(&self, id: &SessionId, text: &str) -> MessageId {
        let message = self.runtime.ids.message();
        let user = json!({
            "id": message, "sessionID": id, "role": "user", "time": { "created": 1 }, "agent": "build",
            "model": { "providerID": "mock", "modelID": "mock" },
        });
        let part = json!({
            "id": self.runtime.ids.part(), "sessionID": id, "messageID": message, "type": "text", "text": text,
        });
        let changes = vec![
            Change::MessageUpdated(Arc::new(serde_json::from_value(user).expect("a message"))),
            Change::PartUpdated(Arc::new(serde_json::from_value(part).expect("a part"))),
            Change::Turn(turn_row(id, &message, TurnKind::Prompt, 1)),
        ];
        self.store(id, changes).await;
        message
    }

    /// Returns the texts of what is stored of a session, in order.
    async fn said(&self, id: &SessionId) -> Vec<String> {
        let (history, _) = History::from_stored(self.runtime.store.history(id).await.expect("a history"));
        history.entries().iter().map(history::Entry::own_text).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A runtime may not be dropped where tasks run.
        if let Some(io) = self.io.take() {
            io.shutdown_background();
        }
    }
}

fn body(text: &str) -> PromptBody {
    serde_json::from_value(json!({ "parts": [{ "type": "text", "text": text }] })).expect("a prompt")
}

fn prompt(text: &str) -> Prompt {
    Prompt { body: body(text), ticket: Ticket::internal(), room: None }
}

/// A ticket that has run out.
async fn late() -> Ticket {
    let place = Arc::new(Semaphore::new(1)).acquire_owned().await.expect("a place");
    Ticket::new(std::time::Instant::now() - Duration::from_millis(1), place)
}

#[actix::test]
async fn a_mailbox_of_one_takes_all_prompts_and_answers_them() {
    let world = World::new().await;
    let gate = Gate::new();
    world.model.script("held", [Step::text("first").gate(&gate)]);
    world.model.script("crowd", [Step::text("rest")]);
    let id = world.create().await;
    let session = world.start(&id, 1, Start::Stored).await;
    let first = session.address.send(prompt("held")).await.expect("a session").expect("accepted");
    gate.reached().await;

    let crowd = (0..100).map(|number| session.address.send(prompt(&format!("crowd {number}."))));
    let accepted: Vec<_> = futures::future::join_all(crowd).await;

    let ends: Vec<_> = accepted.into_iter().map(|a| a.expect("a session").expect("accepted").end).collect();
    gate.open();
    let text = |end: TurnEnd| {
        let answer = end.expect("an answer");
        answer.parts.iter().filter_map(|part| part.as_text().map(str::to_owned)).collect::<String>()
    };
    assert_eq!(text(first.end.expect("a turn").await.expect("an end")), "first");
    for end in ends {
        assert_eq!(text(end.expect("a turn").await.expect("an end")), "rest");
    }
    let mut stored = world.said(&id).await;
    stored.retain(|text| text.starts_with("crowd"));
    assert_eq!(stored.len(), 100);
    assert!((0..100).all(|number| stored.contains(&format!("crowd {number}."))), "{stored:?}");
    assert!(world.runtime.store.turns(&id).await.expect("turns").is_empty());
}

#[actix::test]
async fn a_command_that_waited_too_long_is_refused_and_nothing_of_it_is_stored() {
    let world = World::new().await;
    let id = world.create().await;
    let session = world.start(&id, 8, Start::Stored).await;
    let is_late =
        |refused: Result<(), CommandError>| assert!(matches!(refused, Err(CommandError::Late)), "{refused:?}");

    let late_prompt = Prompt { body: body("too late"), ticket: late().await, room: None };
    is_late(session.address.send(late_prompt).await.expect("a session").map(drop));
    let shell = serde_json::from_value(json!({ "agent": "build", "command": "touch made" })).expect("a command");
    is_late(session.address.send(Shell { body: shell, ticket: late().await }).await.expect("a session").map(drop));
    let update = serde_json::from_value(json!({ "title": "other" })).expect("an update");
    is_late(session.address.send(Update { body: update, ticket: late().await }).await.expect("a session").map(drop));
    is_late(session.address.send(Fork { before: None, ticket: late().await }).await.expect("a session").map(drop));

    assert_eq!(world.said(&id).await, [""; 0]);
    assert!(!world.project.exists("made"));
    assert_eq!(world.runtime.store.session(&id).await.expect("a store").expect("a session").title, "named");
    assert_eq!(world.runtime.store.session_count().await.expect("a count"), 1);
}

#[actix::test]
async fn without_a_place_by_the_deadline_a_command_is_refused() {
    let world = World::new().await;
    let id = world.create().await;
    let handle = world.runtime.session(&id).await.expect("a session");
    let places = handle.places.clone().acquire_many_owned(crate::session_registry::PLACES as u32).await;

    tokio::time::pause();
    let refused = world.runtime.prompt(&id, body("no place")).await;
    tokio::time::resume();

    assert!(matches!(refused, Err(CommandError::Late)), "{refused:?}");
    drop(places);
    assert_eq!(world.said(&id).await, [""; 0]);
    let accepted = world.runtime.prompt(&id, body("a place")).await.expect("accepted");
    assert!(accepted.end.expect("a turn").await.expect("an end").is_ok());
}

#[actix::test]
async fn a_session_that_is_not_stored_says_so_to_each_command() {
    let world = World::new().await;
    let id = world.runtime.ids.session();
    let session = world.start(&id, 8, Start::Stored).await;
    let refused = session.address.send(prompt("hello")).await.expect("a session");
    assert!(matches!(refused, Err(CommandError::NotFound(_))), "{refused:?}");
    let refused = session.address.send(WaitTurn(world.runtime.ids.message())).await.expect("a session");
    assert!(matches!(refused, Err(CommandError::NotFound(_))), "{refused:?}");
}

#[actix::test]
async fn what_was_accepted_in_one_life_is_answered_in_the_next_when_it_may_go_on() {
    let world = World::new().await;
    world.model.script("accepted before", [Step::text("answered")]);
    let id = world.create().await;
    let message = world.accepted_before(&id, "accepted before").await;

    let session = world.start(&id, 8, Start::Held).await;

    assert_eq!(session.address.send(Settle).await.expect("a session"), 1, "it counts as tried once");
    let end = session.address.send(WaitTurn(message)).await.expect("a session").expect("a wait");
    assert_eq!(world.model.requests().len(), 0, "it waits for leave to go on");
    session.address.send(Resume).await.expect("a session");
    let answer = end.await.expect("an end").expect("an answer");
    assert_eq!(answer.parts.iter().filter_map(|part| part.as_text()).collect::<String>(), "answered");
    assert_eq!(world.said(&id).await, ["accepted before", "answered"]);
    assert!(world.runtime.store.turns(&id).await.expect("turns").is_empty());
}

#[actix::test]
async fn a_turn_that_is_given_up_tells_who_waits_why() {
    let world = World::new().await;
    let id = world.create().await;
    let message = world.accepted_before(&id, "deadly").await;
    let row = TurnRow { attempt: recovery::MAX_ATTEMPTS, ..turn_row(&id, &message, TurnKind::Prompt, 1) };
    world.store(&id, vec![Change::Turn(row)]).await;

    let session = world.start(&id, 8, Start::Held).await;

    let end = session.address.send(WaitTurn(message)).await.expect("a session").expect("a wait");
    let answer = end.await.expect("an end").expect("an answer");
    let error = answer.info.as_assistant().and_then(|answer| answer.error.as_ref()).expect("an error");
    assert!(error.message().contains("given up"), "{error:?}");
    assert_eq!(world.model.requests().len(), 0);
    let next = session.address.send(prompt("harmless")).await.expect("a session").expect("accepted");
    assert!(next.end.expect("a turn").await.expect("an end").is_ok());
}
