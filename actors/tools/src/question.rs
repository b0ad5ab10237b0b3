//! `question`: asks the person.

use protocol::question::{Question, QuestionOption};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::context::ToolContext;
use crate::error::ToolError;
use crate::tool::{Tool, ToolOutput, Traits};

/// Asks the person.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskPerson;

/// The arguments of [`AskPerson`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct QuestionsInput {
    /// What to ask, in order
    questions: Vec<QuestionInput>,
}

/// One question.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct QuestionInput {
    /// The whole question
    question: String,
    /// A label for it, at most 30 characters
    header: String,
    /// The answers to choose from
    options: Vec<OptionInput>,
    /// Whether several may be chosen
    #[serde(default)]
    #[schemars(with = "bool")]
    multiple: Option<bool>,
}

/// One answer to choose.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OptionInput {
    /// The answer, in one to five words
    label: String,
    /// What choosing it means
    description: String,
}

impl From<QuestionInput> for Question {
    fn from(input: QuestionInput) -> Self {
        let option = |option: OptionInput| QuestionOption { label: option.label, description: option.description };
        Self {
            question: input.question,
            header: input.header,
            options: input.options.into_iter().map(option).collect(),
            multiple: input.multiple,
            custom: None,
        }
    }
}

impl Tool for AskPerson {
    type Input = QuestionsInput;
    const ID: &'static str = "question";
    const DESCRIPTION: &'static str = include_str!("question.txt");
    const TRAITS: Traits = Traits::reading("question");

    async fn run(&self, input: QuestionsInput, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let questions: Vec<Question> = input.questions.into_iter().map(Question::from).collect();
        if questions.is_empty() {
            return Err(ToolError::failed("There is no question in the call. Ask at least one."));
        }
        let answers = cx.desk.question(questions.clone()).await?;
        let said = questions.iter().enumerate().map(|(at, question)| {
            // Too few answers are no error on the wire.
            let answer = answers.get(at).filter(|answer| !answer.is_empty()).map(|answer| answer.join(", "));
            format!("\"{}\"=\"{}\"", question.question, answer.as_deref().unwrap_or("Unanswered"))
        });
        let said = said.collect::<Vec<_>>().join(", ");
        let output = format!("The person has answered: {said}. Go on with these answers in mind.");
        let count = questions.len();
        let title = format!("Asked {count} question{}", if count == 1 { "" } else { "s" });
        Ok(ToolOutput::new(title, output, json!({ "answers": answers })))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;
    use crate::context::Refusal;
    use crate::testing::{Noted, assert_schema, context};
    use crate::tool::AnyTool;

    fn questions() -> Value {
        json!({ "questions": [
            { "question": "Which one?", "header": "Pick", "multiple": false,
              "options": [{ "label": "A", "description": "first" }, { "label": "B", "description": "second" }] },
            { "question": "And?", "header": "Two", "multiple": true, "options": [{ "label": "x", "description": "d" }] }
        ] })
    }

    async fn ask(
        input: Value,
        answers: Result<Vec<Vec<String>>, Refusal>,
    ) -> (Result<ToolOutput, ToolError>, Vec<Noted>) {
        let dir = tempfile::tempdir().unwrap();
        let (cx, desk) = context(dir.path());
        desk.answer(answers);
        let Value::Object(input) = input else { unreachable!() };
        (AnyTool::run(&AskPerson, input, &cx).await, desk.noted())
    }

    #[tokio::test]
    async fn answers_come_back_beside_their_questions() {
        let given = vec![vec!["A".to_owned()], vec!["x".to_owned(), "custom text".to_owned()]];
        let (output, noted) = ask(questions(), Ok(given)).await;
        let output = output.unwrap();
        assert_eq!(output.title, "Asked 2 questions");
        assert!(output.output.contains(": \"Which one?\"=\"A\", \"And?\"=\"x, custom text\". "), "{}", output.output);
        assert_eq!(Value::Object(output.metadata), json!({ "answers": [["A"], ["x", "custom text"]] }));
        let [Noted::Questioned(asked)] = noted.as_slice() else { panic!("{noted:?}") };
        assert_eq!(serde_json::to_value(asked).unwrap(), questions()["questions"]);
    }

    #[tokio::test]
    async fn missing_answers_read_unanswered() {
        let output = ask(questions(), Ok(Vec::new())).await.0.unwrap();
        assert!(
            output.output.contains("\"Which one?\"=\"Unanswered\", \"And?\"=\"Unanswered\". "),
            "{}",
            output.output
        );
        assert_eq!(Value::Object(output.metadata), json!({ "answers": [] }));
    }

    #[tokio::test]
    async fn a_closed_question_is_a_refusal() {
        let (output, _) = ask(questions(), Err(Refusal::Dismissed)).await;
        assert!(matches!(output, Err(ToolError::Refused(Refusal::Dismissed))));
        assert!(ask(json!({ "questions": [] }), Ok(Vec::new())).await.0.is_err());
    }

    #[test]
    fn the_schema_is_opencodes() {
        let text = json!({ "type": "string" });
        let option = json!({
            "type": "object",
            "properties": { "label": text, "description": text },
            "required": ["label", "description"]
        });
        let wanted = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "questions": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "question": text,
                    "header": text,
                    "options": { "type": "array", "items": option },
                    "multiple": { "type": "boolean" }
                },
                "required": ["question", "header", "options"]
            } } },
            "required": ["questions"]
        });
        assert_schema(&AnyTool::spec(&AskPerson).parameters, &wanted);
    }
}
