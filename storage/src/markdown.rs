//! Markdown files with front matter: agents, commands and skills. Pure but for [`read`].

use std::path::Path;

use serde_json::{Map, Value};

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A Markdown file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its front matter; empty where there is none.
    pub matter: Map<String, Value>,
    /// What comes after it.
    pub content: String,
}

/// Reads a file. The error says what is wrong with it, without naming it.
pub fn read(path: &Path) -> Result<Document, String> {
    let told = |error: std::io::Error| format!("it can't be read: {error}");
    let metadata = std::fs::metadata(path).map_err(told)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err("it is no regular file of at most 1 MiB".into());
    }
    let bytes = std::fs::read(path).map_err(told)?;
    if bytes.contains(&0) {
        return Err("it is not a text file".into());
    }
    parse(&String::from_utf8_lossy(&bytes))
}

/// Reads a text. Front matter stands between two lines of `---` at its beginning.
pub fn parse(text: &str) -> Result<Document, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let Some((matter, content)) = split(&text) else {
        return Ok(Document { matter: Map::new(), content: text });
    };
    Ok(Document { matter: object(matter)?, content: content.to_owned() })
}

/// Returns the line of a key of the front matter, from 1.
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_it = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    Some(text.lines().position(is_it)? + 1)
}

/// The front matter of a text and what comes after it.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?.trim_start_matches([' ', '\t']).strip_prefix('\n')?;
    if let Some(after) = rest.strip_prefix("---\n") {
        return Some(("", after));
    }
    let (matter, after) = rest.split_once("\n---")?;
    let (dashes, content) = after.split_once('\n').unwrap_or((after, ""));
    dashes.trim().is_empty().then_some((matter, content))
}

fn object(matter: &str) -> Result<Map<String, Value>, String> {
    if matter.trim().is_empty() {
        return Ok(Map::new());
    }
    // As YAML 1.2 has it: `y`, `no` and `on` are texts.
    let yaml = |text: &str| {
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options::<Value>(text, options)
    };
    let first = yaml(matter);
    // Much front matter is not YAML, but meant as `key: text` with a colon in the text.
    let read = match first {
        Ok(read) => Ok(read),
        Err(error) => yaml(&quoted(matter)).map_err(|_| error),
    };
    match read {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("its front matter is no list of `key: value` lines".into()),
        Err(error) => {
            let said = error.to_string();
            Err(format!("its front matter is not YAML ({})", said.lines().next().unwrap_or_default()))
        }
    }
}

/// Quotes the texts of `key: text` lines that have a colon in them.
fn quoted(matter: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((key, value))
            if !key.is_empty()
                && !key.starts_with([' ', '\t', '#', '-'])
                && value.contains(':')
                && !value.trim_start().starts_with(['"', '\'', '|', '>', '[', '{', '&', '*']) =>
        {
            format!("{key}: {}", Value::from(value.trim()))
        }
        _ => line.to_owned(),
    };
    matter.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn front_matter_is_told_from_what_comes_after_it() {
        let read = |text: &str| parse(text).map(|d| (Value::Object(d.matter), d.content));
        assert_eq!(read("no matter"), Ok((json!({}), "no matter".into())));
        assert_eq!(read("---\n---\nx"), Ok((json!({}), "x".into())));
        assert_eq!(
            read("\u{FEFF}---\r\na: 1\r\nb:\r\n  c: [x, y]\r\n---\r\nbody\r\n"),
            Ok((json!({ "a": 1, "b": { "c": ["x", "y"] } }), "body\n".into()))
        );
        assert_eq!(
            read("---\ndescription: Use when: it has a colon\nmode: all\n---\n\nx"),
            Ok((json!({ "description": "Use when: it has a colon", "mode": "all" }), "\nx".into()))
        );
        assert!(read("---\na: [\n---\nx").unwrap_err().contains("not YAML"));
        assert!(read("---\n- a\n---\nx").unwrap_err().contains("key: value"));
    }

    #[test]
    fn a_key_is_found_at_its_line() {
        let text = "---\nmodel: a\nmode : x\n---\n";
        assert_eq!((line_of(text, "mode"), line_of(text, "gone")), (Some(3), None));
    }

    proptest! {
        #[test]
        fn any_text_is_a_document_or_an_error(text in "(---\n)?[-a:\\[\\]{}\"' \n]{0,60}(\n---\n)?.{0,10}") {
            let _ = parse(&text);
        }
    }
}
