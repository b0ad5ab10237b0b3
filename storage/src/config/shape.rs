//! What a setting may be, and what is said of one that isn't. Pure.
//!
//! A wrong value is an [`Issue`]; a key nobody reads is none, but it is told with the one that was probably meant.

use serde_json::Value;

/// How much of a wrong value is shown, in characters.
const SHOWN: usize = 80;
/// How alike two names must be to be taken for one another, from 0 to 1.
const ALIKE: f64 = 0.75;

/// What a setting may be.
#[derive(Debug)]
pub enum Shape {
    /// Anything: read by somebody else.
    Any,
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// A whole number from 0.
    Count,
    /// A whole number from 1.
    Positive,
    /// `false` alone.
    Off,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list.
    List(&'static Shape),
    /// An object whose keys are anybody's.
    Map(&'static Shape),
    /// An object with these keys; others are reported.
    Keys(&'static [Key]),
    /// An object with these keys; others are somebody else's.
    Open(&'static [Key]),
    /// Any of these.
    Either(&'static [Shape]),
}

/// A key of an object: its name, and what its value may be.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value may be.
    pub shape: Shape,
    /// Whether the object needs it.
    pub required: bool,
}

/// Returns a key an object may have.
pub const fn key(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: false }
}

/// Returns a key an object must have.
pub const fn needed(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: true }
}

/// What was found in a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Values that are not what their key needs: keys from the top down, and what is wrong.
    pub wrong: Vec<(Vec<String>, String)>,
    /// Keys that nobody reads, with a hint.
    pub unknown: Vec<(Vec<String>, String)>,
}

/// Checks a value. `raw` is the same before references were filled in: it is what is shown, for what they stand for may
/// be secret.
pub fn check(shape: &Shape, value: &Value, raw: &Value) -> Findings {
    let mut findings = Findings::default();
    walk(shape, value, raw, &mut Vec::new(), &mut findings);
    findings
}

fn walk(shape: &Shape, value: &Value, raw: &Value, at: &mut Vec<String>, found: &mut Findings) {
    match (shape, value) {
        (Shape::List(of), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                below(index.to_string(), at, |at| walk(of, item, raw.get(index).unwrap_or(item), at, found));
            }
        }
        (Shape::Map(of), Value::Object(map)) => {
            for (name, item) in map {
                below(name.clone(), at, |at| walk(of, item, raw.get(name).unwrap_or(item), at, found));
            }
        }
        (Shape::Keys(keys) | Shape::Open(keys), Value::Object(map)) => {
            for (name, item) in map {
                let known = keys.iter().find(|key| key.name == name);
                below(name.clone(), at, |at| match known {
                    Some(key) => walk(&key.shape, item, raw.get(name).unwrap_or(item), at, found),
                    None if matches!(shape, Shape::Keys(_)) => found.unknown.push((at.clone(), unknown(name, keys))),
                    None => {}
                });
            }
            for missing in keys.iter().filter(|key| key.required && !map.contains_key(key.name)) {
                below(missing.name.to_owned(), at, |at| found.wrong.push((at.clone(), "Missing key".into())));
            }
        }
        (Shape::Either(shapes), _) => {
            if let Some(one) = shapes.iter().find(|one| check(one, value, raw).wrong.is_empty()) {
                walk(one, value, raw, at, found);
                return;
            }
            // The nearest of those that are of its kind of JSON can say more than that none fits.
            let same_kind = shapes.iter().filter(|one| one.takes_kind_of(value));
            match same_kind.min_by_key(|one| check(one, value, raw).wrong.len()) {
                Some(one) => walk(one, value, raw, at, found),
                None => found.wrong.push((at.clone(), mismatch(shape, raw))),
            }
        }
        _ if shape.takes(value) => {}
        _ => found.wrong.push((at.clone(), mismatch(shape, raw))),
    }
}

fn below(key: String, at: &mut Vec<String>, then: impl FnOnce(&mut Vec<String>)) {
    at.push(key);
    then(at);
    at.pop();
}

impl Shape {
    /// Whether it takes a value that holds no others.
    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Count => value.as_u64().is_some(),
            Self::Positive => value.as_u64().is_some_and(|number| number > 0),
            Self::Off => *value == Value::Bool(false),
            Self::OneOf(names) => value.as_str().is_some_and(|text| names.contains(&text)),
            Self::List(_) | Self::Map(_) | Self::Keys(_) | Self::Open(_) | Self::Either(_) => false,
        }
    }

    /// Whether it is of the value's kind of JSON, and says more of it than that.
    fn takes_kind_of(&self, value: &Value) -> bool {
        match self {
            Self::List(_) => value.is_array(),
            Self::Map(_) | Self::Keys(_) | Self::Open(_) => value.is_object(),
            _ => false,
        }
    }

    /// What is expected, in the words clients of the wire know.
    fn expected(&self) -> String {
        match self {
            Self::Any => "a value".into(),
            Self::Text => "string".into(),
            Self::Flag => "boolean".into(),
            Self::Number => "number".into(),
            Self::Count => "an integer >= 0".into(),
            Self::Positive => "an integer > 0".into(),
            Self::Off => "false".into(),
            Self::OneOf(names) => {
                names.iter().map(|name| Value::from(*name).to_string()).collect::<Vec<_>>().join(" | ")
            }
            Self::List(_) => "array".into(),
            Self::Map(_) | Self::Keys(_) | Self::Open(_) => "object".into(),
            Self::Either(shapes) => shapes.iter().map(Self::expected).collect::<Vec<_>>().join(" | "),
        }
    }
}

fn mismatch(shape: &Shape, raw: &Value) -> String {
    let shown = raw.to_string();
    let shown = match shown.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default()),
        None => shown,
    };
    format!("Expected {}, got {shown}", shape.expected())
}

fn unknown(name: &str, keys: &[Key]) -> String {
    let alike = |key: &&Key| strsim::jaro_winkler(&name.to_ascii_lowercase(), &key.name.to_ascii_lowercase());
    let nearest = keys.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|key| alike(key) >= ALIKE);
    match nearest {
        Some(key) => format!("unknown setting, it is ignored; did you mean {:?}?", key.name),
        None => "unknown setting, it is ignored".into(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    static SHARE: Shape = Shape::Keys(&[
        key("share", Shape::OneOf(&["manual", "auto"])),
        key("update", Shape::Either(&[Shape::Flag, Shape::OneOf(&["notify"])])),
        key("steps", Shape::Positive),
        key("mcp", Shape::Map(&Shape::Keys(&[needed("type", Shape::Text), key("cwd", Shape::Text)]))),
        key("tools", Shape::Either(&[Shape::Flag, Shape::Map(&Shape::Flag)])),
    ]);

    fn found(value: Value) -> Findings {
        check(&SHARE, &value, &value)
    }

    #[test]
    fn each_wrong_value_is_told_with_its_keys_and_what_was_expected() {
        let found = found(json!({
            "share": "zzz", "update": 3, "steps": 0, "mcp": { "a": { "cwd": 1 } }, "tools": { "x": 1 },
        }));
        let wrong: Vec<(String, &str)> = found.wrong.iter().map(|(at, said)| (at.join("."), said.as_str())).collect();
        let wanted = [
            ("share", r#"Expected "manual" | "auto", got "zzz""#),
            ("update", r#"Expected boolean | "notify", got 3"#),
            ("steps", "Expected an integer > 0, got 0"),
            ("mcp.a.cwd", "Expected string, got 1"),
            ("mcp.a.type", "Missing key"),
            ("tools.x", "Expected boolean, got 1"),
        ];
        assert_eq!(wrong, wanted.map(|(at, said)| (at.to_owned(), said)));
    }

    #[test]
    fn an_unknown_key_is_no_error_and_is_told_with_the_nearest_one() {
        let found = found(json!({ "shares": "auto", "qqqq": 1, "mcp": { "a": { "type": "x", "Cwd": "y" } } }));
        assert_eq!(found.wrong, []);
        let hints: Vec<&str> = found.unknown.iter().map(|(_, hint)| hint.as_str()).collect();
        assert!(hints[0].contains("did you mean \"share\"?"), "{hints:?}");
        assert!(!hints[1].contains("did you mean"), "{hints:?}");
        assert!(hints[2].contains("\"cwd\""), "{hints:?}");
    }

    #[test]
    fn what_a_reference_stands_for_is_not_shown() {
        let found = check(&SHARE, &json!({ "share": "hush" }), &json!({ "share": "{env:KEY}" }));
        assert_eq!(found.wrong[0].1, r#"Expected "manual" | "auto", got "{env:KEY}""#);
    }
}
