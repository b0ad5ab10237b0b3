//! Changing settings files, comments and layout kept.

use std::io::Write;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::{Map, Value};

use super::file::{self, ConfigError};
use super::reference;
use super::schema::SETTINGS;
use super::shape;
use crate::places::{Environment, Places};

/// Where the shape of the settings is described.
pub const SCHEMA: &str = "https://opencode.ai/config.json";
/// What stands for a secret where settings are shown.
pub const HIDDEN: &str = "***";

/// Which file is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The strongest there is of a directory's own: `.opencode/opencode.jsonc`, `.opencode/opencode.json`,
    /// `opencode.jsonc`, `opencode.json`; else the last is made.
    Directory(PathBuf),
    /// The strongest there is of the global directory's: `opencode.jsonc`, `opencode.json`, `config.json`; else the
    /// first is made.
    Global,
}

/// What is wrong with a change: each wrong value as the wire tells it, with its place.
pub fn problems(patch: &Value) -> Vec<String> {
    let mut given = patch.clone();
    without_nulls(&mut given);
    let told = |(keys, message): (Vec<String>, String)| {
        let place: String = keys
            .iter()
            .map(|key| match key.parse::<usize>() {
                Ok(index) => format!("[{index}]"),
                Err(_) => format!("[{}]", Value::from(key.as_str())),
            })
            .collect();
        format!("{message}\n  at {place}")
    };
    if !given.is_object() {
        return vec![format!("Expected object, got {given}")];
    }
    shape::check(&SETTINGS, &given, &given).wrong.into_iter().map(told).collect()
}

/// Merges a change into a settings file and returns that file. Objects are merged key by key, anything else is
/// replaced, and `null` takes a key out. A value that is what is shown of a secret, or what a reference in the file
/// stands for, changes nothing: clients send back what they were shown. Blocks.
pub fn change(
    target: &Target,
    patch: &Value,
    places: &Places,
    environment: &Environment,
) -> Result<PathBuf, ConfigError> {
    let path = path_of(target, places);
    let unwritable = |message: String| ConfigError::Unreadable { path: path.clone(), message };
    let text = file::text(&path)?.unwrap_or_else(|| format!("{{\n  \"$schema\": \"{SCHEMA}\"\n}}\n"));
    let before = file::json(&path, &text)?;
    let root = CstRootNode::parse(&text, &ParseOptions::default()).map_err(|error| unwritable(error.to_string()))?;
    let around = Around { base: path.parent().unwrap_or(Path::new("")), environment };
    if let Value::Object(patch) = patch {
        put(&root.object_value_or_set(), &before, patch, &around);
    }
    let after = root.to_string();
    if after != text || !path.exists() {
        // A file that stands for others is written where they are.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        write(&real, &after).map_err(|error| unwritable(format!("it can't be written: {error}")))?;
    }
    Ok(path)
}

fn path_of(target: &Target, places: &Places) -> PathBuf {
    let (strong_first, made) = match target {
        Target::Directory(dir) => {
            let names = [".opencode/opencode.jsonc", ".opencode/opencode.json", "opencode.jsonc", "opencode.json"];
            (names.map(|name| dir.join(name)).to_vec(), dir.join("opencode.json"))
        }
        Target::Global => {
            let names = ["opencode.jsonc", "opencode.json", "config.json"];
            (names.map(|name| places.config.join(name)).to_vec(), places.config.join("opencode.jsonc"))
        }
    };
    strong_first.into_iter().find(|path| path.exists()).unwrap_or(made)
}

struct Around<'a> {
    base: &'a Path,
    environment: &'a Environment,
}

fn put(into: &CstObject, before: &Value, patch: &Map<String, Value>, around: &Around<'_>) {
    for (key, value) in patch {
        let old = before.get(key);
        match (value, into.get(key)) {
            (Value::Null, Some(there)) => there.remove(),
            (Value::Null, None) => {}
            (Value::Object(patch), there) => {
                let is_object = there.is_none() || old.is_some_and(Value::is_object);
                if is_object {
                    put(&into.object_value_or_set(key), old.unwrap_or(&Value::Null), patch, around);
                } else if let Some(there) = there {
                    let mut plain = value.clone();
                    without_nulls(&mut plain);
                    there.set_value(input(&plain));
                }
            }
            (value, there) if is_what_is_shown(value, old, around) => drop(there),
            (value, Some(there)) => there.set_value(input(value)),
            (value, None) => drop(into.append(key, input(value))),
        }
    }
}

/// Whether a value is what the file's own is shown as.
fn is_what_is_shown(value: &Value, old: Option<&Value>, around: &Around<'_>) -> bool {
    if value == HIDDEN || old == Some(value) {
        return true;
    }
    old.is_some_and(|old| {
        let mut filled = old.clone();
        reference::fill_in(&mut filled, around.base, around.environment);
        filled == *value
    })
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(map.iter().map(|(k, v)| (k.clone(), input(v))).collect()),
    }
}

/// Writes a file beside it and moves it there: whoever reads it meanwhile sees the old or the new one, whole.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:08x}.tmp", rand::random::<u32>()));
    let beside = path.with_file_name(name);
    let written = (|| {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn changed(text: Option<&str>, patch: Value) -> String {
        let root = tempfile::tempdir().expect("a directory");
        if let Some(text) = text {
            std::fs::write(root.path().join("opencode.json"), text).expect("written");
        }
        let environment = Environment::from_iter([("HOME", "/nowhere"), ("USER", "ada")]);
        let target = Target::Directory(root.path().to_owned());
        let path = change(&target, &patch, &Places::of(&environment), &environment).expect("changed");
        assert_eq!(path, root.path().join("opencode.json"));
        std::fs::read_to_string(path).expect("read")
    }

    #[test]
    fn comments_stay_and_keys_are_put_changed_and_taken_out() {
        let text = "{\n  // mine\n  \"model\": \"a/b\", // why\n  \"permission\": { \"bash\": \"ask\" },\n  \"share\": \"auto\"\n}\n";
        let patch = json!({ "model": "c/d", "permission": { "edit": "deny" }, "share": null, "instructions": ["x"] });
        let after = changed(Some(text), patch);
        for kept in
            ["// mine", "\"model\": \"c/d\", // why", "\"bash\": \"ask\"", "\"edit\": \"deny\"", "\"instructions\""]
        {
            assert!(after.contains(kept), "{kept}: {after}");
        }
        assert!(!after.contains("share"), "{after}");
    }

    #[test]
    fn a_file_is_made_where_there_is_none() {
        let after: Value = serde_json::from_str(&changed(None, json!({ "username": "bob", "a": null }))).expect("JSON");
        assert_eq!(after, json!({ "$schema": SCHEMA, "username": "bob" }));
    }

    #[test]
    fn what_a_client_was_shown_changes_nothing_when_it_comes_back() {
        let text = r#"{"username":"{env:USER}","provider":{"x":{"options":{"apiKey":"{env:KEY}","a":1}}}}"#;
        let patch = json!({ "username": "ada", "provider": { "x": { "options": { "apiKey": "***", "a": 1 } } } });
        assert_eq!(changed(Some(text), patch), text);
    }

    #[test]
    fn a_wrong_change_is_told_as_the_wire_tells_it() {
        let wanted = "Expected \"manual\" | \"auto\" | \"disabled\", got \"zzz\"\n  at [\"share\"]";
        assert_eq!(problems(&json!({ "share": "zzz", "model": null })), [wanted]);
        assert_eq!(
            problems(&json!({ "instructions": ["a", 1] })),
            ["Expected string, got 1\n  at [\"instructions\"][1]"]
        );
        assert_eq!(problems(&json!([1])), ["Expected object, got [1]"]);
    }
}
