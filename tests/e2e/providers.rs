//! Providers nobody wrote into the config: by a key in the environment or by a login; what is known of their models; and
//! the commands that tell of both.

use std::io::Write;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Home, Project, ScriptedModel, Step};

use crate::world::{World, said, troupe};

const TROUPE: &str = env!("CARGO_BIN_EXE_troupe");
const PATH: &str = "/ven/v1/messages";

/// A world in which Anthropic is elsewhere, and nothing else is said of it.
async fn world(environment: &[(&str, &str)]) -> World {
    let model = ScriptedModel::start().await;
    let address = json!({ "options": { "baseURL": model.url("/ven/v1") } });
    let provider = json!({ "anthropic": address });
    let project = Project::new(&model).config(json!({ "provider": provider })).create();
    let mut service = troupe();
    for (name, value) in environment {
        service = service.env(*name, *value);
    }
    let service = service.start().await;
    let wire = service.wire(project.dir());
    World { model, project, service, wire }
}

/// An answer that says `text` and what it used.
fn answer(said: &str) -> Step {
    let usage = json!({ "input_tokens": 1000, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 400 });
    let events = [
        json!({ "type": "message_start", "message": { "content": [], "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": said } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 100 } }),
        json!({ "type": "message_stop" }),
    ];
    Step::events(events)
}

async fn ask(world: &World, session: &str) -> Value {
    let model = json!({ "providerID": "anthropic", "modelID": "claude-opus-4-5" });
    world.wire.prompt_with(session, json!({ "model": model, "parts": [{ "type": "text", "text": "hello" }] })).await
}

#[tokio::test]
async fn a_key_in_the_environment_is_enough_and_the_price_is_told_for_step_message_and_session() {
    let world = world(&[("ANTHROPIC_API_KEY", "sk-env")]).await;
    world.model.post(PATH, [answer("one")]);
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);

    let first = ask(&world, &session).await;
    let second = ask(&world, &session).await;

    assert_eq!((said(&first).as_str(), &first["info"]["error"]), ("one", &Value::Null));
    let sent = world.model.posted(PATH).pop().expect("a request");
    assert_eq!((sent.headers["x-api-key"].as_str(), &sent.body["model"]), ("sk-env", &json!("claude-opus-4-5")));
    // 5, 25, 0.5 and 6.25 dollars for a million.
    let each = 0.005 + 0.0025 + 0.001 + 0.0025;
    let close = |value: &Value, wanted: f64| {
        let value = value.as_f64().expect("a number");
        assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
    };
    for message in [&first, &second] {
        close(&message["info"]["cost"], each);
        let finish = message["parts"].as_array().expect("parts").iter().find(|part| part["type"] == "step-finish");
        close(&finish.expect("a finish")["cost"], each);
    }
    close(&world.wire.session(&session).await["cost"], 2.0 * each);
    let tokens = &world.wire.session(&session).await["tokens"];
    assert_eq!(
        (&tokens["input"], &tokens["output"], &tokens["cache"]["read"]),
        (&json!(2000), &json!(200), &json!(4000))
    );
}

#[tokio::test]
async fn a_login_is_used_at_once_and_forgotten_at_once_and_its_key_is_told_to_nobody() {
    let world = world(&[]).await;
    world.model.post(PATH, [answer("one")]);
    let session = text(&world.wire.create_session_with(json!({ "title": "named" })).await["id"]);
    let (status, body) = world.wire.put("/auth/anthropic", json!({ "type": "api", "key": "sk-stored" })).await;
    assert_eq!((status, body), (200, json!(true)));

    assert_eq!(said(&ask(&world, &session).await), "one");

    assert_eq!(world.model.posted(PATH)[0].headers["x-api-key"], "sk-stored");
    let file = world.service.home().path(".local/share/troupe/auth.json");
    let kept: Value = serde_json::from_slice(&std::fs::read(&file).expect("a file")).expect("JSON");
    assert_eq!(kept, json!({ "anthropic": { "type": "api", "key": "sk-stored" } }));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    }
    for path in ["/config", "/config/providers", "/provider", "/global/config"] {
        assert!(!world.wire.get(path).await.1.to_string().contains("sk-stored"), "{path}");
    }
    assert!(!world.service.stderr().contains("sk-stored"));

    assert_eq!(world.wire.delete("/auth/anthropic").await, (200, json!(true)));
    ask(&world, &session).await;
    assert_eq!(world.model.posted(PATH)[1].headers.get("x-api-key"), None);

    let (status, body) = world.wire.put("/auth/anthropic", json!({ "type": "apii", "key": "sk-wrong" })).await;
    assert_eq!((status, body.to_string().contains("sk-wrong")), (400, false), "{body}");
}

#[tokio::test]
async fn opencodes_own_login_is_used_where_there_is_none_of_ours_and_stays() {
    let home = Home::new();
    let theirs = home.path(".local/share/opencode/auth.json");
    std::fs::create_dir_all(theirs.parent().expect("a directory")).expect("made");
    std::fs::write(&theirs, r#"{"mistral":{"type":"api","key":"k"}}"#).expect("written");
    let model = ScriptedModel::start().await;
    let project = Project::new(&model).create();
    let service = troupe().home(&home).start().await;
    let wire = service.wire(project.dir());
    let connected = |providers: Value| providers["connected"].as_array().expect("a list").clone();
    assert_eq!(connected(wire.get("/provider").await.1), ["mock", "mistral"]);
    let (status, body) = wire.delete("/auth/mistral").await;
    assert!(status == 409 && body.to_string().contains("disabled_providers"), "{status} {body}");
    assert!(theirs.exists());
}

#[tokio::test]
async fn all_providers_are_told_with_their_models_and_the_ways_to_log_in() {
    let world = World::start().await;
    let (_, providers) = world.wire.get("/provider").await;
    let all = providers["all"].as_array().expect("a list");
    assert!(all.len() > 100 && all[0]["id"] == "mock", "{}", all.len());
    assert_eq!(providers["connected"], json!(["mock"]));
    let anthropic = all.iter().find(|provider| provider["id"] == "anthropic").expect("a provider");
    let model = &anthropic["models"]["claude-opus-4-5"];
    assert_eq!((&model["limit"]["context"], &model["cost"]["input"]), (&json!(200_000), &json!(5.0)));
    assert_eq!(providers["default"]["mock"], "vision");
    let (_, methods) = world.wire.get("/provider/auth").await;
    assert_eq!(methods["openai"][2], json!({ "type": "api", "label": "Manually enter API Key" }));
    assert_eq!(methods["github-copilot"][0]["prompts"][1]["when"]["op"], "eq");

    let authorize = |provider: &str| format!("/provider/{provider}/oauth/authorize");
    for (path, body) in [
        (authorize("mock"), json!({ "method": 0 })),
        (authorize("openai"), json!({ "method": 9 })),
        (authorize("openai"), json!({})),
        ("/provider/openai/oauth/callback".to_owned(), json!({ "method": 0 })),
    ] {
        let (status, answer) = world.wire.post(&path, body).await;
        assert_eq!(status, 400, "{path}: {answer}");
    }
}

fn troupe_in(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(TROUPE);
    command.args(args).current_dir(home.dir());
    command
}

/// Runs it with this on standard input: whether it went well, and what it printed.
fn ran(mut command: Command, input: &str) -> (bool, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_person_logs_in_sees_it_and_logs_out_and_the_key_is_never_shown() {
    let home = Home::new();
    let run = |args: &[&str], input: &str| ran(troupe_in(&home, args), input);
    assert!(run(&["auth", "login", "mistral"], "sk-typed\n").0);
    assert!(!run(&["auth", "login", "mistral"], "\n").0, "no key was given");
    let (done, listed, _) = run(&["auth", "list"], "");
    assert!(done && listed.starts_with("mistral\tapi\t") && listed.contains("auth.json"), "{listed}");
    let (_, models, _) = run(&["models"], "");
    assert!(models.lines().count() > 3 && models.lines().all(|line| line.starts_with("mistral/")), "{models}");

    assert!(run(&["auth", "logout", "mistral"], "").0);
    let (done, out, told) = run(&["auth", "logout", "mistral"], "");
    assert!(!done && told.contains("there is no login of mistral"), "{out} {told}");
    let (_, models, _) = run(&["models"], "");
    assert_eq!(models, "demo/tour\n");
    let mut with_key = troupe_in(&home, &["auth", "ls"]);
    with_key.env("GROQ_API_KEY", "sk-env");
    assert_eq!(ran(with_key, "").1, "groq\tenv\tGROQ_API_KEY\n");
    for shown in [listed, told] {
        assert!(!shown.contains("sk-"), "{shown}");
    }
}

#[test]
fn what_is_known_of_models_is_told_and_an_unknown_provider_is_an_error() {
    let home = Home::new();
    let (done, out, told) = ran(troupe_in(&home, &["models", "anthropic", "--verbose"]), "");
    assert!(done && told.contains("troupe auth login anthropic"), "{told}");
    let (name, facts) = out.split_once('\n').expect("a line");
    assert!(name.starts_with("anthropic/claude-"), "{name}");
    let first: Value = serde_json::Deserializer::from_str(facts).into_iter().next().expect("a value").expect("JSON");
    assert_eq!((&first["providerID"], &first["api"]["npm"]), (&json!("anthropic"), &json!("@ai-sdk/anthropic")));
    let (done, _, told) = ran(troupe_in(&home, &["models", "zzz"]), "");
    assert!(!done && told.contains("\"zzz\" is not known"), "{told}");
}

#[tokio::test]
async fn the_list_of_models_is_fetched_on_request_and_a_service_that_runs_sees_it() {
    let world = World::start().await;
    let home = world.service.home().clone();
    let list = json!({ "ven": { "name": "Ven", "npm": "@ai-sdk/openai-compatible", "env": ["VEN_KEY"],
                                "models": { "m": { "name": "M", "limit": { "context": 5000, "output": 500 } } } } });
    let page = |body: String| Step::raw([body]).header("content-type", "application/json");
    world.model.page("/list/api.json", page(list.to_string())).page("/bad/api.json", page("<html>".into()));
    let fetch = |from: &str| {
        let mut command = troupe_in(&home, &["models", "ven", "--refresh"]);
        command.env("OPENCODE_MODELS_URL", world.model.url(from));
        tokio::task::spawn_blocking(move || ran(command, ""))
    };
    for from in ["/bad", "/none"] {
        let (done, _, told) = fetch(from).await.expect("ran");
        assert!(!done && told.contains(from), "{told}");
    }
    let (done, models, told) = fetch("/list").await.expect("ran");
    assert!(done && told.contains("models of 1 providers"), "{told}");
    assert_eq!(models, "ven/m\n");
    let (_, providers) = world.wire.get("/provider").await;
    let ids: Vec<_> =
        providers["all"].as_array().expect("a list").iter().map(|provider| text(&provider["id"])).collect();
    assert_eq!(ids, ["mock", "ven"]);
}
