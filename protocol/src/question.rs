//! Questions a model puts to the person.

use serde::{Deserialize, Serialize};

use crate::id::{QuestionId, SessionId};
use crate::permission::ToolRef;

/// A set of questions asked at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRequest {
    /// What replies name.
    pub id: QuestionId,
    /// The session whose model asks.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The questions, in order.
    pub questions: Vec<Question>,
    /// The tool call that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The whole question.
    pub question: String,
    /// A very short label.
    pub header: String,
    /// Answers to choose from.
    pub options: Vec<QuestionOption>,
    /// Whether several may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// Whether free text is welcome (default: yes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
}

/// One answer to choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// The answers to one [`QuestionRequest`]: one list for each question, in order; each entry a label or free text.
pub type Answers = Vec<Vec<String>>;
