//! Answers in each server's documented format.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use protocol::message::{CacheTokens, Tokens};

use super::*;
use crate::testing::{play, same_however_cut, short};

const RECORDED: [(&str, &str, &str); 7] = [
    ("openai", "openrouter", include_str!("../fixtures/openai.sse")),
    ("deepseek", "openrouter", include_str!("../fixtures/deepseek.sse")),
    ("groq", "openrouter", include_str!("../fixtures/groq.sse")),
    ("mistral", "openrouter", include_str!("../fixtures/mistral.sse")),
    ("ollama", "openrouter", include_str!("../fixtures/ollama.sse")),
    ("openrouter", "openrouter", include_str!("../fixtures/openrouter.sse")),
    ("copilot", "copilot", include_str!("../fixtures/copilot.sse")),
];

/// What the answer of a server says in short, and what it used.
fn read(server: &str) -> (Vec<String>, Tokens) {
    let (_, vendor, body) = RECORDED.iter().find(|(name, ..)| *name == server).expect("a recording");
    let (events, error) = play(Decoder::new(ids(), vendor), body.as_bytes(), &[body.len()]);
    assert_eq!(error, None);
    let Some(ModelEvent::Finish { usage, .. }) = events.last() else { panic!("{events:?}") };
    (short(&events), *usage)
}

fn tokens(total: u64, input: u64, output: u64, reasoning: u64, read: u64) -> Tokens {
    Tokens { total: Some(total), input, output, reasoning, cache: CacheTokens { read, write: 0 } }
}

const THOUGHT: [&str; 3] = ["thinking", "+I 看", "thinking end"];
const READ: [&str; 3] = ["text", "+Reading", "text end"];

#[test]
fn thinking_text_calls_and_counts_are_found_wherever_a_server_has_them() {
    let call = |id: &str| [format!("start {id} read"), format!("call {id} read {{\"filePath\":\"a\"}}")];
    let done = ["text", "+Done.", "text end", "finish stop"];
    let (events, used) = read("openai");
    let said = ["text", "+I read 看 ", "+it 😀.", "text end"].map(String::from).to_vec();
    assert_eq!(events, [said, call("call_1").to_vec(), vec!["finish tool-calls".into()]].concat());
    assert_eq!(used, tokens(590, 116, 90, 0, 384));

    let (events, used) = read("deepseek");
    assert_eq!(
        (events, used),
        (
            [&THOUGHT[..], &done].concat().iter().map(|event| (*event).to_owned()).collect(),
            tokens(590, 116, 26, 64, 384)
        )
    );
    let (events, used) = read("groq");
    assert_eq!(
        (events, used),
        ([&THOUGHT[..], &done].concat().iter().map(|event| (*event).to_owned()).collect(), tokens(120, 100, 12, 8, 0))
    );

    let before: Vec<String> = THOUGHT.iter().chain(&READ).map(|event| (*event).to_owned()).collect();
    let (events, used) = read("mistral");
    assert_eq!(events, [before.clone(), call("kWjZ0b4Yf").to_vec(), vec!["finish tool-calls".into()]].concat());
    assert_eq!(used, tokens(120, 100, 20, 0, 0));
    let (events, _) = read("ollama");
    let second = ["start call_b2 list", "call call_b2 list {}", "finish tool-calls"].map(String::from).to_vec();
    assert_eq!(events, [before, call("call_a1").to_vec(), second].concat());
}

#[test]
fn what_openrouter_and_copilot_want_back_is_kept_where_it_belongs() {
    let (events, used) = read("openrouter");
    let details = |detail: Value| json!({ "openrouter": { "reasoning_details": [detail] } });
    let text =
        details(json!({ "type": "reasoning.text", "text": "I 看 first", "format": "google-gemini-v1", "index": 0 }));
    let sealed = details(json!({ "type": "reasoning.encrypted", "data": "CtUB", "id": "tool_0_read",
                                 "format": "google-gemini-v1", "index": 0 }));
    assert_eq!(events[3], format!("thinking end {text}"));
    assert_eq!(events[8], format!("call tool_0_read read {{\"filePath\":\"a.txt\"}} {sealed}"));
    assert_eq!(used, tokens(590, 100, 26, 64, 400));

    let (events, _) = read("copilot");
    assert_eq!(events[2], format!("thinking end {}", json!({ "copilot": { "reasoningOpaque": "seal==" } })));
    assert_eq!(events.last().map(String::as_str), Some("finish tool-calls"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn each_decodes_the_same_however_it_is_cut(sizes in proptest::collection::vec(1_usize..300, 1..20)) {
        for (_, vendor, body) in RECORDED {
            same_however_cut(|| Decoder::new(ids(), vendor), body, &sizes);
        }
    }
}
