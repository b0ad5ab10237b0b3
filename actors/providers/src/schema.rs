//! Tool schemas within what a vendor's API allows; the tools themselves check what comes back against the whole one.
//!
//! | vendor | what it refuses | what it gets |
//! |---|---|---|
//! | all | a root that is no object, or has `anyOf`, `oneOf`, `allOf` | the properties of all branches in one object |
//! | OpenAI | an array without `items`, a schema that is `true` | `items: {}`, `{}` |
//! | Gemini | all but the OpenAPI subset of its `Schema` object | see [`gemini`] |
//! | Moonshot | words beside `$ref`, a list of `items`, a `type` beside `anyOf` | the `$ref` alone, the first, the type in the branches |
//!
//! Sources: <https://platform.openai.com/docs/guides/function-calling>, <https://ai.google.dev/api/caching#Schema>,
//! <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>, the errors these APIs give, and
//! OpenCode 1.18 for Moonshot.

mod gemini;

use std::borrow::Cow;

use protocol::JsonMap;
use serde_json::{Map, Value, json};

pub(crate) use gemini::gemini;

const COMBINERS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Returns a schema whose root is an object without branches.
pub(crate) fn object(schema: &Value) -> Cow<'_, Value> {
    match schema.as_object() {
        Some(root)
            if root.get("type").is_some_and(|kind| kind == "object")
                && root.contains_key("properties")
                && !COMBINERS.iter().any(|name| root.contains_key(*name)) =>
        {
            Cow::Borrowed(schema)
        }
        root => Cow::Owned(Value::Object(object_root(root.cloned().unwrap_or_default()))),
    }
}

fn object_root(mut root: JsonMap) -> JsonMap {
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let mut required = names(root.remove("required"));
    for combiner in COMBINERS {
        let Some(Value::Array(branches)) = root.remove(combiner) else { continue };
        let of_all = combiner == "allOf";
        for branch in branches.into_iter().filter_map(|branch| branch.as_object().cloned()) {
            // A branch may refer to a definition; what that says is lost, which only lets more through.
            let mut branch = object_root(branch);
            if of_all {
                required.extend(names(branch.remove("required")));
            }
            if let Some(Value::Object(more)) = branch.remove("properties") {
                for (name, value) in more {
                    properties.entry(name).or_insert(value);
                }
            }
        }
    }
    required.retain(|name| properties.contains_key(name));
    let mut object = JsonMap::from_iter([("type".to_owned(), json!("object"))]);
    object.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        object.insert("required".into(), json!(required));
    }
    for (name, value) in root {
        object.entry(name).or_insert(value);
    }
    object
}

fn names(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns a schema OpenAI takes for a function that isn't strict.
pub(crate) fn openai(schema: &Value) -> Value {
    lower(object(schema).into_owned(), &|mut object| {
        let is_array = object.get("type").is_some_and(|kind| has_type(kind, "array"));
        if is_array && !object.contains_key("items") {
            object.insert("items".into(), json!({}));
        }
        object
    })
}

/// Returns a schema Moonshot takes.
pub(crate) fn moonshot(schema: &Value) -> Value {
    lower(object(schema).into_owned(), &|mut object| {
        if let Some(reference) = object.get("$ref").filter(|reference| reference.is_string()) {
            return JsonMap::from_iter([("$ref".to_owned(), reference.clone())]);
        }
        if let Some(Value::Array(items)) = object.get_mut("items") {
            let first = items.drain(..).next().unwrap_or_else(|| json!({}));
            object.insert("items".into(), first);
        }
        if object.get("anyOf").is_some_and(Value::is_array)
            && let Some(kind) = object.remove("type")
            && let Some(Value::Array(branches)) = object.get_mut("anyOf")
        {
            for branch in branches.iter_mut().filter_map(Value::as_object_mut) {
                branch.entry("type").or_insert_with(|| kind.clone());
            }
        }
        object
    })
}

/// Applies `rule` to each schema in a schema, the inner ones first. A schema that is `true` or `false` is `{}`.
fn lower(schema: Value, rule: &dyn Fn(JsonMap) -> JsonMap) -> Value {
    let Value::Object(mut object) = schema else { return json!({}) };
    for (name, value) in &mut object {
        match (name.as_str(), &mut *value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().for_each(|schema| *schema = lower(schema.take(), rule));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| *schema = lower(schema.take(), rule));
            }
            ("items" | "not" | "contains", value) => *value = lower(value.take(), rule),
            ("additionalProperties", value) if value.is_object() => *value = lower(value.take(), rule),
            _ => {}
        }
    }
    Value::Object(rule(object))
}

/// Returns whether a `type` is this one or a list with it.
fn has_type(kind: &Value, wanted: &str) -> bool {
    kind == wanted || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_good_root_stays_as_it_is() {
        let schema = json!({ "type": "object", "properties": { "a": { "anyOf": [{ "type": "string" }] } } });
        assert!(matches!(object(&schema), Cow::Borrowed(_)));
    }

    #[test]
    fn branches_at_the_root_become_one_object() {
        let schema = json!({ "$schema": "x", "description": "d", "oneOf": [
            { "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] },
            { "allOf": [{ "properties": { "b": { "type": "number" } }, "required": ["b", "zz"] }] },
        ] });
        assert_eq!(
            object(&schema).into_owned(),
            json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "number" } },
                    "$schema": "x", "description": "d" })
        );
        let all = json!({ "allOf": [{ "properties": { "b": {} }, "required": ["b", "zz"] }] });
        assert_eq!(object(&all)["required"], json!(["b"]));
        for nonsense in [json!(true), json!({}), json!({ "type": "string" }), json!(null)] {
            assert_eq!(object(&nonsense)["properties"], json!({}), "{nonsense}");
        }
    }

    #[test]
    fn openai_gets_items_and_no_schema_that_is_true() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "type": "array" }, "b": true, "c": { "type": ["array", "null"] },
            "d": { "type": "array", "items": { "type": "array" } },
        }, "additionalProperties": false });
        assert_eq!(
            openai(&schema),
            json!({ "type": "object", "properties": {
                "a": { "type": "array", "items": {} }, "b": {}, "c": { "type": ["array", "null"], "items": {} },
                "d": { "type": "array", "items": { "type": "array", "items": {} } },
            }, "additionalProperties": false })
        );
    }

    #[test]
    fn moonshot_gets_references_alone_one_schema_of_items_and_types_in_branches() {
        let schema = json!({ "type": "object", "properties": {
            "a": { "$ref": "#/$defs/A", "description": "d" },
            "b": { "type": "array", "items": [{ "type": "string" }, { "type": "number" }] },
            "c": { "type": "string", "anyOf": [{ "enum": ["x"] }, { "type": "number" }] },
        }, "$defs": { "A": { "type": "array", "items": [] } } });
        assert_eq!(
            moonshot(&schema),
            json!({ "type": "object", "properties": {
                "a": { "$ref": "#/$defs/A" },
                "b": { "type": "array", "items": { "type": "string" } },
                "c": { "anyOf": [{ "enum": ["x"], "type": "string" }, { "type": "number" }] },
            }, "$defs": { "A": { "type": "array", "items": {} } } })
        );
    }
}
