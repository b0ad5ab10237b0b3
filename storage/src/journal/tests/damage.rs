//! What is left of a database that was damaged.

use pretty_assertions::assert_eq;

use super::*;
use crate::error::StorageError;
use crate::store::SessionFilter;

#[tokio::test]
async fn a_damaged_file_is_kept_and_what_can_be_read_is_carried_over() {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    world.record(&fence, vec![Change::SessionCreated(session.clone())]).await.expect("stored");
    world.journal.close().await;
    world.database.close().await;
    let path = world.root.path().join("troupe.db");
    std::fs::write(&path, "hello, this is no database at all").expect("written");
    let _ = std::fs::remove_file(world.root.path().join("troupe.db-wal"));
    let database = Database::open(&path, Durability::Normal, Damaged::Salvage, 77).await.expect("a new database");
    assert_eq!(Store::new(&database).session_count().await.expect("read"), 0);
    assert!(world.root.path().join("troupe.db.damaged-77").exists());
}

/// A closed database with a session of 200 messages, as bytes.
async fn with_messages() -> (Arc<Session>, Vec<u8>) {
    let world = World::new().await;
    let session = world.session();
    let fence = world.journal.fence(&session.id);
    world.record(&fence, vec![Change::SessionCreated(session.clone())]).await.expect("stored");
    for _ in 0..200 {
        let message = world.message(&session);
        let part = world.part(&message, &"x".repeat(300));
        world.record(&fence, vec![Change::MessageUpdated(message), Change::PartUpdated(part)]).detach();
    }
    world.journal.close().await;
    world.database.close().await;
    (session, std::fs::read(world.root.path().join("troupe.db")).expect("the file"))
}

#[tokio::test]
async fn of_a_file_that_was_cut_the_pages_that_are_left_are_carried_over() {
    let (session, sound) = with_messages().await;
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("troupe.db");
    std::fs::write(&path, &sound[..sound.len() / 3]).expect("written");
    let database = Database::open(&path, Durability::Normal, Damaged::Salvage, 1).await.expect("a database");
    let left = Store::new(&database).history(&session.id).await.expect("read").len();
    assert!(left > 20, "{left} messages");
    assert_eq!(std::fs::read(root.path().join("troupe.db.damaged-1")).expect("the copy"), sound[..sound.len() / 3]);
}

#[tokio::test]
async fn a_file_that_was_emptied_is_not_taken_for_a_new_one() {
    for is_missing in [true, false] {
        let world = World::new().await;
        let session = world.session();
        let fence = world.journal.fence(&session.id);
        world.record(&fence, vec![Change::SessionCreated(session)]).await.expect("stored");
        // As a crash leaves it, and then lost: the log has more than the file had.
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("troupe.db");
        let log = std::fs::read(world.root.path().join("troupe.db-wal")).expect("the log");
        std::fs::write(root.path().join("troupe.db-wal"), &log).expect("written");
        if !is_missing {
            std::fs::write(&path, "").expect("written");
        }
        let database = Database::open(&path, Durability::Normal, Damaged::Salvage, 1).await.expect("a database");
        assert_eq!(Store::new(&database).session_count().await.expect("read"), 0);
        assert_eq!(std::fs::read(root.path().join("troupe.db.damaged-1-wal")).expect("kept"), log);
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_costs_no_list() {
    let world = World::new().await;
    let (good, bad) = (world.session(), world.session());
    let fences = [&good, &bad].map(|session| world.journal.fence(&session.id));
    for (fence, session) in fences.iter().zip([&good, &bad]) {
        world.record(fence, vec![Change::SessionCreated(session.clone())]).await.expect("stored");
    }
    let mut writer = world.database.writer().await.expect("a connection");
    let broken = sqlx::query("update session set data = '{\"id' where id = ?").bind(bad.id.as_str());
    broken.execute(&mut writer).await.expect("broken");
    let store = Store::new(&world.database);
    assert_eq!(store.sessions(&SessionFilter::default()).await.expect("read").len(), 1);
    assert!(matches!(store.session(&bad.id).await, Err(StorageError::Row { what: "session", .. })));
}

/// Puts a text where a row has its JSON.
async fn break_row(world: &World, table: &str, id: &str, with: &str) {
    let mut writer = world.database.writer().await.expect("a connection");
    let sql = format!("update {table} set data = ? where id = ?");
    let broken = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(with).bind(id).execute(&mut writer).await.expect("broken");
    assert_eq!(broken.rows_affected(), 1);
}

#[tokio::test]
async fn broken_messages_and_parts_cost_nothing_beside_them_and_stand_where_they_were() {
    for with in ["{\"id", "", "null", "\u{0}"] {
        let world = World::new().await;
        let session = world.session();
        let fence = world.journal.fence(&session.id);
        world.record(&fence, vec![Change::SessionCreated(session.clone())]).await.expect("stored");
        let messages = [(); 4].map(|()| world.message(&session));
        let parts = messages.each_ref().map(|message| [world.part(message, "one"), world.part(message, "two")]);
        for (message, parts) in messages.iter().zip(&parts) {
            let parts = parts.iter().map(|part| Change::PartUpdated(part.clone()));
            let changes = std::iter::once(Change::MessageUpdated(message.clone())).chain(parts).collect();
            world.record(&fence, changes).await.expect("stored");
        }
        break_row(&world, "message", messages[1].id().as_str(), with).await;
        break_row(&world, "part", parts[2][0].id.as_str(), with).await;

        let store = Store::new(&world.database);
        let (listed, _) = store.messages(&session.id, None, None).await.expect("read");
        let of = |at: usize| serde_json::from_str::<Message>(listed[at].info.get()).expect("a message");
        assert_eq!(listed.len(), 4, "{with:?}");
        for at in [0, 2, 3] {
            assert_eq!(of(at), *messages[at], "{with:?}");
        }
        let stand_in = of(1);
        let answer = stand_in.as_assistant().expect("an answer that says so");
        assert_eq!((&answer.id, &answer.parent_id), (messages[1].id(), messages[0].id()));
        let error = answer.error.as_ref().expect("an error").message().to_owned();
        assert!(error.contains(messages[1].id().as_str()) && error.contains("broken"), "{error}");
        assert_eq!(listed[1].parts.len(), 2);
        let stand_in: Part = serde_json::from_str(listed[2].parts[0].get()).expect("a part");
        assert_eq!((&stand_in.id, &stand_in.message_id), (&parts[2][0].id, messages[2].id()));
        assert!(matches!(&stand_in.kind, PartKind::Text(text) if text.ignored && text.text.contains("broken")));
        let one = store.message(&session.id, messages[1].id()).await.expect("read").expect("there");
        assert!(one.info.get().contains("broken"));

        let history = store.history(&session.id).await.expect("read");
        let left: Vec<_> = history.iter().map(|(message, parts)| (message.id().clone(), parts.len())).collect();
        let kept = |at: usize, parts| (messages[at].id().clone(), parts);
        assert_eq!(left, [kept(0, 2), kept(2, 1), kept(3, 2)]);
        // What looks into the JSON passes it too.
        store.turn_diffs(&session.id, None).await.expect("read");
        store.spent(&crate::store::Spender::Tree(session.id.clone())).await.expect("read");
        store.has_open_task(&session.id, &session.id).await.expect("read");
    }
}

#[tokio::test]
async fn a_database_of_a_later_version_is_named_and_left_alone() {
    let world = World::new().await;
    let mut writer = world.database.writer().await.expect("a connection");
    let later = "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
                 values (99999, 'later', true, x'00', 1)";
    sqlx::query(later).execute(&mut writer).await.expect("written");
    let path = world.root.path().join("troupe.db");
    let error = Database::open(&path, Durability::Normal, Damaged::Salvage, 1).await.expect_err("too new");
    assert!(matches!(&error, StorageError::Newer { path: named } if *named == path), "{error}");
}

/// What is left in a database with 200 messages, of which one page was overwritten: how many messages, after how many
/// starts.
async fn left_of(page: usize, filled: u8, sound: &[u8], session: &Session, damaged: Damaged) -> (usize, u64) {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("troupe.db");
    let mut bytes = sound.to_vec();
    bytes[page * 4096..(page + 1) * 4096].fill(filled);
    std::fs::write(&path, &bytes).expect("written");
    for start in 1..=2 {
        let database = Database::open(&path, Durability::Normal, damaged, start).await.expect("a database");
        let history = Store::new(&database).history(&session.id).await;
        database.close().await;
        let kept = root.path().join(format!("troupe.db.damaged-{start}"));
        if kept.exists() {
            assert_eq!(std::fs::read(&kept).expect("the copy"), bytes, "page {page}");
        }
        match history {
            Ok(history) => {
                assert!(!root.path().join("troupe.db.suspect").exists());
                return (history.len(), start);
            }
            Err(error) => assert!(matches!(error, StorageError::Damaged { .. }), "page {page}: {error}"),
        }
    }
    panic!("page {page}: it can't be read after two starts");
}

#[tokio::test]
async fn of_a_damaged_page_little_more_than_its_rows_is_lost() {
    let (session, sound) = with_messages().await;
    let pages = sound.len() / 4096;
    // The pages of rows; those before are the tables' roots, where less is left.
    for page in (pages / 2..pages).step_by(9) {
        let (left, starts) = left_of(page, 0xFF, &sound, &session, Damaged::Salvage).await;
        assert!(left > 150, "page {page}: {left} messages after {starts} starts");
    }
    assert!(left_of(1, 0xFF, &sound, &session, Damaged::Salvage).await.0 > 150, "the first table's root");
    assert_eq!(left_of(1, 0xFF, &sound, &session, Damaged::Replace).await, (0, 1));
}

#[tokio::test]
async fn a_damaged_list_of_tables_loses_no_rows() {
    let (session, sound) = with_messages().await;
    let pages = crate::database::schema_pages(&sound);
    assert!(pages.len() > 1 && pages.contains(&0), "{pages:?}");
    for page in pages {
        for filled in [0, 0xFF] {
            let (left, starts) = left_of(page, filled, &sound, &session, Damaged::Salvage).await;
            assert_eq!((left, starts), (200, 1), "page {page} full of {filled}");
        }
    }
}

#[tokio::test]
async fn the_service_starts_whichever_of_the_first_pages_is_damaged() {
    let (session, sound) = with_messages().await;
    let mut few = Vec::new();
    for page in 0..40 {
        let (left, _) = left_of(page, 0, &sound, &session, Damaged::Salvage).await;
        if left < 180 {
            few.push((page, left));
        }
    }
    // Of a table whose own first page is gone nothing is found.
    assert!(few.len() <= 1, "{few:?}");
}
