use std::time::Duration;

use futures::StreamExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::wire::{Wire, http_client};

/// Posts messages as a turn does and returns the response, its body still to be read.
async fn ask(model: &ScriptedModel, messages: Value) -> reqwest::Result<reqwest::Response> {
    let parameters = json!({ "type": "object", "properties": {} });
    let tool = json!({ "type": "function", "function": { "name": "read", "parameters": parameters } });
    post(model, json!({ "model": "m", "stream": true, "messages": messages, "tools": [tool] })).await
}

async fn post(model: &ScriptedModel, body: Value) -> reqwest::Result<reqwest::Response> {
    http_client().post(format!("{}/chat/completions", model.base_url())).json(&body).send().await
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Returns the data of an answer's events.
async fn data(response: reqwest::Response) -> Vec<Value> {
    let text = response.text().await.expect("a whole body");
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter(|line| *line != "[DONE]").map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the texts of an answer's deltas, one for each piece.
async fn texts(response: reqwest::Response) -> Vec<String> {
    let deltas = data(response).await.into_iter();
    let texts = deltas.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
    texts.filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn a_text_comes_in_pieces_with_finish_reason_and_usage() {
    let model = ScriptedModel::start().await;
    let usage = Usage { input: 7, output: 3, cached: Some(2), reasoning: Some(1) };
    model.script("hello", [Step::text("abcdef").with_reasoning("hm").chunks(3).usage(usage)]);
    let answer = data(ask(&model, json!([user("hello")])).await.expect("an answer")).await;
    let deltas: Vec<_> = answer.iter().filter_map(|chunk| chunk["choices"].get(0)).collect();
    assert_eq!(deltas[1]["delta"], json!({ "reasoning_content": "hm" }));
    assert_eq!(deltas[4]["delta"], json!({ "content": "ef" }));
    assert_eq!(deltas[5]["finish_reason"], "stop");
    assert_eq!(
        answer.last().expect("usage")["usage"],
        json!({
            "prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10,
            "prompt_tokens_details": { "cached_tokens": 2 }, "completion_tokens_details": { "reasoning_tokens": 1 },
        })
    );
}

#[tokio::test]
async fn calls_are_streamed_and_the_next_step_answers_their_results() {
    let model = ScriptedModel::start().await;
    let calls = [call("read", json!({ "a": 1 })).id("c1"), call("bash", json!({})).raw_arguments("{bad").pieces(1)];
    model.script("go", [Step::calls(calls).with_text("look"), Step::text("done")]);
    let answer = data(ask(&model, json!([user("go")])).await.expect("an answer")).await;
    let parts: Vec<_> =
        answer.iter().flat_map(|c| c["choices"][0]["delta"]["tool_calls"].as_array()).flatten().collect();
    let arguments = |index: u64| -> String {
        parts.iter().filter(|p| p["index"] == index).filter_map(|p| p["function"]["arguments"].as_str()).collect()
    };
    assert_eq!((arguments(0).as_str(), arguments(1).as_str()), (r#"{"a":1}"#, "{bad"));
    assert_eq!(parts[0]["id"], "c1");
    assert!(answer.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "tool_calls"));

    let function = json!({ "name": "read", "arguments": "{\"a\":1}" });
    let history = json!([
        user("go"),
        { "role": "assistant", "content": "look", "tool_calls": [{ "id": "c1", "type": "function", "function": function }] },
        { "role": "tool", "tool_call_id": "c1", "content": "result" },
    ]);
    assert_eq!(texts(ask(&model, history).await.expect("an answer")).await, ["done"]);
    let request = &model.wait_for_requests(2).await[1];
    assert_eq!(request.step, Some(("go".into(), 1)));
    assert_eq!(request.calls(), [("read".into(), json!({ "a": 1 }), Some("result".into()))]);
    assert_eq!(request.tool_names(), ["read"]);
}

#[tokio::test]
async fn the_newest_message_with_a_needle_and_in_it_the_last_one_decides() {
    let model = ScriptedModel::start().await;
    model.script("one", [Step::text("1"), Step::text("1b")]).script("two", [Step::text("2")]);
    let answer = async |messages| texts(ask(&model, messages).await.expect("an answer")).await.join("");
    assert_eq!(answer(json!([user("one")])).await, "1");
    assert_eq!(answer(json!([user("one"), user("more")])).await, "1");
    assert_eq!(answer(json!([user("one"), { "role": "assistant", "content": "1" }, user("on")])).await, "1b");
    assert_eq!(answer(json!([user("one"), { "role": "assistant", "content": "1" }, user("two")])).await, "2");
    assert_eq!(answer(json!([user("one, then two")])).await, "2");
    assert_eq!(answer(json!([user("one SCRIPT:[{\"text\":\"3\"}]")])).await, "3");
    assert_eq!(answer(json!([user("something else")])).await, "hello from the scripted model");
}

#[tokio::test]
async fn a_step_fails_as_often_as_it_says_for_each_session() {
    let model = ScriptedModel::start().await;
    model.script("x", [Step::text("ok").fail(2, 503).fail_with(1, Step::status(429).header("retry-after", "1"))]);
    for prompt in ["x", "another x"] {
        let mut statuses = Vec::new();
        for _ in 0..5 {
            let answer = ask(&model, json!([user(prompt)])).await.expect("an answer");
            statuses.push((answer.status().as_u16(), answer.headers().contains_key("retry-after")));
        }
        assert_eq!(statuses, [(503, false), (503, false), (429, true), (200, false), (200, false)]);
    }
}

#[tokio::test]
async fn a_gate_holds_the_stream_where_it_stands() {
    let model = ScriptedModel::start().await;
    let (first, second) = (Gate::new(), Gate::new());
    let script = Step::text("ab").chunks(2).gate_at(At::Head, &first).gate_at(At::Text(1), &second);
    model.script("x", [script]);
    let asking = tokio::spawn(async move {
        let answer = ask(&model, json!([user("x")])).await.expect("an answer");
        (model, answer)
    });
    first.reached().await;
    assert!(!asking.is_finished());
    first.open();
    let (model, answer) = asking.await.expect("an answer");
    second.reached().await;
    assert_eq!(model.open_requests(), 1);
    second.open();
    assert_eq!(texts(answer).await, ["a", "b"]);
    assert_eq!(model.most_open_requests(), 1);
}

#[tokio::test]
async fn a_cut_and_a_reset_leave_the_body_incomplete() {
    let model = ScriptedModel::start().await;
    model.script("cut", [Step::text("abc").chunks(3).cut_at(At::Text(2))]);
    model.script("reset", [Step::text("abc").reset_at(At::Start)]);
    model.script("early", [Step::text("abc").cut_at(At::Head)]);
    let mut body = ask(&model, json!([user("cut")])).await.expect("an answer").bytes_stream();
    let mut got = String::new();
    let error = loop {
        match body.next().await.expect("an error before the end") {
            Ok(bytes) => got.push_str(&String::from_utf8_lossy(&bytes)),
            Err(error) => break error,
        }
    };
    assert!(got.contains("\"b\"") && !got.contains("\"c\""), "{error}: {got}");
    assert!(ask(&model, json!([user("reset")])).await.expect("headers").text().await.is_err());
    assert!(ask(&model, json!([user("early")])).await.is_err());
    assert!(model.requests().iter().all(|request| request.outcome == Outcome::Answered));
}

#[tokio::test]
async fn a_client_that_leaves_a_hanging_answer_is_noticed() {
    let model = ScriptedModel::start().await;
    model.script("hang", [Step::hang()]).script("silent", [Step::silent()]);
    let answer = ask(&model, json!([user("hang")])).await.expect("headers");
    let waiting = tokio::time::timeout(Duration::from_millis(50), ask(&model, json!([user("silent")])));
    assert!(waiting.await.is_err(), "no headers come");
    model.wait_for_dropped(1).await;
    assert_eq!(model.open_requests(), 1);
    drop(answer);
    model.wait_for_dropped(2).await;
}

#[tokio::test]
async fn raw_bodies_are_sent_as_they_are() {
    let model = ScriptedModel::start().await;
    let gate = Gate::new();
    let pieces = [Piece::from("data: {\"a\"\n"), Piece::from(&gate), Piece::from(vec![0xff, 0xfe])];
    model.script("raw", [Step::raw(pieces)]);
    model.script("bytes", [Step::raw(["äö"]).bytewise().with_status(418).header("Content-Type", "text/odd")]);
    let answer = ask(&model, json!([user("raw")])).await.expect("an answer");
    gate.reached().await;
    gate.open();
    assert_eq!(answer.bytes().await.expect("a body").as_ref(), b"data: {\"a\"\n\xff\xfe");
    let answer = ask(&model, json!([user("bytes")])).await.expect("an answer");
    assert_eq!((answer.status().as_u16(), answer.headers()["content-type"].as_bytes()), (418, &b"text/odd"[..]));
    assert_eq!(answer.text().await.expect("a body"), "äö");
}

#[tokio::test]
async fn requests_without_tools_are_counted_apart() {
    let model = ScriptedModel::start().await;
    model.script_side("sum up", [Step::text("first"), Step::text("second")]);
    let side = async |text: &str| {
        let body = json!({ "model": "m", "stream": true, "messages": [user(text)] });
        texts(post(&model, body).await.expect("an answer")).await.join("")
    };
    assert_eq!(side("a title").await, "A short title");
    assert_eq!([side("sum up").await, side("sum up").await, side("sum up").await], ["first", "second", "second"]);
    assert_eq!((model.requests().len(), model.wait_for_side_requests(4).await.len()), (0, 4));
}

#[tokio::test]
async fn illegal_requests_are_told_with_their_number() {
    let model = ScriptedModel::start().await;
    ask(&model, json!([user("")])).await.expect("an answer");
    assert_eq!(model.take_faults(), ["  request 0: message 0 (user) is empty"]);
    model.assert_legal();
}

#[tokio::test]
#[should_panic(expected = "the last message is the assistant's")]
async fn a_model_dropped_after_an_illegal_request_fails_the_test() {
    let model = ScriptedModel::start().await;
    ask(&model, json!([user("x"), { "role": "assistant", "content": "y" }])).await.expect("an answer");
}

#[tokio::test]
async fn pages_are_served_and_others_are_missing() {
    let model = ScriptedModel::start().await;
    model.page("/odd", Step::raw(["x"]).header("content-type", "text/odd").with_status(201));
    let wire = Wire::new(model.url(""), "/");
    assert_eq!(wire.get("/page.json").await, (200, json!({ "a": 1 })));
    assert!(wire.get("/page?x=1").await.1.as_str().expect("html").contains("<h1>Hi</h1>"));
    assert_eq!(wire.get("/odd").await, (201, json!("x")));
    assert_eq!(wire.get("/nothing").await.0, 404);
    assert_eq!(wire.get("/v1/models").await.1["data"][0]["id"], "mock");
}
