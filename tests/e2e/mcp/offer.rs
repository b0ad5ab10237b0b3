//! What of servers the model is offered, and under which names.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Step;

use super::*;
use crate::world::completed;
use ::mcp::testing::{Later, ScriptedTool};

fn names(world: &World, needle: &str) -> Vec<String> {
    world.model.requests_for(needle).last().expect("a request").tool_names()
}

#[tokio::test]
async fn a_server_that_starts_slowly_holds_no_prompt_up_and_the_others_are_there() {
    let slow = Script { init_ms: 60_000, ..Script::tools([("ok", "fine")]) };
    let servers = json!({
        "slow": with(local(&slow), json!({ "timeout": 50_000 })),
        "fast": local(&Script::tools([("ok", "fine")])),
    });
    let world = world(servers).await;
    connect(&world, "fast").await;
    let session = world.wire.create_session().await;
    let begun = std::time::Instant::now();
    let part = world.call_in(&session, "fast_ok", json!({})).await;
    assert_eq!(completed(&part)["output"], "fine");
    assert!(begun.elapsed() < Duration::from_secs(15), "it waited for {:?}", begun.elapsed());
    assert_eq!(status(&world, "slow").await, "connecting");
    assert!(!world.model.requests()[0].tool_names().iter().any(|name| name.starts_with("slow_")));
}

#[tokio::test]
async fn tools_join_at_the_next_step_when_their_server_comes_and_when_its_list_changes() {
    let later = Later { after: "one".into(), tools: vec![ScriptedTool::new("late", "late text")] };
    let script = Script { init_ms: 2_500, later: Some(later), ..Script::tools([("one", "1")]) };
    let world = world(json!({ "srv": with(local(&script), json!({ "timeout": 100 })) })).await;
    let mut events = world.events().await;
    for needle in ["before it is there", "it is there now"] {
        world.model.script(needle, [Step::text("yes")]);
    }
    let session = world.wire.create_session().await;
    world.wire.prompt(&session, "before it is there").await;
    assert!(!names(&world, "before it is there").contains(&"srv_one".to_owned()));

    let told = events.wait_for("mcp.tools.changed").await;
    assert_eq!(told["properties"], json!({ "server": "srv" }));
    world.wire.prompt(&session, "it is there now").await;
    assert!(names(&world, "it is there now").contains(&"srv_one".to_owned()));

    completed(&world.call_in(&session, "srv_one", json!({})).await);
    events.wait_for("mcp.tools.changed").await;
    let part = world.call_in(&session, "srv_late", json!({})).await;
    assert_eq!(completed(&part)["output"], "late text");
}

#[tokio::test]
async fn odd_names_are_made_short_safe_and_always_the_same_and_the_mapping_is_shown() {
    let long = "a".repeat(80);
    let script = Script::tools([(long.as_str(), "long one"), ("get/user:info", "odd one"), ("ok", "plain one")]);
    let world = connected(json!({ "enterprise.db": local(&script) })).await;
    let mapping = report(&world, "enterprise.db").await["tools"].clone();
    let mapping: Vec<(String, String)> = mapping
        .as_array()
        .into_iter()
        .flatten()
        .map(|tool| (support::wire::text(&tool["tool"]), support::wire::text(&tool["name"])))
        .collect();
    assert_eq!(mapping[2], ("ok".into(), "enterprise_db_ok".into()));
    assert_eq!(mapping[1], ("get/user:info".into(), "enterprise_db_get_user_info".into()));
    let said = ["long one", "odd one", "plain one"];
    for ((_, name), said) in mapping.iter().zip(said) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(name.len() <= 64 && name.chars().all(plain), "{name}");
        // A session of its own each: the names stay.
        assert_eq!(completed(&world.call(name, json!({})).await)["output"], said);
    }
}

#[tokio::test]
async fn one_bad_schema_never_takes_the_others_and_the_model_gets_objects() {
    let odd =
        json!({ "oneOf": [{ "type": "object", "properties": { "a": { "type": "string" } } }, { "type": "object" }] });
    let reference = json!({
        "$defs": { "T": { "type": "string", "enum": ["a", "b"] } }, "type": "object",
        "properties": { "t": { "$ref": "#/$defs/T" } },
    });
    let tool =
        |name: &str, schema: &Value| ScriptedTool { schema: Some(schema.clone()), ..ScriptedTool::new(name, "did it") };
    let script = Script {
        tools: vec![tool("one", &odd), tool("pick", &reference), ScriptedTool::new("ok", "fine")],
        broken_tools: vec![json!({ "name": 7 }), json!({ "name": "list", "inputSchema": [1] })],
        ..Script::default()
    };
    let world = connected(json!({ "srv": local(&script) })).await;
    for (name, input) in [("srv_one", json!({ "a": "x" })), ("srv_pick", json!({ "t": "a" })), ("srv_ok", json!({}))] {
        completed(&world.call(name, input).await);
    }
    let request = &world.model.requests()[0];
    let tools = request.body["tools"].as_array().expect("tools");
    let ours = tools.iter().map(|tool| &tool["function"]).filter(|tool| tool["name"].to_string().contains("srv_"));
    let ours: Vec<&Value> = ours.collect();
    assert_eq!(ours.len(), 4);
    for tool in ours {
        let schema = &tool["parameters"];
        assert!(schema["type"] == "object" && schema["oneOf"].is_null() && schema["properties"].is_object(), "{tool}");
    }
}

#[tokio::test]
async fn rules_speak_of_servers_tools_by_their_full_names_with_wildcards() {
    let script = Script::tools([("ask", "asked"), ("bad", "never"), ("free", "free")]);
    let config = json!({
        "permission": { "*": "allow", "srv_*": "ask", "srv_bad": "deny", "srv_free": "allow" },
        "agent": { "narrow": { "mode": "primary", "tools": { "srv_*": false } } },
        "mcp": { "srv": local(&script) },
    });
    let world = World::with_config(config).await;
    connect(&world, "srv").await;
    let mut events = world.events().await;
    let session = world.wire.create_session().await;
    world.model.script("ask me", [Step::calls([support::call("srv_ask", json!({ "a": 1 }))]), Step::text("done")]);
    world.wire.prompt_async(&session, "ask me").await;
    let asked = events.wait_for("permission.asked").await["properties"].clone();
    assert_eq!((&asked["permission"], &asked["patterns"]), (&json!("srv_ask"), &json!(["*"])));
    assert_eq!((&asked["always"], &asked["metadata"]), (&json!(["*"]), &json!({})));
    world.wire.reply(asked["id"].as_str().expect("an id"), "once").await;
    events.until_idle(&session).await;
    assert_eq!(completed(&world.tool_parts(&session).await[0])["output"], "asked");
    let offered = names(&world, "ask me");
    assert!(offered.contains(&"srv_free".to_owned()) && !offered.contains(&"srv_bad".to_owned()), "{offered:?}");

    world.model.script("be narrow", [Step::text("yes")]);
    let body = json!({ "agent": "narrow", "parts": [{ "type": "text", "text": "be narrow" }] });
    world.wire.prompt_with(&session, body).await;
    assert!(!names(&world, "be narrow").iter().any(|name| name.starts_with("srv_")));
}

#[tokio::test]
async fn resources_are_listed_and_read_and_prompts_are_commands() {
    let script = Script {
        resources: vec![json!({ "uri": "demo://r", "name": "r", "mimeType": "text/plain" })],
        prompts: vec![json!({ "name": "hey", "description": "a prompt", "arguments": [{ "name": "who" }] })],
        ..Script::tools([("ok", "fine")])
    };
    let world = connected(json!({ "srv": local(&script) })).await;
    let listed = world.call("list_mcp_resources", json!({})).await;
    assert!(completed(&listed)["output"].to_string().contains("demo://r (r) [text/plain]"), "{listed}");
    let read = world.call("read_mcp_resource", json!({ "server": "srv", "uri": "demo://r" })).await;
    assert_eq!(completed(&read)["output"], "resource text");
    let unknown = world.call("read_mcp_resource", json!({ "server": "other", "uri": "demo://r" })).await;
    assert!(crate::world::failed(&unknown).contains("srv"), "{unknown}");

    let (_, commands) = world.wire.get("/command").await;
    let command = commands.as_array().into_iter().flatten().find(|command| command["name"] == "srv:hey");
    let command = command.unwrap_or_else(|| panic!("no command: {commands}"));
    assert_eq!((&command["source"], &command["hints"]), (&json!("mcp"), &json!(["$1"])));
}
