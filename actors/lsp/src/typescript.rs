//! TypeScript's server speaks the protocol through `typescript-language-server`, which says what is wrong whenever it
//! likes, without a version, and nothing at all where nothing was wrong and nothing is. It can be asked outright by a
//! command of its own, which is quicker and certain.

use serde_json::{Value, json};

/// The command that passes a request on to TypeScript's server.
pub const COMMAND: &str = "typescript.tsserverRequest";
/// What it is asked, in this order.
pub const REQUESTS: [&str; 2] = ["syntacticDiagnosticsSync", "semanticDiagnosticsSync"];

/// Returns the protocol's remarks for those in an answer of TypeScript's server; none when it is no such answer.
pub fn remarks(answer: &Value) -> Option<Vec<Value>> {
    answer.get("body")?.as_array().map(|body| body.iter().filter_map(remark).collect())
}

fn remark(remark: &Value) -> Option<Value> {
    // Both count lines and characters from 1.
    let position = |name: &str| {
        let at = remark.get(name)?;
        let from_zero = |name: &str| Some(at.get(name)?.as_u64()?.saturating_sub(1));
        Some(json!({ "line": from_zero("line")?, "character": from_zero("offset")? }))
    };
    let severity = match remark.get("category").and_then(Value::as_str) {
        Some("warning") => 2,
        Some("message") => 3,
        Some("suggestion") => 4,
        _ => 1,
    };
    Some(json!({
        "range": { "start": position("start")?, "end": position("end")? },
        "severity": severity,
        "code": remark.get("code").cloned().unwrap_or_default(),
        "source": "typescript",
        "message": remark.get("text")?.as_str()?,
    }))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_answer_is_put_in_the_protocols_words() {
        let start = json!({ "line": 2, "offset": 7 });
        let end = json!({ "line": 2, "offset": 8 });
        let bad = json!({ "start": start, "end": end, "text": "Bad.", "code": 2322, "category": "error" });
        let answer = json!({ "success": true, "body": [bad, { "text": "no place" }] });
        let range = json!({ "start": { "line": 1, "character": 6 }, "end": { "line": 1, "character": 7 } });
        let wanted = json!({ "range": range, "severity": 1, "code": 2322, "source": "typescript", "message": "Bad." });
        assert_eq!(remarks(&answer), Some(vec![wanted]));
        assert_eq!(remarks(&json!({ "success": false })), None);
    }
}
