//! Questions a server puts in the middle of a call, put to the person through the session's question desk.
//!
//! A form is a flat object of texts, numbers, switches and choices; each property becomes one question. What the
//! person chose goes back as values of the form's types. What can't be read as such is asked once more.

use protocol::JsonMap;
use protocol::question::{Answers, Question, QuestionOption};
use rmcp::model::{ElicitResult, ElicitationAction};
use serde_json::{Value, json};
use tools::{Desk, Refusal};

/// Longest label of a question, in characters.
const HEADER: usize = 30;
/// Longest text of a server that is shown, in characters.
const MESSAGE: usize = 2_000;
/// Most questions of one form.
const FIELDS: usize = 20;
/// Most answers to choose from.
const OPTIONS: usize = 50;
/// How often a form is put to the person.
const ROUNDS: usize = 2;

const YES: &str = "Yes";
const NO: &str = "No";
const ACCEPT: &str = "Accept";
const DECLINE: &str = "Decline";
const DONE: &str = "Done";

/// Puts an `elicitation/create` to the person. `params` is the request's.
pub async fn ask(desk: &dyn Desk, server: &str, params: &Value) -> ElicitResult {
    let text = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let message = format!("The MCP server {server} asks: {}", cut(text, MESSAGE));
    if params.get("mode").is_some_and(|mode| mode == "url") {
        let url = params.get("url").and_then(Value::as_str).unwrap_or_default();
        return open(desk, &message, url).await;
    }
    let fields = fields(params.get("requestedSchema").unwrap_or(&Value::Null));
    if fields.is_empty() {
        let question = choice(message, "Confirm", [(ACCEPT, "Let the server go on"), (DECLINE, "Tell it no")]);
        return match desk.question(vec![question]).await {
            Ok(answers) if is_first(&answers, ACCEPT) => accept(JsonMap::new()),
            Ok(_) => ElicitResult::new(ElicitationAction::Decline),
            Err(refusal) => refused(&refusal),
        };
    }
    let mut content = JsonMap::new();
    let mut open: Vec<&Field> = fields.iter().collect();
    for round in 0..ROUNDS {
        let questions = open.iter().map(|field| field.question(&message, round > 0)).collect();
        let answers = match desk.question(questions).await {
            Ok(answers) => answers,
            Err(refusal) => return refused(&refusal),
        };
        let mut again = Vec::new();
        for (at, field) in open.into_iter().enumerate() {
            match field.read(answers.get(at).map(Vec::as_slice).unwrap_or_default()) {
                Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(Unreadable) => again.push(field),
            }
        }
        if again.is_empty() {
            return accept(content);
        }
        open = again;
    }
    ElicitResult::new(ElicitationAction::Decline)
}

async fn open(desk: &dyn Desk, message: &str, url: &str) -> ElicitResult {
    let text = format!("{message}\n\nOpen this address in a browser: {}", cut(url, MESSAGE));
    let question = choice(text, "Open an address", [(DONE, "It is open"), (DECLINE, "Tell the server no")]);
    match desk.question(vec![question]).await {
        Ok(answers) if is_first(&answers, DONE) => ElicitResult::new(ElicitationAction::Accept),
        Ok(_) => ElicitResult::new(ElicitationAction::Decline),
        Err(refusal) => refused(&refusal),
    }
}

fn accept(content: JsonMap) -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
}

fn refused(refusal: &Refusal) -> ElicitResult {
    let action = match refusal {
        Refusal::Dismissed | Refusal::Withdrawn => ElicitationAction::Cancel,
        Refusal::Rejected | Refusal::Corrected(_) | Refusal::Denied { .. } | Refusal::ByPlugin { .. } => {
            ElicitationAction::Decline
        }
    };
    ElicitResult::new(action)
}

fn is_first(answers: &Answers, label: &str) -> bool {
    answers.first().and_then(|answer| answer.first()).is_some_and(|answer| answer == label)
}

fn choice<const N: usize>(question: String, header: &str, options: [(&str, &str); N]) -> Question {
    let option =
        |(label, description): (&str, &str)| QuestionOption { label: label.into(), description: description.into() };
    Question {
        question,
        header: header.into(),
        options: options.into_iter().map(option).collect(),
        multiple: None,
        custom: Some(false),
    }
}

/// A property of a form.
struct Field {
    name: String,
    title: String,
    description: String,
    kind: Kind,
    is_required: bool,
    default: Option<Value>,
}

enum Kind {
    Text,
    Number,
    Integer,
    Flag,
    /// Value and label of each.
    One(Vec<(String, String)>),
    Many(Vec<(String, String)>),
}

/// The answer is none the form takes.
struct Unreadable;

fn fields(schema: &Value) -> Vec<Field> {
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, schema): (&String, &Value)| {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = match text("type") {
            "boolean" => Kind::Flag,
            "number" => Kind::Number,
            "integer" => Kind::Integer,
            "array" => Kind::Many(schema.get("items").map(options).unwrap_or_default()),
            _ => match options(schema) {
                options if options.is_empty() => Kind::Text,
                options => Kind::One(options),
            },
        };
        Field {
            name: name.clone(),
            title: if text("title").is_empty() { name.clone() } else { text("title").to_owned() },
            description: text("description").to_owned(),
            kind,
            is_required: required.is_some_and(|names| names.iter().any(|required| required == name)),
            default: schema.get("default").cloned(),
        }
    };
    properties.into_iter().flatten().take(FIELDS).map(field).collect()
}

/// The values a property may have, in any of the spellings there are.
fn options(schema: &Value) -> Vec<(String, String)> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    let options: Vec<(String, String)> = match titled {
        Some(titled) => {
            let option = |option: &Value| {
                let value = option.get("const")?.as_str()?.to_owned();
                let label = option.get("title").and_then(Value::as_str).map_or_else(|| value.clone(), str::to_owned);
                Some((value, label))
            };
            titled.iter().filter_map(option).collect()
        }
        None => {
            let names = schema.get("enumNames").and_then(Value::as_array);
            let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            let label = |at: usize| names.and_then(|names| names.get(at)?.as_str());
            values
                .enumerate()
                .filter_map(|(at, value)| {
                    let value = value.as_str()?.to_owned();
                    Some((value.clone(), label(at).map_or(value, str::to_owned)))
                })
                .collect()
        }
    };
    options.into_iter().take(OPTIONS).collect()
}

impl Field {
    fn question(&self, message: &str, is_again: bool) -> Question {
        let mut text = format!("{message}\n\n{}", cut(&self.title, MESSAGE));
        if !self.description.is_empty() {
            text.push_str(": ");
            text.push_str(&cut(&self.description, MESSAGE));
        }
        match self.kind {
            Kind::Number => text.push_str(" (a number)"),
            Kind::Integer => text.push_str(" (a whole number)"),
            _ => {}
        }
        if !self.is_required {
            text.push_str(" (may be left out)");
        }
        if is_again {
            text.push_str("\nThe answer before could not be used.");
        }
        let shown = self.default.as_ref().map(|default| match default {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let plain = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
        let options = match &self.kind {
            Kind::Flag => vec![plain(YES), plain(NO)],
            Kind::One(options) | Kind::Many(options) => {
                let described = |(value, label): &(String, String)| QuestionOption {
                    label: label.clone(),
                    description: if value == label { String::new() } else { value.clone() },
                };
                options.iter().map(described).collect()
            }
            Kind::Text | Kind::Number | Kind::Integer => {
                let default =
                    shown.into_iter().map(|label| QuestionOption { label, description: "the default".into() });
                default.collect()
            }
        };
        Question {
            question: text,
            header: cut(&self.title, HEADER),
            options,
            multiple: matches!(self.kind, Kind::Many(_)).then_some(true),
            custom: Some(matches!(self.kind, Kind::Text | Kind::Number | Kind::Integer)),
        }
    }

    fn read(&self, answer: &[String]) -> Result<Option<Value>, Unreadable> {
        let first = answer.first().map(|answer| answer.trim()).filter(|answer| !answer.is_empty());
        let Some(first) = first else {
            return match (&self.default, self.is_required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err(Unreadable),
            };
        };
        let value = match &self.kind {
            Kind::Text => json!(answer.join("\n")),
            Kind::Flag if first.eq_ignore_ascii_case(YES) || first == "true" => json!(true),
            Kind::Flag if first.eq_ignore_ascii_case(NO) || first == "false" => json!(false),
            Kind::Flag => return Err(Unreadable),
            Kind::Integer => json!(first.parse::<i64>().map_err(|_| Unreadable)?),
            Kind::Number => {
                let number = first.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                Value::Number(number.ok_or(Unreadable)?)
            }
            Kind::One(options) => json!(value_of(options, first)?),
            Kind::Many(options) => {
                let values = answer.iter().map(|answer| value_of(options, answer.trim()));
                json!(values.collect::<Result<Vec<_>, _>>()?)
            }
        };
        Ok(Some(value))
    }
}

fn value_of(options: &[(String, String)], answer: &str) -> Result<String, Unreadable> {
    let of_label = options.iter().find(|(_, label)| label == answer);
    let found = of_label.or_else(|| options.iter().find(|(value, _)| value == answer));
    found.map(|(value, _)| value.clone()).ok_or(Unreadable)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
