//! A database that somebody else has changed: what can be understood goes on, the rest is named.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};
use support::{Step, call};

use super::assert_settled;
use crate::world::{World, said};

/// Opens the database of a service.
pub async fn database(world: &World) -> SqliteConnection {
    let path = world.service.home().path(".local/share/troupe/troupe.db");
    SqliteConnectOptions::new().filename(path).connect().await.expect("the database")
}

/// A world with a session whose last turn read a file.
async fn world() -> (World, String) {
    let world = World::start().await;
    world.project.write("a", "alpha\n");
    world.model.script("look", [Step::calls([call("read", json!({ "filePath": "a" }))]), Step::text("looked")]);
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "look").await;
    (world, session)
}

/// Changes the JSON of rows of a table, and returns how many.
async fn change(database: &mut SqliteConnection, table: &str, what: impl Fn(&mut Value) -> bool) -> usize {
    let select = sqlx::AssertSqlSafe(format!("select id, data from {table}"));
    let mut changed = 0;
    for row in sqlx::query(select).fetch_all(&mut *database).await.expect("rows") {
        let mut value = serde_json::from_str(row.get(1)).expect("JSON");
        if what(&mut value) {
            let update = sqlx::AssertSqlSafe(format!("update {table} set data = ? where id = ?"));
            let update = sqlx::query(update).bind(value.to_string()).bind(row.get::<&str, _>(0));
            update.execute(&mut *database).await.expect("changed");
            changed += 1;
        }
    }
    changed
}

/// Takes the end of the message with the call away, the call's state back to this, and what came after.
async fn cut_short(world: &World, state: Value) {
    let mut database = database(world).await;
    let called = |message: &mut Value| {
        let is_it = message["finish"] == "tool-calls";
        if is_it {
            message["time"].as_object_mut().expect("times").remove("completed");
            message.as_object_mut().expect("a message").remove("finish");
        }
        is_it
    };
    assert_eq!(change(&mut database, "message", called).await, 1);
    let state_of = |part: &mut Value| {
        let is_it = part["type"] == "tool";
        if is_it {
            part["state"] = state.clone();
        }
        is_it
    };
    assert_eq!(change(&mut database, "part", state_of).await, 1);
    for table in ["part", "message"] {
        let id = if table == "part" { "message_id" } else { "id" };
        let newer =
            format!("delete from {table} where {id} in (select id from message where data->>'finish' = 'stop')");
        sqlx::query(sqlx::AssertSqlSafe(newer)).execute(&mut database).await.expect("deleted");
    }
    database.close().await.expect("closed");
}

#[tokio::test]
async fn a_prompt_after_a_turn_that_was_never_closed_is_answered() {
    let input = json!({ "filePath": "a" });
    let states = [
        json!({ "status": "pending", "input": {}, "raw": "" }),
        json!({ "status": "pending", "input": {}, "raw": "{\"fileP" }),
        json!({ "status": "running", "input": input, "time": { "start": 1 } }),
        json!({ "status": "running", "input": input, "title": "t", "metadata": { "x": 1 }, "time": { "start": 1 } }),
        json!({ "status": "error", "input": input, "error": "failed", "time": { "start": 1, "end": 2 } }),
    ];
    for state in states {
        let (mut world, session) = world().await;
        world.service.terminate().await;
        cut_short(&world, state.clone()).await;
        world.service.restart().await;
        world.model.script("hi", [Step::text("hi there")]);

        let answer = world.wire.prompt(&session, "hi").await;

        assert_eq!(said(&answer), "hi there", "{state}");
        assert_settled(&world, &session).await;
        world.model.assert_legal();
    }
}

#[tokio::test]
async fn rows_that_make_no_sense_are_named_and_what_is_beside_them_goes_on() {
    for (table, rubbish) in [("part", "{}"), ("part", "not JSON"), ("message", r#"{"role":"nobody"}"#), ("message", "")]
    {
        let (mut world, session) = world().await;
        let other = world.wire.create_session().await;
        world.service.terminate().await;
        let mut database = database(&world).await;
        let update = format!("update {table} set data = ? where session_id = ?");
        let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(rubbish).bind(&session);
        update.execute(&mut database).await.expect("changed");
        world.service.restart().await;

        world.model.script("go on", [Step::text("gone on")]);
        assert_eq!(said(&world.wire.prompt(&session, "go on").await), "gone on", "{table} {rubbish}");
        let listed = world.wire.messages(&session).await;
        let told = listed.iter().map(Value::to_string).filter(|message| message.contains("can't be read"));
        assert!(told.count() > 0, "{table} {rubbish}: {listed:#?}");
        let named = listed.iter().all(|message| {
            let parts = message["parts"].as_array().expect("parts");
            message["info"]["id"].is_string() && parts.iter().all(|part| part["id"].is_string())
        });
        assert!(named, "{table} {rubbish}: {listed:#?}");
        let left = format!("select count(*) from {table} where session_id = ? and data = ?");
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(left))
            .bind(&session)
            .bind(rubbish)
            .fetch_one(&mut database)
            .await
            .expect("counted");
        assert!(left > 0, "nothing is lost in the file");
        database.close().await.expect("closed");
        world.model.script("other", [Step::text("fine")]);
        assert_eq!(said(&world.wire.prompt(&other, "other").await), "fine");
        assert_eq!(world.wire.get("/session").await.0, 200);
        world.model.assert_legal();
    }
}
