//! With packages from npm: OpenCode's own, and a plugin that others wrote.

use pretty_assertions::assert_eq;
use serde_json::json;
use tools::ToolError;

use crate::testing::World;

/// A world in which the packages of `tests/plugins` are found, as if they were installed in the config directory.
fn world() -> World {
    let mut world = World::new();
    world.roots = vec![support::npm::installed("plugins")];
    world
}

#[tokio::test]
async fn a_typescript_tool_with_zod_arguments_is_run_as_it_is() {
    let world = world().with(
        ".opencode/tool/weather.ts",
        r#"import { tool, type ToolContext } from "@opencode-ai/plugin"
           enum Unit { C = "c", F = "f" }
           interface Place { name: string }
           export default tool({
             description: "Tells the weather",
             args: {
               place: tool.schema.object({ name: tool.schema.string().min(1).describe("Its name") }),
               unit: tool.schema.enum(["c", "f"]).default("c").describe("Of temperatures"),
               days: tool.schema.number().int().optional(),
             },
             async execute(args, context: ToolContext): Promise<string> {
               const place = args.place as Place
               return `${place.name} 20${args.unit === Unit.C ? "°C" : "°F"} ${args.days ?? 1} ${context.sessionID}`
             },
           })"#,
    );
    let sidecar = world.load().await;
    assert_eq!(sidecar.contents().failed, []);
    assert_eq!(
        world.tool("weather").spec().parameters,
        json!({
            "type": "object",
            "properties": {
                "place": {
                    "type": "object",
                    "properties": { "name": { "type": "string", "minLength": 1, "description": "Its name" } },
                    "required": ["name"],
                },
                "unit": { "type": "string", "enum": ["c", "f"], "default": "c", "description": "Of temperatures" },
                "days": { "type": "integer", "minimum": -9007199254740991_i64, "maximum": 9007199254740991_i64 },
            },
            "required": ["place"],
        })
    );
    let output = world.call("weather", json!({ "place": { "name": "Rome" } })).await.expect("an output");
    assert_eq!(output.output, "Rome 20°C 1 ses_test");
    let error = world.call("weather", json!({ "place": { "name": "" } })).await.expect_err("refused");
    assert!(matches!(&error, ToolError::Arguments { path, .. } if path == "place.name"), "{error}");
}

#[tokio::test]
async fn a_plugin_from_npm_adds_its_tools() {
    let skill = "---\nname: letters\ndescription: How letters to customers are written here\n---\nBe brief.\n";
    let mut world = world().with(".opencode/skills/letters/SKILL.md", skill);
    world.entries = vec![json!("opencode-skills@0.1.7")];
    let sidecar = world.load().await;
    assert_eq!(sidecar.contents().failed, []);
    assert_eq!(world.tool("skills_letters").spec().description, "How letters to customers are written here");
}

#[tokio::test]
async fn the_clients_of_plugins_are_opencodes_own() {
    let world = world().with(
        ".opencode/plugin/p.js",
        r#"export const P = async ({ client }) => ({ tool: { look: { description: "x", args: {}, execute: async () =>
             [client.constructor.name, typeof client.session.promptAsync, typeof client.global.event].join() } } })"#,
    );
    world.load().await;
    assert_eq!(world.call("look", json!({})).await.expect("an output").output, "OpencodeClient,function,function");
}
