//! The patch grammar: from text to what it asks for, section by section. Pure.
//!
//! It is the one GPT models are trained on (OpenCode `patch/index.ts`): `*** Begin Patch`, sections that begin with
//! `*** Add File:`, `*** Update File:` (with `*** Move to:`) or `*** Delete File:`, `*** End Patch`. What doesn't fit
//! is an error that names the line, never skipped: a skipped line is a change that nobody sees missing.

use crate::text::lines::unify;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
/// The longest line shown in an error, in characters.
const MAX_SHOWN: usize = 80;

/// What a section of a patch asks for. Paths are as the model wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// A file with this content.
    Add { path: String, content: String },
    /// The file is to go.
    Delete { path: String },
    /// The file is to change, move, or both.
    Update { path: String, move_to: Option<String>, chunks: Vec<Chunk> },
}

/// One change within a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Lines to go to first, one after the other: `@@ class A`, `@@ fn b`.
    pub(crate) context: Vec<String>,
    /// What is there and what is to be there.
    pub(crate) lines: Vec<Line>,
    /// It is at the end of the file.
    pub(crate) at_end: bool,
}

/// A line of a change, without its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is there and stays.
    Keep(String),
    /// It is there and goes.
    Remove(String),
    /// It is put in.
    Insert(String),
}

impl Line {
    /// Returns the line as it is in the file before the change; none for one that is put in.
    pub(crate) fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Insert(_) => None,
        }
    }
}

/// Why a text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrammarError {
    /// It isn't marked as one.
    #[error("Error: Invalid patch format: missing Begin/End markers")]
    NoMarkers,
    /// It asks for nothing.
    #[error("the patch is empty: between `{BEGIN}` and `{END}` there must be at least one file section")]
    Empty,
    /// A line fits nowhere.
    #[error("line {number} of the patch, {line:?}, {problem}")]
    Line { number: usize, line: String, problem: &'static str },
    /// A section says nothing.
    #[error("the section of {path:?} has no changes; write chunks below it that begin with `@@`")]
    Nothing { path: String },
}

/// Reads a patch.
pub(crate) fn parse(text: &str) -> Result<Vec<Section>, GrammarError> {
    let text = unify(text);
    let all: Vec<&str> = text.lines().collect();
    // Whatever is around the markers is packing: a fence, a here-document.
    let begin = all.iter().position(|line| line.trim() == BEGIN).ok_or(GrammarError::NoMarkers)?;
    let end = all.iter().rposition(|line| line.trim() == END).filter(|end| *end > begin);
    let end = end.ok_or(GrammarError::NoMarkers)?;
    let mut reader = Reader { lines: all.get(..end).unwrap_or_default(), at: begin + 1 };
    let mut sections = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
        } else if let Some(path) = header(line, ADD) {
            reader.at += 1;
            sections.push(Section::Add { path: reader.named(path)?, content: reader.content()? });
        } else if let Some(path) = header(line, DELETE) {
            reader.at += 1;
            sections.push(Section::Delete { path: reader.named(path)? });
        } else if let Some(path) = header(line, UPDATE) {
            reader.at += 1;
            let path = reader.named(path)?;
            let move_to = match reader.peek().and_then(|line| header(line, MOVE)) {
                Some(target) => {
                    reader.at += 1;
                    Some(reader.named(target)?)
                }
                None => None,
            };
            let chunks = reader.chunks()?;
            if chunks.is_empty() && move_to.is_none() {
                return Err(GrammarError::Nothing { path });
            }
            sections.push(Section::Update { path, move_to, chunks });
        } else {
            return Err(reader.wrong(
                "begins no section; a section begins with `*** Add File: `, `*** Update File: ` or `*** Delete File: ` and a path",
            ));
        }
    }
    if sections.is_empty() { Err(GrammarError::Empty) } else { Ok(sections) }
}

/// Returns what follows a header's mark.
fn header<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.trim().strip_prefix(mark).map(str::trim)
}

fn begins_section(line: &str) -> bool {
    [ADD, UPDATE, DELETE].iter().any(|mark| line.trim_end().starts_with(mark))
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, problem: &'static str) -> GrammarError {
        let line = self.peek().unwrap_or_default().chars().take(MAX_SHOWN).collect();
        GrammarError::Line { number: self.at + 1, line, problem }
    }

    /// Returns a header's path; the header is the line before.
    fn named(&mut self, path: &str) -> Result<String, GrammarError> {
        if path.is_empty() {
            self.at -= 1;
            return Err(self.wrong("names no file"));
        }
        Ok(path.to_owned())
    }

    /// Whether only empty lines come before the next section or the end: they are there for the eye.
    fn is_padding(&self) -> bool {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        rest.iter().find(|line| !line.trim().is_empty()).is_none_or(|line| begins_section(line))
    }

    /// Reads the lines of an added file.
    fn content(&mut self) -> Result<String, GrammarError> {
        let mut content = String::new();
        while let Some(line) = self.peek() {
            if let Some(text) = line.strip_prefix('+') {
                content.push_str(text);
                content.push('\n');
            } else if self.is_padding() {
                break;
            } else {
                return Err(self.wrong("does not begin with `+`, as each line of an added file does"));
            }
            self.at += 1;
        }
        Ok(content)
    }

    /// Reads the changes of a file.
    fn chunks(&mut self) -> Result<Vec<Chunk>, GrammarError> {
        let mut chunks = Vec::new();
        while !self.is_padding() {
            let chunk = self.chunk()?;
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    fn chunk(&mut self) -> Result<Chunk, GrammarError> {
        let mut chunk = Chunk::default();
        while let Some(context) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            let context = without_numbers(context);
            if !context.trim().is_empty() {
                chunk.context.push(context.to_owned());
            }
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line.starts_with("@@") || begins_section(line) {
                break;
            }
            if line.trim_end() == END_OF_FILE {
                chunk.at_end = true;
                self.at += 1;
                break;
            }
            if line.is_empty() && self.is_padding() {
                break;
            }
            match (line.strip_prefix('+'), line.strip_prefix('-'), line.strip_prefix(' ')) {
                (Some(text), ..) => chunk.lines.push(Line::Insert(text.to_owned())),
                (_, Some(text), _) => chunk.lines.push(Line::Remove(text.to_owned())),
                (.., Some(text)) => chunk.lines.push(Line::Keep(text.to_owned())),
                // Models leave the space out of empty lines.
                _ if line.is_empty() => chunk.lines.push(Line::Keep(String::new())),
                // What other tools put where a file ends without a line end.
                _ if line.starts_with("\\ No newline") => {}
                _ => return Err(self.wrong("begins with none of ` `, `-`, `+` and `@@`")),
            }
            self.at += 1;
        }
        if chunk.lines.is_empty() {
            self.at = self.at.saturating_sub(1);
            return Err(self.wrong("is followed by no line to keep, remove or insert"));
        }
        Ok(chunk)
    }
}

/// Returns a context line without the line numbers of other patch formats: `-1,3 +1,4 @@ fn main`. They are not
/// looked at; the lines themselves say where they belong.
fn without_numbers(context: &str) -> &str {
    let numbers = |word: &str, mark: char| {
        word.strip_prefix(mark)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == ','))
    };
    let plain = context.strip_prefix(' ').unwrap_or(context);
    if let Some((head, rest)) = plain.split_once("@@")
        && let [old, new] = head.split_whitespace().collect::<Vec<_>>().as_slice()
        && numbers(old, '-')
        && numbers(new, '+')
    {
        return rest.strip_prefix(' ').unwrap_or(rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn keep(text: &str) -> Line {
        Line::Keep(text.into())
    }

    fn remove(text: &str) -> Line {
        Line::Remove(text.into())
    }

    fn insert(text: &str) -> Line {
        Line::Insert(text.into())
    }

    fn chunks(body: &str) -> Vec<Chunk> {
        match parse(&format!("{BEGIN}\n{UPDATE} f\n{body}\n{END}")).unwrap().remove(0) {
            Section::Update { chunks, .. } => chunks,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_sections_of_a_patch_are_read() {
        let text = "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n+two\n\n*** Update File: u\n*** Move to: v\n@@ fn x\n \
                    keep\n-old\n+new\n*** End of File\n*** Delete File: d\n*** End Patch\n";
        assert_eq!(
            parse(text).unwrap(),
            [
                Section::Add { path: "a b.txt".into(), content: "one\n\ntwo\n".into() },
                Section::Update {
                    path: "u".into(),
                    move_to: Some("v".into()),
                    chunks: vec![Chunk {
                        context: vec!["fn x".into()],
                        lines: vec![keep("keep"), remove("old"), insert("new")],
                        at_end: true,
                    }],
                },
                Section::Delete { path: "d".into() },
            ]
        );
        assert_eq!(parse(&text.replace('\n', "\r\n")).unwrap(), parse(text).unwrap());
    }

    #[test]
    fn what_is_around_the_markers_is_left_out() {
        let inner = "*** Begin Patch\n*** Delete File: d\n*** End Patch";
        for (before, after) in [("cat <<'EOF'\n", "\nEOF\n"), ("```diff\n", "\n```"), ("  ", "  \n\n")] {
            assert_eq!(parse(&format!("{before}{inner}{after}")).unwrap().len(), 1, "{before}");
        }
    }

    #[test]
    fn contexts_may_nest_and_line_numbers_are_no_context() {
        let [chunk] = &*chunks("@@ class A\n@@ \tdef b\n+x") else { panic!() };
        assert_eq!(chunk.context, ["class A", "\tdef b"]);
        let [first, second] = &*chunks("@@ -1,2 +1,3 @@\n a\n+b\n@@ -9 +10 @@ fn c()\n-d") else { panic!() };
        assert_eq!((first.context.len(), second.context.as_slice()), (0, &["fn c()".to_owned()][..]));
        assert_eq!(chunks("-a\n+b\n")[0].lines, [remove("a"), insert("b")]);
    }

    #[test]
    fn empty_lines_belong_to_a_change_only_within_it() {
        let [chunk] = &*chunks("@@\n a\n\n-b\n\n") else { panic!() };
        assert_eq!(chunk.lines, [keep("a"), keep(""), remove("b")]);
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_line() {
        let error = |body: &str| parse(&format!("{BEGIN}\n{body}\n{END}")).unwrap_err().to_string();
        assert_eq!(parse("garbage").unwrap_err(), GrammarError::NoMarkers);
        assert_eq!(parse(&format!("{END}\n{BEGIN}")).unwrap_err(), GrammarError::NoMarkers);
        assert!(error("").contains("empty"));
        assert!(error("*** Add File: a\n+x\ny").starts_with("line 4 of the patch, \"y\", "));
        assert!(error("*** Update File: a\n@@\n*x").starts_with("line 4"));
        assert!(error("*** Update File: a").contains("no changes"));
        assert!(error("*** Update File: a\n@@ fn x").starts_with("line 3"));
        assert!(error("*** Update File:\n@@\n-x").contains("names no file"));
        assert!(error("hello").starts_with("line 2"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(
            body in "((\\*\\*\\* (Add File|Update File|Delete File|Move to|End of File|End Patch):? ?a?|@@ ?x?|[ +-]?[aé]?)\r?\n){0,12}"
        ) {
            let _ = parse(&format!("{BEGIN}\n{body}{END}"));
            let _ = parse(&body);
        }
    }
}
