//! `oneOf`, `anyOf`, `allOf` and a reference at the root of a schema, folded into one object.

use std::collections::HashSet;

use protocol::JsonMap;
use serde_json::{Value, json};

use super::inline;

/// How often branches within branches are folded.
const MAX_DEPTH: usize = 8;

/// What a branch says of an object.
#[derive(Default)]
struct Shape {
    properties: JsonMap,
    required: HashSet<String>,
}

/// Returns the root with its branches folded in: it takes whatever one of the branches takes. Properties of all
/// branches are there; required is what all branches require.
pub fn flattened(value: Value, changes: &mut Vec<String>) -> JsonMap {
    let Value::Object(mut root) = value else { return JsonMap::new() };
    let has_branches = ["oneOf", "anyOf", "allOf", "$ref"].iter().any(|key| root.contains_key(*key));
    if !has_branches {
        return root;
    }
    changes.push("the alternatives at the root are folded into one object".to_owned());
    let whole = Value::Object(root.clone());
    let shape = shape_of(&root, &whole, 0);
    for key in ["oneOf", "anyOf", "allOf", "$ref"] {
        root.remove(key);
    }
    // In the order they were written, so that the same schema reads the same each time.
    let mut required: Vec<&String> = shape.properties.keys().filter(|name| shape.required.contains(*name)).collect();
    required.dedup();
    root.insert("required".into(), json!(required));
    root.insert("properties".into(), Value::Object(shape.properties));
    root
}

fn shape_of(object: &JsonMap, root: &Value, depth: usize) -> Shape {
    let mut shape = Shape::default();
    if depth > MAX_DEPTH {
        return shape;
    }
    if let Some(Value::Object(properties)) = object.get("properties") {
        shape.properties = properties.clone();
    }
    let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
    shape.required = required.filter_map(Value::as_str).map(str::to_owned).collect();
    if let Some(target) = object.get("$ref").and_then(Value::as_str).and_then(|r| inline::target(root, r))
        && let Value::Object(target) = target
    {
        shape.and(shape_of(target, root, depth + 1));
    }
    for branch in objects(object.get("allOf")) {
        shape.and(shape_of(branch, root, depth + 1));
    }
    for key in ["oneOf", "anyOf"] {
        let branches = objects(object.get(key)).map(|branch| shape_of(branch, root, depth + 1));
        if let Some(either) = branches.reduce(Shape::or) {
            shape.and(either);
        }
    }
    shape
}

/// The branches that may be objects; what takes no object says nothing of one.
fn objects(branches: Option<&Value>) -> impl Iterator<Item = &JsonMap> {
    branches.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object).filter(|branch| match branch
        .get("type")
    {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    })
}

impl Shape {
    fn and(&mut self, other: Self) {
        for (name, schema) in other.properties {
            self.properties.entry(name).or_insert(schema);
        }
        self.required.extend(other.required);
    }

    fn or(mut self, other: Self) -> Self {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                None => drop(self.properties.insert(name, schema)),
                Some(known) if *known == schema => {}
                Some(known) => {
                    let mut either = match known.get("anyOf") {
                        Some(Value::Array(either)) if known.as_object().is_some_and(|k| k.len() == 1) => either.clone(),
                        _ => vec![known.take()],
                    };
                    if !either.contains(&schema) {
                        either.push(schema);
                    }
                    *known = json!({ "anyOf": either });
                }
            }
        }
        self.required.retain(|name| other.required.contains(name));
        self
    }
}
