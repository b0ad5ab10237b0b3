//! `StructuredOutput`: takes the answer of a turn that must have a shape. Offered in such turns only, with the shape as
//! its parameters.

use futures::future::BoxFuture;
use jsonschema::Validator;
use protocol::JsonMap;
use protocol::model::ToolSpec;
use serde_json::{Value, json};

use crate::context::ToolContext;
use crate::error::ToolError;
use crate::tool::{AnyTool, ToolOutput, Traits};

/// Its name.
pub const ID: &str = "StructuredOutput";

const DESCRIPTION: &str = "Gives the answer to the person's prompt, in the shape they asked for. Call it once, at the \
    end, when all the work is done; the turn ends with it. Text beside it is not the answer.";

/// Takes an answer of one shape.
pub struct StructuredOutput {
    schema: Value,
    /// None where the schema itself is wrong: then anything fits.
    validator: Option<Validator>,
}

impl StructuredOutput {
    /// Returns the tool for a shape (a JSON schema of an object).
    pub fn new(schema: Value) -> Self {
        Self { validator: jsonschema::validator_for(&schema).ok(), schema }
    }

    fn check(&self, answer: &Value) -> Result<(), ToolError> {
        let Some(wrong) = self.validator.iter().find_map(|validator| validator.iter_errors(answer).next()) else {
            return Ok(());
        };
        let path = wrong.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        let path = if path.is_empty() { ".".to_owned() } else { path };
        Err(ToolError::Arguments { tool: ID.into(), path, problem: wrong.to_string() })
    }
}

impl AnyTool for StructuredOutput {
    fn id(&self) -> &str {
        ID
    }

    fn spec(&self) -> ToolSpec {
        let mut parameters = self.schema.clone();
        if let Some(schema) = parameters.as_object_mut() {
            schema.remove("$schema");
        }
        ToolSpec { name: ID.into(), description: DESCRIPTION.into(), parameters }
    }

    fn traits(&self) -> Traits {
        Traits::reading(ID)
    }

    fn serial_path(&self, _: &JsonMap) -> Option<String> {
        None
    }

    fn run<'a>(&'a self, input: JsonMap, _: &'a ToolContext) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.check(&Value::Object(input))?;
            let output = "The answer is taken; the turn ends with it.".to_owned();
            Ok(ToolOutput::new("Structured Output".to_owned(), output, json!({ "valid": true })))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::context;

    async fn give(schema: Value, answer: Value) -> Result<ToolOutput, ToolError> {
        let dir = tempfile::tempdir().expect("a directory");
        let (cx, _) = context(dir.path());
        let Value::Object(answer) = answer else { panic!("no object: {answer}") };
        StructuredOutput::new(schema).run(answer, &cx).await
    }

    fn shape() -> Value {
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })
    }

    #[tokio::test]
    async fn an_answer_of_the_shape_is_taken_and_another_is_told_what_is_wrong() {
        assert!(give(shape(), json!({ "n": 5 })).await.is_ok());
        let error = give(shape(), json!({ "n": "five" })).await.expect_err("an error").to_string();
        assert!(error.contains("(at n)") && error.contains("integer"), "{error}");
        let error = give(shape(), json!({})).await.expect_err("an error").to_string();
        assert!(error.contains("\"n\""), "{error}");
    }

    #[tokio::test]
    async fn a_shape_that_is_no_schema_lets_everything_through() {
        assert!(give(json!({ "type": "nonsense" }), json!({ "a": 1 })).await.is_ok());
    }
}
