use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn a_good_schema_stays_as_it_is() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$defs": { "T": { "type": "string", "enum": ["a", "b"] } },
        "type": "object",
        "properties": { "t": { "$ref": "#/$defs/T", "default": "a" }, "n": { "type": ["integer", "null"] } },
        "required": ["t"],
        "additionalProperties": false
    });
    let accepted = accept(&schema);
    assert_eq!(accepted, Accepted { schema, renamed: Vec::new(), changes: Vec::new() });
}

#[test]
fn alternatives_at_the_root_become_one_object() {
    let schema =
        json!({ "oneOf": [{ "type": "object", "properties": { "a": { "type": "string" } } }, { "type": "object" }] });
    assert_eq!(accept(&schema).schema, json!({ "type": "object", "properties": { "a": { "type": "string" } } }));

    let schema = json!({ "anyOf": [
        { "properties": { "kind": { "const": "x" }, "id": { "type": "string" } }, "required": ["kind", "id"] },
        { "$ref": "#/$defs/Y" },
        { "type": "string" }
    ], "$defs": { "Y": { "type": "object", "properties": { "kind": { "const": "y" } }, "required": ["kind"] } } });
    let accepted = accept(&schema).schema;
    assert_eq!(accepted["properties"]["kind"], json!({ "anyOf": [{ "const": "x" }, { "const": "y" }] }));
    assert_eq!(accepted["required"], json!(["kind"]));
    assert!(accepted.get("anyOf").is_none());

    let schema = json!({ "allOf": [
        { "properties": { "a": {} }, "required": ["a"] },
        { "properties": { "b": {} }, "required": ["b"] }
    ], "properties": { "c": {} } });
    let accepted = accept(&schema).schema;
    assert_eq!(accepted["properties"], json!({ "c": {}, "a": {}, "b": {} }));
    assert_eq!(accepted["required"], json!(["a", "b"]));

    let schema =
        json!({ "$ref": "#/definitions/R", "definitions": { "R": { "properties": { "x": { "type": "null" } } } } });
    assert_eq!(accept(&schema).schema["properties"], json!({ "x": { "type": "null" } }));
}

#[test]
fn what_is_no_schema_lets_everything_through() {
    for broken in [json!(null), json!("x"), json!([]), json!({ "type": "string" }), json!({ "properties": 7 })] {
        assert_eq!(accept(&broken).schema, json!({ "type": "object", "properties": {} }));
    }
    let schema = json!({ "type": "object", "properties": {
        "a": "string", "b": { "type": "int" }, "c": { "type": "array" }, "d": { "$ref": "#/$defs/Gone" },
        "e": { "enum": [] }, "f": { "type": "number", "exclusiveMinimum": true, "title": null },
        "g": { "type": "string", "required": true }
    }, "required": ["a", "zz", 3, "a"] });
    let accepted = accept(&schema).schema;
    assert_eq!(
        accepted["properties"],
        json!({ "a": {}, "b": {}, "c": { "type": "array", "items": {} }, "d": {}, "e": {}, "f": { "type": "number" },
            "g": { "type": "string" } })
    );
    assert_eq!(accepted["required"], json!(["a"]));
}

#[test]
fn properties_with_odd_names_are_shown_under_others_and_called_by_their_own() {
    let schema =
        json!({ "properties": { "$filter": {}, "_filter": {}, "größe": {}, "ok": {} }, "required": ["$filter"] });
    let accepted = accept(&schema);
    assert_eq!(accepted.schema["required"], json!(["_filter_2"]));
    let names: Vec<_> = accepted.schema["properties"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["_filter_2", "_filter", "gr__e", "ok"]);
    let Value::Object(arguments) = json!({ "_filter_2": 1, "_filter": 2, "gr__e": 3 }) else { unreachable!() };
    assert_eq!(Value::Object(accepted.arguments(arguments)), json!({ "$filter": 1, "_filter": 2, "größe": 3 }));
}

#[test]
fn references_are_written_out_for_those_who_know_none() {
    let schema = json!({ "$defs": { "T": { "type": "string", "enum": ["a"] }, "L": { "properties": { "next": { "$ref": "#/$defs/L" } } } },
        "properties": { "t": { "$ref": "#/$defs/T", "default": "a" }, "l": { "$ref": "#/$defs/L" } } });
    let inlined = without_references(&schema);
    assert_eq!(inlined["properties"]["t"], json!({ "type": "string", "enum": ["a"] }));
    let text = inlined.to_string();
    assert!(!text.contains("$ref") && !text.contains("$defs"), "{text}");
}

#[test]
fn a_schema_that_explodes_when_written_out_is_cut() {
    let mut defs = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        defs.insert(format!("d{level}"), json!({ "properties": { "a": next, "b": next } }));
    }
    let schema = json!({ "$defs": defs, "properties": { "x": { "$ref": "#/$defs/d0" } } });
    assert!(without_references(&schema).to_string().len() < 200_000);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop_oneof![Just("object"), Just("array"), Just("string"), Just("#/$defs/a"), Just("#"), Just("x")]
            .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("items"),
        Just("oneOf"),
        Just("anyOf"),
        Just("allOf"),
        Just("$ref"),
        Just("$defs"),
        Just("required"),
        Just("enum"),
        Just("a"),
        Just("b c"),
        Just("not"),
        Just("additionalProperties")
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_comes_in_an_acceptable_object_comes_out(schema in any_json()) {
        let accepted = accept(&schema);
        let root = accepted.schema.as_object().unwrap();
        prop_assert_eq!(&root["type"], "object");
        prop_assert!(root["properties"].is_object());
        for key in ROOT_FORBIDDEN {
            prop_assert!(!root.contains_key(key));
        }
        // A second time there is nothing left to change.
        prop_assert_eq!(&accept(&accepted.schema).schema, &accepted.schema);
        prop_assert!(!without_references(&accepted.schema).to_string().contains("\"$ref\":\"#"));
    }
}
