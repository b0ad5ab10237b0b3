//! What language servers say of a file, and how the model is told: errors alone, in the frame OpenCode's clients and
//! models know.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Most errors of one file that the model is told.
const PER_FILE: usize = 20;
/// Most files besides those that were written.
const OTHERS: usize = 5;
/// Most characters of one message.
const MESSAGE: usize = 1000;
/// Most remarks of one file that clients are given.
const SHOWN: usize = 100;

/// How bad it is, in the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// 1.
    Error,
    /// 2.
    Warning,
    /// 3.
    Information,
    /// 4.
    Hint,
}

/// A remark of a language server.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its first line, from 1.
    pub line: u32,
    /// Its first character in that line, from 1.
    pub character: u32,
    /// What is wrong.
    pub message: String,
    /// The whole remark as the protocol has it.
    pub wire: Value,
}

/// What servers say of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileDiagnostics {
    /// The file, absolute.
    pub path: PathBuf,
    /// It is one of those that were written.
    pub is_written: bool,
    /// The remarks, worst first; none where there is nothing to say.
    pub remarks: Vec<Diagnostic>,
}

/// What servers say after files were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosed {
    /// The written files that a server knows, then others of which it has something new to say.
    pub files: Vec<FileDiagnostics>,
    /// What the model is to know of the servers themselves.
    pub notes: Vec<String>,
}

impl Diagnosed {
    /// Returns what is added to a tool's output; empty where there are no errors.
    pub(crate) fn told(&self) -> String {
        self.told_by(&|_| None)
    }

    /// Returns what is added to a tool's output, with written files called by these names; one without a name is
    /// "this file".
    pub(crate) fn told_by<'a>(&self, name: &dyn Fn(&Path) -> Option<&'a str>) -> String {
        let mut told = String::new();
        let mut others = 0;
        for file in &self.files {
            let errors: Vec<&Diagnostic> = file.remarks.iter().filter(|r| r.severity == Severity::Error).collect();
            if errors.is_empty() {
                continue;
            }
            let heading = match (file.is_written, name(&file.path)) {
                (true, Some(name)) => format!("LSP errors detected in {name}, please fix:"),
                (true, None) => "LSP errors detected in this file, please fix:".to_owned(),
                (false, _) if others == OTHERS => continue,
                (false, _) => {
                    others += 1;
                    "LSP errors detected in other files:".to_owned()
                }
            };
            let mut lines: Vec<String> = errors.iter().take(PER_FILE).map(|error| line(error)).collect();
            if let Some(more) = errors.len().checked_sub(PER_FILE).filter(|more| *more > 0) {
                lines.push(format!("... and {more} more"));
            }
            let path = file.path.display();
            told.push_str(&format!(
                "\n\n{heading}\n<diagnostics file=\"{path}\">\n{}\n</diagnostics>",
                lines.join("\n")
            ));
        }
        for note in &self.notes {
            told.push_str(&format!("\n\n{note}"));
        }
        told
    }

    /// Returns what clients are given: remarks by file.
    pub(crate) fn metadata(&self) -> Value {
        let shown = |file: &FileDiagnostics| {
            let remarks = file.remarks.iter().take(SHOWN).map(|remark| remark.wire.clone()).collect();
            (file.path.to_string_lossy().into_owned(), Value::Array(remarks))
        };
        let written = self.files.iter().filter(|file| file.is_written);
        let others = self.files.iter().filter(|file| !file.is_written).take(OTHERS);
        Value::Object(written.chain(others).filter(|file| !file.remarks.is_empty()).map(shown).collect::<Map<_, _>>())
    }
}

/// Returns the errors of each file, to tell new ones from those that were there.
pub fn errors(files: &[FileDiagnostics]) -> HashMap<PathBuf, Vec<Diagnostic>> {
    let errors = |file: &FileDiagnostics| {
        file.remarks.iter().filter(|remark| remark.severity == Severity::Error).cloned().collect::<Vec<_>>()
    };
    files.iter().map(|file| (file.path.clone(), errors(file))).filter(|(_, errors)| !errors.is_empty()).collect()
}

fn line(error: &Diagnostic) -> String {
    let mut message: String = error.message.chars().take(MESSAGE).collect();
    if message.len() < error.message.len() {
        message.push('…');
    }
    format!("ERROR [{}:{}] {message}", error.line, error.character)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn remark(severity: Severity, line: u32, message: &str) -> Diagnostic {
        Diagnostic { severity, line, character: 7, message: message.into(), wire: json!({ "message": message }) }
    }

    fn file(path: &str, is_written: bool, remarks: Vec<Diagnostic>) -> FileDiagnostics {
        FileDiagnostics { path: path.into(), is_written, remarks }
    }

    #[test]
    fn only_errors_are_told_and_everything_is_shown() {
        let remarks = vec![remark(Severity::Error, 2, "bad"), remark(Severity::Warning, 3, "meh")];
        let diagnosed = Diagnosed { files: vec![file("/p/a.ts", true, remarks)], notes: Vec::new() };
        assert_eq!(
            diagnosed.told(),
            "\n\nLSP errors detected in this file, please fix:\n<diagnostics file=\"/p/a.ts\">\nERROR [2:7] \
             bad\n</diagnostics>"
        );
        let named = diagnosed.told_by(&|_| Some("a.ts"));
        assert!(named.starts_with("\n\nLSP errors detected in a.ts, please fix:\n"), "{named}");
        assert_eq!(diagnosed.metadata(), json!({ "/p/a.ts": [{ "message": "bad" }, { "message": "meh" }] }));
    }

    #[test]
    fn nothing_to_say_is_nothing() {
        let files = vec![file("/a", true, Vec::new()), file("/b", true, vec![remark(Severity::Hint, 1, "h")])];
        let diagnosed = Diagnosed { files, notes: Vec::new() };
        assert_eq!(diagnosed.told(), "");
        assert_eq!(Diagnosed::default().metadata(), json!({}));
    }

    #[test]
    fn many_errors_and_many_other_files_are_cut() {
        let many = (0..25).map(|at| remark(Severity::Error, at, "x")).collect();
        let mut files = vec![file("/a", true, many)];
        files.extend(
            (0..9).map(|at| file(&format!("/o{at}"), false, vec![remark(Severity::Error, 1, &"m".repeat(5000))])),
        );
        let diagnosed = Diagnosed { files, notes: vec!["The server ended.".into()] };
        let told = diagnosed.told();
        assert!(told.contains("ERROR [19:7] x\n... and 5 more\n</diagnostics>"), "{told}");
        assert_eq!(told.matches("in other files:").count(), OTHERS);
        assert!(told.len() < 8000 && told.ends_with("</diagnostics>\n\nThe server ended."), "{told}");
        assert_eq!(diagnosed.metadata().as_object().map(Map::len), Some(1 + OTHERS));
    }
}
