//! Steps written into the prompt itself: `SCRIPT:[{"text":"hi"}]`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::step::{At, Call, Step, Usage, call};

const MARK: &str = "SCRIPT:";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    text: Option<String>,
    reasoning: Option<String>,
    chunks: Option<usize>,
    #[serde(default)]
    repeat: bool,
    delay_ms: Option<u64>,
    first_ms: Option<u64>,
    #[serde(default)]
    tools: Vec<WrittenCall>,
    finish: Option<String>,
    usage: Option<WrittenUsage>,
    status: Option<u16>,
    body: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    hang: bool,
    cut: Option<usize>,
    raw: Option<Vec<String>>,
    fail: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    name: String,
    /// A string is sent as it is.
    args: Option<Value>,
    chunks: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    r#in: u64,
    out: u64,
    cached: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    status: u16,
    body: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    n: Option<u32>,
}

/// Returns the last script written into `text` and where it begins; an error says why it can't be read.
pub(super) fn find(text: &str) -> Option<(usize, Result<Vec<Step>, String>)> {
    let at = last(text)?;
    let (_, script) = text.split_at(at + MARK.len());
    let written = serde_json::Deserializer::from_str(script).into_iter::<Vec<Written>>().next()?;
    Some((at, written.map(|steps| steps.into_iter().map(step).collect()).map_err(|error| error.to_string())))
}

/// Returns where the last script begins that isn't inside another one (a prompt of a subagent may be).
fn last(text: &str) -> Option<usize> {
    let mut found = None;
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(MARK).map(|at| from + at) {
        found = Some(at);
        from = at + MARK.len();
        let (_, script) = text.split_at(from);
        let mut values = serde_json::Deserializer::from_str(script).into_iter::<Value>();
        if let Some(Ok(_)) = values.next() {
            from += values.byte_offset();
        }
    }
    found
}

fn step(written: Written) -> Step {
    let mut step = if let Some(pieces) = written.raw {
        Step::raw(pieces)
    } else if let Some(status) = written.status {
        let step = Step::status(status);
        if let Some(body) = written.body { step.body(body) } else { step }
    } else {
        let mut step = Step::calls(written.tools.into_iter().map(tool_call));
        if let Some(text) = written.text {
            step = step.with_text(text);
        }
        if let Some(reasoning) = written.reasoning {
            step = step.with_reasoning(reasoning);
        }
        if let Some(count) = written.chunks {
            step = if written.repeat { step.repeat(count) } else { step.chunks(count) };
        }
        if let Some(reason) = written.finish {
            step = step.finish(reason);
        }
        if let Some(usage) = written.usage {
            step = step.usage(Usage { input: usage.r#in, output: usage.out, cached: usage.cached, ..Usage::default() });
        }
        step
    };
    for (name, value) in written.headers {
        step = step.header(name, value);
    }
    if let Some(ms) = written.delay_ms {
        step = step.every(Duration::from_millis(ms));
    }
    if let Some(ms) = written.first_ms {
        step = step.after(Duration::from_millis(ms));
    }
    if let Some(after) = written.cut {
        step = step.cut_at(At::Text(after));
    }
    if written.hang {
        step = step.hang_at(At::End);
    }
    if let Some(failure) = written.fail {
        let mut failed = Step::status(failure.status);
        if let Some(body) = failure.body {
            failed = failed.body(body);
        }
        for (name, value) in failure.headers {
            failed = failed.header(name, value);
        }
        step = step.fail_with(failure.n.unwrap_or(1), failed);
    }
    step
}

fn tool_call(written: WrittenCall) -> Call {
    let made = call(written.name, Value::Object(serde_json::Map::new()));
    let made = match written.args {
        None => made,
        Some(Value::String(text)) => made.raw_arguments(text),
        Some(value) => made.raw_arguments(value.to_string()),
    };
    match written.chunks {
        Some(count) => made.pieces(count),
        None => made,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_last_script_counts_and_one_inside_another_does_not() {
        let inner = r#"go SCRIPT:[{"tools":[{"name":"task","args":{"prompt":"SCRIPT:[{\"text\":\"x\"}]"}}]}] and on"#;
        assert_eq!(find(inner).map(|(at, steps)| (at, steps.expect("steps").len())), Some((3, 1)));
        let two = r#"SCRIPT:[{"text":"a"}] SCRIPT:[{"text":"b"},{"text":"c"}]"#;
        assert_eq!(find(two).map(|(at, steps)| (at, steps.expect("steps").len())), Some((22, 2)));
        assert!(find("no script").is_none());
    }

    #[test]
    fn a_script_that_cannot_be_read_says_why() {
        let (_, steps) = find(r#"SCRIPT:[{"texte":"a"}]"#).expect("a script");
        assert!(steps.expect_err("an error").contains("texte"));
    }
}
