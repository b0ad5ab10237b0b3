use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::testing::FakeDesk;

fn texts(answers: &[&[&str]]) -> Answers {
    answers.iter().map(|answer| answer.iter().map(|text| (*text).to_owned()).collect()).collect()
}

async fn asked(params: Value, answers: Vec<Result<Answers, Refusal>>) -> (Value, Vec<Question>) {
    let desk = FakeDesk::new();
    let answers = Mutex::new(answers.into_iter());
    desk.reply(move |_| answers.lock().unwrap().next().unwrap_or(Err(Refusal::Dismissed)));
    let result = ask(&*desk, "srv", &params).await;
    let questions = desk.questions.lock().unwrap().clone();
    (serde_json::to_value(result).unwrap(), questions)
}

fn form(properties: Value, required: Value) -> Value {
    json!({ "message": "m", "requestedSchema": { "type": "object", "properties": properties, "required": required } })
}

#[tokio::test]
async fn each_kind_of_property_is_asked_and_read_in_its_own_way() {
    let properties = json!({
        "text": { "type": "string", "title": "A text", "description": "any" },
        "flag": { "type": "boolean" },
        "number": { "type": "number" },
        "one": { "type": "string", "oneOf": [{ "const": "a", "title": "Alpha" }, { "const": "b", "title": "Beta" }] },
        "many": { "type": "array", "items": { "type": "string", "enum": ["x", "y", "z"] } },
        "default": { "type": "integer", "default": 7 }
    });
    let answers = texts(&[&["words"], &["Yes"], &["1.5"], &["Beta"], &["x", "z"], &[]]);
    let (result, questions) = asked(form(properties, json!(["text"])), vec![Ok(answers)]).await;
    assert_eq!(
        result,
        json!({ "action": "accept", "content": {
            "text": "words", "flag": true, "number": 1.5, "one": "b", "many": ["x", "z"], "default": 7
        } })
    );
    let headers: Vec<_> = questions.iter().map(|question| question.header.as_str()).collect();
    assert_eq!(headers, ["A text", "flag", "number", "one", "many", "default"]);
    assert_eq!(
        (questions[4].multiple, questions[1].custom, questions[0].custom),
        (Some(true), Some(false), Some(true))
    );
    assert!(!questions[0].question.contains("left out") && questions[1].question.contains("left out"));
}

#[tokio::test]
async fn what_can_not_be_read_is_asked_once_more_and_then_declined() {
    let ask = form(json!({ "n": { "type": "integer" }, "t": { "type": "string" } }), json!(["n", "t"]));
    let (result, questions) = asked(ask.clone(), vec![Ok(texts(&[&["x"], &["ok"]])), Ok(texts(&[&["5"]]))]).await;
    assert_eq!(result, json!({ "action": "accept", "content": { "t": "ok", "n": 5 } }));
    assert_eq!(questions.len(), 3);
    let (result, _) = asked(ask, vec![Ok(texts(&[&["x"], &["ok"]])), Ok(texts(&[&["y"]]))]).await;
    assert_eq!(result, json!({ "action": "decline" }));
}

#[tokio::test]
async fn a_form_without_properties_is_a_yes_or_no() {
    let (result, questions) = asked(form(json!({}), json!([])), vec![Ok(texts(&[&["Accept"]]))]).await;
    assert_eq!(result, json!({ "action": "accept", "content": {} }));
    assert_eq!(questions[0].options.len(), 2);
    assert_eq!(asked(json!({}), vec![Ok(texts(&[&["Decline"]]))]).await.0, json!({ "action": "decline" }));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let ask = || form(json!({ "t": { "type": "string" } }), json!(["t"]));
    assert_eq!(asked(ask(), vec![Err(Refusal::Dismissed)]).await.0, json!({ "action": "cancel" }));
    assert_eq!(asked(ask(), vec![Err(Refusal::Rejected)]).await.0, json!({ "action": "decline" }));
}

#[tokio::test]
async fn an_address_is_shown_and_not_opened() {
    let ask = json!({ "mode": "url", "message": "log in", "url": "https://x.test/y" });
    let (result, questions) = asked(ask.clone(), vec![Ok(texts(&[&["Done"]]))]).await;
    assert_eq!(result, json!({ "action": "accept" }));
    assert!(questions[0].question.contains("https://x.test/y"));
    assert_eq!(asked(ask, vec![Ok(texts(&[&["Decline"]]))]).await.0, json!({ "action": "decline" }));
}
