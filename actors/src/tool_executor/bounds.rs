//! What of a call's output the model reads: at most 2,000 lines and 50 KB; the whole is kept in a file. Of an error, at
//! most 8 KB: some name all that was given.

use std::path::Path;

use protocol::Ids;
use serde_json::Value;
use tools::ToolOutput;

use super::Outcome;

/// Most lines.
const MAX_LINES: usize = 2_000;
/// Most bytes.
const MAX_BYTES: usize = 50 * 1024;

/// Most bytes of an error.
const MAX_ERROR: usize = 8 * 1024;

/// Leaves the middle of a long error out.
pub fn error(text: String) -> String {
    if text.len() <= MAX_ERROR {
        return text;
    }
    let head = text.floor_char_boundary(MAX_ERROR / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_ERROR / 2);
    let left = tail - head;
    format!(
        "{}\n...{left} bytes left out...\n{}",
        text.get(..head).unwrap_or_default(),
        text.get(tail..).unwrap_or_default()
    )
}

/// Cuts an output at its limits.
pub async fn bounded(output: ToolOutput, spill: &Path, ids: &Ids) -> Outcome {
    let ToolOutput { title, output, mut metadata, attachments, truncated } = output;
    let (output, truncated) = match truncated {
        Some(truncated) => (output, truncated),
        None => match cut(&output) {
            None => (output, false),
            Some(head) => {
                let left = output.lines().count().saturating_sub(head.lines().count());
                let kept = keep(&output, spill, ids).await;
                let hint = match &kept {
                    Some(path) => {
                        metadata.insert("outputPath".into(), Value::from(path.clone()));
                        format!("The whole output is in {path}; search it with grep, or read it in pieces.")
                    }
                    None => "The whole output could not be kept; narrow the call.".to_owned(),
                };
                (format!("{head}\n\n...{left} lines truncated...\n\n{hint}"), true)
            }
        },
    };
    metadata.insert("truncated".into(), Value::Bool(truncated));
    Outcome::Completed { title, output, metadata, attachments }
}

/// The beginning that fits; none when all does.
fn cut(output: &str) -> Option<&str> {
    let mut end = 0;
    for (number, line) in output.split_inclusive('\n').enumerate() {
        if number == MAX_LINES || end + line.len() > MAX_BYTES {
            if end == 0 {
                end = output.floor_char_boundary(MAX_BYTES);
            }
            return Some(output.get(..end)?.trim_end_matches('\n'));
        }
        end += line.len();
    }
    None
}

async fn keep(output: &str, spill: &Path, ids: &Ids) -> Option<String> {
    let path = spill.join(ids.spill().as_str());
    match tokio::fs::write(&path, output).await {
        Ok(()) => Some(path.to_string_lossy().into_owned()),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "a whole output could not be kept");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_a_long_error_beginning_and_end_are_told() {
        assert_eq!(error("short".into()), "short");
        let long = error(format!("It failed: {} for that reason.", "é".repeat(100_000)));
        assert!(long.len() < MAX_ERROR + 50 && long.starts_with("It failed: é") && long.ends_with("for that reason."));
    }

    #[test]
    fn what_fits_is_not_cut_and_what_does_not_is_cut_at_a_line() {
        assert_eq!(cut("a\nb"), None);
        let many = "x\n".repeat(MAX_LINES + 5);
        assert_eq!(cut(&many).map(|head| head.lines().count()), Some(MAX_LINES));
        let wide = "é".repeat(MAX_BYTES);
        assert_eq!(cut(&wide).map(|head| head.len()), Some(MAX_BYTES));
    }

    proptest! {
        #[test]
        fn a_cut_is_a_beginning_within_the_limits(line in "[aé]{0,300}", count in 0_usize..3000) {
            let output = format!("{line}\n").repeat(count);
            if let Some(head) = cut(&output) {
                prop_assert!(output.starts_with(head) && head.len() <= MAX_BYTES && head.lines().count() <= MAX_LINES);
            } else {
                prop_assert!(output.len() <= MAX_BYTES && count <= MAX_LINES);
            }
        }
    }
}
