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
async fn left_of(page: usize, sound: &[u8], session: &Session, damaged: Damaged) -> (usize, u64) {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("troupe.db");
    let mut bytes = sound.to_vec();
    bytes[page * 4096..(page + 1) * 4096].fill(0xFF);
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
        let (left, starts) = left_of(page, &sound, &session, Damaged::Salvage).await;
        assert!(left > 150, "page {page}: {left} messages after {starts} starts");
    }
    assert!(left_of(1, &sound, &session, Damaged::Salvage).await.0 > 150, "the first table's root");
    assert_eq!(left_of(1, &sound, &session, Damaged::Replace).await, (0, 1));
}
