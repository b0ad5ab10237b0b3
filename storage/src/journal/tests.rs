use std::sync::Mutex;

use futures::future::BoxFuture;
use pretty_assertions::assert_eq;
use protocol::config::{Damaged, Durability};
use protocol::message::{ModelRef, UserMessage, UserTime};
use protocol::part::TextPart;
use protocol::session::{SessionStatus, SessionTime};
use protocol::{Event, Message, Part, PartKind, Session, SystemClock};
use tokio::sync::Notify;

use super::*;
use crate::frame::{Body, Delta, Frame};
use crate::store::Store;

/// Keeps what is published; can be told to hold it up.
#[derive(Default)]
struct Kept {
    frames: Mutex<Vec<Frame>>,
    came: Notify,
}

impl Sink for Kept {
    fn publish(&self, frames: Vec<Frame>) -> BoxFuture<'_, ()> {
        self.frames.lock().expect("a lock").extend(frames);
        self.came.notify_waiters();
        Box::pin(async {})
    }
}

impl Kept {
    fn seen(&self) -> Vec<String> {
        let frames = self.frames.lock().expect("a lock");
        frames
            .iter()
            .map(|f| format!("{}{}", f.kind, f.durable.map_or(String::new(), |d| format!(" {}", d.seq))))
            .collect()
    }
}

struct World {
    root: tempfile::TempDir,
    database: Database,
    journal: Journal,
    kept: Arc<Kept>,
    ids: Arc<Ids>,
    origin: Arc<Origin>,
}

impl World {
    async fn new() -> Self {
        Self::at(tempfile::tempdir().expect("a directory")).await
    }

    async fn at(root: tempfile::TempDir) -> Self {
        let path = root.path().join("troupe.db");
        let database = Database::open(&path, Durability::Normal, Damaged::Salvage, 0).await.expect("a database");
        let ids = Arc::new(Ids::new(Arc::new(SystemClock), 0));
        let kept = Arc::new(Kept::default());
        let journal =
            Journal::start(&database, kept.clone(), ids.clone(), Arc::new(SystemClock)).await.expect("a journal");
        let origin = Arc::new(Origin { directory: "/work".into(), project: "p".into() });
        Self { root, database, journal, kept, ids, origin }
    }

    async fn restarted(self) -> Self {
        self.journal.close().await;
        self.database.close().await;
        Self::at(self.root).await
    }

    fn record(&self, fence: &Fence, changes: Vec<Change>) -> Ack {
        let (fence, origin) = (Some(fence.clone()), self.origin.clone());
        self.journal.record(Record { fence, origin, changes, room: None })
    }

    fn session(&self) -> Arc<Session> {
        let json = serde_json::json!({
            "id": self.ids.session(), "slug": "s", "projectID": "p", "directory": "/work", "title": "t",
            "version": "1", "time": SessionTime::default(),
        });
        Arc::new(serde_json::from_value(json).expect("a session"))
    }

    fn message(&self, session: &Session) -> Arc<Message> {
        Arc::new(Message::User(UserMessage {
            id: self.ids.message(),
            session_id: session.id.clone(),
            time: UserTime { created: 1 },
            format: None,
            summary: None,
            agent: "build".into(),
            model: ModelRef { provider_id: "p".into(), model_id: "m".into(), variant: None },
            system: None,
            tools: None,
            troupe: None,
        }))
    }

    fn part(&self, message: &Message, text: &str) -> Arc<Part> {
        Arc::new(Part {
            id: self.ids.part(),
            session_id: message.session_id().clone(),
            message_id: message.id().clone(),
            kind: PartKind::Text(TextPart { text: text.into(), ..TextPart::default() }),
        })
    }

    fn delta(&self, part: &Part, text: &str) -> Change {
        Change::Delta(Arc::new(Delta {
            session_id: part.session_id.clone(),
            message_id: part.message_id.clone(),
            part_id: part.id.clone(),
            text: text.into(),
        }))
    }
}

fn status(session: &Session, status: SessionStatus) -> Change {
    Change::Notice(Event::SessionStatus { session_id: session.id.clone(), status })
}

#[tokio::test]
async fn what_is_told_is_stored_and_comes_in_the_order_of_the_commands() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    let message = world.message(&session);
    let part = world.part(&message, "hi");
    world.record(&fence, vec![Change::SessionCreated(session.clone())]).detach();
    world.record(&fence, vec![status(&session, SessionStatus::Busy)]).detach();
    world.record(&fence, vec![Change::MessageUpdated(message.clone()), Change::PartUpdated(part.clone())]).detach();
    world.record(&fence, vec![world.delta(&part, "more")]).detach();
    world.record(&fence, vec![status(&session, SessionStatus::idle())]).await.expect("stored");
    assert_eq!(
        world.kept.seen(),
        [
            "session.created 0",
            "session.status",
            "message.updated 1",
            "message.part.updated 2",
            "message.part.delta",
            "session.status"
        ]
    );
    let store = Store::new(&world.database);
    let history = store.history(&session.id).await.expect("a history");
    assert_eq!((&history[0].0, &history[0].1[0].part), (&message, &part));
    let logged = store.events_after(0, 1 << 20).await.expect("a log");
    assert_eq!(logged.iter().map(|e| (e.row, e.seq)).collect::<Vec<_>>(), [(1, 0), (2, 1), (3, 2)]);
    let frames = world.kept.frames.lock().expect("a lock").clone();
    let Body::Json(told) = &frames[3].body else { panic!("no JSON") };
    assert_eq!(told.to_string(), logged[2].properties, "the log holds what was told");
}

#[tokio::test]
async fn a_sessions_numbers_go_on_without_a_gap_after_a_restart() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    let created = vec![Change::SessionCreated(session.clone()), Change::SessionUpdated(session.clone())];
    world.record(&fence, created).await.expect("stored");
    let world = world.restarted().await;
    let fence = world.journal.fence(&session.id);
    world.record(&fence, vec![Change::SessionUpdated(session.clone())]).await.expect("stored");
    assert_eq!(world.kept.seen(), ["session.updated 2"]);
    assert_eq!(Store::new(&world.database).newest_row().await.expect("a row"), 3);
}

#[tokio::test]
async fn commands_of_an_older_epoch_are_void() {
    let world = World::new().await;
    let session = world.session();
    let old = world.journal.fence(&session.id);
    world.record(&old, vec![Change::SessionCreated(session.clone())]).await.expect("stored");
    let new = world.journal.fence(&session.id);
    let late = world.record(&old, vec![Change::SessionUpdated(session.clone())]).await;
    assert_eq!(late, Err(JournalError::Stale));
    world.record(&new, vec![Change::SessionUpdated(session.clone())]).await.expect("stored");
    world.journal.release(new.clone());
    assert_eq!(world.record(&new, vec![status(&session, SessionStatus::Busy)]).await, Err(JournalError::Stale));
    assert_eq!(world.kept.seen(), ["session.created 0", "session.updated 1"]);
}

#[tokio::test]
async fn a_refused_command_fails_alone_and_the_rest_of_its_epoch_with_it() {
    let world = World::new().await;
    let (good, bad) = (world.session(), world.session());
    let (good_fence, bad_fence) = (world.journal.fence(&good.id), world.journal.fence(&bad.id));
    // A part without its message breaks a reference.
    let orphan = world.part(&world.message(&bad), "x");
    let refused = world.record(&bad_fence, vec![Change::PartUpdated(orphan)]);
    let kept = world.record(&good_fence, vec![Change::SessionCreated(good.clone())]);
    let after = world.record(&bad_fence, vec![Change::SessionCreated(bad.clone())]);
    let refused = refused.await.expect_err("refused");
    assert!(matches!(refused, JournalError::Refused(_)));
    assert_eq!(kept.await, Ok(()));
    let poisoned = Err(JournalError::Poisoned(refused.to_string()));
    assert_eq!(after.await, poisoned);
    assert_eq!(world.record(&bad_fence, vec![status(&bad, SessionStatus::Busy)]).await, poisoned);
    assert_eq!(world.kept.seen(), ["session.created 0"]);
    let fresh = world.journal.fence(&bad.id);
    assert_eq!(world.record(&fresh, vec![Change::SessionCreated(bad)]).await, Ok(()), "a new epoch starts clean");
}

#[tokio::test]
async fn a_removed_message_takes_its_parts_along_also_those_of_the_same_command() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    let message = world.message(&session);
    let part = world.part(&message, "x");
    let all = vec![
        Change::SessionCreated(session.clone()),
        Change::MessageUpdated(message.clone()),
        Change::PartUpdated(part),
        Change::MessageRemoved(session.id.clone(), message.id().clone()),
    ];
    world.record(&fence, all).await.expect("stored");
    assert!(Store::new(&world.database).history(&session.id).await.expect("a history").is_empty());
}

#[tokio::test]
async fn a_deleted_session_leaves_nothing_but_its_events() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    let message = world.message(&session);
    let turn = TurnRow {
        session_id: session.id.clone(),
        message_id: message.id().clone(),
        kind: TurnKind::Prompt,
        attempt: 0,
        resets: 0,
        time: 1,
    };
    let part = world.part(&message, "x");
    world.record(&fence, vec![Change::SessionCreated(session.clone()), Change::MessageUpdated(message)]).detach();
    world
        .record(&fence, vec![Change::PartUpdated(part), Change::Turn(turn), Change::Todos(session.id.clone(), vec![])])
        .detach();
    let seen = Change::FilesSeen(session.id.clone(), vec![("/f".into(), Some("aa".into()))]);
    world.record(&fence, vec![seen, Change::SessionDeleted(session.clone())]).await.expect("stored");
    let store = Store::new(&world.database);
    assert_eq!(store.session(&session.id).await.expect("read"), None);
    assert!(store.open_turns().await.expect("read").is_empty());
    assert_eq!(store.events_after(0, 1 << 20).await.expect("read").len(), 4);
}

#[tokio::test]
async fn what_a_session_has_seen_of_files_is_kept_and_forgotten_by_path() {
    let world = World::new().await;
    let (session, other) = (world.session(), world.session());
    let seen = |session: &Session, files: &[(&str, Option<&str>)]| {
        let own = |(path, hash): &(&str, Option<&str>)| ((*path).to_owned(), hash.map(str::to_owned));
        Change::FilesSeen(session.id.clone(), files.iter().map(own).collect())
    };
    let fence = world.journal.fence(&session.id);
    let created = vec![Change::SessionCreated(session.clone()), Change::SessionCreated(other.clone())];
    world.record(&fence, created).detach();
    let files = [("/a \"b\"", Some("1")), ("/c", Some("2")), ("/d", Some("3"))];
    world.record(&fence, vec![seen(&session, &files), seen(&other, &files[1..2])]).detach();
    let changed = [("/a \"b\"", None), ("/c", Some("4")), ("/d", None), ("/d", Some("5")), ("/none", None)];
    world.record(&fence, vec![seen(&session, &changed)]).await.expect("stored");
    let store = Store::new(&world.database);
    let pair = |path: &str, hash: &str| (path.to_owned(), hash.to_owned());
    assert_eq!(store.seen_files(&session.id).await.expect("read"), [pair("/c", "4"), pair("/d", "5")]);
    assert_eq!(store.seen_files(&other.id).await.expect("read"), [pair("/c", "2")]);
}

#[tokio::test]
async fn room_is_given_back_when_the_command_is_written() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    for _ in 0..4 {
        let room = world.journal.room(QUEUE_BYTES).await.expect("room");
        let changes = vec![Change::SessionCreated(session.clone())];
        let record = Record { fence: Some(fence.clone()), origin: world.origin.clone(), changes, room: Some(room) };
        world.journal.record(record).await.expect("stored");
    }
}

#[tokio::test]
async fn a_closed_journal_says_so() {
    let world = World::new().await;
    world.journal.close().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    let answer = world.record(&fence, vec![Change::SessionCreated(session)]).await;
    assert_eq!(answer, Err(JournalError::Closed));
}

#[tokio::test]
async fn a_foreign_lock_holds_up_what_is_stored_and_fails_none_of_it() {
    let world = World::new().await;
    let (locked, free) = (world.session(), world.session());
    let fences = [&locked, &free].map(|session| world.journal.fence(&session.id));
    let message = world.message(&free);
    let part = world.part(&message, "");
    world.record(&fences[1], vec![Change::SessionCreated(free.clone()), Change::MessageUpdated(message)]).detach();
    world.record(&fences[1], vec![Change::PartUpdated(part.clone())]).await.expect("stored");

    let mut foreign = world.database.writer().await.expect("a connection");
    sqlx::query("begin immediate").execute(&mut foreign).await.expect("the lock");
    let mut held = world.record(&fences[0], vec![Change::SessionCreated(locked.clone())]);
    let came = world.kept.came.notified();
    world.record(&fences[1], vec![world.delta(&part, "text")]).detach();
    came.await;
    assert!(futures::poll!(&mut held).is_pending(), "acknowledged before it was stored");
    assert_eq!(world.kept.seen().last().map(String::as_str), Some("message.part.delta"), "streams go on");

    sqlx::query("rollback").execute(&mut foreign).await.expect("the lock given back");
    held.await.expect("stored");
    assert!(Store::new(&world.database).session(&locked.id).await.expect("read").is_some());
    assert_eq!(world.kept.seen().iter().filter(|kind| kind.starts_with("session.created")).count(), 2);
}

mod damage;

#[tokio::test]
async fn messages_and_parts_of_others_are_not_written_over() {
    let world = World::new().await;
    let (mine, theirs) = (world.session(), world.session());
    let [of_mine, of_theirs] = [&mine, &theirs].map(|session| world.journal.fence(&session.id));
    let message = world.message(&mine);
    let part = world.part(&message, "mine");
    let changes = [
        Change::SessionCreated(mine.clone()),
        Change::MessageUpdated(message.clone()),
        Change::PartUpdated(part.clone()),
    ];
    world.record(&of_mine, changes.to_vec()).await.expect("stored");
    world.record(&of_theirs, vec![Change::SessionCreated(theirs.clone())]).await.expect("stored");
    let Message::User(taken) = &*world.message(&theirs) else { panic!("no prompt") };
    let taken = UserMessage { id: message.id().clone(), ..taken.clone() };
    let refused = world.record(&of_theirs, vec![Change::MessageUpdated(Arc::new(Message::User(taken)))]);
    assert!(matches!(refused.await, Err(JournalError::Refused(_))));
    let other = world.message(&mine);
    let moved = Part { message_id: other.id().clone(), ..(*part).clone() };
    let refused = world.record(&of_mine, vec![Change::MessageUpdated(other), Change::PartUpdated(Arc::new(moved))]);
    assert!(matches!(refused.await, Err(JournalError::Refused(_))));

    let store = Store::new(&world.database);
    let history = store.history(&mine.id).await.expect("read");
    assert_eq!(
        history.iter().map(|(m, parts)| (m.clone(), parts[0].part.clone())).collect::<Vec<_>>(),
        [(message, part)]
    );
    assert!(store.history(&theirs.id).await.expect("read").is_empty());
}

#[tokio::test]
async fn after_a_clock_was_set_back_ids_go_on_where_the_last_life_left_them() {
    let world = World::new().await;
    world.journal.close().await;
    let hour = 60 * 60 * 1000;
    // The clock was an hour ahead when the mint was made, and no stored time is.
    let ahead = Arc::new(Ids::new(Arc::new(SystemClock), SystemClock.now_ms() + hour));
    let journal = Journal::start(&world.database, world.kept.clone(), ahead.clone(), Arc::new(SystemClock));
    let world = World { journal: journal.await.expect("a journal"), ids: ahead, ..world };
    let session = world.session();
    let message = world.message(&session);
    let fence = world.journal.fence(&session.id);
    let changes = vec![Change::SessionCreated(session.clone()), Change::MessageUpdated(message.clone())];
    world.record(&fence, changes).await.expect("stored");
    let newest = Store::new(&world.database).newest_time().await.expect("read");
    let next = Ids::new(Arc::new(SystemClock), newest);
    assert!(next.message() > *message.id());
    assert!(next.session() < session.id, "newer sessions sort first");
    assert!(newest < SystemClock.now_ms() + 2 * hour);
}
