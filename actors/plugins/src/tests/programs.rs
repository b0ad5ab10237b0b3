use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::testing::{LONG, World, map};

async fn tools_of(world: &mut World) -> Vec<String> {
    let (directory, processes) = (world.root.path().to_owned(), tools::process::Processes::none());
    let found = world.found().programs;
    let tools = crate::program::tools(&found, &directory, &processes, &world.notices).await;
    let names = tools.iter().map(|tool| tool.id().to_owned()).collect();
    world.set(crate::State::Ready(crate::Loaded { tools: std::sync::Arc::new(tools), sidecar: None }));
    names
}

const WORDS: &str = r#"#!/bin/sh
if [ "$1" = --schema ]; then
  echo '{"description":"Counts words","parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}'
  exit
fi
input=$(cat)
case "$input" in
  *fail*) echo "it went wrong" >&2; exit 3;;
  *object*) echo '{"title":"T","output":"O","metadata":{"a":1}}';;
  *place*) pwd;;
  *) printf '%s' "$input";;
esac
"#;

#[tokio::test]
async fn a_program_is_a_tool_with_its_own_schema() {
    let mut world = World::new().with_program(".opencode/tool/word-count.sh", WORDS);
    assert_eq!(tools_of(&mut world).await, ["word-count"]);
    let spec = world.tool("word-count").spec();
    assert_eq!((spec.description.as_str(), &spec.parameters["required"]), ("Counts words", &json!(["text"])));
    let call = |text: &str| world.call("word-count", json!({ "text": text }));
    assert_eq!(call("a").await.expect("an output").output, r#"{"text":"a"}"#);
    let object = call("object").await.expect("an output");
    assert_eq!((object.title.as_str(), object.output.as_str(), &object.metadata["a"]), ("T", "O", &Value::from(1)));
    let here = call("place").await.expect("an output").output;
    assert_eq!(here.trim_end(), std::fs::canonicalize(world.root.path()).expect("a path").to_string_lossy());
    let error = call("fail").await.expect_err("failed").to_string();
    assert!(error.contains("it went wrong"), "{error}");
}

#[tokio::test]
async fn programs_without_a_definition_are_named_and_left_out() {
    let mut world = World::new()
        .with_program(".opencode/tool/a", "#!/bin/sh\necho no json\n")
        .with_program(".opencode/tool/b", "#!/bin/sh\necho broken >&2; exit 1\n")
        .with_program(".opencode/tool/c", "not a program\n\0")
        .with_program(".opencode/tool/good", WORDS);
    assert_eq!(tools_of(&mut world).await, ["good"]);
    let told = world.told();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().any(|notice| notice.message.contains("broken")), "{told:?}");
}

#[tokio::test]
async fn an_aborted_program_is_ended_with_all_it_started() {
    let mut world = World::new().with_program(
        ".opencode/tool/slow",
        "#!/bin/sh\n[ \"$1\" = --schema ] && { echo '{\"description\":\"x\"}'; exit; }\nsleep 1000 & echo $! > pid; wait\n",
    );
    tools_of(&mut world).await;
    let (cx, _) = world.context();
    let tool = world.tool("slow");
    let pid = world.path("pid");
    let cancel = async {
        while !std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
            tokio::task::yield_now().await;
        }
        cx.cancel.cancel();
    };
    let both = async { tokio::join!(tool.run(map(json!({})), &cx), cancel) };
    let (output, ()) = tokio::time::timeout(LONG, both).await.expect("in time");
    assert!(matches!(output, Err(tools::ToolError::Aborted)), "{output:?}");
    let pid = std::fs::read_to_string(&pid).expect("a file");
    // It is killed by then; the kernel may still be at it.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let gone = async {
        while !(state().is_empty() || state().contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(LONG, gone).await.is_ok(), "{}", state());
}

#[tokio::test]
async fn a_program_that_reads_no_input_and_leaves_a_child_behind_still_answers() {
    let mut world = World::new().with_program(
        ".opencode/tool/quick",
        "#!/bin/sh\n[ \"$1\" = --schema ] && { echo '{\"description\":\"x\"}'; exit; }\nsleep 1000 &\necho done\n",
    );
    tools_of(&mut world).await;
    let big = "x".repeat(1_000_000);
    let output = tokio::time::timeout(LONG, world.call("quick", json!({ "text": big }))).await.expect("in time");
    assert_eq!(output.expect("an output").output, "done\n");
}
