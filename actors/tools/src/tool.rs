//! The trait each tool implements, and its object-safe form.

use futures::future::BoxFuture;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use protocol::part::FilePart;
use protocol::provider::Model;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::context::ToolContext;
use crate::error::ToolError;

/// A tool. `run` goes in this order: resolve, ask, [`ToolContext::begin`], act, shape the output.
pub trait Tool: Send + Sync + 'static {
    /// Its arguments; the doc comments of the fields are the schema's descriptions, which the model reads.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// Its name.
    const ID: &'static str;

    /// What the model reads about it.
    const DESCRIPTION: &'static str;

    /// What it does to the world.
    const TRAITS: Traits;

    /// Runs one call. An error is for the model to read; the turn goes on.
    fn run(&self, input: Self::Input, cx: &ToolContext) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;

    /// Returns the path whose calls must run one after the other, in the order the model made them.
    fn serial_path(&self, _input: &Self::Input) -> Option<String> {
        None
    }

    /// Returns whether it is offered to this model.
    fn suits(&self, _model: &Model) -> bool {
        true
    }
}

/// What a tool does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The permission that decides whether it is offered at all.
    pub permission: &'static str,
    /// It may change files, so that a snapshot of them is taken before it and after it.
    pub changes_files: bool,
    /// Running it twice does no harm: after a crash it runs again, and its time limit is the executor's.
    pub repeatable: bool,
}

impl Traits {
    /// Returns the traits of a tool that only looks.
    pub const fn reading(permission: &'static str) -> Self {
        Self { permission, changes_files: false, repeatable: true }
    }

    /// Returns the traits of a tool that changes files.
    pub const fn writing(permission: &'static str) -> Self {
        Self { permission, changes_files: true, repeatable: false }
    }
}

/// What a call gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// For a person: a path, a command…
    pub title: String,
    /// For the model. The executor cuts it at its limits unless `truncated` is set.
    pub output: String,
    /// What clients draw from. The executor adds `truncated`.
    pub metadata: JsonMap,
    /// Files for the model.
    pub attachments: Vec<FilePart>,
    /// Set by a tool that cuts its own output: whether it did.
    pub truncated: Option<bool>,
}

impl ToolOutput {
    /// Returns an output without attachments; `metadata` must be a JSON object (else it is dropped).
    pub fn new(title: impl Into<String>, output: impl Into<String>, metadata: Value) -> Self {
        let metadata = match metadata {
            Value::Object(map) => map,
            _ => JsonMap::new(),
        };
        Self { title: title.into(), output: output.into(), metadata, ..Self::default() }
    }
}

/// A [`Tool`] of any kind.
pub trait AnyTool: Send + Sync {
    /// Returns its name.
    fn id(&self) -> &str;

    /// Returns what the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// Returns what the model is told of it where rules deny some of what it could be called with: `is_denied` says so
    /// of a pattern of its permission. A tool that lists what there is leaves that out.
    fn spec_under(&self, _is_denied: &dyn Fn(&str) -> bool) -> ToolSpec {
        self.spec()
    }

    /// Returns whether it is offered to this model.
    fn suits(&self, _model: &Model) -> bool {
        true
    }

    /// Returns what it does to the world.
    fn traits(&self) -> Traits;

    /// Returns whether it ends its calls within a time of its own, however long: the executor then sets no limit.
    fn bounds_itself(&self) -> bool {
        false
    }

    /// Returns the permission that decides whether it is offered at all.
    fn permission(&self) -> &str {
        self.traits().permission
    }

    /// Returns the path whose calls must run one after the other; none when the arguments are wrong.
    fn serial_path(&self, input: &JsonMap) -> Option<String>;

    /// Runs one call; wrong arguments are [`ToolError::Arguments`].
    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

impl<T: Tool> AnyTool for T {
    fn id(&self) -> &str {
        T::ID
    }

    fn spec(&self) -> ToolSpec {
        let parameters = schema::<T::Input>();
        ToolSpec { name: T::ID.into(), description: T::DESCRIPTION.trim().into(), parameters }
    }

    fn suits(&self, model: &Model) -> bool {
        Tool::suits(self, model)
    }

    fn traits(&self) -> Traits {
        T::TRAITS
    }

    fn serial_path(&self, input: &JsonMap) -> Option<String> {
        let input = arguments(T::ID, Value::Object(input.clone())).ok()?;
        Tool::serial_path(self, &input)
    }

    fn run<'a>(&'a self, input: JsonMap, cx: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let input = arguments(T::ID, Value::Object(input))?;
            Tool::run(self, input, cx).await
        })
    }
}

/// Returns the JSON schema of a tool's arguments, as models are given it.
pub fn schema<T: JsonSchema>() -> Value {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .with(|s| s.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    plain(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
    }
    schema
}

/// An argument may be left out; that it may also be `null` only confuses models. Number formats are Rust's, not
/// theirs.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // A property may be called so too: that is an object.
            if object.get("format").is_some_and(Value::is_string) {
                object.remove("format");
            }
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(any)) = object.get_mut("anyOf") {
                any.retain(|one| one.get("type") != Some(&Value::from("null")));
                if let [Value::Object(only)] = any.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Reads a tool's arguments; wrong ones are an error the model can act on. Where a number, `true` or `false` is wanted, one
/// that was put in quotes is as good.
pub fn arguments<T: DeserializeOwned>(tool: &str, mut input: Value) -> Result<T, ToolError> {
    let mut before: Option<serde_path_to_error::Error<serde_json::Error>> = None;
    loop {
        let error = match serde_path_to_error::deserialize(&input) {
            Ok(arguments) => return Ok(arguments),
            Err(error) => error,
        };
        let again = before.filter(|before| before.path().to_string() == error.path().to_string());
        if again.is_none() && unquote(&mut input, error.path()) {
            before = Some(error);
            continue;
        }
        // What was in quotes is wrong without them too: the model is told of what it said.
        let error = again.unwrap_or(error);
        return Err(ToolError::Arguments {
            tool: tool.into(),
            path: error.path().to_string(),
            problem: error.into_inner().to_string(),
        });
    }
}

/// Puts what the text at a place says in its place, if that is exactly a number, `true` or `false`.
fn unquote(input: &mut Value, path: &serde_path_to_error::Path) -> bool {
    let place = path.iter().try_fold(input, |value, segment| match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    let Some(place) = place else { return false };
    let said: Option<Value> = place.as_str().and_then(|text| {
        let said: Value = serde_json::from_str(text).ok()?;
        let exactly = said.to_string();
        ((said.is_number() || said.is_boolean()) && exactly == text).then_some(said)
    });
    said.is_some_and(|said| {
        *place = said;
        true
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Input {
        text: String,
        limit: Option<u32>,
        ratio: Option<f64>,
        all: bool,
        lines: Vec<i64>,
    }

    fn read(input: Value) -> Result<Input, String> {
        arguments("t", input).map_err(|error: ToolError| error.to_string())
    }

    #[test]
    fn a_number_or_a_truth_in_quotes_is_one_where_one_is_wanted() {
        let input = json!({ "text": "7", "limit": "1", "ratio": "-0.5", "all": "true", "lines": [1, "-2"] });
        let want = Input { text: "7".into(), limit: Some(1), ratio: Some(-0.5), all: true, lines: vec![1, -2] };
        assert_eq!(read(input), Ok(want));
    }

    #[test]
    fn what_is_not_exactly_one_stays_wrong_as_it_was_said() {
        for (field, odd) in [
            ("limit", "1.0"),
            ("limit", "-1"),
            ("limit", " 1"),
            ("limit", "01"),
            ("limit", "1e2"),
            ("limit", "true"),
            ("limit", "null"),
            ("limit", "many"),
            ("limit", "99999999999"),
            ("all", "True"),
            ("all", "1"),
            ("lines", "[1]"),
        ] {
            let error = read(json!({ field: odd })).expect_err("an error");
            assert!(error.contains(field) && error.contains("string"), "{field} {odd}: {error}");
        }
        let error = read(json!({ "limit": "1", "all": 7 })).expect_err("an error");
        assert!(error.contains("all"), "{error}");
    }
}
