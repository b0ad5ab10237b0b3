//! The options of config, in the words of OpenCode's client packages, as fields of a body.
//!
//! What a table knows goes to its place; what it doesn't goes into the body as it is. An option that is `null` takes
//! its field out.

use protocol::JsonMap;
use serde_json::Value;

/// Where an option goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Nowhere: it is for the client alone, or would break what the adapter decides.
    Nowhere,
    /// To this path.
    At(&'static [&'static str]),
    /// To this path, its own keys written with underscores.
    Snake(&'static [&'static str]),
}

/// Which option goes where.
pub(crate) type Table = &'static [(&'static str, Place)];

/// Returns the options at their places in a body.
pub(crate) fn place(options: &JsonMap, tables: &[Table]) -> JsonMap {
    let mut body = JsonMap::new();
    for (name, value) in options {
        let known = tables.iter().copied().flatten().find(|(option, _)| option == name).map(|(_, place)| *place);
        match known {
            Some(Place::Nowhere) => {}
            Some(Place::At(path)) => put(&mut body, path, value.clone()),
            Some(Place::Snake(path)) => put(&mut body, path, snake(value)),
            None => put(&mut body, &[name], value.clone()),
        }
    }
    body
}

/// Puts a value at a path. Objects are merged, the later one's values count.
pub(crate) fn put(body: &mut JsonMap, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    let entry = body.entry(*first).or_insert(Value::Null);
    if rest.is_empty() {
        merge_value(entry, value);
        return;
    }
    if !entry.is_object() {
        *entry = Value::Object(JsonMap::new());
    }
    if let Value::Object(inner) = entry {
        put(inner, rest, value);
    }
}

/// Merges `from` into `into`, deeply; its values count.
pub(crate) fn merge(into: &mut JsonMap, from: JsonMap) {
    for (name, value) in from {
        merge_value(into.entry(name).or_insert(Value::Null), value);
    }
}

fn merge_value(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => merge(into, from),
        (into, from) => *into = from,
    }
}

/// Takes out the fields that are `null`, at the top and one level below, and the objects that have nothing else.
pub(crate) fn drop_nulls(body: &mut JsonMap) {
    body.retain(|_, value| match value {
        Value::Object(inner) if inner.values().any(Value::is_null) => {
            inner.retain(|_, value| !value.is_null());
            !inner.is_empty()
        }
        value => !value.is_null(),
    });
}

/// Returns the value with the keys of its objects written with underscores.
pub(crate) fn snake(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            Value::Object(object.iter().map(|(name, value)| (snake_name(name), snake(value))).collect())
        }
        Value::Array(values) => values.iter().map(snake).collect(),
        other => other.clone(),
    }
}

fn snake_name(name: &str) -> String {
    let mut written = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            written.push('_');
        }
        written.push(c.to_ascii_lowercase());
    }
    written
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    const TABLE: Table = &[
        ("reasoningEffort", Place::At(&["reasoning", "effort"])),
        ("reasoningSummary", Place::At(&["reasoning", "summary"])),
        ("thinking", Place::Snake(&["thinking"])),
        ("strict", Place::Nowhere),
    ];

    fn placed(options: Value) -> Value {
        let mut body = place(options.as_object().expect("an object"), &[TABLE]);
        drop_nulls(&mut body);
        body.into()
    }

    #[test]
    fn known_options_go_to_their_places_and_unknown_ones_stay() {
        assert_eq!(
            placed(json!({ "reasoningEffort": "low", "reasoning": { "x": 1 }, "reasoningSummary": "auto", "strict": 1,
                           "thinking": { "type": "enabled", "budgetTokens": 5 }, "camelCase": { "aB": 1 } })),
            json!({ "reasoning": { "effort": "low", "x": 1, "summary": "auto" },
                    "thinking": { "type": "enabled", "budget_tokens": 5 }, "camelCase": { "aB": 1 } })
        );
    }

    #[test]
    fn null_takes_a_field_out() {
        assert_eq!(
            placed(json!({ "a": null, "reasoningEffort": null, "b": { "c": null, "d": 1 }, "e": {} })),
            json!({ "b": { "d": 1 }, "e": {} })
        );
    }

    #[test]
    fn merging_goes_deep_and_the_later_value_counts() {
        let mut into = json!({ "a": { "b": 1, "c": [1] }, "d": 1 }).as_object().cloned().expect("an object");
        merge(
            &mut into,
            json!({ "a": { "c": [2], "e": 3 }, "d": { "f": 1 } }).as_object().cloned().expect("an object"),
        );
        assert_eq!(Value::from(into), json!({ "a": { "b": 1, "c": [2], "e": 3 }, "d": { "f": 1 } }));
    }
}
