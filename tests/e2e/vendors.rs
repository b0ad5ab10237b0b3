//! Turns with models of other vendors than the scripted one: what is said in their formats, and what is sent back. The
//! formats themselves are tested beside their adapters.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::wire::text;
use support::{Gate, Piece, Project, ScriptedModel, Step};

use crate::world::{World, said, troupe};

/// A vendor's format: where it is spoken, and how.
struct Vendor {
    model: &'static str,
    path: &'static str,
    text: fn(&str) -> String,
    calls: fn(&[(&str, Value)]) -> String,
    /// The calls of a request, each with its result.
    results: fn(&Value) -> Vec<String>,
}

const VENDORS: [Vendor; 3] = [
    Vendor {
        model: "anth/claude-a",
        path: "/anth/v1/messages",
        text: anthropic_text,
        calls: anthropic_calls,
        results: anthropic_results,
    },
    Vendor {
        model: "gem/gemini-a",
        path: "/gem/v1beta/models/gemini-a:streamGenerateContent",
        text: gemini_text,
        calls: gemini_calls,
        results: gemini_results,
    },
    Vendor {
        model: "oai/gpt-5-a",
        path: "/oai/v1/responses",
        text: responses_text,
        calls: responses_calls,
        results: responses_results,
    },
];

fn sse(events: &[Value]) -> String {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("message"));
    events.iter().map(event).collect()
}

fn block(index: usize, start: Value, delta: Value) -> [Value; 3] {
    [
        json!({ "type": "content_block_start", "index": index, "content_block": start }),
        json!({ "type": "content_block_delta", "index": index, "delta": delta }),
        json!({ "type": "content_block_stop", "index": index }),
    ]
}

fn anthropic(blocks: Vec<[Value; 3]>, reason: &str) -> String {
    let end = [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 2 } }),
        json!({ "type": "message_stop" }),
    ];
    sse(&blocks.into_iter().flatten().chain(end).collect::<Vec<_>>())
}

fn anthropic_text(text: &str) -> String {
    let delta = json!({ "type": "text_delta", "text": text });
    anthropic(vec![block(0, json!({ "type": "text", "text": "" }), delta)], "end_turn")
}

fn tool_use(index: usize, (name, input): &(&str, Value)) -> [Value; 3] {
    let start = json!({ "type": "tool_use", "id": format!("toolu_{index}"), "name": name, "input": {} });
    block(index, start, json!({ "type": "input_json_delta", "partial_json": input.to_string() }))
}

fn anthropic_calls(calls: &[(&str, Value)]) -> String {
    anthropic(calls.iter().enumerate().map(|(index, call)| tool_use(index, call)).collect(), "tool_use")
}

fn anthropic_results(body: &Value) -> Vec<String> {
    let blocks: Vec<&Value> = body["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|message| message["content"].as_array().into_iter().flatten())
        .collect();
    let result = |id: &Value| blocks.iter().find(|block| block["tool_use_id"] == *id);
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    calls.map(|call| result(&call["id"]).expect("a result")["content"].to_string()).collect()
}

fn gemini_text(text: &str) -> String {
    sse(&[json!({ "candidates": [{ "content": { "parts": [{ "text": text }] }, "finishReason": "STOP" }] })])
}

fn gemini_calls(calls: &[(&str, Value)]) -> String {
    let parts: Vec<Value> =
        calls.iter().map(|(name, args)| json!({ "functionCall": { "name": name, "args": args } })).collect();
    sse(&[json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] })])
}

fn gemini_results(body: &Value) -> Vec<String> {
    let contents = body["contents"].as_array().expect("contents");
    let of = |content: &Value, kind: &str| -> Vec<Value> {
        content["parts"].as_array().into_iter().flatten().filter_map(|part| part.get(kind)).cloned().collect()
    };
    let calls = contents.iter().zip(contents.iter().skip(1)).filter(|(made, _)| !of(made, "functionCall").is_empty());
    let results = calls.flat_map(|(made, answered)| {
        let names = |parts: Vec<Value>| parts.iter().map(|part| part["name"].clone()).collect::<Vec<_>>();
        assert_eq!(names(of(made, "functionCall")), names(of(answered, "functionResponse")));
        of(answered, "functionResponse")
    });
    results.map(|result| result["response"].to_string()).collect()
}

fn responses(items: Vec<Value>) -> String {
    let done =
        |(at, item): (usize, Value)| json!({ "type": "response.output_item.done", "output_index": at, "item": item });
    let end =
        json!({ "type": "response.completed", "response": { "usage": { "input_tokens": 1, "output_tokens": 1 } } });
    sse(&items.into_iter().enumerate().map(done).chain([end]).collect::<Vec<_>>())
}

fn responses_text(text: &str) -> String {
    responses(vec![json!({ "type": "message", "id": "m", "content": [{ "type": "output_text", "text": text }] })])
}

fn responses_calls(calls: &[(&str, Value)]) -> String {
    let item = |(at, (name, arguments)): (usize, &(&str, Value))| {
        json!({ "type": "function_call", "id": format!("fc_{at}"), "call_id": format!("call_{at}"), "name": name,
                "arguments": arguments.to_string() })
    };
    responses(calls.iter().enumerate().map(item).collect())
}

fn responses_results(body: &Value) -> Vec<String> {
    let items = body["input"].as_array().expect("input");
    let result = |id: &Value| {
        items.iter().find(|item| item["type"] == "function_call_output" && item["call_id"] == *id).expect("an output")
    };
    let calls = items.iter().filter(|item| item["type"] == "function_call");
    calls.map(|call| result(&call["call_id"])["output"].to_string()).collect()
}

/// A world in which the scripted model's server speaks all formats, and a session.
async fn world() -> (World, String) {
    let model = ScriptedModel::start().await;
    let provider = |npm: &str, base: &str, models: &[&str]| {
        let entry = |name: &&str| {
            let limit = json!({ "context": 200_000, "output": 8_192 });
            ((*name).to_owned(), json!({ "name": name, "limit": limit, "reasoning": true }))
        };
        let models: serde_json::Map<String, Value> = models.iter().map(entry).collect();
        json!({ "npm": npm, "options": { "baseURL": model.url(base), "apiKey": "k" }, "models": models })
    };
    let config = json!({
        "permission": { "*": "allow" },
        "provider": {
            "anth": provider("@ai-sdk/anthropic", "/anth/v1", &["claude-a", "claude-b"]),
            "gem": provider("@ai-sdk/google", "/gem/v1beta", &["gemini-a"]),
            "oai": provider("@ai-sdk/openai", "/oai/v1", &["gpt-5-a"]),
        },
    });
    let project = Project::new(&model).config(config).create();
    project.write("a", "AAA\n");
    let service = troupe().start().await;
    let wire = service.wire(project.dir());
    let session = wire.create_session_with(json!({ "title": "named" })).await;
    (World { model, project, service, wire }, text(&session["id"]))
}

fn prompt(model: &str, text: &str) -> Value {
    let (provider, model) = model.split_once('/').expect("provider/model");
    let model = json!({ "providerID": provider, "modelID": model });
    json!({ "model": model, "parts": [{ "type": "text", "text": text }] })
}

#[tokio::test]
async fn a_turn_with_a_call_runs_in_each_format_and_its_result_goes_back() {
    let (world, session) = world().await;
    for vendor in VENDORS {
        let calls = (vendor.calls)(&[("read", json!({ "filePath": "a" }))]);
        world.model.post(vendor.path, [Step::raw([calls]), Step::raw([(vendor.text)("done")])]);
        let answer = world.wire.prompt_with(&session, prompt(vendor.model, "read a")).await;
        assert_eq!(said(&answer), "done", "{}", vendor.model);
        let asked = world.model.posted(vendor.path);
        assert_eq!(asked.len(), 2, "{}", vendor.model);
        let told = (vendor.results)(&asked[1].body).pop().expect("a result");
        assert!(told.contains("AAA"), "{}: {told}", vendor.model);
    }
}

#[tokio::test]
async fn a_call_that_was_interrupted_has_its_result_in_each_format() {
    for vendor in VENDORS {
        let (world, session) = world().await;
        let mut events = world.events().await;
        let calls = (vendor.calls)(&[
            ("bash", json!({ "command": "echo begun; sleep 600", "description": "waits" })),
            ("read", json!({ "filePath": "a" })),
        ]);
        world.model.post(vendor.path, [Step::raw([calls]), Step::raw([(vendor.text)("went on")])]);
        world.wire.prompt_async_with(&session, prompt(vendor.model, "go")).await;
        let (mut begun, mut has_read) = (false, false);
        while !(begun && has_read) {
            let part = events.wait_for("message.part.updated").await["properties"]["part"].clone();
            begun |= part["tool"] == "bash" && part["state"]["metadata"]["output"].to_string().contains("begun");
            has_read |= part["tool"] == "read" && part["state"]["status"] == "completed";
        }
        world.wire.abort(&session).await;
        events.until_idle(&session).await;

        let answer = world.wire.prompt_with(&session, prompt(vendor.model, "again")).await;

        assert_eq!(said(&answer), "went on", "{}", vendor.model);
        let asked = world.model.posted(vendor.path);
        assert_eq!(asked.len(), 2, "{}", vendor.model);
        let told = (vendor.results)(&asked[1].body);
        assert_eq!(told.len(), 2, "{}", vendor.model);
        assert!(told[0].contains("begun") && told[0].contains("abort"), "{}: {}", vendor.model, told[0]);
        assert!(told[1].contains("AAA"), "{}: {}", vendor.model, told[1]);
    }
}

#[tokio::test]
async fn an_abort_before_the_first_word_leaves_nothing_to_send_back() {
    for vendor in VENDORS {
        let (world, session) = world().await;
        let mut events = world.events().await;
        world.model.post(vendor.path, [Step::hang(), Step::raw([(vendor.text)("answered")])]);
        world.wire.prompt_async_with(&session, prompt(vendor.model, "go")).await;
        world.model.wait_for_posts(vendor.path, 1).await;
        world.wire.abort(&session).await;
        events.until_idle(&session).await;

        let answer = world.wire.prompt_with(&session, prompt(vendor.model, "again")).await;

        assert_eq!(said(&answer), "answered", "{}", vendor.model);
        let body = world.model.posted(vendor.path).pop().expect("a request").body;
        let messages = ["messages", "contents", "input"].iter().find_map(|name| body[name].as_array()).expect("a list");
        let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().expect("a role")).collect();
        assert!(!roles.contains(&"assistant") && !roles.contains(&"model"), "{}: {roles:?}", vendor.model);
        assert!(!body.to_string().contains(r#""text":"""#), "{}: {body}", vendor.model);
    }
}

#[tokio::test]
async fn thinking_goes_back_to_the_model_that_signed_it_and_to_no_other() {
    const SIGNATURE: &str = "EqoBCkgIARABGAIiQL+/==";
    let (world, session) = world().await;
    let thinking = [
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "thinking", "thinking": "deep thought" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "signature_delta", "signature": SIGNATURE } }),
        json!({ "type": "content_block_stop", "index": 0 }),
    ];
    let first = anthropic(vec![thinking, tool_use(1, &("read", json!({ "filePath": "a" })))], "tool_use");
    let path = VENDORS[0].path;
    world.model.post(
        path,
        [Step::raw([first])].into_iter().chain(["1", "2", "3", "4"].map(|said| Step::raw([anthropic_text(said)]))),
    );
    for (model, said_before) in
        [("anth/claude-a", "1"), ("anth/claude-a", "2"), ("anth/claude-b", "3"), ("anth/claude-a", "4")]
    {
        assert_eq!(said(&world.wire.prompt_with(&session, prompt(model, "go on")).await), said_before);
    }

    let asked = world.model.posted(path);
    let thoughts = |body: &Value| -> Vec<Value> {
        let blocks =
            body["messages"].as_array().expect("a list").iter().flat_map(|m| m["content"].as_array().expect("blocks"));
        blocks.filter(|block| block["type"] == "thinking").cloned().collect()
    };
    let signed = json!({ "type": "thinking", "thinking": "deep thought", "signature": SIGNATURE });
    let models: Vec<_> = asked.iter().map(|request| request.body["model"].as_str().expect("a name")).collect();
    assert_eq!(models, ["claude-a", "claude-a", "claude-a", "claude-b", "claude-a"]);
    assert_eq!(thoughts(&asked[1].body), std::slice::from_ref(&signed), "within the tool loop");
    let foreign = asked[3].body["messages"].to_string();
    assert!(!foreign.contains(SIGNATURE) && !foreign.contains("deep thought"), "{foreign}");
    for request in &asked {
        assert!(thoughts(&request.body).iter().all(|thought| *thought == signed), "{}", request.body);
    }
}

#[tokio::test]
async fn an_overload_inside_a_stream_is_tried_again_and_nothing_is_said_twice() {
    let (world, session) = world().await;
    let mut events = world.events().await;
    let vendor = &VENDORS[0];
    let gate = Gate::new();
    let error = json!({ "type": "overloaded_error", "message": "Overloaded" });
    let [start, delta, _] =
        block(0, json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": "Hello " }));
    let pieces = [
        Piece::from(sse(&[start, delta])),
        Piece::from(&gate),
        Piece::from(sse(&[json!({ "type": "error", "error": error })])),
    ];
    world.model.post(vendor.path, [Step::raw(pieces), Step::raw([anthropic_text("Hello world")])]);
    world.wire.prompt_async_with(&session, prompt(vendor.model, "greet")).await;
    gate.reached().await;
    events.wait(|event| event["properties"]["delta"] == "Hello ").await;
    gate.open();
    let told = events.wait(|event| event["properties"]["status"]["type"] == "retry").await;
    events.until_idle(&session).await;

    assert_eq!(told["properties"]["status"]["message"], error.to_string());
    let answer = world.wire.messages(&session).await.pop().expect("an answer");
    assert_eq!((said(&answer).as_str(), &answer["info"]["error"]), ("Hello world", &Value::Null));
    assert_eq!(world.model.posted(vendor.path).len(), 2);
}
