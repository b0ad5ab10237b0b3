//! A prompt, its steps and its answer.

use serde_json::json;
use support::{Step, call};

use crate::world::{World, said};

#[tokio::test]
async fn a_prompt_is_answered_with_what_a_tool_read() {
    let world = World::start().await;
    world.project.write("a.txt", "alpha\n");
    world.model.script("read the file", [
        Step::calls([call("read", json!({ "filePath": "a.txt" }))]),
        Step::text("it says alpha"),
    ]);
    let session = world.wire.create_session().await;

    let answer = world.wire.prompt(&session, "read the file").await;

    assert_eq!(said(&answer), "it says alpha");
    let requests = world.model.requests_for("read the file");
    assert!(requests[1].body.to_string().contains("alpha"), "the second request has what was read: {:?}", requests[1]);
    world.model.assert_legal();
}
