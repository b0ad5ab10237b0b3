//! References in settings: `{env:NAME}` and `{file:PATH}` in a text stand for what they name.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::places::Environment;

/// Largest file a reference may name, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Words in the name of a variable or a key whose value is secret.
const SECRET: [&str; 7] = ["key", "secret", "token", "password", "passwd", "credential", "auth"];
/// A shorter value is found in other texts by chance.
const MIN_SECRET: usize = 6;

/// What references stood for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// Values that must not be shown.
    pub secrets: Secrets,
    /// Files that were read.
    pub files: Vec<PathBuf>,
    /// References that stand for nothing: keys from the top down, and why.
    pub bad: Vec<(Vec<String>, String)>,
}

/// Values that must not be shown. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// Puts `instead` wherever one of them stands in a text of the value.
    pub fn hide_in(&self, value: &mut Value, instead: &str) {
        match value {
            Value::String(text) => self.hide_in_text(text, instead),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item, instead)),
            Value::Object(map) => map.values_mut().for_each(|item| self.hide_in(item, instead)),
            _ => {}
        }
    }

    /// Puts `instead` wherever one of them stands in a text.
    pub fn hide_in_text(&self, text: &mut String, instead: &str) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), instead);
            }
        }
    }

    /// Adds those of another file.
    pub fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// Fills the references of a value in. A variable that isn't set stands for empty text, as with OpenCode; a file that
/// can't be read is bad. `base` is where relative paths count from.
pub fn fill_in(value: &mut Value, base: &Path, environment: &Environment) -> Filled {
    let mut filled = Filled::default();
    walk(value, &mut Vec::new(), &Around { base, environment }, &mut filled);
    filled
}

struct Around<'a> {
    base: &'a Path,
    environment: &'a Environment,
}

fn walk(value: &mut Value, at: &mut Vec<String>, around: &Around<'_>, filled: &mut Filled) {
    match value {
        Value::String(text) if text.contains("{env:") || text.contains("{file:") => {
            *text = fill(text, at, around, filled);
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                at.push(index.to_string());
                walk(item, at, around, filled);
                at.pop();
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                at.push(key.clone());
                walk(item, at, around, filled);
                at.pop();
            }
        }
        _ => {}
    }
}

fn fill(text: &str, at: &[String], around: &Around<'_>, filled: &mut Filled) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let reference = from.find('}').and_then(|close| from.get(1..close).map(|inner| (inner, close)));
        match reference.and_then(|(inner, close)| resolve(inner, at, around, filled).map(|value| (value, close))) {
            Some((value, close)) => {
                out.push_str(&value);
                rest = from.get(close + 1..).unwrap_or_default();
            }
            None => {
                out.push('{');
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out + rest
}

fn resolve(reference: &str, at: &[String], around: &Around<'_>, filled: &mut Filled) -> Option<String> {
    let key_is_secret = at.last().is_some_and(|key| is_secret(key));
    let (value, name) = if let Some(name) = reference.strip_prefix("env:") {
        (around.environment.get(name.trim()).unwrap_or_default().to_owned(), name)
    } else {
        let named = reference.strip_prefix("file:")?.trim();
        let path = match (named.strip_prefix("~/"), around.environment.get("HOME")) {
            (Some(below), Some(home)) => Path::new(home).join(below),
            _ => around.base.join(named),
        };
        let text = read(&path).unwrap_or_else(|problem| {
            let said = format!("bad file reference {{file:{named}}}: {} {problem}", path.display());
            filled.bad.push((at.to_vec(), said));
            String::new()
        });
        filled.files.push(path);
        (text, named)
    };
    if value.len() >= MIN_SECRET && (key_is_secret || is_secret(name)) {
        filled.secrets.0.push(value.clone());
    }
    Some(value)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|word| name.contains(word))
}

fn read(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_owned(),
        _ => format!("can't be read: {error}"),
    };
    let metadata = std::fs::metadata(path).map_err(told)?;
    if !metadata.is_file() {
        return Err("is no regular file".into());
    }
    if metadata.len() > MAX_BYTES {
        return Err("is larger than 1 MiB".into());
    }
    Ok(std::fs::read_to_string(path).map_err(told)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn references_stand_for_variables_and_files_and_the_secret_ones_are_noted() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("note.txt"), "a note\n").expect("written");
        let environment = Environment::from_iter([("API_KEY", "hush-hush"), ("USER", "ada")]);
        let mut value = json!({
            "a": "Bearer {env:API_KEY}!", "b": ["{env:USER}", "{env:UNSET}", "{other} {"], "c": "{file:note.txt}",
            "d": "{file:gone.txt}",
        });
        let filled = fill_in(&mut value, dir.path(), &environment);
        assert_eq!(value, json!({ "a": "Bearer hush-hush!", "b": ["ada", "", "{other} {"], "c": "a note", "d": "" }));
        assert_eq!(filled.files.len(), 2);
        let (at, said) = &filled.bad[0];
        assert_eq!(at.as_slice(), ["d"]);
        assert!(said.ends_with("gone.txt does not exist"), "{said}");
        assert!(!format!("{filled:?}").contains("hush"), "{filled:?}");
        filled.secrets.hide_in(&mut value, "***");
        assert_eq!((&value["a"], &value["b"][0]), (&json!("Bearer ***!"), &json!("ada")));
    }

    proptest! {
        #[test]
        fn any_text_is_filled_in(text in "[a{}:env fil/.]{0,60}") {
            fill_in(&mut json!(text), Path::new("/nowhere"), &Environment::default());
        }
    }
}
