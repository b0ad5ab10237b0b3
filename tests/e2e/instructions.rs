//! What the system prompt is made of: the agent, the environment, skills, instructions.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::model::Step;

use crate::world::{World, calling, completed};

/// Prompts once, and returns the system prompt the model was given.
async fn system(world: &World, body: Value) -> String {
    let session = world.wire.create_session().await;
    let before = world.model.requests().len();
    world.wire.prompt_with(&session, body).await;
    let requests = world.model.requests().split_off(before);
    let request = requests.iter().find(|request| request.has_tools()).expect("a request");
    request.texts("system").concat()
}

fn hello() -> Value {
    json!({ "parts": [{ "type": "text", "text": "hello" }] })
}

#[tokio::test]
async fn instructions_come_from_the_project_the_person_globs_and_pages() {
    let world = World::start().await;
    world.model.page("/rules.md", Step::raw(["PAGE-MARKER"]));
    world.model.page("/gone.md", Step::status(404));
    world.project.write("AGENTS.md", "ROOT-MARKER");
    world.project.write("CLAUDE.md", "OTHER-MARKER");
    world.project.write("docs/one.md", "ONE-MARKER");
    world.project.write("docs/deep/two.md", "TWO-MARKER");
    let own = world.service.home().path(".config/opencode");
    std::fs::create_dir_all(&own).expect("made");
    std::fs::write(own.join("AGENTS.md"), "OWN-MARKER").expect("written");
    world.project.change_config(json!({
        "instructions": ["docs/**/*.md", world.model.url("/rules.md"), world.model.url("/gone.md")],
    }));
    let prompt = system(&world, hello()).await;
    let at = |marker: &str| prompt.find(marker).unwrap_or_else(|| panic!("{marker} is missing: {prompt}"));
    let order = ["<env>", "<available_skills>", "ROOT-MARKER", "OWN-MARKER", "TWO-MARKER", "ONE-MARKER", "PAGE-MARKER"];
    let places: Vec<usize> = order.iter().map(|marker| at(marker)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(!prompt.contains("OTHER-MARKER"));
    assert!(prompt.contains(&format!("Instructions from: {}\n", world.project.path("AGENTS.md").display())));
    assert!(world.service.stderr().contains("a page of instructions is left out"), "{}", world.service.stderr());

    // A new file counts at the next prompt; the page is not fetched again.
    world.project.write("docs/new.md", "NEW-MARKER");
    let prompt = system(&world, hello()).await;
    assert!(prompt.contains("NEW-MARKER") && prompt.contains("PAGE-MARKER"));
}

#[tokio::test]
async fn skills_are_listed_unless_the_rules_deny_them() {
    let world = World::start().await;
    let skill = |name: &str| format!("---\nname: {name}\ndescription: >\n  for {name}\n  things\n---\nBody.\n");
    world.project.write(".opencode/skills/one/SKILL.md", skill("one"));
    world.project.write(".agents/skills/two/SKILL.md", skill("two"));
    let prompt = system(&world, hello()).await;
    assert!(prompt.contains("- one: for one things\n- two: for two things\n"), "{prompt}");
    world.project.change_config(json!({ "permission": { "skill": { "two": "deny" } } }));
    let prompt = system(&world, hello()).await;
    assert!(prompt.contains("- one:") && !prompt.contains("- two:"), "{prompt}");
    world.project.change_config(json!({ "permission": { "skill": "deny" } }));
    assert!(!system(&world, hello()).await.contains("<available_skills>"));
    let (_, skills) = world.wire.get("/skill").await;
    let names: Vec<&str> = skills.as_array().expect("skills").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["customize-opencode", "one", "two"]);
}

#[tokio::test]
async fn nested_instructions_come_with_the_first_file_read_below_them() {
    let world = World::start().await;
    world.project.write("sub/AGENTS.md", "SUB-MARKER");
    world.project.write("sub/f.txt", "f\n");
    world.project.write("sub/g.txt", "g\n");
    let session = world.wire.create_session().await;
    let read = |file: &str| calling([("read", json!({ "filePath": world.project.path(file) }))]);
    world.wire.prompt(&session, &read("sub/f.txt")).await;
    world.wire.prompt(&session, &read("sub/g.txt")).await;
    let parts = world.tool_parts(&session).await;
    let output = |part: &Value| completed(part)["output"].as_str().unwrap_or_default().to_owned();
    assert!(output(&parts[0]).contains("<system-reminder>\nInstructions from: "), "{}", output(&parts[0]));
    assert!(output(&parts[0]).contains("SUB-MARKER"));
    assert_eq!(completed(&parts[0])["metadata"]["loaded"], json!([world.project.path("sub/AGENTS.md")]));
    assert!(!output(&parts[1]).contains("SUB-MARKER"), "once is enough");
}

#[tokio::test]
async fn a_picture_named_by_its_path_reaches_a_model_that_sees() {
    let world = World::start().await;
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    let path = world.project.write("p.png", png);
    let body = |model: &str| {
        json!({ "model": { "providerID": "mock", "modelID": model }, "parts": [
            { "type": "text", "text": "look" },
            { "type": "file", "mime": "image/png", "filename": "p.png", "url": format!("file://{}", path.display()) },
        ] })
    };
    let session = world.wire.create_session().await;
    world.wire.prompt_with(&session, body("vision")).await;
    let sent = world.model.requests().iter().find(|request| request.has_tools()).expect("a request").body.to_string();
    assert!(sent.contains("data:image/png;base64,"), "{sent}");
    let session = world.wire.create_session().await;
    world.wire.prompt_with(&session, body("mock")).await;
    let told =
        world.model.requests().iter().rev().find(|request| request.has_tools()).expect("one").texts("user").concat();
    assert!(told.contains("\"p.png\" can't be shown"), "{told}");
}
