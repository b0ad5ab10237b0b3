//! Resources of servers that come with a prompt.

use pretty_assertions::assert_eq;
use serde_json::json;
use support::Step;

use super::*;

const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A part as OpenCode's clients make it of a resource a person picked.
fn part(server: &str, uri: &str) -> Value {
    let text = json!({ "value": "@r", "start": 0, "end": 2 });
    json!({
        "type": "file", "mime": "text/plain", "filename": "r", "url": uri,
        "source": { "type": "resource", "clientName": server, "uri": uri, "text": text },
    })
}

fn prompt(text: &str, parts: &[Value]) -> Value {
    let said = json!({ "type": "text", "text": text });
    let parts = [&[said], parts].concat();
    json!({ "parts": parts })
}

async fn with_resources(model: &[&str]) -> World {
    let image = json!({ "uri": "demo://image", "mimeType": "image/png", "blob": PIXEL });
    let resources = vec![
        json!({ "uri": "demo://text", "name": "a text", "mimeType": "text/plain", "description": "words" }),
        json!({ "uri": "demo://two", "name": "two", "contents": [image, image] }),
        json!({ "uri": "demo://long", "name": "long", "contents": [{ "uri": "demo://long", "text": "x\n".repeat(9_000) }] }),
        json!({ "uri": "demo://secret", "name": "secret", "refusal": "nobody may read it" }),
    ];
    let off = with(local(&Script::default()), json!({ "enabled": false }));
    let servers = json!({ "srv": local(&Script { resources, ..Script::default() }), "off": off });
    let config = json!({
        "permission": { "*": "allow" }, "mcp": servers,
        "provider": { "mock": { "models": { "mock": { "attachment": true, "modalities": { "input": ["text", "image"] } } } } },
    });
    let world = World::with_config(config).await;
    connect(&world, "srv").await;
    for needle in model {
        world.model.script(*needle, [Step::text("seen")]);
    }
    world
}

/// Returns what the model was told with the prompt, one text a part.
fn told(world: &World, needle: &str) -> Vec<Value> {
    let request = world.model.requests_for(needle).pop().expect("a request");
    let message = request.messages().iter().rfind(|message| message["role"] == "user").expect("a prompt").clone();
    match message["content"].as_array() {
        Some(parts) => parts.clone(),
        None => vec![json!({ "type": "text", "text": message["content"] })],
    }
}

fn texts(told: &[Value]) -> String {
    told.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_resource_is_read_and_told_to_the_model() {
    let world = with_resources(&["look into this", "look into that"]).await;
    let (status, listed) = world.wire.get("/experimental/resource").await;
    assert_eq!(status, 200, "{listed}");
    let wanted = json!({ "name": "a text", "uri": "demo://text", "description": "words", "mimeType": "text/plain",
        "client": "srv" });
    assert_eq!(listed["srv:a_text"], wanted);

    let session = world.wire.create_session().await;
    let given = part("srv", "demo://text");
    world.wire.prompt_with(&session, prompt("look into this", std::slice::from_ref(&given))).await;
    let told = texts(&told(&world, "look into this"));
    assert!(told.contains("demo://text of the MCP server srv") && told.contains("resource text"), "{told}");
    let messages = world.wire.messages(&session).await;
    let kept = messages[0]["parts"].as_array().expect("parts").iter().find(|part| part["type"] == "file");
    let kept = kept.expect("the part is kept");
    assert_eq!((&kept["url"], &kept["source"]), (&given["url"], &given["source"]));

    world.wire.prompt_with(&session, prompt("look into that", &[part("srv", "demo://long")])).await;
    let told = texts(&self::told(&world, "look into that"));
    assert!(told.len() < 60_000 && told.contains("7000 lines truncated"), "{}", told.len());
}

#[tokio::test]
async fn pictures_of_a_resource_are_shown_and_the_same_prompt_stays_one() {
    let mut world = with_resources(&["look at it"]).await;
    let session = world.wire.create_session().await;
    let mut body = prompt("look at it", &[part("srv", "demo://two")]);
    body["messageID"] = json!("msg_000000000001abcdefghijklmn");
    world.wire.prompt_with(&session, body.clone()).await;
    let pictures = told(&world, "look at it").iter().filter(|part| part["type"] == "image_url").count();
    assert_eq!(pictures, 2);
    // Also once it is only known from the database.
    world.service.terminate().await;
    world.service.restart().await;
    world.wire.prompt_with(&session, body).await;
    assert_eq!(world.model.requests_for("look at it").len(), 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_in_the_prompt_and_the_turn_goes_on() {
    let world = with_resources(&["read them"]).await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    let parts =
        [part("srv", "demo://secret"), part("gone", "demo://r"), part("off", "demo://r"), part("srv", "demo://text")];
    let answer = world.wire.prompt_with(&session, prompt("read them", &parts)).await;
    assert_eq!(crate::world::said(&answer), "seen");
    let told = texts(&told(&world, "read them"));
    for said in ["nobody may read it", "no MCP server \"gone\"; there are: srv, off", "switched off", "resource text"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let error = events.wait_for("session.error").await;
    assert!(error["properties"]["error"]["data"]["message"].to_string().contains("nobody may read it"), "{error}");
}
