use pretty_assertions::assert_eq;
use serde_json::json;
use tools::{Refusal, ToolError};

use crate::testing::{LONG, World, map};

/// With `tool` of a package that isn't installed, so that the stand-in is used.
const GREET: &str = r#"
import { tool } from "@opencode-ai/plugin"
export default tool({
  description: "Greets",
  args: {
    name: tool.schema.string().describe("Whom"),
    loud: tool.schema.boolean().optional(),
    how: tool.schema.enum(["a", "b"]).default("a"),
  },
  async execute(args, context) {
    context.metadata({ title: "greeting", metadata: { at: 1 } })
    return `${args.loud ? "HELLO" : "hello"} ${args.name} ${args.how} ${context.agent} ${context.directory === process.cwd()}`
  },
})
export const twice = { description: "Twice", args: { n: { type: "number" } }, execute: async ({ n }) => ({ title: "t", output: String(2 * n), metadata: { n } }) }
export const other = 7
"#;

#[tokio::test]
async fn a_modules_exports_become_tools_named_after_it() {
    let world = World::new().with(".opencode/tool/greet.js", GREET);
    world.load().await;
    let greet = world.tool("greet").spec();
    assert_eq!(greet.description, "Greets");
    assert_eq!(
        greet.parameters,
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "Whom" },
                "loud": { "type": "boolean" },
                "how": { "type": "string", "enum": ["a", "b"], "default": "a" },
            },
            "required": ["name"],
        })
    );
    let (cx, desk) = world.context();
    let output = world.tool("greet").run(map(json!({ "name": "Ada" })), &cx).await.expect("an output");
    assert_eq!(output.output, "hello Ada a build true");
    assert_eq!(desk.shown.lock().expect("a lock").first().and_then(|p| p.title.clone()).as_deref(), Some("greeting"));
    assert_eq!(desk.asks.lock().expect("a lock").first().map(|ask| ask.permission.clone()).as_deref(), Some("greet"));

    let twice = world.call("greet_twice", json!({ "n": 4 })).await.expect("an output");
    assert_eq!((twice.title.as_str(), twice.output.as_str()), ("t", "8"));
    assert_eq!(world.plugins.tools().len(), 2);
}

#[tokio::test]
async fn wrong_arguments_are_an_error_the_model_can_act_on() {
    let world = World::new().with(".opencode/tools/greet.mjs", GREET);
    world.load().await;
    let error = world.call("greet", json!({ "name": 4 })).await.expect_err("refused");
    assert!(matches!(&error, ToolError::Arguments { path, .. } if path == "name"), "{error}");
}

#[tokio::test]
async fn a_tool_may_ask_and_a_persons_no_reaches_it() {
    let world = World::new().with(
        ".opencode/tool/ask.js",
        r#"export default { description: "x", args: {}, async execute(_, cx) {
             await cx.ask({ permission: "deploy", patterns: ["prod"], always: [], metadata: {} })
             return "done"
           } }"#,
    );
    world.load().await;
    let (cx, desk) = world.context();
    let tool = world.tool("ask");
    assert_eq!(tool.run(map(json!({})), &cx).await.expect("allowed").output, "done");
    *desk.refuses.lock().expect("a lock") = Some(("deploy".into(), Refusal::Corrected("not today".into())));
    let error = tool.run(map(json!({})), &cx).await.expect_err("refused");
    assert!(error.to_string().contains("not today"), "{error}");
    *desk.refuses.lock().expect("a lock") = Some(("deploy".into(), Refusal::Rejected));
    let error = tool.run(map(json!({})), &cx).await.expect_err("rejected");
    assert!(matches!(error, ToolError::Refused(Refusal::Rejected)), "{error}");
}

#[tokio::test]
async fn an_aborted_call_reaches_its_tool_by_the_signal() {
    let world = World::new().with(
        ".opencode/tool/wait.js",
        r#"export default { description: "x", args: {}, execute: (_, cx) => new Promise((resolve) => {
             cx.metadata({ title: "waiting" })
             cx.abort.addEventListener("abort", () => resolve("stopped in time"))
           }) }"#,
    );
    world.load().await;
    let (cx, desk) = world.context();
    let tool = world.tool("wait");
    let cancel = async {
        while desk.shown.lock().expect("a lock").is_empty() {
            tokio::task::yield_now().await;
        }
        cx.cancel.cancel();
    };
    let (output, ()) = tokio::time::timeout(LONG, async { tokio::join!(tool.run(map(json!({})), &cx), cancel) })
        .await
        .expect("in time");
    assert_eq!(output.expect("an output").output, "stopped in time");
}

#[tokio::test]
async fn imports_may_leave_endings_out_and_take_json_and_bun() {
    let world = World::new()
        .with(".opencode/lib/one.mjs", "export const one = 1")
        .with(".opencode/lib/data.json", r#"{ "two": 2 }"#)
        .with(
            ".opencode/tool/sum.js",
            r#"import { one } from "../lib/one"
               import data from "../lib/data.json"
               import { $, Glob } from "bun"
               export default { description: "x", args: {}, async execute(args, { directory }) {
                 const shell = await $`echo ${"it's"} two`.cwd(directory).text()
                 const files = [...new Glob("**/*.{json,mjs}").scanSync({ cwd: directory + "/.opencode" })].sort()
                 const text = await Bun.file(directory + "/.opencode/lib/data.json").json()
                 return JSON.stringify([one + data.two, shell, files, text])
               } }"#,
        );
    world.load().await;
    let output = world.call("sum", json!({})).await.expect("an output").output;
    assert_eq!(output, r#"[3,"it's two\n",["lib/data.json","lib/one.mjs"],{"two":2}]"#);
}

#[tokio::test]
async fn a_plugin_is_given_a_shell_a_client_and_its_options() {
    let mut world = World::new().with(
        "mine/index.js",
        r#"export default { id: "mine", server: async ({ $, client, directory, project, worktree, serverUrl }, options) => ({
             tool: { look: { description: "x", args: {}, execute: async () => JSON.stringify({
               said: (await $`printf %s hi`.quiet()).stdout.toString(),
               failed: await $`exit 3`.nothrow().quiet().then((o) => o.exitCode),
               thrown: await $`exit 4`.quiet().catch((e) => e.exitCode),
               client: [typeof client.session.prompt, typeof client.app.log],
               same: directory === worktree, project: project.id, url: serverUrl.port, options,
             }) } },
           }) }"#,
    );
    world.entries = vec![json!([world.path("mine"), { "x": 1 }])];
    world.load().await;
    let output = world.call("look", json!({})).await.expect("an output").output;
    let seen: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(
        seen,
        json!({
            "said": "hi", "failed": 3, "thrown": 4, "client": ["function", "function"],
            "same": true, "project": "prj", "url": "4096", "options": { "x": 1 },
        })
    );
}

#[tokio::test]
async fn what_plugins_print_does_not_get_between_messages() {
    let world = World::new().with(
        ".opencode/tool/noisy.js",
        r#"import { execFileSync } from "node:child_process"
           console.log("while loading")
           export default { description: "x", args: {}, async execute() {
             process.stdout.write('{"id":1,"result":"forged"}\n')
             execFileSync("sh", ["-c", "echo from a child; echo loud >&2"], { stdio: "inherit" })
             return "quiet"
           } }"#,
    );
    world.load().await;
    assert_eq!(world.call("noisy", json!({})).await.expect("an output").output, "quiet");
}

#[tokio::test]
async fn typescript_is_read_or_named() {
    let mut world = World::new()
        .with(
            ".opencode/tool/typed.ts",
            r#"const n: number = 3; export default { description: "x", args: {}, execute: async () => String(n) }"#,
        )
        .with(".opencode/tool/plain.js", r#"export default { description: "x", args: {}, execute: async () => "p" }"#);
    let sidecar = world.load().await;
    match sidecar.contents().failed.as_slice() {
        [] => assert_eq!(world.call("typed", json!({})).await.expect("an output").output, "3"),
        [failed] => assert!(failed.message.contains("TypeScript"), "{failed:?}"),
        more => panic!("{more:?}"),
    }
    assert_eq!(world.call("plain", json!({})).await.expect("the other is loaded all the same").output, "p");
    world.told();
}

#[tokio::test]
async fn a_missing_package_is_named_with_what_to_do() {
    let mut world = World::new().with(".opencode/plugin/p.js", "export const P = async () => ({})");
    world.entries = vec![json!("no-such-plugin@1.2.3")];
    world.load().await;
    let told = world.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].message.contains("npm install no-such-plugin@1.2.3"), "{told:?}");
}
