//! Tool schemas in the OpenAPI subset of Gemini's `Schema` object.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value, json};

use super::object;

/// Most levels. What is deeper, and what would come after so many schemas, is any object.
const DEEPEST: usize = 24;
/// Most schemas that are written.
const MOST: usize = 2_000;

/// Words that stay as they are.
const KEPT: [&str; 8] =
    ["description", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"];

/// Returns a schema Gemini takes; none for a tool without parameters, for it wants no empty object there.
///
/// References are replaced by what they refer to, once; inside itself it is any object. `oneOf` and types in a list are `anyOf`, `null` among them is
/// `nullable`, `allOf` is one object, `const` is an `enum`, values of an `enum` are strings, formats it doesn't know
/// and all other words are left out, arrays have `items`, and what is `required` is there.
pub(crate) fn gemini(schema: &Value) -> Option<Value> {
    let root = object(schema);
    let whole = Rewrite { root: &root, inside: RefCell::default(), written: Cell::new(0) }.schema(&root, 0);
    whole.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty()).then_some(whole)
}

struct Rewrite<'a> {
    root: &'a Value,
    /// The references that are being put in.
    inside: RefCell<Vec<String>>,
    written: Cell<usize>,
}

impl Rewrite<'_> {
    fn schema(&self, schema: &Value, depth: usize) -> Value {
        let Some(from) = schema.as_object() else { return json!({ "type": "string" }) };
        self.written.set(self.written.get() + 1);
        if depth > DEEPEST || self.written.get() > MOST {
            return json!({ "type": "object" });
        }
        if let Some(reference) = from.get("$ref").and_then(Value::as_str) {
            return self.reference(reference, from, depth);
        }
        if let Some(Value::Array(parts)) = from.get("allOf") {
            return self.schema(&self.merged(from, parts, depth), depth + 1);
        }
        let mut to = Map::new();
        for name in KEPT {
            if let Some(value) = from.get(name) {
                to.insert(name.into(), value.clone());
            }
        }
        if from.get("nullable") == Some(&Value::Bool(true)) {
            to.insert("nullable".into(), true.into());
        }
        if let Some(values) = values(from) {
            return enumeration(to, &values);
        }
        if let Some(branches) = ["anyOf", "oneOf"].iter().find_map(|name| from.get(*name)?.as_array()) {
            return self.branches(to, branches, depth);
        }
        match kinds(from).as_slice() {
            [kind] => self.typed(to, kind, from, depth),
            kinds => {
                let branches: Vec<Value> = kinds
                    .iter()
                    .map(|kind| {
                        let mut one = from.clone();
                        KEPT.iter().for_each(|name| drop(one.remove(*name)));
                        one.insert("type".into(), (*kind).into());
                        Value::Object(one)
                    })
                    .collect();
                self.branches(to, &branches, depth)
            }
        }
    }

    fn reference(&self, reference: &str, beside: &Map<String, Value>, depth: usize) -> Value {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let is_inside = self.inside.borrow().iter().any(|other| other == reference);
        let mut found = match target.filter(|_| !is_inside) {
            Some(target) => {
                self.inside.borrow_mut().push(reference.to_owned());
                let found = self.schema(target, depth + 1);
                self.inside.borrow_mut().pop();
                found
            }
            None => json!({ "type": "object" }),
        };
        if let (Some(description), Some(found)) = (beside.get("description"), found.as_object_mut()) {
            found.insert("description".into(), description.clone());
        }
        found
    }

    /// Returns one schema that says what `from` and all `parts` say; of words that differ the first counts.
    fn merged(&self, from: &Map<String, Value>, parts: &[Value], depth: usize) -> Value {
        let mut all = from.clone();
        all.remove("allOf");
        for part in parts {
            let part = match part.get("$ref").and_then(Value::as_str) {
                Some(reference) if depth < DEEPEST => self.reference(reference, &Map::new(), depth + 1),
                _ => part.clone(),
            };
            for (name, value) in part.as_object().into_iter().flatten() {
                match (name.as_str(), all.get_mut(name), value) {
                    ("properties", Some(Value::Object(known)), Value::Object(more)) => {
                        for (name, value) in more {
                            known.entry(name).or_insert_with(|| value.clone());
                        }
                    }
                    ("required", Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
                    (_, None, value) => drop(all.insert(name.clone(), value.clone())),
                    _ => {}
                }
            }
        }
        Value::Object(all)
    }

    fn branches(&self, mut to: Map<String, Value>, branches: &[Value], depth: usize) -> Value {
        let is_null = |branch: &&Value| branch.get("type").is_some_and(|kind| kind == "null");
        if branches.iter().any(|branch| is_null(&branch)) {
            to.insert("nullable".into(), true.into());
        }
        let rest: Vec<Value> =
            branches.iter().filter(|branch| !is_null(branch)).map(|branch| self.schema(branch, depth + 1)).collect();
        match rest.as_slice() {
            [] => drop(to.insert("type".into(), "string".into())),
            [one] => {
                for (name, value) in one.as_object().into_iter().flatten() {
                    to.entry(name).or_insert_with(|| value.clone());
                }
            }
            _ => drop(to.insert("anyOf".into(), Value::Array(rest))),
        }
        Value::Object(to)
    }

    fn typed(&self, mut to: Map<String, Value>, kind: &str, from: &Map<String, Value>, depth: usize) -> Value {
        to.insert("type".into(), kind.into());
        let format = from.get("format").and_then(Value::as_str);
        let known = match kind {
            "string" => &["date-time"][..],
            "integer" => &["int32", "int64"],
            "number" => &["float", "double"],
            _ => &[],
        };
        if let Some(format) = format.filter(|format| known.contains(format)) {
            to.insert("format".into(), format.into());
        }
        match kind {
            "array" => drop(to.insert("items".into(), self.items(from, depth))),
            "object" => self.properties(&mut to, from, depth),
            _ => {}
        }
        Value::Object(to)
    }

    fn items(&self, from: &Map<String, Value>, depth: usize) -> Value {
        let several = match (from.get("items"), from.get("prefixItems")) {
            (Some(Value::Array(several)), _) | (None, Some(Value::Array(several))) => several,
            (Some(one), _) => return self.schema(one, depth + 1),
            _ => return json!({ "type": "string" }),
        };
        self.branches(Map::new(), several, depth)
    }

    fn properties(&self, to: &mut Map<String, Value>, from: &Map<String, Value>, depth: usize) {
        let Some(properties) = from.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty()) else {
            return;
        };
        let rewritten: Map<String, Value> =
            properties.iter().map(|(name, schema)| (name.clone(), self.schema(schema, depth + 1))).collect();
        let required: Vec<&Value> = from
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|name| name.as_str().is_some_and(|name| rewritten.contains_key(name)))
            .collect();
        if !required.is_empty() {
            to.insert("required".into(), json!(required));
        }
        to.insert("properties".into(), Value::Object(rewritten));
    }
}

/// Returns the values a schema lists.
fn values(from: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (from.get("const"), from.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) if !values.is_empty() => Some(values.iter().collect()),
        _ => None,
    }
}

fn enumeration(mut to: Map<String, Value>, values: &[&Value]) -> Value {
    // Limits of numbers make no sense for the strings they become.
    to.retain(|name, _| matches!(name.as_str(), "description" | "nullable"));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let written: Vec<String> = values
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| text(value))
        .filter(|text| !text.is_empty())
        .collect();
    if values.iter().any(|value| value.is_null()) {
        to.insert("nullable".into(), true.into());
    }
    to.insert("type".into(), "string".into());
    if !written.is_empty() {
        to.insert("enum".into(), json!(written));
    }
    Value::Object(to)
}

/// Returns the types of a schema; where it names none, what its other words mean.
fn kinds(from: &Map<String, Value>) -> Vec<&str> {
    let known = |kind: &&str| ["string", "number", "integer", "boolean", "array", "object", "null"].contains(kind);
    let named: Vec<&str> = match from.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()).into_iter().filter(known).collect(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).filter(known).collect(),
        _ => Vec::new(),
    };
    let has = |names: &[&str]| names.iter().any(|name| from.contains_key(*name));
    match named.as_slice() {
        [] if has(&["properties", "required", "additionalProperties"]) => vec!["object"],
        [] if has(&["items", "prefixItems"]) => vec!["array"],
        [] if has(&["minimum", "maximum", "multipleOf"]) => vec!["number"],
        [] => vec!["string"],
        _ => named,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn property(schema: Value) -> Value {
        let root = json!({ "type": "object", "properties": { "p": schema }, "$defs": {
            "Name": { "type": "string", "minLength": 1 },
            "Tree": { "type": "object", "properties": { "child": { "$ref": "#/$defs/Tree" } } },
        } });
        gemini(&root).expect("a schema")["properties"]["p"].take()
    }

    #[test]
    fn a_tool_without_parameters_has_no_schema() {
        assert_eq!(gemini(&json!({ "type": "object", "properties": {} })), None);
        assert_eq!(gemini(&json!({})), None);
    }

    #[test]
    fn unknown_words_go_and_known_ones_stay() {
        assert_eq!(
            gemini(&json!({ "$schema": "x", "type": "object", "additionalProperties": false, "title": "T",
                            "properties": { "a": { "type": "string", "format": "uri", "default": "x", "pattern": "y" },
                                            "b": { "type": "integer", "format": "int32", "exclusiveMinimum": 0, "maximum": 9 } },
                            "required": ["a", "gone"] })),
            Some(json!({ "type": "object",
                         "required": ["a"],
                         "properties": { "a": { "pattern": "y", "type": "string" },
                                         "b": { "maximum": 9, "type": "integer", "format": "int32" } } }))
        );
    }

    #[test]
    fn values_are_strings_and_null_is_a_property_of_the_type() {
        assert_eq!(
            property(json!({ "type": "integer", "enum": [1, 2], "minimum": 1 })),
            json!({ "type": "string", "enum": ["1", "2"] })
        );
        assert_eq!(property(json!({ "const": "x" })), json!({ "type": "string", "enum": ["x"] }));
        assert_eq!(
            property(json!({ "enum": ["a", null] })),
            json!({ "nullable": true, "type": "string", "enum": ["a"] })
        );
        assert_eq!(property(json!({ "type": ["string", "null"] })), json!({ "nullable": true, "type": "string" }));
        assert_eq!(
            property(json!({ "type": ["string", "array"], "description": "d", "items": { "type": "number" } })),
            json!({ "description": "d", "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "number" } }] })
        );
        assert_eq!(
            property(json!({ "oneOf": [{ "type": "null" }, { "type": "number" }], "description": "d" })),
            json!({ "description": "d", "nullable": true, "type": "number" })
        );
    }

    #[test]
    fn references_are_put_in_and_one_that_holds_itself_ends() {
        assert_eq!(
            property(json!({ "$ref": "#/$defs/Name", "description": "d" })),
            json!({ "minLength": 1, "type": "string", "description": "d" })
        );
        assert_eq!(property(json!({ "$ref": "#/$defs/None" })), json!({ "type": "object" }));
        let deep = property(json!({ "$ref": "#/$defs/Tree" })).to_string();
        assert!(deep.len() < 2_000 && deep.contains(r#"{"type":"object"}"#), "{deep}");
    }

    #[test]
    fn arrays_have_items_and_parts_are_merged() {
        assert_eq!(property(json!({ "type": "array" })), json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(
            property(json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "number" }] })),
            json!({ "type": "array", "items": { "anyOf": [{ "type": "string" }, { "type": "number" }] } })
        );
        assert_eq!(
            property(json!({ "allOf": [{ "type": "object", "properties": { "a": {} }, "required": ["a"] },
                                       { "properties": { "b": true }, "required": ["b"] }] })),
            json!({ "type": "object", "required": ["a", "b"],
                    "properties": { "a": { "type": "string" }, "b": { "type": "string" } } })
        );
    }

    /// All schemas in what Gemini gets.
    fn check(schema: &Value) -> Result<(), String> {
        const ALLOWED: [&str; 15] = [
            "type",
            "format",
            "description",
            "nullable",
            "enum",
            "minItems",
            "maxItems",
            "properties",
            "required",
            "minLength",
            "maxLength",
            "pattern",
            "anyOf",
            "items",
            "minimum",
        ];
        let object = schema.as_object().ok_or_else(|| format!("no object: {schema}"))?;
        if let Some(name) = object.keys().find(|name| !ALLOWED.contains(&name.as_str()) && *name != "maximum") {
            return Err(format!("{name} in {schema}"));
        }
        if !object.contains_key("anyOf") && !object.get("type").is_some_and(Value::is_string) {
            return Err(format!("no type in {schema}"));
        }
        if object.get("type").is_some_and(|kind| kind == "array") && !object.contains_key("items") {
            return Err(format!("no items in {schema}"));
        }
        let inner =
            [object.get("properties"), object.get("anyOf")].into_iter().flatten().flat_map(|value| match value {
                Value::Object(all) => all.values().collect::<Vec<_>>(),
                Value::Array(all) => all.iter().collect(),
                _ => Vec::new(),
            });
        inner.chain(object.get("items")).try_for_each(check)
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!({})),
            Just(json!({ "type": "string", "format": "email" })),
            Just(json!({ "type": ["integer", "null"], "minimum": 1 })),
            Just(json!({ "enum": [1, "a", null] })),
            Just(json!({ "$ref": "#/properties/p" })),
            Just(json!({ "type": 7 })),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(
                    |(a, b)| json!({ "type": "object", "properties": { "a": a, "b": b }, "required": ["a", "z"] })
                ),
                inner.clone().prop_map(|a| json!({ "type": "array", "items": a })),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({ "anyOf": [a, b, { "type": "null" }] })),
                (inner.clone(), inner).prop_map(|(a, b)| json!({ "allOf": [a, b] })),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_schema_becomes_one_gemini_takes(schema in any_schema()) {
            let root = json!({ "type": "object", "properties": { "p": schema } });
            let written = gemini(&root).expect("a schema");
            prop_assert!(check(&written).is_ok(), "{:?}", check(&written));
        }
    }
}
