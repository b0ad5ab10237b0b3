//! Servers' tool schemas, made so that every vendor takes them. Pure.
//!
//! Vendors refuse a whole request for one schema they don't like, so what they agree on is demanded here: an object at
//! the root without `oneOf` and the like beside it, known types, lists with `items`, references that lead somewhere,
//! property names of letters, digits, `_`, `.` and `-`. What can't be mended is dropped, so that the tool can still be
//! called; the server judges the arguments itself.

mod combine;
mod inline;

use std::collections::HashSet;

use protocol::JsonMap;
use serde_json::{Value, json};

pub use inline::without_references;

/// Deepest nesting that is kept; what lies deeper may be anything.
const MAX_DEPTH: usize = 24;
/// Most bytes of a schema.
const MAX_BYTES: usize = 64 * 1024;
/// Longest property name all vendors take.
const MAX_PROPERTY: usize = 64;
/// What vendors refuse beside the root's `type`.
const ROOT_FORBIDDEN: [&str; 9] = ["oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// The types there are.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keys whose value is one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Keys whose value is a list of schemas.
const LIST: [&str; 4] = ["oneOf", "anyOf", "allOf", "prefixItems"];
/// Keys whose value is schemas by name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// A schema that every vendor takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The schema: an object with `type: "object"` and `properties`.
    pub schema: Value,
    /// Properties at the top whose names no vendor takes: the name shown, then the server's own.
    pub renamed: Vec<(String, String)>,
    /// What was changed, for a log.
    pub changes: Vec<String>,
}

impl Accepted {
    /// Returns a call's arguments under the names the server knows.
    pub fn arguments(&self, mut arguments: JsonMap) -> JsonMap {
        for (shown, own) in &self.renamed {
            if let Some(value) = arguments.remove(shown) {
                arguments.insert(own.clone(), value);
            }
        }
        arguments
    }
}

/// Returns what vendors are shown of a server's schema.
pub fn accept(schema: &Value) -> Accepted {
    let mut changes = Vec::new();
    let mut root = match schema {
        Value::Object(object) => object.clone(),
        _ => {
            changes.push("it is no object; any arguments are let through".to_owned());
            JsonMap::new()
        }
    };
    if schema.to_string().len() > MAX_BYTES {
        changes.push(format!("it is larger than {MAX_BYTES} bytes; any arguments are let through"));
        root = JsonMap::new();
    }
    let mut value = Value::Object(root);
    mend(&mut value, 0, &mut changes);
    drop_dangling(&mut value, &mut changes);
    let mut root = combine::flattened(value, &mut changes);
    for key in ROOT_FORBIDDEN {
        if root.remove(key).is_some() {
            changes.push(format!("`{key}` at the root is dropped"));
        }
    }
    root.insert("type".into(), json!("object"));
    if !root.get("properties").is_some_and(Value::is_object) {
        root.insert("properties".into(), json!({}));
    }
    let renamed = rename_properties(&mut root, &mut changes);
    require_only_known(&mut root);
    Accepted { schema: Value::Object(root), renamed, changes }
}

/// Makes a schema, and those in it, one that reads as JSON schema at all.
fn mend(value: &mut Value, depth: usize, changes: &mut Vec<String>) {
    let object = match value {
        Value::Object(object) => object,
        Value::Bool(_) => return,
        _ => {
            changes.push("something stands where a schema should; anything is let through there".to_owned());
            *value = json!({});
            return;
        }
    };
    if depth > MAX_DEPTH {
        changes.push(format!("it is nested deeper than {MAX_DEPTH}; anything is let through below"));
        *value = json!({});
        return;
    }
    // Unset keys that a server wrote as null.
    object.retain(|key, value| !value.is_null() || matches!(key.as_str(), "default" | "const"));
    mend_type(object, changes);
    for key in ["exclusiveMinimum", "exclusiveMaximum", "required"] {
        // The fourth draft's spelling.
        object.retain(|k, value| k != key || !value.is_boolean());
    }
    if object.get("enum").is_some_and(|values| values.as_array().is_none_or(Vec::is_empty)) {
        object.remove("enum");
    }
    if let Some(required) = object.get_mut("required") {
        let names = required.as_array().into_iter().flatten().filter(|name| name.is_string()).cloned();
        let names: Vec<Value> = names.collect();
        *required = Value::Array(names);
    }
    if let Some(Value::Array(tuple)) = object.get("items").cloned() {
        // The older spelling of a tuple.
        object.insert("prefixItems".into(), Value::Array(tuple));
        object.insert("items".into(), json!({}));
    }
    for key in ONE {
        if let Some(inner) = object.get_mut(key) {
            mend(inner, depth + 1, changes);
        }
    }
    for key in LIST {
        match object.get_mut(key) {
            Some(Value::Array(inner)) if !inner.is_empty() => {
                inner.iter_mut().for_each(|inner| mend(inner, depth + 1, changes));
            }
            Some(_) => drop(object.remove(key)),
            None => {}
        }
    }
    for key in NAMED {
        match object.get_mut(key) {
            Some(Value::Object(inner)) => inner.values_mut().for_each(|inner| mend(inner, depth + 1, changes)),
            Some(_) => drop(object.remove(key)),
            None => {}
        }
    }
    let is_array = object.get("type").is_some_and(|kind| kind == "array");
    if is_array && !object.contains_key("items") {
        object.insert("items".into(), json!({}));
    }
}

fn mend_type(object: &mut JsonMap, changes: &mut Vec<String>) {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match object.get_mut("type") {
        None => {}
        Some(kind) if is_known(kind) => {}
        Some(Value::Array(kinds)) if kinds.iter().any(is_known) => kinds.retain(is_known),
        Some(kind) => {
            changes.push(format!("the unknown type {kind} is dropped"));
            object.remove("type");
        }
    }
}

/// Takes references out that lead nowhere within the schema.
fn drop_dangling(value: &mut Value, changes: &mut Vec<String>) {
    let root = value.clone();
    visit(value, &mut |object| {
        let Some(reference) = object.get("$ref") else { return };
        if reference.as_str().is_none_or(|reference| inline::target(&root, reference).is_none()) {
            changes.push(format!("the reference {reference} leads nowhere and is dropped"));
            object.remove("$ref");
        }
    });
}

/// Calls `see` with each schema, the outer ones first.
fn visit(value: &mut Value, see: &mut impl FnMut(&mut JsonMap)) {
    let Value::Object(object) = value else { return };
    see(object);
    for key in ONE {
        if let Some(inner) = object.get_mut(key) {
            visit(inner, see);
        }
    }
    for key in LIST {
        if let Some(Value::Array(inner)) = object.get_mut(key) {
            inner.iter_mut().for_each(|inner| visit(inner, see));
        }
    }
    for key in NAMED {
        if let Some(Value::Object(inner)) = object.get_mut(key) {
            inner.values_mut().for_each(|inner| visit(inner, see));
        }
    }
}

/// Gives properties names that all vendors take.
fn rename_properties(root: &mut JsonMap, changes: &mut Vec<String>) -> Vec<(String, String)> {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return Vec::new() };
    let is_good = |name: &str| {
        let fits = (1..=MAX_PROPERTY).contains(&name.len());
        fits && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    };
    if properties.keys().all(|name| is_good(name)) {
        return Vec::new();
    }
    let mut used: HashSet<String> = properties.keys().filter(|name| is_good(name)).cloned().collect();
    let mut renamed = Vec::new();
    let own = std::mem::take(properties);
    for (name, schema) in own {
        if is_good(&name) {
            properties.insert(name, schema);
            continue;
        }
        let mut base = super::names::safe(&name);
        base.truncate(MAX_PROPERTY - 4);
        if base.is_empty() {
            base.push('_');
        }
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let shown = std::iter::once(base.clone()).chain(numbered).find(|shown| used.insert(shown.clone()));
        let Some(shown) = shown else { continue };
        changes.push(format!("the property {name:?} is shown as {shown:?}"));
        properties.insert(shown.clone(), schema);
        renamed.push((shown, name));
    }
    if let Some(Value::Array(required)) = root.get_mut("required") {
        for name in required {
            if let Some((shown, _)) = renamed.iter().find(|(_, own)| name == own.as_str()) {
                *name = json!(shown);
            }
        }
    }
    renamed
}

/// Some vendors refuse a required property that isn't declared.
fn require_only_known(root: &mut JsonMap) {
    let known: HashSet<String> =
        root.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(k, _)| k.clone()).collect();
    if let Some(Value::Array(required)) = root.get_mut("required") {
        let mut seen = HashSet::new();
        required.retain(|name| name.as_str().is_some_and(|name| known.contains(name) && seen.insert(name.to_owned())));
    }
    if root.get("required").is_some_and(|required| required.as_array().is_none_or(Vec::is_empty)) {
        root.remove("required");
    }
}

#[cfg(test)]
mod tests;
