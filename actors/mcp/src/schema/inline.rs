//! References within a schema.

use protocol::JsonMap;
use serde_json::{Value, json};

/// How deep references are followed: a type that contains itself ends there.
const MAX_DEPTH: usize = 12;
/// Most schemas written out; what comes after may be anything.
const MAX_SCHEMAS: usize = 2_000;

/// Returns what a local reference (`#`, `#/$defs/Name`) leads to.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&reference.strip_prefix('#')?.replace("%24", "$"))
}

/// Returns a schema with its references written out and without `$defs`, for vendors that know neither (Gemini). What
/// stands beside a reference is dropped, as they demand. A type that contains itself is cut where it has been written
/// out often enough.
pub fn without_references(schema: &Value) -> Value {
    let mut left = MAX_SCHEMAS;
    let mut out = written_out(schema, schema, 0, &mut left);
    if let Value::Object(object) = &mut out {
        object.remove("$defs");
        object.remove("definitions");
    }
    out
}

fn written_out(value: &Value, root: &Value, followed: usize, left: &mut usize) -> Value {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                return match target(root, reference) {
                    Some(found) if followed < MAX_DEPTH && spend(left) => {
                        let mut found = written_out(found, root, followed + 1, left);
                        if let Value::Object(found) = &mut found {
                            found.remove("$defs");
                            found.remove("definitions");
                        }
                        found
                    }
                    _ => json!({}),
                };
            }
            if !spend(left) {
                return json!({});
            }
            let is_definitions = |key: &str| matches!(key, "$defs" | "definitions");
            let entries = object.iter().filter(|(key, value)| !(is_definitions(key) && value.is_object()));
            let entries = entries.map(|(key, value)| (key.clone(), written_out(value, root, followed, left)));
            Value::Object(entries.collect::<JsonMap>())
        }
        Value::Array(items) => items.iter().map(|item| written_out(item, root, followed, left)).collect(),
        other => other.clone(),
    }
}

fn spend(left: &mut usize) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}
