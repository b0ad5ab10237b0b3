//! Remarks of servers: read one by one, so that a bad one costs only itself.

use lsp_types::{Diagnostic as Wire, DiagnosticSeverity};
use serde::Deserialize;
use serde_json::Value;
use tools::diagnostics::{Diagnostic, Severity};

/// Most remarks of one file that are kept.
const KEPT: usize = 500;

/// Reads a list of remarks; what is none is left out.
pub fn remarks(list: Value) -> Vec<Diagnostic> {
    let Value::Array(list) = list else { return Vec::new() };
    let mut remarks: Vec<Diagnostic> = list.into_iter().filter_map(remark).take(KEPT).collect();
    remarks.sort_by_key(|remark| (remark.severity, remark.line, remark.character));
    remarks
}

fn remark(wire: Value) -> Option<Diagnostic> {
    let read = Wire::deserialize(&wire).ok()?;
    let severity = match read.severity {
        Some(DiagnosticSeverity::WARNING) => Severity::Warning,
        Some(DiagnosticSeverity::INFORMATION) => Severity::Information,
        Some(DiagnosticSeverity::HINT) => Severity::Hint,
        // Left out, the protocol leaves it to us.
        _ => Severity::Error,
    };
    let start = read.range.start;
    Some(Diagnostic {
        severity,
        line: start.line.saturating_add(1),
        character: start.character.saturating_add(1),
        message: read.message,
        wire,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_remark_is_left_out_and_the_worst_comes_first() {
        let range =
            |line: u32| json!({ "start": { "line": line, "character": 0 }, "end": { "line": line, "character": 2 } });
        let list = json!([
            7, { "message": "no range" }, { "range": range(3), "message": "late", "severity": 1, "code": "E1" },
            { "range": range(0), "message": "hint", "severity": 4 }, { "range": range(1), "message": "none said" },
            { "range": { "start": { "line": -1, "character": 0 } }, "message": "bad" },
        ]);
        let read = remarks(list);
        let told: Vec<_> = read.iter().map(|r| (r.severity, r.line, r.character, &*r.message)).collect();
        assert_eq!(
            told,
            [(Severity::Error, 2, 1, "none said"), (Severity::Error, 4, 1, "late"), (Severity::Hint, 1, 1, "hint")]
        );
        assert_eq!(read[1].wire["code"], "E1");
        assert_eq!(remarks(json!({ "not": "a list" })), []);
    }
}
